// SPDX-License-Identifier: Apache-2.0
#include "runtime/library/interface/library.h"
#include "runtime/library/plain/plain.h"
#if FUSEC_WITH_DNNL
#include "runtime/library/onednn/onednn.h"
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

}  // namespace fusec::runtime
