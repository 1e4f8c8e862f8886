// SPDX-License-Identifier: Apache-2.0
// Which epilogues oneDNN does, and how they are said as post-ops.
#pragma once

#include <cstddef>
#include <dnnl.hpp>
#include <vector>

#include "fusec/options.h"
#include "runtime/library/problem.h"

namespace fusec::runtime::onednn {

// An operand that a primitive reads: its argument id, description, and the argument of the call.
struct PostArg {
  int id = 0;
  dnnl::memory::desc desc;
  int arg = -1;
};

struct PostOps {
  dnnl::post_ops ops;
  std::vector<PostArg> args;
};

// How many of the leading epilogues oneDNN can do with NaN kept and errors within the bounds of the op table. The
// others drop NaN: clamp, hard_sigmoid, max and min use minps and maxps, exp clips its argument first. In exact mode
// only those that round as one kernel per op does.
std::size_t supported_prefix(const Problem& problem, Numerics numerics);

// The first `count` epilogues. sum_at: the index of an add that reads the output's own memory, -1: none.
PostOps post_ops(const std::vector<PostOp>& posts, std::size_t count, int sum_at, const Operand& out);

}  // namespace fusec::runtime::onednn
