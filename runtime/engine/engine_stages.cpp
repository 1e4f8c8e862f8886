// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/engine_stages.h"

#include "compiler/lower/lower.h"
#include "compiler/select/select.h"
#include "ir/support/dump.h"
#include "ir/text/graph_text.h"
#include "ir/text/program_text.h"

namespace fusec::runtime {

Result<Stages> run_stages(const ir::Graph& imported, const Target& target, const Options& options, Stage last,
                          const ir::Deadline& deadline) {
  Stages s;
  s.graph = imported;
  FUSEC_TRY(ir::dump(options.dump_dir, "import.fir", [&] { return ir::print(s.graph); }));
  if (last == Stage::import) return s;
  FUSEC_TRY(timed_stage(s.times, "optimize", [&] {
    return compiler::optimize(s.graph, target, options, &s.passes, &s.weights_ms, deadline);
  }));
  s.times.back().ms -= s.weights_ms;
  FUSEC_TRY(ir::dump(options.dump_dir, "optimize.fir", [&] { return ir::print(s.graph); }));
  if (last == Stage::optimize) return s;
  FUSEC_TRY(deadline.check("partition"));
  FUSEC_ASSIGN(s.partition,
               timed_stage(s.times, "partition", [&] { return compiler::partition(s.graph, target, options); }));
  FUSEC_TRY(ir::dump(options.dump_dir, "partition.txt", [&] { return compiler::to_string(s.graph, s.partition); }));
  if (last == Stage::partition) return s;
  FUSEC_ASSIGN(s.program, timed_stage(s.times, "lower", [&] {
                 return compiler::lower(s.graph, s.partition, target, options, deadline);
               }));
  FUSEC_TRY(ir::dump(options.dump_dir, "lower.fir", [&] { return ir::print(s.program); }));
  if (last == Stage::lower) return s;
  FUSEC_TRY(timed_stage(s.times, "select", [&] { return compiler::select(s.program, target); }));
  FUSEC_TRY(ir::dump(options.dump_dir, "select.fir", [&] { return ir::print(s.program); }));
  return s;
}

}  // namespace fusec::runtime
