// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/check.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "ir/verify/graph.h"
#include "tests/fuzz/bounds.h"
#include "tests/fuzz/execute.h"

namespace fusec::fuzz {
namespace {

using Tensors = std::vector<Tensor>;

// The message of the first output outside of its bounds.
std::string first_wrong(const Case& c, const Tensors& got, const std::vector<Bounded>& want, Outcome* count) {
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (got[i].shape() != want[i].at.shape())
      return fmt::format("output {} has another shape", c.graph.output_names[i]);
    const Verdict v = compare(got[i], want[i]);
    if (count != nullptr) {
      count->elements += v.elements;
      count->undecided += v.undecided;
    }
    if (v.wrong > 0)
      return fmt::format("output {}: {} of {} elements, {}", c.graph.output_names[i], v.wrong, v.elements, v.message);
  }
  return {};
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
  if (const Status valid = ir::verify(c.graph, ir::Stage::imported); !valid.ok()) return {Fault::bad_case, valid.str()};
  std::vector<std::vector<Bounded>> want;
  for (std::size_t run = 0; run < c.runs.size(); ++run) {
    Result<std::vector<Bounded>> bounds = evaluate_bounds(c.graph, c.runs[run].inputs);
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
  for (std::size_t run = 0; run < c.runs.size(); ++run) {
    const std::string wrong = first_wrong(c, (*got)[run], want[run], c.runs[run].special ? nullptr : &outcome);
    if (wrong.empty()) continue;
    outcome.fault = Fault::wrong_value;
    outcome.message = in_run(run, wrong);
    return outcome;
  }
  return outcome;
}

Outcome check_apart(const Case& c) {
  int ends[2];
  if (pipe(ends) != 0) return {Fault::bad_case, "no pipe"};
  const pid_t child = fork();
  if (child == 0) {
    std::freopen("/dev/null", "w", stderr);  // what a broken heap says
    alarm(60);  // a loop without end is a crash
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
  if (!WIFEXITED(status) || text.empty())
    return {Fault::crash, fmt::format("the process ended with status {}", status)};
  return {static_cast<Fault>(text[0] - '0'), text.substr(1)};
}

}  // namespace fusec::fuzz
