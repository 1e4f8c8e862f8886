// SPDX-License-Identifier: Apache-2.0
// Engine: a compiled model with its machine code and constants loaded. Immutable; copies share it, threads may too.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fusec/export.h"
#include "fusec/model.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "fusec/target.h"
#include "fusec/tensor.h"

namespace fusec {

class Package;

namespace runtime {
struct EngineState;
}

struct FUSEC_API StageTime {
  std::string stage;  // "optimize", "partition", "lower", "select", "emit", "link", "bind"
  double ms = 0;
};

// What making the code of one kernel took.
struct FUSEC_API KernelTime {
  std::string kernel;
  double ms = 0;  // of one core; kernels are compiled side by side
};

struct FUSEC_API EngineStats {
  double compile_ms = 0;  // from the Model to a linked Engine, without the two below
  double device_ms = 0;   // opening the driver, the GPU's context and its libraries
  double weights_ms = 0;  // converting constants to Options::precision and moving them to the GPU
  std::vector<StageTime> stages;
  int64_t imported_ops = 0;
  int64_t distinct_kernels = 0;     // of the picked candidates, without those that few shapes need
  int64_t compiled_kernels = 0;     // by this Engine or by a compile it waited for
  std::vector<KernelTime> kernels;  // of each of these, the longest first
  int64_t cached_kernels = 0;       // from the kernel cache, another Engine of this process or a package
  int64_t shared_kernels = 0;       // of these, from the shared cache folder
  int64_t server_kernels = 0;       // of these, from the cache server
  int64_t damaged_entries = 0;      // of the kernel cache, met by this compile and made anew
  int64_t code_bytes = 0, constant_bytes = 0;
  std::vector<std::string> notes;  // why edges were not fused, and the like
};

// One launch of a Plan, in execution order.
struct FUSEC_API LaunchInfo {
  std::string origin;
  bool generated = true;       // false: a library call
  bool once = false;           // it depends on no input and runs once per plan, not in each run
  bool specialized = false;    // its kernel is made for the shapes of the plan (Options::specialize)
  std::string implementation;  // kernel name, or the library's name for what it runs
  int64_t bytes = 0;           // that it reads and writes, broadcast axes once
  int threads = 1;             // of a block on a GPU
  double us = 0;               // set by Session::profile; 0 if it runs once
  double predicted_us = 0;     // of a generated kernel, by the machine model of the target; 0 of a library call
  double bound_us = 0;         // that a copy of the bytes it has to move would take
};

// What one set of shapes costs.
struct FUSEC_API PlanStats {
  std::map<std::string, int64_t> symbols;
  int64_t launches = 0, generated = 0, library = 0;  // of a run
  int64_t once = 0;                                  // launches before the first run; they come first in steps
  int64_t tuned = 0;                                 // library calls done in another way than the library would choose
  int64_t specialized = 0;                           // generated launches with kernels for these shapes alone
  int64_t compiled_kernels = 0;                      // for these shapes, by the call that made the plan
  int64_t arena_bytes = 0, live_lower_bound_bytes = 0;
  int64_t kept_bytes = 0;   // of values that are computed once
  int64_t moved_bytes = 0;  // by a run
  double bind_ms = 0;
  std::vector<LaunchInfo> steps;
};

using TensorShape = std::vector<int64_t>;

class FUSEC_API Engine {
 public:
  // invalid_argument for options that do not fit the machine; unsupported, compile_failed, device, out_of_memory as the
  // stages say. A model without free symbols is bound at once, so that such errors show here.
  static Result<Engine> compile(const Model& model, const Options& options = {}) noexcept;

  // The code of a package that fits the device best, or that Options::target names. Of the options, precision,
  // numerics, tf32, batch_invariant and use_library are the package's. invalid_argument: it has no code for the device;
  // else as `compile`.
  static Result<Engine> load(const Package& package, const Options& options = {}) noexcept;

  const std::vector<TensorInfo>& inputs() const;
  const std::vector<TensorInfo>& outputs() const;
  const std::vector<std::string>& symbols() const;
  const Target& target() const;
  Device device() const;
  int threads() const;
  const EngineStats& stats() const;

  // Shapes of the inputs in order; invalid_argument names the input, the axis, what was expected and given.
  Result<std::vector<TensorShape>> output_shapes(std::span<const TensorShape> input_shapes) const noexcept;
  // Makes (or finds) the Plan for these shapes.
  Result<PlanStats> plan(std::span<const TensorShape> input_shapes) const noexcept;
  // Waits until the kernels that Specialize::background owes the Plans made so far are there, or have failed: for
  // measurements. Runs take them by themselves.
  void wait_for_specialized() const noexcept;

  // The constants that Options::replaceable_weights named, in the order of the model.
  std::vector<TensorInfo> weights() const;
  // Replaces the contents of a weight, for all Sessions of this Engine and of its copies: runs that begin from here on
  // see it, runs under way finish with the old one. `data` has the dtype and shape of the weight, on any device and
  // with any strides; it is copied. The next run of each Session packs and computes again what depends on weights, and
  // compiles nothing. A run in capture is refused until then, and graphs that captured runs keep the old weights.
  // invalid_argument: there is no such weight, with what there is, or it has another dtype or shape.
  Status set_weight(const std::string& name, const Tensor& data) noexcept;

  // The inside, for Session and for tools that are built with the library.
  explicit Engine(std::shared_ptr<const runtime::EngineState> state) : state_(std::move(state)) {}
  const std::shared_ptr<const runtime::EngineState>& state() const { return state_; }

 private:
  std::shared_ptr<const runtime::EngineState> state_;
};

}  // namespace fusec
