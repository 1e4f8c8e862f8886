// SPDX-License-Identifier: Apache-2.0
// Dispatches the statements of a kernel to the parts of the LLVM writer and writes loops, lets and operands. Every
// value is defined before its use; a use without a definition is a compile error.

#include "codegen/llvm/writer.h"

#include <llvm/IR/Dominators.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/PromoteMemToReg.h>

#include <algorithm>

#include "codegen/llvm/division.h"
#include "codegen/llvm/lines.h"
#include "codegen/llvm/values.h"
#include "ir/kernel/mailbox.h"
#include "ir/support/check.h"
#include "ir/text/kernel_text.h"

namespace fusec::codegen {
namespace {

using llvm::Value;

// The symbols that exist at one point: lanes and integer registers.
Value* floating_symbol(Writer& w, ir::SymbolId symbol) {
  if (symbol == ir::kLane) return w.lane;
  const auto reg = symbol.reg();
  if (!reg || !w.kernel.regs.contains(*reg) || !w.regs[reg->index].raw) return nullptr;
  const ir::RegInfo& info = w.kernel.regs[*reg];
  Value* v = w.regs[reg->index].raw;
  if (info.width > 1) {
    if (!w.lane) throw CompileError("index uses '" + ir::reg_name(*reg) + "', a vector, in a statement of width 1");
    v = w.ir.b.CreateExtractElement(v, w.lane);
  }
  return is_signed_int(info.dtype) ? w.ir.b.CreateSExt(v, w.ir.b.getInt64Ty())
                                   : w.ir.b.CreateZExt(v, w.ir.b.getInt64Ty());
}

void write_let(Writer& w, const ir::Let& let) {
  const DType first = dtype_of(w.kernel, let.args[0]);
  if (is_16_bit_float(first) && w.kernel.regs[let.dst].dtype == first && ir::on_half_bits(let)) {
    return define(w, let.dst, build_on_bits(w.ir, let.op, first, raw_operand(w, let.args[0])));
  }
  const bool is_where = let.op == ir::ScalarOp::where;
  int width = 1;
  std::vector<Value*> args;
  for (const ir::Operand& arg : let.args) {
    args.push_back(compute_operand(w, arg));
    width = std::max(width, width_of(args.back()));
  }
  if (w.divisions_by_parts.contains(let.dst)) return define(w, let.dst, div_by_parts(w.ir, args[0], args[1]));
  for (Value*& arg : args) arg = splat(w.ir, arg, width);
  args.resize(3);
  const DType type = dtype_of(w.kernel, let.args[is_where ? 1 : 0]);
  define(w, let.dst, build_raw(w.ir, let.op, {type, args[0], args[1], args[2]}, w.kernel.regs[let.dst].dtype));
}

}  // namespace

Writer::Writer(const ir::Kernel& kernel, const Locals& locals, llvm::IRBuilder<>& builder, const Target& target,
               const TargetHooks& hooks, llvm::IntegerType* index_type, const Traits& traits)
    : kernel(kernel),
      locals(locals),
      ir{builder, target, hooks, [this](const std::string& name) { return extern_address(name); }},
      index(ir, index_type, [this](ir::SymbolId symbol) { return floating_symbol(*this, symbol); }),
      traits(traits),
      regs(kernel.regs.size()) {}

void begin_index(Writer& w) {
  for (std::size_t i = 0; i < w.kernel.regs.size(); ++i) w.index.unknown(ir::RegId{static_cast<uint32_t>(i)});
}

void promote(Writer& w) {
  if (w.promotable.empty()) return;
  auto tree = std::make_unique<llvm::DominatorTree>();
  try {
    tree->recalculate(*w.phase_function.function);
    llvm::PromoteMemToReg(w.promotable, *tree);
  } catch (...) {
    (void)tree.release();  // incomplete; its destructor may crash (compile.h)
    throw;
  }
}

namespace {

bool is_lowered_form(const ir::Stmt& stmt) {
  return std::holds_alternative<ir::If>(stmt.v) || std::holds_alternative<ir::Choose>(stmt.v) ||
         std::holds_alternative<ir::Shuffle>(stmt.v) || std::holds_alternative<ir::Ballot>(stmt.v) ||
         std::holds_alternative<ir::Mma>(stmt.v) || std::holds_alternative<ir::TileProduct>(stmt.v) ||
         std::holds_alternative<ir::Sync>(stmt.v);
}

}  // namespace

void fail(const Writer& w, const ir::Stmt& stmt, const std::string& why) {
  throw CompileError("cannot write '" + ir::print_stmt(w.kernel, stmt) + "': " + why);
}

void write_stmt(Writer& w, const ir::Stmt& stmt) {
  const LineScope line(w, stmt);
  if (const auto* loop = std::get_if<ir::Loop>(&stmt.v)) {
    if (loop->head.tag < ir::LoopTag::block) return write_loop(w, loop->head, [&] { write_block(w, loop->body); });
  }
  if (const auto* let = std::get_if<ir::Let>(&stmt.v)) return write_let(w, *let);
  if (const auto* value = std::get_if<ir::IndexValue>(&stmt.v)) return write_index_value(w, *value);
  if (const auto* load = std::get_if<ir::Load>(&stmt.v)) return write_load(w, *load);
  if (const auto* store = std::get_if<ir::Store>(&stmt.v)) return write_store(w, *store);
  if (const auto* prefetch = std::get_if<ir::Prefetch>(&stmt.v)) return write_prefetch(w, *prefetch);
  const auto* alloc = std::get_if<ir::Alloc>(&stmt.v);
  if (alloc != nullptr && !ir::is_mailbox(w.kernel.buffers[alloc->buffer])) return;
  try {
    if (const auto* loop = std::get_if<ir::Loop>(&stmt.v)) return w.write_parallel(*loop);
    if (is_lowered_form(stmt) || alloc != nullptr) return w.write_lowered(stmt);
    if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) return w.write_reduce(*reduce);
    if (const auto* scan = std::get_if<ir::Scan>(&stmt.v)) return write_scan(w, *scan);
    if (const auto* transpose = std::get_if<ir::TransposeTile>(&stmt.v)) return write_transpose(w, *transpose);
    if (const auto* copy = std::get_if<ir::CopyAsync>(&stmt.v)) return w.write_copy(*copy);
  } catch (const UnsupportedKernel& e) {
    fail(w, stmt, e.what());
  }
  fail(w, stmt, "no statement of this kind is written");
}

