// SPDX-License-Identifier: Apache-2.0
// Writes block loops as threads of a thread block, with their barriers and warp masks. A block loop whose extent is not
// constant is rejected.

#include <algorithm>

#include "codegen/cuda/writer.h"

namespace fusec::codegen::cuda {
namespace {

ThreadGroupVars inside(Writer& w, int64_t total, int64_t inner, bool collective) {
  ThreadGroupVars out{split(w.thread_group, total, inner), "", w.thread_group.mask};
  if (collective && splits_warps(w.thread_group, total)) {
    out.mask = "m" + std::to_string(w.threads);
    w.out.line("const unsigned " + out.mask + " = __ballot_sync(" + w.thread_group.mask + ", " + w.thread_group.thread +
               " < " + std::to_string(total) + ");");
  }
  out.thread = "t" + std::to_string(++w.threads);
  return out;
}

}  // namespace

int64_t constant_extent(Writer& w, const ir::LoopHead& loop) {
  const IndexExpr extent = w.index.resolve(loop.extent);
  if (extent.is_const()) return std::max<int64_t>(0, extent.value());
  throw UnsupportedKernel("block loop '" + name_of(w.kernel, loop.var) + "' has the extent " +
                          named(w.kernel, loop.extent).str() + ", which is no constant");
}

int64_t count_threads(Writer& w, const ir::Stmt& stmt) {
  return codegen::count_threads(stmt, [&](const ir::LoopHead& loop) { return constant_extent(w, loop); });
}

// Binds the loop variables, innermost first, by dividing the thread index.
void bind_threads(Writer& w, const std::vector<ir::LoopHead>& loops, int64_t inner) {
  const std::string thread = w.thread_group.thread;
  int64_t stride = inner;
  for (std::size_t i = loops.size(); i-- > 0;) {
    const int64_t extent = constant_extent(w, loops[i]);
    if (extent == 1) {
      w.index.alias(loops[i].var, IndexExpr(0));
      continue;
    }
    std::string value =
        stride == 1 ? thread : w.prelude.use("udiv") + "(" + thread + ", " + std::to_string(stride) + ")";
    stride *= extent;
    const bool outermost = std::all_of(loops.begin(), loops.begin() + static_cast<std::ptrdiff_t>(i),
                                       [&](const ir::LoopHead& loop) { return constant_extent(w, loop) == 1; });
    if (!outermost) value = w.prelude.use("umod") + "(" + value + ", " + std::to_string(extent) + ")";
    const std::string name = w.loop_name();
    w.out.line("const " + w.index.type() + " " + name + " = " + value + ";");
    w.index.bind(loops[i].var, name, {IndexExpr(0), IndexExpr(extent - 1)});
  }
}

void write_block_loops(Writer& w, const std::vector<ir::LoopHead>& loops, int64_t inner, bool collective,
                       const std::function<void()>& body) {
  int64_t total = inner;
  for (const ir::LoopHead& loop : loops) total *= constant_extent(w, loop);
  if (total == 0) return;
  const ThreadGroupVars outer = w.thread_group;
  const auto variables = w.block_variables;
  const ThreadGroupVars own = inside(w, total, inner, collective);
  w.out.open(total < outer.size ? "if (" + outer.thread + " < " + std::to_string(total) + ")" : "");
  bind_threads(w, loops, inner);
  w.thread_group = own;
  for (const ir::LoopHead& loop : loops) w.block_variables.insert(loop.var);
  if (inner > 1) {
    w.out.line("const int " + w.thread_group.thread + " = " + w.prelude.use("umod") + "(" + outer.thread + ", " +
               std::to_string(inner) + ");");
  }
  w.parallel += static_cast<int>(loops.size());
  body();
  w.parallel -= static_cast<int>(loops.size());
  w.out.close();
  for (const ir::LoopHead& loop : loops) w.index.unbind(loop.var);
  w.block_variables = variables;
  w.thread_group = outer;
}

void write_block_barrier(Writer& w) {
  if (!w.thread_group.uniform) throw UnsupportedKernel("it needs a barrier where not all threads of the block come");
  w.out.line("__syncthreads();");
}

std::string first_thread(const Writer& w) { return w.thread_group.size > 1 ? w.thread_group.thread + " == 0" : ""; }

}  // namespace fusec::codegen::cuda
