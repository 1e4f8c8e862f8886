// SPDX-License-Identifier: Apache-2.0
// A bound call: plans in order, and the sources of their pointers.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/library/cudnn/spec.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime::cudnn {

enum class Place { arg, temporary, fixed };

struct Pointer {
  Place place = Place::arg;
  int arg = -1;            // for Place::arg
  std::size_t offset = 0;  // for Place::temporary, in the workspace
  void* fixed = nullptr;   // for Place::fixed
};

struct Stage {
  std::shared_ptr<const Work> plan;
  std::vector<Pointer> pointers;
};

struct Recipe {
  std::vector<Stage> stages;
  std::size_t temporaries = 0, scratch = 0;  // bytes
  std::size_t packed = 0;                    // bytes of weights at fixed pointers
  std::string implementation;

  std::map<int, int64_t> alignments;  // required alignment by argument

  Pointer reserve(const TensorSpec& tensor);
  void add(std::shared_ptr<const Work> plan, std::vector<Pointer> pointers);
  // Records that the plan relies on the tensor's alignment at this pointer.
  void need(const Pointer& pointer, const TensorSpec& tensor);
};

std::unique_ptr<LibraryOp> make_op(Recipe recipe);

}  // namespace fusec::runtime::cudnn
