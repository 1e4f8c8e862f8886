// SPDX-License-Identifier: Apache-2.0
// Walks a kernel and writes LLVM IR, one function per grid phase. Vectors keep their width, `unroll` loops are
// expanded, and all other inner loops are loops. The parts of the writer share a Writer.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/kernel/layout.h"
#include "codegen/llvm/phase_function.h"
#include "codegen/llvm/values.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen {

class Lines;

struct Register {
  llvm::Value* raw = nullptr;
  llvm::Value* compute = nullptr;
};

// The constants of a machine.
struct Traits {
  int64_t local_alignment;  // alignment of local buffers in memory
  // Guards that differ by lane are expanded in code for each lane, not in a loop. If the facts prove that all lanes
  // agree, one lane is tested.
  bool expands_lanes;
  bool needs_alignment;  // whole vectors are accessed in pieces no wider than the alignment proven for their addresses
};

// Loops that the writer makes of one loop of the kernel: derived(var, part).
enum LoopPart : uint32_t { kWholeLoop, kChunkLoop, kInnerLoop, kStepLoop };

// The behaviour that differs between machines is virtual.
struct Writer {
  const ir::Kernel& kernel;
  const Locals& locals;
  Ir ir;
  Index index;
  const Traits traits;
  PhaseFunction phase_function;
  std::vector<Register> regs;                                                   // by RegId
  std::map<ir::BufferId, llvm::Value*> bases;                                   // memory of a buffer
  std::map<ir::BufferId, std::vector<llvm::AllocaInst*>> slots;                 // slots of slot buffers
  std::vector<llvm::AllocaInst*> promotable;                                    // stack slots that become SSA values
  std::map<std::tuple<llvm::BasicBlock*, int, IndexExpr>, llvm::Value*> masks;  // lane masks, by block and width
  std::set<ir::RegId> divisions_by_parts;  // the quotients that division.h computes
  llvm::Value* lane = nullptr;             // the current lane (i64) of per-lane code
  int cluster = 1, threads = 1;            // blocks of a cluster of this phase, threads of a block
  bool streams = false;                    // streaming stores were written
  bool accesses_memory = false;            // beside slots, so far
  Lines* lines = nullptr;                  // debug locations, if asked for

  Writer(const ir::Kernel& kernel, const Locals& locals, llvm::IRBuilder<>& builder, const Target& target,
         const TargetHooks& hooks, llvm::IntegerType* index_type, const Traits& traits);
  virtual ~Writer() = default;
  Writer(const Writer&) = delete;

  // Writes the function of a phase.
  virtual void write_phase(llvm::Module& module, const Phase& phase, const std::string& name) = 0;
  // The address of a parameter, or of a scratch buffer; these follow the parameters.
  virtual llvm::Value* buffer(int64_t position) = 0;
  virtual llvm::Value* status() = 0;
  // The address of a function that TargetHooks::function calls.
  virtual llvm::Value* extern_address(const std::string& name) = 0;
  // The memory of a reg or shared buffer without slots.
  virtual llvm::Value* local(ir::BufferId id) = 0;
  // The same place in the shared memory of another block of the cluster.
  virtual llvm::Value* in_block(llvm::Value* own, const IndexExpr& block) = 0;
  // Access whole vectors. store() returns null if it emits several instructions, or none that may stream.
  virtual llvm::Value* load(llvm::Type* type, llvm::Value* from, llvm::Align align) = 0;
  virtual llvm::StoreInst* store(llvm::Value* v, llvm::Value* to, llvm::Align align) = 0;
  // Mailboxes (ir/kernel/mailbox.h): stores the scalar to the same place in another block; waits for what others store.
  virtual void mail(ir::BufferId id, llvm::Value* own, llvm::Value* value, const IndexExpr& block) = 0;
  virtual void await_mail(ir::BufferId id) = 0;
  // Brings the cache line into the second-level cache.
  virtual void prefetch(llvm::Value* at) = 0;
  // Writes loops over blocks and threads.
  virtual void write_parallel(const ir::Loop& loop) = 0;
  // Writes a statement that only the lowered form has, or a barrier.
  virtual void write_lowered(const ir::Stmt& stmt) = 0;
  virtual void write_reduce(const ir::Reduce& reduce) = 0;
  virtual void write_copy(const ir::CopyAsync& copy) = 0;
};

// Declares the kernel's registers as index symbols without known bounds.
void begin_index(Writer& w);
// Promotes the stack slots to SSA values.
void promote(Writer& w);

void write_stmt(Writer& w, const ir::Stmt& stmt);
void write_block(Writer& w, const ir::Block& block);
// body() for var = 0 .. extent-1: expanded for `unroll`, else a loop.
void write_loop(Writer& w, const ir::LoopHead& head, const std::function<void()>& body);

void define(Writer& w, ir::RegId reg, llvm::Value* raw);
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
// The guard as i1 or a vector of i1 of `width`; null if it always holds.
llvm::Value* guard_mask(Writer& w, const ir::Guard& guard, int width);

// tile.cpp
void write_transpose(Writer& w, const ir::TransposeTile& stmt);
void write_copy_loops(Writer& w, const ir::CopyAsync& stmt);
// The stack slots of a slot buffer.
const std::vector<llvm::AllocaInst*>& get_slots(Writer& w, ir::BufferId id);
llvm::Value* get_base_address(Writer& w, ir::BufferId id);

// reduce.cpp
// Writes a reduction that one thread computes alone.
void write_plain_reduce(Writer& w, const ir::Reduce& reduce);
void write_scan(Writer& w, const ir::Scan& scan);

}  // namespace fusec::codegen