void write_block(Writer& w, const ir::Block& block) {
  for (const ir::Stmt& stmt : block) write_stmt(w, stmt);
}

namespace {

std::string loop_name(const Writer& w, ir::VarId var) {
  constexpr const char* kParts[] = {"", ".chunk", ".inner", ".step"};
  return name_of(w.kernel, ir::VarId{var.index % ir::kDerived}) + kParts[var.index / ir::kDerived];
}

// A bottom-tested loop. `head` holds the phi and what is hoisted into this loop; it is entered only if extent > 0.
void real_loop(Writer& w, ir::VarId var, const IndexExpr& extent, const std::function<void()>& body) {
  auto& b = w.ir.b;
  const std::string name = loop_name(w, var);
  const auto block = [&](const std::string& label) {
    return llvm::BasicBlock::Create(b.getContext(), label, w.phase_function.function);
  };
  llvm::BasicBlock *head = block(name), *inside = block(name + ".body"), *exit = block("");
  Value* count = w.index.value(extent);
  llvm::BasicBlock* before = b.GetInsertBlock();
  if (extent.is_const()) {
    b.CreateBr(head);
  } else {
    b.CreateCondBr(b.CreateICmpSGT(count, integer(count, 0)), head, exit);
  }
  b.SetInsertPoint(head);
  llvm::PHINode* i = b.CreatePHI(count->getType(), 2, name);
  i->addIncoming(integer(count, 0), before);
  b.CreateBr(inside);
  b.SetInsertPoint(inside);
  w.index.push(head);
  w.index.bind(var, i, {IndexExpr(0), extent - 1});
  body();
  w.index.pop();
  Value* next = b.CreateAdd(i, integer(count, 1));
  i->addIncoming(next, b.GetInsertBlock());
  b.CreateCondBr(b.CreateICmpSLT(next, count), head, exit);
  b.SetInsertPoint(exit);
}

}  // namespace

void write_loop(Writer& w, const ir::LoopHead& head, const std::function<void()>& body) {
  const IndexExpr extent = w.index.resolve(head.extent);
  if (extent.is_const() && extent.value() <= 0) return;
  if (!extent.is(1) && head.tag != ir::LoopTag::unroll) return real_loop(w, head.var, extent, body);
  if (!extent.is_const())
    throw CompileError("unroll loop '" + loop_name(w, head.var) + "' has the extent " + named(w.kernel, extent).str());
  for (int64_t i = 0; i < extent.value(); ++i) {
    w.index.bind(head.var, i);
    body();
  }
  w.index.unbind(head.var);
}

void define(Writer& w, ir::RegId reg, Value* raw) {
  const ir::RegInfo& info = w.kernel.regs[reg];
  raw = splat(w.ir, raw, info.width);
  w.regs[reg.index] = {raw, widen(w.ir, info.dtype, raw)};
}

Value* raw_operand(Writer& w, const ir::Operand& operand) {
  if (const auto* value = std::get_if<ir::Constant>(&operand)) return constant(w.ir, *value);
  const ir::RegId reg = std::get<ir::RegId>(operand);
  if (!w.regs[reg.index].raw) throw CompileError("'" + ir::reg_name(reg) + "' is read before it is defined");
  return w.regs[reg.index].raw;
}

Value* compute_operand(Writer& w, const ir::Operand& operand) {
  Value* raw = raw_operand(w, operand);
  const auto* reg = std::get_if<ir::RegId>(&operand);
  return reg ? w.regs[reg->index].compute : widen(w.ir, dtype_of(w.kernel, operand), raw);
}

}  // namespace fusec::codegen
