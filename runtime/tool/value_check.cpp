// SPDX-License-Identifier: Apache-2.0
// Finds the first NaN, infinity and subnormal number of a run, and tells whether it was given or made.

#include "runtime/tool/value_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/ops/element.h"
#include "runtime/tool/value_files.h"

namespace fusec::tool {
namespace {

constexpr int64_t kChunk = 4096;

const char* special_name(Special kind) {
  constexpr const char* kNames[] = {"nan", "inf", "denormal"};
  return kNames[static_cast<std::size_t>(kind)];
}

// Below this, numbers of the type are subnormal.
double smallest_normal(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return 0x1p-1022;
    case DType::f16:
      return 0x1p-14;
    default:
      return 0x1p-126;
  }
}

bool is_special(double x, Special kind, double smallest) {
  switch (kind) {
    case Special::nan:
      return std::isnan(x);
    case Special::inf:
      return std::isinf(x);
    case Special::denormal:
      break;
  }
  return x != 0 && std::abs(x) < smallest;
}

std::string weight_name(const ir::Graph& graph, ir::NodeId id) {
  if (const auto at = graph.weight_names.find(id); at != graph.weight_names.end()) return at->second;
  const ir::Node& node = graph.nodes[id];
  if (!node.origin.empty()) return node.origin;
  return fmt::format("%{}", std::find(graph.order.begin(), graph.order.end(), id) - graph.order.begin());
}

}  // namespace

std::vector<int64_t> index_of(int64_t element, const std::vector<int64_t>& shape) {
  std::vector<int64_t> index(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    index[axis] = element % shape[axis];
    element /= shape[axis];
  }
  return index;
}

std::string index_text(const std::vector<int64_t>& index) { return shape_text(index); }

std::optional<std::vector<int64_t>> find_special(const Tensor& tensor, Special kind) {
  if (!is_float(tensor.dtype())) return std::nullopt;
  const double smallest = smallest_normal(tensor.dtype());
  double chunk[kChunk];
  for (int64_t begin = 0; begin < tensor.num_elements(); begin += kChunk) {
    const int64_t count = std::min(kChunk, tensor.num_elements() - begin);
    ir::load_elements(tensor.dtype(), tensor.data(), begin, 1, count, chunk);
    for (int64_t i = 0; i < count; ++i)
      if (is_special(chunk[i], kind, smallest)) return index_of(begin + i, tensor.shape());
  }
  return std::nullopt;
}

SpecialsCheck::SpecialsCheck(const Model& model, const ValueRun& run, const std::vector<Tensor>& inputs, bool denormals)
    : run_(run), kinds_{Special::nan, Special::inf} {
  if (denormals) kinds_.push_back(Special::denormal);
  const ir::Graph& imported = *model.graph;
  for (const Special kind : kinds_) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (auto index = find_special(inputs[i], kind)) {
        given_.push_back({kind, "input", model.inputs[i].name, *std::move(index)});
        with_[kind].insert(run.graph().inputs[i]);
      }
    }
    for (const ir::NodeId id : imported.order) {
      const Tensor* data = imported.constant(imported.nodes[id].output);
      if (data == nullptr) continue;
      if (auto index = find_special(*data, kind))
        given_.push_back({kind, "weight", weight_name(imported, id), *std::move(index)});
    }
  }
}

bool SpecialsCheck::carries(ir::ValueId v, Special kind) const {
  if (const Tensor* data = run_.graph().constant(v)) return find_special(*data, kind).has_value();
  const auto at = with_.find(kind);
  return at != with_.end() && at->second.contains(v);
}

// What the region reads that has such elements. Small constants are part of its kernel, and no inputs of the region.
std::vector<std::string> SpecialsCheck::carriers_of(std::size_t region, Special kind) const {
  std::set<ir::ValueId> read(run_.region(region).inputs.begin(), run_.region(region).inputs.end());
  for (const ir::NodeId id : run_.region(region).nodes)
    for (const ir::ValueId v : run_.graph().nodes[id].inputs)
      if (run_.graph().is_constant(v)) read.insert(v);
  std::vector<std::string> names;
  for (const ir::ValueId v : read)
    if (carries(v, kind)) names.push_back(run_.name(v));
  return names;
}

