// SPDX-License-Identifier: Apache-2.0
// The walk over a kernel that writes LLVM IR: one function per grid phase, vectors as they stand in the kernel, unroll
// loops expanded, all other inner loops real. The parts share a Writer.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/llvm/frame.h"
#include "codegen/llvm/index.h"
#include "codegen/llvm/locals.h"
#include "codegen/llvm/values.h"
#include "ir/kernel.h"

namespace fusec::codegen {

struct Register {
  llvm::Value* raw = nullptr;
  llvm::Value* compute = nullptr;
};

struct Writer {
  const ir::Kernel& kernel;
  const Locals& locals;
  Ir ir;
  Index index;
  Frame frame;
  std::vector<std::string>& externs;
  std::vector<Register> regs;                                       // by RegId
  std::map<ir::BufferId, llvm::Value*> bases;                       // memory of a buffer
  std::map<ir::BufferId, std::vector<llvm::AllocaInst*>> slots;     // of slot buffers
  std::vector<llvm::AllocaInst*> promotable;                        // stack slots that become SSA values
  std::map<std::tuple<llvm::BasicBlock*, int, Dim>, llvm::Value*> masks;  // of lanes, by block and width
  llvm::Value* lane = nullptr;                                      // the current lane (i64) of per-lane code
  bool streams = false;                                             // streaming stores were written

  Writer(const ir::Kernel& kernel, const Locals& locals, llvm::IRBuilder<>& builder, const Target& target,
         std::vector<std::string>& externs);
  Writer(const Writer&) = delete;
};

struct PhaseText {
  std::string name;
  Dim iterations;
};
// Adds the functions of all phases to `module`.
std::vector<PhaseText> write_kernel(const ir::Kernel& kernel, const Locals& locals, const Target& target,
                                    llvm::Module& module, std::vector<std::string>& externs);

void write_stmt(Writer& w, const ir::Stmt& stmt);
void write_block(Writer& w, const ir::Block& block);
// body() for var = 0 .. extent-1: expanded for `unroll`, else a loop.
void write_loop(Writer& w, const ir::LoopHead& head, const std::function<void()>& body);

void define(Writer& w, ir::RegId reg, llvm::Value* raw);
DType dtype_of(const Writer& w, const ir::Operand& operand);
llvm::Value* raw_operand(Writer& w, const ir::Operand& operand);
llvm::Value* compute_operand(Writer& w, const ir::Operand& operand);
[[noreturn]] void fail(const Writer& w, const ir::Stmt& stmt, const std::string& why);

// access.cpp
void write_load(Writer& w, const ir::Load& load);
void write_store(Writer& w, const ir::Store& store);
void write_prefetch(Writer& w, const ir::Prefetch& prefetch);
void write_index_value(Writer& w, const ir::IndexValue& stmt);
// The guard as i1 or a vector of i1 of `width`; null when it always holds.
llvm::Value* guard_mask(Writer& w, const ir::Guard& guard, int width);

// tile.cpp
void write_transpose(Writer& w, const ir::TransposeTile& stmt);
void write_copy(Writer& w, const ir::CopyAsync& stmt);
// The stack slots of a slot buffer.
const std::vector<llvm::AllocaInst*>& slots_of(Writer& w, ir::BufferId id);
llvm::Value* base_of(Writer& w, ir::BufferId id);

// reduce.cpp
void write_reduce(Writer& w, const ir::Reduce& reduce);
void write_scan(Writer& w, const ir::Scan& scan);

}  // namespace fusec::codegen
