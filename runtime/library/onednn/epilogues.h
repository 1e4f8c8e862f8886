// SPDX-License-Identifier: Apache-2.0
// Which epilogues oneDNN fuses, and how they are expressed as post-ops.
//
// Costs: CPU time per thread of the bare op with bias in us, then the increase in % with the epilogue. oneDNN 3.2,
// AVX-512 (Sapphire Rapids class, no AMX), 2 threads, f32, channels-last, minimum of 150 runs. A few % are noise.
//
//                     bare relu* leaky hswish sigmoid tanh gelu silu elu  mul{C} add(full) sum sum+relu | clamp*
// 1x1 64->256 @56      396    32     1      6      38   27   26   49   30      2       38   19       57 |    106
// 1x1 16->64 @112      174    50    -2      1      74   55   46  124   50     -1       66   19       68 |    296
// 1x1 160->960 @7       53    17     4      2      21   17   15   22   14      2       10    2       15 |     50
// 1x1 512->2048 @7     527    -3    -7     -6      -3   -2   -3   -3   -4     -6       -2   -8       -3 |      5
// 3x3 64 @56           686    11     5      1       9    9    5    8    0      1        5    0        6 |     20
// dw3 64 @112 s2        93    33     3     13      43   34   32   52   30      0       13   -1       32 |    160
// dw5 672 @14           48    41     5      9      56   43   35   65   40      3       18    3       45 |    145
// 128x768 x 768x768    551     4     0      4       1    1    3    9    8      5        9    8       11 |     15
// 128x768 x 768x3072  2231     0     0     -1       4    3    1    3    1     -3        8    2        5 |      5
//
// relu* is the relu of exact mode. Nearly free everywhere are relu (a max) in the other modes, leaky_relu, hard_swish,
// abs, square, mul and add per channel, and the sum with the output's own memory. In exact mode relu costs an
// exponential (see epilogues.cpp). clamp* is not fused but done by loops afterwards, as are hard_sigmoid, exp, max and
// min, because oneDNN's forms drop NaN. The gelus and elu are not fused either, because their errors are too large.
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <functional>
#include <vector>

#include "fusec/options.h"
#include "runtime/library/interface/problem.h"

namespace fusec::runtime::onednn {

// An operand that a primitive reads: its argument id, its descriptor, and the argument of the call.
struct PostArg {
  int id = 0;
  dnnl::memory::desc desc;
  int arg = -1;
};

struct PostOps {
  dnnl::post_ops ops;
  std::vector<PostArg> args;
};

// The number of leading epilogues that oneDNN can fuse with NaN kept (except by relu, unless exact) and errors within
// the bounds of the op table. The others drop NaN: clamp, hard_sigmoid, max and min use minps and maxps, and exp clips
// its argument first. In exact mode, only epilogues that round as one kernel per op does are counted.
std::size_t supported_prefix(const Problem& problem, Numerics numerics);

// The first `count` epilogues. sum_at: the index of an add that reads the output's own memory; -1: none. describe:
// returns the layout of an operand.
PostOps post_ops(const std::vector<BoundEpilogue>& epilogues, std::size_t count, int sum_at,
                 const std::function<dnnl::memory::desc(const CallOperand&)>& describe, Numerics numerics);
// The same, with the operands in their own layout.
PostOps post_ops(const std::vector<BoundEpilogue>& epilogues, std::size_t count, int sum_at, const CallOperand& out,
                 Numerics numerics);

}  // namespace fusec::runtime::onednn
