// SPDX-License-Identifier: Apache-2.0
// A balanced tree over a number of values that is known only at run time: a binary counter of subtrees. After n
// elements, subtree l is present if bit l of n is set. An element merges with the subtrees of its index's trailing
// ones.
#pragma once

#include "codegen/llvm/values.h"
#include "codegen/llvm/writer.h"

namespace fusec::codegen {

class Counter {
 public:
  Counter(Writer& w, const CombineOp& op, int width);
  // Adds a single element; `index` is an i64. Where the mask does not hold (null: it always holds), the identity is
  // added.
  void add(llvm::Value* index, const Parts& element, llvm::Value* mask);
  // Adds the subtree of one element.
  void put(llvm::Value* index, const Parts& element);
  // The result for `count` elements in all: combines the subtrees from the smallest up, each to the left of what is
  // there.
  Parts finish(llvm::Value* count);

 private:
  llvm::Value* bit(llvm::Value* number, llvm::Value* level);
  llvm::Value* address(std::size_t part, llvm::Value* level);
  Parts subtree(llvm::Value* level);
  Parts load();
  void store(const Parts& parts);

  Writer& w_;
  const CombineOp op_;
  Parts start_;
  std::vector<llvm::AllocaInst*> subtrees_, current_;
};

}  // namespace fusec::codegen
