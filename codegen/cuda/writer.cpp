// SPDX-License-Identifier: Apache-2.0
// Walks the statements of a kernel phase and writes one `__global__` function with launch bounds, parameters and shared
// memory. Scalar ops on registers are written here, too.

#include "codegen/cuda/writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/kernel/tile_memory.h"
#include "ir/text/kernel_text.h"

namespace fusec::codegen::cuda {
namespace {

constexpr int64_t kStaticShared = 48 << 10;  // bytes of static shared memory that a function may declare

bool is_full(const ir::Operand& mask) { return mask == ir::kAllThreads; }

std::string mask_text(const Writer& w, const ir::Operand& mask) {
  return is_full(mask) ? "0xffffffffu" : raw_operand(w, mask);
}

void write_sync(Writer& w, const ir::Sync& sync) {
  if (sync.scope == ir::SyncScope::copies)
    return w.out.line(fmt::format("{}<{}>();", w.prelude.use("wait_for_copies"), sync.left));
  const bool all = sync.scope == ir::SyncScope::cluster;
  if (sync.scope == ir::SyncScope::block) return w.out.line(w.block_sync);
  const char* arrive = w.accesses_memory ? "arrive_cluster" : "begin_cluster";  // with something to release, or nothing
  if (all || sync.scope == ir::SyncScope::arrive) w.out.line(w.prelude.use(arrive) + "();");
  if (all || sync.scope == ir::SyncScope::wait) w.out.line(w.prelude.use("wait_cluster") + "();");
  if (sync.scope != ir::SyncScope::warp) return;
  w.out.line("__syncwarp(" + mask_text(w, sync.mask) + ");");
}

void write_if(Writer& w, const ir::If& branch) {
  const std::string condition = [&] {
    const LaneScope scope(w.index, 1);
    return guard_text(w, branch.condition, 1);
  }();
  w.out.open(condition.empty() ? "" : "if (" + condition + ")");
  write_block(w, branch.body);
  w.out.close();
}

void write_choose(Writer& w, const ir::Choose& choose) {
  const std::string name = w.loop_name();
  const std::string number = [&] {
    const LaneScope scope(w.index, 1);
    return w.index.text(w.index.resolve(choose.number));
  }();
  w.out.open("");
  w.out.line(fmt::format("const {} {} = {};", w.index.type(), name, number));
  w.out.open(fmt::format("if ({0} >= 0 && {0} < {1})", name, choose.among.size()));
  const std::string base = buffer_name(w, choose.buffer);
  w.out.line(fmt::format("const {}* __restrict__ {};", memory_type(w.kernel.buffers[choose.buffer].dtype), base));
  w.out.open("switch (" + name + ")");
  for (std::size_t i = 0; i + 1 < choose.among.size(); ++i)
    w.out.line(fmt::format("case {}: {} = {}; break;", i, base, buffer_name(w, choose.among[i])));
  w.out.line(fmt::format("default: {} = {};", base, buffer_name(w, choose.among.back())));
  w.out.close();
  w.index.bind(choose.head.var, name, {IndexExpr(0), choose.head.extent - 1});
  write_block(w, choose.body);
  w.index.unbind(choose.head.var);
  w.out.close();
  w.out.close();
}

void write_shuffle(Writer& w, const ir::Shuffle& shuffle) {
  const char* name = shuffle.kind == ir::ShuffleKind::by_xor ? "shuffle_xor" : "shuffle";
  const LaneScope scope(w.index, 1);
  const std::string lane = w.index.text(w.index.resolve(shuffle.lane));
  define(w, shuffle.dst,
         fmt::format("{}({}, {}, {})", w.prelude.use(name), mask_text(w, shuffle.mask), raw_operand(w, shuffle.value),
                     lane));
}

void write_ballot(Writer& w, const ir::Ballot& ballot) {
  const LaneScope scope(w.index, 1);
  const std::string condition = guard_text(w, ballot.condition, 1);
  define(w, ballot.dst,
         fmt::format("__ballot_sync({}, {})", mask_text(w, ballot.mask), condition.empty() ? "true" : condition));
}

void write_seq(Writer& w, const ir::Loop& loop) {
  if (loop.head.tag >= ir::LoopTag::block) throw UnsupportedKernel("only the lowered form of a kernel is written");
  write_loop(w, loop.head, [&] { write_block(w, loop.body); });
}

// f32 lanes to bytes, four at a time: one instruction converts and packs two lanes.
bool is_packed(const Writer& w, const ir::Let& let) {
  if (let.op != ir::ScalarOp::cast && let.op != ir::ScalarOp::round_cast) return false;
  const ir::RegInfo& result = w.kernel.regs[let.dst];
  const auto* from = std::get_if<ir::RegId>(&let.args[0]);
  return (result.dtype == DType::i8 || result.dtype == DType::u8) && result.width % 4 == 0 && from != nullptr &&
         w.kernel.regs[*from] == ir::RegInfo{DType::f32, result.width} && w.target.sm >= 80;
}

void write_packed(Writer& w, const ir::Let& let) {
  const ir::RegInfo& result = w.kernel.regs[let.dst];
  const std::string part =
      std::string(to_string(result.dtype)) + (let.op == ir::ScalarOp::cast ? "_truncated" : "_nearest");
  declare(w, let.dst);
  w.out.line(fmt::format("{}<{}>({}, {});", w.prelude.use(part), result.width, ir::reg_name(let.dst),
                         ir::reg_name(std::get<ir::RegId>(let.args[0]))));
}

void write_let(Writer& w, const ir::Let& let) {
  const DType first = dtype_of(w.kernel, let.args[0]);
  const DType result = w.kernel.regs[let.dst].dtype;
  if (is_16_bit_float(first) && result == first && ir::on_half_bits(let)) {
    return define(w, let.dst, op_on_bits(w.prelude, let.op, first, raw_operand(w, let.args[0])));
  }
  if (let.op == ir::ScalarOp::where) {  // a selection needs no arithmetic
    return define(w, let.dst,
                  fmt::format("{} ? {} : {}", operand(raw_operand(w, let.args[0])),
                              operand(raw_operand(w, let.args[1])), operand(raw_operand(w, let.args[2]))));
  }
  if (let.op == ir::ScalarOp::cast && first == result) return define(w, let.dst, raw_operand(w, let.args[0]));
  if (is_packed(w, let)) return write_packed(w, let);
  std::vector<std::string> args;
  for (const ir::Operand& arg : let.args) args.push_back(compute_operand(w, arg));
  define(w, let.dst, raw_op(w.prelude, let.op, first, args, result));
}

// The address of an element of a shared buffer, or of the block's own part of it.
std::string shared_address(Writer& w, ir::BufferId id, std::vector<IndexExpr> index) {
  if (w.cluster > 1) index[0] = 0;
  const IndexExpr at = w.index.resolve(linear_index(w.kernel.buffers[id], index));
  return buffer_name(w, id) + " + " + operand(w.index.text(at));
}

void write_mma(Writer& w, const ir::Mma& mma) {
  if (w.target.sm < ir::kFirstMmaSm) throw UnsupportedKernel("no matrix instructions on " + w.target.name);
  const auto pitch = [&](ir::BufferId id) {
    const ir::IndexShape strides = compute_strides(w.kernel.buffers[id]);
    return w.index.text(strides[strides.size() - 2]);
  };
  const std::string a = mma.windows ? fmt::format("{}, {}, {}", mma.windows->step, mma.windows->width, pitch(mma.a))
                                    : fmt::format("{}, {}, 0", pitch(mma.a), ir::kMmaTerms);
  define(w, mma.dst, raw_operand(w, mma.c));
  w.out.line(fmt::format("{}({}, {}, {}, {}, {});",
                         w.prelude.use(std::string("mma_") + to_string(w.kernel.buffers[mma.a].dtype)),
                         ir::reg_name(mma.dst), shared_address(w, mma.a, mma.a_index), a,
                         shared_address(w, mma.b, mma.b_index), pitch(mma.b)));
}

void write_plain(Writer& w, const ir::Stmt& stmt) {
  if (const auto* loop = std::get_if<ir::Loop>(&stmt.v)) return write_seq(w, *loop);
  if (const auto* let = std::get_if<ir::Let>(&stmt.v)) return write_let(w, *let);
  if (const auto* value = std::get_if<ir::IndexValue>(&stmt.v)) return write_index_value(w, *value);
  if (const auto* load = std::get_if<ir::Load>(&stmt.v)) return write_load(w, *load);
  if (const auto* store = std::get_if<ir::Store>(&stmt.v)) return write_store(w, *store);
  if (const auto* prefetch = std::get_if<ir::Prefetch>(&stmt.v)) return write_prefetch(w, *prefetch);
  if (const auto* copy = std::get_if<ir::CopyAsync>(&stmt.v)) return write_copy(w, *copy);
  if (const auto* sync = std::get_if<ir::Sync>(&stmt.v)) return write_sync(w, *sync);
  if (const auto* branch = std::get_if<ir::If>(&stmt.v)) return write_if(w, *branch);
  if (const auto* choose = std::get_if<ir::Choose>(&stmt.v)) return write_choose(w, *choose);
  if (const auto* shuffle = std::get_if<ir::Shuffle>(&stmt.v)) return write_shuffle(w, *shuffle);
  if (const auto* ballot = std::get_if<ir::Ballot>(&stmt.v)) return write_ballot(w, *ballot);
  if (const auto* mma = std::get_if<ir::Mma>(&stmt.v)) return write_mma(w, *mma);
  if (const auto* product = std::get_if<ir::TileProduct>(&stmt.v)) return write_tile_product(w, *product);
  if (const auto* alloc = std::get_if<ir::Alloc>(&stmt.v)) return write_alloc(w, alloc->buffer);
  if (const auto* transpose = std::get_if<ir::TransposeTile>(&stmt.v)) return write_transpose(w, *transpose);
  throw UnsupportedKernel("only the lowered form of a kernel is written");
}

}  // namespace

void bind_grid(Writer& w, const std::vector<ir::LoopHead>& grid, const std::string& block) {
  std::vector<const ir::LoopHead*> varying;
  for (const ir::LoopHead& loop : grid) {
    if (loop.extent.is(1))
      w.index.alias(loop.var, IndexExpr(0));
    else
      varying.push_back(&loop);
  }
  if (varying.size() > 1) w.out.line("unsigned block = " + block + ";");
  for (std::size_t i = varying.size(); i-- > 0;) {
    const IndexExpr extent = w.index.resolve(varying[i]->extent);
    const std::string name = w.loop_name(), by = "(unsigned)" + operand(w.index.text(extent));
    const std::string value = varying.size() == 1 ? block : i == 0 ? "block" : "block % " + by;
    w.out.line(fmt::format("const {} {} = {};", w.index.type(), name, value));
    if (i > 0) w.out.line("block /= " + by + ";");
    w.index.bind(varying[i]->var, name, {IndexExpr(0), extent - 1});
  }
}

namespace {

// Ordered tasks (ir/kernel/task_order.h): which task the block has, and the two passes.
void write_tasks(Writer& w, const Phase& phase) {
  const std::string counters = buffer_name(w, phase.tasks->counters);
  const IndexExpr of_row = w.index.resolve(count_blocks(phase.passes[0]));
  IndexExpr all = of_row;
  for (const ir::LoopHead& head : phase.grid) all *= w.index.resolve(head.extent);
  const std::string tasks = "(u32)" + operand(w.index.text(of_row));
  const std::string taken = add_shared(w, "u32", "taken", 1, sizeof(uint32_t));
  w.out.line(fmt::format("const Task task = {}({}({}, {}), {}, (u32){}, {}u);", w.prelude.use("find_task"),
                         w.prelude.use("take_number"), counters, taken, tasks, operand(w.index.text(all)),
                         phase.tasks->ahead));
  const std::string ended = fmt::format("{} + 1 + task.number / {}", counters, tasks);
  for (const Phase& pass : phase.passes) {
    const bool second = &pass != &phase.passes[0];
    std::vector<ir::LoopHead> heads = phase.grid;
    heads.insert(heads.end(), pass.grid.begin(), pass.grid.end());
    w.out.open(second ? "if (task.second)" : "if (!task.second)");
    bind_grid(w, heads, "task.number");
    bool waits = second;
    for (const ir::Stmt* stmt : pass.body) {
      if (waits && touches_scratch(w.kernel, *stmt)) {
        w.out.line(fmt::format("{}({}, {});", w.prelude.use("await_tasks"), ended, tasks));
        waits = false;
      }
      write_stmt(w, *stmt);
    }
    if (!second) w.out.line(fmt::format("{}({});", w.prelude.use("end_task"), ended));
    w.out.close();
    for (const ir::LoopHead& head : heads) w.index.unbind(head.var);
  }
}

void bind_extents(Writer& w) {
  for (std::size_t i = 0; i < w.kernel.extents.size(); ++i) {
    const ir::ExtentId id{static_cast<uint32_t>(i)};
    w.index.bind(id, systematic_name(id), {IndexExpr(0), std::nullopt});
  }
}

std::string parameters(const Writer& w, const Phase& phase) {
  std::vector<std::string> out;
  const auto add = [&](ir::BufferId id) {
    const ir::Buffer& buffer = w.kernel.buffers[id];
    const std::string constant = buffer.space == ir::Space::in ? "const " : "";
    const bool between_tasks = phase.tasks && buffer.space == ir::Space::scratch;  // other blocks store to it
    const std::string alone = may_alias(w.kernel, id) || between_tasks ? "" : "__restrict__ ";
    out.push_back(constant + memory_type(buffer.dtype) + "* " + alone + buffer_name(w, id));
  };
  for (const ir::BufferId id : w.kernel.params) add(id);
  for (uint32_t i = 0; i < w.kernel.buffers.size(); ++i) {
    if (w.kernel.buffers[ir::BufferId{i}].space == ir::Space::scratch) add(ir::BufferId{i});
  }
  for (std::size_t i = 0; i < w.kernel.extents.size(); ++i) out.push_back("i64 e" + std::to_string(i));
  out.push_back("int* status");
  return joined(out, ", ");
}

// Declares shared buffers as separate arrays or, if they exceed the static limit, as parts of the dynamic shared
// memory.
std::string shared_declarations(Writer& w, bool dynamic) {
  Text text;
  int64_t offset = 0;
  for (const SharedBuffer& buffer : w.shared) {
    if (dynamic) {
      text.line(fmt::format("{0}* const {1} = ({0}*)({2} + {3});", buffer.type, buffer.name,
                            w.prelude.use("dynamic_shared"), offset));
    } else {
      text.line("__shared__ __align__(16) " + buffer.declaration + ";");
    }
    offset += ir::padded_shared(buffer.bytes);
  }
  return text.str();
}

void open_loop(Writer& w, const ir::LoopHead& head, const IndexExpr& extent) {
  if (head.tag == ir::LoopTag::unroll) w.out.line("#pragma unroll");
  if (head.tag == ir::LoopTag::seq && w.spares_addresses) w.out.line("#pragma unroll 1");
  const std::string name = w.loop_name();
  w.out.open(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1})", w.index.type(), name, w.index.text(extent)));
  w.index.bind(head.var, name, {IndexExpr(0), extent - 1});
  if (head.tag == ir::LoopTag::unroll) w.unrolled.insert(head.var);
}

}  // namespace

