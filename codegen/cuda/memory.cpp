// SPDX-License-Identifier: Apache-2.0
// Writes local buffers as CUDA C++: register arrays of a thread, shared memory of a thread block, and tile transposes.
// Scratch buffers are parameters and are not declared here.

#include <fmt/format.h>

#include <algorithm>

#include "codegen/cuda/writer.h"
#include "codegen/kernel/layout.h"
#include "ir/kernel/mailbox.h"

namespace fusec::codegen::cuda {
namespace {

IndexExpr count_elements(const ir::Buffer& buffer) {
  return buffer.shape.empty() ? IndexExpr(1) : buffer.shape[0] * compute_strides(buffer)[0];
}

int64_t constant_count(const ir::Buffer& buffer, const IndexExpr& count) {
  if (count.is_const()) return count.value();
  throw UnsupportedKernel("'" + buffer.name + "' has " + count.str() + " elements, which is no constant");
}

void open_mailbox(Writer& w, ir::BufferId id, int64_t count) {
  const std::string name = add_shared(w, "u64", mailbox_name(id), 1, sizeof(uint64_t));
  const auto bytes = count * static_cast<int64_t>(size_of(w.kernel.buffers[id].dtype));
  w.out.line(fmt::format("{}({}, {});", w.prelude.use("open_mailbox"), name, bytes));
}

int check_square(const ir::Buffer& buffer, const ir::IndexShape& shape) {
  const bool square = shape.size() == 2 && shape[0].is_const() && shape[0] == shape[1];
  if (!square) throw UnsupportedKernel("'" + buffer.name + "' is not one square tile");
  return static_cast<int>(shape[0].value());
}

}  // namespace

std::string mailbox_name(ir::BufferId id) { return "m" + std::to_string(id.index); }

std::string buffer_name(const Writer& w, ir::BufferId id) {
  const ir::Space space = w.kernel.buffers[id].space;
  const char* letter = space == ir::Space::reg ? "r" : space == ir::Space::shared ? "s" : "b";
  return letter + std::to_string(id.index);
}

void write_alloc(Writer& w, ir::BufferId id) {
  const ir::Buffer& buffer = w.kernel.buffers[id];
  if (buffer.space == ir::Space::scratch) return;
  const int64_t count = constant_count(buffer, count_elements(buffer));
  if (buffer.space == ir::Space::shared) {
    add_shared(w, memory_type(buffer.dtype), buffer_name(w, id), count / w.cluster,
               static_cast<int64_t>(size_of(buffer.dtype)));
    if (ir::is_mailbox(buffer)) open_mailbox(w, id, count / w.cluster);
  } else {
    w.out.line(fmt::format("{} {}[{}];", register_type(buffer.dtype), buffer_name(w, id), count));
  }
}

void write_transpose(Writer& w, const ir::TransposeTile& stmt) {
  const ir::Buffer &src = w.kernel.buffers[stmt.src], &dst = w.kernel.buffers[stmt.dst];
  const int n = check_square(src, src.shape);
  const IndexExpr read = compute_strides(src)[0], write = compute_strides(dst)[0];
  w.out.line("#pragma unroll");
  w.out.line(fmt::format("for (int i = 0; i < {}; ++i) {{", n));
  w.out.line("#pragma unroll");
  w.out.line(fmt::format("  for (int j = 0; j < {}; ++j) {}[j * {} + i] = {}[i * {} + j];", n, buffer_name(w, stmt.dst),
                         w.index.text(write), buffer_name(w, stmt.src), w.index.text(read)));
  w.out.line("}");
}

}  // namespace fusec::codegen::cuda
