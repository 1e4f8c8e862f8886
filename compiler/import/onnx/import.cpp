// SPDX-License-Identifier: Apache-2.0
// Runs the import stage: binds initializers and inputs, imports the nodes of an ONNX model in order by the handlers of
// ops.def, inlines functions and takes known If branches. Unsupported ops do not stop it; one error at the end names
// them all.

#include "compiler/import/onnx/import.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <new>
#include <unordered_map>
#include <utility>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/builder.h"
#include "compiler/import/onnx/custom_call.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/functions.h"
#include "compiler/import/onnx/ops.h"
#include "compiler/import/onnx/proto.h"
#include "compiler/import/onnx/scope.h"
#include "compiler/import/onnx/symbols.h"
#include "compiler/import/onnx/tensor.h"
#include "ir/support/check.h"

namespace fusec::importer {
namespace {

using proto::FunctionProto;
using proto::GraphProto;
using proto::ModelProto;
using proto::NodeProto;

constexpr std::size_t kMaxListedOps = 100;

class Importer {
 public:
  Importer(const ModelProto& model, const ImportOptions& options, const Assumptions& assumptions)
      : model_(model),
        options_(options),
        assumptions_(assumptions),
        b_(options),
        symbols_(options, assumptions),
        functions_(model) {
    source_.options = &options;
  }

  // `scope` is the scope of the main graph. Values bound in it stay available after an error.
  ir::Graph run(Scope& scope) {
    std::map<std::string, int64_t> opsets;
    const auto outputs = import_nodes(scope, opsets);
    if (!lacking_.empty()) report_lacking();
    return b_.finish(outputs);
  }

  // Imports what can be imported and tells of each node of the main graph whether it could.
  void check(Scope& scope, std::vector<NodeSupport>& support) {
    support_ = &support;
    std::map<std::string, int64_t> opsets;
    (void)import_nodes(scope, opsets);
  }

  // Adds what makes the extents equal. A dim_param that is an expression is taken for a name before a symbol is fixed
  // to a number for it: exporters write "past + 1" for what is past + new. False if nothing makes them equal.
  bool assume(const UnequalExtents& unequal, Assumptions& to) const {
    Assumptions more = to;
    const bool holds = assume_equal(unequal, b_.symbols(), more);
    const auto is_new_number = [&](const auto& equal) {
      return equal.second.is_const() && to.equals.count(equal.first) == 0;
    };
    if (!holds || std::any_of(more.equals.begin(), more.equals.end(), is_new_number)) {
      for (const Dim& extent : {unequal.first, unequal.second})
        if (const auto param = symbols_.find_expression(extent)) return to.names.insert(*param).second;
    }
    if (holds) to = std::move(more);
    return holds;
  }

  KnownValue known(Val v) const {
    const Tensor* data = b_.data(v);
    return {b_.type(v), data != nullptr ? std::optional(*data) : std::nullopt, b_.known_integers(v)};
  }

 private:
  // Answers the outputs. `opsets` is what scope.opsets points to.
  std::vector<std::pair<std::string, Val>> import_nodes(Scope& scope, std::map<std::string, int64_t>& opsets) {
    check_model();
    opsets = read_opsets(model_.opset_import());
    scope.opsets = &opsets;
    const GraphProto& graph = model_.graph();
    for (const auto* list : {&graph.value_info(), &graph.output()})
      for (const auto& value : *list) declared_.emplace(value.name(), &value);
    bind_initializers(graph, scope);
    bind_inputs(graph, scope);
    symbols_.check_overrides();
    ir::Limits limits = assumptions_.limits;
    symbols_.add_ranges(limits);
    b_.set_limits(std::move(limits));
    nodes(graph.node(), scope);
    return find_outputs(graph, scope);
  }

  void check_model() {
    if (!model_.has_graph()) fail_invalid("the model has no graph");
    if (model_.ir_version() < 1) fail_invalid(fmt::format("IR version {} does not exist", model_.ir_version()));
    if (model_.ir_version() < 3 || model_.ir_version() > proto::IR_VERSION) {
      fail_unsupported(
          fmt::format("IR version {}; fusec reads 3 to {}", model_.ir_version(), static_cast<int>(proto::IR_VERSION)));
    }
    for (const auto& entry : model_.metadata_props()) {
      if (entry.key() == "weights_recipe") source_.recipes = take(parse_recipes(entry.value()));
    }
  }

