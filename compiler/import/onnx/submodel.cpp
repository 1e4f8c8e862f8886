// SPDX-License-Identifier: Apache-2.0
// Cuts an ONNX model down to chosen nodes and serializes the result for `fusec reduce`. It uses the import stage only
// to learn the types and contents of values.

#include <fmt/format.h>

#include <algorithm>

#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/file.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/onnx/proto.h"
#include "compiler/import/onnx/tensor.h"

namespace fusec::importer {

using Names = std::set<std::string>;

struct SubmodelExtractor::Impl {
  ImportOptions options;
  proto::ModelProto model;
  KnownValues values;
  std::map<std::string, const proto::TensorProto*> initializers;
  Names outputs;
  std::vector<std::string> symbols;
};

namespace {

// Adds the names that a node reads, including those read in its subgraphs. Names of values defined inside the subgraphs
// are among them.
void add_reads(const proto::NodeProto& node, Names& to) {
  for (const std::string& name : node.input()) to.insert(name);
  for (const auto& attribute : node.attribute()) {
    for (const proto::NodeProto& inner : attribute.g().node()) add_reads(inner, to);
    for (const auto& output : attribute.g().output()) to.insert(output.name());
  }
}

// The names that the kept nodes read and make.
struct Ends {
  Names read, made;
};

Ends find_ends(const proto::GraphProto& graph, const Submodel& cut) {
  Ends ends;
  for (int i = 0; i < graph.node_size(); ++i) {
    if (!cut.keep[static_cast<std::size_t>(i)]) continue;
    add_reads(graph.node(i), ends.read);
    for (const std::string& name : graph.node(i).output()) ends.made.insert(name);
  }
  ends.read.erase("");
  ends.made.erase("");
  return ends;
}

void set_type(proto::ValueInfoProto& info, const std::string& name, const ir::Type& type, const Submodel& cut) {
  info.set_name(name);
  auto* tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(from_dtype(type.dtype));
  auto* shape = tensor->mutable_shape();
  for (const Dim& d : type.shape) {
    if (const std::optional<int64_t> extent = d.eval(cut.symbols)) {
      shape->add_dim()->set_dim_value(*extent);
    } else {
      shape->add_dim()->set_dim_param(d.str());
    }
  }
}

void set_data(proto::TensorProto& to, const std::string& name, const Tensor& data) {
  to.set_name(name);
  to.set_data_type(from_dtype(data.dtype()));
  for (const int64_t extent : data.shape()) to.add_dims(extent);
  to.set_raw_data(data.data(), data.bytes());
}

// The contents of a value that is known at import, with the symbols of the cut replaced by numbers.
std::optional<Tensor> contents(const KnownValue& value, const Submodel& cut) {
  if (value.data || !value.integers) return value.data;
  std::vector<int64_t> elements, shape;
  for (const Dim& d : *value.integers) {
    const std::optional<int64_t> element = d.eval(cut.symbols);
    if (!element) return std::nullopt;
    elements.push_back(*element);
  }
  for (const Dim& d : value.type.shape) shape.push_back(d.value());
  return ints_tensor(value.type.dtype, shape, elements);
}

// External data that cannot be read stays a reference; commands can fill it from a seed.
void add_initializer(proto::GraphProto& graph, const proto::TensorProto& tensor, const ImportOptions& options) {
  proto::TensorProto& to = *graph.add_initializer();
  to = tensor;
  if (tensor.data_location() != proto::TensorProto::EXTERNAL) return;
  ImportOptions only_files = options;
  only_files.random_weights.reset();
  const TensorSource source{&only_files, {}};
  try {
    const Tensor data = read_tensor(tensor, source);
    to = {};
    set_data(to, tensor.name(), data);
  } catch (const ImportError&) {
  }
}

}  // namespace

Result<SubmodelExtractor> SubmodelExtractor::read(const std::string& path, const ImportOptions& options) try {
  auto impl = std::make_shared<Impl>();
  impl->options = options;
  if (impl->options.model_dir.empty()) impl->options.model_dir = get_parent_folder(path);
  FUSEC_ASSIGN(const std::vector<uint8_t> bytes, read_file(path, options.limits.model_bytes));
  FUSEC_ASSIGN(impl->model, parse_model(bytes, options.limits));
  impl->values = known_values(impl->model, impl->options);
  for (const auto& tensor : impl->model.graph().initializer()) impl->initializers.emplace(tensor.name(), &tensor);
  for (const auto& output : impl->model.graph().output()) impl->outputs.insert(output.name());
  Names symbols;
  for (const auto& [name, value] : impl->values) {
    for (const Dim& d : value.type.shape) {
      if (const auto symbol = d.as_symbol()) symbols.insert(*symbol);
    }
  }
  impl->symbols.assign(symbols.begin(), symbols.end());
  SubmodelExtractor cutter;
  cutter.impl_ = std::move(impl);
  return cutter;
} catch (const ImportError& error) {
  return error.status;
}

std::size_t SubmodelExtractor::num_nodes() const { return static_cast<std::size_t>(impl_->model.graph().node_size()); }
const std::vector<std::string>& SubmodelExtractor::symbols() const { return impl_->symbols; }

std::vector<std::string> SubmodelExtractor::initializers(const Submodel& cut) const {
  std::vector<std::string> names;
  for (const std::string& name : find_ends(impl_->model.graph(), cut).read) {
    if (impl_->initializers.count(name) > 0) names.push_back(name);
  }
  return names;
}

Result<std::string> SubmodelExtractor::cut(const Submodel& cut) const {
  const proto::GraphProto& from = impl_->model.graph();
  const Ends ends = find_ends(from, cut);
  if (ends.made.empty()) return Status(StatusCode::invalid_argument, "no node is left");
  proto::ModelProto model = impl_->model;
  proto::GraphProto& graph = *model.mutable_graph();
  graph.Clear();
  graph.set_name(from.name());
  for (int i = 0; i < from.node_size(); ++i) {
    if (cut.keep[static_cast<std::size_t>(i)]) *graph.add_node() = from.node(i);
  }
  for (const std::string& name : ends.read) {
    if (ends.made.count(name) > 0) continue;
    const auto tensor = impl_->initializers.find(name);
    const auto value = impl_->values.find(name);
    if (tensor != impl_->initializers.end() && cut.freed.count(name) == 0) {
      add_initializer(graph, *tensor->second, impl_->options);
    } else if (value == impl_->values.end()) {
      // The name may be a value defined inside a subgraph, which needs no input. If it is not, importing the result
      // fails.
      if (tensor != impl_->initializers.end())
        return Status(StatusCode::unsupported, fmt::format("'{}' has no known type", name));
    } else if (const auto data = contents(value->second, cut); data && cut.freed.count(name) == 0) {
      set_data(*graph.add_initializer(), name, *data);
    } else {
      set_type(*graph.add_input(), name, value->second.type, cut);
    }
  }
  for (const std::string& name : ends.made) {
    if (ends.read.count(name) > 0 && impl_->outputs.count(name) == 0) continue;
    const auto value = impl_->values.find(name);
    graph.add_output()->set_name(name);
    if (value != impl_->values.end())
      set_type(*graph.mutable_output(graph.output_size() - 1), name, value->second.type, cut);
  }
  std::string bytes;
  if (!model.SerializeToString(&bytes)) return Status(StatusCode::unsupported, "past 2 GiB a model cannot be written");
  return bytes;
}

}  // namespace fusec::importer
