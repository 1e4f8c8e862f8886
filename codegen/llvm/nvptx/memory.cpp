// SPDX-License-Identifier: Apache-2.0
// Handles memory in the NVPTX writer: private buffers of a thread, shared buffers of a thread block, vector accesses in
// pieces, and block copies.

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

// Removes from accesses the axes that a thread's private copy lacks. It walks with the number of parallel loops around
// each statement.
class Privates {
 public:
  explicit Privates(ir::Kernel& kernel) : kernel_(kernel) {}

  void walk(ir::Block& block, int depth) {
    for (ir::Stmt& stmt : block) {
      if (const auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) declared_[alloc->buffer] = depth;
      if (auto* load = std::get_if<ir::Load>(&stmt.v)) access(load->buffer, load->index, depth);
      if (auto* store = std::get_if<ir::Store>(&stmt.v)) access(store->buffer, store->index, depth);
      if (auto* copy = std::get_if<ir::CopyAsync>(&stmt.v)) {
        access(copy->dst, copy->dst_index, depth);
        access(copy->src, copy->src_index, depth);
      }
      if (const auto* tile = std::get_if<ir::TransposeTile>(&stmt.v)) {
        if (dropped(tile->dst, depth) + dropped(tile->src, depth) != 0)
          throw UnsupportedKernel("a transpose whose tiles are not declared beside it");
      }
      int inside = depth;
      if (const auto* loop = std::get_if<ir::Loop>(&stmt.v)) inside += loop->head.tag >= ir::LoopTag::block;
      if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
        for (const ir::LoopHead& loop : reduce->loops) inside += loop.tag >= ir::LoopTag::block;
      }
      for (ir::Block* nested : ir::nested_blocks(stmt)) walk(*nested, inside);
    }
  }

  void drop_axes() {
    for (const auto& [id, axes] : dropped_) {
      ir::IndexShape& shape = kernel_.buffers[id].shape;
      shape.erase(shape.begin(), shape.begin() + axes);
    }
  }

 private:
  int dropped(ir::BufferId id, int depth) {
    const ir::Buffer& buffer = kernel_.buffers[id];
    if (buffer.space != ir::Space::reg) return 0;
    const auto found = declared_.find(id);
    if (found == declared_.end()) throw UnsupportedKernel("'" + buffer.name + "' is not declared inside of the grid");
    const auto [at, is_new] = dropped_.try_emplace(id, depth - found->second);
    if (at->second != depth - found->second)
      throw UnsupportedKernel("'" + buffer.name + "' is used at two depths of block loops");
    if (static_cast<std::size_t>(at->second) > buffer.shape.size())
      throw UnsupportedKernel("'" + buffer.name + "' lacks axes of block loops");
    return at->second;
  }

  void access(ir::BufferId id, std::vector<IndexExpr>& index, int depth) {
    index.erase(index.begin(), index.begin() + dropped(id, depth));
  }

  ir::Kernel& kernel_;
  std::map<ir::BufferId, int> declared_, dropped_;
};

// A vector is accessed in pieces that consist of whole words.
struct Words {
  unsigned per;   // elements per word
  unsigned bits;  // per element
  llvm::Type* type;
};

Words choose_words(Ir& ir, llvm::Type* element, uint64_t piece) {
  const unsigned bits = element->getScalarSizeInBits();
  if (bits >= 32) return {1, bits, element};
  const unsigned word = std::min<unsigned>(32, static_cast<unsigned>(8 * piece));
  return {word / bits, bits, ir.b.getIntNTy(word)};
}

// Size of a piece in bytes: a power of two that divides the vector and the address.
uint64_t choose_piece(llvm::Type* type, llvm::Align align) {
  const auto* vector = llvm::cast<llvm::FixedVectorType>(type);
  const uint64_t bytes = vector->getNumElements() * (vector->getScalarSizeInBits() / 8);
  return std::min({kPiece, align.value(), bytes & -bytes});
}

}  // namespace

ir::Kernel with_private_buffers(ir::Kernel kernel) {
  Privates privates(kernel);
  privates.walk(kernel.body, 0);
  privates.drop_axes();
  return kernel;
}

llvm::GlobalVariable* shared_array(GpuWriter& w, const std::string& name, llvm::Type* element, int64_t count) {
  llvm::GlobalVariable*& made = w.shared[name];
  if (made) return made;
  auto* type = llvm::ArrayType::get(element, static_cast<uint64_t>(std::max<int64_t>(1, count)));
  made = new llvm::GlobalVariable(w.module, type, false, llvm::GlobalValue::InternalLinkage,
                                  llvm::UndefValue::get(type), w.phase_function.function->getName() + "_" + name,
                                  nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
  made->setAlignment(llvm::Align(kPiece));
  w.shared_order.push_back(made);
  return made;
}

Value* GpuWriter::local(ir::BufferId id) {
  const ir::Buffer& info = kernel.buffers[id];
  llvm::Type* element = memory_type(ir, info.dtype);
  if (info.space == ir::Space::shared)
    return shared_array(*this, "s" + std::to_string(id.index), element, constant_count(info));
  if (!locals.buffers.contains(id)) throw UnsupportedKernel("'" + info.name + "' is used but not declared");
  llvm::AllocaInst* slot = stack_slot(ir, llvm::ArrayType::get(element, static_cast<uint64_t>(constant_count(info))));
  slot->setAlignment(llvm::Align(kPiece));
  return slot;
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

// The threads of the thread group copy elements in turn; the elements of the box are numbered row-major.
void GpuWriter::write_copy(const ir::CopyAsync& stmt) {
  const ir::Buffer &src = kernel.buffers[stmt.src], &dst = kernel.buffers[stmt.dst];
  const bool shared_out = thread_group.size > 1 && dst.space != ir::Space::reg;
  IndexExpr count(1);
  for (const IndexExpr& extent : stmt.extents) count *= extent;
  count = index.resolve(count);
  const ir::VarId turn{static_cast<uint32_t>(kernel.vars.size())}, self{turn.index + 1};
  const int64_t threads = shared_out ? thread_group.size : 1;
  bind_threads(*this, {{ir::LoopTag::block, self, threads}}, 1);
  const IndexExpr number = index.resolve(IndexExpr::symbol(turn) * threads + IndexExpr::symbol(self));
  const auto place = [&](const ir::Buffer& buffer, std::vector<IndexExpr> at) {
    IndexExpr rest = number;
    for (std::size_t k = stmt.extents.size(); k-- > 0;) {
      at[at.size() - stmt.extents.size() + k] += k == 0 ? rest : mod(rest, stmt.extents[k]);
      rest = floordiv(rest, stmt.extents[k]);
    }
    return index.resolve(linear_index(buffer, at));
  };
  llvm::Type* type = memory_type(ir, src.dtype);
  write_loop(*this, {ir::LoopTag::seq, turn, ceildiv(count, threads)}, [&] {
    Value* left = index.value(index.resolve(count - 1 - number));
    branch(
        ir, ir.b.CreateICmpSGE(left, integer(left, 0)),
        [&]() -> Value* {
          Value* v =
              ir.b.CreateLoad(type, index.pointer(get_base_address(*this, stmt.src), type, place(src, stmt.src_index)));
          ir.b.CreateStore(v, index.pointer(get_base_address(*this, stmt.dst), type, place(dst, stmt.dst_index)));
          return nullptr;
        },
        [] { return nullptr; });
  });
  index.unbind(self);
}

}  // namespace fusec::codegen::nvptx
