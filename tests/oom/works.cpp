// SPDX-License-Identifier: Apache-2.0
#include "tests/oom/works.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "fusec/engine.h"
#include "fusec/graph_builder.h"
#include "fusec/jit.h"
#include "fusec/onnx.h"
#include "fusec/package.h"
#include "fusec/session.h"
#include "onnx/defs/parser.h"
#include "onnx/onnx_pb.h"

namespace fusec::oom_test {
namespace {

// Convolutions and a product for oneDNN, kernels of ours between them, transposes to sink, an op that onnx defines by a
// function.
constexpr const char* kNodes = R"({
  t = Transpose<perm = [0, 3, 1, 2]>(x)
  c1 = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(t, w1, b1)
  n1 = BatchNormalization(c1, scale, shift, mean, variance)
  r1 = Relu(n1)
  c2 = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(r1, w2)
  h = HardSwish(c2)
  a = Add(h, r1)
  m = MeanVarianceNormalization(a)
  p = GlobalAveragePool(m)
  f = Flatten(p)
  g = Gemm<transB = 1>(f, w3, b3)
  l = LayerNormalization(g, ls, lb)
  y = Softmax(l)
})";

struct Weight {
  const char* name;
  std::vector<int64_t> dims;
};

void write_model(const std::string& path, const std::string& batch) {
  const std::string text = "<ir_version: 8, opset_import: [\"\" : 17]>\nnet (float[" + batch +
                           ", 8, 8, 3] x) => (float[" + batch + ", 10] y)\n" + kNodes;
  fusec_onnx::ModelProto model;
  fusec_onnx::OnnxParser parser(text.c_str());
  if (auto status = parser.Parse(model); !status.IsOK()) {
    std::fprintf(stderr, "the model does not parse: %s\n", status.ErrorMessage().c_str());
    std::abort();
  }
  const std::vector<Weight> weights = {
      {"w1", {16, 3, 3, 3}},  {"b1", {16}},     {"scale", {16}}, {"shift", {16}}, {"mean", {16}}, {"variance", {16}},
      {"w2", {16, 16, 3, 3}}, {"w3", {10, 16}}, {"b3", {10}},    {"ls", {10}},    {"lb", {10}}};
  uint32_t state = 1;
  for (const Weight& weight : weights) {
    auto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(weight.name);
    tensor->set_data_type(fusec_onnx::TensorProto::FLOAT);
    int64_t elements = 1;
    for (int64_t d : weight.dims) {
      tensor->add_dims(d);
      elements *= d;
    }
    std::vector<float> values;
    for (int64_t i = 0; i < elements; ++i) {
      state = state * 1664525u + 1013904223u;
      values.push_back(0.25f + static_cast<float>(state >> 16) / 131072.0f);  // a variance must be positive
    }
    tensor->set_raw_data(values.data(), values.size() * sizeof(float));
  }
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
}

template <class T>
T must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "a preparation failed: %s\n", result.status().str().c_str());
  std::abort();
}

void must(const Status& status) {
  if (!status.ok()) must(Result<int>(status));
}

Options make_options(const std::string& folder, bool cached) {
  Options options;
  options.threads = 1;
  options.use_cache = cached;
  options.cache_dir = folder + "/cache";
  options.on_warning = [](const std::string&) {};
  return options;
}

Tensor input(int64_t batch) {
  Tensor x = must(Tensor::make(DType::f32, {batch, 8, 8, 3}));
  for (int64_t i = 0; i < x.num_elements(); ++i) x.as<float>()[i] = static_cast<float>(i % 17) * 0.125f - 1.0f;
  return x;
}

bool nothing_to_check() { return true; }

Work import_work(const std::string& name, const std::string& path, bool later) {
  return {name,
          [=] {
            if (later) must(load_onnx(path));
          },
          [=] { return load_onnx(path).status(); }, nothing_to_check};
}

// cached: all kernels are in the cache folder, and no Engine holds them.
Work compile_work(const std::string& name, const std::string& folder, bool cached) {
  const auto model = std::make_shared<Model>();
  const auto options = std::make_shared<Options>(make_options(folder, cached));
  return {name,
          [=] {
            *model = must(load_onnx(folder + "/fixed.onnx"));
            must(Engine::compile(*model, *options));
          },
          [=] { return Engine::compile(*model, *options).status(); }, nothing_to_check};
}

Work package_work(const std::string& folder) {
  const auto options = std::make_shared<Options>(make_options(folder, true));
  return {"package open + load", [] {},
          [=, path = folder + "/model.fsc"]() -> Status {
            FUSEC_ASSIGN(const Package package, Package::open(path));
            return Engine::load(package, *options).status();
          },
          nothing_to_check};
}

// What a Session needs, outside of any std::function, so that calls allocate nothing of their own.
struct Run {
  std::optional<Engine> engine;
  Tensor x;
  std::vector<float> expected, seen;

  Status once() {
    FUSEC_ASSIGN(Session session, Session::create(*engine));
    Tensor y;
    FUSEC_TRY(session.run({&x, 1}, {&y, 1}));
    std::memcpy(seen.data(), y.data(), seen.size() * sizeof(float));
    return {};
  }
};

// The batch is a symbol, so that a Session's first run binds: libraries make their primitives, weights are packed.
Work session_work(const std::string& folder) {
  const auto run = std::make_shared<Run>();
  const auto compile = [=] {
    return must(Engine::compile(must(load_onnx(folder + "/symbol.onnx")), make_options(folder, true)));
  };
  return {"session create + bind + run",
          [=] {
            run->x = input(3);
            run->seen.resize(30);
            run->engine = compile();
            must(run->once());
            run->expected = run->seen;
            run->engine = compile();  // one that has bound nothing
          },
          [=] { return run->once(); }, [=] { return run->seen == run->expected; }};
}

Work builder_work(const std::string& folder) {
  struct State {
    Options options;
    Tensor x;
  };
  const auto state = std::make_shared<State>();
  const auto call = [=]() -> Status {
    try {
      GraphBuilder b;
      const Var x = b.input("x", DType::f32, {Dim::symbol("n"), 64});
      const Var y = b.softmax(b.gelu(b.layer_norm(x * 2 + 1, 0.5, 0.25)), -1);
      for (Var gradient : b.gradients(y, {x}, y)) b.output("y", gradient);
      FUSEC_ASSIGN(const Model model, b.finish());
      FUSEC_ASSIGN(const JitFunction function, jit(model, state->options));
      Tensor result;
      return function({&state->x, 1}, {&result, 1});
    } catch (const std::bad_alloc&) {
      return Status::exhausted();  // names and shapes are made here, by the caller
    }
  };
  return {"graph builder + jit",
          [=] {
            state->options = make_options(folder, true);
            state->x = must(Tensor::make(DType::f32, {4, 64}));
            must(call());
          },
          call, nothing_to_check};
}

}  // namespace

void write_files(const std::string& folder) {
  write_model(folder + "/fixed.onnx", "2");
  write_model(folder + "/symbol.onnx", "N");
  const std::vector<std::string> targets = {"cpu:native"};
  must(write_package(must(load_onnx(folder + "/fixed.onnx")), targets, folder + "/model.fsc",
                     make_options(folder, true)));
}

std::vector<Work> works(const std::string& folder) {
  return {import_work("first import", folder + "/fixed.onnx", false),
          import_work("later import", folder + "/fixed.onnx", true),
          compile_work("compile, kernels cached", folder, true),
          compile_work("compile by LLVM", folder, false),
          package_work(folder),
          session_work(folder),
          builder_work(folder)};
}

}  // namespace fusec::oom_test
