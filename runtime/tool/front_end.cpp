// SPDX-License-Identifier: Apache-2.0
#include "runtime/tool/front_end.h"

#include "runtime/device/host/detect.h"

namespace fusec::tool {

Result<FrontEnd> run_stages(const ModelFlags& flags, Stage last) {
  FrontEnd f;
  FUSEC_ASSIGN(f.options, options_of(flags));
  FUSEC_ASSIGN(f.target, runtime::host_target(f.options));
  FUSEC_ASSIGN(Loaded loaded, load_model(flags));
  f.model = std::move(loaded.model);
  FUSEC_ASSIGN(static_cast<runtime::Stages&>(f), runtime::run_stages(*f.model.graph, f.target, f.options, last));
  return f;
}

}  // namespace fusec::tool
