// SPDX-License-Identifier: Apache-2.0
#include "runtime/tool/front_end.h"

#include "compiler/lower/lower.h"
#include "compiler/select/select.h"
#include "runtime/device/host/detect.h"

namespace fusec::tool {

Result<FrontEnd> run_stages(const ModelFlags& flags, Stage last) {
  FrontEnd f;
  FUSEC_ASSIGN(f.options, options_of(flags));
  FUSEC_ASSIGN(f.target, runtime::host_target(f.options));
  FUSEC_ASSIGN(Loaded loaded, load_model(flags));
  f.model = std::move(loaded.model);
  f.graph = *f.model.graph;
  if (last == Stage::import) return f;
  FUSEC_TRY(compiler::optimize(f.graph, f.target, f.options, &f.passes));
  if (last == Stage::optimize) return f;
  FUSEC_ASSIGN(f.partition, compiler::partition(f.graph, f.target, f.options));
  if (last == Stage::partition) return f;
  FUSEC_ASSIGN(f.program, compiler::lower(f.graph, f.partition, f.target, f.options));
  if (last == Stage::lower) return f;
  FUSEC_TRY(compiler::select(f.program, f.target));
  return f;
}

}  // namespace fusec::tool
