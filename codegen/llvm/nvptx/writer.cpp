// SPDX-License-Identifier: Apache-2.0
// Writes the kernel function of a phase for NVPTX: its parameters, grid variables, launch bounds and shared memory.
// Shared arrays above the static limit move to dynamic shared memory.

#include "codegen/llvm/nvptx/writer.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <algorithm>

#include "codegen/kernel/tiles.h"
#include "codegen/llvm/access.h"
#include "codegen/llvm/lines.h"
#include "codegen/llvm/values.h"

namespace fusec::codegen::nvptx {
namespace {

using llvm::Value;

constexpr int64_t kStaticShared = 48 << 10;  // bytes of static shared memory that a function may declare
constexpr Traits kGpuTraits = {.local_alignment = 16, .expands_lanes = true, .needs_alignment = true};

std::vector<ir::BufferId> collect_buffers(const ir::Kernel& kernel) {
  std::vector<ir::BufferId> out = kernel.params;
  for (uint32_t i = 0; i < kernel.buffers.size(); ++i) {
    if (kernel.buffers[ir::BufferId{i}].space == ir::Space::scratch) out.push_back(ir::BufferId{i});
  }
  return out;
}

// The parameters are the buffer addresses, the extents and the status word.
llvm::Function* add_function(GpuWriter& w, const Phase& phase, const std::string& name) {
  auto& b = w.ir.b;
  const std::vector<ir::BufferId> buffers = collect_buffers(w.kernel);
  llvm::Type* pointer = b.getPtrTy(kGlobal);
  std::vector<llvm::Type*> types(buffers.size(), pointer);
  types.insert(types.end(), w.kernel.extents.size(), b.getInt64Ty());
  types.push_back(pointer);
  auto* function = llvm::Function::Create(llvm::FunctionType::get(b.getVoidTy(), types, false),
                                          llvm::GlobalValue::ExternalLinkage, name, w.module);
  function->setCallingConv(llvm::CallingConv::PTX_Kernel);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  for (unsigned i = 0; i < buffers.size(); ++i) {
    const ir::Buffer& buffer = w.kernel.buffers[buffers[i]];
    function->getArg(i)->setName(buffer.name);
    const bool between_tasks = phase.tasks && buffer.space == ir::Space::scratch;  // other blocks store to it
    if (may_alias(w.kernel, buffers[i]) || between_tasks) continue;
    function->addParamAttr(i, llvm::Attribute::NoAlias);
    // Together with noalias it allows loads through the read-only data cache.
    if (buffer.space == ir::Space::in) function->addParamAttr(i, llvm::Attribute::ReadOnly);
  }
  function->getArg(static_cast<unsigned>(types.size()) - 1)->setName("status");
  return function;
}

void annotate(GpuWriter& w, const char* name, int value) {
  auto& b = w.ir.b;
  llvm::LLVMContext& context = b.getContext();
  llvm::Metadata* node[] = {llvm::ValueAsMetadata::get(w.phase_function.function), llvm::MDString::get(context, name),
                            llvm::ConstantAsMetadata::get(b.getInt32(static_cast<uint32_t>(value)))};
  w.module.getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(context, node));
}

// In the block, or in its cluster.
Value* thread_number(GpuWriter& w, int threads) {
  auto& b = w.ir.b;
  if (threads == 1) return b.getInt32(0);
  Value* own = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  if (w.cluster == 1) return own;
  Value* block = b.CreateURem(b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x, {}, {}),
                              b.getInt32(static_cast<uint32_t>(w.cluster)));
  return b.CreateAdd(b.CreateMul(block, b.getInt32(static_cast<uint32_t>(threads))), own);
}

void bind_extents(GpuWriter& w) {
  auto& b = w.ir.b;
  const auto first = static_cast<unsigned>(collect_buffers(w.kernel).size());
  b.SetInsertPoint(w.phase_function.entry->getTerminator());
  for (unsigned i = 0; i < w.kernel.extents.size(); ++i) {
    const ir::ExtentId id{i};
    Value* v = b.CreateTrunc(w.phase_function.function->getArg(first + i), w.index.type(), w.kernel.extents[id]);
    w.index.bind(id, v, {IndexExpr(0), std::nullopt});
  }
}

// As wait_for_launches() of the CUDA prelude.
void wait_for_launches(GpuWriter& w) {
  auto& b = w.ir.b;
  auto* type = llvm::FunctionType::get(b.getVoidTy(), false);
  for (const char* instruction : {"griddepcontrol.launch_dependents;", "griddepcontrol.wait;"})
    b.CreateCall(llvm::InlineAsm::get(type, instruction, "~{memory}", /*hasSideEffects=*/true));
}

// Turns arrays that exceed the static limit into parts of the dynamic shared memory.
void place_shared(GpuWriter& w) {
  const llvm::DataLayout& layout = w.module.getDataLayout();
  int64_t bytes = 0;
  std::vector<int64_t> offsets;
  for (const llvm::GlobalVariable* array : w.shared_order) {
    offsets.push_back(bytes);
    bytes += static_cast<int64_t>(layout.getTypeAllocSize(array->getValueType()).getFixedValue() + 15) / 16 * 16;
  }
  if (bytes <= kStaticShared) return;
  const int64_t most = w.ir.target.shared_bytes_per_block;
  if (bytes > most)
    throw UnsupportedKernel("blocks with " + std::to_string(bytes) + " bytes of shared memory, of " +
                            std::to_string(most) + " on " + w.ir.target.name);
  w.dynamic_shared = bytes;
  auto& b = w.ir.b;
  llvm::GlobalVariable* all = dynamic_shared_array(w, 16);
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    w.shared_order[i]->replaceAllUsesWith(llvm::ConstantExpr::getGetElementPtr(
        b.getInt8Ty(), all, llvm::ConstantInt::get(b.getInt32Ty(), static_cast<uint64_t>(offsets[i]))));
    w.shared_order[i]->eraseFromParent();
  }
}

}  // namespace

