// SPDX-License-Identifier: Apache-2.0
// What stands before the functions of a CUDA text: only the parts that they use, so that nothing is ever included.
// Parts are named by the functions that they define.
//
// Parts that are written in PTX are left out where FUSEC_SHIM is defined: who runs the text on a CPU brings his own.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fusec/target.h"

namespace fusec::codegen::cuda {

class Prelude {
 public:
  // `index_type`: what LANES counts in.
  Prelude(const Target& target, std::string index_type) : sm_(target.sm), index_type_(std::move(index_type)) {}

  // Puts in a part of the table, and those that it needs; answers its name.
  std::string use(const std::string& name);
  // A part written for this kernel. False: it is there already.
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
