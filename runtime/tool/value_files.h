// SPDX-License-Identifier: Apache-2.0
// `fusec run --dump-values` and `--check-values`: the values of a run as files, and those that are not finite.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/tool/commands.h"
#include "runtime/tool/value_run.h"

namespace fusec::tool {

// "0007-fc1_Add.npy": of a model's strings only letters, digits, '.', '-' and '_' get into the name of a file, and few
// of them, so that no folder but the given one is written.
std::string value_file_name(std::size_t number, const std::string& label);

// Writes values into a folder, and at the end index.json, which says what each file holds.
class ValueFiles {
 public:
  // The folder is made. match: a glob over names and origins; empty: every value.
  static Result<ValueFiles> make(const std::string& dir, const std::string& match);
  Status add(const ValueInfo& info, const Tensor& value);
  // inputs: their hashes are stored, so that a later compare sees whether it has the same ones.
  Status finish(const ValueRun& run, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);
  std::size_t written() const { return list_.size(); }

 private:
  ValueFiles(std::string dir, std::string match) : dir_(std::move(dir)), match_(std::move(match)) {}
  std::string dir_, match_;
  Json list_ = Json::array();
};

// A folder that ValueFiles wrote, here or on another machine. Nothing in it is trusted: files lie in the folder itself.
struct StoredValue {
  std::string name, origin, key, own_key, path;
};
struct StoredValues {
  std::vector<StoredValue> values, outputs;
  std::map<std::string, std::string> input_hashes;
};
Result<StoredValues> read_value_index(const std::string& dir);
std::string hash_of(const Tensor& tensor);

// Front::run_values.
Result<ValueReport> run_values(const Loaded& loaded, const Options& options, const std::vector<Tensor>& inputs,
                               const ValueFlags& flags);

}  // namespace fusec::tool