llvm::GlobalVariable* dynamic_shared_array(GpuWriter& w, uint64_t alignment) {
  llvm::GlobalVariable* all = w.module.getNamedGlobal("dynamic_shared");
  if (all == nullptr)
    all = new llvm::GlobalVariable(w.module, llvm::ArrayType::get(w.ir.b.getInt8Ty(), 0), false,
                                   llvm::GlobalValue::ExternalLinkage, nullptr, "dynamic_shared", nullptr,
                                   llvm::GlobalValue::NotThreadLocal, kShared);
  all->setAlignment(std::max(all->getAlign().valueOrOne(), llvm::Align(alignment)));
  return all;
}

GpuWriter::GpuWriter(const ir::Kernel& kernel, const Locals& locals, llvm::IRBuilder<>& builder, const Target& target,
                     llvm::Module& module)
    : Writer(kernel, locals, builder, target, nvptx_hooks(),
             kernel.fits32 ? builder.getInt32Ty() : builder.getInt64Ty(), kGpuTraits),
      module(module) {}

void GpuWriter::write_phase(llvm::Module&, const Phase& phase, const std::string& name) {
  auto& b = ir.b;
  phase_function.function = add_function(*this, phase, name);
  phase_function.entry = llvm::BasicBlock::Create(b.getContext(), "entry", phase_function.function);
  if (lines != nullptr) lines->open(*phase_function.function);
  auto* body = llvm::BasicBlock::Create(b.getContext(), "body", phase_function.function);
  b.SetInsertPoint(phase_function.entry);
  if (waits_for_launches(ir.target)) wait_for_launches(*this);
  b.CreateBr(body);
  index.push(phase_function.entry);
  bind_extents(*this);
  begin_index(*this);
  const int threads = std::max(1, phase.threads);
  const bool takes_tiles = !tile_products(phase).empty();
  cluster = phase.cluster, this->threads = threads;
  annotate(*this, "maxntidx", takes_tiles ? kWarpgroups * threads : threads);
  if (cluster > 1) annotate(*this, kClusterBlocks, cluster);
  const int resident = count_resident(kernel, phase);
  if (resident > 1 && (bounded || loops_over_loads(kernel, phase))) annotate(*this, "minctasm", resident);
  Value* const thread = thread_number(*this, threads);
  Value* const of_tile = takes_tiles ? b.CreateAnd(thread, static_cast<uint64_t>(threads - 1)) : thread;
  index.bind_at_entry(fusec::ir::kThread, b.CreateZExt(of_tile, index.type()),
                      {IndexExpr(0), IndexExpr(threads * cluster - 1)});
  if (phase.tasks) {
    write_tasks(*this, phase, body);
  } else if (takes_tiles) {
    write_tiles(*this, phase, body);
  } else {
    bind_grid(*this, phase);
    b.SetInsertPoint(body);
    for (const ir::Stmt* stmt : phase.body) write_stmt(*this, *stmt);
  }
  b.CreateRetVoid();
  promote(*this);
  place_shared(*this);
}

Value* GpuWriter::buffer(ir::BufferId id) {
  const std::vector<ir::BufferId> all = collect_buffers(kernel);
  return buffer(std::find(all.begin(), all.end(), id) - all.begin());
}

Value* GpuWriter::buffer(int64_t position) { return phase_function.function->getArg(static_cast<unsigned>(position)); }

Value* GpuWriter::status() {
  return phase_function.function->getArg(static_cast<unsigned>(phase_function.function->arg_size()) - 1);
}

Value* GpuWriter::extern_address(const std::string& name) {
  throw CompileError("no function '" + name + "' of libm on a GPU");
}

void GpuWriter::prefetch(Value* at) {
  auto* type = llvm::FunctionType::get(ir.b.getVoidTy(), {at->getType()}, false);
  ir.b.CreateCall(llvm::InlineAsm::get(type, "prefetch.global.L2 [$0];", "l", /*hasSideEffects=*/true), {at});
}
void GpuWriter::write_parallel(const ir::Loop&) {
  throw UnsupportedKernel("only the lowered form of a kernel is written");
}
void GpuWriter::write_reduce(const ir::Reduce&) {
  throw UnsupportedKernel("only the lowered form of a kernel is written");
}
void GpuWriter::write_copy(const ir::CopyAsync& copy) {
  const int64_t bytes = ir::copied_bytes(kernel, copy);
  if (ir.target.sm < ir::kCopyAsyncSm || bytes == 0) throw UnsupportedKernel("no such copies on " + ir.target.name);
  Value* to = address(*this, make_access(*this, copy.dst, copy.dst_index, 0, 1));
  Value* from = address(*this, make_access(*this, copy.src, copy.src_index, 0, 1));
  const auto instruction = bytes == 16  ? llvm::Intrinsic::nvvm_cp_async_cg_shared_global_16_s
                           : bytes == 8 ? llvm::Intrinsic::nvvm_cp_async_ca_shared_global_8_s
                                        : llvm::Intrinsic::nvvm_cp_async_ca_shared_global_4_s;
  accesses_memory = true;
  Value* read = ir.b.getInt32(static_cast<uint32_t>(bytes));
  if (Value* holds = guard_mask(*this, copy.guard, 1)) read = ir.b.CreateSelect(holds, read, ir.b.getInt32(0));
  ir.b.CreateIntrinsic(instruction, {}, {to, from, read});
}

}  // namespace fusec::codegen::nvptx