std::string Writer::loop_name() {
  while (loops == 8 || loops == 16 || loops == 32 || loops == 64) ++loops;  // i8 ... are types
  return "i" + std::to_string(loops++);
}

int64_t shared_bytes(const Writer& w) {
  int64_t out = 0;
  for (const SharedBuffer& buffer : w.shared) out += ir::padded_shared(buffer.bytes);
  return out;
}

PhaseText write_phase(const ir::Kernel& kernel, const Target& target, bool comments, Prelude& prelude,
                      const Phase& phase, const std::string& entry, int resident) {
  Writer w(kernel, target, prelude);
  w.comments = comments;
  bind_extents(w);
  const int threads = std::max(1, phase.threads);
  w.cluster = phase.cluster, w.threads = threads;
  w.index.bind(ir::kThread, systematic_name(ir::kThread), {IndexExpr(0), IndexExpr(threads * phase.cluster - 1)});
  PhaseText out;
  out.iterations = count_blocks(phase);
  out.threads = threads;
  if (phase.tasks) {
    write_tasks(w, phase);
  } else if (multiplies_tiles(phase)) {
    out = write_tiles(w, phase);
  } else {
    bind_grid(w, phase.grid, w.cluster > 1 ? fmt::format("blockIdx.x / {}u", w.cluster) : "blockIdx.x");
    for (const ir::Stmt* stmt : phase.body) write_stmt(w, *stmt);
  }

  const int64_t shared = shared_bytes(w);
  if (shared > kStaticShared) out.dynamic_shared = shared;
  if (out.dynamic_shared > target.shared_bytes_per_block)
    throw UnsupportedKernel(fmt::format("blocks with {} bytes of shared memory, of {} on {}", out.dynamic_shared,
                                        target.shared_bytes_per_block, target.name));
  Text head;
  for (std::size_t i = 0; i < kernel.extents.size(); ++i)
    head.line(fmt::format("const {0} n{1} = ({0})e{1};", w.index.type(), i));
  if (waits_for_launches(target)) head.line(prelude.use("wait_for_launches") + "();");
  const std::string first = w.cluster > 1 ? fmt::format("blockIdx.x % {}u * {}u + ", w.cluster, threads) : "";
  if (out.threads == threads && threads > 1)
    head.line(fmt::format("const {} t = {}threadIdx.x;", w.index.type(), first));
  const std::string cluster = w.cluster > 1 ? fmt::format("__cluster_dims__({}, 1, 1) ", w.cluster) : "";
  out.text = fmt::format("\nextern \"C\" __global__ {}__launch_bounds__({}{}) void {}({}) {{\n", cluster, out.threads,
                         resident > 1 ? fmt::format(", {}", resident) : "", entry, parameters(w, phase)) +
             head.str() + shared_declarations(w, shared > kStaticShared) + out.text + w.out.str() + "}\n";
  return out;
}

