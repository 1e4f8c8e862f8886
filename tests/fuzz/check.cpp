// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/check.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <set>

#include "ir/eval/graph.h"
#include "ir/ops/cast.h"
#include "ir/verify/graph.h"
#include "tests/fuzz/bounds_internal.h"
#include "tests/fuzz/execute.h"
#include "tests/fuzz/random.h"
#include "tests/fuzz/variant.h"

namespace fusec::fuzz {
namespace {

Result<std::vector<Bounded>> compute_bounds(const Case& c, const Run& run) {
  return evaluate_bounds(c.graph, run.inputs, c.setting.numerics, c.setting.device != "cpu");
}

using Tensors = std::vector<Tensor>;

// The message of the first output outside of its bounds.
std::string first_wrong(const Case& c, const Tensors& got, const std::vector<Bounded>& want, Count* count) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i].shape() != want[i].at.shape())
      return fmt::format("output {} has another shape", c.graph.output_names[i]);
    const ComparisonResult v = compare(got[i], want[i]);
    if (count != nullptr) {
      count->elements += v.elements;
      count->undecided += v.undecided;
    }
    if (v.wrong > 0)
      return fmt::format("output {}: {} of {} elements, {}", c.graph.output_names[i], v.wrong, v.elements, v.message);
  }
  return {};
}

bool is_nan_at(const Tensor& t, int64_t i) {
  return is_float(t.dtype()) &&
         std::isnan(ir::load_double(t.dtype(), t.as<char>() + i * static_cast<int64_t>(size_of(t.dtype()))));
}

// The first element whose bits differ; any NaN is as good as another. -1: none.
int64_t first_other_bits(const Tensor& a, const Tensor& b) {
  const auto size = static_cast<int64_t>(size_of(a.dtype()));
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    if (std::memcmp(a.as<char>() + i * size, b.as<char>() + i * size, size_of(a.dtype())) == 0) continue;
    if (!is_nan_at(a, i) || !is_nan_at(b, i)) return i;
  }
  return -1;
}

// The largest distance from the middle of the bounds, over elements that are finite and decided, and that no decision
// goes into.
struct Distance {
  double error = 0, largest = 0;
};
void widen(Distance& d, const Tensor& got, const Bounded& want) {
  std::vector<bool> open = undecided(want, got.dtype());
  std::transform(want.jumps.begin(), want.jumps.end(), open.begin(), open.begin(), std::logical_or<>());
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    const double right = want.at.as<double>()[i];
    const double value = ir::load_double(got.dtype(), got.as<char>() + i * static_cast<int64_t>(size_of(got.dtype())));
    if (open[static_cast<std::size_t>(i)] || !std::isfinite(right) || !std::isfinite(value)) continue;
    d.error = std::max(d.error, std::fabs(value - right));
    d.largest = std::max(d.largest, std::fabs(right));
  }
}

// Of the float dtypes that an output was rounded to on its way, the one of fewest digits.
DType coarsest(const ir::Graph& graph, ir::ValueId output) {
  DType dtype = graph.type(output).dtype;
  std::set<ir::ValueId> seen;
  std::vector<ir::ValueId> open = {output};
  while (!open.empty()) {
    const ir::ValueId v = open.back();
    open.pop_back();
    const ir::Node* node = graph.producer(v);
    if (node == nullptr || !seen.insert(v).second) continue;
    const auto moves = [](ir::OpPattern kind) {
      return kind == ir::OpPattern::index_map || kind == ir::OpPattern::source;
    };
    const bool rounds = node->op.is_scalar() || !moves(info(node->op.tensor()).kind);
    const DType own = graph.type(v).dtype;
    if (rounds && is_float(own) && known_bits_of(own) < known_bits_of(dtype)) dtype = own;
    open.insert(open.end(), node->inputs.begin(), node->inputs.end());
  }
  return dtype;
}

