// SPDX-License-Identifier: Apache-2.0
// Kernel: the structured loop nest of one fused region, in scalar ops of the same table as Graph.
//
// The rule: read with all tags erased, as plain sequential loops, a kernel computes the same result. Hence the
// iterations of a grid, cluster or block loop are independent. Sibling parallel loops are phases, and data passes only
// from an earlier phase to a later one (between block phases through shared and reg buffers, between grid phases
// through scratch buffers).
//
// A GPU runs a kernel in its lowered form, which compiler/lower/gpu makes of the form above. Its outermost grid loops
// say how many threads a block has; block and cluster loops, reductions and scans are gone, kThread is the thread's
// number, and registers and reg buffers belong to one thread. The threads run in lockstep, statement by statement: If,
// and loops whose extents differ from thread to thread, leave some of them out. A shuffle takes values from threads
// that take part in it, its mask names those of the warp that do, and a sync.block is reached by all threads of the
// block. Between two syncs, no element of a shared buffer is touched by two threads if one of them writes it.
//
// Several blocks of a GPU may form a cluster: they run at the same time, and each reaches the shared memory of the
// others. Such a grid loop says how many threads and blocks a cluster has, and kThread is the thread's number in the
// cluster. The first axis of a shared buffer is then the number of the block whose memory holds the rest. A
// sync.cluster is reached by all threads of the cluster. One stands before the first access to another block's memory,
// and one (or its two halves) behind the last: the memory is there from that block's beginning to its end.
//
// Index expressions are IndexExprs over extents, loop variables, integer registers, kLane and kThread. A value of width
// w has w lanes; in the statement that defines it, kLane stands for 0 .. w-1. A statement's width is that of its result
// (for a store, that of its operand). Operands of width 1 apply to every lane.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "fusec/dtype.h"
#include "ir/base/index_expr.h"
#include "ir/ops/op.h"
#include "ir/support/id_vector.h"

