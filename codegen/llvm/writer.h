// SPDX-License-Identifier: Apache-2.0
// The walk over a kernel that writes LLVM IR: one function per grid phase, vectors as they stand in the kernel, unroll
// loops expanded, all other inner loops real. The parts share a Writer.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/kernel/phases.h"
#include "codegen/llvm/frame.h"
#include "codegen/llvm/index.h"
#include "codegen/llvm/locals.h"
#include "codegen/llvm/values.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

struct Register {
  llvm::Value* raw = nullptr;
  llvm::Value* compute = nullptr;
};

// Constants of a machine.
struct Traits {
  int64_t local_alignment;  // of local buffers in memory
  // Guards that differ by lane are looked at in code for each lane, not in a loop; and in one of them where the facts
  // say that all agree.
  bool expands_lanes;
  bool prefetches;
  bool needs_alignment;  // whole vectors are accessed in pieces, as wide as is proven of their addresses
};

// What differs between machines is virtual.
struct Writer {
  const ir::Kernel& kernel;
  const Locals& locals;
  Ir ir;
  Index index;
  const Traits traits;
  Frame frame;
  std::vector<Register> regs;                                             // by RegId
  std::map<ir::BufferId, llvm::Value*> bases;                             // memory of a buffer
  std::map<ir::BufferId, std::vector<llvm::AllocaInst*>> slots;           // of slot buffers
  std::vector<llvm::AllocaInst*> promotable;                              // stack slots that become SSA values
  std::map<std::tuple<llvm::BasicBlock*, int, Dim>, llvm::Value*> masks;  // of lanes, by block and width
  llvm::Value* lane = nullptr;                                            // the current lane (i64) of per-lane code
  bool streams = false;                                                   // streaming stores were written

  Writer(const ir::Kernel& kernel, const Locals& locals, llvm::IRBuilder<>& builder, const Target& target,
         const Machine& machine, llvm::IntegerType* index_type, const Traits& traits);
  virtual ~Writer() = default;
  Writer(const Writer&) = delete;

  // The function of a phase.
  virtual void write_phase(llvm::Module& module, const Phase& phase, const std::string& name) = 0;
  // The address of a parameter, or of a scratch buffer behind these.
  virtual llvm::Value* buffer(int64_t position) = 0;
  virtual llvm::Value* status() = 0;
  // Of a function that Machine::function calls.
  virtual llvm::Value* extern_address(const std::string& name) = 0;
  // The memory of a reg or shared buffer that has no slots.
  virtual llvm::Value* local(ir::BufferId id) = 0;
  // What must hold for this thread to be the one that stores to the buffer, an i1; null: it is.
  virtual llvm::Value* may_store(ir::BufferId id) = 0;
  // Whole vectors; a null store: of several instructions.
  virtual llvm::Value* load(llvm::Type* type, llvm::Value* from, llvm::Align align) = 0;
  virtual llvm::StoreInst* store(llvm::Value* v, llvm::Value* to, llvm::Align align) = 0;
  // Around the code of an iteration of a plain loop, `extent` resolved.
  virtual void in_loop(const Dim& extent, const std::function<void()>& body) = 0;
  // Loops of blocks and threads.
  virtual void write_parallel(const ir::Loop& loop) = 0;
  virtual void write_sync(const ir::Sync& sync) = 0;
  virtual void write_reduce(const ir::Reduce& reduce) = 0;
  virtual void write_copy(const ir::CopyAsync& copy) = 0;
};

// Binds what all phases of a kernel know: of registers, nothing.
void begin_index(Writer& w);
// Stack slots become values.
void promote(Writer& w);

void write_stmt(Writer& w, const ir::Stmt& stmt);
void write_block(Writer& w, const ir::Block& block);
// body() for var = 0 .. extent-1: expanded for `unroll`, else a loop.
void write_loop(Writer& w, const ir::LoopHead& head, const std::function<void()>& body);

void define(Writer& w, ir::RegId reg, llvm::Value* raw);
DType dtype_of(const Writer& w, const ir::Operand& operand);
llvm::Value* raw_operand(Writer& w, const ir::Operand& operand);
llvm::Value* compute_operand(Writer& w, const ir::Operand& operand);
[[noreturn]] void fail(const Writer& w, const ir::Stmt& stmt, const std::string& why);

// load.cpp
void write_load(Writer& w, const ir::Load& load);
void write_prefetch(Writer& w, const ir::Prefetch& prefetch);

// store.cpp
void write_store(Writer& w, const ir::Store& store);

// lanes.cpp
void write_index_value(Writer& w, const ir::IndexValue& stmt);

// guard.cpp
// The guard as i1 or a vector of i1 of `width`; null when it always holds.
llvm::Value* guard_mask(Writer& w, const ir::Guard& guard, int width);

// tile.cpp
void write_transpose(Writer& w, const ir::TransposeTile& stmt);
void write_copy_loops(Writer& w, const ir::CopyAsync& stmt);
// The stack slots of a slot buffer.
const std::vector<llvm::AllocaInst*>& slots_of(Writer& w, ir::BufferId id);
llvm::Value* base_of(Writer& w, ir::BufferId id);

// reduce.cpp
// By the thread that comes here alone.
void write_plain_reduce(Writer& w, const ir::Reduce& reduce);
void write_scan(Writer& w, const ir::Scan& scan);

}  // namespace fusec::codegen
