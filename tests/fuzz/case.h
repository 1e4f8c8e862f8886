// SPDX-License-Identifier: Apache-2.0
// A case: a graph, inputs for one or more runs of it, and how it is compiled and called.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "fusec/tensor.h"
#include "ir/graph/graph.h"

namespace fusec::fuzz {

enum class Call : uint8_t {
  session,   // row-major inputs
  strided,   // transposed, reversed, repeated and misaligned inputs and outputs
  jit,       // the same inputs through fusec::jit
  in_place,  // outputs over inputs where types agree
};

// Another form of a case that must compute the same.
enum class Beside : uint8_t {
  nothing,
  unfused,      // one kernel per op
  narrow,       // narrower vectors: of one element where kernels are evaluated, else of 32 bytes beside this machine's
  shuffled,     // the optimizer's passes in another order before the right one
  permuted,     // inputs with their axes in another order, turned back by the graph
  fixed,        // numbers in place of symbols
  specialized,  // kernels for the shapes of each run
};

struct Setting {
  Numerics numerics = Numerics::precise;
  bool use_library = true;
  std::string target;  // empty: this machine
  int threads = 1;
  std::vector<std::string> disabled_passes;
  Call call = Call::session;
  bool fuse = true;
  bool narrow = false;
  bool specialize = false;
  Beside beside = Beside::nothing;  // a second time in this form: see check.h
  std::string device = "cpu";
  Codegen codegen = Codegen::automatic;
  std::string cache_dir;          // of kernels, which earlier cases may have left; empty: all are compiled
  bool kernel_evaluator = false;  // without machine code: kernels by their evaluator, library steps by the graph's
};

struct Run {
  std::vector<Tensor> inputs;  // row-major
  bool special = false;        // holds NaN, infinities, denormals, large integers
};

struct Case {
  ir::Graph graph;
  std::vector<Run> runs;  // on one engine, in order
  Setting setting;
  uint64_t seed = 0;
};

}  // namespace fusec::fuzz
