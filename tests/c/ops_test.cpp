// SPDX-License-Identifier: Apache-2.0
// Every op of fusec_builder_op: its values, its attributes, and that none of GraphBuilder's is missing.
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "tests/c/case.h"

namespace fusec::c_test {
namespace {

struct Arg {
  std::string shape;  // of the input or constant
  std::vector<float> values;
  bool index = false;  // it becomes an i64
};

struct OpCase {
  std::string op, attributes;
  std::vector<Arg> args;
  std::vector<int64_t> shape;  // of the result for n = 2
  std::vector<float> values;
};

std::vector<int64_t> extents_of(const std::string& shape) {
  std::vector<int64_t> extents;
  for (const Json& e : Json::parse(std::regex_replace(shape, std::regex("n"), "2")))
    extents.push_back(e.get<int64_t>());
  return extents;
}

// The first argument is an input, or where there is none "[n]" is one; the others are constants. The result is cast to
// f32, which is what the test compares.
std::vector<float> run(const OpCase& c) {
  auto b = make<fusec_builder>(fusec_builder_new);
  std::vector<fusec_value> values;
  std::vector<Arg> args = c.args;
  for (Arg& arg : args) {
    std::vector<int64_t> extents = extents_of(arg.shape);
    const fusec_tensor data = floats(arg.values.data(), extents);
    values.push_back(-1);
    EXPECT_OK(values.size() == 1 ? fusec_builder_input(b.get(), "x", "f32", arg.shape.c_str(), &values.back())
                                 : fusec_builder_constant(b.get(), &data, &values.back()));
    if (arg.index) {
      EXPECT_OK(fusec_builder_op(b.get(), "cast", &values.back(), 1, "to=i64", &values.back()));
    }
  }
  if (args.empty()) {
    fusec_value unused = -1;
    args.push_back({"[n]", {0, 0}});
    EXPECT_OK(fusec_builder_input(b.get(), "x", "f32", "[n]", &unused));
  }
  fusec_value y = -1;
  EXPECT_OK(fusec_builder_op(b.get(), c.op.c_str(), values.data(), values.size(), c.attributes.c_str(), &y));
  EXPECT_OK(fusec_builder_op(b.get(), "cast", &y, 1, "to=f32", &y));
  EXPECT_OK(fusec_builder_output(b.get(), "y", y));
  const auto options = quiet_options();
  const auto model = make<fusec_model>(fusec_builder_finish, b.get());
  const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
  const auto session = make<fusec_session>(fusec_session_new, engine.get());
  if (session == nullptr) return {};
  const std::vector<int64_t> in = extents_of(args[0].shape);
  std::vector<int64_t> out(c.shape.size(), -1);
  EXPECT_OK(fusec_session_output_shapes(session.get(), in.data(), out.data()));
  EXPECT_EQ(out, c.shape);
  std::vector<float> result(c.values.size());
  void* inputs[] = {args[0].values.data()};
  void* outputs[] = {result.data()};
  EXPECT_OK(fusec_session_run_raw(session.get(), in.data(), inputs, outputs, nullptr));
  return result;
}

const Arg kFour{"[n, 2]", {1, 2, 3, 4}};
const Arg kLine{"[1, 1, 4]", {1, 2, 3, 4}};

const OpCase kCases[] = {
    {"fma", "", {{"[2]", {1, 2}}, {"[2]", {3, 4}}, {"[2]", {5, 6}}}, {2}, {8, 14}},
    {"cast", "to=i32", {{"[n]", {1.7F, -2.5F}}}, {2}, {1, -2}},
    {"iota", "dtype=i64 shape=[2, 3] axis=-1", {}, {2, 3}, {0, 1, 2, 0, 1, 2}},
    {"dim", "value=n*2+1", {}, {}, {5}},
    {"dim", "value=(n * 2 + 1) dtype=i32", {}, {}, {5}},
    {"broadcast", "shape=[3, n]", {{"[n]", {1, 2}}}, {3, 2}, {1, 2, 1, 2, 1, 2}},
    {"reshape", "shape=[2*n]", {kFour}, {4}, {1, 2, 3, 4}},
    {"transpose", "perm=[1, 0]", {kFour}, {2, 2}, {1, 3, 2, 4}},
    {"slice", "starts=[1] sizes=[2] steps=[2]", {{"[5]", {0, 1, 2, 3, 4}}}, {2}, {1, 3}},
    {"slice", "starts=[n-1] sizes=[1]", {{"[n]", {1, 2}}}, {1}, {2}},
    {"concat", "axis=0", {{"[n]", {1, 2}}, {"[1]", {3}}}, {3}, {1, 2, 3}},
    {"pad", "before=[1] after=[2]", {{"[1]", {1}}, {"[]", {9}}}, {4}, {9, 1, 9, 9}},
    {"pad", "before=[1] after=[0]", {{"[1]", {1}}}, {2}, {0, 1}},
    {"pad_mode", "before=[1] after=[1] mode=edge", {{"[n]", {1, 2}}}, {4}, {1, 1, 2, 2}},
    {"gather", "axis=1", {kFour, {"[1]", {1}, true}}, {2, 1}, {2, 4}},
    {"gather_elements", "axis=1", {{"[2, 2]", {1, 2, 3, 4}}, {"[2, 1]", {1, 0}, true}}, {2, 1}, {2, 3}},
    {"gather_nd", "batch_dims=1", {{"[2, 2]", {1, 2, 3, 4}}, {"[2, 1]", {1, 0}, true}}, {2}, {2, 3}},
    {"topk", "k=2 axis=0 largest=false", {{"[3]", {3, 1, 2}}}, {2}, {1, 2}},
    {"topk", "k=2", {{"[3]", {3, 1, 2}}}, {2}, {0, 2}},
    {"scatter_elements",
     "axis=0 reduction=add",
     {{"[3]", {1, 2, 3}}, {"[2]", {0, 0}, true}, {"[2]", {10, 20}}},
     {3},
     {31, 2, 3}},
    {"scatter_nd", "reduction=max", {{"[3]", {1, 2, 3}}, {"[2, 1]", {1, 1}, true}, {"[2]", {5, 4}}}, {3}, {1, 5, 3}},
    {"reduce_sum", "axes=[1] keep=true", {kFour}, {2, 1}, {3, 7}},
    {"reduce_prod", "axes=[1]", {kFour}, {2}, {2, 12}},
    {"reduce_max", "axes=[-1]", {kFour}, {2}, {2, 4}},
    {"reduce_min", "axes=[0]", {kFour}, {2}, {1, 2}},
    {"reduce_mean", "axes=[0, 1]", {kFour}, {}, {2.5F}},
    {"argmax", "axis=0 last=true", {{"[3]", {2, 2, 1}}}, {}, {1}},
    {"argmin", "axis=0", {{"[3]", {1, 0, 0}}}, {}, {1}},
    {"cumsum", "axis=0 exclusive=true", {{"[3]", {1, 2, 3}}}, {3}, {0, 1, 3}},
    {"cumsum", "axis=0 reverse=1", {{"[3]", {1, 2, 3}}}, {3}, {6, 5, 3}},
    {"matmul", "transpose_b=true", {{"[1, 2]", {1, 1}}, {"[2, 2]", {1, 2, 3, 4}}}, {1, 2}, {3, 7}},
    {"matmul", "transpose_a=true", {{"[2, 1]", {1, 2}}, {"[2, 2]", {1, 2, 3, 4}}}, {1, 2}, {7, 10}},
    {"conv", "strides=[2] pads=[1, 0]", {kLine, {"[1, 1, 2]", {1, 10}}}, {1, 1, 2}, {10, 32}},
    {"conv", "dilations=[2]", {kLine, {"[1, 1, 2]", {1, 10}}, {"[1]", {100}}}, {1, 1, 2}, {131, 142}},
    {"conv", "channels_last=true groups=2", {{"[1, 1, 2]", {1, 2}}, {"[2, 1, 1]", {3, 4}}}, {1, 1, 2}, {3, 8}},
    {"max_pool", "kernel=[2] strides=[2]", {kLine}, {1, 1, 2}, {2, 4}},
    {"max_pool", "kernel=[2] strides=[2] ceil_mode=true", {{"[1, 1, 3]", {1, 2, 3}}}, {1, 1, 2}, {2, 3}},
    {"avg_pool",
     "kernel=[2] strides=[2] pads=[1, 0] count_include_pad=true",
     {{"[1, 1, 3]", {2, 4, 6}}},
     {1, 1, 2},
     {1, 5}},
    {"avg_pool", "kernel=[2] strides=[2] pads=[1, 0]", {{"[1, 1, 3]", {2, 4, 6}}}, {1, 1, 2}, {2, 5}},
    {"attention",
     "scale=0",
     {{"[1, 1, 1, 1]", {1}}, {"[1, 1, 2, 1]", {1, 2}}, {"[1, 1, 2, 1]", {2, 4}}},
     {1, 1, 1, 1},
     {3}},
    {"attention",
     "scale=1e-30",
     {{"[1, 1, 1, 1]", {1}}, {"[1, 1, 2, 1]", {1, 2}}, {"[1, 1, 2, 1]", {2, 4}}, {"[1, 2]", {0, -1e9F}}},
     {1, 1, 1, 1},
     {2}},
    {"softmax", "axis=0", {{"[n]", {1, 1}}}, {2}, {0.5F, 0.5F}},
    {"log_softmax", "axis=-1", {{"[n]", {1, 1}}}, {2}, {-0.6931472F, -0.6931472F}},
    {"layer_norm", "eps=3", {{"[1, 2]", {1, 3}}, {"[2]", {1, 1}}, {"[2]", {1, 2}}}, {1, 2}, {0.5F, 2.5F}},
    {"rms_norm", "eps=3.0", {{"[1, 2]", {1, 1}}, {"[2]", {2, 4}}}, {1, 2}, {1, 2}},
    {"linear", "", {{"[1, 2]", {1, 2}}, {"[2, 2]", {1, 0, 0, 1}}, {"[2]", {1, 1}}}, {1, 2}, {2, 3}},
};

TEST(BuilderOps, have_the_values_of_their_definition) {
  for (const OpCase& c : kCases) {
    const std::vector<float> got = run(c);
    ASSERT_EQ(got.size(), c.values.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], c.values[i], 1e-5) << c.op << " " << c.attributes;
  }
}

std::set<std::string> listed_ops(bool scalar) {
  std::set<std::string> names;
  for (const Json& op : read_json(fusec_builder_ops_json)) {
    const bool is_scalar = op["attributes"].empty() && op["op"] != "linear";
    if (is_scalar == scalar) names.insert(op["op"].get<std::string>());
  }
  return names;
}

TEST(BuilderOps, are_all_tested_but_the_scalar_ones) {
  std::set<std::string> tested;
  for (const OpCase& c : kCases) tested.insert(c.op);
  tested.insert("custom_call");  // tests/c/host_test.cpp
  for (const std::string& op : listed_ops(false)) EXPECT_TRUE(tested.contains(op)) << op;
}

// Those whose names GraphBuilder has as methods that answer a Var.
TEST(BuilderOps, are_all_that_GraphBuilder_has) {
  std::ifstream in(FUSEC_SOURCE_DIR "/include/fusec/graph_builder.h");
  const std::string header{std::istreambuf_iterator<char>(in), {}};
  std::set<std::string> methods;
  const std::regex method("\n  Var (\\w+)\\(");
  for (std::sregex_iterator i(header.begin(), header.end(), method), end; i != end; ++i) methods.insert((*i)[1]);
  for (const char* other : {"input", "constant", "weight", "apply"}) EXPECT_EQ(methods.erase(other), 1u);
  EXPECT_GT(methods.size(), 90u);
  std::set<std::string> ops = listed_ops(false);
  ops.merge(listed_ops(true));
  EXPECT_EQ(ops, methods);
}

TEST(BuilderOps, refuse_wrong_attributes_and_arguments) {
  auto b = make<fusec_builder>(fusec_builder_new);
  fusec_value x = -1, y = -1;
  ASSERT_OK(fusec_builder_input(b.get(), "x", "f32", "[n, 4]", &x));
  const fusec_value two[] = {x, x};
  for (const auto& [op, attributes, says] :
       {std::tuple{"softmax", "", "softmax needs the attribute 'axis', of kind integer"},
        {"softmax", "axis", "softmax: 'axis' is not name=value"},
        {"softmax", "axis = 1", "softmax: 'axis' is not name=value"},
        {"softmax", "axis=one", "softmax: attribute 'axis' takes integer (one): 'one' is no integer"},
        {"softmax", "axis=1.5", "'1.5' is no integer"},
        {"softmax", "axis=99999999999999999999", "is no integer"},
        {"softmax", "axis=1 axis=1", "attribute 'axis' is given twice"},
        {"softmax", "axis=1 keep=1", "softmax has no attribute 'keep'; it has axis:integer"},
        {"relu", "axis=1", "relu has no attribute 'axis'; it has none"},
        {"reduce_sum", "axes=1", "it is no list in brackets"},
        {"reduce_sum", "axes=[0,", "the brackets of 'axes' do not match"},
        {"reduce_sum", "axes=[0,]", "a member of the list is empty"},
        {"reduce_sum", "axes=[0] keep=yes", "'yes' is not one of true, false, 1, 0"},
        {"reshape", "shape=[n*]", "reshape: attribute 'shape' takes extents ([n*])"},
        {"reshape", "shape=[(n]", "the brackets of 'shape' do not match"},
        {"cast", "to=f8", "'f8' is no dtype"},
        {"layer_norm", "", "layer_norm takes 3 arguments, given are 1"},
        {"concat", "axis=0 =", "concat has no attribute ''"},
        {"fusion", "", "there is no op 'fusion'"}}) {
    expect_refused(fusec_builder_op(b.get(), op, &x, 1, attributes, &y), says);
    EXPECT_EQ(y, -1);
  }
  expect_refused(fusec_builder_op(b.get(), "relu", two, 2, "", &y), "relu takes 1 arguments, given are 2");
  expect_refused(fusec_builder_op(b.get(), "concat", two, 0, "axis=0", &y), "concat takes at least 1 arguments");
  // The builder is as it was.
  ASSERT_OK(fusec_builder_op(b.get(), "softmax", &x, 1, " axis=-1 ", &y));
  ASSERT_OK(fusec_builder_output(b.get(), "y", y));
  EXPECT_NE(make<fusec_model>(fusec_builder_finish, b.get()), nullptr);
}

TEST(BuilderOps, that_do_not_fit_are_errors_of_their_call_and_of_finish) {
  auto b = make<fusec_builder>(fusec_builder_new);
  fusec_value x = -1, y = -1;
  fusec_model* model = nullptr;
  ASSERT_OK(fusec_builder_input(b.get(), "x", "f32", "[n, 4]", &x));
  ASSERT_OK(fusec_builder_output(b.get(), "y", x));
  expect_refused(fusec_builder_op(b.get(), "transpose", &x, 1, "perm=[0, 2]", &y), "transpose");
  expect_refused(fusec_builder_op(b.get(), "reshape", &x, 1, "shape=[3]", &y), "reshape");
  expect_refused(fusec_builder_input(b.get(), "x", "f32", "[]", &y), "two inputs are named 'x'");
  expect_refused(fusec_builder_finish(b.get(), &model), "transpose");
  EXPECT_EQ(model, nullptr);
}

TEST(Builder, ranges_of_symbols_bind_runs) {
  auto b = make<fusec_builder>(fusec_builder_new);
  fusec_value x = -1, y = -1;
  ASSERT_OK(fusec_builder_input(b.get(), "x", "f32", "[n]", &x));
  ASSERT_OK(fusec_builder_op(b.get(), "relu", &x, 1, "", &y));
  ASSERT_OK(fusec_builder_output(b.get(), "y", y));
  expect_refused(fusec_builder_range(b.get(), "n + 1", 1, 2), "'n + 1' is no name of a symbol");
  expect_refused(fusec_builder_range(b.get(), "n", 3, 2), "symbol 'n' cannot be 3 to 2");
  ASSERT_OK(fusec_builder_range(b.get(), "n", 2, 3));
  ASSERT_OK(fusec_builder_range(b.get(), "n", 2, -1));
  const auto model = make<fusec_model>(fusec_builder_finish, b.get());
  const auto options = quiet_options();
  const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
  const auto session = make<fusec_session>(fusec_session_new, engine.get());
  int64_t extent = 4, out = 0;
  ASSERT_OK(fusec_session_output_shapes(session.get(), &extent, &out));
  EXPECT_EQ(out, 4);
  extent = 1;
  expect_refused(fusec_session_output_shapes(session.get(), &extent, &out), "must be at least 2");
}

// Whatever integers and extents an op is given, it answers.
TEST(BuilderOps, survive_strange_attributes) {
  const Json ops = read_json(fusec_builder_ops_json);
  for (const char* number : {"-1", "0", "7", "-7", "9223372036854775807", "-9223372036854775808"}) {
    for (const Json& op : ops) {
      auto b = make<fusec_builder>(fusec_builder_new);
      fusec_value x = -1, y = -1;
      ASSERT_OK(fusec_builder_input(b.get(), "x", "f32", "[n, 2, 3]", &x));
      std::string attributes;
      for (const Json& attribute : op["attributes"]) {
        const std::string kind = attribute["kind"];
        attributes += attribute["name"].get<std::string>() + "=" +
                      (kind == "flag"                            ? "1"
                       : kind == "name"                          ? "add"
                       : kind == "dtype"                         ? "i8"
                       : kind == "integers" || kind == "extents" ? "[" + std::string(number) + "]"
                                                                 : number) +
                      " ";
      }
      const std::vector<fusec_value> args(op["min_args"].get<std::size_t>(), x);
      const std::string name = op["op"];
      why(fusec_builder_op(b.get(), name.c_str(), args.data(), args.size(), attributes.c_str(), &y));
    }
  }
}

// d/dx of the sum of x * x * w, with and without a dy, into the array that says by which values.
TEST(BuilderOps, have_gradients) {
  auto builder = make<fusec_builder>(fusec_builder_new);
  fusec_builder* const b = builder.get();
  fusec_value x = -1, w = -1, unused = -1, whole = -1, k = -1;
  EXPECT_OK(fusec_builder_input(b, "x", "f32", "[n, 2]", &x));
  EXPECT_OK(fusec_builder_scalar(b, "f32", 3, &w));
  EXPECT_OK(fusec_builder_scalar(b, "f32", 1, &unused));
  fusec_value args[] = {x, x};
  EXPECT_OK(fusec_builder_op(b, "mul", args, 2, "", &args[0]));
  args[1] = w;
  EXPECT_OK(fusec_builder_op(b, "mul", args, 2, "", &args[0]));
  EXPECT_OK(fusec_builder_op(b, "reduce_sum", args, 1, "axes=[0, 1]", &whole));
  fusec_value by[] = {x, w, unused};
  EXPECT_OK(fusec_builder_gradients(b, whole, -1, by, 3, by));
  EXPECT_EQ(read_json(fusec_builder_value_json, b, by[0]).dump(), R"({"dtype":"f32","shape":["n",2]})");
  EXPECT_OK(fusec_builder_output(b, "dx", by[0]));
  EXPECT_OK(fusec_builder_output(b, "dw", by[1]));
  EXPECT_OK(fusec_builder_output(b, "none", by[2]));
  EXPECT_OK(fusec_builder_gradients(b, args[0], x, &x, 1, &by[0]));
  EXPECT_OK(fusec_builder_output(b, "by_dy", by[0]));
  EXPECT_OK(fusec_builder_gradients(b, whole, -1, nullptr, 0, nullptr));

  const auto options = quiet_options();
  const auto model = make<fusec_model>(fusec_builder_finish, b);
  const auto engine = make<fusec_engine>(fusec_engine_compile, model.get(), options.get());
  const auto session = make<fusec_session>(fusec_session_new, engine.get());
  ASSERT_NE(session, nullptr);
  const int64_t extents[] = {1, 2};
  float in[] = {1, 2}, dx[2], dw, none, by_dy[2];
  const void* inputs[] = {in};
  void* outputs[] = {dx, &dw, &none, by_dy};
  ASSERT_OK(fusec_session_run_raw(session.get(), extents, const_cast<void**>(inputs), outputs, nullptr));
  EXPECT_EQ((std::vector<float>{dx[0], dx[1], dw, none, by_dy[0], by_dy[1]}), (std::vector<float>{6, 12, 5, 0, 6, 24}));

  by[0] = x;
  by[1] = 99;
  expect_refused(fusec_builder_gradients(b, whole, -1, by, 2, by), "parameter 'wrt[1]' is 99, which is no value");
  EXPECT_EQ(by[0], -1);
  EXPECT_EQ(by[1], -1);
  EXPECT_OK(fusec_builder_gradients(b, whole, -1, &x, 1, &by[0]));  // a wrong call leaves the builder as it was
  args[0] = args[1] = x;
  EXPECT_OK(fusec_builder_op(b, "mod", args, 2, "", &k));
  expect_refused(fusec_builder_gradients(b, k, x, &x, 1, &by[0]), "mod of f32[n, 2], f32[n, 2] has no gradient",
                 FUSEC_UNSUPPORTED);
  EXPECT_EQ(by[0], -1);
  expect_refused(fusec_builder_gradients(b, x, -1, &x, 1, &by[0]), "the result is f32[n, 2]; without a dy");
}

}  // namespace
}  // namespace fusec::c_test
