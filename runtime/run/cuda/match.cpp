// SPDX-License-Identifier: Apache-2.0
// Libraries' kernels have names of their own, and how many a call starts is the library's affair. So a run whose number
// of kernels is as expected is taken in order. In any other, the generated kernels are found by their names, and what
// lies between two of them belongs to the library calls between them.

#include "runtime/run/cuda/match.h"

#include <algorithm>
#include <numeric>

namespace fusec::runtime::cuda {
namespace {

std::size_t count_of(const ExpectedLaunch& e) { return e.generated ? e.names.size() : e.counted; }

// False: the kernels are others, or not so many.
bool match_in_order(std::span<const ExpectedLaunch> expected, std::span<const std::string> names,
                    MatchedKernels& matched) {
  std::size_t at = 0;
  for (const ExpectedLaunch& e : expected) {
    for (std::size_t k = 0; k < count_of(e); ++k, ++at) {
      if (at >= names.size() || (e.generated && e.names[k] != names[at])) return false;
      matched.launch[at] = e.launch;
    }
  }
  return at == names.size();
}

// Divides `count` kernels among library calls that follow one another.
std::vector<std::size_t> divide(std::span<const ExpectedLaunch> calls, std::size_t count, bool& is_sure) {
  std::vector<std::size_t> counts;
  for (const ExpectedLaunch& call : calls) counts.push_back(call.counted);
  if (std::accumulate(counts.begin(), counts.end(), std::size_t{0}) == count) return counts;
  std::fill(counts.begin(), counts.end(), count / calls.size());
  counts.back() += count % calls.size();
  is_sure = is_sure && calls.size() == 1;
  return counts;
}

}  // namespace

MatchedKernels match_kernels(std::span<const ExpectedLaunch> expected, std::span<const std::string> names) {
  MatchedKernels matched{std::vector<int32_t>(names.size(), -1)};
  if (match_in_order(expected, names, matched)) return matched;
  std::fill(matched.launch.begin(), matched.launch.end(), -1);
  std::size_t at = 0;
  for (std::size_t e = 0; e < expected.size();) {
    const std::size_t first = e;
    while (e < expected.size() && !expected[e].generated) ++e;
    // What lies before the next generated kernel, which the end of the run stands for where there is none.
    std::size_t until = names.size();
    if (e < expected.size()) {
      const auto found =
          std::find(names.begin() + static_cast<std::ptrdiff_t>(at), names.end(), expected[e].names.at(0));
      if (found == names.end()) {
        matched.is_sure = false;
        ++e;
        continue;
      }
      until = static_cast<std::size_t>(found - names.begin());
    }
    const std::span<const ExpectedLaunch> calls = expected.subspan(first, e - first);
    if (calls.empty()) {
      matched.is_sure = matched.is_sure && until == at;
    } else {
      const std::vector<std::size_t> counts = divide(calls, until - at, matched.is_sure);
      for (std::size_t c = 0; c < calls.size(); ++c)
        for (std::size_t k = 0; k < counts[c]; ++k) matched.launch[at++] = calls[c].launch;
    }
    at = until;
    if (e == expected.size()) break;
    for (const std::string& name : expected[e].names) {
      if (at < names.size() && names[at] == name) {
        matched.launch[at++] = expected[e].launch;
      } else {
        matched.is_sure = false;
      }
    }
    ++e;
  }
  matched.is_sure = matched.is_sure && at == names.size();
  return matched;
}

}  // namespace fusec::runtime::cuda