  void bind(Scope& scope, const std::string& name, Binding value) {
    check_name(name, options_.limits);
    if (name.empty()) fail_invalid("a value has no name");
    if (!scope.values.emplace(name, value).second)
      fail_invalid(fmt::format("two values have the name '{}'", short_name(name)));
  }

  void bind_initializers(const GraphProto& graph, Scope& scope) {
    if (graph.sparse_initializer_size() > 0) fail_unsupported("sparse initializers");
    const auto start = std::chrono::steady_clock::now();
    const bool is_main = scope.outer == nullptr;
    for (const auto& tensor : graph.initializer())
      bind(scope, tensor.name(), b_.constant(read_tensor(tensor, source_), is_main ? tensor.name() : ""));
    const std::chrono::duration<double, std::milli> passed = std::chrono::steady_clock::now() - start;
    if (options_.weights_ms != nullptr) *options_.weights_ms += passed.count();
  }

  ir::Type input_type(const proto::ValueInfoProto& input) {
    if (!input.type().has_tensor_type()) fail_unsupported("an input that is no dense tensor");
    const auto& type = input.type().tensor_type();
    if (!type.has_shape()) fail_unsupported("an input of unknown rank");
    return {to_dtype(type.elem_type()), symbols_.shape(input.name(), type.shape())};
  }

  const Tensor* contents_of(const std::string& input) const {
    const auto known = options_.constants.find(input);
    return known == options_.constants.end() ? nullptr : &known->second;
  }

  void bind_inputs(const GraphProto& graph, Scope& scope) {
    for (const auto& input : graph.input()) {
      if (scope.values.count(input.name()) == 0)
        symbols_.declare(input.type().tensor_type().shape(), contents_of(input.name()));
    }
    std::set<std::string> seen;
    for (const auto& input : graph.input()) {
      if (!seen.insert(input.name()).second)
        fail_invalid(fmt::format("two inputs have the name '{}'", short_name(input.name())));
      if (scope.values.count(input.name()) > 0) continue;  // its initializer is used instead
      within(fmt::format("in input '{}'", short_name(input.name())), [&] {
        ir::Type type = input_type(input);
        if (const Tensor* known = contents_of(input.name())) {
          return bind(scope, input.name(), known_input(type, *known));
        }
        b_.check_size(type);
        bind(scope, input.name(), b_.input(input.name(), std::move(type)));
      });
    }
    for (const auto& [name, data] : options_.constants) {
      if (seen.count(name) > 0) continue;
      throw ImportError{
          Status(StatusCode::invalid_argument, fmt::format("the model has no input '{}'", short_name(name)))};
    }
  }

  // Extents that are not numbers are left to the contents.
  Val known_input(const ir::Type& declared, const Tensor& data) {
    const ir::Type given{data.dtype(), ir::to_shape(data.shape())};
    const auto differs = [](const Dim& a, const Dim& b) { return b.is_const() && !(a == b); };
    const bool fits = given.dtype == declared.dtype &&
                      std::equal(given.shape.begin(), given.shape.end(), declared.shape.begin(), declared.shape.end(),
                                 [&](const Dim& a, const Dim& b) { return !differs(a, b); });
    if (fits) return b_.constant(data);
    throw ImportError{Status(StatusCode::invalid_argument, fmt::format("the contents given are {}, declared is {}",
                                                                       to_string(given), to_string(declared)))};
  }

  std::vector<std::pair<std::string, Val>> find_outputs(const GraphProto& graph, const Scope& scope) {
    if (graph.output_size() == 0) fail_invalid("the graph has no outputs");
    std::vector<std::pair<std::string, Val>> outputs;
    std::set<std::string> seen;
    for (const auto& output : graph.output()) {
      const Binding* value = scope.find(output.name());
      if (value == nullptr) fail_invalid(fmt::format("nothing produces the output '{}'", short_name(output.name())));
      if (!seen.insert(output.name()).second)
        fail_invalid(fmt::format("two outputs have the name '{}'", short_name(output.name())));
      if (!value->has_value()) continue;
      if (!(*value)->valid()) fail_invalid(fmt::format("nothing produces the output '{}'", short_name(output.name())));
      int declared = output.type().has_tensor_type() ? output.type().tensor_type().elem_type() : 0;
      if (declared != 0 && to_dtype(declared) != b_.dtype(**value)) {
        fail_invalid(fmt::format("output '{}' is declared {}, but is {}", short_name(output.name()),
                                 to_string(to_dtype(declared)), to_string(b_.dtype(**value))));
      }
      outputs.emplace_back(output.name(), **value);
    }
    return outputs;
  }

