// SPDX-License-Identifier: Apache-2.0
// Cases of the gradient of each tensor op, and of compositions, with broadcast and a symbolic batch.
#pragma once

#include "tests/ir/differences.h"

namespace fusec::differences {

struct RuleCase {
  const char* name;
  std::vector<Argument> arguments;
  Function function;
};

inline Argument indices(Shape shape, std::vector<int64_t> integers) {
  return {std::move(shape), 0, 0, std::move(integers), DType::i64};
}

#define FN(...) [](GraphBuilder& b, const Vars& x) -> Var { return __VA_ARGS__; }

inline std::vector<RuleCase> moves() {
  return {
      {"broadcast", {{{kN, 1, 2}}}, FN(b.broadcast(x[0], {4, kN, 3, 2}))},
      {"reshape", {{{kN, 6}}}, FN(b.reshape(x[0], {2 * kN, 3}))},
      {"transpose", {{{kN, 2, 4}}}, FN(b.transpose(x[0], {2, 0, 1}))},
      {"slice", {{{kN, 7}}}, FN(b.slice(x[0], {0, 2}, {kN, 4}))},
      {"slice by 2", {{{kN, 7}}}, FN(b.slice(x[0], {0, 1}, {kN, 3}, {1, 2}))},
      {"slice by 3, to the end", {{{kN, 7}}}, FN(b.slice(x[0], {0, 0}, {kN, 3}, {1, 3}))},
      {"slice by -2", {{{kN, 7}}}, FN(b.slice(x[0], {0, 6}, {kN, 3}, {1, -2}))},
      {"slice of n", {{{kN, 2}}}, FN(b.slice(x[0], {1, 0}, {kN - 1, 2}))},
      {"flip", {{{kN, 5}}}, FN(b.slice(x[0], {kN - 1, 4}, {kN, 5}, {-1, -1}))},
      {"concat", {{{kN, 2}}, {{kN, 3}}, {{kN, 1}}}, FN(b.concat({x[0], x[1], x[2], x[0]}, 1))},
      {"concat of n", {{{kN, 2}}, {{2 * kN, 2}}}, FN(b.concat({x[0], x[1]}, 0))},
      {"pad", {{{kN, 3}}, {{}}}, FN(b.pad(x[0], {1, 0}, {0, 2}, x[1]))},
      {"pad that crops", {{{kN, 5}}, {{}}}, FN(b.pad(x[0], {0, -1}, {1, -2}, x[1]))},
      {"pad edge", {{{kN, 3}}}, FN(b.pad_mode(x[0], {2, 1}, {0, 3}, "edge"))},
      {"pad reflect", {{{kN, 4}}}, FN(b.pad_mode(x[0], {1, 3}, {2, 2}, "reflect"))},
  };
}

inline std::vector<RuleCase> indexed() {
  const Argument rows = indices({kN, 2}, {1, 3, 1, 0, 2, 3}), lines = indices({kN, 1}, {1, 3, 1});
  return {
      {"gather", {{{kN, 4}}, indices({2, 3}, {0, 3, -1, 3, 1, 3})}, FN(b.gather(x[0], x[1], 1))},
      {"gather in front", {{{4, 2}}, indices({kN}, {3, 0, 3})}, FN(b.gather(x[0], x[1], 0))},
      {"gather between", {{{2, 3, 2}}, indices({kN}, {2, 0, 2})}, FN(b.gather(x[0], x[1], 1))},
      {"gather one", {{{kN, 3}}, indices({}, {1})}, FN(b.gather(x[0], x[1], 1))},
      {"gather of constants", {{{kN, 5}}}, FN(b.gather(x[0], b.iota(DType::i64, {3}, 0) * 2 - 1, 1))},
      {"gather_elements", {{{kN, 4}}, indices({kN, 3}, {1, 0, 1, -1, 3, 2})}, FN(b.gather_elements(x[0], x[1], 1))},
      {"gather_elements, one each",
       {{{kN, 4, 2}}, indices({kN, 1, 2}, {1, -1, 3, 0, 0, 2})},
       FN(b.gather_elements(x[0], x[1], 1))},
      {"gather_nd", {{{3, 4, 2}}, indices({kN, 2}, {2, 1, 0, 3, 2, 1})}, FN(b.gather_nd(x[0], x[1]))},
      {"gather_nd by batch", {{{kN, 4, 2}}, indices({kN, 2, 1}, {3, 3, 0, 1, 2, 2})}, FN(b.gather_nd(x[0], x[1], 1))},
      {"scatter_elements", {{{4, 2}}, rows, {{kN, 2}}}, FN(b.scatter_elements(x[0], x[1], x[2], 0))},
      {"scatter_elements add", {{{4, 2}}, rows, {{kN, 2}}}, FN(b.scatter_elements(x[0], x[1], x[2], 0, "add"))},
      {"scatter_nd", {{{4, 2}}, lines, {{kN, 2}}}, FN(b.scatter_nd(x[0], x[1], x[2]))},
      {"scatter_nd add", {{{4, 2}}, lines, {{kN, 2}}}, FN(b.scatter_nd(x[0], x[1], x[2], "add"))},
  };
}

inline std::vector<RuleCase> reductions() {
  const Argument zeros{{kN, 1}, 0, 0};
  return {
      {"sum", {{{kN, 2, 3}}}, FN(b.reduce_sum(x[0], {0, 2}))},
      {"sum of all", {{{kN, 2}}}, FN(b.reduce_sum(x[0], {0, 1}))},
      {"sum, kept", {{{kN, 2, 3}}}, FN(b.reduce_sum(x[0], {1}, true))},
      {"mean", {{{kN, 2, 3}}}, FN(b.reduce_mean(x[0], {0, 1}))},
      {"max", {{{kN, 5}}}, FN(b.reduce_max(x[0], {1}))},
      {"min", {{{kN, 5}}}, FN(b.reduce_min(x[0], {0}))},
      {"prod", {{{kN, 4}}}, FN(b.reduce_prod(x[0], {1}))},
      {"prod with a 0", {{{kN, 3}}, zeros}, FN(b.reduce_prod(b.concat({x[0], x[1]}, 1), {1}))},
      {"prod with two 0", {{{kN, 2}}, zeros, zeros}, FN(b.reduce_prod(b.concat({x[0], x[1], x[2]}, 1), {1}))},
      {"cumsum", {{{kN, 4}}}, FN(b.cumsum(x[0], 1))},
      {"cumsum exclusive", {{{kN, 4}}}, FN(b.cumsum(x[0], 0, true))},
      {"cumsum reverse", {{{kN, 4}}}, FN(b.cumsum(x[0], 1, true, true))},
      {"logsumexp", {{{kN, 4}}}, FN(b.log(b.reduce_sum(b.exp(x[0]), {1})))},
      {"norm", {{{kN, 4}}}, FN(b.sqrt(b.reduce_sum(b.square(x[0]), {1})))},
      {"softmax", {{{kN, 4}}}, FN(b.softmax(x[0], 1))},
      {"softmax along n", {{{kN, 4}}}, FN(b.softmax(x[0], 0))},
      {"log_softmax", {{{kN, 4}}}, FN(b.log_softmax(x[0], -1))},
      {"layer_norm", {{{kN, 4}}, {{4}}, {{4}}}, FN(b.layer_norm(x[0], x[1], x[2]))},
      {"rms_norm", {{{kN, 4}}, {{4}}}, FN(b.rms_norm(x[0], x[1]))},
  };
}

inline std::vector<RuleCase> products() {
  const Argument q{{kN, 4, 2, 3}}, kv{{kN, 2, 3, 3}};
  return {
      {"matmul", {{{kN, 4}}, {{4, 2}}}, FN(b.matmul(x[0], x[1]))},
      {"matmul ta", {{{4, kN}}, {{4, 2}}}, FN(b.matmul(x[0], x[1], true, false))},
      {"matmul tb", {{{kN, 4}}, {{2, 4}}}, FN(b.matmul(x[0], x[1], false, true))},
      {"matmul ta tb", {{{4, kN}}, {{2, 4}}}, FN(b.matmul(x[0], x[1], true, true))},
      {"vectors", {{{4}}, {{4}}}, FN(b.matmul(x[0], x[1]))},
      {"row", {{{4}}, {{kN, 4, 2}}}, FN(b.matmul(x[0], x[1]))},
      {"column", {{{kN, 2, 4}}, {{4}}}, FN(b.matmul(x[0], x[1]))},
      {"row, ta tb", {{{4}}, {{2, 4}}}, FN(b.matmul(x[0], x[1], true, true))},
      {"batches", {{{kN, 2, 4}}, {{kN, 4, 3}}}, FN(b.matmul(x[0], x[1]))},
      {"one weight for all batches", {{{kN, 2, 4}}, {{4, 3}}}, FN(b.matmul(x[0], x[1]))},
      {"one weight, tb", {{{2, kN, 2, 4}}, {{3, 4}}}, FN(b.matmul(x[0], x[1], false, true))},
      {"one weight, ta", {{{kN, 4, 2}}, {{4, 3}}}, FN(b.matmul(x[0], x[1], true, false))},
      {"batches that broadcast", {{{kN, 1, 2, 4}}, {{2, 4, 3}}}, FN(b.matmul(x[0], x[1]))},
      {"batches that broadcast, ta tb", {{{1, 4, 2}}, {{kN, 3, 4}}}, FN(b.matmul(x[0], x[1], true, true))},
      {"one value twice", {{{kN, 3, 3}}}, FN(b.matmul(x[0], x[0]))},
      {"linear", {{{kN, 4}}, {{3, 4}}, {{3}}}, FN(b.gelu(b.linear(x[0], x[1], x[2])))},
      {"attention", {{{kN, 2, 3, 4}}, {{kN, 2, 5, 4}}, {{kN, 2, 5, 3}}}, FN(b.attention(x[0], x[1], x[2], 0.5))},
      {"attention of shared heads", {q, kv, kv, {{2, 3}}}, FN(b.attention(x[0], x[1], x[2], x[3], 0.7))},
      {"attention of one value", {{{kN, 2, 3, 3}}}, FN(b.attention(x[0], x[0], x[0], 0.5))},
  };
}

inline std::vector<RuleCase> convolutions() {
  const Argument line{{kN, 2, 7}}, filter{{4, 2, 3}};
  return {
      {"conv", {line, filter}, FN(b.conv(x[0], x[1]))},
      {"conv bias", {line, filter, {{4}}}, FN(b.conv(x[0], x[1], x[2], {.pads = {1, 1}}))},
      {"conv strides", {line, filter}, FN(b.conv(x[0], x[1], {.strides = {2}, .pads = {1, 0}}))},
      {"conv strides, elements left", {{{kN, 2, 8}}, filter}, FN(b.conv(x[0], x[1], {.strides = {3}}))},
      {"conv dilations", {line, filter}, FN(b.conv(x[0], x[1], {.strides = {2}, .pads = {2, 1}, .dilations = {2}}))},
      {"conv wide pads", {line, filter}, FN(b.conv(x[0], x[1], {.pads = {4, 3}}))},
      {"conv groups", {{{kN, 4, 5}}, {{6, 2, 3}}}, FN(b.conv(x[0], x[1], {.pads = {1, 1}}, 2))},
      {"conv depthwise", {{{kN, 3, 5}}, {{3, 1, 3}}}, FN(b.conv(x[0], x[1], {.strides = {2}}, 3))},
      {"conv of planes",
       {{{kN, 2, 5, 6}}, {{3, 2, 3, 2}}},
       FN(b.conv(x[0], x[1], {.strides = {2, 1}, .pads = {1, 0, 1, 1}}))},
      {"conv channels last",
       {{{kN, 4, 5, 2}}, {{3, 2, 3, 2}}, {{3}}},
       FN(b.conv(x[0], x[1], x[2], {.strides = {1, 2}, .channels_last = true}))},
      {"conv of n", {{{2, 2, kN + 4}}, filter}, FN(b.conv(x[0], x[1], {.strides = {2}, .pads = {1, 1}}))},
  };
}

inline std::vector<RuleCase> pools() {
  const Argument plane{{kN, 2, 5, 6}};
  const WindowOptions by_2{.strides = {2, 2}}, padded{.strides = {2, 2}, .pads = {1, 1, 1, 1}};
  return {
      {"max_pool",
       {plane},
       [=](GraphBuilder& b, const Vars& x) {
         return b.max_pool(x[0], {2, 2}, by_2);
       }},
      {"max_pool, overlap",
       {plane},
       [=](GraphBuilder& b, const Vars& x) {
         return b.max_pool(x[0], {3, 3}, padded);
       }},
      {"max_pool ceil",
       {plane},
       [=](GraphBuilder& b, const Vars& x) {
         return b.max_pool(x[0], {2, 2}, by_2, true);
       }},
      {"max_pool channels last", {{{kN, 4, 5, 2}}}, FN(b.max_pool(x[0], {2, 3}, {.channels_last = true}))},
      {"avg_pool", {plane}, FN(b.avg_pool(x[0], {2, 2}))},
      {"avg_pool padded",
       {plane},
       [=](GraphBuilder& b, const Vars& x) {
         return b.avg_pool(x[0], {3, 3}, padded);
       }},
      {"avg_pool with pads",
       {plane},
       [=](GraphBuilder& b, const Vars& x) {
         return b.avg_pool(x[0], {3, 3}, padded, true, true);
       }},
      {"avg_pool ceil",
       {{{kN, 2, 7}}},
       FN(b.avg_pool(x[0], {3}, {.strides = {2}, .pads = {0, 1}, .dilations = {2}}, true))},
      {"max_pool of n", {{{2, 1, 2 * kN + 1}}}, FN(b.max_pool(x[0], {2}, {.strides = {2}}, true))},
  };
}

#undef FN

}  // namespace fusec::differences
