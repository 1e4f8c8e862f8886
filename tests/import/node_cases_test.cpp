// SPDX-License-Identifier: Apache-2.0
// The node cases of ONNX's own suite (Debian: libonnx-testdata), imported and run by the evaluator. A case whose op is
// lacking counts as unsupported; no result may be wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/file.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/onnx/scalar.h"
#include "compiler/import/onnx/tensor_proto.h"
#include "ir/eval/graph.h"

namespace fusec::importer {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSuite = "/usr/share/libonnx-testdata/data";
constexpr int64_t kAnySize = int64_t{1} << 40;

// Cases that no implementation can be held to.
const std::map<std::string, std::string> kSkipped = {
    {"test_bernoulli", "random"},
    {"test_bernoulli_double", "random"},
    {"test_bernoulli_seed", "random"},
    {"test_bernoulli_expanded", "random"},
    {"test_bernoulli_double_expanded", "random"},
    {"test_bernoulli_seed_expanded", "random"},
    {"test_castlike_BFLOAT16_to_FLOAT", "the data of `like` has not the shape that the model declares"},
    {"test_castlike_BFLOAT16_to_FLOAT_expanded", "the same"},
    {"test_castlike_FLOAT_to_BFLOAT16", "the same"},
    {"test_castlike_FLOAT_to_BFLOAT16_expanded", "the same"},
};

// The window functions' outputs were computed with pi = 3.1415.
bool has_coarse_pi(const std::string& name) {
  return name.starts_with("test_blackmanwindow") || name.starts_with("test_hammingwindow") ||
         name.starts_with("test_hannwindow");
}

// This version of the suite stores bf16 as u16.
Tensor as_dtype(Tensor tensor, DType dtype) {
  if (tensor.dtype() != DType::u16 || dtype != DType::bf16) return tensor;
  auto owner = std::make_shared<Tensor>(std::move(tensor));
  return Tensor::share(DType::bf16, owner->shape(), owner->data(), owner);
}

Result<Tensor> read_pb(const fs::path& path) {
  try {
    FUSEC_ASSIGN(std::vector<uint8_t> bytes, read_file(path.string(), kAnySize));
    proto::TensorProto tensor;
    if (!tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
      return Status(StatusCode::unsupported, "no TensorProto");
    ImportOptions options;
    TensorSource source{&options, {}};
    return read_tensor(tensor, source);
  } catch (const ImportError& error) {
    return error.status;
  }
}

Result<std::vector<Tensor>> read_all(const fs::path& folder, const std::string& stem, std::size_t count) {
  std::vector<Tensor> tensors;
  for (std::size_t i = 0; i < count; ++i) {
    fs::path file = folder / (stem + "_" + std::to_string(i) + ".pb");
    if (!fs::exists(file)) return Status(StatusCode::unsupported, "no file " + file.string());
    FUSEC_ASSIGN(Tensor tensor, read_pb(file));
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// Empty when `got` is `want` within the rounding of a few operations.
std::string difference(const Tensor& got, const Tensor& want, double tolerance) {
  if (got.dtype() != want.dtype())
    return std::string("dtype ") + to_string(got.dtype()) + " for " + to_string(want.dtype());
  if (got.shape() != want.shape())
    return "shape " + to_string(Shape(got.shape().begin(), got.shape().end())) + " for " +
           to_string(Shape(want.shape().begin(), want.shape().end()));
  if (got.dtype() == DType::f16) tolerance = 2e-3;
  if (got.dtype() == DType::bf16) tolerance = 2e-2;
  for (int64_t i = 0; i < got.num_elements(); ++i) {
    double a = load_f64(got, i), b = load_f64(want, i);
    bool equal = a == b || (std::isnan(a) && std::isnan(b));
    if (!equal && is_float(got.dtype())) equal = std::fabs(a - b) <= tolerance * std::max(1.0, std::fabs(b));
    if (!equal) return "element " + std::to_string(i) + " is " + std::to_string(a) + " for " + std::to_string(b);
  }
  return "";
}

struct Outcome {
  enum Kind { passed, unsupported, wrong } kind = passed;
  std::string why;
};

Outcome compare_outputs(const ir::Graph& graph, std::vector<Tensor> inputs, const fs::path& folder, double tolerance) {
  auto want = read_all(folder, "output", graph.outputs.size());
  if (!want.ok()) return {Outcome::unsupported, want.status().str()};
  for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = as_dtype(inputs[i], graph.type(graph.inputs[i]).dtype);
  auto got = ir::evaluate(graph, inputs);
  if (!got.ok()) return {Outcome::wrong, got.status().str()};
  for (std::size_t i = 0; i < want->size(); ++i) {
    std::string d = difference((*got)[i], as_dtype((*want)[i], (*got)[i].dtype()), tolerance);
    if (!d.empty()) return {Outcome::wrong, "output " + std::to_string(i) + ": " + d};
  }
  return {};
}

// Integers and bools: what shapes, axes, counts and conditions are made of.
bool is_countable(const proto::ValueInfoProto& input) {
  int type = input.type().tensor_type().elem_type();
  return type == proto::TensorProto::INT64 || type == proto::TensorProto::INT32 || type == proto::TensorProto::BOOL;
}

// Runs with inputs turned into initializers from the case's own data, for ops that must know them at import.
Outcome run_baked(proto::ModelProto model, const fs::path& folder, bool all, double tolerance) {
  std::vector<Tensor> inputs;
  for (int i = 0; i < model.graph().input_size(); ++i) {
    const proto::ValueInfoProto& input = model.graph().input(i);
    fs::path file = folder / ("input_" + std::to_string(i) + ".pb");
    auto bytes = read_file(file.string(), kAnySize);
    proto::TensorProto tensor;
    bool is_tensor = input.type().has_tensor_type() && bytes.ok() &&
                     tensor.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()));
    if (!is_tensor) return {Outcome::unsupported, "an input that is no dense tensor"};
    tensor.set_name(input.name());
    if (all || is_countable(input)) {
      *model.mutable_graph()->add_initializer() = tensor;
      continue;
    }
    auto value = read_pb(file);
    if (!value.ok()) return {Outcome::unsupported, value.status().str()};
    inputs.push_back(std::move(*value));
  }
  auto graph = import_onnx(model);
  if (graph.ok()) return compare_outputs(*graph, std::move(inputs), folder, tolerance);
  return {graph.status().code() == StatusCode::unsupported ? Outcome::unsupported : Outcome::wrong,
          graph.status().str()};
}

Outcome run_case(const fs::path& folder) {
  auto bytes = read_file((folder / "model.onnx").string(), kAnySize);
  if (!bytes.ok()) return {Outcome::wrong, bytes.status().str()};
  proto::ModelProto model;
  if (!model.ParseFromArray(bytes->data(), static_cast<int>(bytes->size()))) return {Outcome::wrong, "unreadable"};
  double tolerance = has_coarse_pi(folder.filename().string()) ? 1e-4 : 1e-5;
  fs::path data = folder / "test_data_set_0";
  auto graph = import_onnx(*bytes);
  if (graph.ok()) {
    auto inputs = read_all(data, "input", graph->inputs.size());
    if (!inputs.ok()) return {Outcome::unsupported, inputs.status().str()};
    return compare_outputs(*graph, std::move(*inputs), data, tolerance);
  }
  if (graph.status().code() != StatusCode::unsupported) return {Outcome::wrong, graph.status().str()};
  Outcome baked = run_baked(model, data, false, tolerance);
  if (baked.kind == Outcome::unsupported) baked = run_baked(model, data, true, tolerance);
  return baked.kind == Outcome::unsupported ? Outcome{Outcome::unsupported, graph.status().str()} : baked;
}

std::vector<fs::path> cases(const std::string& group) {
  std::vector<fs::path> folders;
  fs::path root = fs::path(kSuite) / group;
  if (!fs::exists(root)) return folders;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (fs::exists(entry.path() / "model.onnx")) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

// The counts seen when a rule was last added: a case must not fall back to unsupported.
void run_group(const std::string& group, int least_passed) {
  std::vector<fs::path> folders = cases(group);
  if (folders.empty()) GTEST_SKIP() << "no " << kSuite << "/" << group;
  int passed = 0, unsupported = 0, wrong = 0;
  bool verbose = std::getenv("FUSEC_LIST_CASES") != nullptr;
  for (const fs::path& folder : folders) {
    if (kSkipped.count(folder.filename().string()) > 0) continue;
    Outcome outcome = run_case(folder);
    passed += outcome.kind == Outcome::passed;
    unsupported += outcome.kind == Outcome::unsupported;
    wrong += outcome.kind == Outcome::wrong;
    if (outcome.kind == Outcome::wrong) ADD_FAILURE() << folder.filename().string() << ": " << outcome.why;
    if (verbose && outcome.kind == Outcome::unsupported)
      std::printf("%s: %s\n", folder.filename().c_str(), outcome.why.c_str());
  }
  std::printf("%s: %d passed, %d unsupported, %d wrong, %zu skipped\n", group.c_str(), passed, unsupported, wrong,
              folders.size() - static_cast<std::size_t>(passed + unsupported + wrong));
  EXPECT_GE(passed, least_passed);
}

TEST(NodeCases, Node) { run_group("node", 719); }
TEST(NodeCases, PytorchConverted) { run_group("pytorch-converted", 2); }
TEST(NodeCases, Simple) { run_group("simple", 7); }

}  // namespace
}  // namespace fusec::importer
