// SPDX-License-Identifier: Apache-2.0
// Walks a kernel and writes CUDA C++, one function per grid phase. The parts of the writer share a Writer.
//
// All names in the text are made here: v12 is a register, i3 a loop variable, n0 an extent, b4 a parameter or scratch
// buffer, r4 a reg buffer, s4 a shared buffer, t1 the thread's index in its thread group, w12 the shared memory of a
// reduce, a12_0 accumulators, c2 a clamped index. A wide register is an array, processed lane by lane in unrolled
// loops.
//
// Of a reduction, reduce.cpp runs over the elements and collective.cpp folds over threads.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/expression.h"
#include "codegen/kernel/layout.h"
#include "codegen/kernel/thread_group.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/known_bits.h"

namespace fusec::codegen::cuda {

struct ThreadGroupVars : ThreadGroup {
  std::string thread = "t0";         // the index of this thread in it
  std::string mask = "0xffffffffu";  // the threads of this warp that are at this point of the program
};

struct SharedBuffer {
  std::string declaration;  // "float s3[64]"
  std::string type, name;
  int64_t bytes = 0;
};

struct Writer {
  const ir::Kernel& kernel;
  const Target& target;
  const ir::IdVector<ir::RegId, ir::KnownBits> known_bits;
  std::map<ir::RegId, ir::RegId> rounded;  // maps the result of each `round` to its operand
  bool comments = false;
  Prelude& prelude;
  Index index;
  Text out;
  ThreadGroupVars thread_group;
  std::vector<SharedBuffer> shared;             // of this phase
  std::map<ir::BufferId, std::size_t> dropped;  // leading axes of reg buffers that block loops index, once known
  std::map<ir::BufferId, int> parallel_depth;   // parallel loops around the declaration of a local buffer
  int parallel = 0;                             // parallel loops around this point
  std::set<ir::SymbolId> block_variables;       // of the block loops around this point
  int64_t block_threads = 1, block_warps = 1;
  int loops = 0, clamps = 0, threads = 0;  // counters for names
  std::string loop_name();                 // the next loop variable

  Writer(const ir::Kernel& kernel, const Target& target, Prelude& prelude)
      : kernel(kernel),
        target(target),
        known_bits(ir::compute_known_bits(kernel)),
        prelude(prelude),
        index(kernel, prelude) {}
  Writer(const Writer&) = delete;
};

struct PhaseText {
  std::string text;
  IndexExpr iterations;
  int threads = 1;
  int64_t dynamic_shared = 0;
};
PhaseText write_phase(const ir::Kernel& kernel, const Target& target, bool comments, Prelude& prelude,
                      const Phase& phase, const std::string& entry);

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

// let.cpp
void write_let(Writer& w, const ir::Let& let);

// threads.cpp: how many threads the statements need; block loops; barriers.
int64_t count_threads(Writer& w, const ir::Stmt& stmt);
int64_t constant_extent(Writer& w, const ir::LoopHead& loop);
// Runs body with the variables of nested block loops bound, for the threads that take part. `inner`: threads that each
// iteration needs; `collective`: whether body contains barriers or shuffles.
void write_block_loops(Writer& w, const std::vector<ir::LoopHead>& loops, int64_t inner, bool collective,
                       const std::function<void()>& body);
// Binds the variables of nested block loops by dividing the thread's index in its thread group.
void bind_threads(Writer& w, const std::vector<ir::LoopHead>& loops, int64_t inner);
void write_block_barrier(Writer& w);
// "t0 == 0", the condition for what one thread of the thread group does; empty if the thread group is one thread.
std::string first_thread(const Writer& w);

// access.cpp
void write_load(Writer& w, const ir::Load& load);
void write_store(Writer& w, const ir::Store& store);
void write_index_value(Writer& w, const ir::IndexValue& stmt);
// The guard at `lane` of `width` as text; "" if it always holds.
std::string guard_text(Writer& w, const ir::Guard& guard, int width);

// memory.cpp: local buffers, and statements on whole buffers. `rest`: the statements of the declaration's block.
void write_alloc(Writer& w, ir::BufferId id, const ir::Block& rest);
void write_transpose(Writer& w, const ir::TransposeTile& stmt);
void write_copy(Writer& w, const ir::CopyAsync& stmt);
std::string buffer_name(const Writer& w, ir::BufferId id);
// The number of leading axes that a thread's copy of a reg buffer lacks: those indexed by parallel loops around the
// access but not around the declaration. 0 for other buffers.
std::size_t dropped_axes(Writer& w, ir::BufferId id);
// Strides of the remaining axes, in elements.
ir::IndexShape kept_strides(Writer& w, ir::BufferId id);

// reduce.cpp
void write_reduce(Writer& w, const ir::Reduce& reduce);
void write_scan(Writer& w, const ir::Scan& scan);

// The accumulators of one reduce: an array for each part, with a second axis of lanes in a lane-wise reduction.
struct Accumulators {
  CombineOp op;
  Parts names;
  int64_t count = 1;
  int lanes = 1;   // above 1 in a lane-wise reduction
  std::string id;  // suffix of the names made for it

  // Element `at` of every part. In a lane-wise reduction the text must stand in a loop over lanes.
  Parts element(const std::string& at) const;
};

// Folds every `step`-th accumulator over `count` runs of `stride` threads each; inside a run the accumulators are
// equal. Afterwards the first count * stride threads of the thread group hold the result; if it returns true, the whole
// thread group does.
bool combine_threads(Writer& w, const Accumulators& a, int64_t stride, int64_t count, int64_t step);
// Copies the first accumulator of the thread group's first thread to all its threads.
void broadcast(Writer& w, const Accumulators& a);
// Combines neighbouring pairs, carrying an odd last one, over `count` accumulators `stride` apart, for each such run of
// the array.
void fold_array(Writer& w, const Accumulators& a, int64_t stride, int64_t count);

}  // namespace fusec::codegen::cuda
