// SPDX-License-Identifier: Apache-2.0
// Walks a kernel and writes CUDA C++, one function per grid phase. The parts of the writer share a Writer.
//
// All names in the text are made here: v12 is a register, i3 a loop variable, n0 an extent, b4 a parameter or scratch
// buffer, r4 a reg buffer, s4 a shared buffer, t the thread's number, c2 a clamped index. A wide register is an array,
// processed lane by lane in unrolled loops.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/expression.h"
#include "codegen/kernel/layout.h"
#include "ir/kernel/kernel.h"

namespace fusec::codegen::cuda {

struct SharedBuffer {
  std::string declaration;  // "float s3[64]"
  std::string type, name;
  int64_t bytes = 0;
};

struct Writer {
  const ir::Kernel& kernel;
  const Target& target;
  bool comments = false;
  Prelude& prelude;
  Index index;
  Text out;
  std::vector<SharedBuffer> shared;  // of this phase
  int cluster = 1, threads = 1;      // blocks of a cluster of this phase, threads of a block
  int loops = 0, clamps = 0;         // counters for names
  bool accesses_memory = false;      // beside registers, so far
  std::string block_sync = "__syncthreads();";
  bool spares_addresses = false;    // writes their constant parts apart, and keeps loops as they are
  std::set<ir::SymbolId> unrolled;  // variables of the enclosing loops that the compiler unrolls
  std::string loop_name();          // the next loop variable

  Writer(const ir::Kernel& kernel, const Target& target, Prelude& prelude)
      : kernel(kernel), target(target), prelude(prelude), index(kernel, prelude) {}
  Writer(const Writer&) = delete;
};

struct PhaseText {
  std::string text;
  IndexExpr iterations;
  int threads = 1;
  int64_t dynamic_shared = 0;
};
// `resident`: blocks that a multiprocessor must be able to hold at once; up to 1: any number.
PhaseText write_phase(const ir::Kernel& kernel, const Target& target, bool comments, Prelude& prelude,
                      const Phase& phase, const std::string& entry, int resident);

void write_stmt(Writer& w, const ir::Stmt& stmt);
void write_block(Writer& w, const ir::Block& block);
// body() for var = 0 .. extent-1.
void write_loop(Writer& w, const ir::LoopHead& head, const std::function<void()>& body);

// The operand's text; a wide one is indexed by the lane of the enclosing loop.
std::string raw_operand(const Writer& w, const ir::Operand& operand);
std::string compute_operand(Writer& w, const ir::Operand& operand);
// "float v3 = value;", or an array and a loop over its lanes.
void define(Writer& w, ir::RegId reg, const std::string& value);
// "float v3;" or "float v3[4];"
void declare(Writer& w, ir::RegId reg);
// "LANES(4) " where width > 1.
std::string for_lanes(Writer& w, int width);
inline std::string at_lane(const std::string& name, int width) { return width > 1 ? name + "[lane]" : name; }
// Declares shared memory for `count` elements; returns its name.
std::string add_shared(Writer& w, const std::string& type, const std::string& name, int64_t count,
                       int64_t element_bytes);

// access.cpp
void write_load(Writer& w, const ir::Load& load);
void write_store(Writer& w, const ir::Store& store);
void write_copy(Writer& w, const ir::CopyAsync& copy);
void write_prefetch(Writer& w, const ir::Prefetch& prefetch);
void write_index_value(Writer& w, const ir::IndexValue& stmt);
// The guard at `lane` of `width` as text; "" if it always holds.
std::string guard_text(Writer& w, const ir::Guard& guard, int width);

// Of the shared buffers that the phase has so far.
int64_t shared_bytes(const Writer& w);
// Binds the grid variables, row-major in the number `block`.
void bind_grid(Writer& w, const std::vector<ir::LoopHead>& grid, const std::string& block);

// tiles.cpp: products of tiles
bool multiplies_tiles(const Phase& phase);
// Writes the body of a function whose thread blocks run several tiles each. Returns its threads and shared memory.
PhaseText write_tiles(Writer& w, const Phase& phase);
void write_tile_product(Writer& w, const ir::TileProduct& product);

// memory.cpp: local buffers, and statements on whole buffers
void write_alloc(Writer& w, ir::BufferId id);
void write_transpose(Writer& w, const ir::TransposeTile& stmt);
std::string buffer_name(const Writer& w, ir::BufferId id);
std::string mailbox_name(ir::BufferId id);  // counts what arrives in a mailbox

}  // namespace fusec::codegen::cuda