// An output that is off by more than twice the unfused one's largest error and one unit of its largest value. Not one
// that was rounded to fewer digits on its way: what such a rounding, which fusion may leave out, is worth in units of
// the output is not known.
std::string first_worse(const Case& c, const std::vector<Tensors>& got, const std::vector<Tensors>& unfused,
                        const std::vector<std::vector<Bounded>>& want) {
  for (std::size_t i = 0; i < c.graph.outputs.size(); ++i) {
    const DType dtype = c.graph.type(c.graph.outputs[i]).dtype;
    const auto same = [&](const auto& bounds) { return first_other_bits(bounds[i].at, want[0][i].at) < 0; };
    // The reference is in f64: no judge of that.
    if (!is_float(dtype) || dtype == DType::f64 || coarsest(c.graph, c.graph.outputs[i]) != dtype) continue;
    if (want.size() > 1 && std::all_of(want.begin(), want.end(), same)) continue;
    Distance a, b;
    for (std::size_t run = 0; run < got.size(); ++run) {
      widen(a, got[run][i], want[run][i]);
      widen(b, unfused[run][i], want[run][i]);
    }
    if (a.error > 2 * b.error + unit_at(dtype, a.largest))
      return fmt::format("output {}: off by {:g}, unfused by {:g}", c.graph.output_names[i], a.error, b.error);
  }
  return {};
}

// A run on inputs near this one's: floats are up to a 16th smaller, integers change places.
Run run_near(const Run& run, Random& random) {
  Run other;
  for (const Tensor& from : run.inputs) {
    const auto size = static_cast<int64_t>(size_of(from.dtype()));
    Tensor to = *Tensor::make(from.dtype(), from.shape());
    std::memcpy(to.data(), from.data(), static_cast<std::size_t>(from.num_elements() * size));
    for (int64_t at = 0; at < to.num_elements(); ++at) {
      char* element = to.as<char>() + at * size;
      if (is_float(to.dtype()))
        ir::store_double(to.dtype(), element, ir::load_double(to.dtype(), element) * (1 - random.uniform() / 16));
      else
        std::swap_ranges(element, element + size, to.as<char>() + random.between(at, to.num_elements() - 1) * size);
    }
    other.inputs.push_back(std::move(to));
  }
  return other;
}

Result<std::vector<Tensors>> execute_beside(const Case& c) {
  std::vector<Tensors> all;
  FUSEC_ASSIGN(const std::vector<Case> forms, variants(c, c.setting.beside));
  for (const Case& form : forms) {
    FUSEC_ASSIGN(std::vector<Tensors> outputs, execute(form));
    std::move(outputs.begin(), outputs.end(), std::back_inserter(all));
  }
  return all;
}

// Of one input the unfused form's error may be small by luck: the largest ones over many near it tell. Where those make
// no difference, an output is not asked.
constexpr int kRunsNear = 32;
std::string worse_near(const Case& c, const Run& run, const std::vector<Bounded>& bounds) {
  Case near = c;
  near.runs = {run};
  Random random(c.seed ^ 0x9ea5);
  std::vector<std::vector<Bounded>> want = {bounds};
  for (int i = 0; i < kRunsNear; ++i) {
    Run other = run_near(run, random);
    Result<std::vector<Bounded>> others = compute_bounds(c, other);
    if (!others.ok()) continue;  // an index out of range
    near.runs.push_back(std::move(other));
    want.push_back(std::move(*others));
  }
  const Result<std::vector<Tensors>> got = execute(near), unfused = execute_beside(near);
  if (!got.ok() || !unfused.ok()) return (got.ok() ? unfused : got).status().str();
  const std::string wrong = first_worse(near, *got, *unfused, want);
  return wrong.empty() ? wrong : fmt::format("{}, over {} inputs", wrong, near.runs.size());
}

// What is wrong with a run beside that of the case's other form.
std::string beside_other(const Case& c, const Run& run, const Tensors& got, const Tensors& other,
                         const std::vector<Bounded>& want) {
  const Beside beside = c.setting.beside;
  if (!same_bits(c, beside)) {
    const bool is_worse = beside == Beside::unfused && !first_worse(c, {got}, {other}, {want}).empty();
    return is_worse ? worse_near(c, run, want) : "";
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const int64_t at = first_other_bits(got[i], other[i]);
    if (at >= 0)
      return fmt::format("output {}: element {} has other bits than {}", c.graph.output_names[i], at,
                         to_string(beside));
  }
  return {};
}

