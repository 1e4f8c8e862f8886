// SPDX-License-Identifier: Apache-2.0
// Implements `fusec graph`: runs the stages up to partition and writes the regions and the edges between them as a
// Graphviz file, or, with what select picked, as an ONNX file for viewers.

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "runtime/tool/commands.h"
#include "runtime/tool/inputs.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/process.h"
#if FUSEC_WITH_ONNX
#include "runtime/tool/graph_onnx.h"
#endif

namespace fusec::tool {
namespace {

constexpr std::size_t kShownOps = 12;

struct GraphFlags : ModelFlags {
  std::string out, onnx, times;
  bool steps = false;
};

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

// Lines of one box; "\l" ends a line that is set flush left.
std::string box(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) {
    const std::string q = quoted(line);
    out += q.substr(1, q.size() - 2) + "\\l";
  }
  return "\"" + out + "\"";
}

class Drawing {
 public:
  explicit Drawing(const FrontEnd& f) : graph_(f.graph), partition_(f.partition) {}

  std::string str() {
    out_ = "digraph fusec {\n  rankdir=TB;\n  node [shape=box, style=filled, fontname=\"monospace\", fontsize=10];\n";
    for (const ir::ValueId v : graph_.inputs) terminal(v, graph_.values[v].name);
    regions();
    views();
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i) output(i);
    for (const auto& [from, to] : edges_) out_ += fmt::format("  {} -> {};\n", from, to);
    return out_ + "}\n";
  }

 private:
  void node(const std::string& id, const std::string& label, const char* color) {
    out_ += fmt::format("  {} [label={}, fillcolor=\"{}\"];\n", id, label, color);
  }

  void terminal(ir::ValueId v, const std::string& name) {
    const std::string id = fmt::format("v{}", v.index);
    node(id, quoted(name + ": " + to_string(graph_.type(v))), "#ffffff");
    made_by_[v] = id;
  }

  void regions() {
    for (std::size_t r = 0; r < partition_.regions.size(); ++r) {
      const compiler::Region& region = partition_.regions[r];
      const std::string id = fmt::format("r{}", r);
      const bool library = region.kind == compiler::RegionKind::anchor;
      std::vector<std::string> lines = {fmt::format("{} {}", library ? "library" : "generated", r)};
      for (const ir::NodeId n : region.nodes) {
        inside_.insert(n);
        if (lines.size() == kShownOps + 1) lines.push_back(fmt::format("and {} more", region.nodes.size() - kShownOps));
        if (lines.size() <= kShownOps) lines.push_back(std::string(graph_.nodes[n].op.name()));
      }
      node(id, box(lines), library ? "#a6cee3" : "#b2df8a");
      for (const ir::ValueId v : region.outputs) made_by_[v] = id;
    }
    for (std::size_t r = 0; r < partition_.regions.size(); ++r) {
      for (const ir::ValueId v : partition_.regions[r].inputs) edge(v, fmt::format("r{}", r));
    }
  }

  // Nodes outside of all regions move no data: they are how their readers see what lies before them.
  void views() {
    for (const ir::NodeId n : graph_.order) {
      const ir::Node& view = graph_.nodes[n];
      if (inside_.contains(n) || view.op == ir::TensorOp::constant) continue;
      const std::string id = fmt::format("n{}", n.index);
      node(id, quoted("view " + std::string(view.op.name())), "#dddddd");
      for (const ir::ValueId v : view.inputs) edge(v, id);
      if (!made_by_.contains(view.output)) made_by_[view.output] = id;
    }
  }

  void output(std::size_t i) {
    const std::string id = fmt::format("o{}", i);
    node(id, quoted(graph_.output_names[i] + ": " + to_string(graph_.type(graph_.outputs[i]))), "#ffffff");
    edge(graph_.outputs[i], id);
  }

  void edge(ir::ValueId v, const std::string& to) {
    if (const auto it = made_by_.find(v); it != made_by_.end()) edges_.insert({it->second, to});
  }

  const ir::Graph& graph_;
  const compiler::Partition& partition_;
  std::map<ir::ValueId, std::string> made_by_;
  std::set<ir::NodeId> inside_;
  std::set<std::pair<std::string, std::string>> edges_;
  std::string out_;
};

constexpr double kDotSeconds = 600;

Status write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  return out ? Status() : Status(StatusCode::invalid_argument, fmt::format("'{}' cannot be written", path));
}

