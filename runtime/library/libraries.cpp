// SPDX-License-Identifier: Apache-2.0
// Lists the libraries of an engine in order of preference when it is opened. On the host: oneDNN where it is built in
// and allowed, then the plain loops, which take every step. On a GPU: cuBLASLt, then cuDNN; a missing one causes a
// warning, not an error, since the compiler writes out what it would compute.

#include "runtime/cache/artifact.h"
#include "runtime/library/interface/device_weights.h"
#include "runtime/library/interface/library.h"
#include "runtime/library/plain/plain.h"

#if FUSEC_WITH_DNNL
#include "runtime/library/onednn/onednn.h"
#endif
#if FUSEC_WITH_CUBLASLT
#include "runtime/library/cublaslt/cublaslt.h"
#endif
#if FUSEC_WITH_CUDA
#include "runtime/library/cudnn/cudnn.h"
#endif

namespace fusec::runtime {

std::vector<std::shared_ptr<Library>> host_libraries(const Options& options) {
  std::vector<std::shared_ptr<Library>> libraries;
#if FUSEC_WITH_DNNL
  if (options.use_library) libraries.push_back(make_onednn_library(options.numerics));
#else
  (void)options;
#endif
  libraries.push_back(make_plain_library());
  return libraries;
}

std::vector<std::shared_ptr<Library>> cuda_libraries(const Options& options,
                                                     const std::shared_ptr<DeviceMemory>& memory) {
  std::vector<std::shared_ptr<Library>> libraries;
#if FUSEC_WITH_CUDA
  if (!options.use_library) {
    make_warn(options)("running without cuBLASLt and cuDNN, as asked: generated code takes their place, which is slow");
    return libraries;
  }
  const auto take = [&](Result<std::shared_ptr<Library>> library, const char* loss) {
    if (library.ok()) {
      libraries.push_back(*std::move(library));
    } else {
      make_warn(options)(std::string(loss) + ": " + library.status().message());
    }
  };
#if FUSEC_WITH_CUBLASLT
  take(make_cublaslt_library(options, memory),
       "running without cuBLASLt: models compiled here have generated code in its place, which is slow, and packages "
       "that "
       "call it do not run");
#endif
  take(make_cudnn_library(options, memory),
       "running without cuDNN: models compiled here have matrix products of patches in place of convolutions, which is "
       "slow, and packages that call it do not run");
#else
  (void)options, (void)memory;
#endif
  return libraries;
}

}  // namespace fusec::runtime
