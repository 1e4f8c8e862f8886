// SPDX-License-Identifier: Apache-2.0
// ONNX test cases: folders with a model.onnx and, in test_data_set_*, inputs and expected outputs as TensorProtos. A
// case is in the first tier whose ops cover its model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compiler/import/onnx/import.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {

enum class CaseStatus { passed, wrong, unsupported };
const char* to_string(CaseStatus status);

struct CaseResult {
  std::string name;
  CaseStatus status = CaseStatus::wrong;
  std::string reason;            // one line; of passed ones empty
  std::string tier;              // what its ops ask for: see find_tier
  std::string op;                // of a model of one node, else empty
  double max_ulp = 0;            // of its float outputs, in units in the last place of what is expected
  bool given_constants = false;  // import had to know the contents of inputs: they came from the data set
};
Json make_json(const CaseResult& result);
CaseResult case_of_json(const Json& json);  // what make_json made

struct CaseOptions {
  std::optional<Options> compiled;  // nullopt: by the evaluator
  // |got - expected| <= atol + rtol |expected|; a case's own data.json has precedence. f16 and bf16 may always be 2
  // units in the last place off. Integers and bools must be equal, NaN and infinities in their places.
  double rtol = 1e-3, atol = 1e-7;  // ONNX's own
};

// The folders at or below `root` that hold a model.onnx, sorted. invalid_argument: there are none.
Result<std::vector<std::filesystem::path>> find_cases(const std::filesystem::path& root);

// unsupported: import refuses the model, naming an op, a type or a feature. Whatever is imported must compile, run and
// be right. Where import asks for the contents of inputs, it gets those of integers and bools, then those of all
// inputs.
CaseResult run_case(const std::filesystem::path& folder, const CaseOptions& options);

// Runs the cases in `jobs` child processes: a case that crashes or takes longer than `seconds` is wrong, and the rest
// goes on. Call it before the process has threads.
std::vector<CaseResult> run_cases(const std::vector<std::filesystem::path>& folders, const CaseOptions& options,
                                  int jobs, double seconds);

// The first of elementwise, reduce, move, compute, control such that every op of the model is in its list or an earlier
// one's; "other" where an op is in none or a type is foreign. The lists are what fusec sets out to do, not what it
// does.
std::string find_tier(const importer::ModelSummary& model);

// The lists, as a table in markdown.
std::string tiers_markdown();

}  // namespace fusec::tool
