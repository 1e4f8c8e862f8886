// SPDX-License-Identifier: Apache-2.0
// A balanced tree over a number of values that is known at run time: a binary counter of subtrees. After n elements,
// subtree l is there where bit l of n is set; an element merges with the subtrees of its index's trailing ones.
#pragma once

#include "codegen/llvm/combine.h"
#include "codegen/llvm/writer.h"

namespace fusec::codegen {

class Counter {
 public:
  Counter(Writer& w, const CombineOp& op, int width);
  // A single element, index an i64; where the mask (null: always) does not hold, the identity.
  void add(llvm::Value* index, const Parts& element, llvm::Value* mask);
  // The subtree of one element.
  void put(llvm::Value* index, const Parts& element);
  // Of `count` elements in all; the subtrees from the smallest up, each before what is there already.
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
