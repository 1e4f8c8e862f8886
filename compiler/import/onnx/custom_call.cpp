// SPDX-License-Identifier: Apache-2.0
#include "compiler/import/onnx/custom_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compiler/import/onnx/error.h"

namespace fusec::importer {
namespace {

// "axis=1 names=[a, b]": numbers, texts and lists of them, by name.
std::string attributes_text(const proto::NodeProto& node) {
  std::string out;
  for (const proto::AttributeProto& a : node.attribute()) {
    out += (out.empty() ? "" : " ") + a.name() + "=";
    if (a.type() == proto::AttributeProto::INT) {
      out += std::to_string(a.i());
    } else if (a.type() == proto::AttributeProto::FLOAT) {
      out += fmt::format("{}", a.f());
    } else if (a.type() == proto::AttributeProto::STRING) {
      out += a.s();
    } else if (a.type() == proto::AttributeProto::INTS) {
      out += fmt::format("[{}]", fmt::join(a.ints(), ", "));
    } else if (a.type() == proto::AttributeProto::FLOATS) {
      out += fmt::format("[{}]", fmt::join(a.floats(), ", "));
    } else {
      fail_unsupported(fmt::format("attribute '{}' of a custom call: numbers, texts and lists of numbers are read",
                                   short_name(a.name())));
    }
  }
  return out;
}

// Extents without a name, or with one that no input has, would have no value in a run.
void check_known(const Builder& b, const Shape& shape, const std::string& name) {
  std::set<std::string> used;
  for (const Dim& extent : shape) extent.collect_symbols(used);
  for (const std::string& symbol : used) {
    if (std::find(b.symbols().begin(), b.symbols().end(), symbol) != b.symbols().end()) continue;
    fail_unsupported(
        fmt::format("a custom call whose result '{}' has the extent '{}' in value_info, which no input has",
                    short_name(name), short_name(symbol)));
  }
}

}  // namespace

Val import_custom_call(Builder& b, const proto::NodeProto& node, const std::string& domain,
                       const std::vector<Val>& inputs, const std::optional<ir::Type>& type) {
  if (node.output_size() != 1) fail_unsupported("a custom call with several outputs");
  if (std::any_of(inputs.begin(), inputs.end(), [](Val v) { return !v.valid(); }))
    fail_unsupported("a custom call without one of its inputs");
  if (!type)
    fail_unsupported(fmt::format("a custom call needs the type of '{}' in value_info", short_name(node.output(0))));
  b.check_size(*type);
  check_known(b, type->shape, node.output(0));
  return b.emit(ir::TensorOp::custom_call, inputs,
                {{"name", domain + "." + node.op_type()},
                 {"attributes", attributes_text(node)},
                 {"dtype", type->dtype},
                 {"shape", type->shape}});
}

}  // namespace fusec::importer