void write_stmt(Writer& w, const ir::Stmt& stmt) {
  if (w.comments) w.out.comment(ir::print_stmt(w.kernel, stmt));
  try {
    write_plain(w, stmt);
  } catch (const UnsupportedKernel& e) {
    if (e.is_named) throw;
    throw UnsupportedKernel("cannot write '" + ir::print_stmt(w.kernel, stmt) + "': " + e.what(), true);
  }
}

void write_block(Writer& w, const ir::Block& block) {
  for (const ir::Stmt& stmt : block) write_stmt(w, stmt);
}

void write_loop(Writer& w, const ir::LoopHead& head, const std::function<void()>& body) {
  const IndexExpr extent = w.index.resolve(head.extent);
  if (extent.is_const() && extent.value() <= 0) return;
  if (extent.is(1)) {
    w.index.alias(head.var, IndexExpr(0));
    w.out.open("");
  } else {
    open_loop(w, head, extent);
  }
  body();
  w.out.close();
  w.index.unbind(head.var);
}

std::string raw_operand(const Writer& w, const ir::Operand& operand) {
  if (const auto* value = std::get_if<ir::Constant>(&operand)) return literal(*value);
  const ir::RegId reg = std::get<ir::RegId>(operand);
  return at_lane(ir::reg_name(reg), w.kernel.regs[reg].width);
}