std::string in_other(const Case& c, const std::string& message) {
  return fmt::format("{}: {}", to_string(c.setting.beside), message);
}
std::string in_run(std::size_t run, const std::string& message) { return fmt::format("run {}: {}", run, message); }

}  // namespace

const char* to_string(Fault fault) {
  switch (fault) {
    case Fault::none:
      return "ok";
    case Fault::wrong_value:
      return "wrong value";
    case Fault::evaluator_out_of_bounds:
      return "evaluator out of bounds";
    case Fault::error:
      return "error";
    case Fault::crash:
      return "crash";
    case Fault::bad_case:
      return "bad case";
  }
  return "";
}

Outcome check(const Case& c) {
  if (const Status valid = ir::verify(c.graph, ir::GraphForm::imported); !valid.ok())
    return {Fault::bad_case, valid.str()};
  std::vector<std::vector<Bounded>> want;
  for (std::size_t run = 0; run < c.runs.size(); ++run) {
    Result<std::vector<Bounded>> bounds = compute_bounds(c, c.runs[run]);
    if (!bounds.ok()) return {Fault::bad_case, in_run(run, bounds.status().str())};
    const Result<Tensors> rounded = ir::evaluate(c.graph, c.runs[run].inputs);
    if (!rounded.ok()) return {Fault::bad_case, in_run(run, rounded.status().str())};
    const std::string wrong = first_wrong(c, *rounded, *bounds, nullptr);
    if (!wrong.empty()) return {Fault::evaluator_out_of_bounds, in_run(run, wrong)};
    want.push_back(std::move(*bounds));
  }
  const Result<std::vector<Tensors>> got = execute(c);
  if (!got.ok()) return {Fault::error, got.status().str()};
  Outcome outcome;
  std::vector<Tensors> other;
  if (c.setting.beside != Beside::nothing) {
    Result<std::vector<Tensors>> outputs = execute_beside(c);
    if (!outputs.ok()) return {Fault::error, in_other(c, outputs.status().str())};
    other = std::move(*outputs);
  }
  for (std::size_t run = 0; run < c.runs.size(); ++run) {
    std::string wrong = first_wrong(c, (*got)[run], want[run], c.runs[run].special ? &outcome.special : &outcome.plain);
    if (wrong.empty() && !other.empty()) {
      wrong = first_wrong(c, other[run], want[run], nullptr);
      if (!wrong.empty()) wrong = in_other(c, wrong);
    }
    if (wrong.empty() && !other.empty() && !c.runs[run].special)
      wrong = beside_other(c, c.runs[run], (*got)[run], other[run], want[run]);
    if (wrong.empty()) continue;
    outcome.fault = Fault::wrong_value;
    outcome.message = in_run(run, wrong);
    return outcome;
  }
  return outcome;
}

Outcome crashed(int status) {
  if (!WIFSIGNALED(status)) return {Fault::crash, fmt::format("exit code {} without a result", WEXITSTATUS(status))};
  if (WTERMSIG(status) == SIGALRM) return {Fault::crash, fmt::format("no end after {} s", kMaxSeconds)};
  return {Fault::crash, fmt::format("signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)))};
}

Outcome check_apart(const Case& c) {
  int ends[2];
  if (pipe(ends) != 0) return {Fault::bad_case, "no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    (void)!std::freopen("/dev/null", "w", stderr);  // what a broken heap says
    alarm(kMaxSeconds);
    const Outcome outcome = check(c);
    const std::string text = std::string(1, static_cast<char>('0' + static_cast<int>(outcome.fault))) + outcome.message;
    _exit(write(ends[1], text.data(), std::min<std::size_t>(text.size(), 4000)) > 0 ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!WIFEXITED(status) || text.empty()) return crashed(status);
  return {static_cast<Fault>(text[0] - '0'), text.substr(1)};
}

}  // namespace fusec::fuzz