Status draw(const std::string& dot_file, const std::string& svg) {
  const Result<Ended> dot = run_child({"dot", "-Tsvg", "-o" + svg, dot_file}, kDotSeconds);
  if (!dot.ok()) {
    return Status(StatusCode::device,
                  fmt::format("the program dot (package graphviz) cannot be started; '{}' holds the drawing "
                              "as text",
                              dot_file));
  }
  if (dot->code != 0) {
    return Status(StatusCode::device, fmt::format("dot failed on '{}': {}", dot_file, ended_text(dot->code)));
  }
  return {};
}

#if FUSEC_WITH_ONNX
Result<bool> graph_onnx(const GraphFlags& flags) {
  std::vector<StepTime> times;
  if (!flags.times.empty()) {
    FUSEC_ASSIGN(times, read_step_times(flags.times));
  }
  FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::select));
  FUSEC_ASSIGN(const Request request, parse_request(f.model, flags));
  FUSEC_ASSIGN(const Symbols symbols, solve_symbols(f.model, request));
  if (flags.steps) {
    FUSEC_ASSIGN(times, time_steps(f, request, symbols));
  }
  const exporter::Drawing drawing = draw_regions(f, symbols, times);
  FUSEC_TRY(write_text(flags.onnx, exporter::write_onnx(drawing)));
  if (flags.json) {
    print(Json{{"file", flags.onnx}, {"regions", f.partition.regions.size()}});
  } else {
    print_text(fmt::format("{}: {} regions, each a function; there are no weights in it, and it is for viewers alone",
                           flags.onnx, f.partition.regions.size()));
  }
  return true;
}
#else
Result<bool> graph_onnx(const GraphFlags&) { return Status(StatusCode::unsupported, "--onnx: this build has no ONNX"); }
#endif

// What one of the files takes and the other does not.
Status check_flags(const GraphFlags& flags) {
  if (!flags.onnx.empty() && !flags.out.empty())
    return Status(StatusCode::invalid_argument, "-o and --onnx name one file each: give one of them");
  if (flags.steps && !flags.times.empty())
    return Status(StatusCode::invalid_argument, "--steps measures the times that --times reads: give one of them");
  if (!flags.onnx.empty()) return {};
  for (const auto& [flag, given] : {std::pair{"--shape", !flags.shapes.empty()},
                                    {"--input", !flags.inputs.empty()},
                                    {"--times", !flags.times.empty()},
                                    {"--steps", flags.steps}})
    if (given) return Status(StatusCode::invalid_argument, fmt::format("{} is for --onnx FILE", flag));
  return {};
}

Result<bool> graph_dot(const GraphFlags& flags) {
  FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::partition));
  const std::string text = Drawing(f).str(), out = flags.out.empty() ? "model.dot" : flags.out;
  if (out == "-") {
    print_text(text);
    return true;
  }
  const bool svg = out.ends_with(".svg");
  if (!svg && !out.ends_with(".dot")) {
    return Status(StatusCode::invalid_argument, fmt::format("-o {}: the name must end in .dot or .svg", out));
  }
  const std::string dot_file = svg ? out.substr(0, out.size() - 4) + ".dot" : out;
  FUSEC_TRY(write_text(dot_file, text));
  if (svg) FUSEC_TRY(draw(dot_file, out));
  if (flags.json) {
    print(Json{{"file", out}, {"regions", f.partition.regions.size()}});
  } else {
    print_text(
        fmt::format("{}: {} regions; green: generated, blue: library, grey: views", out, f.partition.regions.size()));
  }
  return true;
}

Result<bool> graph(const GraphFlags& flags) {
  FUSEC_TRY(check_flags(flags));
  return flags.onnx.empty() ? graph_dot(flags) : graph_onnx(flags);
}

}  // namespace

Command graph_command() {
  auto flags = std::make_shared<GraphFlags>();
  return {
      "graph", "draw the partition, coloured by kind of step",
      "  fusec graph model.onnx --random-weights 1 -o model.svg      needs the program dot; model.dot is written too\n"
      "  fusec graph graph.fir -o -                                  DOT on stdout\n"
      "  fusec graph model.onnx --onnx drawn.onnx --times steps.json for Netron; the times are of bench --steps --json",
      [flags](Flags& f) {
        declare_model(f, *flags, kWeights | kCompiles | kShapes);
        f.option("--onnx", flags->onnx, "FILE: an ONNX file for viewers, with a function per region and no weights");
        f.flag("--steps", flags->steps, "of --onnx: runs the model and adds times and scores");
        f.option("--times", flags->times, "FILE: of --onnx, what bench --steps --json printed: times and scores");
        f.option("-o,--output", flags->out, "FILE.dot, FILE.svg or - (default model.dot)");
      },
      [flags] { return graph(*flags); }};
}

}  // namespace fusec::tool
