// SPDX-License-Identifier: Apache-2.0
// The parts of `fusec bench`: a model, patterns, and the speed gate over both.
#pragma once

#include <string>
#include <vector>

#include "runtime/tool/common.h"
#include "runtime/tool/timing.h"

namespace fusec::tool {

struct BenchFlags : ModelFlags {
  std::string patterns, batch;
  std::string against, save, commit;  // of the speed gate
  std::vector<std::string> models;
  double duration = 1;
  int64_t runs = 0, warmup = 3;
  bool steps = false, library_sum = false, cycles = false;
  int64_t rotate_mb = 0;
  Budget budget() const { return {duration, runs, warmup}; }
};

// score = time of the fastest copy of the bytes of all inputs and outputs / time of the pattern, per file.
Result<bool> bench_patterns(const BenchFlags& flags);

// Five rounds over --patterns and --models, kept in --save, held against --against. false: something is slower, or
// failed.
Result<bool> bench_gate(const BenchFlags& flags);

// The .onnx and .fir files of a folder, sorted, or the one file that `where` names. invalid_argument, naming `flag`:
// there are none.
Result<std::vector<std::string>> model_files(const std::string& where, const std::string& flag);

}  // namespace fusec::tool
