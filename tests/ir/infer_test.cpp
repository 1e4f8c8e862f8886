// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ir/graph/graph.h"

namespace fusec::ir {
namespace {

using Ints = std::vector<int64_t>;

// "f32[N, 3*H]"
Type t(const std::string& text) {
  const std::size_t open = text.find('[');
  Type type{*parse_dtype(text.substr(0, open)), {}};
  std::string item;
  int depth = 0;
  for (std::size_t i = open + 1; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(') ++depth;
    if (c == ')') --depth;
    if (depth == 0 && (c == ',' || c == ']')) {
      if (!item.empty()) type.shape.push_back(*Dim::parse(item));
      item.clear();
    } else {
      item += c;
    }
  }
  return type;
}

Shape dims(const std::string& text) { return t("f32" + text).shape; }

// `expected` is the printed type, or a part of the message.
struct Case {
  Op op;
  std::vector<std::string> operands;
  Attrs attrs;
  std::string expected;
};

Attrs window(Ints strides, Ints pads, Ints dilations, std::initializer_list<std::pair<std::string, AttrValue>> more) {
  Attrs attrs = {{"strides", strides}, {"pads", pads}, {"dilations", dilations}, {"layout", std::string("first")}};
  for (const auto& [name, value] : more) attrs.set(name, value);
  return attrs;
}
Attrs conv(Ints strides, Ints pads, Ints dilations, int64_t groups, const char* layout = "first") {
  return window(strides, pads, dilations, {{"groups", groups}, {"layout", std::string(layout)}});
}
Attrs pool(Ints kernel, Ints strides, Ints pads, int64_t ceil_mode) {
  return window(strides, pads, Ints(kernel.size(), 1), {{"kernel", kernel}, {"ceil_mode", ceil_mode}});
}
Attrs matmul(int64_t a, int64_t b) { return {{"transpose_a", a}, {"transpose_b", b}}; }
Attrs attention(int64_t causal) { return {{"scale", 1.0}, {"causal", causal}}; }
Attrs slice(const char* starts, const char* sizes, Ints steps) {
  return {{"starts", dims(starts)}, {"sizes", dims(sizes)}, {"steps", steps}};
}
Attrs unfold(int64_t axis, const char* sizes, Ints steps) {
  return {{"axis", axis}, {"sizes", dims(sizes)}, {"steps", steps}};
}
Attrs pad(const char* before, const char* after, const char* mode) {
  return {{"before", dims(before)}, {"after", dims(after)}, {"mode", std::string(mode)}};
}

// Whether the model may be valid: extents of two names may be equal in a run, and ONNX allows what fusec lacks here.
bool may_be_valid(const Status& status) {
  for (const char* reason :
       {"must have one name", "unless the extents", "not known", "reflected by", "overflows 64 bits"}) {
    if (status.message().find(reason) != std::string::npos) return true;
  }
  return false;
}

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    std::vector<Type> operands;
    for (const std::string& text : c.operands) operands.push_back(t(text));
    const Result<Type> got = infer_type(c.op, operands, c.attrs);
    const std::string where = std::string(c.op.name()) + " " + (c.operands.empty() ? "" : c.operands[0]);
    if (got.ok()) {
      EXPECT_EQ(to_string(*got), c.expected) << where;
    } else {
      EXPECT_EQ(got.status().code(), may_be_valid(got.status()) ? StatusCode::unsupported : StatusCode::invalid_model)
          << where << ": " << got.status().message();
      EXPECT_NE(got.status().message().find(c.expected), std::string::npos) << where << ": " << got.status().message();
      EXPECT_EQ(got.status().message().find(std::string(c.op.name()) + ": "), 0u);
    }
  }
}

TEST(Infer, Scalar) {
  check({
      {ScalarOp::add, {"f32[N, 1, 3]", "f32[4, 3]"}, {}, "f32[N, 4, 3]"},
      {ScalarOp::add, {"f32[]", "f32[2]"}, {}, "f32[2]"},
      {ScalarOp::add, {"f32[0]", "f32[1]"}, {}, "f32[0]"},
      {ScalarOp::add,
       {"f32[N]", "f32[M]"},
       {},
       "extents N and M do not broadcast: shapes are [N] and [M]; extents that a run may give one value must have one "
       "name"},
      {ScalarOp::add, {"f32[2, 3]", "f32[2]"}, {}, "extents 3 and 2 do not broadcast"},
      {ScalarOp::add, {"f32[2]", "f16[2]"}, {}, "operands must have one type, got f32[2] and f16[2]"},
      {ScalarOp::add, {"f32[2]"}, {}, "expected 2 operands, got 1"},
      {ScalarOp::add, {"bool[2]", "bool[2]"}, {}, "operands of type bool are not accepted"},
      {ScalarOp::add, {"f32[2]", "f32[2]"}, {{"axis", int64_t{1}}}, "an attribute that the op does not have"},
      {ScalarOp::exp, {"i32[2]"}, {}, "operands of type i32 are not accepted"},
      {ScalarOp::lt, {"i8[2]", "i8[1]"}, {}, "bool[2]"},
      {ScalarOp::is_nan, {"f16[2]"}, {}, "bool[2]"},
      {ScalarOp::where, {"bool[N, 1]", "i64[4]", "i64[]"}, {}, "i64[N, 4]"},
      {ScalarOp::where, {"f32[N]", "f32[N]", "f32[N]"}, {}, "the condition must be bool"},
      {ScalarOp::where, {"bool[2]", "f32[2]", "i32[2]"}, {}, "operands must have one type"},
      {ScalarOp::cast, {"f32[2]"}, {{"to", DType::bf16}}, "bf16[2]"},
      {ScalarOp::cast, {"f32[2]"}, {}, "attribute 'to' is missing"},
      {ScalarOp::cast, {"f32[2]"}, {{"to", int64_t{1}}}, "attribute 'to' must be of kind dtype"},
  });
}

TEST(Infer, IndexMaps) {
  check({
      {TensorOp::iota, {}, {{"shape", dims("[N, 4]")}, {"axis", int64_t{1}}, {"dtype", DType::i64}}, "i64[N, 4]"},
      {TensorOp::iota,
       {},
       {{"shape", dims("[4]")}, {"axis", int64_t{1}}, {"dtype", DType::i64}},
       "axis 1 is outside the axes of rank 1"},
      {TensorOp::dim, {}, {{"value", dims("[2*N]")}, {"dtype", DType::i64}}, "i64[]"},
      {TensorOp::broadcast, {"f32[1, 3]"}, {{"shape", dims("[N, 2, 3]")}}, "f32[N, 2, 3]"},
      {TensorOp::broadcast, {"f32[4, 3]"}, {{"shape", dims("[1, 3]")}}, "f32[4, 3] does not broadcast to [1, 3]"},
      {TensorOp::broadcast, {"f32[4, 3]"}, {{"shape", dims("[3]")}}, "does not broadcast to [3]"},
      {TensorOp::broadcast, {"f32[N, 3]"}, {{"shape", dims("[1, 3]")}}, "must have one name"},
      {TensorOp::reshape, {"f32[N, 12]"}, {{"shape", dims("[4*N, 3]")}}, "f32[4*N, 3]"},
      {TensorOp::reshape, {"f32[N, 12]"}, {{"shape", dims("[N, 11]")}}, "[N, 12] has 12*N, [N, 11] has 11*N"},
      {TensorOp::reshape, {"f32[4]"}, {{"shape", dims("[-2, -2]")}}, "negative extent -2"},
      {TensorOp::reshape,
       {"f32[9223372036854775807, 1]"},
       {{"shape", dims("[9223372036854775807, 2]")}},
       "overflows 64 bits"},
      {TensorOp::transpose, {"f32[N, 2, 3]"}, {{"perm", Ints{2, 0, 1}}}, "f32[3, N, 2]"},
      {TensorOp::transpose, {"f32[2, 3]"}, {{"perm", Ints{0, 0}}}, "perm names axis 0 twice"},
      {TensorOp::transpose, {"f32[2, 3]"}, {{"perm", Ints{0}}}, "expected 2, got 1"},
      {TensorOp::transpose, {"f32[2, 3]"}, {{"perm", Ints{0, 2}}}, "perm entry 2 is outside the axes of rank 2"},
      {TensorOp::slice, {"f32[N, 10]"}, slice("[1, 9]", "[N - 1, 5]", {1, -2}), "f32[N - 1, 5]"},
      {TensorOp::slice, {"f32[10]"}, slice("[8]", "[3]", {1}), "axis 0 of extent 10 has no element 10"},
      {TensorOp::slice, {"f32[10]"}, slice("[2]", "[4]", {-1}), "axis 0 of extent 10 has no element -1"},
      {TensorOp::slice, {"f32[N]"}, slice("[1]", "[N]", {1}), "axis 0 of extent N has no element N"},
      {TensorOp::slice, {"f32[10]"}, slice("[0]", "[3]", {0}), "the step of axis 0 is 0"},
      {TensorOp::slice, {"f32[10]"}, slice("[99]", "[0]", {1}), "f32[0]"},
      {TensorOp::concat, {"f32[N, 2]", "f32[N, M]"}, {{"axis", int64_t{1}}}, "f32[N, M + 2]"},
      {TensorOp::concat, {"f32[2, 2]", "f32[3, 2]"}, {{"axis", int64_t{1}}}, "must agree in all but axis 1"},
      {TensorOp::concat, {"f32[2]", "i32[2]"}, {{"axis", int64_t{0}}}, "must agree"},
      {TensorOp::concat, {"f32[2]", "f32[2, 2]"}, {{"axis", int64_t{0}}}, "must agree"},
      {TensorOp::concat, {}, {{"axis", int64_t{0}}}, "expected 1 or more operands, got 0"},
      {TensorOp::unfold, {"f32[N, 9]"}, unfold(1, "[4, 3]", {2, 1}), "f32[N, 4, 3]"},
      {TensorOp::unfold, {"f32[N, 9]"}, unfold(0, "[N - 2, 3]", {1, 1}), "f32[N - 2, 3, 9]"},
      {TensorOp::unfold, {"f32[9]"}, unfold(0, "[5, 2]", {2, 1}), "axis 0 of extent 9 has no element 9"},
      {TensorOp::unfold, {"f32[9]"}, unfold(0, "[5, 0]", {2, 1}), "f32[5, 0]"},
      {TensorOp::unfold, {"f32[9]"}, unfold(0, "[5, 2]", {0, 1}), "steps must be 1 or more"},
      {TensorOp::unfold, {"f32[9]"}, unfold(0, "[5]", {1, 1}), "one entry for windows, one for places"},
      {TensorOp::unfold, {"f32[9]"}, unfold(1, "[5, 2]", {1, 1}), "axis"},
      {TensorOp::pad, {"f32[N, 3]", "f32[]"}, pad("[1, 0]", "[0, k]", "constant"), "f32[N + 1, k + 3]"},
      {TensorOp::pad, {"f32[3]"}, pad("[3]", "[0]", "reflect"), "axis 0 of extent 3 reflected by 3"},
      {TensorOp::pad, {"f32[3]"}, pad("[-4]", "[0]", "constant"), "negative extent -1"},
      {TensorOp::pad, {"f32[0]"}, pad("[1]", "[0]", "edge"), "has nothing to repeat"},
      {TensorOp::pad, {"f32[3]", "f16[]"}, pad("[1]", "[0]", "constant"), "the pad value must be a scalar"},
      {TensorOp::pad, {"f32[3]"}, pad("[1]", "[0]", "mirror"), "got 'mirror'"},
      {TensorOp::gather, {"f32[V, 64]", "i64[N, 7]"}, {{"axis", int64_t{0}}}, "f32[N, 7, 64]"},
      {TensorOp::gather, {"f32[3, 4, 5]", "i32[]"}, {{"axis", int64_t{1}}}, "f32[3, 5]"},
      {TensorOp::gather, {"f32[3]", "f32[2]"}, {{"axis", int64_t{0}}}, "indices must be i32 or i64"},
      {TensorOp::gather_elements, {"f32[3, 4]", "i64[3, 9]"}, {{"axis", int64_t{1}}}, "f32[3, 9]"},
      {TensorOp::gather_elements, {"f32[3, 4]", "i64[4, 4]"}, {{"axis", int64_t{1}}}, "pass the operand"},
      {TensorOp::gather_nd, {"f32[B, 3, 4, 5]", "i64[B, 7, 2]"}, {{"batch_dims", int64_t{1}}}, "f32[B, 7, 5]"},
      {TensorOp::gather_nd, {"f32[3]", "i64[7, 2]"}, {{"batch_dims", int64_t{0}}}, "must be from 1 to 1"},
      {TensorOp::gather_nd, {"f32[3]", "i64[7, D]"}, {{"batch_dims", int64_t{0}}}, "indices, D, that is not known"},
      {TensorOp::gather_nd, {"f32[B, 3]", "i64[C, 1]"}, {{"batch_dims", int64_t{1}}}, "batch extents B and C differ"},
  });
}

TEST(Infer, Composites) {
  const auto topk = [](const char* k, int64_t axis) {
    return Attrs{{"axis", axis}, {"k", dims(k)}, {"largest", int64_t{1}}};
  };
  const auto into = [](int64_t axis, const char* reduction) {
    return Attrs{{"axis", axis}, {"reduction", std::string(reduction)}};
  };
  const Attrs none = {{"reduction", std::string("none")}};
  check({
      {TensorOp::topk, {"f16[N, 9]"}, topk("[5]", 1), "i64[N, 5]"},
      {TensorOp::topk, {"u8[N, 9]"}, topk("[N]", 0), "i64[N, 9]"},
      {TensorOp::topk, {"f32[4]"}, topk("[5]", 0), "k is 5, axis 0 of f32[4] has fewer"},
      {TensorOp::topk, {"f32[4]"}, topk("[1, 2]", 0), "k must be one expression"},
      {TensorOp::topk, {"bool[4]"}, topk("[1]", 0), "must be of a number type"},
      {TensorOp::topk, {"f32[]"}, topk("[1]", 0), "outside the axes of rank 0"},
      {TensorOp::scatter_elements, {"f32[N, 4]", "i32[N, 9]", "f32[N, 9]"}, into(1, "none"), "f32[N, 4]"},
      {TensorOp::scatter_elements, {"bool[3]", "i64[0]", "bool[0]"}, into(0, "add"), "bool[3]"},
      {TensorOp::scatter_elements, {"f32[3]", "i64[2]", "f32[3]"}, into(0, "none"), "updates must have shape [2]"},
      {TensorOp::scatter_elements, {"f32[3]", "i64[2]", "f16[2]"}, into(0, "none"), "must have the operand's type"},
      {TensorOp::scatter_elements, {"f32[3, 2]", "i64[4, 1]", "f32[4, 1]"}, into(1, "max"), "pass the operand"},
      {TensorOp::scatter_elements, {"f32[3]", "i64[2]", "f32[2]"}, into(0, "sum"), "got 'sum'"},
      {TensorOp::scatter_nd, {"f32[N, 4, 5]", "i64[M, 7, 2]", "f32[M, 7, 5]"}, none, "f32[N, 4, 5]"},
      {TensorOp::scatter_nd, {"f32[4]", "i64[1]", "f32[]"}, none, "f32[4]"},
      {TensorOp::scatter_nd, {"f32[4]", "i64[7, 2]", "f32[7]"}, none, "must be from 1 to 1"},
      {TensorOp::scatter_nd, {"f32[4, 3]", "i64[7, 1]", "f32[7]"}, none, "updates must have shape [7, 3]"},
      {TensorOp::scatter_nd, {"f32[4, 3]", "i64[7, 1]", "f32[M, 3]"}, none, "must have one name"},
  });
}

TEST(Infer, Reductions) {
  const Attrs last = {{"axis", int64_t{1}}, {"last", int64_t{0}}};
  check({
      {TensorOp::reduce_sum, {"f32[N, 2, 3]"}, {{"axes", Ints{2, 0}}}, "f32[2]"},
      {TensorOp::reduce_sum, {"f32[N]"}, {{"axes", Ints{}}}, "f32[N]"},
      {TensorOp::reduce_sum, {"f32[N]"}, {{"axes", Ints{0, 0}}}, "axis 0 is named twice"},
      {TensorOp::reduce_sum, {"f32[N]"}, {{"axes", Ints{-1}}}, "axis -1 is outside the axes of rank 1"},
      {TensorOp::reduce_max, {"f32[0]"}, {{"axes", Ints{0}}}, "f32[]"},
      {TensorOp::reduce_min, {"bool[2]"}, {{"axes", Ints{0}}}, "must be of a number type"},
      {TensorOp::argmax, {"f16[N, 7]"}, last, "i64[N]"},
      {TensorOp::argmin, {"f16[N, 0]"}, last, "axis 1 of f16[N, 0] is empty"},
      {TensorOp::cumsum,
       {"i32[N, 7]"},
       {{"axis", int64_t{1}}, {"exclusive", int64_t{0}}, {"reverse", int64_t{1}}},
       "i32[N, 7]"},
      {TensorOp::cumsum,
       {"i32[N, 7]"},
       {{"axis", int64_t{1}}, {"exclusive", int64_t{2}}, {"reverse", int64_t{1}}},
       "exclusive must be 0 or 1, got 2"},
  });
}

TEST(Infer, Anchors) {
  check({
      {TensorOp::matmul, {"f32[B, 1, M, K]", "f32[8, K, N]"}, matmul(0, 0), "f32[B, 8, M, N]"},
      {TensorOp::matmul, {"f32[K, M]", "f32[N, K]"}, matmul(1, 1), "f32[M, N]"},
      {TensorOp::matmul, {"f32[K]", "f32[B, K, N]"}, matmul(0, 0), "f32[B, N]"},
      {TensorOp::matmul, {"f32[M, K]", "f32[K]"}, matmul(0, 0), "f32[M]"},
      {TensorOp::matmul, {"f32[K]", "f32[K]"}, matmul(0, 0), "f32[]"},
      {TensorOp::matmul, {"f32[M, K]", "f32[L, N]"}, matmul(0, 0), "inner extents K and L differ"},
      {TensorOp::matmul, {"f32[2, M, K]", "f32[3, K, N]"}, matmul(0, 0), "extents 2 and 3 do not broadcast"},
      {TensorOp::matmul, {"f32[]", "f32[2]"}, matmul(0, 0), "rank 1 or more"},
      {TensorOp::attention,
       {"f16[N, 8, S, 64]", "f16[N, 2, T, 64]", "f16[N, 2, T, 32]"},
       attention(0),
       "f16[N, 8, S, 32]"},
      {TensorOp::attention,
       {"f16[N, 8, S, 64]", "f16[N, 2, T, 64]", "f16[N, 2, T, 32]", "f16[S, T]"},
       attention(0),
       "f16[N, 8, S, 32]"},
      {TensorOp::attention,
       {"f16[N, 8, S, 64]", "f16[N, 2, T, 64]", "f16[N, 2, T, 32]", "f32[N, 1, 1, T]"},
       attention(0),
       "f16[N, 8, S, 32]"},
      {TensorOp::attention,
       {"f16[N, 8, S, 64]", "f16[N, 2, T, 64]", "f16[N, 2, T, 32]", "bool[S, T]"},
       attention(0),
       "the mask must be of a float type"},
      {TensorOp::attention,
       {"f16[N, 8, S, 64]", "f16[N, 2, T, 64]", "f16[N, 2, T, 32]", "f16[S, 1]"},
       attention(0),
       "a value per key"},
      {TensorOp::attention,
       {"f16[N, 8, S, 64]", "f16[N, 2, T, 64]", "f16[N, 2, T, 32]", "f16[7, S, T]"},
       attention(0),
       "do not broadcast"},
      {TensorOp::attention,
       {"f16[N, 8, S, 64]", "f16[N, 3, T, 64]", "f16[N, 3, T, 32]"},
       attention(0),
       "8 heads of queries do not share 3"},
      {TensorOp::attention, {"f16[N, 8, S, 64]", "f16[N, 8, T, 32]", "f16[N, 8, T, 32]"}, attention(0), "do not fit"},
      {TensorOp::attention, {"f16[8, S, 64]", "f16[8, T, 64]", "f16[8, T, 32]"}, attention(0), "rank 4"},
      {TensorOp::attention,
       {"f16[N, 8, S, 64]", "f16[N, 2, S, 64]", "f16[N, 2, S, 32]"},
       attention(1),
       "f16[N, 8, S, 32]"},
      {TensorOp::attention,
       {"f16[N, 8, S, 64]", "f16[N, 2, T, 64]", "f16[N, 2, T, 32]"},
       attention(1),
       "no more queries than keys, got f16[N, 8, S, 64], f16[N, 2, T, 64] and f16[N, 2, T, 32]; which are more is not "
       "known"},
      {TensorOp::attention,
       {"f16[N, 8, S, 64]", "f16[N, 2, P + S, 64]", "f16[N, 2, P + S, 32]"},
       attention(1),
       "f16[N, 8, S, 32]"},
      {TensorOp::attention,
       {"f16[N, 8, 5, 64]", "f16[N, 2, 4, 64]", "f16[N, 2, 4, 32]"},
       attention(1),
       "no more queries than keys"},
      {TensorOp::attention,
       {"f16[N, 8, S, 64]", "f16[N, 2, S, 64]", "f16[N, 2, S, 32]", "f16[S, S]"},
       attention(1),
       "has no mask"},
      {TensorOp::attention, {"f16[N, 8, S, 64]", "f16[N, 2, S, 64]", "f16[N, 2, S, 32]"}, attention(2), "causal"},
      {TensorOp::conv,
       {"f32[N, 3, H, 224]", "f32[64, 3, 7, 7]"},
       conv({2, 2}, {3, 3, 3, 3}, {1, 1}, 1),
       "f32[N, 64, floordiv(H + 1, 2), 112]"},
      {TensorOp::conv,
       {"f16[1, 8, 8, 32]", "f16[32, 1, 3, 3]", "f16[32]"},
       conv({1, 1}, {0, 0, 0, 0}, {2, 2}, 32, "last"),
       "f16[1, 4, 4, 32]"},
      {TensorOp::conv,
       {"f32[1, 4, 5]", "f32[2, 4, 6]"},
       conv({1}, {0, 0}, {1}, 1),
       "the window of 6 does not fit the padded extent 5"},
      {TensorOp::conv,
       {"f32[1, 4, 5]", "f32[2, 3, 1]"},
       conv({1}, {0, 0}, {1}, 1),
       "the operand has 4 channels, the filter takes 3 in each of 1 groups"},
      {TensorOp::conv,
       {"f32[1, 4, 5]", "f32[3, 2, 1]"},
       conv({1}, {0, 0}, {1}, 2),
       "3 filters do not split into 2 groups"},
      {TensorOp::conv,
       {"f32[1, 4, 5]", "f32[2, 4, 1]", "f32[3]"},
       conv({1}, {0, 0}, {1}, 1),
       "the bias must have shape [2]"},
      {TensorOp::conv, {"f32[1, 4, 5]", "f32[2, 4, 1]"}, conv({0}, {0, 0}, {1}, 1), "strides must be at least 1"},
      {TensorOp::conv, {"f32[1, 4, 5]", "f32[2, 4, 1]"}, conv({1}, {0, -1}, {1}, 1), "pads must be at least 0"},
      {TensorOp::conv, {"f32[1, 4, 5]", "f32[2, 4, 1]"}, conv({1}, {0}, {1}, 1), "pads must have 2 entries, got 1"},
      {TensorOp::conv,
       {"f32[1, 4, 5]", "f32[2, 4, 1]"},
       conv({1}, {0, 0}, {1}, 1, "NCHW"),
       "layout must be first or last"},
      {TensorOp::conv, {"f32[1, 4, 5]", "f32[2, 4]"}, conv({1}, {0, 0}, {1}, 1), "the filter must have rank 3"},
      {TensorOp::max_pool, {"f32[1, 2, 7, 7]"}, pool({3, 3}, {2, 2}, {0, 0, 0, 0}, 0), "f32[1, 2, 3, 3]"},
      {TensorOp::max_pool, {"f32[1, 2, 6, 7]"}, pool({3, 3}, {2, 2}, {0, 0, 0, 0}, 1), "f32[1, 2, 3, 3]"},
      // With rounding up the third window would start at 4, in the padding at the end, so it is dropped.
      {TensorOp::max_pool, {"f32[1, 2, 3]"}, pool({2}, {2}, {1, 1}, 1), "f32[1, 2, 2]"},
      {TensorOp::max_pool, {"f32[1, 2, 3]"}, pool({1}, {2}, {0, 1}, 1), "f32[1, 2, 2]"},
      {TensorOp::max_pool, {"f32[1, 2]"}, pool({}, {}, {}, 0), "must have a batch, a channel and spatial axes"},
  });
}

TEST(Infer, ConstantsAreMadeByAddConstant) { EXPECT_FALSE(infer_type(TensorOp::constant, {}, {}).ok()); }

}  // namespace
}  // namespace fusec::ir
