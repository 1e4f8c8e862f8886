// SPDX-License-Identifier: Apache-2.0
// Puts the independent calls of one library op on streams of their own, which a graph capture records as branches.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime/device/cuda/handles.h"
#include "runtime/library/interface/library.h"

namespace fusec::runtime::cuda {

class Branches {
 public:
  Branches() = default;
  // For ops of up to `calls` calls. No more than a few branches: further calls follow on the same ones.
  static Result<Branches> make(ContextPtr context, std::size_t calls);

  // Puts the op's calls behind the work on `stream`; what follows on `stream` waits for all of them. Allocates nothing.
  Status run(const LibraryOp& op, void* const* args, CUstream stream) const;

 private:
  struct Branch {
    Stream stream;
    Event done;
  };

  ContextPtr context_;
  Event begin_;
  std::vector<Branch> branches_;  // beside the stream that is given
};

}  // namespace fusec::runtime::cuda