  // Runs `body` and adds `note` to the errors it throws.
  template <class Body>
  void within(const std::string& note, const Body& body) {
    try {
      body();
    } catch (ImportError& error) {
      // The two innermost places suffice; nested calls would add repetitive notes.
      if (error.status.notes().size() < 2) add_note(error, note);
      throw;
    } catch (const DimOverflow& error) {
      // No ONNX rule forbids such extents, for example in an empty tensor, so the model is not invalid.
      throw ImportError{Status(StatusCode::unsupported, error.what()).with_note(note)};
    }
  }

  void nodes(const auto& list, Scope& scope) {
    for (const NodeProto& node : list) {
      if (++node_count_ > options_.limits.nodes) {
        fail_limit(fmt::format("there are more nodes than the limit nodes = {}", options_.limits.nodes));
      }
      if (scope.attributes == nullptr) {
        import_node(node, scope);
        continue;
      }
      const NodeProto resolved = resolve_attributes(node, *scope.attributes);
      count_inlined(resolved);
      import_node(resolved, scope);
    }
  }

  // Each call copies the contents of its function, so a small file could demand very much memory.
  void count_inlined(const google::protobuf::Message& message) {
    inlined_bytes_ += static_cast<int64_t>(message.ByteSizeLong());
    if (inlined_bytes_ <= options_.limits.inlined_bytes) return;
    fail_limit(fmt::format("inlined functions take more bytes than the limit inlined_bytes = {}",
                           options_.limits.inlined_bytes));
  }

  std::string origin(const NodeProto& node, const Scope& scope) const {
    constexpr std::size_t kMaxPrefix = 200;
    std::string prefix = scope.prefix;
    if (prefix.size() > kMaxPrefix) prefix = "..." + prefix.substr(prefix.find('/', prefix.size() - kMaxPrefix) + 1);
    return prefix + node_label(node);
  }

  void import_node(const NodeProto& node, Scope& scope) {
    check_name(node.name(), options_.limits);
    check_name(node.op_type(), options_.limits);
    std::string where = origin(node, scope);
    if (!inside_one_op_) b_.begin_op(where);
    std::vector<Binding> results(static_cast<std::size_t>(node.output_size()));
    const std::size_t lacking_before = lacking_count_;
    try {
      within("while importing node '" + where + "'", [&] { results = import_results(node, scope, where); });
    } catch (const ImportError& error) {
      if (error.ends_import || error.status.code() != StatusCode::unsupported) throw;
      if (error.unequal && !assumptions_.is_complete) throw;  // import begins again with one more assumption
      lacking_now_ = error.status.message();
      if (++lacking_count_ > kMaxListedOps && support_ == nullptr) return bind_nothing(node, scope);
      if (lacking_.size() < kMaxListedOps)
        lacking_.push_back(fmt::format("{} (op '{}', domain '{}', opset {}, node '{}')", error.status.message(),
                                       short_name(node.op_type()), short_name(normalize_op_domain(node.domain())),
                                       opset_or_zero(node, scope), where));
    }
    const bool is_of_main_graph = scope.outer == nullptr && scope.attributes == nullptr;
    if (support_ != nullptr && is_of_main_graph) note_support(node, lacking_count_ > lacking_before, results);
    for (int i = 0; i < node.output_size(); ++i) {
      if (!node.output(i).empty()) bind(scope, node.output(i), results[static_cast<std::size_t>(i)]);
    }
  }

  // Adds the node to the answer of `check`. What it does not make becomes an input of the declared type.
  void note_support(const NodeProto& node, bool lacks, std::vector<Binding>& results) {
    NodeSupport& support = support_->emplace_back();
    support.node = !node.name().empty() || node.output_size() == 0 ? node.name() : node.output(0);
    support.op = node.op_type();
    support.domain = normalize_op_domain(node.domain());
    for (int i = 0; i < node.output_size(); ++i) {
      Binding& result = results[static_cast<std::size_t>(i)];
      if (node.output(i).empty() || result) continue;
      support.supported = false;
      result = declared_value(node.output(i));
    }
    support.supported = support.supported && !lacks;
    if (support.supported) return;
    support.reason = lacks ? lacking_now_
                           : "it reads what a node that is not supported makes, whose type the model does not declare";
  }

