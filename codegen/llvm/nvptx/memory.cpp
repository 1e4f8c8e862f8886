// SPDX-License-Identifier: Apache-2.0
// Handles memory in the NVPTX writer: private buffers of a thread, shared buffers of a thread block, and vector
// accesses in pieces.

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <bit>

#include "codegen/kernel/layout.h"
#include "codegen/llvm/nvptx/writer.h"

namespace fusec::codegen::nvptx {
namespace {

using llvm::Value;

constexpr uint64_t kPiece = 16;  // bytes of the widest access

int64_t constant_count(const ir::Buffer& buffer) {
  const IndexExpr count = buffer.shape.empty() ? IndexExpr(1) : buffer.shape[0] * compute_strides(buffer)[0];
  if (count.is_const()) return std::max<int64_t>(1, count.value());
  throw UnsupportedKernel("'" + buffer.name + "' has " + count.str() + " elements, which is no constant");
}

// A vector is accessed in pieces that consist of whole words.
struct Words {
  unsigned per;   // elements per word
  unsigned bits;  // per element
  llvm::Type* type;
};

Words choose_words(Ir& ir, llvm::Type* element, uint64_t piece) {
  const unsigned bits = element->getScalarSizeInBits();
  if (bits >= 16) return {1, bits, element};
  const unsigned word = std::min<unsigned>(32, static_cast<unsigned>(8 * piece));
  return {word / bits, bits, ir.b.getIntNTy(word)};
}

// Size of a piece in bytes: a power of two that divides the vector and the address.
uint64_t choose_piece(llvm::Type* type, llvm::Align align) {
  const auto* vector = llvm::cast<llvm::FixedVectorType>(type);
  const uint64_t bytes = vector->getNumElements() * (vector->getScalarSizeInBits() / 8);
  return std::min({kPiece, align.value(), bytes & -bytes});
}

// What counts the bytes that arrive in a mailbox.
llvm::GlobalVariable* mailbox(GpuWriter& w, ir::BufferId id) {
  return w.shared_array("m" + std::to_string(id.index), w.ir.b.getInt64Ty(), 1);
}

void write_asm(GpuWriter& w, const std::string& text, const char* constraints, const std::vector<Value*>& args) {
  std::vector<llvm::Type*> types;
  for (const Value* v : args) types.push_back(v->getType());
  auto* type = llvm::FunctionType::get(w.ir.b.getVoidTy(), types, false);
  w.ir.b.CreateCall(llvm::InlineAsm::get(type, text, constraints, /*hasSideEffects=*/true), args);
}

}  // namespace

llvm::GlobalVariable* GpuWriter::shared_array(const std::string& name, llvm::Type* element, int64_t count) {
  llvm::GlobalVariable*& made = shared[name];
  if (made) return made;
  auto* type = llvm::ArrayType::get(element, static_cast<uint64_t>(std::max<int64_t>(1, count)));
  made = new llvm::GlobalVariable(module, type, false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(type),
                                  phase_function.function->getName() + "_" + name, nullptr,
                                  llvm::GlobalValue::NotThreadLocal, kShared);
  made->setAlignment(llvm::Align(kPiece));
  shared_order.push_back(made);
  return made;
}

Value* GpuWriter::local(ir::BufferId id) {
  const ir::Buffer& info = kernel.buffers[id];
  llvm::Type* element = memory_type(ir, info.dtype);
  if (info.space == ir::Space::shared)
    return shared_array("s" + std::to_string(id.index), element, constant_count(info) / cluster);
  if (!locals.buffers.contains(id)) throw UnsupportedKernel("'" + info.name + "' is used but not declared");
  llvm::AllocaInst* slot = stack_slot(ir, llvm::ArrayType::get(element, static_cast<uint64_t>(constant_count(info))));
  slot->setAlignment(llvm::Align(kPiece));
  return slot;
}

// As open_mailbox(), mail() and await_mail() of the CUDA prelude.
void GpuWriter::open_mailbox(ir::BufferId id) {
  auto& b = ir.b;
  const ir::Buffer& info = kernel.buffers[id];
  const int64_t bytes = constant_count(info) / cluster * static_cast<int64_t>(size_of(info.dtype));
  Value* thread = b.CreateIntrinsic(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x, {}, {});
  branch(
      ir, b.CreateICmpEQ(thread, b.getInt32(0)),
      [&]() -> Value* {
        write_asm(*this,
                  "mbarrier.init.shared::cta.b64 [$0], 1;\n\tfence.mbarrier_init.release.cluster;\n\t"
                  "mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;",
                  "l,r,~{memory}", {mailbox(*this, id), b.getInt32(static_cast<uint32_t>(bytes))});
        return nullptr;
      },
      [] { return nullptr; });
}

void GpuWriter::mail(ir::BufferId id, Value* own, Value* value, const IndexExpr& block) {
  const bool is_word = value->getType()->getScalarSizeInBits() == 32;
  Value* piece = ir.b.CreateBitCast(value, is_word ? ir.b.getInt32Ty() : ir.b.getInt64Ty());
  const std::string bits = is_word ? "b32" : "b64";
  write_asm(*this,
            "{\n\t.reg .b64 to, counter;\n\tmapa.shared::cluster.u64 to, $0, $3;\n\t"
            "mapa.shared::cluster.u64 counter, $2, $3;\n\t"
            "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes." +
                bits + " [to], $1, [counter];\n\t}",
            is_word ? "l,r,l,r,~{memory}" : "l,l,l,r,~{memory}",
            {own, piece, mailbox(*this, id), ir.b.CreateTrunc(index.value(block), ir.b.getInt32Ty())});
}

void GpuWriter::await_mail(ir::BufferId id) {
  write_asm(*this,
            "{\n\t.reg .pred done;\n\tWAIT:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [$0], 0;\n\t"
            "@!done bra WAIT;\n\t}",
            "l,~{memory}", {mailbox(*this, id)});
}

Value* GpuWriter::in_block(Value* own, const IndexExpr& block) {
  auto& b = ir.b;
  return b.CreateIntrinsic(
      llvm::Intrinsic::nvvm_mapa, {},
      {b.CreateAddrSpaceCast(own, b.getPtrTy()), b.CreateTrunc(index.value(block), b.getInt32Ty())});
}

Value* GpuWriter::load(llvm::Type* type, Value* from, llvm::Align align) {
  auto& b = ir.b;
  if (!type->isVectorTy()) return b.CreateAlignedLoad(type, from, align);
  llvm::Type* element = type->getScalarType();
  const uint64_t piece = choose_piece(type, align);
  const Words words = choose_words(ir, element, piece);
  const uint64_t count = piece / (words.type->getScalarSizeInBits() / 8);  // words in a piece
  const auto lanes = static_cast<uint64_t>(llvm::cast<llvm::FixedVectorType>(type)->getNumElements());
  if (words.per == 1 && count == lanes) return b.CreateAlignedLoad(type, from, llvm::Align(piece));
  Value* out = llvm::PoisonValue::get(type);
  for (uint64_t lane = 0; lane < lanes;) {
    Value* at = lane == 0 ? from : b.CreateConstInBoundsGEP1_64(element, from, lane);
    Value* loaded = b.CreateAlignedLoad(with_width(words.type, static_cast<int>(count)), at, llvm::Align(piece));
    // Instruction selection takes the words of one load for one value, and bytes of several words for a byte swap of
    // one (MatchBSwapHWord, LLVM 19). It looks at no value behind a freeze.
    if (words.per == 4 && count > 1) loaded = b.CreateFreeze(loaded);
    for (uint64_t k = 0; k < count; ++k) {
      Value* word = count == 1 ? loaded : b.CreateExtractElement(loaded, k);
      for (unsigned j = 0; j < words.per; ++j, ++lane) {
        Value* v = words.per == 1 ? word : b.CreateTrunc(b.CreateLShr(word, uint64_t{j} * words.bits), element);
        out = b.CreateInsertElement(out, v, lane);
      }
    }
  }
  return out;
}

llvm::StoreInst* GpuWriter::store(Value* v, Value* to, llvm::Align align) {
  auto& b = ir.b;
  if (!v->getType()->isVectorTy()) return b.CreateAlignedStore(v, to, align), nullptr;
  llvm::Type* element = v->getType()->getScalarType();
  const uint64_t piece = choose_piece(v->getType(), align);
  const Words words = choose_words(ir, element, piece);
  const uint64_t count = piece / (words.type->getScalarSizeInBits() / 8);
  const auto lanes = static_cast<uint64_t>(width_of(v));
  if (words.per == 1 && count == lanes) return b.CreateAlignedStore(v, to, llvm::Align(piece)), nullptr;
  for (uint64_t lane = 0; lane < lanes;) {
    Value* at = lane == 0 ? to : b.CreateConstInBoundsGEP1_64(element, to, lane);
    Value* stored = llvm::PoisonValue::get(with_width(words.type, static_cast<int>(count)));
    for (uint64_t k = 0; k < count; ++k) {
      Value* word = nullptr;
      for (unsigned j = 0; j < words.per; ++j, ++lane) {
        Value* part = b.CreateExtractElement(v, lane);
        if (words.per > 1) part = b.CreateShl(b.CreateZExt(part, words.type), uint64_t{j} * words.bits);
        word = word ? b.CreateOr(word, part) : part;
      }
      stored = count == 1 ? word : b.CreateInsertElement(stored, word, k);
    }
    b.CreateAlignedStore(stored, at, llvm::Align(piece));
  }
  return nullptr;
}

}  // namespace fusec::codegen::nvptx
