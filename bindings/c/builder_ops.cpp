// SPDX-License-Identifier: Apache-2.0
// The table of builder ops.

#include "bindings/c/builder_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "fusec/custom_call.h"
#include "ir/ops/op.h"

namespace fusec::c {
namespace {

using Args = std::span<const Var>;
using A = const Attributes&;

WindowOptions window(A a) {
  return {a.integers("strides"), a.integers("pads"), a.integers("dilations"), a.flag("channels_last")};
}

#define FUSEC_REDUCTION(op)                                                                          \
  {                                                                                                  \
#op, 1, 1, "axes:integers keep:flag?",                                                           \
        [](GraphBuilder & b, Args x, A a) { return b.op(x[0], a.integers("axes"), a.flag("keep")); } \
  }

const BuilderOp kOps[] = {
    {"cast", 1, 1, "to:dtype", [](GraphBuilder& b, Args x, A a) { return b.cast(x[0], a.dtype("to")); }},

    {"iota", 0, 0, "dtype:dtype shape:extents axis:integer",
     [](GraphBuilder& b, Args, A a) { return b.iota(a.dtype("dtype"), a.extents("shape"), a.integer("axis")); }},
    {"dim", 0, 0, "value:extent dtype:dtype?",
     [](GraphBuilder& b, Args, A a) { return b.dim(a.extent("value"), a.dtype("dtype", DType::i64)); }},
    {"broadcast", 1, 1, "shape:extents",
     [](GraphBuilder& b, Args x, A a) { return b.broadcast(x[0], a.extents("shape")); }},
    {"reshape", 1, 1, "shape:extents",
     [](GraphBuilder& b, Args x, A a) { return b.reshape(x[0], a.extents("shape")); }},
    {"transpose", 1, 1, "perm:integers",
     [](GraphBuilder& b, Args x, A a) { return b.transpose(x[0], a.integers("perm")); }},
    {"slice", 1, 1, "starts:extents sizes:extents steps:integers?",
     [](GraphBuilder& b, Args x, A a) {
       return b.slice(x[0], a.extents("starts"), a.extents("sizes"), a.integers("steps"));
     }},
    {"concat", 1, -1, "axis:integer",
     [](GraphBuilder& b, Args x, A a) {
       return b.concat({x.begin(), x.end()}, a.integer("axis"));
     }},
    {"pad", 1, 2, "before:extents after:extents",  // the second one is the value, 0 without it
     [](GraphBuilder& b, Args x, A a) {
       return b.pad(x[0], a.extents("before"), a.extents("after"), x.size() > 1 ? Operand(x[1]) : Operand(0));
     }},
    {"pad_mode", 1, 1, "before:extents after:extents mode:name",
     [](GraphBuilder& b, Args x, A a) {
       return b.pad_mode(x[0], a.extents("before"), a.extents("after"), a.name("mode"));
     }},
    {"gather", 2, 2, "axis:integer",
     [](GraphBuilder& b, Args x, A a) { return b.gather(x[0], x[1], a.integer("axis")); }},
    {"gather_elements", 2, 2, "axis:integer",
     [](GraphBuilder& b, Args x, A a) { return b.gather_elements(x[0], x[1], a.integer("axis")); }},
    {"gather_nd", 2, 2, "batch_dims:integer?",
     [](GraphBuilder& b, Args x, A a) { return b.gather_nd(x[0], x[1], a.integer("batch_dims")); }},
    {"topk", 1, 1, "k:extent axis:integer? largest:flag?",
     [](GraphBuilder& b, Args x, A a) {
       return b.topk(x[0], a.extent("k"), a.integer("axis", -1), a.flag("largest", true));
     }},
    {"scatter_elements", 3, 3, "axis:integer reduction:name?",
     [](GraphBuilder& b, Args x, A a) {
       return b.scatter_elements(x[0], x[1], x[2], a.integer("axis"), a.name("reduction", "none"));
     }},
    {"scatter_nd", 3, 3, "reduction:name?",
     [](GraphBuilder& b, Args x, A a) { return b.scatter_nd(x[0], x[1], x[2], a.name("reduction", "none")); }},

    FUSEC_REDUCTION(reduce_sum),
    FUSEC_REDUCTION(reduce_prod),
    FUSEC_REDUCTION(reduce_max),
    FUSEC_REDUCTION(reduce_min),
    FUSEC_REDUCTION(reduce_mean),
    {"argmax", 1, 1, "axis:integer last:flag?",
     [](GraphBuilder& b, Args x, A a) { return b.argmax(x[0], a.integer("axis"), a.flag("last")); }},
    {"argmin", 1, 1, "axis:integer last:flag?",
     [](GraphBuilder& b, Args x, A a) { return b.argmin(x[0], a.integer("axis"), a.flag("last")); }},
    {"cumsum", 1, 1, "axis:integer exclusive:flag? reverse:flag?",
     [](GraphBuilder& b, Args x, A a) {
       return b.cumsum(x[0], a.integer("axis"), a.flag("exclusive"), a.flag("reverse"));
     }},

    {"matmul", 2, 2, "transpose_a:flag? transpose_b:flag?",
     [](GraphBuilder& b, Args x, A a) { return b.matmul(x[0], x[1], a.flag("transpose_a"), a.flag("transpose_b")); }},
    {"conv", 2, 3, "strides:integers? pads:integers? dilations:integers? channels_last:flag? groups:integer?",
     [](GraphBuilder& b, Args x, A a) {
       const int64_t groups = a.integer("groups", 1);
       return x.size() > 2 ? b.conv(x[0], x[1], x[2], window(a), groups) : b.conv(x[0], x[1], window(a), groups);
     }},
    {"max_pool", 1, 1,
     "kernel:integers strides:integers? pads:integers? dilations:integers? channels_last:flag? ceil_mode:flag?",
     [](GraphBuilder& b, Args x, A a) {
       return b.max_pool(x[0], a.integers("kernel"), window(a), a.flag("ceil_mode"));
     }},
    {"avg_pool", 1, 1,
     "kernel:integers strides:integers? pads:integers? dilations:integers? channels_last:flag? ceil_mode:flag? "
     "count_include_pad:flag?",
     [](GraphBuilder& b, Args x, A a) {
       return b.avg_pool(x[0], a.integers("kernel"), window(a), a.flag("ceil_mode"), a.flag("count_include_pad"));
     }},
    {"attention", 3, 4, "scale:number",
     [](GraphBuilder& b, Args x, A a) {
       const double scale = a.number("scale");
       return x.size() > 3 ? b.attention(x[0], x[1], x[2], x[3], scale) : b.attention(x[0], x[1], x[2], scale);
     }},
    {"custom_call", 1, static_cast<int>(kMaxCallInputs), "name:text dtype:dtype shape:extents attributes:text?",
     [](GraphBuilder& b, Args x, A a) {
       return b.custom_call(a.name("name"), {x.begin(), x.end()}, a.dtype("dtype"), a.extents("shape"),
                            a.name("attributes"));
     }},

    {"softmax", 1, 1, "axis:integer", [](GraphBuilder& b, Args x, A a) { return b.softmax(x[0], a.integer("axis")); }},
    {"log_softmax", 1, 1, "axis:integer",
     [](GraphBuilder& b, Args x, A a) { return b.log_softmax(x[0], a.integer("axis")); }},
    {"layer_norm", 3, 3, "eps:number?",
     [](GraphBuilder& b, Args x, A a) { return b.layer_norm(x[0], x[1], x[2], a.number("eps", 1e-5)); }},
    {"rms_norm", 2, 2, "eps:number?",
     [](GraphBuilder& b, Args x, A a) { return b.rms_norm(x[0], x[1], a.number("eps", 1e-6)); }},
    {"linear", 3, 3, "", [](GraphBuilder& b, Args x, A) { return b.linear(x[0], x[1], x[2]); }},
};

#undef FUSEC_REDUCTION

std::string count_text(const BuilderOp& op) {
  if (op.max_args < 0) return fmt::format("at least {}", op.min_args);
  return op.min_args == op.max_args ? std::to_string(op.min_args) : fmt::format("{} to {}", op.min_args, op.max_args);
}

}  // namespace

std::vector<BuilderOp> builder_ops() {
  std::vector<BuilderOp> ops(std::begin(kOps), std::end(kOps));
  for (const ir::ScalarOpInfo& op : ir::all_scalar_ops()) {
    if (op.name != std::string_view("cast")) ops.push_back({op.name, op.arity, op.arity, "", nullptr});
  }
  return ops;
}

Result<Var> build_op(GraphBuilder& builder, std::string_view name, Args args, std::string_view text) {
  const std::vector<BuilderOp> ops = builder_ops();
  const auto op = std::find_if(ops.begin(), ops.end(), [&](const BuilderOp& known) { return known.name == name; });
  if (op == ops.end()) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("there is no op '{}'; fusec_builder_ops_json lists all", name));
  }
  const auto count = static_cast<int>(std::min<std::size_t>(args.size(), INT32_MAX));
  if (count < op->min_args || (op->max_args >= 0 && count > op->max_args)) {
    return Status(StatusCode::invalid_argument,
                  fmt::format("{} takes {} arguments, given are {}", name, count_text(*op), args.size()));
  }
  FUSEC_ASSIGN(const Attributes attributes, Attributes::parse(text, op->attributes, name));
  if (op->build != nullptr) return op->build(builder, args, attributes);
  return builder.apply(name, std::vector<Operand>(args.begin(), args.end()));
}

}  // namespace fusec::c