  Binding declared_value(const std::string& name) {
    const auto declared = declared_.find(name);
    if (declared == declared_.end()) return std::nullopt;
    try {
      ir::Type type = input_type(*declared->second);
      b_.check_size(type);
      return b_.input(name, std::move(type));
    } catch (const ImportError& error) {
      if (error.status.code() != StatusCode::unsupported) throw;
      return std::nullopt;  // no tensor, or of unknown rank
    }
  }

  void bind_nothing(const NodeProto& node, Scope& scope) {
    for (const std::string& name : node.output()) {
      if (!name.empty()) bind(scope, name, std::nullopt);
    }
  }

  static int64_t opset_or_zero(const NodeProto& node, const Scope& scope) {
    auto it = scope.opsets->find(normalize_op_domain(node.domain()));
    return it == scope.opsets->end() ? 0 : it->second;
  }

  // Returns nullopt when an input depends on an unsupported op.
  std::optional<std::vector<Val>> read_inputs(const NodeProto& node, const Scope& scope) {
    std::vector<Val> inputs;
    bool complete = true;
    for (const std::string& name : node.input()) {
      const Binding* value = name.empty() ? nullptr : scope.find(name);
      if (!name.empty() && value == nullptr) {
        fail_invalid(fmt::format("it reads '{}', which no earlier node produces", short_name(name)));
      }
      complete &= value == nullptr || value->has_value();
      inputs.push_back(value != nullptr && value->has_value() ? **value : Val());
    }
    return complete ? std::optional(inputs) : std::nullopt;
  }

  std::vector<Binding> import_results(const NodeProto& node, Scope& scope, const std::string& where) {
    std::optional<std::vector<Val>> inputs = read_inputs(node, scope);
    std::vector<Binding> nothing(static_cast<std::size_t>(node.output_size()));
    if (const FunctionProto* function = functions_.find(node))
      return inputs ? call(*function, node, AttributeMap(), *inputs, where) : nothing;
    std::string domain = normalize_op_domain(node.domain());
    if (std::ranges::count(options_.call_domains, domain) > 0)
      return inputs ? custom_call(node, domain, *inputs) : nothing;
    auto opset = scope.opsets->find(domain);
    if (opset == scope.opsets->end())
      fail_invalid(fmt::format("opset_import lacks the domain '{}'", short_name(domain)));
    const proto::OpSchema* schema = checked_schema(node, domain, opset->second);
    if (domain == "ai.onnx" && node.op_type() == "If") return inputs ? branch(node, *inputs, scope) : nothing;
    const OpRow* row = domain == "ai.onnx" ? find_onnx_op(node.op_type()) : nullptr;
    if (row != nullptr && knows_version(*row, schema->since_version())) {
      if (!inputs) return nothing;
      NodeContext context(b_, node, *row, opset->second, source_, *inputs);
      row->handler(context);
      return bindings(context);
    }
    if (!has_body(*schema)) fail_unsupported("no rule for it");
    return inputs ? expand(*schema, node, scope, *inputs, where) : nothing;
  }

  std::vector<Binding> custom_call(const NodeProto& node, const std::string& domain, const std::vector<Val>& inputs) {
    std::optional<ir::Type> type;
    if (const auto at = declared_.find(node.output_size() == 1 ? node.output(0) : ""); at != declared_.end())
      type = input_type(*at->second);
    return {import_custom_call(b_, node, domain, inputs, type)};
  }

  static std::vector<Binding> bindings(const NodeContext& context) {
    std::vector<Binding> results;
    for (std::size_t i = 0; i < context.outputs().size(); ++i) {
      Val value = context.outputs()[i];
      if (!value.valid() && context.wants(i)) fail_unsupported(fmt::format("its output {}", i));
      results.push_back(value.valid() ? Binding(value) : std::nullopt);
    }
    return results;
  }

