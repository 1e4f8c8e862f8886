// SPDX-License-Identifier: Apache-2.0
// A bound call: plans in order and where their pointers come from.
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
  int arg = -1;            // of Place::arg
  std::size_t offset = 0;  // of Place::temporary, in the workspace
  void* fixed = nullptr;   // of Place::fixed
};

struct Stage {
  std::shared_ptr<const Work> plan;
  std::vector<Pointer> pointers;
};

struct Recipe {
  std::vector<Stage> stages;
  std::size_t temporaries = 0, scratch = 0;  // bytes
  std::size_t packed = 0;                    // bytes of weights behind Place::fixed
  std::string implementation;

  std::map<int, int64_t> alignments;  // of arguments

  Pointer reserve(const TensorSpec& tensor);
  void add(std::shared_ptr<const Work> plan, std::vector<Pointer> pointers);
  // The plan relies on the tensor's alignment at this pointer.
  void need(const Pointer& pointer, const TensorSpec& tensor);
};

std::unique_ptr<LibraryOp> make_op(Recipe recipe);

}  // namespace fusec::runtime::cudnn
