// SPDX-License-Identifier: Apache-2.0
// Writes kernels with a tile_product as CUDA C++. The kernel is one of blocks of 128 threads, each of which computes
// one tile: the product, and what is made of its sums. The function has three warpgroups of 128 threads and as many
// blocks as there are multiprocessors. Each block takes tiles in turn: one warpgroup streams their factors through
// shared memory, and the others run the kernel's statements, each for every second tile, with shared buffers of its
// own.

#include "codegen/kernel/tiles.h"

#include <fmt/format.h>

#include "codegen/cuda/tile_prelude.h"
#include "codegen/cuda/writer.h"

namespace fusec::codegen::cuda {
namespace {

TileShape shape_of(const ir::Kernel& kernel, const ir::TileProduct& product) {
  const std::optional<TileShape> shape = tile_shape(kernel, product);
  if (!shape) throw UnsupportedKernel("'" + kernel.buffers[product.sums].name + "' is not one tile of a thread");
  return *shape;
}

// The instruction: the results of a warpgroup in 64 rows, columns / 2 of each thread.
std::string multiply_step(const TileShape& shape) {
  const int64_t count = shape.columns / 2;
  std::string registers, operands;
  for (int64_t i = 0; i < count; ++i) {
    const char* comma = i > 0 ? ", " : "";
    registers += fmt::format("{}%{}", comma, i), operands += fmt::format("{}\"+f\"(d[{}])", comma, i);
  }
  const char* type = shape.bf16 ? "bf16" : "f16";
  return fmt::format(
      "// d += a b\n"
      "FUNCTION void multiply_step(float* d, u64 a, u64 b) {{\n"
      "  asm volatile(\"wgmma.mma_async.sync.aligned.m64n{}k16.f32.{}.{} {{{}}}, %{}, %{}, 1, 1, 1, 0, 0;\"\n"
      "               : {} : \"l\"(a), \"l\"(b));\n}}\n",
      shape.columns, type, type, registers, count, count + 1, operands);
}

// The arguments that say which tile it is.
std::string arguments(Writer& w, const ir::TileProduct& product) {
  const LaneScope scope(w.index, 1);
  const TileShape shape = shape_of(w.kernel, product);
  const auto matrix = [&](ir::BufferId id, const std::vector<IndexExpr>& index, const IndexExpr& pitch,
                          const IndexExpr& rows, int64_t most) {
    const IndexExpr at = w.index.resolve(linear_index(w.kernel.buffers[id], index));
    return fmt::format("{} + {}, {}, {}", buffer_name(w, id), operand(w.index.text(at)),
                       w.index.text(w.index.resolve(pitch)), w.index.text(w.index.resolve(min(rows, IndexExpr(most)))));
  };
  return matrix(product.a, product.a_index, product.a_pitch, product.rows, shape.rows) + ", " +
         matrix(product.b, product.b_index, product.b_pitch, product.columns, shape.columns) + ", " +
         w.index.text(w.index.resolve(product.terms));
}

void bind_tile(Writer& w, const Phase& phase) { bind_grid(w, phase.grid, "number"); }
void unbind_tile(Writer& w, const Phase& phase) {
  for (const ir::LoopHead& head : phase.grid) w.index.unbind(head.var);
}

}  // namespace

bool multiplies_tiles(const Phase& phase) { return !tile_products(phase).empty(); }

void write_tile_product(Writer& w, const ir::TileProduct& product) {
  w.out.line(fmt::format("tiles.multiply({}, {});", buffer_name(w, product.sums), arguments(w, product)));
}

PhaseText write_tiles(Writer& w, const Phase& phase) {
  if (!w.target.has_tile_products) throw UnsupportedKernel("no products of tiles on " + w.target.name);
  if (phase.threads != ir::kTileThreads || phase.cluster != 1 || w.prelude.has("Tiles"))
    throw UnsupportedKernel("a product of tiles in a kernel of another form");
  if (tile_products(phase).size() > 1) throw UnsupportedKernel("a kernel with two products of tiles");
  const ir::TileProduct& product = *tile_products(phase).front();
  const TileShape shape = shape_of(w.kernel, product);
  w.prelude.define_ptx("Tiles", multiply_step(shape) + kTiles);
  w.block_sync = "tiles.sync();";
  w.spares_addresses = true;
  const std::string memory = w.prelude.use("aligned_shared");

  // What runs the kernel's statements, written first: its shared buffers leave room for so many stages.
  const Text start = std::exchange(w.out, Text());
  w.out.line("tiles.begin_multiplying();");
  w.out.line(fmt::format("const {} t = threadIdx.x % {};", w.index.type(), ir::kTileThreads));
  const Text before = std::exchange(w.out, Text());
  w.out.open(fmt::format("for (u32 number = blockIdx.x + group * gridDim.x; number < all; number += {} * gridDim.x)",
                         ir::kTileGroups));
  bind_tile(w, phase);
  for (const ir::Stmt* stmt : phase.body) write_stmt(w, *stmt);
  // The next tile has the same buffers.
  if (!w.shared.empty()) w.out.line(joins_warps(phase) ? w.block_sync : "__syncwarp(0xffffffffu);");
  unbind_tile(w, phase);
  w.out.close();
  const Text multiplying = std::exchange(w.out, Text());

  const int64_t own = shared_bytes(w);
  const ir::TileMemory plan = ir::plan_tile_memory(shape.rows, shape.columns, own, w.target.shared_bytes_per_block);
  if (!plan.fits()) throw UnsupportedKernel("a tile whose factors do not fit into shared memory");
  Text buffers;
  int64_t offset = plan.buffers;
  for (const SharedBuffer& buffer : w.shared) {
    buffers.line(fmt::format("{0}* const {1} = ({0}*)({2} + ({3} + group * {4}));", buffer.type, buffer.name, memory,
                             offset, own));
    offset += ir::padded_shared(buffer.bytes);
  }
  w.shared.clear();

  // What fills.
  w.out.line("const int group = __shfl_sync(0xffffffffu, (int)threadIdx.x / 128, 0);");
  {
    const LaneScope scope(w.index, 1);
    w.out.line(fmt::format("const u32 all = (u32){};", operand(w.index.text(w.index.resolve(count_blocks(phase))))));
    w.out.line(fmt::format("Tiles<{}, {}, {}, {}> tiles({}, group, {});", shape.rows / ir::kTileRows, shape.columns,
                           plan.stages, shape.bf16, memory, w.index.text(w.index.resolve(product.terms))));
  }
  w.out.open(fmt::format("if (group == {})", kWarpgroups - 1));
  w.out.line("tiles.begin_filling();");
  w.out.open("for (u32 number = blockIdx.x; number < all; number += gridDim.x)");
  bind_tile(w, phase);
  w.out.line(fmt::format("tiles.fill({});", arguments(w, product)));
  unbind_tile(w, phase);
  w.out.close();
  w.out.line("tiles.end_filling();");
  w.out.line("return;");
  w.out.close();

  PhaseText out;
  out.iterations = min(count_blocks(phase), IndexExpr(w.target.sm_count));
  out.threads = kWarpgroups * static_cast<int>(ir::kTileThreads);
  out.dynamic_shared = plan.bytes;
  out.text = start.str() + w.out.str() + before.str() + buffers.str() + multiplying.str();
  w.out = Text();
  return out;
}

}  // namespace fusec::codegen::cuda
