// SPDX-License-Identifier: Apache-2.0
// Runs one library call repeatedly on operands with random contents and collects its times, for the tuner. An algorithm
// that is clearly slower than the best one is given up after the first runs. Operands have the same misalignment as in
// the plan.

#include "runtime/tuning/timed_call.h"

#include <algorithm>

#include "ir/ops/cast.h"
#include "ir/support/hash.h"

namespace fusec::runtime {
namespace {

constexpr int kRuns = 11, kQuickRuns = 5;
// In turn of two ways of a short call, whose runs differ by a tenth: the medians of so many differ by a fiftieth.
constexpr double kShortRunUs = 100;
constexpr int kRunsInTurn = 61, kQuickRunsInTurn = 15;
constexpr double kHopelessFactor = 2;  // of the best: given up after two runs
constexpr double kVeryHopeless = 8;    // given up after the run that is not counted
constexpr double kLongRunUs = 50'000;  // of such, fewer
constexpr int kRunsOfLong = 3;
// Of a repeated call: short runs are so many that a timed one takes about this long.
constexpr double kRepeatedUs = 2000;
constexpr int64_t kMinRepeats = 2, kMaxRepeats = 20;
constexpr int64_t kPatternElements = 1 << 16;  // random elements that are repeated

std::vector<std::byte> random_elements(DType dtype) {
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> out(kPatternElements * size);
  uint64_t random = 1;
  for (std::size_t i = 0; i < kPatternElements; ++i) {
    random = ir::mix64(random);
    const double unit = static_cast<double>(random >> 11) / 4503599627370496.0 - 1;  // 2^52
    ir::store_double(dtype, out.data() + i * size,
                     is_float(dtype) ? unit : static_cast<double>(static_cast<int>(unit * 9)));
  }
  return out;
}

int runs_for(double us, bool quick) {
  const int runs = quick ? kQuickRuns : kRuns;
  return us > kLongRunUs ? std::min(runs, kRunsOfLong) : runs;
}

}  // namespace

Spread compute_spread(std::vector<double> us) {
  if (us.empty()) return {};
  std::sort(us.begin(), us.end());
  const auto at = [&](double p) { return us[static_cast<std::size_t>(p * static_cast<double>(us.size() - 1) + 0.5)]; };
  return {at(0.5), at(0.5) > 0 ? (at(0.75) - at(0.25)) / at(0.5) : 0};
}

Status TimedCall::begin(const LibraryCall& call) {
  warm_constants_ = call.warm_constants, repeated_ = call.repeated;
  return begin_args(call.args, 1);
}

Status TimedCall::begin(std::span<const BoundArg> args, std::size_t outputs) {
  warm_constants_ = repeated_ = false;
  return begin_args(args, outputs);
}

Status TimedCall::begin_args(std::span<const BoundArg> args, std::size_t outputs) {
  end();
  for (std::size_t i = 0; i < args.size(); ++i) FUSEC_TRY(place(args[i], i + outputs >= args.size()));
  return {};
}

void TimedCall::end() {
  args_.clear();
  warm_.clear();
  workspace_ = {};
  stopwatch_->release();
}

Status TimedCall::place(const BoundArg& arg, bool is_output) {
  const auto size = static_cast<int64_t>(size_of(arg.dtype));
  int64_t low = 0, high = 0;  // elements that the view reaches before and after its first
  for (std::size_t i = 0; i < arg.shape.size(); ++i) {
    const int64_t reach = (arg.shape[i] - 1) * arg.strides[i];
    (reach < 0 ? low : high) += reach;
  }
  const auto* const constant = static_cast<const std::byte*>(arg.constant);
  if (constant != nullptr && device_ == nullptr) {
    args_.push_back(const_cast<std::byte*>(constant));  // only read
    return {};
  }
  // The operand gets the same misalignment as in the plan.
  const int64_t bytes = (high - low + 1) * size, odd = arg.offset % kTimedAlignment;
  FUSEC_ASSIGN(void* const memory, stopwatch_->allocate(bytes + odd));
  auto* const begin = static_cast<std::byte*>(memory) + odd;
  args_.push_back(begin - low * size);
  if (constant != nullptr ? warm_constants_ : !is_output) warm_.push_back({begin, bytes});
  if (constant != nullptr) return stopwatch_->write(begin, constant + low * size, bytes);
  const std::vector<std::byte> pattern = random_elements(arg.dtype);
  for (int64_t at = 0; at < bytes; at += static_cast<int64_t>(pattern.size())) {
    FUSEC_TRY(
        stopwatch_->write(begin + at, pattern.data(), std::min(bytes - at, static_cast<int64_t>(pattern.size()))));
  }
  return {};
}

Result<double> TimedCall::once(const LibraryOp& op) {
  std::vector<void*> args = args_;
  // As in a plan, the output takes the memory of an operand if the library allows it.
  if (const std::vector<int> aliases = op.may_alias(); !aliases.empty())
    args.back() = args[static_cast<std::size_t>(aliases[0])];
  const auto bytes = static_cast<int64_t>(op.workspace_bytes());
  if (bytes > workspace_.bytes) {
    FUSEC_ASSIGN(workspace_.data, stopwatch_->allocate(bytes));
    workspace_.bytes = bytes;
  }
  if (repeated_) return stopwatch_->time_repeated_us(op, args.data(), workspace_.data, runs_);
  return stopwatch_->time_us(op, args.data(), workspace_.data, warm_);
}

Result<std::vector<double>> TimedCall::time(const LibraryOp& op, bool quick, double best_us) {
  runs_ = kMinRepeats;
  FUSEC_ASSIGN(const double first, once(op));
  runs_ = std::clamp(static_cast<int64_t>(kRepeatedUs / std::max(first, 1.0)), kMinRepeats, kMaxRepeats);
  if (best_us > 0 && first > kVeryHopeless * best_us) return std::vector<double>{first};
  std::vector<double> us;
  const int runs = runs_for(first, quick);
  while (static_cast<int>(us.size()) < runs) {
    FUSEC_ASSIGN(const double one, once(op));
    us.push_back(one);
    const double least = *std::min_element(us.begin(), us.end());
    if (us.size() == 2 && best_us > 0 && least > kHopelessFactor * best_us) break;
  }
  return us;
}

Result<std::pair<std::vector<double>, std::vector<double>>> TimedCall::time_in_turn(const LibraryOp& first,
                                                                                    const LibraryOp& second,
                                                                                    bool quick) {
  std::pair<std::vector<double>, std::vector<double>> us;
  runs_ = kMinRepeats;
  FUSEC_ASSIGN(const double warm_up, once(first));
  runs_ = std::clamp(static_cast<int64_t>(kRepeatedUs / std::max(warm_up, 1.0)), kMinRepeats, kMaxRepeats);
  FUSEC_TRY(once(second).status());
  const int of_short = quick ? kQuickRunsInTurn : kRunsInTurn;
  const int runs = warm_up < kShortRunUs ? of_short : runs_for(warm_up, quick);
  for (int i = 0; i < runs; ++i) {
    FUSEC_ASSIGN(const double a, once(first));
    FUSEC_ASSIGN(const double b, once(second));
    us.first.push_back(a);
    us.second.push_back(b);
  }
  return us;
}

Status TimedCall::alive() const { return device_ == nullptr ? Status() : device_->enter().status(); }

}  // namespace fusec::runtime
