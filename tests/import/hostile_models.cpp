// SPDX-License-Identifier: Apache-2.0
#include "tests/import/hostile_models.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <stdexcept>

#include "compiler/import/onnx/proto.h"
#include "onnx/defs/parser.h"

namespace fusec::importer {
namespace {

using proto::ModelProto;
using proto::NodeProto;
using proto::TensorProto;

const std::string kHeader = R"(<ir_version: 8, opset_import: ["" : 17]>)";

// A model in ONNX's text syntax; `body` is the graph without its name.
ModelProto parse(const std::string& body, const std::string& functions = "") {
  ModelProto model;
  std::string text = kHeader + " g " + body + functions;
  proto::OnnxParser parser(text.c_str());
  auto status = parser.Parse(model);
  if (!status.IsOK()) throw std::runtime_error(status.ErrorMessage() + " in " + text);
  return model;
}

ModelProto relu() { return parse("(float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }"); }

std::string edited(ModelProto model, const std::function<void(ModelProto&)>& edit) {
  edit(model);
  return model.SerializeAsString();
}
std::string edited(const std::function<void(ModelProto&)>& edit) { return edited(relu(), edit); }

// y = x + w with an initializer w for `edit` to spoil.
std::string with_tensor(const std::function<void(TensorProto&)>& edit) {
  ModelProto model = parse("(float[2, 4] x) => (float[2, 4] y) { y = Add(x, w) }");
  TensorProto& w = *model.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(TensorProto::FLOAT);
  w.add_dims(4);
  w.set_raw_data(std::string(16, '\0'));
  edit(w);
  return model.SerializeAsString();
}

std::string external(const std::vector<std::pair<std::string, std::string>>& entries) {
  return with_tensor([&](TensorProto& w) {
    w.clear_raw_data();
    w.set_data_location(TensorProto::EXTERNAL);
    for (const auto& [key, value] : entries) {
      auto* entry = w.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    }
  });
}

// One op on x and an integer constant.
std::string with_ints(const std::string& op, const std::string& ints, const std::string& type = "float[2, 3]") {
  return parse("(" + type + " x) => (float y) { c = Constant <value_ints = [" + ints + "]> () y = " + op + " }")
      .SerializeAsString();
}
std::string one_node(const std::string& node, const std::string& inputs = "float[2, 3] x") {
  return parse("(" + inputs + ") => (float y) { y = " + node + " }").SerializeAsString();
}

std::string int64_max() { return std::to_string(std::numeric_limits<int64_t>::max()); }
std::string int64_min() { return std::to_string(std::numeric_limits<int64_t>::min()); }

using List = std::vector<HostileModel>;

void add_wire(List& list) {
  std::string good = relu().SerializeAsString();
  list.push_back({"empty", "", "empty"});
  list.push_back({"garbage", std::string(1000, '\xff'), "not an ONNX file"});
  list.push_back({"text", "<html>not a model</html>", "not an ONNX file"});
  list.push_back({"truncated", good.substr(0, good.size() - 5), "truncated"});
  list.push_back({"length_past_end", std::string("\x3a\xff\xff\xff\xff\x0f", 6), "truncated"});
  list.push_back({"long_varint", "\x08" + std::string(20, '\xff'), "varint"});
  list.push_back({"group", std::string("\x0b\x0c", 2), "groups"});
  list.push_back({"field_zero", std::string("\x02\x00", 2), "field number"});
  std::string deep = "x";
  for (int i = 0; i < 60; ++i) {
    // graph(1 of node attribute g = 6) inside node(1) inside attribute(5): levels of messages without any content.
    auto wrap = [](char tag, const std::string& inner) {
      std::string out(1, tag);
      for (std::size_t n = inner.size(); true; n >>= 7) {
        out += static_cast<char>((n & 127) | (n > 127 ? 128 : 0));
        if (n <= 127) break;
      }
      return out + inner;
    };
    deep = wrap('\x0a', wrap('\x2a', wrap('\x32', i == 0 ? std::string() : deep)));
    if (i == 59) deep = wrap('\x3a', deep);
  }
  list.push_back({"wire_recursion", deep, "nested deeper"});
  std::string nodes;
  for (int i = 0; i < 9'000'000; ++i) nodes += std::string("\x0a\x00", 2);
  std::string many = "\x3a";
  for (std::size_t n = nodes.size(); true; n >>= 7) {
    many += static_cast<char>((n & 127) | (n > 127 ? 128 : 0));
    if (n <= 127) break;
  }
  list.push_back({"nine_million_nodes", many + nodes, "messages"});
  std::string unknown;
  for (int i = 0; i < 9'000'000; ++i) unknown += std::string("\xf8\x07\x00", 3);
  list.push_back({"unknown_fields", unknown, "messages"});
}

void add_model(List& list) {
  list.push_back({"no_graph", edited([](ModelProto& m) { m.clear_graph(); }), "no graph"});
  list.push_back({"no_outputs", edited([](ModelProto& m) { m.mutable_graph()->clear_output(); }), "no outputs"});
  list.push_back({"ir_version_2", edited([](ModelProto& m) { m.set_ir_version(2); }), "IR version"});
  list.push_back({"ir_version_huge", edited([](ModelProto& m) { m.set_ir_version(int64_t{1} << 62); }), "IR version"});
  auto opset = [](int64_t v) { return edited([v](ModelProto& m) { m.mutable_opset_import(0)->set_version(v); }); };
  list.push_back({"opset_0", opset(0), "opset 0"});
  list.push_back({"opset_negative", opset(-1), "opset -1"});
  list.push_back({"opset_huge", opset(int64_t{1} << 62), "opset"});
  list.push_back({"opset_missing", edited([](ModelProto& m) { m.clear_opset_import(); }), "opset_import lacks"});
  list.push_back({"opset_twice", edited([](ModelProto& m) { *m.add_opset_import() = m.opset_import(0); }), "twice"});
  list.push_back(
      {"unknown_op", edited([](ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_op_type("Foo"); }), "Foo"});
  list.push_back({"unknown_domain",
                  edited([](ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_domain("evil"); }), "evil"});
  auto name = [](std::string n) {
    return edited([n](ModelProto& m) { m.mutable_graph()->mutable_node(0)->set_name(n); });
  };
  list.push_back({"name_not_utf8", name("\xc0\xaf"), "UTF-8"});
  list.push_back({"name_with_nul", name(std::string("a\0b", 3)), "NUL"});
  list.push_back({"name_of_10_mb", name(std::string(10 << 20, 'n')), "name_bytes"});
  list.push_back({"duplicate_value",
                  parse("(float[4] x) => (float[4] y) { y = Relu(x) y = Abs(x) }").SerializeAsString(), "two values"});
  list.push_back({"missing_producer", parse("(float[4] x) => (float[4] y) { y = Relu(z) }").SerializeAsString(),
                  "no earlier node"});
  list.push_back({"use_before_define",
                  parse("(float[4] x) => (float[4] y) { y = Relu(z) z = Abs(x) }").SerializeAsString(),
                  "no earlier node"});
  list.push_back({"graph_cycle", parse("(float[4] x) => (float[4] y) { y = Add(x, z) z = Abs(y) }").SerializeAsString(),
                  "no earlier node"});
  list.push_back({"missing_output", parse("(float[4] x) => (float[4] y) { z = Relu(x) }").SerializeAsString(),
                  "nothing produces"});
  list.push_back(
      {"output_of_other_type", parse("(float[4] x) => (int64[4] y) { y = Relu(x) }").SerializeAsString(), "declared"});
  list.push_back({"attribute_of_wrong_type", one_node("Softmax <axis = \"one\"> (x)"), "axis"});
  list.push_back({"unknown_attribute", one_node("Relu <alpha = 1> (x)"), "alpha"});
  list.push_back({"too_many_operands", one_node("Relu(x, x, x)"), "Relu"});
  list.push_back(
      {"sequence_input", parse("(seq(float[4]) x) => (float y) { y = Foo(x) }").SerializeAsString(), "dense tensor"});
  list.push_back(
      {"string_input", parse("(string[4] x) => (string[4] y) { y = Identity(x) }").SerializeAsString(), "STRING"});
}

void add_extents(List& list) {
  auto extent = [](int64_t v) {
    return edited([v](ModelProto& m) {
      m.mutable_graph()
          ->mutable_input(0)
          ->mutable_type()
          ->mutable_tensor_type()
          ->mutable_shape()
          ->mutable_dim(0)
          ->set_dim_value(v);
    });
  };
  list.push_back({"extent_negative", extent(-5), "negative extent"});
  list.push_back({"extent_2_62", extent(int64_t{1} << 62), "tensor_bytes"});
  list.push_back({"rank_65", edited([](ModelProto& m) {
                    for (int i = 0; i < 63; ++i)
                      m.mutable_graph()
                          ->mutable_input(0)
                          ->mutable_type()
                          ->mutable_tensor_type()
                          ->mutable_shape()
                          ->add_dim()
                          ->set_dim_value(1);
                  }),
                  "limit rank"});
  list.push_back({"rank_unknown", edited([](ModelProto& m) {
                    m.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
                  }),
                  "rank"});
  list.push_back({"broadcast_mismatch",
                  parse("(float[4] x, float[5] z) => (float y) { y = Add(x, z) }").SerializeAsString(), "broadcast"});
  list.push_back({"axis_out_of_range", one_node("Softmax <axis = 7> (x)"), "axis 7"});
  list.push_back({"axis_int64_min", one_node("Softmax <axis = " + int64_min() + "> (x)"), "axis"});
  list.push_back({"perm_twice", one_node("Transpose <perm = [0, 0]> (x)"), "perm"});
  list.push_back({"perm_out_of_range", one_node("Transpose <perm = [0, 9]> (x)"), "perm"});
  list.push_back({"flatten_axis", one_node("Flatten <axis = -9> (x)"), "axis -9"});
  list.push_back({"reshape_two_unknowns", with_ints("Reshape(x, c)", "-1, -1"), "two -1"});
  list.push_back({"reshape_minus_2", with_ints("Reshape(x, c)", "-2, 3"), "-2"});
  list.push_back({"reshape_overflow", with_ints("Reshape(x, c)", int64_max() + ", " + int64_max()), "overflow"});
  list.push_back({"squeeze_not_1", with_ints("Squeeze(x, c)", "1"), "not 1"});
  list.push_back({"unsqueeze_twice", with_ints("Unsqueeze(x, c)", "0, 0"), "twice"});
  list.push_back({"gather_index", with_ints("Gather <axis = 1> (x, c)", "0, 99"), "index 99"});
  list.push_back({"slice_step_0",
                  parse("(float[2, 3] x) => (float y) { s = Constant <value_ints = [0]> () e = Constant <value_ints = "
                        "[9]> () y = Slice(x, s, e, s, s) }")
                      .SerializeAsString(),
                  "step"});
  list.push_back({"slice_axis_twice",
                  parse("(float[2, 3] x) => (float y) { s = Constant <value_ints = [0, 0]> () e = Constant <value_ints "
                        "= [1, 1]> () y = Slice(x, s, e, s) }")
                      .SerializeAsString(),
                  "twice"});
  list.push_back({"split_sum", with_ints("Split(x, c)", "9"), "add up"});
  list.push_back({"split_negative", with_ints("Split(x, c)", "-1"), "negative"});
  list.push_back({"conv_kernel_mismatch",
                  one_node("Conv <kernel_shape = [9, 9]> (x, w)", "float[1, 3, 8, 8] x, float[4, 3, 3, 3] w"),
                  "kernel_shape"});
  list.push_back({"conv_filter_rank", one_node("Conv(x, w)", "float[1, 3, 8, 8] x, float[4] w"), "axes"});
  list.push_back({"conv_stride_0",
                  one_node("Conv <strides = [0, 0]> (x, w)", "float[1, 3, 8, 8] x, float[4, 3, 3, 3] w"), "strides"});
  list.push_back(
      {"conv_dilation_huge",
       one_node("Conv <dilations = [" + int64_max() + ", 1]> (x, w)", "float[1, 3, 8, 8] x, float[4, 3, 3, 3] w"),
       "dilations"});
  list.push_back(
      {"conv_group_0", one_node("Conv <group = 0> (x, w)", "float[1, 3, 8, 8] x, float[4, 3, 3, 3] w"), "group"});
  list.push_back({"pool_kernel_negative", one_node("MaxPool <kernel_shape = [-1, 2]> (x)", "float[1, 3, 8, 8] x"),
                  "kernel_shape"});
  list.push_back(
      {"pool_kernel_too_large", one_node("MaxPool <kernel_shape = [99, 2]> (x)", "float[1, 3, 8, 8] x"), "fit"});
  list.push_back({"depth_to_space_huge",
                  one_node("DepthToSpace <blocksize = " + int64_max() + "> (x)", "float[1, 4, 2, 2] x"), "blocksize"});
  list.push_back({"lrn_size_huge", one_node("LRN <size = " + int64_max() + "> (x)", "float[1, 4, 2, 2] x"), "size"});
}

void add_bombs(List& list) {
  const std::string huge = "1073741824, 1073741824";
  list.push_back(
      {"constant_of_shape_bomb",
       parse("(float[1] x) => (float y) { c = Constant <value_ints = [" + huge + "]> () y = ConstantOfShape(c) }")
           .SerializeAsString(),
       "tensor_bytes"});
  list.push_back({"constant_of_shape_negative",
                  parse("(float[1] x) => (float y) { c = Constant <value_ints = [-3]> () y = ConstantOfShape(c) }")
                      .SerializeAsString(),
                  "-3"});
  list.push_back({"expand_bomb", with_ints("Expand(x, c)", "1073741824, 2, 3, 1073741824, 2, 3"), "tensor_bytes"});
  list.push_back({"tile_bomb", with_ints("Tile(x, c)", huge), "tensor_bytes"});
  list.push_back({"tile_overflow", with_ints("Tile(x, c)", int64_max() + ", " + int64_max()), ""});
  list.push_back({"pad_bomb", with_ints("Pad(x, c)", huge + ", " + huge), "tensor_bytes"});
  list.push_back({"pad_takes_too_much", with_ints("Pad(x, c)", "-9, 0, -9, 0"), "more than there is"});
  list.push_back({"range_bomb",
                  parse("(float[1] x) => (int64 y) { a = Constant <value_int = 0> () b = Constant <value_int = " +
                        int64_max() + "> () c = Constant <value_int = 1> () y = Range(a, b, c) }")
                      .SerializeAsString(),
                  "overflow"});
  list.push_back({"range_delta_0",
                  parse("(float[1] x) => (int64 y) { a = Constant <value_int = 0> () b = Constant <value_int = 9> () y "
                        "= Range(a, b, a) }")
                      .SerializeAsString(),
                  "delta"});
  list.push_back({"range_infinite",
                  parse("(float[1] x) => (float y) { a = Constant <value_float = 0.0> () b = Constant <value_float = "
                        "1e38> () c = Constant <value_float = 1e-38> () y = Range(a, b, c) }")
                      .SerializeAsString(),
                  "length"});
  list.push_back({"one_hot_bomb",
                  parse("(int64[4] x, float[2] v) => (float y) { c = Constant <value_int = " + int64_max() +
                        "> () y = OneHot(x, c, v) }")
                      .SerializeAsString(),
                  ""});
  list.push_back(
      {"loop", parse("(float[4] x, int64 n, bool c) => (float y) { y = Loop(n, c, x) }").SerializeAsString(), "body"});
  std::string squares =
      "(float[1] x) => (int64 y) { a0 = Size(x) b = Constant <value_int = 3000000000> () a1 = Mul(b, b) ";
  squares += "s = Constant <value_ints = [1]> () r = Reshape(a1, s) y = ConstantOfShape(r) }";
  list.push_back({"folded_product_bomb", parse(squares).SerializeAsString(), ""});
  std::string growing = "(float[N] x) => (float y) { a0 = Shape(x) ";
  for (int i = 0; i < 80; ++i)
    growing += "a" + std::to_string(i + 1) + " = Mul(a" + std::to_string(i) + ", a" + std::to_string(i) + ") ";
  list.push_back({"symbol_power_bomb", parse(growing + "y = ConstantOfShape(a80) }").SerializeAsString(), ""});
  std::string inputs, sums;
  for (int i = 0; i < 30; ++i) {
    std::string n = std::to_string(i);
    inputs += (i > 0 ? ", float[D" : "float[D") + n + "] x" + n;
    sums += "s" + n + " = Shape(x" + n + ") t" + n + " = Add(s" + n + ", " +
            (i > 0 ? "t" + std::to_string(i - 1) : "s0") + ") ";
  }
  std::string powers = "p0 = Mul(t29, t29) ";
  for (int i = 0; i < 40; ++i) powers += "p" + std::to_string(i + 1) + " = Mul(p" + std::to_string(i) + ", t29) ";
  list.push_back(
      {"polynomial_bomb",
       parse("(" + inputs + ") => (float y) { " + sums + powers + "y = ConstantOfShape(p40) }").SerializeAsString(),
       "depend on data"});
  std::string wide = "y = ConstantOfShape(c) }", joined = "c = Concat <axis = 0> (t29";
  for (int i = 0; i < 60; ++i) joined += ", t29";
  list.push_back({"product_of_sums_bomb",
                  parse("(" + inputs + ") => (float y) { " + sums + joined + ") " + wide).SerializeAsString(),
                  "very many terms"});
  std::string nested = "a0 = Shape(x) k = Shape(z) ";
  for (int i = 0; i < 20000; ++i) {
    std::string from = "a" + std::to_string(i), to = "a" + std::to_string(i + 1);
    nested += to + (i % 2 ? " = Min(" : " = Max(") + from + (i % 2 ? ", x) " : ", k) ");
    if (i % 2) nested.replace(nested.rfind(", x) "), 5, ", q) ");
  }
  list.push_back({"nested_formula_bomb",
                  parse("(float[N] x, float[M] z, float[K] w) => (float y) { q = Shape(w) " + nested +
                        "y = ConstantOfShape(a20000) }")
                      .SerializeAsString(),
                  ""});
  list.push_back({"training_dropout",
                  parse("(float[4] x) => (float y) { r = Constant <value_float = 0.5> () t = Constant <value_int = 1> "
                        "() u = Cast <to = 9> (t) y = Dropout(x, r, u) }")
                      .SerializeAsString(),
                  "training"});
}

void add_functions(List& list) {
  auto with = [](const std::string& functions) {
    ModelProto model;
    std::string text =
        R"(<ir_version: 8, opset_import: ["" : 17, "f" : 1]> g (float[4] x) => (float[4] y) { y = f.a0(x) } )" +
        functions;
    proto::OnnxParser parser(text.c_str());
    auto status = parser.Parse(model);
    if (!status.IsOK()) throw std::runtime_error(status.ErrorMessage() + " in " + text);
    return model;
  };
  auto function = [](const std::string& name, const std::string& body) {
    return R"(<domain: "f", opset_import: ["" : 17, "f" : 1]> )" + name + " (x) => (y) { " + body + " } ";
  };
  list.push_back({"function_calls_itself", with(function("a0", "y = f.a0(x)")).SerializeAsString(), "calls itself"});
  list.push_back({"functions_call_each_other",
                  with(function("a0", "y = f.a1(x)") + function("a1", "y = f.a0(x)")).SerializeAsString(),
                  "calls itself"});
  ModelProto through_if =
      with(function("a0",
                    "c = Constant <value_int = 1> () b = Cast <to = 9> (c) y = If <then_branch = t () => (float z) { z "
                    "= f.a0(x) }, else_branch = e () => (float z) { z = Relu(x) }> (b)"));
  list.push_back({"function_cycle_through_if", through_if.SerializeAsString(), "calls itself"});
  std::string doubling;
  for (int i = 0; i < 30; ++i) {
    std::string next = "f.a" + std::to_string(i + 1);
    doubling += function("a" + std::to_string(i), i == 29 ? "y = Relu(x)" : "z = " + next + "(x) y = " + next + "(z)");
  }
  list.push_back({"exponential_functions", with(doubling).SerializeAsString(), "limit"});
  std::string chain;
  for (int i = 0; i < 40; ++i)
    chain += function("a" + std::to_string(i), i == 39 ? "y = Relu(x)" : "y = f.a" + std::to_string(i + 1) + "(x)");
  list.push_back({"functions_nested_40_deep", with(chain).SerializeAsString(), "nesting"});
  list.push_back({"function_too_many_inputs",
                  edited(with(function("a0", "y = Relu(x)")),
                         [](ModelProto& m) { m.mutable_graph()->mutable_node(0)->add_input("x"); }),
                  "too many inputs"});
  list.push_back({"function_twice",
                  with(function("a0", "y = Relu(x)") + function("a0", "y = Abs(x)")).SerializeAsString(),
                  "two functions"});
  ModelProto branches = parse(
      "(float[4] x, bool c) => (float y) { y = If <then_branch = t () => (float z) { z = Relu(x) }, else_branch = e () "
      "=> (float z) { z = Abs(x) }> (c) }");
  list.push_back({"if_on_data", branches.SerializeAsString(), "condition"});
}

void add_tensors(List& list) {
  list.push_back({"raw_data_short", with_tensor([](TensorProto& w) { w.set_raw_data("abc"); }), "raw_data has 3"});
  list.push_back(
      {"raw_data_long", with_tensor([](TensorProto& w) { w.set_raw_data(std::string(17, 'a')); }), "raw_data has 17"});
  list.push_back({"two_data_fields", with_tensor([](TensorProto& w) { w.add_float_data(1); }), "more than one"});
  list.push_back({"wrong_data_field", with_tensor([](TensorProto& w) {
                    w.clear_raw_data();
                    w.add_int64_data(1);
                  }),
                  "data for 0"});
  list.push_back({"no_data", with_tensor([](TensorProto& w) { w.clear_raw_data(); }), "no data"});
  list.push_back({"tensor_extent_negative", with_tensor([](TensorProto& w) { w.set_dims(0, -1); }), "negative extent"});
  list.push_back({"tensor_extents_overflow", with_tensor([](TensorProto& w) {
                    w.set_dims(0, int64_t{1} << 62);
                    w.add_dims(1 << 20);
                  }),
                  "tensor_bytes"});
  list.push_back({"tensor_rank_1025", with_tensor([](TensorProto& w) {
                    for (int i = 0; i < 1025; ++i) w.add_dims(1);
                  }),
                  "limit rank"});
  list.push_back(
      {"tensor_1e9_from_16_bytes", with_tensor([](TensorProto& w) { w.set_dims(0, 1'000'000'000); }), "elements"});
  list.push_back({"tensor_type_0", with_tensor([](TensorProto& w) { w.set_data_type(0); }), "element type"});
  list.push_back({"tensor_type_999", with_tensor([](TensorProto& w) { w.set_data_type(999); }), "element type"});
  list.push_back({"tensor_int4", with_tensor([](TensorProto& w) { w.set_data_type(TensorProto::INT4); }), "INT4"});
  list.push_back(
      {"tensor_strings", with_tensor([](TensorProto& w) { w.set_data_type(TensorProto::STRING); }), "STRING"});
  list.push_back(
      {"tensor_segment", with_tensor([](TensorProto& w) { w.mutable_segment()->set_begin(0); }), "segments"});
  list.push_back(
      {"sparse_initializer", edited([](ModelProto& m) { m.mutable_graph()->add_sparse_initializer(); }), "sparse"});
  list.push_back({"recipe_not_json", edited([](ModelProto& m) {
                    auto* entry = m.add_metadata_props();
                    entry->set_key("weights_recipe");
                    entry->set_value(std::string(100000, '['));
                  }),
                  "weights_recipe"});
}

void add_external(List& list, const std::string& folder) {
  namespace fs = std::filesystem;
  auto write = [](const fs::path& path) { std::ofstream(path) << std::string(64, 'w'); };
  write(folder + "/w");
  fs::create_directory(folder + "/sub");
  write(folder + "/sub/w");
  fs::create_symlink("w", folder + "/link");
  fs::create_directory_symlink("sub", folder + "/linked");
  fs::create_symlink("/etc/passwd", folder + "/passwd");
  write(folder + "/hard");
  fs::create_hard_link(folder + "/hard", folder + "/harder");
  if (::mkfifo((folder + "/fifo").c_str(), 0600) != 0) throw std::runtime_error("mkfifo");
  auto at = [](const std::string& location) { return external({{"location", location}}); };
  list.push_back({"external_absolute", at("/etc/passwd"), "absolute"});
  list.push_back({"external_parent", at("../../../../etc/passwd"), "leaves"});
  list.push_back({"external_parent_inside", at("sub/../../w"), "leaves"});
  list.push_back({"external_proc", at("/proc/self/environ"), "absolute"});
  list.push_back({"external_symlink", at("link"), "symbolic link"});
  list.push_back({"external_symlink_out", at("passwd"), "symbolic link"});
  list.push_back({"external_parent_symlink", at("linked/w"), "symbolic link"});
  list.push_back({"external_hard_link", at("harder"), "hard link"});
  list.push_back({"external_fifo", at("fifo"), "regular file"});
  list.push_back({"external_folder", at("sub"), "regular file"});
  list.push_back({"external_empty", at(""), "empty name"});
  list.push_back({"external_dot", at("."), "regular file"});
  list.push_back({"external_nul", at(std::string("w\0x", 3)), "NUL"});
  list.push_back({"external_missing", at("absent"), "'absent' is not there"});
  list.push_back({"external_file_as_folder", at("w/x"), "non-folder"});
  auto range = [](const std::string& key, const std::string& value) {
    return external({{"location", "w"}, {key, value}});
  };
  list.push_back({"external_offset_negative", range("offset", "-4"), "offset"});
  list.push_back({"external_offset_past_end", range("offset", "60"), "has only 64"});
  list.push_back({"external_offset_huge", range("offset", int64_max()), "has only 64"});
  list.push_back({"external_offset_overflow", range("offset", "99999999999999999999999"), "offset"});
  list.push_back({"external_length_wrong", range("length", "8"), "length 8"});
  list.push_back({"external_length_huge", range("length", "1000000000000000"), "length"});
  list.push_back({"external_unknown_key", range("__class__", "x"), "unknown key"});
}

}  // namespace

std::vector<HostileModel> hostile_models(const std::string& folder) {
  List list;
  add_wire(list);
  add_model(list);
  add_extents(list);
  add_bombs(list);
  add_functions(list);
  add_tensors(list);
  add_external(list, folder);
  return list;
}

}  // namespace fusec::importer