void SpecialsCheck::add(const ValueInfo& info, const Tensor& value) {
  for (const Special kind : kinds_) {
    auto index = find_special(value, kind);
    if (!index) continue;
    if (!first_.contains(kind)) {
      first_.emplace(kind, First{info, *std::move(index), carriers_of(info.region, kind)});
    }
    with_[kind].insert(info.id);
  }
}

bool SpecialsCheck::ok() const { return !first_.contains(Special::nan) && !first_.contains(Special::inf); }

Json SpecialsCheck::json() const {
  Json given = Json::array(), first = Json::object();
  for (const Given& g : given_)
    given.push_back({{"kind", special_name(g.kind)}, {"where", g.where}, {"name", g.name}, {"index", g.index}});
  for (const Special kind : kinds_) {
    const auto at = first_.find(kind);
    if (at == first_.end()) {
      first[special_name(kind)] = nullptr;
      continue;
    }
    const First& f = at->second;
    first[special_name(kind)] = {
        {"value", f.info.name},  {"origin", f.info.origin}, {"op", f.info.op},  {"region", f.info.region},
        {"step", f.info.step},   {"kernel", f.info.kernel}, {"index", f.index}, {"made_here", f.carriers.empty()},
        {"carriers", f.carriers}};
  }
  return {{"ok", ok()}, {"given", given}, {"first", first}};
}

std::string SpecialsCheck::text() const {
  std::string out;
  for (const Given& g : given_)
    out += fmt::format("{}: given, in the {} '{}' at {}\n", special_name(g.kind), g.where, g.name, index_text(g.index));
  for (const Special kind : kinds_) {
    const auto at = first_.find(kind);
    if (at == first_.end()) {
      out += fmt::format("{}: no step makes one\n", special_name(kind));
      continue;
    }
    const First& f = at->second;
    out +=
        fmt::format("{}: first in the value '{}' at {}, step {}, by '{}' ({}), kernel {}; {}\n", special_name(kind),
                    f.info.name, index_text(f.index), f.info.step, f.info.origin, f.info.op, f.info.kernel,
                    f.carriers.empty() ? "what its region reads has none: it is made here"
                                       : fmt::format("its region reads some from '{}'", fmt::join(f.carriers, "', '")));
  }
  return out;
}

Result<ValueReport> run_values(const Loaded& loaded, const Options& options, const std::vector<Tensor>& inputs,
                               const ValueFlags& flags) {
  FUSEC_ASSIGN(const ValueRun run, ValueRun::make(loaded.model, options));
  std::optional<ValueFiles> files;
  if (!flags.dump_dir.empty()) {
    FUSEC_ASSIGN(files, ValueFiles::make(flags.dump_dir, flags.match));
  }
  std::optional<SpecialsCheck> check;
  if (flags.check) check.emplace(loaded.model, run, inputs, flags.denormals);
  ValueReport report;
  FUSEC_ASSIGN(report.outputs, run.run(inputs, [&](const ValueInfo& info, const Tensor& value) -> Status {
    if (check) check->add(info, value);
    return files ? files->add(info, value) : Status();
  }));
  report.json = {{"nodes", run.nodes()}, {"nodes_inside_regions", run.nodes_inside_regions()}};
  if (files) {
    FUSEC_TRY(files->finish(run, inputs, report.outputs));
    report.json["dir"] = flags.dump_dir;
    report.json["written"] = files->written();
    report.text = fmt::format("{} values in {}", files->written(), flags.dump_dir);
  }
  if (check) {
    report.json["check"] = check->json();
    report.text += (report.text.empty() ? "" : "\n") + check->text();
    report.ok = check->ok();
  }
  if (report.text.ends_with('\n')) report.text.pop_back();
  report.text +=
      fmt::format("\n{} of {} nodes are inside regions, so that their values are never stored{}",
                  run.nodes_inside_regions(), run.nodes(), options.fuse ? "; --no-fusion stores all but views" : "");
  return report;
}

}  // namespace fusec::tool
