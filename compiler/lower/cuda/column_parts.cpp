// SPDX-License-Identifier: Apache-2.0
// Lower for CUDA: schedules several phases down columns that are contiguous in memory, such as a normalization over
// rows. Each reduction is a launch that keeps its results, one for each column, in scratch memory; element-wise loops
// read them there. So threads share the work of a column where columns are too few to occupy the device.

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/cuda/row_parts.h"
#include "compiler/lower/rewrite/kernel_names.h"
#include "compiler/lower/rewrite/rewrite.h"

namespace fusec::compiler {

namespace {

// A thread alone reads a shorter column in less time than two launches take.
constexpr int64_t kLongColumn = 64;

// Whether a thread for each column would leave most of the device idle.
bool has_few_columns(const Scheduling& s, const PerfectNest& nest) {
  const auto columns = known_value(s, count_iterations(nest.heads));
  return !columns || 2 * *columns < int64_t{s.target.sm_count} * s.target.threads_per_sm;
}

bool is_long(const Scheduling& s, const RowPart& part) {
  const auto& reduce = std::get<ir::Reduce>(part.reductions[0].v);
  return known_value(s, count_iterations(reduce.loops)).value_or(kLongColumn) >= kLongColumn;
}

Block schedule_parts(const Scheduling& s, const std::vector<LoopHead>& heads, std::vector<RowPart> parts) {
  RowMemory memory(s.kernel, heads);
  Block grids, known;
  for (size_t i = 0; i < parts.size(); ++i) {
    RowPart& part = parts[i];
    if (part.loop) {
      append(grids, schedule_loop(s, heads, part, known));
      continue;
    }
    for (Block* block : {&part.before, &part.reductions, &part.after}) append(known, std::move(*block));
    if (i + 1 < parts.size() && parts[i + 1].loop) hoist_from_loop(parts[i + 1], known);
    Block body = std::move(known);
    known = memory.keep(body, find_reads_from(parts, i + 1));
    drop_unread(body, {});
    if (!body.empty()) append(grids, cuda_nest(s, {heads, clone(s.kernel, body)}));
  }
  Block result = memory.take_allocations();
  append(result, std::move(grids));
  return result;
}

}  // namespace

std::optional<Block> cuda_column_parts(const Scheduling& s, const PerfectNest& nest) {
  auto parts = take_apart(nest.body, false);
  if (!parts || parts->size() < 2 || !has_few_columns(s, nest)) return std::nullopt;
  for (RowPart& part : *parts) {
    if (part.reductions.empty()) continue;
    if (!is_long(s, part)) return std::nullopt;
    order_by_memory(std::get<ir::Reduce>(part.reductions[0].v), s.kernel);
  }
  return schedule_parts(s, nest.heads, std::move(*parts));
}

}  // namespace fusec::compiler
