// SPDX-License-Identifier: Apache-2.0
// Implements `fusec inspect`: compiles a model or loads a package, binds it for the given shapes, and shows launches,
// kernels and memory. A package without code for this machine is shown from its manifest alone.

#include <fmt/format.h>

#include "fusec/device.h"
#include "runtime/plan/state.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/steps.h"

namespace fusec::tool {
namespace {

struct Inspected {
  Symbols symbols;
  std::vector<TensorShape> inputs, outputs;
  PlanStats plan;
};

// Mistakes in the flags show before the model is compiled.
Status resolve_shapes(const Model& model, const ModelFlags& flags, Inspected& out) {
  FUSEC_ASSIGN(const Request request, parse_request(model, flags));
  FUSEC_ASSIGN(out.symbols, solve_symbols(model, request));
  FUSEC_ASSIGN(out.inputs, input_shapes(model, out.symbols));
  return {};
}

Status look(const Engine& engine, Inspected& out) {
  FUSEC_ASSIGN(out.outputs, engine.output_shapes(out.inputs));
  FUSEC_ASSIGN(out.plan, engine.plan(out.inputs));
  return {};
}

Json make_json(const PackageInfo& info) {
  Json sections = Json::array();
  for (const PackageSection& s : info.sections) {
    sections.push_back({{"name", s.name}, {"offset", s.offset}, {"bytes", s.bytes}, {"sha256", s.sha256}});
  }
  return {{"producer", info.producer},
          {"targets", info.targets},
          {"bytes", info.file_bytes},
          {"verify_ms", info.verify_ms},
          {"precision", info.precision ? to_string(*info.precision) : "f32"},
          {"sections", sections},
          {"signed_by", info.signed_by.empty() ? Json() : Json(info.signed_by)}};
}

// Of the symbols, and of sums of them, that have such a bound.
Json bounds_json(const Engine& engine, int64_t ExtentRange::*bound) {
  Json json = Json::object();
  for (const auto& [extent, range] : engine.state()->loaded->program.limits)
    if (range.*bound != ExtentRange().*bound) json[extent.str()] = range.*bound;
  return json;
}

Json report_json(const Engine& engine, const Inspected& seen, const ModelFlags& flags) {
  const EngineStats& stats = engine.stats();
  const Options& options = engine.state()->options;
  Json json = {{"device", to_string(engine.device())},
               {"target", engine.target().name},
               {"threads", engine.threads()},
               {"numerics", numerics_name(options.numerics)},
               {"tf32", options.tf32},
               {"batch_invariant", options.batch_invariant},
               {"symbols", seen.symbols},
               {"largest_symbols", bounds_json(engine, &ExtentRange::most)},
               {"smallest_symbols", bounds_json(engine, &ExtentRange::least)},
               {"ops", stats.imported_ops},
               {"launches", seen.plan.launches},
               {"generated", seen.plan.generated},
               {"library", seen.plan.library},
               {"once", seen.plan.once},
               {"specialized", seen.plan.specialized},
               {"distinct_kernels", stats.distinct_kernels},
               {"arena_bytes", seen.plan.arena_bytes},
               {"kept_bytes", seen.plan.kept_bytes},
               {"live_lower_bound_bytes", seen.plan.live_lower_bound_bytes},
               {"constant_bytes", stats.constant_bytes},
               {"code_bytes", stats.code_bytes},
               {"moved_bytes", seen.plan.moved_bytes},
               {"inputs", json_of_tensors(engine.inputs(), seen.inputs)},
               {"outputs", json_of_tensors(engine.outputs(), seen.outputs)}};
  if (flags.verbose) json["steps"] = steps_json(seen.plan);
  return json;
}

void print_tensors(const char* kind, const std::vector<TensorInfo>& infos, const std::vector<TensorShape>& shapes) {
  Table table({kind, "dtype", "declared", "here"});
  for (std::size_t i = 0; i < infos.size(); ++i) {
    table.row({infos[i].name, to_string(infos[i].dtype), to_string(infos[i].shape), shape_text(shapes[i])});
  }
  print_text(table.str());
}

void print_package(const PackageInfo& info) {
  print_text(fmt::format("package by {}, {}, every byte checked in {:.1f} ms", info.producer,
                         bytes_text(info.file_bytes), info.verify_ms));
  if (!info.signed_by.empty()) print_text("signed by the key " + info.signed_by);
  Table table({"section", "offset", "bytes", "sha256"});
  for (const PackageSection& s : info.sections) {
    table.row({s.name, std::to_string(s.offset), bytes_text(s.bytes), s.sha256.substr(0, 16) + "..."});
  }
  print_text(table.str());
}

void print_report(const Engine& engine, const Inspected& seen, const ModelFlags& flags) {
  const EngineStats& stats = engine.stats();
  const PlanStats& plan = seen.plan;
  Table table({"what", "value"});
  table.row({"device", runs_on(engine)});
  if (!seen.symbols.empty()) table.row({"symbols", symbols_text(seen.symbols, engine.state()->loaded->program.limits)});
  table.row({"ops", std::to_string(stats.imported_ops)});
  table.row({"launches", fmt::format("{} = {} generated + {} library", plan.launches, plan.generated, plan.library)});
  if (plan.once > 0)
    table.row({"once per plan", fmt::format("{} launches, {} kept", plan.once, bytes_text(plan.kept_bytes))});
  if (plan.specialized > 0)
    table.row({"specialised", fmt::format("{} launches, with kernels for these shapes alone", plan.specialized)});
  table.row({"kernels", fmt::format("{} distinct, {} of code", stats.distinct_kernels, bytes_text(stats.code_bytes))});
  table.row({"arena", fmt::format("{}, no plan can need less than {}", bytes_text(plan.arena_bytes),
                                  bytes_text(plan.live_lower_bound_bytes))});
  table.row({"constants", bytes_text(stats.constant_bytes)});
  table.row({"traffic", fmt::format("{} per run", bytes_text(plan.moved_bytes))});
  print_text(table.str());
  print_tensors("\ninput", engine.inputs(), seen.inputs);
  print_tensors("\noutput", engine.outputs(), seen.outputs);
  if (flags.verbose) print_text("\n" + steps_table(plan, false));
}

// A package is shown on machines that it has no code for, too.
void show_package_alone(const PackageInfo& info, const Status& why, const ModelFlags& flags) {
  if (flags.json) {
    print(Json{{"package", make_json(info)}, {"runs_here", false}, {"why", why.str()}});
  } else {
    print_package(info);
    print_text("\nnot for this machine: " + why.str());
  }
}

Result<bool> inspect(const Front& front, const ModelFlags& flags) {
  FUSEC_ASSIGN(const Options options, parse_options(flags));
  FUSEC_ASSIGN(const Loaded loaded, front.load(flags));
  Inspected seen;
  FUSEC_TRY(resolve_shapes(loaded.model, flags, seen));
  const Result<Engine> engine = make_engine(front, loaded, options, {});
  if (!engine.ok() && loaded.package && flags.device.empty() && flags.targets.empty()) {
    show_package_alone(loaded.package->info(), engine.status(), flags);
    return true;
  }
  FUSEC_TRY(engine.status());
  FUSEC_TRY(look(*engine, seen));
  if (flags.json) {
    Json json = report_json(*engine, seen, flags);
    if (loaded.package) json.update(Json{{"package", make_json(loaded.package->info())}, {"runs_here", true}});
    print(json);
  } else {
    if (loaded.package) print_package(loaded.package->info());
    print_report(*engine, seen, flags);
  }
  return true;
}

}  // namespace

Command inspect_command(const Front& front) {
  auto flags = std::make_shared<ModelFlags>();
  return {"inspect", "what a model compiles to: launches, kernels, memory",
          "  fusec inspect model.onnx --random-weights 1\n"
          "  fusec inspect model.onnx -v                      one row per launch\n"
          "  fusec inspect model.onnx --shape N=64 --json\n"
          "  fusec inspect model.fsc                          also the sections of a package",
          [flags](Flags& f) {
            declare_model(f, *flags);
            declare_package(f, *flags);
          },
          [front, flags] { return inspect(front, *flags); }};
}

}  // namespace fusec::tool
