// SPDX-License-Identifier: Apache-2.0
// Scheduling turns the semantic nest of a region into the loops of a target. There is one family of schedules per shape
// of work; facts about the nest choose the family. This header declares what host/ and cuda/ share.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/lower/nest/nest.h"
#include "fusec/target.h"

namespace fusec::compiler {

// Turns extents and strides into launch arguments, so that one kernel serves many shapes. Returns the value of
// each of Kernel::extents over the model's symbols.
std::vector<Dim> abstract_extents(LoopNest& nest);

// The values of the model's symbols, by name.
using SymbolBindings = std::map<std::string, int64_t>;
// For kernels of one set of shapes: numbers in the place of the symbols in a nest before abstract_extents,
void fix_symbols(LoopNest& nest, const SymbolBindings& values);
// in the place of those launch arguments that code depends on, in a kernel with a schedule, whose sums keep their
// order,
void fix_extents(ir::Kernel& kernel, std::vector<Dim>& launch, const SymbolBindings& values);
// and in what a kernel's parameters are.
void fix_params(std::vector<ParamSource>& params, const SymbolBindings& values);

// Splits pointwise loops whose variables indices divide by a number, so that these indices become sums of strides.
void split_loops(LoopNest& nest);
// Merges loops that together walk every buffer evenly, and orders pointwise loops by the strides of the first store.
void collapse(LoopNest& nest);

// Where a family decides between two ways: what it decided, or has to.
enum class Decision : uint8_t { open, yes, no };

// What a schedule may have otherwise than its family chooses: a parameter of 0 and an open decision are the family's.
// No choice changes the bits of a result, because the order of a sum is none of them.
struct ScheduleChoice {
  int threads = 0;                     // GPU: of a block
  int accesses = 0;                    // GPU: of a thread, in element-wise work
  int64_t task = 0;                    // CPU: elements of a task, in element-wise work
  int tile_rows = 0;                   // GPU: of a product's tile, or of a transpose's as it lies in the input
  int tile_columns = 0;                // GPU: the same, as it lies in the output
  int strip = 0;                       // GPU: accesses of a strip of columns
  Decision tiles = Decision::open;     // GPU: planes, or tiles of a transpose, in place of strided accesses
  Decision holds = Decision::open;     // GPU: rows stay in registers in place of being read again
  Decision clusters = Decision::open;  // GPU: the blocks of a cluster hold a row
  Decision slices = Decision::open;    // several blocks or tasks share a row
  Decision passes = Decision::open;    // GPU: the passes over long rows are tasks of one launch
  Decision streams = Decision::open;   // CPU: prefetches, and stores that bypass the caches
  bool operator==(const ScheduleChoice&) const = default;
};
// One line, such as "256 threads, read again": what the choice asks for.
std::string to_string(const ScheduleChoice& choice);
// The choices that differ in one point from `made`, which has what the families decided.
std::vector<ScheduleChoice> list_choices(const ScheduleChoice& made);

// Schedule each top-level nest by the family that suits it, for a target of the kind. `launch` is the result of
// abstract_extents. The answer has what the families decided by `choice` and by themselves, where it matters.
ScheduleChoice schedule_host(LoopNest& nest, const Target& target, const std::vector<Dim>& launch,
                             const ScheduleChoice& choice = {});
ScheduleChoice schedule_cuda(LoopNest& nest, const Target& target, const std::vector<Dim>& launch,
                             const ScheduleChoice& choice = {});

// The conditions on the model's symbols, each a Dim that is at least 0, under which 32 bits hold every index of a GPU's
// kernel whose arguments have these numbers of elements. Empty: for every shape; nullopt: for none.
std::optional<std::vector<Dim>> when_32_bits_suffice(const std::vector<Dim>& sizes);

// What makes the accesses of a GPU's kernel wide: extents along which the kernel reads or writes neighbouring elements
// and of which it is not known whether 16 bytes divide them.
struct Alignment {
  std::vector<Dim> extents;  // over symbols of the model
  int64_t elements = 1;      // of the widest type in 16 bytes
  std::set<size_t> params;   // that are accessed along them, by their positions
  // The conditions, each a Dim that is at least 0, under which `elements` divides all extents.
  std::vector<Dim> when() const;
};
// Of a nest before abstract_extents; without extents where nothing is to be gained.
Alignment find_alignment(const LoopNest& nest);
// How many elements a kernel's accesses to these parameters take at once.
struct AccessWidths {
  int narrowest = 0;  // the least of the parameters' widest accesses
  int lanes = 0;      // of all statements together
  auto operator<=>(const AccessWidths&) const = default;
};
AccessWidths measure_accesses(const ir::Kernel& kernel, const std::set<size_t>& params);
// Whether both kernels add alike, so that results have the same bits: false if that is not evident.
bool adds_alike(const ir::Kernel& a, const ir::Kernel& b);

// Runs after schedule_host, for launches that move more than the caches hold. It adds prefetches ahead of loads, and
// makes stores bypass the caches: those of results, which the model does not read again, and of values that no cache
// could keep. False: the launch moves less.
bool stream(LoopNest& nest, const Target& target, const std::vector<Dim>& launch,
            const std::function<bool(ir::ValueId)>& is_result);

// A perfect loop nest as its heads and its body, with at least one loop. peel_loops takes a nest apart; rebuild_loops
// puts it together.
struct PerfectNest {
  std::vector<ir::LoopHead> heads;  // outermost first
  ir::Block body;
};
PerfectNest peel_loops(ir::Stmt stmt);
ir::Stmt rebuild_loops(const std::vector<ir::LoopHead>& heads, ir::Block body);

// Orders the loops of a reduction by the strides of what it loads and merges them.
void order_by_memory(ir::Reduce& reduce, const ir::Kernel& kernel);
// The same for an element-wise nest and the strides of what it stores.
void order_by_memory(PerfectNest& elements, const ir::Kernel& kernel);

// The context of a schedule family. Each family takes one top-level nest of sequential loops and returns what replaces
// it.
struct Scheduling {
  ir::Kernel& kernel;
  const Target& target;
  const std::map<ir::SymbolId, int64_t>& expected_values;  // arguments that are constant in the model
  const ScheduleChoice& choice;
  ScheduleChoice& made;                            // what the families decide
  const std::map<ir::SymbolId, int64_t>& typical;  // arguments of a typical launch
  std::optional<bool> has_many;                    // as LoopNest has it
  std::vector<CountQuestion>& questions;           // that the families ask
  bool shares_launch = false;                      // whether blocks of other nests run in the same launch
  bool multiplies = false;                         // as LoopNest has it
  bool splits_sums = false;                        // the same
};
// The value of `count` if arguments that are constant or typical give it.
std::optional<int64_t> typical_value(const Scheduling& s, const IndexExpr& count);
// Whether there are at least `least` of what `count` counts. Where only a run knows, this is noted as a question, and
// the answer is LoopNest::has_many, else `otherwise`.
bool has_many(const Scheduling& s, const IndexExpr& count, int64_t least, bool otherwise);
// What the choice asks for, else what the family wants; noted in Scheduling::made.
bool decide(const Scheduling& s, Decision ScheduleChoice::*what, bool wanted);
int decide(const Scheduling& s, int ScheduleChoice::*what, int wanted);
std::map<ir::SymbolId, int64_t> find_expected_values(const std::vector<Dim>& launch);
std::map<ir::SymbolId, int64_t> find_typical_values(const std::vector<Dim>& launch, const SymbolBindings& symbols);
// The extent if it is constant or has an expected value, else `otherwise`.
int64_t known_extent(const Scheduling& s, const IndexExpr& extent, int64_t otherwise);

bool has_reduction(const ir::Block& block);
std::vector<ir::SymbolId> collect_vars(const std::vector<ir::LoopHead>& heads);
// The outer loop along which the reductions' loads are contiguous, if they are not contiguous along the reduced loop;
// none for rows.
std::optional<VarId> columns_along(const PerfectNest& nest);
// The scan that a nest consists of, if loads, stores and scalar ops are all it has; else null.
const ir::Scan* lone_scan(const PerfectNest& nest);
// The outer loop along which the results of a scan lie one after the other, if that is not the scanned one.
std::optional<size_t> scan_column(const PerfectNest& nest, const ir::Scan& scan);
// The loop along which some load is contiguous while it is strided along the innermost loop, both long enough for
// tiles.
std::optional<VarId> strided_across(const PerfectNest& nest);

}  // namespace fusec::compiler
