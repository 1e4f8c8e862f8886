// SPDX-License-Identifier: Apache-2.0
// Where the commands run, bench and inspect get models from: in `fusec` packages alone, in `fusec-compiler` models to
// compile.
#pragma once

#include <optional>

#include "fusec/package.h"
#include "runtime/tool/bench.h"
#include "runtime/tool/common.h"

namespace fusec::tool {

struct Loaded {
  Model model;
  std::optional<Package> package;  // the model is compiled already, and `model` has no graph
  double load_ms = 0;              // reading and importing, without weights_ms
  double weights_ms = 0;           // reading, making or checking weights
};

struct Front {
  Result<Loaded> (*load)(const ModelFlags&) = nullptr;
  Result<Engine> (*compile)(const Model&, const Options&) = nullptr;  // null: there is no compiler
  Result<bool> (*bench_patterns)(const BenchFlags&) = nullptr;        // null with it
  Result<bool> (*bench_gate)(const BenchFlags&) = nullptr;            // null with it
};

// Of packages, which `load` opens; flags that contradict the package are refused.
Front package_front();
Result<Engine> make_engine(const Front& front, const Loaded& loaded, const Options& options);

}  // namespace fusec::tool
