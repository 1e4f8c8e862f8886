// SPDX-License-Identifier: Apache-2.0
// Run once by `./dev setup`: fails when the onnx archive lacks something the importer relies on.
#include <cstdio>
#include <exception>
#include <string>

#include "onnx/checker.h"
#include "onnx/defs/parser.h"
#include "onnx/defs/schema.h"
#include "onnx/inliner/inliner.h"
#include "onnx/shape_inference/implementation.h"
#include "onnx/version_converter/convert.h"

int main() try {
  using namespace fusec_onnx;
  ModelProto model;
  OnnxParser parser(R"(<ir_version: 8, opset_import: ["" : 13]>
    check (float[N, 4] x) => (float[N, 4] y) { h = HardSwish14(x) y = Softmax(h) })");
  // An unknown operator must be refused, or the schemas were not registered.
  if (!parser.Parse(model).IsOK()) return std::puts("onnx text was not parsed"), 1;
  try {
    checker::check_model(model);
    return std::puts("an unknown operator passed the checker"), 1;
  } catch (const checker::ValidationError&) {
  }
  model.mutable_graph()->mutable_node(0)->set_op_type("Relu");
  checker::check_model(model);
  shape_inference::InferShapes(model);
  if (model.graph().value_info_size() != 1) return std::puts("no shape was inferred"), 1;
  ModelProto newer = version_conversion::ConvertVersion(model, 21);
  if (newer.opset_import(0).version() != 21) return std::puts("the opset was not converted"), 1;
  inliner::InlineLocalFunctions(newer, false);
  const OpSchema* gelu = OpSchemaRegistry::Schema("Gelu", 21, "");
  if (gelu == nullptr || !gelu->HasContextDependentFunction()) return std::puts("Gelu has no function body"), 1;
  if (ModelProto::descriptor()->full_name() != "fusec_onnx.ModelProto") return std::puts("the package is not ours"), 1;
  std::string bytes;
  ModelProto again;
  if (!newer.SerializeToString(&bytes) || !again.ParseFromString(bytes)) return std::puts("no round trip"), 1;
  return 0;
} catch (const std::exception& e) {
  return std::puts(e.what()), 1;
}
