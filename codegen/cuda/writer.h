// SPDX-License-Identifier: Apache-2.0
// The walk over a kernel that writes CUDA C++: one function per grid phase. Its parts share a Writer.
//
// Every name in the text is made here: v12 a register, i3 a loop variable, n0 an extent, b4 a parameter or scratch
// buffer, r4 a reg buffer, s4 a shared one, t1 the thread's number in its team, w12 the shared memory of a reduce,
// a12_0 accumulators, c2 a clamped index. A wide register is an array, worked on lane by lane in loops that are
// expanded.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "codegen/cuda/index.h"
#include "codegen/cuda/prelude.h"
#include "codegen/cuda/scalar.h"
#include "codegen/cuda/text.h"
#include "codegen/kernel/phases.h"
#include "codegen/kernel/team.h"
#include "ir/kernel/kernel.h"
#include "ir/kernel/known_bits.h"

namespace fusec::codegen::cuda {

struct Team : TeamSize {
  std::string thread = "t0";         // the number of this thread in it
  std::string mask = "0xffffffffu";  // of the threads of this warp that are at this point of the program
};

struct SharedBuffer {
  std::string declaration;  // "float s3[64]"
  std::string type, name;
  int64_t bytes = 0;
};

struct Writer {
  const ir::Kernel& kernel;
  const Target& target;
  const ir::IdVector<ir::RegId, ir::KnownBits> digits;
  std::map<ir::RegId, ir::RegId> rounded;  // results of `round` to what they are of
  bool comments = false;
  Prelude& prelude;
  Index index;
  Text out;
  Team team;
  std::vector<SharedBuffer> shared;             // of this phase
  std::map<ir::BufferId, std::size_t> dropped;  // leading axes of reg buffers that block loops index, once known
  std::map<ir::BufferId, int> parallel_depth;   // parallel loops around the declaration of a local buffer
  int parallel = 0;                             // parallel loops around this point
  std::set<std::string> block_variables;        // of the loops around it
  int64_t block_threads = 1, block_warps = 1;
  int loops = 0, clamps = 0, threads = 0;  // names given
  std::string loop_name();                 // of the next loop variable

  Writer(const ir::Kernel& kernel, const Target& target, Prelude& prelude)
      : kernel(kernel), target(target), digits(ir::known_bits_of(kernel)), prelude(prelude), index(kernel, prelude) {}
  Writer(const Writer&) = delete;
};

struct PhaseText {
  std::string text;
  Dim iterations;
  int threads = 1;
  int64_t dynamic_shared = 0;
};
PhaseText write_phase(const ir::Kernel& kernel, const Target& target, bool comments, Prelude& prelude,
                      const Phase& phase, const std::string& entry);

void write_stmt(Writer& w, const ir::Stmt& stmt);
void write_block(Writer& w, const ir::Block& block);
// body() for var = 0 .. extent-1.
void write_loop(Writer& w, const ir::LoopHead& head, const std::function<void()>& body);

DType dtype_of(const Writer& w, const ir::Operand& operand);
// The operand at the lane of the loop that it stands in.
std::string raw_operand(const Writer& w, const ir::Operand& operand);
std::string compute_operand(Writer& w, const ir::Operand& operand);
// "float v3 = value;", or an array and a loop over its lanes.
void define(Writer& w, ir::RegId reg, const std::string& value);
// "float v3;" or "float v3[4];"
void declare(Writer& w, ir::RegId reg);
// "LANES(4) " where width > 1.
std::string for_lanes(Writer& w, int width);
inline std::string at_lane(const std::string& name, int width) { return width > 1 ? name + "[lane]" : name; }
// Shared memory of `count` elements; answers its name.
std::string add_shared(Writer& w, const std::string& type, const std::string& name, int64_t count,
                       int64_t element_bytes);

// let.cpp
void write_let(Writer& w, const ir::Let& let);

// threads.cpp: how many threads the statements need; block loops; barriers.
int64_t threads_of(Writer& w, const ir::Stmt& stmt);
int64_t constant_extent(Writer& w, const ir::LoopHead& loop);
// Runs body with the variables of nested block loops bound, for the threads that take part.
// `inner`: threads that each of their iterations has; `collective`: whether body holds barriers or shuffles.
void write_block_loops(Writer& w, const std::vector<ir::LoopHead>& loops, int64_t inner, bool collective,
                       const std::function<void()>& body);
// Binds variables of nested block loops by division of the thread's number in its team.
void bind_threads(Writer& w, const std::vector<ir::LoopHead>& loops, int64_t inner);
void write_block_barrier(Writer& w);
// "if (t0 == 0)" for what one thread of the team does; empty where the team is one thread.
std::string first_thread(const Writer& w);

// access.cpp
void write_load(Writer& w, const ir::Load& load);
void write_store(Writer& w, const ir::Store& store);
void write_index_value(Writer& w, const ir::IndexValue& stmt);
// The guard at `lane` of `width` as text; "" when it always holds.
std::string guard_text(Writer& w, const ir::Guard& guard, int width);

// memory.cpp: local buffers and statements on whole ones.
// `rest`: the statements after the declaration.
void write_alloc(Writer& w, ir::BufferId id, const ir::Block& rest);
void write_transpose(Writer& w, const ir::TransposeTile& stmt);
void write_copy(Writer& w, const ir::CopyAsync& stmt);
std::string buffer_name(const Writer& w, ir::BufferId id);
// The axes that a thread's copy of a reg buffer has not: those of the parallel loops around the access but not around
// the declaration. 0 for other buffers.
std::size_t dropped_axes(Writer& w, ir::BufferId id);
// Strides of the axes that are left, in elements.
Shape kept_strides(Writer& w, ir::BufferId id);

// reduce.cpp
void write_reduce(Writer& w, const ir::Reduce& reduce);
void write_scan(Writer& w, const ir::Scan& scan);

}  // namespace fusec::codegen::cuda