  // Imports an op by the function body with which ONNX defines it. The op counts as one op.
  std::vector<Binding> expand(const proto::OpSchema& schema, const NodeProto& node, const Scope& scope,
                              const std::vector<Val>& inputs, const std::string& where) {
    std::vector<ir::Type> types;
    for (Val v : inputs) types.push_back(v.valid() ? b_.type(v) : ir::Type());
    SchemaFunction body = schema_function(schema, node, opset_or_zero(node, scope), inputs, types);
    import_default_domain(body.function, scope);
    bool outermost = !std::exchange(inside_one_op_, true);
    std::vector<Binding> results;
    try {
      results = call(body.function, node, body.defaults, inputs, where);
    } catch (...) {
      inside_one_op_ = !outermost;
      throw;
    }
    inside_one_op_ = !outermost;
    return results;
  }

  // Bodies that ONNX builds for ops of other domains do not state the opset of their own nodes. They get the model's.
  static void import_default_domain(FunctionProto& function, const Scope& scope) {
    for (const auto& entry : function.opset_import()) {
      if (normalize_op_domain(entry.domain()) == "ai.onnx") return;
    }
    auto known = scope.opsets->find("ai.onnx");
    function.add_opset_import()->set_version(known == scope.opsets->end() ? kMaxOpset : known->second);
  }

  std::vector<Binding> call(const FunctionProto& function, const NodeProto& node, AttributeMap attributes,
                            const std::vector<Val>& inputs, const std::string& where) {
    const ImportLimits& limits = options_.limits;
    if (++calls_ > limits.function_calls) {
      fail_limit(
          fmt::format("there are more function calls than the limit function_calls = {}", limits.function_calls));
    }
    if (static_cast<int>(inputs.size()) > function.input_size()) fail_invalid("a function call has too many inputs");
    if (node.output_size() > function.output_size()) fail_invalid("a function call has too many outputs");
    for (const auto& a : function.attribute_proto()) {
      count_inlined(a);
      attributes.emplace(a.name(), a);
    }
    for (const auto& a : node.attribute()) attributes.insert_or_assign(a.name(), a);
    Scope scope;
    std::map<std::string, int64_t> opsets = read_opsets(function.opset_import());
    scope.opsets = &opsets;
    scope.attributes = &attributes;
    scope.prefix = where + "/";
    for (int i = 0; i < function.input_size(); ++i) {
      bool given = static_cast<std::size_t>(i) < inputs.size() && inputs[static_cast<std::size_t>(i)].valid();
      // A parameter without an operand is bound to an invalid value.
      bind(scope, function.input(i), given ? inputs[static_cast<std::size_t>(i)] : Val());
    }
    Nesting nesting(*this);
    nodes(function.node(), scope);
    return named_results(function.output(), node, scope);
  }

  // A body need not define outputs that the node does not use.
  static std::vector<Binding> named_results(const auto& names, const NodeProto& node, const Scope& scope) {
    std::vector<Binding> results;
    for (int i = 0; i < node.output_size(); ++i) {
      const Binding* value = scope.find(names.Get(i));
      if (value == nullptr && !node.output(i).empty()) {
        fail_invalid(fmt::format("nothing produces '{}'", short_name(names.Get(i))));
      }
      results.push_back(value != nullptr ? *value : std::nullopt);
    }
    return results;
  }

  // Imports the branch that an If takes. Its condition must be known at import.
  std::vector<Binding> branch(const NodeProto& node, const std::vector<Val>& inputs, Scope& outer) {
    std::optional<std::vector<Dim>> known;
    if (inputs.size() == 1 && inputs[0].valid()) known = b_.known_integers(inputs[0]);
    if (!known || known->size() != 1 || !known->front().is_const())
      fail_unsupported("a condition that depends on data");
    const char* taken = known->front().is(0) ? "else_branch" : "then_branch";
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() != taken || !attribute.has_g()) continue;
      const GraphProto& graph = attribute.g();
      Scope scope;
      scope.outer = &outer;
      scope.opsets = outer.opsets;
      scope.attributes = outer.attributes;
      scope.prefix = outer.prefix;
      Nesting nesting(*this);
      bind_initializers(graph, scope);
      nodes(graph.node(), scope);
      if (graph.output_size() < node.output_size()) fail_invalid("a branch has too few outputs");
      std::vector<Binding> results;
      for (int i = 0; i < node.output_size(); ++i) {
        const Binding* value = scope.find(graph.output(i).name());
        if (value == nullptr) fail_invalid(fmt::format("nothing produces '{}'", short_name(graph.output(i).name())));
        results.push_back(*value);
      }
      return results;
    }
    fail_invalid(fmt::format("attribute '{}' is missing", taken));
  }

