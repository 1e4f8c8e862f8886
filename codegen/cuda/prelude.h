// SPDX-License-Identifier: Apache-2.0
// The functions in front of a CUDA text. Only the parts that the text uses are added, so that it never includes
// anything. Parts are named after the functions that they define.
//
// Parts written in PTX are omitted where FUSEC_CUDA_EMULATION is defined: whoever runs the text on a CPU supplies
// replacements.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fusec/target.h"

namespace fusec::codegen::cuda {

class Prelude {
 public:
  // `index_type`: the type of the loop counter in LANES.
  Prelude(const Target& target, std::string index_type) : sm_(target.sm), index_type_(std::move(index_type)) {}

  // Adds a part of the table and the parts that it needs; returns its name.
  std::string use(const std::string& name);
  // For a part written for this kernel: whether it has been added already.
  bool has(const std::string& name) const { return present_.contains(name); }
  void define(const std::string& name, const std::string& text);
  std::string str() const;

 private:
  int sm_;
  std::string index_type_;
  std::set<std::string> present_;
  std::string ptx_, text_;
};

}  // namespace fusec::codegen::cuda