std::string compute_operand(Writer& w, const ir::Operand& operand) {
  if (const auto* value = std::get_if<ir::Constant>(&operand)) return compute_literal(*value);
  return widen(w.prelude, dtype_of(w.kernel, operand), raw_operand(w, operand));
}

void declare(Writer& w, ir::RegId reg) {
  const ir::RegInfo& info = w.kernel.regs[reg];
  w.out.line(register_type(info.dtype) + " " + ir::reg_name(reg) +
             (info.width > 1 ? fmt::format("[{}];", info.width) : ";"));
}

void define(Writer& w, ir::RegId reg, const std::string& value) {
  const ir::RegInfo& info = w.kernel.regs[reg];
  const std::string type = register_type(info.dtype), name = ir::reg_name(reg);
  if (info.width == 1) return w.out.line("const " + type + " " + name + " = " + value + ";");
  w.out.line(fmt::format("{} {}[{}]; {}{}[lane] = {};", type, name, info.width, for_lanes(w, info.width), name, value));
}

std::string for_lanes(Writer& w, int width) {
  return width > 1 ? w.prelude.use("LANES") + "(" + std::to_string(width) + ") " : "";
}

std::string add_shared(Writer& w, const std::string& type, const std::string& name, int64_t count,
                       int64_t element_bytes) {
  count = std::max<int64_t>(1, count);
  w.shared.push_back({fmt::format("{} {}[{}]", type, name, count), type, name, count * element_bytes});
  return name;
}

}  // namespace fusec::codegen::cuda
