// SPDX-License-Identifier: Apache-2.0
// Runs one ONNX test case: imports its model, feeds the tensors of each data set, and compares the outputs. If import
// needs the contents of inputs, it is repeated with integers, then with all inputs, known at import. The tiers list the
// ONNX ops that their models may have.

#include "runtime/tool/measure/conformance.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <memory>
#include <string_view>

#include "compiler/import/onnx/file.h"
#include "compiler/import/onnx/import.h"
#include "fusec/onnx.h"
#include "fusec/session.h"
#include "ir/graph/graph.h"
#include "runtime/tool/io/tensor_file.h"
#include "runtime/tool/measure/compare.h"

namespace fusec::tool {
namespace {

namespace fs = std::filesystem;
using importer::ModelSummary;

constexpr double kHalfUlps = 2;

// One case: its model, and how it is run and judged.
struct Case {
  std::vector<uint8_t> bytes;
  ModelSummary summary;
  fs::path folder;
  const CaseOptions& options;
  double rtol, atol;
};

// ONNX 1.12 stores bf16 as u16.
Tensor as_dtype(Tensor tensor, std::optional<DType> dtype) {
  if (tensor.dtype() != DType::u16 || dtype != DType::bf16) return tensor;
  auto owner = std::make_shared<Tensor>(std::move(tensor));
  return Tensor::share(DType::bf16, owner->shape(), owner->data(), owner);
}

// The tensors STEM_0.pb, STEM_1.pb, ... of a data set.
Result<std::vector<Tensor>> read_all(const fs::path& set, const std::string& stem) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; fs::exists(set / fmt::format("{}_{}.pb", stem, i)); ++i) {
    FUSEC_ASSIGN(Tensor tensor, read_tensor_file((set / fmt::format("{}_{}.pb", stem, i)).string()));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

bool is_read(const ir::Graph& graph, ir::ValueId value) {
  if (std::count(graph.outputs.begin(), graph.outputs.end(), value) > 0) return true;
  return std::any_of(graph.order.begin(), graph.order.end(), [&](ir::NodeId id) {
    const auto& inputs = graph.nodes[id].inputs;
    return std::count(inputs.begin(), inputs.end(), value) > 0;
  });
}

// The data as the graph declares it. Some cases give a CastLike one element for a `like` of shape [3, 4]: where nothing
// reads the input, zeros of the declared shape serve as well.
Result<Tensor> as_declared(const ir::Graph& graph, ir::ValueId input, const Tensor& data) {
  const ir::Type& type = graph.type(input);
  const Shape given(data.shape().begin(), data.shape().end());
  const bool is_known = std::all_of(type.shape.begin(), type.shape.end(), [](const Dim& d) { return d.is_const(); });
  if (given == type.shape || !is_known || is_read(graph, input)) return as_dtype(data, type.dtype);
  std::vector<int64_t> extents;
  for (const Dim& d : type.shape) extents.push_back(d.value());
  FUSEC_ASSIGN(Tensor zeros, Tensor::make(type.dtype, extents));
  std::memset(zeros.data(), 0, zeros.bytes());
  return zeros;
}

Result<std::vector<Tensor>> run(const Model& model, const std::vector<Tensor>& inputs, const CaseOptions& options) {
  if (!options.compiled) return evaluate_model(model, inputs, false);
  FUSEC_ASSIGN(const Engine engine, Engine::compile(model, *options.compiled));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  return session.run(inputs);
}

CaseResult answer(CaseStatus status, std::string reason = {}) {
  CaseResult result;
  result.status = status;
  result.reason = std::move(reason);
  return result;
}

CaseResult compare_outputs(const Model& model, std::vector<Tensor> inputs, std::vector<Tensor> want, const Case& c) {
  if (inputs.size() != model.inputs.size()) {
    return answer(CaseStatus::wrong,
                  fmt::format("{} inputs are given, the model has {}", inputs.size(), model.inputs.size()));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Result<Tensor> declared = as_declared(*model.graph, model.graph->inputs[i], inputs[i]);
    if (!declared.ok()) return answer(CaseStatus::wrong, declared.status().str());
    inputs[i] = std::move(*declared);
  }
  const Result<std::vector<Tensor>> got = run(model, inputs, c.options);
  if (!got.ok()) return answer(CaseStatus::wrong, got.status().str());
  if (want.size() != got->size()) {
    return answer(CaseStatus::wrong, fmt::format("{} outputs are expected, there are {}", want.size(), got->size()));
  }
  CaseResult result = answer(CaseStatus::passed);
  for (std::size_t i = 0; i < want.size(); ++i) {
    const ElementDiff diff =
        compare_elements((*got)[i], as_dtype(want[i], (*got)[i].dtype()), c.rtol, c.atol, kHalfUlps);
    result.max_ulp = std::max(result.max_ulp, diff.max_ulp);
    if (diff.why.empty() || result.status == CaseStatus::wrong) continue;
    result.status = CaseStatus::wrong;
    result.reason = fmt::format("output '{}': {}", model.outputs[i].name, diff.why);
  }
  return result;
}

bool counts(const ModelSummary::Input& input) {
  return input.dtype == DType::i32 || input.dtype == DType::i64 || input.dtype == DType::bool_;
}

enum class Known { nothing, integers, everything };

// One data set, with so much of the inputs' contents known at import.
CaseResult run_set(const Case& c, const fs::path& set, Known known) {
  Result<std::vector<Tensor>> inputs = read_all(set, "input"), want = read_all(set, "output");
  ImportOptions import;
  import.model_dir = c.folder.string();
  std::vector<Tensor> fed;
  for (std::size_t i = 0; inputs.ok() && i < inputs->size(); ++i) {
    const bool is_declared = i < c.summary.inputs.size();
    const Tensor data = as_dtype((*inputs)[i], is_declared ? c.summary.inputs[i].dtype : std::nullopt);
    if (is_declared && (known == Known::everything || (known == Known::integers && counts(c.summary.inputs[i])))) {
      import.constants.emplace(c.summary.inputs[i].name, data);
    } else {
      fed.push_back(data);
    }
  }
  const Result<Model> model = load_onnx_bytes(c.bytes, import);
  if (!model.ok()) {
    const bool lacks = model.status().code() == StatusCode::unsupported;
    return answer(lacks ? CaseStatus::unsupported : CaseStatus::wrong, model.status().str());
  }
  if (!inputs.ok()) return answer(CaseStatus::wrong, inputs.status().str());
  if (!want.ok()) return answer(CaseStatus::wrong, want.status().str());
  CaseResult result = compare_outputs(*model, std::move(fed), std::move(*want), c);
  result.given_constants = known != Known::nothing;
  return result;
}

CaseResult run_set(const Case& c, const fs::path& set) {
  CaseResult first;
  for (const Known known : {Known::nothing, Known::integers, Known::everything}) {
    CaseResult result = run_set(c, set, known);
    if (result.status != CaseStatus::unsupported) return result;
    if (known == Known::nothing) first = std::move(result);
  }
  return first;
}

std::vector<fs::path> data_sets(const fs::path& folder) {
  std::vector<fs::path> sets;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set"))
      sets.push_back(entry.path());
  }
  std::sort(sets.begin(), sets.end());
  return sets;
}

// data.json of a case may hold its own tolerances.
void read_tolerances(Case& c) {
  std::ifstream in(c.folder / "data.json");
  const Json json = in ? Json::parse(in, nullptr, false) : Json();
  if (!json.is_object()) return;
  c.rtol = json.value("rtol", c.rtol);
  c.atol = json.value("atol", c.atol);
}

CaseResult run_sets(const Case& c) {
  const std::vector<fs::path> sets = data_sets(c.folder);
  if (sets.empty()) return answer(CaseStatus::wrong, "the case has no test_data_set");
  CaseResult all = answer(CaseStatus::passed);
  for (const fs::path& set : sets) {
    CaseResult one = run_set(c, set);
    all.max_ulp = std::max(all.max_ulp, one.max_ulp);
    all.given_constants |= one.given_constants;
    if (one.status == CaseStatus::passed) continue;
    all.status = one.status;
    all.reason = std::move(one.reason);
    break;
  }
  return all;
}

}  // namespace