  struct Nesting {
    explicit Nesting(Importer& importer) : i(importer) {
      if (++i.depth_ > i.options_.limits.nesting) {
        --i.depth_;
        fail_limit(fmt::format("graphs and functions are nested deeper than the limit nesting = {}",
                               i.options_.limits.nesting));
      }
    }
    ~Nesting() { --i.depth_; }
    Importer& i;
  };

  [[noreturn]] void report_lacking() const {
    std::string message = fmt::format("the model needs what fusec lacks: {}", lacking_[0]);
    for (std::size_t i = 1; i < lacking_.size(); ++i) message += "; " + lacking_[i];
    if (lacking_count_ > lacking_.size()) message += fmt::format("; and {} more", lacking_count_ - lacking_.size());
    throw ImportError(Status(StatusCode::unsupported, message));
  }

  const ModelProto& model_;
  const ImportOptions& options_;
  const Assumptions& assumptions_;
  Builder b_;
  Symbols symbols_;
  Functions functions_;
  TensorSource source_;
  std::vector<std::string> lacking_;  // messages for the first kMaxListedOps unsupported nodes
  std::size_t lacking_count_ = 0;
  std::string lacking_now_;                      // what the last unsupported node lacks
  std::vector<NodeSupport>* support_ = nullptr;  // of `check`
  std::map<std::string, const proto::ValueInfoProto*> declared_;
  bool inside_one_op_ = false;
  int64_t node_count_ = 0, calls_ = 0, depth_ = 0, inlined_bytes_ = 0;
};

}  // namespace

namespace {

// Each import ends with an answer, or with extents that differ and have to be equal. That they are is then assumed, and
// import begins again, until nothing more can be assumed. run: of an Importer and the scope of the main graph.
template <class T, class Run>
Result<T> run_assuming(const ModelProto& model, const ImportOptions& options, Assumptions& assumptions,
                       const Run& run) {
  constexpr int kMaxAssumptions = 64;
  for (int made = 0;; ++made) {
    Importer importer(model, options, assumptions);
    try {
      Scope scope;
      return run(importer, scope);
    } catch (const ImportError& error) {
      if (!error.unequal || assumptions.is_complete) return error.status;
      assumptions.is_complete = made == kMaxAssumptions || !importer.assume(*error.unequal, assumptions);
    }
  }
}

Result<ir::Graph> import_assuming(const ModelProto& model, const ImportOptions& options, Assumptions& assumptions) {
  return run_assuming<ir::Graph>(model, options, assumptions,
                                 [](Importer& importer, Scope& scope) { return importer.run(scope); });
}

}  // namespace

Result<std::vector<NodeSupport>> check_nodes(std::span<const uint8_t> bytes, const ImportOptions& options) {
  try {
    FUSEC_ASSIGN(const ModelProto model, parse_model(bytes, options.limits));
    Assumptions assumptions;
    return run_assuming<std::vector<NodeSupport>>(model, options, assumptions, [](Importer& importer, Scope& scope) {
      std::vector<NodeSupport> support;
      importer.check(scope, support);
      return support;
    });
  } catch (const ImportError& error) {
    return error.status;
  } catch (...) {
    return status_of_import();
  }
}

Result<ir::Graph> import_onnx(const ModelProto& model, const ImportOptions& options) {
  try {
    Assumptions assumptions;
    return import_assuming(model, options, assumptions);
  } catch (const ImportError& error) {
    return error.status;
  } catch (...) {
    return status_of_import();
  }
}

KnownValues known_values(const ModelProto& model, const ImportOptions& options) {
  Scope scope;
  KnownValues values;
  try {
    Assumptions assumptions;
    (void)import_assuming(model, options, assumptions);
    assumptions.is_complete = true;
    Importer importer(model, options, assumptions);
    try {
      importer.run(scope);
    } catch (const std::exception&) {
    } catch (const ImportError&) {
    }
    for (const auto& [name, value] : scope.values) {
      if (value && value->valid()) values.emplace(name, importer.known(*value));
    }
  } catch (const std::exception&) {
  } catch (const ImportError&) {
  }
  return values;
}

Result<ir::Graph> import_onnx(std::span<const uint8_t> bytes, const ImportOptions& options) {
  try {
    FUSEC_ASSIGN(ModelProto model, parse_model(bytes, options.limits));
    return import_onnx(model, options);
  } catch (...) {
    return status_of_import();
  }
}

}  // namespace fusec::importer
