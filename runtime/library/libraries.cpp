// SPDX-License-Identifier: Apache-2.0
// Lists the libraries of an engine in order of preference when it is opened. On the host: oneDNN where it is built in
// and allowed, then the plain loops, which take every step. On a GPU: cuBLASLt, then cuDNN; a missing one causes a
// warning, not an error, since the compiler writes out what it would compute.

#include "runtime/cache/artifact.h"
#include "runtime/library/calls/calls.h"
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
  std::vector<std::shared_ptr<Library>> libraries{make_call_library(TargetKind::cpu)};
#if FUSEC_WITH_DNNL
  if (options.use_library) libraries.push_back(make_onednn_library(options.numerics, options.batch_invariant));
#else
  (void)options;
#endif
  libraries.push_back(make_plain_library());
  return libraries;
}

std::vector<std::shared_ptr<Library>> cuda_libraries(const Options& options,
                                                     const std::shared_ptr<DeviceMemory>& memory) {
  std::vector<std::shared_ptr<Library>> libraries{make_call_library(TargetKind::cuda)};
#if FUSEC_WITH_CUDA
  if (!options.use_library) {
    make_warn(options)("running without cuBLASLt and cuDNN, as asked: slower generated code takes their place");
    return libraries;
  }
  std::string missing, reasons;
  const auto take = [&](Result<std::shared_ptr<Library>> library, const char* name) {
    if (library.ok()) return libraries.push_back(*std::move(library));
    missing += (missing.empty() ? "" : " and ") + std::string(name);
    reasons += "; " + library.status().message();
  };
#if FUSEC_WITH_CUBLASLT
  take(make_cublaslt_library(options, memory), "cuBLASLt");
#endif
  take(make_cudnn_library(options, memory), "cuDNN");
  if (!missing.empty())
    make_warn(options)("running without " + missing +
                       ": models compiled here have slower generated code in the place of its calls, and packages "
                       "with such calls do not run" +
                       reasons);
#else
  (void)options, (void)memory;
#endif
  return libraries;
}

}  // namespace fusec::runtime
