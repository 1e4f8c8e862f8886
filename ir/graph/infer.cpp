// SPDX-License-Identifier: Apache-2.0
// Infers the result type of an op: checks operand count and attributes against the op table, then applies the type rule
// of the row. Type errors are statuses, not failed checks.

#include <algorithm>

#include "ir/graph/graph.h"
#include "ir/graph/infer_rules.h"

namespace fusec::ir {

using infer::Args;
using infer::bad;
using infer::differ;

Result<Shape> broadcast_shapes(const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), Dim(1));
  for (std::size_t i = 0; i < out.size(); ++i) {  // from the right
    const Dim x = i < a.size() ? a[a.size() - 1 - i] : Dim(1), y = i < b.size() ? b[b.size() - 1 - i] : Dim(1);
    if (!(x == y) && !x.is(1) && !y.is(1)) {
      return differ(x, y,
                    "extents " + x.str() + " and " + y.str() + " do not broadcast: shapes are " + to_string(a) +
                        " and " + to_string(b));
    }
    out[out.size() - 1 - i] = x.is(1) ? y : x;
  }
  return out;
}

namespace infer {

Status bad(std::string message) { return Status(StatusCode::invalid_model, std::move(message)); }

Status differ(const Shape& a, const Shape& b, std::string message) {
  const auto may = [](const Dim& x, const Dim& y) { return !x.is_const() || !y.is_const() || x == y; };
  if (a.size() != b.size() || !std::equal(a.begin(), a.end(), b.begin(), may)) return bad(std::move(message));
  return Status(StatusCode::unsupported,
                std::move(message) + "; extents that a run may give one value must have one name");
}

Status check_axis(int64_t axis, int rank, const char* what) {
  if (axis >= 0 && axis < rank) return Status();
  return bad(std::string(what) + " " + std::to_string(axis) + " is outside the axes of rank " + std::to_string(rank));
}

Status check_extents(const Shape& shape, const char* what) {
  for (const Dim& d : shape) {
    if (d.is_const() && d.value() < 0)
      return bad(std::string(what) + " has the negative extent " + d.str() + " in " + to_string(shape));
  }
  return Status();
}

Status check_rank(const Type& type, std::size_t rank, const char* what) {
  if (type.shape.size() == rank) return Status();
  return bad(std::string(what) + " must have rank " + std::to_string(rank) + ", got " + to_string(type));
}

namespace {

bool is_select(ScalarOp op) { return info(op).typing == Typing::select; }

Result<Type> infer_scalar(ScalarOp op, const Args& in, const Attrs& attrs) {
  const std::size_t first = is_select(op) ? 1 : 0;  // first of the operands that share a dtype
  if (first == 1 && in[0].dtype != DType::bool_) return bad("the condition must be bool, got " + to_string(in[0]));
  const DType dtype = in[first].dtype;
  for (std::size_t i = first; i < in.size(); ++i) {
    if (in[i].dtype != dtype) {
      return bad("operands must have one type, got " + to_string(in[first]) + " and " + to_string(in[i]));
    }
  }
  if (!accepts(op, dtype)) return bad(std::string("operands of type ") + to_string(dtype) + " are not accepted");
  const DType to = info(op).typing == Typing::cast ? attrs.dtype("to") : dtype;
  Shape shape = in[0].shape;
  for (const Type& type : in) {
    FUSEC_ASSIGN(shape, broadcast_shapes(shape, type.shape));
  }
  return Type{result_type(op, dtype, to), std::move(shape)};
}

// Whether `value` has the attribute kind named in the table.
bool has_kind(const AttrValue& value, std::string_view kind) {
  if (kind == "int") return std::holds_alternative<int64_t>(value);
  if (kind == "ints") return std::holds_alternative<std::vector<int64_t>>(value);
  if (kind == "dims") return std::holds_alternative<Shape>(value);
  if (kind == "dtype") return std::holds_alternative<DType>(value);
  if (kind == "float") return std::holds_alternative<double>(value);
  return kind == "str" && std::holds_alternative<std::string>(value);
}

// `table` is "name:kind name:kind"; exactly these attributes must be present.
Status check_attrs(std::string_view table, const Attrs& attrs) {
  std::size_t count = 0;
  while (!table.empty()) {
    const std::string_view item = table.substr(0, table.find(' '));
    table.remove_prefix(std::min(table.size(), item.size() + 1));
    const std::string_view name = item.substr(0, item.find(':')), kind = item.substr(item.find(':') + 1);
    const AttrValue* value = attrs.find(name);
    if (value == nullptr) return bad("attribute '" + std::string(name) + "' is missing");
    if (!has_kind(*value, kind))
      return bad("attribute '" + std::string(name) + "' must be of kind " + std::string(kind));
    ++count;
  }
  if (count != attrs.items().size()) return bad("there is an attribute that the op does not have");
  return Status();
}

Status check_inputs(int least, int most, std::size_t got) {
  const int n = static_cast<int>(got);
  if (n >= least && (most < 0 || n <= most)) return Status();
  std::string expected = std::to_string(least);
  if (most != least) expected += most < 0 ? " or more" : " to " + std::to_string(most);
  return bad("expected " + expected + " operands, got " + std::to_string(n));
}

Result<Type> infer_checked(Op op, const Args& in, const Attrs& attrs) {
  if (op.is_scalar()) {
    const ScalarOpInfo& row = info(op.scalar());
    if (is_kernel_op(op.scalar())) return bad("'" + std::string(row.name) + "' is an op of kernels, not of graphs");
    FUSEC_TRY(check_inputs(row.arity, row.arity, in.size()));
    FUSEC_TRY(check_attrs(row.typing == Typing::cast ? "to:dtype" : "", attrs));
    return infer_scalar(op.scalar(), in, attrs);
  }
  const TensorOpInfo& row = info(op.tensor());
  FUSEC_TRY(check_inputs(row.min_inputs, row.max_inputs, in.size()));
  FUSEC_TRY(check_attrs(row.attributes, attrs));
  using Rule = Result<Type> (*)(const Args&, const Attrs&);
  static constexpr Rule kRules[] = {
#define TENSOR_OP(name, ...) infer_##name,
#include "ir/ops/tensor_ops.def"
  };
  return kRules[static_cast<std::size_t>(op.tensor())](in, attrs);
}

}  // namespace
}  // namespace infer

Result<Type> infer_type(Op op, const std::vector<Type>& inputs, const Attrs& attrs) {
  const auto named = [&](Status status) {
    return Status(status.code(), std::string(op.name()) + ": " + status.message());
  };
  try {
    Result<Type> type = infer::infer_checked(op, inputs, attrs);
    if (!type.ok()) return named(type.status());
    Status extents = infer::check_extents(type->shape, "the result");
    if (!extents.ok()) return named(std::move(extents));
    return type;
  } catch (const DimOverflow& e) {
    // ONNX has no rule against extents past 64 bits, for example in an empty tensor.
    return named(Status(StatusCode::unsupported, e.what()));
  }
}

}  // namespace fusec::ir
