// SPDX-License-Identifier: Apache-2.0
// Implements `fusec graph`: runs the stages up to partition and writes the regions and the edges between them as a
// Graphviz file.

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "runtime/tool/commands.h"
#include "runtime/tool/model_file.h"
#include "runtime/tool/process.h"

namespace fusec::tool {
namespace {

constexpr std::size_t kShownOps = 12;

struct GraphFlags : ModelFlags {
  std::string out = "model.dot";
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

Result<bool> graph(const GraphFlags& flags) {
  FUSEC_ASSIGN(const FrontEnd f, run_stages(flags, Stage::partition));
  const std::string text = Drawing(f).str();
  if (flags.out == "-") {
    print_text(text);
    return true;
  }
  const bool svg = flags.out.ends_with(".svg");
  if (!svg && !flags.out.ends_with(".dot")) {
    return Status(StatusCode::invalid_argument, fmt::format("-o {}: the name must end in .dot or .svg", flags.out));
  }
  const std::string dot_file = svg ? flags.out.substr(0, flags.out.size() - 4) + ".dot" : flags.out;
  FUSEC_TRY(write_text(dot_file, text));
  if (svg) FUSEC_TRY(draw(dot_file, flags.out));
  if (flags.json) {
    print(Json{{"file", flags.out}, {"regions", f.partition.regions.size()}});
  } else {
    print_text(fmt::format("{}: {} regions; green: generated, blue: library, grey: views", flags.out,
                           f.partition.regions.size()));
  }
  return true;
}

}  // namespace

Command graph_command() {
  auto flags = std::make_shared<GraphFlags>();
  return {
      "graph", "draw the partition, coloured by kind of step",
      "  fusec graph model.onnx --random-weights 1 -o model.svg      needs the program dot; model.dot is written too\n"
      "  fusec graph graph.fir -o -                                  DOT on stdout",
      [flags](Flags& f) {
        declare_model(f, *flags, kWeights | kCompiles);
        f.option("-o,--output", flags->out, "FILE.dot, FILE.svg or - (default model.dot)");
      },
      [flags] { return graph(*flags); }};
}

}  // namespace fusec::tool
