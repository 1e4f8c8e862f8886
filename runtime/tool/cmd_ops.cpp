// SPDX-License-Identifier: Apache-2.0
// Implements `fusec ops`: prints the scalar and tensor op tables, as JSON or as the markdown of docs/ops.md.

#include "ir/ops/op.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {
namespace {

Json ops_json() {
  Json scalar = Json::array(), tensor = Json::array();
  for (const ir::ScalarOpInfo& op : ir::all_scalar_ops()) {
    scalar.push_back({{"name", op.name},
                      {"arity", op.arity},
                      {"definition", op.definition},
                      {"gradient", op.gradient},
                      {"ulp", op.ulp},
                      {"cost", op.cost}});
  }
  for (const ir::TensorOpInfo& op : ir::all_tensor_ops()) {
    tensor.push_back({{"name", op.name},
                      {"min_inputs", op.min_inputs},
                      {"max_inputs", op.max_inputs},
                      {"attributes", op.attributes}});
  }
  return {{"scalar", scalar}, {"tensor", tensor}};
}

}  // namespace

Command ops_command() {
  auto json = std::make_shared<bool>(false);
  return {"ops", "the op tables, as docs/ops.md has them",
          "  fusec ops > docs/ops.md\n"
          "  fusec ops --json",
          [json](Flags& f) { f.flag("--json", *json, "machine-readable"); },
          [json]() -> Result<bool> {
            if (*json) {
              print(ops_json());
            } else {
              print_text(ir::ops_markdown());
            }
            return true;
          }};
}

}  // namespace fusec::tool