namespace fusec::ir {

using BufferId = Id<struct BufferTag>;

// seq: in order. unroll: in order, expanded by the writer; the extent is constant. block: threads of a thread block on
// a GPU, a plain loop on a CPU. cluster: thread blocks that run at the same time and exchange values. grid: thread
// blocks on a GPU, tasks on a CPU; only outermost and perfectly nested.
enum class LoopTag : uint8_t { seq, unroll, block, cluster, grid };

enum class Space : uint8_t {
  in,       // parameter, only read
  out,      // parameter, only written
  reg,      // private to an iteration of the enclosing parallel loops: registers on a GPU, or local memory on a CPU
  shared,   // shared by one thread block
  scratch,  // global memory that lives as long as the launch; carries data between grid phases
};

struct Buffer {
  std::string name;  // an identifier, unique in the kernel
  Space space = Space::reg;
  DType dtype = DType::f32;
  IndexShape shape;
  IndexShape strides;  // in elements; empty: row-major. Parameters only
  int alignment = 0;   // proven alignment in bytes of a parameter's base address; 0: that of an element
  std::string layout;  // "" | "pitch 65" | "mma.acc": a name from the fixed layout table
  bool operator==(const Buffer&) const = default;
};

struct Constant {
  DType dtype = DType::f32;
  double f = 0;                              // value of floats
  int64_t i = 0;                             // value of integers and bool; bit pattern for u64
  bool operator==(const Constant& o) const;  // compares floats by bits, so that NaN equals itself and 0 differs from -0
};

using Operand = std::variant<RegId, Constant>;
inline constexpr Operand kAllThreads = Constant{DType::u32, 0, 0xffffffff};  // of a warp

// A conjunction of `expr >= 0`, evaluated per lane.
using Guard = std::vector<IndexExpr>;

struct Stmt;
using Block = std::vector<Stmt>;

struct LoopHead {
  LoopTag tag = LoopTag::seq;
  VarId var;         // no other loop of the kernel has it
  IndexExpr extent;  // runs 0 .. extent-1
  bool operator==(const LoopHead&) const = default;
};

// How grid phases are separated; applies after this loop.
enum class PhaseBoundary : uint8_t { launches, last_block, coop };

// Two passes over rows in one launch. The innermost body of the nest of grid loops is two more grid loops of equal
// extents, the passes: an iteration of the loops around them is a row, and an iteration of a pass is a task, which one
// thread block runs. Blocks take tasks in the order of ir/kernel/task_order.h, where the first pass is at least a row
// and `ahead` tasks before the second one. A task of the second pass waits, in front of the first of its statements
// that touches a scratch buffer, until all tasks of the first pass over its row have ended. They come before it in the
// order, so it waits only for blocks that run, and no launch need fit on the GPU as a whole.
struct TaskOrder {
  // Scratch, i32[rows + 1]: how many tasks blocks have taken, and how many of the first pass have ended of each row.
  // All are 0 when the launch begins.
  BufferId counters;
  int64_t ahead = 0;
};

struct Loop {
  LoopHead head;
  Block body;
  PhaseBoundary boundary = PhaseBoundary::launches;
  // At an outermost grid loop of the lowered form: the threads of a block or, evenly divided among its blocks, of a
  // cluster. 0: the kernel is not lowered.
  int threads = 0;
  int cluster = 1;                      // blocks
  std::optional<TaskOrder> tasks = {};  // of an outermost grid loop
};

// Runs body where the condition holds.
struct If {
  Guard condition;
  Block body;
};

// Only in the lowered form. Runs body once, with head.var = number, if 0 <= number < head.extent, a constant. There,
// `buffer` is another name of among[number]; these are `in` parameters that differ in their contents only. The number
// depends on extents and grid loops alone, so all threads of a block choose alike.
struct Choose {
  LoopHead head;
  IndexExpr number;
  BufferId buffer;              // of the space `in`, with the dtype, shape, strides and alignment of the others
  std::vector<BufferId> among;  // as many as the extent
  Block body;
};

// Declares a local buffer for the rest of the enclosing block. Its initial contents are undefined.
struct Alloc {
  BufferId buffer;
};

// dst = op(args). The target type of a cast is that of dst.
struct Let {
  RegId dst;
  ScalarOp op = ScalarOp::add;
  std::vector<Operand> args;
};

// dst = the value of an index expression, in dst's dtype; it may use `lane`.
struct IndexValue {
  RegId dst;
  IndexExpr value;
};

// dst = buffer[index], or `otherwise` if the guard fails. `clamp` is for data-dependent indices only. If bit a is set,
// the index of axis a wraps if negative and is clamped into range, and an index out of range sets the run's status
// word.
struct Load {
  RegId dst;
  BufferId buffer;
  std::vector<IndexExpr> index;
  Guard guard;
  Constant otherwise;
  uint32_t clamp = 0;
};

enum class StoreHint : uint8_t { none, stream };  // stream: not read again soon; the base is aligned to the vector

// buffer[index] = value if the guard holds.
struct Store {
  BufferId buffer;
  std::vector<IndexExpr> index;
  Operand value;
  Guard guard;
  StoreHint hint = StoreHint::none;
};

// Hints that the cache line of buffer[index] will be read.
struct Prefetch {
  BufferId buffer;
  std::vector<IndexExpr> index;
};

// Combiners work on tuples: add, mul, max, min, and_, or_ on single values; argmax, argmin on (value, index), with the
// lower index on ties (the higher one for *_last); welford on (mean, m2, n); max_sum on (max, sum scaled by exp(-max)).
enum class Combiner : uint8_t {
  add,
  mul,
  max,
  min,
  and_,
  or_,
  argmax,
  argmin,
  argmax_last,
  argmin_last,
  welford,
  max_sum
};
int tuple_size(Combiner combiner);
const char* to_string(Combiner combiner);

// Element i of n belongs to chunk i div chunk and to lane i mod lanes. A lane adds its elements in rising i; lanes
// combine by adjacent pairs; chunks combine by a balanced tree in index order. chunk 0 means one chunk. {1, 0} is a
// plain sequence. {0, 0} is a balanced tree over all n elements (lanes = n rounded up to a power of two, adjacent pairs
// first).
struct Tree {
  int64_t lanes = 1, chunk = 0;
  bool operator==(const Tree&) const = default;
};

// On a GPU, the block loops among `loops` are threads; the others run inside each thread. Elements are folded from the
// innermost loop outwards, each loop (and the lanes) by adjacent pairs: within a thread, by warp shuffles, and between
// warps through shared memory. That equals the tree if `lanes` is the product of the innermost extents, each lane has
// one element per chunk (chunk is 0 or equals lanes) and every extent but the outermost is a power of two, or if the
// tree is {0, 0}. For min, max, and, or and integers the order does not matter. The result is the same in every thread
// that runs the statement.
//
// dst = the combination of the values of `yield` over all iterations of `loops` (outermost first) and all lanes
// (innermost). The statement's width is that of the yield. An iteration whose guard fails takes no part. Without any
// iteration the result is the identity. If dst has the width of the yield (and width > 1), lanes are not combined: each
// lane is an independent reduction over `loops` (rows side by side in one vector).
struct Reduce {
  std::vector<RegId> dst;
  Combiner combiner = Combiner::add;
  Tree tree;
  std::vector<LoopHead> loops;
  Block body;
  std::vector<Operand> yield;
  Guard guard;
};

// For each iteration: runs body, combines its yield into the running value (lane by lane) in order, and runs `then`. In
// `then`, dst is the running value with (inclusive) or without (exclusive) this iteration's yield. reverse: from the
// last iteration to the first.
struct Scan {
  RegId dst;
  Combiner combiner = Combiner::add;
  bool exclusive = false, reverse = false;
  LoopHead loop;
  Block body;
  Operand yield;
  Block then;
};

// dst[j, i] = src[i, j] for square n x n reg buffers: a transpose in registers.
struct TransposeTile {
  BufferId dst, src;
};

// Copies the box of `extents` elements at src[src_index] to dst[dst_index], or zeros if the guard fails. It is complete
// before the first later phase that reads dst, which comes behind a sync.copies that waits for it. A multi-stage buffer
// has a leading axis indexed by s mod stages. In the lowered form a thread copies 4, 8 or 16 bytes (copied_bytes) side
// by side; both places are multiples of as many bytes.
struct CopyAsync {
  BufferId dst, src;
  std::vector<IndexExpr> dst_index, src_index, extents;
  Guard guard = {};  // does not use kLane
};

// One thread's part of a matrix product of 16 x 8 results over 16 terms, which the 32 threads of a warp compute in one
// instruction. a and b are shared tiles of one 16-bit float type, whose last axis is that of the terms; a_index and
// b_index are their first elements. With g = lane div 4 and t = lane mod 4, `lane` the number of the thread in its
// warp, the thread has four results, i = 0 .. 3, which are the lanes of dst and of c (f32):
//
//   dst[i] = c[i] + sum over k = 0 .. 15 of a[a_index + (g + 8 (i div 2), k)] * b[b_index + (2 t + i mod 2, k)]
//
// With windows {width, step}, a is not a matrix but the lines under sliding windows, and the element of row r and term
// k is a[a_index + (k div width, step r + k mod width)]. The width divides kMmaTerms; width, step and the first
// position are even, because two elements are read at a time.
//
// The evaluator rounds the sum once; hardware rounds it in ways of its own. All threads of the warp come here with
// equal a_index and b_index.
struct Mma {
  RegId dst;
  Operand c;
  BufferId a, b;
  std::vector<IndexExpr> a_index, b_index;
  IndexExpr lane;
  struct Windows {
    int64_t width = 0, step = 0;
  };
  std::optional<Windows> windows = {};
};
// The element of a or b of a row and a term of the product.
std::vector<IndexExpr> element_of_a(const Mma& mma, const IndexExpr& row, const IndexExpr& term);
std::vector<IndexExpr> element_of_b(const Mma& mma, const IndexExpr& row, const IndexExpr& term);
inline constexpr int kFirstMmaSm = 80;  // the first GPU architecture that has it
inline constexpr int64_t kMmaRows = 16, kMmaColumns = 8, kMmaTerms = 16, kMmaResults = 4;  // results: of a thread

// One thread's part of a tile of a matrix product, which the kTileThreads threads of a thread block compute together. a
// and b are `in` parameters of one 16-bit float type; a_index and b_index are the elements where the tile begins. Along
// the last axis, the terms of a row lie side by side and rows follow each other at a pitch, in elements. The last three
// axes of sums, a reg buffer of f32, are m = 0 .. R-1, g = 0 .. C-1 and i = 0 .. 3, for a tile of 64 R rows and 8 C
// columns; sums_index has the axes before them. With t = thread, w = t div 32 and l = t mod 32:
//
//   row    = 64 m + 16 w + l div 4 + 8 (i div 2)
//   column = 8 g + 2 (l mod 4) + i mod 2
//   sums[sums_index, m, g, i] = sum over k = 0 .. terms-1 of a[a_index + row * a_pitch + k]
//                                                          * b[b_index + column * b_pitch + k]
//
// where row < rows and column < columns, else 0. `terms`, the pitches and the elements where tiles begin are multiples
// of kTileLanes: memory is read 16 bytes at a time. The evaluator rounds a sum once; hardware rounds it in ways of its
// own. All threads of the block come here, with equal expressions but for sums_index and thread.
struct TileProduct {
  BufferId sums, a, b;
  std::vector<IndexExpr> sums_index, a_index, b_index;
  IndexExpr a_pitch, b_pitch;
  IndexExpr rows, columns;  // from the beginning of the tile to the last row and column that there are
  IndexExpr terms;
  IndexExpr thread;
};
inline constexpr int kTileProductSm = 90;  // the only GPU architecture that has it
inline constexpr int64_t kTileThreads = 128, kTileLanes = 8;
inline constexpr int64_t kTileRows = 64, kTileColumns = 8, kMaxTileColumns = 256;  // rows, columns: of one step of m, g

// dst = the value of another thread of the warp: by_xor of the thread whose number differs by `lane` (in xor), by_index
// of the thread with the number `lane` in the warp. `mask` (u32) has a bit for every thread of the warp that takes
// part.
enum class ShuffleKind : uint8_t { by_xor, by_index };
struct Shuffle {
  RegId dst;
  ShuffleKind kind = ShuffleKind::by_xor;
  Operand value;
  IndexExpr lane;
  Operand mask = kAllThreads;
};

// dst (u32) = a bit for every thread of the warp where the condition holds; `mask` as for Shuffle.
struct Ballot {
  RegId dst;
  Guard condition;
  Operand mask = kAllThreads;
};

// A barrier: what threads of the warp, thread block or cluster stored to shared memory before it is visible to the
// others after it. place_syncs (compiler/lower/gpu) inserts it exactly where an element of a shared buffer passes from
// one thread to another. `mask` names the threads of the warp that come to a sync.warp.
//
// A cluster's barrier may be two statements, `arrive` and `wait`, with no access to shared memory between them: no
// thread passes the second one before all have passed the first.
//
// A sync.copies is none between threads: each thread waits for its own copies. Those since the last one are a group,
// and the `left` last groups may still be under way behind it.
enum class SyncScope : uint8_t { warp, block, copies, cluster, arrive, wait };
struct Sync {
  SyncScope scope = SyncScope::block;
  Operand mask = kAllThreads;
  int64_t left = 0;  // of a sync.copies
};

struct Stmt {
  std::variant<Loop, If, Choose, Alloc, Let, IndexValue, Load, Store, Prefetch, Reduce, Scan, TransposeTile, CopyAsync,
               Mma, TileProduct, Shuffle, Ballot, Sync>
      v;
};

struct RegInfo {
  DType dtype = DType::f32;
  int width = 1;
  bool operator==(const RegInfo&) const = default;
};

struct Kernel {
  std::string name = "kernel";
  IdVector<ExtentId, std::string> extents;  // the names of the int64 launch arguments, in order
  IdVector<VarId, std::string> vars;        // the names of loop variables
  IdVector<BufferId, Buffer> buffers;
  std::vector<BufferId> params;  // in and out buffers, in argument order
  IdVector<RegId, RegInfo> regs;
  std::map<ExtentId, int64_t> divisible;  // facts: extent % value == 0
  bool fits32 = false;                    // every address the kernel computes, in elements, is below 2^31
  // Pairs (in, out) of params that may be the same memory: every element is read only by the iteration that overwrites
  // it, before that write.
  std::vector<std::pair<BufferId, BufferId>> may_alias;
  Block body;
};

// Building.
BufferId add_buffer(Kernel& kernel, Buffer buffer);  // parameters are also appended to params
DType dtype_of(const Kernel& kernel, const Operand& operand);
bool is_lowered(const Kernel& kernel);
bool has_tile_product(const Block& block);
// The bytes of a copy that one thread may make in one instruction; 0: there is none.
int64_t copied_bytes(const Kernel& kernel, const CopyAsync& copy);
inline constexpr int kCopyAsyncSm = 80;  // the first GPU architecture that has it
// The last of grid loops that nest perfectly.
Loop& innermost_grid(Loop& outermost);
const Loop& innermost_grid(const Loop& outermost);
// Whether the statement or one inside of it loads from or stores to a scratch buffer.
bool touches_scratch(const Kernel& kernel, const Stmt& stmt);
bool may_alias(const Kernel& kernel, BufferId id);  // whether it may share memory with any other parameter
RegId add_reg(Kernel& kernel, DType dtype, int width = 1);
VarId add_var(Kernel& kernel);  // with a systematic name
inline std::string reg_name(RegId reg) { return systematic_name(reg); }
inline Operand float_constant(DType dtype, double value) { return Constant{dtype, value, 0}; }
inline Operand int_constant(DType dtype, int64_t value) { return Constant{dtype, 0, value}; }

// Whether the op can be decided on the bits of an f16 or bf16 operand, without a conversion to f32: max(x, +0), abs,
// neg.
bool on_half_bits(const Let& let);

// Visiting. `for_each_stmt` runs f on every statement, outer ones first.
void for_each_stmt(const Block& block, const std::function<void(const Stmt&)>& f);
void for_each_stmt(Block& block, const std::function<void(Stmt&)>& f);
// Every nested block of one statement.
std::vector<Block*> nested_blocks(Stmt& stmt);
std::vector<const Block*> nested_blocks(const Stmt& stmt);
// Calls f for every loop that a statement is or has; for a Reduce, for all of its loops.
void for_each_head(Stmt& stmt, const std::function<void(LoopHead&)>& f);
void for_each_head(const Stmt& stmt, const std::function<void(const LoopHead&)>& f);
// Calls f for every index expression in the statement itself (not in nested blocks): extents, indices, guards.
void for_each_index(Stmt& stmt, const std::function<void(IndexExpr&)>& f);
void for_each_index(const Stmt& stmt, const std::function<void(const IndexExpr&)>& f);
// Every operand that the statement itself uses; every register that it defines.
void for_each_operand(Stmt& stmt, const std::function<void(Operand&)>& f);
void for_each_operand(const Stmt& stmt, const std::function<void(const Operand&)>& f);
std::vector<RegId> defined(const Stmt& stmt);
// The number of lanes in the index expressions of the statement: the width of its result, of the operand of a store, or
// of the yield of a reduce; else 1.
int width_of(const Kernel& kernel, const Stmt& stmt);
int width_of(const Kernel& kernel, const Operand& operand);

// The ranges of the loop variables that enclose a point, for simplify and proves_nonneg.
IndexRanges compute_ranges(const std::vector<LoopHead>& loops);
// The same, with the range of kLane in a statement of that width.
IndexRanges compute_ranges(const std::vector<LoopHead>& loops, int width);
// A loop runs if `count` is at least 1. That is c for the extents max(0, c), min(1, c) and max(0, min(1, c)), else the
// extent itself.
struct LoopCount {
  IndexExpr count;
  bool at_most_once = false;  // by a min with 1
};
LoopCount find_loop_count(const IndexExpr& extent);
// `e` with every extent that the facts declare a multiple of c replaced by c times a symbol for the quotient, so that
// == and the prover can use the fact.
IndexExpr with_facts(const IndexExpr& e, const Kernel& kernel);

// The name of a symbol in the kernel's text, and the expression with these names.
std::string name_of(const Kernel& kernel, SymbolId symbol);
Dim named(const Kernel& kernel, const IndexExpr& e);

}  // namespace fusec::ir