const char* to_string(CaseStatus status) {
  constexpr const char* kNames[] = {"passed", "wrong", "unsupported"};
  return kNames[static_cast<std::size_t>(status)];
}

Json make_json(const CaseResult& r) {
  return {{"name", r.name},
          {"status", to_string(r.status)},
          {"reason", r.reason},
          {"max_ulp", r.max_ulp},
          {"tier", r.tier},
          {"op", r.op},
          {"given_constants", r.given_constants}};
}

CaseResult case_of_json(const Json& json) {
  CaseResult r;
  r.name = json.value("name", "");
  for (const CaseStatus s : {CaseStatus::passed, CaseStatus::unsupported}) {
    if (json.value("status", "") == to_string(s)) r.status = s;
  }
  r.reason = json.value("reason", "");
  r.max_ulp = json["max_ulp"].is_number() ? json["max_ulp"].get<double>() : std::numeric_limits<double>::infinity();
  r.tier = json.value("tier", "");
  r.op = json.value("op", "");
  r.given_constants = json.value("given_constants", false);
  return r;
}

Result<std::vector<fs::path>> find_cases(const fs::path& root) {
  std::error_code error;
  std::vector<fs::path> cases;
  if (fs::exists(root / "model.onnx")) cases.push_back(root);
  for (fs::recursive_directory_iterator it(root, error), end; !error && it != end; it.increment(error)) {
    if (it->is_directory() && fs::exists(it->path() / "model.onnx")) cases.push_back(it->path());
  }
  if (error) return Status(StatusCode::invalid_argument, fmt::format("'{}': {}", root.string(), error.message()));
  if (cases.empty()) {
    return Status(StatusCode::invalid_argument, fmt::format("'{}' holds no folder with a model.onnx", root.string()));
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

CaseResult run_case(const fs::path& folder, const CaseOptions& options) try {
  Result<std::vector<uint8_t>> bytes =
      importer::read_file((folder / "model.onnx").string(), ImportLimits().model_bytes);
  Result<ModelSummary> summary = bytes.ok() ? importer::summarize(*bytes) : Result<ModelSummary>(bytes.status());
  CaseResult result;
  if (summary.ok()) {
    Case c{std::move(*bytes), std::move(*summary), folder, options, options.rtol, options.atol};
    read_tolerances(c);
    result = run_sets(c);
    result.tier = find_tier(c.summary);
    if (c.summary.nodes == 1 && c.summary.ops.size() == 1) result.op = c.summary.ops[0];
  } else {
    result = answer(summary.status().code() == StatusCode::unsupported ? CaseStatus::unsupported : CaseStatus::wrong,
                    summary.status().str());
  }
  result.name = folder.filename().string();
  return result;
} catch (const std::exception& error) {
  CaseResult result = answer(CaseStatus::wrong, error.what());
  result.name = folder.filename().string();
  return result;
}

namespace {

struct Tier {
  std::string_view name, ops;  // ops: names with a space between
};

constexpr std::array<Tier, 5> kTiers = {{
    {"elementwise",
     "Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast "
     "CastLike Ceil Celu Clip Cos Cosh DequantizeLinear Div Dropout DynamicQuantizeLinear Elu Equal Erf Exp Floor "
     "Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Less LessOrEqual Log Max "
     "Mean Min Mish Mod Mul Neg Not Or PRelu Pow QuantizeLinear Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin "
     "Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor"},
    {"reduce",
     "ArgMax ArgMin BatchNormalization CumSum GroupNormalization Hardmax InstanceNormalization LRN "
     "LayerNormalization LogSoftmax LpNormalization MeanVarianceNormalization RMSNormalization ReduceL1 ReduceL2 "
     "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Softmax "
     "TopK"},
    {"move",
     "Concat Constant ConstantOfShape DepthToSpace Expand EyeLike Flatten Gather GatherElements GatherND OneHot "
     "Pad Range Reshape Resize ReverseSequence ScatterElements ScatterND Shape Size Slice SpaceToDepth Split "
     "Squeeze Tile Transpose Trilu Unsqueeze Upsample"},
    {"compute",
     "AveragePool Conv ConvInteger ConvTranspose Einsum Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool LpPool "
     "MatMul MatMulInteger MaxPool QLinearConv QLinearMatMul"},
    {"control", "If"},
}};

bool lists(std::string_view ops, std::string_view op) {
  for (std::size_t at = ops.find(op); at != std::string_view::npos; at = ops.find(op, at + 1)) {
    const bool begins = at == 0 || ops[at - 1] == ' ';
    if (begins && (at + op.size() == ops.size() || ops[at + op.size()] == ' ')) return true;
  }
  return false;
}

// kTiers.size() for an op that none lists.
std::size_t tier_index(std::string_view op) {
  std::size_t i = 0;
  while (i < kTiers.size() && !lists(kTiers[i].ops, op)) ++i;
  return i;
}

}  // namespace

std::string find_tier(const importer::ModelSummary& model) {
  if (!model.foreign_types.empty()) return "other";
  std::size_t last = 0;
  for (const std::string& op : model.ops) last = std::max(last, tier_index(op));
  return last < kTiers.size() ? std::string(kTiers[last].name) : "other";
}

std::string tiers_markdown() {
  std::string text = "| tier | ops |\n|---|---|\n";
  for (const Tier& tier : kTiers) {
    text += "| " + std::string(tier.name) + " | " + std::string(tier.ops) + " |\n";
  }
  return text;
}

}  // namespace fusec::tool
