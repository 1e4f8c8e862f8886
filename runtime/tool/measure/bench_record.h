// SPDX-License-Identifier: Apache-2.0
// What the speed gate keeps of a run, and how two runs compare. Nothing here measures.
#pragma once

#include <string>
#include <vector>

#include "fusec/status.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {

// One pattern or model over all rounds.
struct BenchCase {
  std::string name;            // "pattern add_f32", "model resnet", or "model resnet f16" beside another precision
  std::vector<double> ratios;  // a round's time over that of a copy in the same round: finite and above 0
  double median_ms = 0;        // of the rounds' times, for a reader: no comparison uses it
  std::string error;           // why there are no figures
};

// How and where a run was made. Times compare when all of `device` to `threads` are equal, and the units of models
// where both have some.
struct BenchOrigin {
  std::string device;               // "cpu" or "cuda"
  std::string machine;              // "Intel(R) Xeon(R), x86-64-v4", "NVIDIA H200, sm_90"
  std::string numerics, precision;  // one, or several: "f32,f16"
  bool tf32 = false, batch_invariant = false;
  int threads = 0;  // of the CPU; 0 for a GPU
  // MiB of the copy whose time is the unit of models; 0: there are none. Patterns have copies of their own sizes.
  int64_t model_copy_mib = 0;
  // For a reader, as the rest: the driver of a GPU ("580.65.06, CUDA 13.0"), and the speed of a large copy, the median
  // of the rounds, read + written.
  std::string driver;
  double copy_gb_per_s = 0;
  std::string date, commit, versions;
  Json clocks = Json();  // before and after the rounds (measure/clocks.h); null in older records
};

struct BenchRecord {
  BenchOrigin origin;
  std::vector<BenchCase> cases;
};

Json make_json(const BenchRecord& record);
// invalid_argument, naming `where`: another format, a missing or foreign key, a ratio that is no positive number, no
// case at all.
Result<BenchRecord> parse_record(const Json& json, const std::string& where);

// invalid_argument when times of `now` say nothing beside those of the record in `where`: the device, the machine or a
// setting differs.
Status comparable(const BenchOrigin& before, const BenchOrigin& now, const std::string& where);

struct BenchChange {
  std::string name;
  double before = 0, now = 0;                // medians of the ratios
  double before_spread = 0, now_spread = 0;  // largest over smallest, less 1
  double ratio = 0;                          // now / before
  bool slower = false, faster = false;
};

struct BenchComparison {
  std::vector<BenchChange> changes;         // of cases in both, in the order of `now`
  std::vector<BenchCase> failed;            // of `now`
  std::vector<std::string> missing, added;  // only in the record; only in `now`
  bool ok() const;                          // nothing is slower, nothing failed
};

// Slower: the median grew by more than 3 % and every round of `now` is slower than every round of the record, which
// five equal rounds against five do by chance once in 252 times. Faster: the same the other way round.
// invalid_argument when no case is in both.
Result<BenchComparison> compare(const BenchRecord& before, const BenchRecord& now, const std::string& where);

}  // namespace fusec::tool
