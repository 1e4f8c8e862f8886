// SPDX-License-Identifier: Apache-2.0
// Writes local buffers as CUDA C++: register arrays of a thread, shared memory of a thread block, tile transposes and
// block copies. Scratch buffers are parameters and are not declared here.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/writer.h"
#include "codegen/kernel/layout.h"

namespace fusec::codegen::cuda {
namespace {

IndexExpr count_elements(const ir::IndexShape& shape, const ir::IndexShape& strides, std::size_t from) {
  return from == shape.size() ? IndexExpr(1) : shape[from] * strides[from];
}

int64_t constant_count(const ir::Buffer& buffer, const IndexExpr& count) {
  if (count.is_const()) return count.value();
  throw UnsupportedKernel("'" + buffer.name + "' has " + count.str() + " elements, which is no constant");
}

int check_square(const ir::Buffer& buffer, const ir::IndexShape& shape) {
  const bool square = shape.size() == 2 && shape[0].is_const() && shape[0] == shape[1];
  if (!square) throw UnsupportedKernel("'" + buffer.name + "' is not one square tile");
  return static_cast<int>(shape[0].value());
}

// Accesses may lie inside more parallel loops than the declaration; those loops index the leading axes. The first
// access tells how many.
void declare_array(Writer& w, ir::BufferId id) {
  const ir::Buffer& buffer = w.kernel.buffers[id];
  const ir::IndexShape strides = compute_strides(buffer);
  const IndexExpr count = count_elements(buffer.shape, strides, w.dropped[id]);
  w.out.line(fmt::format("{} {}[{}];", register_type(buffer.dtype), buffer_name(w, id), constant_count(buffer, count)));
}

// The number of parallel loops around the first access in the block, given that the declaration lies in `around` of
// them; -1 if there is no access.
int depth_of_access(const ir::Block& block, ir::BufferId id, int around) {
  for (const ir::Stmt& stmt : block) {
    bool here = false;
    if (const auto* load = std::get_if<ir::Load>(&stmt.v)) here = load->buffer == id;
    if (const auto* store = std::get_if<ir::Store>(&stmt.v)) here = store->buffer == id;
    if (const auto* tile = std::get_if<ir::TransposeTile>(&stmt.v)) here = tile->dst == id || tile->src == id;
    if (const auto* copy = std::get_if<ir::CopyAsync>(&stmt.v)) here = copy->dst == id || copy->src == id;
    if (here) return around;
    int inside = around;
    if (const auto* loop = std::get_if<ir::Loop>(&stmt.v)) inside += loop->head.tag >= ir::LoopTag::block;
    if (const auto* reduce = std::get_if<ir::Reduce>(&stmt.v)) {
      for (const ir::LoopHead& loop : reduce->loops) inside += loop.tag >= ir::LoopTag::block;
    }
    for (const ir::Block* nested : ir::nested_blocks(stmt)) {
      if (const int found = depth_of_access(*nested, id, inside); found >= 0) return found;
    }
  }
  return -1;
}

}  // namespace

std::string buffer_name(const Writer& w, ir::BufferId id) {
  const ir::Space space = w.kernel.buffers[id].space;
  const char* letter = space == ir::Space::reg ? "r" : space == ir::Space::shared ? "s" : "b";
  return letter + std::to_string(id.index);
}

std::size_t dropped_axes(Writer& w, ir::BufferId id) {
  if (w.kernel.buffers[id].space != ir::Space::reg) return 0;
  const auto found = w.parallel_depth.find(id);
  if (found == w.parallel_depth.end())
    throw UnsupportedKernel("'" + w.kernel.buffers[id].name + "' is not declared inside of the grid");
  const auto here = static_cast<std::size_t>(w.parallel - found->second);
  if (here != w.dropped.at(id))
    throw UnsupportedKernel("'" + w.kernel.buffers[id].name + "' is used at two depths of block loops");
  return here;
}

ir::IndexShape kept_strides(Writer& w, ir::BufferId id) {
  ir::IndexShape strides = compute_strides(w.kernel.buffers[id]);
  strides.erase(strides.begin(), strides.begin() + static_cast<std::ptrdiff_t>(dropped_axes(w, id)));
  return strides;
}

void write_alloc(Writer& w, ir::BufferId id, const ir::Block& rest) {
  const ir::Buffer& buffer = w.kernel.buffers[id];
  if (buffer.space == ir::Space::scratch) return;
  if (buffer.space == ir::Space::shared) {
    const IndexExpr count = count_elements(buffer.shape, compute_strides(buffer), 0);
    add_shared(w, memory_type(buffer.dtype), buffer_name(w, id), constant_count(buffer, count),
               static_cast<int64_t>(size_of(buffer.dtype)));
    return;
  }
  w.parallel_depth[id] = w.parallel;
  const int depth = depth_of_access(rest, id, w.parallel);
  w.dropped[id] = static_cast<std::size_t>(std::max(depth, w.parallel) - w.parallel);
  if (w.dropped[id] > buffer.shape.size()) throw UnsupportedKernel("'" + buffer.name + "' lacks axes of block loops");
  declare_array(w, id);
}

void write_transpose(Writer& w, const ir::TransposeTile& stmt) {
  const ir::Buffer& src = w.kernel.buffers[stmt.src];
  const std::size_t from = dropped_axes(w, stmt.src), to = dropped_axes(w, stmt.dst);
  if (from != 0 || to != 0) throw UnsupportedKernel("its tiles are not declared beside it");
  const int n = check_square(src, src.shape);
  const IndexExpr read = kept_strides(w, stmt.src)[0], write = kept_strides(w, stmt.dst)[0];
  w.out.line("#pragma unroll");
  w.out.line(fmt::format("for (int i = 0; i < {}; ++i) {{", n));
  w.out.line("#pragma unroll");
  w.out.line(fmt::format("  for (int j = 0; j < {}; ++j) {}[j * {} + i] = {}[i * {} + j];", n, buffer_name(w, stmt.dst),
                         w.index.text(write), buffer_name(w, stmt.src), w.index.text(read)));
  w.out.line("}");
}

// The threads of the thread group copy elements in turn; the elements of the box are numbered row-major.
void write_copy(Writer& w, const ir::CopyAsync& stmt) {
  IndexExpr count(1);
  for (const IndexExpr& extent : stmt.extents) count *= extent;
  const std::string var = w.loop_name();
  const ir::SymbolId symbol{ir::SymbolKind::local, static_cast<uint32_t>(w.clamps++)};
  const bool shared_out = w.thread_group.size > 1 && w.kernel.buffers[stmt.dst].space != ir::Space::reg;
  w.out.open(fmt::format("for ({} {} = {}; {} < {}; {} += {})", w.index.type(), var,
                         shared_out ? w.thread_group.thread : "0", var, w.index.text(w.index.resolve(count)), var,
                         shared_out ? w.thread_group.size : 1));
  w.index.bind(symbol, var, {IndexExpr(0), w.index.resolve(count) - 1});
  const auto element = [&](ir::BufferId id, const std::vector<IndexExpr>& index) {
    const std::size_t dropped = dropped_axes(w, id);
    const ir::IndexShape strides = kept_strides(w, id);
    IndexExpr linear, rest = IndexExpr::symbol(symbol);
    for (std::size_t i = 0; i < strides.size(); ++i) linear += index[i + dropped] * strides[i];
    for (std::size_t k = stmt.extents.size(); k-- > 0;) {
      const IndexExpr at = k == 0 ? rest : mod(rest, stmt.extents[k]);
      linear += at * strides[strides.size() - stmt.extents.size() + k];
      rest = floordiv(rest, stmt.extents[k]);
    }
    return buffer_name(w, id) + "[" + w.index.text(w.index.resolve(linear)) + "]";
  };
  w.out.line(element(stmt.dst, stmt.dst_index) + " = " + element(stmt.src, stmt.src_index) + ";");
  w.out.close();
  w.index.unbind(symbol);
}

}  // namespace fusec::codegen::cuda
