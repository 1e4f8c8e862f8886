// SPDX-License-Identifier: Apache-2.0
// The GPU writer: LLVM IR for NVPTX, and its way to PTX. It maps threads, shared memory and collectives as codegen/cuda
// does. Of a reduction, reduce.cpp runs over the elements and collective.cpp folds over threads.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/Target/TargetMachine.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "codegen/kernel/thread_group.h"
#include "codegen/llvm/values.h"
#include "codegen/llvm/writer.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen::nvptx {

inline constexpr unsigned kGlobal = 1, kShared = 3;  // address spaces

struct ThreadGroupVars : ThreadGroup {
  llvm::Value* thread = nullptr;  // the index of this thread in it, an i32
  llvm::Value* mask = nullptr;    // the threads of this warp that are at this point of the program; null: not known
};

struct GpuWriter : Writer {
  llvm::Module& module;
  ThreadGroupVars thread_group;
  std::map<std::string, llvm::GlobalVariable*> shared;  // of this phase, by name
  std::vector<llvm::GlobalVariable*> shared_order;
  std::set<ir::SymbolId> block_variables;  // of the block loops around this point
  int64_t block_threads = 1, block_warps = 1;
  llvm::Value* thread_index = nullptr;  // in the block, an i32
  std::map<std::tuple<llvm::Value*, int64_t, int64_t>, llvm::Value*> thread_parts;
  int64_t dynamic_shared = 0;  // bytes of dynamic shared memory that the launch requests
  int copies = 0;

  GpuWriter(const ir::Kernel& kernel, const Locals& locals, llvm::IRBuilder<>& builder, const Target& target,
            llvm::Module& module);

  void write_phase(llvm::Module& module, const Phase& phase, const std::string& name) override;
  llvm::Value* buffer(int64_t position) override;
  llvm::Value* status() override;
  llvm::Value* extern_address(const std::string& name) override;
  llvm::Value* local(ir::BufferId id) override;
  llvm::Value* may_store(ir::BufferId id) override;
  llvm::Value* load(llvm::Type* type, llvm::Value* from, llvm::Align align) override;
  llvm::StoreInst* store(llvm::Value* v, llvm::Value* to, llvm::Align align) override;
  void in_loop(const IndexExpr& extent, const std::function<void()>& body) override;
  void write_parallel(const ir::Loop& loop) override;
  void write_sync(const ir::Sync& sync) override;
  void write_reduce(const ir::Reduce& reduce) override;
  void write_copy(const ir::CopyAsync& copy) override;
};

// Returns the kernel with reg buffers as one thread sees them: without the leading axes of the parallel loops that are
// around their accesses but not around their declarations.
ir::Kernel with_private_buffers(ir::Kernel kernel);

// threads.cpp: how many threads the statements need; block loops; barriers.
int64_t count_threads(GpuWriter& w, const ir::Stmt& stmt);
int64_t constant_extent(GpuWriter& w, const ir::LoopHead& loop);
// thread / stride % extent, computed at function entry; extent 0: without the remainder.
llvm::Value* thread_part(GpuWriter& w, llvm::Value* thread, int64_t stride, int64_t extent);
void bind_grid(GpuWriter& w, const std::vector<ir::LoopHead>& grid);
// Binds the variables of nested block loops by dividing the thread's index in its thread group.
void bind_threads(GpuWriter& w, const std::vector<ir::LoopHead>& loops, int64_t inner);
// Runs body() in the first `count` threads of the thread group.
void for_threads(GpuWriter& w, int64_t count, const std::function<void()>& body);
void write_block_barrier(GpuWriter& w);

// An array in shared memory.
llvm::GlobalVariable* shared_array(GpuWriter& w, const std::string& name, llvm::Type* element, int64_t count);

// The accumulators of one reduce, in stack slots that are promoted to values; `lanes` wide in a lane-wise reduction.
class Accumulators {
 public:
  Accumulators(GpuWriter& w, CombineOp op, int64_t count, int lanes, std::string id);

  int64_t count() const { return static_cast<int64_t>(slots_.size()); }
  int lanes() const { return lanes_; }
  const CombineOp& op() const { return op_; }
  const std::string& id() const { return id_; }  // suffix of the names made for it
  Parts get(int64_t at) const;
  void set(int64_t at, const Parts& value) const;
  void reset() const;

 private:
  GpuWriter& w_;
  CombineOp op_;
  int lanes_;
  std::string id_;
  std::vector<std::vector<llvm::AllocaInst*>> slots_;
};

// Folds every `step`-th accumulator over `count` runs of `stride` threads each; inside a run the accumulators are
// equal. Afterwards the first count * stride threads of the thread group hold the result; if it returns true, the whole
// thread group does.
bool combine_threads(GpuWriter& w, const Accumulators& a, int64_t stride, int64_t count, int64_t step);
// Copies the first accumulator of the thread group's first thread to all its threads.
void broadcast(GpuWriter& w, const Accumulators& a);
// Combines neighbouring pairs, carrying an odd last one, over `count` accumulators `stride` apart, for each such run of
// the array.
void combine_accumulators(GpuWriter& w, const Accumulators& a, int64_t stride, int64_t count);

// Uses the newest architecture that LLVM knows and that is not newer than the target's.
Result<std::unique_ptr<llvm::TargetMachine>> gpu_machine(const Target& target);
// Links the libdevice functions that the module calls. `unsupported`: it calls some, and libdevice is not found.
Status link_libdevice(llvm::Module& module);
// Runs simplifying passes, then code generation.
Result<std::string> write_ptx(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace fusec::codegen::nvptx
