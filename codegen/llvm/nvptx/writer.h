// SPDX-License-Identifier: Apache-2.0
// The GPU writer: LLVM IR for NVPTX of kernels in the lowered form, and its way to PTX.
#pragma once

#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/Target/TargetMachine.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "codegen/llvm/values.h"
#include "codegen/llvm/writer.h"
#include "fusec/status.h"
#include "fusec/target.h"

namespace fusec::codegen::nvptx {

inline constexpr unsigned kGlobal = 1, kShared = 3;  // address spaces
// Marks a function whose blocks form clusters, with their number.
inline constexpr const char* kClusterBlocks = "cluster_dim_x";

struct GpuWriter : Writer {
  llvm::Module& module;
  std::map<std::string, llvm::GlobalVariable*> shared;  // of this phase, by name
  std::vector<llvm::GlobalVariable*> shared_order;
  int64_t dynamic_shared = 0;  // bytes of dynamic shared memory that the launch requests
  bool bounded = false;        // whether phases ask for their number of resident blocks
  // In functions whose blocks take several tiles each: writes the product of the tile, and the barrier of the threads
  // that multiply.
  std::function<void()> multiply_tile, sync_group;

  GpuWriter(const ir::Kernel& kernel, const Locals& locals, llvm::IRBuilder<>& builder, const Target& target,
            llvm::Module& module);

  void write_phase(llvm::Module& module, const Phase& phase, const std::string& name) override;
  llvm::Value* buffer(int64_t position) override;
  llvm::Value* buffer(ir::BufferId id);  // a parameter or scratch buffer
  // An array in shared memory; the same one for the same name.
  llvm::GlobalVariable* shared_array(const std::string& name, llvm::Type* element, int64_t count);
  llvm::Value* status() override;
  llvm::Value* extern_address(const std::string& name) override;
  llvm::Value* local(ir::BufferId id) override;
  llvm::Value* in_block(llvm::Value* own, const IndexExpr& block) override;
  llvm::Value* load(llvm::Type* type, llvm::Value* from, llvm::Align align) override;
  llvm::StoreInst* store(llvm::Value* v, llvm::Value* to, llvm::Align align) override;
  void open_mailbox(ir::BufferId id);
  void mail(ir::BufferId id, llvm::Value* own, llvm::Value* value, const IndexExpr& block) override;
  void await_mail(ir::BufferId id) override;
  void prefetch(llvm::Value* at) override;
  void write_parallel(const ir::Loop& loop) override;
  void write_lowered(const ir::Stmt& stmt) override;
  void write_reduce(const ir::Reduce& reduce) override;
  void write_copy(const ir::CopyAsync& copy) override;
};

// Binds the grid variables, row-major in the number of the block or cluster.
void bind_grid(GpuWriter& w, const Phase& phase);
// The same in `number`: in the innermost scope, or at the function's entry, where the builder then is.
void bind_heads(GpuWriter& w, const std::vector<ir::LoopHead>& grid, llvm::Value* number, bool at_entry);

// The dynamic shared memory of the module's functions, with at least that alignment in bytes.
llvm::GlobalVariable* dynamic_shared_array(GpuWriter& w, uint64_t alignment);

// Writes the function of a phase with a product of tiles, whose blocks of kWarpgroups * 128 threads take several tiles
// each: what they share at the function's entry, the rest in `body`.
void write_tiles(GpuWriter& w, const Phase& phase, llvm::BasicBlock* body);

// Writes a phase of ordered tasks: the task of the block at the function's entry, the passes in `body`.
void write_tasks(GpuWriter& w, const Phase& phase, llvm::BasicBlock* body);

// Uses the newest architecture that LLVM knows and that is not newer than the target's.
// own_instructions: also those that this architecture alone has.
Result<std::unique_ptr<llvm::TargetMachine>> gpu_machine(const Target& target, bool own_instructions);
// Makes later passes compute again, behind barriers and shuffles, what they computed of 16-bit values before.
struct SeparateHeldHalves : llvm::PassInfoMixin<SeparateHeldHalves> {
  static llvm::PreservedAnalyses run(llvm::Function& function, llvm::FunctionAnalysisManager& analyses);
};
// Runs the simplifying passes.
void optimize(llvm::Module& module, llvm::TargetMachine& machine);
// Runs them, then code generation.
Result<std::string> write_ptx(llvm::Module& module, llvm::TargetMachine& machine);

}  // namespace fusec::codegen::nvptx
