// SPDX-License-Identifier: Apache-2.0
// Builds the table of ONNX ops from ops.def for the import stage, and gives handlers checked access to attributes and
// known inputs of a node.

#include "compiler/import/onnx/ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/fold.h"
#include "compiler/import/onnx/tensor.h"
#include "ir/support/check.h"

namespace fusec::importer {

using proto::AttributeProto;

namespace {

std::vector<OpRow> make_table() {
  std::vector<OpRow> rows = {
#define ONNX_OP(name, since, handler) {#name, since, handler, std::nullopt},
#define ONNX_MAP(name, since, handler, op) {#name, since, handler, ir::Op(op)},
#include "compiler/import/onnx/ops.def"
  };
  std::sort(rows.begin(), rows.end(), [](const OpRow& a, const OpRow& b) { return a.name < b.name; });
  return rows;
}

}  // namespace

std::span<const OpRow> all_onnx_ops() {
  static const std::vector<OpRow> table = make_table();
  return table;
}

const OpRow* find_onnx_op(std::string_view name) {
  std::span<const OpRow> rows = all_onnx_ops();
  auto row =
      std::lower_bound(rows.begin(), rows.end(), name, [](const OpRow& r, std::string_view n) { return r.name < n; });
  return row != rows.end() && row->name == name ? &*row : nullptr;
}

bool knows_version(const OpRow& row, int64_t since) {
  const char* end = row.since.data() + row.since.size();
  for (const char* at = row.since.data(); at < end; ++at) {
    int64_t version = 0;
    at = std::from_chars(at, end, version).ptr;
    if (version == since) return true;
  }
  return false;
}

Val NodeContext::in(std::size_t i) const {
  if (!has(i)) fail_invalid(fmt::format("input {} is missing", i));
  return inputs_[i];
}

bool NodeContext::wants(std::size_t output) const {
  return output < outputs_.size() && !node_->output(static_cast<int>(output)).empty();
}

void NodeContext::out(std::size_t i, Val value) {
  if (i < outputs_.size()) outputs_[i] = value;
}

const AttributeProto* NodeContext::find(std::string_view name) const {
  for (const AttributeProto& attribute : node_->attribute()) {
    if (attribute.name() == name) return &attribute;
  }
  return nullptr;
}

const AttributeProto* NodeContext::find(std::string_view name, AttributeProto::AttributeType type) const {
  const AttributeProto* attribute = find(name);
  if (attribute != nullptr && attribute->type() != type) {
    fail_invalid(fmt::format("attribute '{}' must be {}", name, AttributeProto::AttributeType_Name(type)));
  }
  return attribute;
}

int64_t NodeContext::i(std::string_view name, int64_t otherwise) const {
  const AttributeProto* attribute = find(name, AttributeProto::INT);
  return attribute ? attribute->i() : otherwise;
}

double NodeContext::f(std::string_view name, double otherwise) const {
  const AttributeProto* attribute = find(name, AttributeProto::FLOAT);
  return attribute ? static_cast<double>(attribute->f()) : otherwise;
}

std::string NodeContext::s(std::string_view name, std::string otherwise) const {
  const AttributeProto* attribute = find(name, AttributeProto::STRING);
  return attribute ? attribute->s() : otherwise;
}

std::optional<std::vector<int64_t>> NodeContext::ints(std::string_view name) const {
  const AttributeProto* attribute = find(name, AttributeProto::INTS);
  if (!attribute) return std::nullopt;
  return std::vector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

std::optional<std::vector<double>> NodeContext::floats(std::string_view name) const {
  const AttributeProto* attribute = find(name, AttributeProto::FLOATS);
  if (!attribute) return std::nullopt;
  return std::vector<double>(attribute->floats().begin(), attribute->floats().end());
}

std::optional<Tensor> NodeContext::tensor(std::string_view name) const {
  const AttributeProto* attribute = find(name, AttributeProto::TENSOR);
  if (!attribute) return std::nullopt;
  return read_tensor(attribute->t(), *source_);
}

std::vector<Dim> NodeContext::dims(std::size_t i, const char* what) const {
  std::optional<std::vector<Dim>> known = b.known_integers(in(i));
  if (known && !is_short_product(*known))
    fail_unsupported(fmt::format("{} that are formulas of very many terms", what));
  if (known) return *known;
  fail_unsupported(fmt::format("{} that depend on data", what));
}

std::vector<int64_t> NodeContext::const_ints(std::size_t i, const char* what) const {
  std::vector<int64_t> values;
  for (const Dim& d : dims(i, what)) {
    if (!d.is_const()) fail_unsupported(fmt::format("{} that depend on the extents of inputs ({})", what, d.str()));
    values.push_back(d.value());
  }
  return values;
}

double NodeContext::const_float(std::size_t i, const char* what) const {
  const Tensor* data = b.data(in(i));
  if (data == nullptr) fail_unsupported(fmt::format("{} that depends on data", what));
  if (data->num_elements() != 1) fail_invalid(fmt::format("{} must be a scalar", what));
  return load_f64(*data, 0);
}

std::optional<std::vector<int64_t>> NodeContext::attr_or_input(std::string_view name, std::size_t i) const {
  if (std::optional<std::vector<int64_t>> values = ints(name)) return values;
  if (!has(i)) return std::nullopt;
  return const_ints(i, std::string(name).c_str());
}

int64_t normal_axis(int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) fail_invalid(fmt::format("axis {} is outside [{}, {})", axis, -rank, rank));
  return axis < 0 ? axis + rank : axis;
}

std::vector<int64_t> normal_axes(const std::vector<int64_t>& axes, int64_t rank) {
  std::set<int64_t> sorted;
  for (int64_t axis : axes) {
    if (!sorted.insert(normal_axis(axis, rank)).second) fail_invalid(fmt::format("axis {} is named twice", axis));
  }
  return {sorted.begin(), sorted.end()};
}

}  // namespace fusec::importer
