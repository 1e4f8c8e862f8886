// SPDX-License-Identifier: Apache-2.0
// Functions that call each other, and graphs inside of nodes.
#include "tests/import/hostile_make.h"

namespace fusec::importer {

namespace {

using proto::ModelProto;

constexpr const char* kHeader = R"(<ir_version: 8, opset_import: ["" : 17, "f" : 1]>)";

std::string function(int number, const std::string& body) {
  return R"(<domain: "f", opset_import: ["" : 17, "f" : 1]> a)" + std::to_string(number) + " (x) => (y) { " + body +
         " } ";
}
std::string call(int number, const std::string& operand = "x") {
  return "f.a" + std::to_string(number) + "(" + operand + ")";
}

// y = f.a0(x)
ModelProto with(const std::string& functions) {
  return parse_hostile("(float[4] x) => (float[4] y) { y = f.a0(x) }", functions, kHeader);
}

// Makes b, which is known to be true.
const std::string kFlag = "c = Constant <value_int = 1> () b = Cast <to = 9> (c) ";

// An If on a known condition; both branches are `body`, which makes z.
std::string known_if(const std::string& body) {
  const std::string branch = " () => (float z) { " + body + " }";
  return kFlag + "y = If <then_branch = t" + branch + ", else_branch = e" + branch + "> (b)";
}
std::string nested_if(int depth, std::string inner = "z = Relu(x)") {
  for (int i = 0; i < depth; ++i) {
    const std::string n = std::to_string(i);
    inner = "z = If <then_branch = t" + n + " () => (float z) { " + inner + " }, else_branch = e" + n +
            " () => (float z) { z = Relu(x) }> (b)";
  }
  return inner;
}

// a0 calls a1 and so on, `calls` times each; the last of them is a Relu.
std::string calling(int functions, int calls) {
  std::string out;
  for (int i = 0; i < functions; ++i) {
    std::string body = i + 1 == functions ? "y = Relu(x)"
                       : calls == 1       ? "y = " + call(i + 1)
                                          : "z = " + call(i + 1) + " y = " + call(i + 1, "z");
    out += function(i, body);
  }
  return out;
}

void add(HostileList& list, const std::string& name, const ModelProto& model, const std::string& message,
         const std::string& where) {
  list.push_back({name, model.SerializeAsString(), message, where});
}

void add_cycles(HostileList& list) {
  const std::string loop_body =
      "body = l (int64 i, bool k, float v) => (bool k2, float z) { k2 = Identity(k) z = f.a0(v) }";
  add(list, "function_calls_itself", with(function(0, "y = " + call(0))), "calls itself", "'a0'");
  add(list, "functions_call_each_other", with(function(0, "y = " + call(1)) + function(1, "y = " + call(0))),
      "calls itself", "'a0'");
  add(
      list, "function_cycle_of_1000",
      [] {
        std::string ring;
        for (int i = 0; i < 1000; ++i) ring += function(i, "y = " + call((i + 1) % 1000));
        return with(ring);
      }(),
      "calls itself", "function 'a");
  add(list, "function_cycle_through_if", with(function(0, known_if("z = " + call(0)))), "calls itself", "'a0'");
  add(list, "function_cycle_through_ifs",
      with(function(0, known_if("z = " + call(1))) + function(1, known_if("z = " + call(0)))), "calls itself", "'a0'");
  add(list, "function_cycle_through_loop",
      with(function(0, "n = Constant <value_int = 3> () y = Loop <" + loop_body + "> (n, , x)")), "calls itself",
      "'a0'");
  add(list, "function_cycle_that_is_not_called", with(function(0, "y = Relu(x)") + function(1, "y = " + call(1))),
      "calls itself", "'a1'");
}

void add_calls(HostileList& list) {
  add(list, "exponential_functions", with(calling(31, 2)), "function_calls", "(a");
  add(list, "functions_nested_40_deep", with(calling(40, 1)), "nesting", "(a");
  add(list, "functions_nested_3000_deep", with(calling(3000, 1)), "nesting", "(a");
  add(list, "ifs_in_functions_40_deep",
      with(function(0, kFlag + nested_if(20, "z = " + call(1)).replace(0, 1, "y")) +
           function(1, kFlag + nested_if(20).replace(0, 1, "y"))),
      "nesting", "(If)");
  ModelProto large = with(calling(14, 2));
  auto* node = large.mutable_functions(13)->add_node();
  node->set_op_type("Constant");
  node->add_output("z");
  auto* value = node->add_attribute();
  value->set_name("value");
  value->set_type(proto::AttributeProto::TENSOR);
  value->mutable_t()->set_data_type(proto::TensorProto::FLOAT);
  value->mutable_t()->add_dims(1 << 18);
  value->mutable_t()->set_raw_data(std::string(1 << 20, '\0'));
  add(list, "function_constant_of_1_mb_8192_times", large, "inlined_bytes", "(a13)");
  add(list, "function_twice", with(function(0, "y = Relu(x)") + function(0, "y = Abs(x)")), "two functions", "'a0'");
  add(list, "function_not_there", with(function(1, "y = Relu(x)")), "no rule", "(a0)");
  add(list, "function_without_body", with(function(0, "z = Relu(x)")), "nothing produces 'y'", "(a0)");
  ModelProto many = with(function(0, "y = Relu(x)"));
  many.mutable_graph()->mutable_node(0)->add_input("x");
  add(list, "function_too_many_inputs", many, "too many inputs", "(a0)");
  ModelProto results = with(function(0, "y = Relu(x)"));
  results.mutable_graph()->mutable_node(0)->add_output("z");
  add(list, "function_too_many_outputs", results, "too many outputs", "(a0)");
  ModelProto old = with(function(0, "y = Relu(x)"));
  old.mutable_functions(0)->mutable_opset_import(0)->set_version(int64_t{1} << 40);
  add(list, "function_opset_huge", old, "opset", "(a0)");
  ModelProto named = with(function(0, "y = Relu(x)"));
  named.mutable_functions(0)->set_name(std::string(10 << 20, 'n'));
  add(list, "function_of_10_mb", named, "no rule", "(a0)");
  ModelProto twice = with(function(0, "y = Relu(x)"));
  twice.mutable_functions(0)->add_input("x");
  twice.mutable_graph()->mutable_node(0)->add_input("x");
  add(list, "function_inputs_of_one_name", twice, "two values", "(a0)");
}

void add_graphs_inside(HostileList& list) {
  const std::string loop = "body = l (int64 i, bool k, float v) => (bool k2, float z) { k2 = Identity(k) z = Relu(v) }";
  add_graphs(
      list,
      {
          {"if_on_data", "float[4] x, bool b", nested_if(1).replace(0, 1, "y"), "condition"},
          {"if_on_two", "float[4] x, bool[2] b", nested_if(1).replace(0, 1, "y"), "condition"},
          {"if_without_else", "float[4] x", kFlag + "y = If <then_branch = t () => (float z) { z = Relu(x) }> (b)",
           "else_branch"},
          {"if_branch_unknown_name", "float[4] x", known_if("z = Relu(q)"), "no earlier node"},
          {"if_branch_makes_nothing", "float[4] x", known_if("q = Relu(x)"), "nothing produces"},
          {"if_33_deep", "float[4] x", kFlag + nested_if(33).replace(0, 1, "y"), "nested deeper", "byte"},
          {"if_branch_lacks_outputs", "float[4] x", kFlag + "z, y = " + nested_if(1).substr(4), "too few outputs"},
          {"loop_for_ever", "float[4] x",
           "n = Constant <value_int = " + kInt64Max + "> () y = Loop <" + loop + "> (n, , x)", "no rule"},
          {"loop_without_body", "float[4] x, int64 n, bool c", "y = Loop(n, c, x)", "body"},
          {"scan", "float[4] x",
           "y = Scan <body = l (float v) => (float z) { z = Relu(v) }, num_scan_inputs = " + kInt64Max + "> (x)",
           "no rule"},
      });
  const ModelProto mixed = parse_hostile("(float[4] x) => (int64 y) { " + kFlag +
                                         "y = If <then_branch = t () => (float z) { z = Relu(x) }, else_branch = e () "
                                         "=> (int64 z) { z = Size(x) }> (b) }");
  list.push_back({"if_branches_of_two_types", mixed.SerializeAsString(), "declared i64", "'y'"});
}

}  // namespace

void add_hostile_functions(HostileList& list) {
  add_cycles(list);
  add_calls(list);
  add_graphs_inside(list);
}

}  // namespace fusec::importer
