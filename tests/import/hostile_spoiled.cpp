// SPDX-License-Identifier: Apache-2.0
// Models whose parts do not fit together.
#include "tests/import/hostile_make.h"

namespace fusec::importer {

namespace {

using proto::GraphProto;
using proto::ModelProto;
using proto::NodeProto;

GraphProto& graph(ModelProto& m) { return *m.mutable_graph(); }
NodeProto& node(ModelProto& m) { return *graph(m).mutable_node(0); }
auto* input_type(ModelProto& m) { return graph(m).mutable_input(0)->mutable_type(); }
auto* input_shape(ModelProto& m) { return input_type(m)->mutable_tensor_type()->mutable_shape(); }

const std::string kLong(10 << 20, 'n');

void add_versions(HostileList& list) {
  const auto opset = [](int64_t v) { return [v](ModelProto& m) { m.mutable_opset_import(0)->set_version(v); }; };
  add_spoiled(list, std::vector<SpoiledModel>{
                        {"no_graph", "no graph", [](ModelProto& m) { m.clear_graph(); }},
                        {"ir_version_missing", "IR version", [](ModelProto& m) { m.clear_ir_version(); }},
                        {"ir_version_2", "IR version", [](ModelProto& m) { m.set_ir_version(2); }},
                        {"ir_version_negative", "IR version", [](ModelProto& m) { m.set_ir_version(-1); }},
                        {"ir_version_huge", "IR version", [](ModelProto& m) { m.set_ir_version(int64_t{1} << 62); }},
                        {"opset_0", "opset 0", opset(0)},
                        {"opset_negative", "opset -1", opset(-1)},
                        {"opset_huge", "opset", opset(int64_t{1} << 62)},
                        {"opset_2_32_and_17", "opset 4294967313", opset((int64_t{1} << 32) + 17)},
                        {"opset_missing", "opset_import lacks", [](ModelProto& m) { m.clear_opset_import(); }},
                        {"opset_twice", "twice", [](ModelProto& m) { *m.add_opset_import() = m.opset_import(0); }},
                        {"unknown_op", "'Foo'", [](ModelProto& m) { node(m).set_op_type("Foo"); }},
                        {"op_without_name", "op ''", [](ModelProto& m) { node(m).clear_op_type(); }},
                        {"unknown_domain", "evil", [](ModelProto& m) { node(m).set_domain("evil"); }},
                    });
}

void add_names(HostileList& list) {
  const auto name = [](const std::string& n) { return [n](ModelProto& m) { node(m).set_name(n); }; };
  add_spoiled(
      list,
      std::vector<SpoiledModel>{
          {"name_not_utf8", "UTF-8", name("\xc0\xaf")},
          {"name_surrogate", "UTF-8", name("\xed\xa0\x80")},
          {"name_cut", "UTF-8", name("abc\xe2\x82")},
          {"name_with_nul", "NUL", name(std::string("a\0b", 3))},
          {"name_of_10_mb", "name_bytes", name(kLong)},
          {"name_with_lines", "a\\x0ab", [](ModelProto& m) { node(m).set_name("a\nb"), node(m).set_op_type("Foo"); }},
          {"name_with_escapes", "\\x1b[2J",
           [](ModelProto& m) { node(m).set_name("\x1b[2J"), node(m).set_op_type("Foo"); }},
          {"op_of_10_mb", "name_bytes", [](ModelProto& m) { node(m).set_op_type(kLong); }},
          {"op_not_utf8", "UTF-8", [](ModelProto& m) { node(m).set_op_type("\xff\xff"); }},
          {"domain_of_10_mb", "nnn...", [](ModelProto& m) { node(m).set_domain(kLong); }},
          {"value_of_10_mb", "name_bytes", [](ModelProto& m) { node(m).set_output(0, kLong); }},
          {"operand_of_10_mb", "nnn...", [](ModelProto& m) { node(m).set_input(0, kLong); }},
          {"operand_with_lines", "a\\x0ab", [](ModelProto& m) { node(m).set_input(0, "a\nb"); }},
          {"input_of_10_mb", "name_bytes", [](ModelProto& m) { graph(m).mutable_input(0)->set_name(kLong); }},
          {"input_without_name", "no name", [](ModelProto& m) { graph(m).mutable_input(0)->clear_name(); }},
          {"symbol_of_10_mb", "name_bytes",
           [](ModelProto& m) { input_shape(m)->mutable_dim(0)->set_dim_param(kLong); }},
          // Each becomes a symbol; the first 64 letters are the same.
          {"symbols_alike", "limit symbols",
           [](ModelProto& m) {
             for (int i = 0; i < 30'000; ++i) {
               *graph(m).add_input() = m.graph().input(0);
               graph(m).mutable_input(i + 1)->set_name("x" + std::to_string(i));
               auto* shape = graph(m).mutable_input(i + 1)->mutable_type()->mutable_tensor_type()->mutable_shape();
               shape->mutable_dim(0)->set_dim_param(std::string(64, 'N') + std::to_string(i));
             }
             graph(m).clear_output();
           }},
          {"attribute_of_10_mb", "nnn",
           [](ModelProto& m) {
             auto* attribute = node(m).add_attribute();
             attribute->set_name(kLong);
             attribute->set_type(proto::AttributeProto::INT);
           }},
          {"attribute_with_lines", "attribute",
           [](ModelProto& m) {
             auto* attribute = node(m).add_attribute();
             attribute->set_name("a\n\x1b");
             attribute->set_type(proto::AttributeProto::INT);
           }},
          {"attribute_without_type", "attribute", [](ModelProto& m) { node(m).add_attribute()->set_name("alpha"); }},
      });
}

void add_bindings(HostileList& list) {
  add_spoiled(
      list,
      std::vector<SpoiledModel>{
          {"no_outputs", "no outputs", [](ModelProto& m) { graph(m).clear_output(); }},
          {"two_inputs_of_one_name", "two inputs", [](ModelProto& m) { *graph(m).add_input() = m.graph().input(0); }},
          {"two_outputs_of_one_name", "two outputs",
           [](ModelProto& m) { *graph(m).add_output() = m.graph().output(0); }},
          {"output_over_input", "two values", [](ModelProto& m) { node(m).set_output(0, "x"); }},
          {"missing_output", "nothing produces", [](ModelProto& m) { graph(m).mutable_output(0)->set_name("z"); }},
          {"missing_producer", "no earlier node", [](ModelProto& m) { node(m).set_input(0, "z"); }},
          {"reads_itself", "no earlier node", [](ModelProto& m) { node(m).set_input(0, "y"); }},
          {"too_many_operands", "Relu",
           [](ModelProto& m) {
             for (int i = 0; i < 100'000; ++i) node(m).add_input("x");
           }},
          {"too_many_results", "Relu",
           [](ModelProto& m) {
             for (int i = 0; i < 100'000; ++i) node(m).add_output("z");
           }},
          {"sparse_initializer", "sparse", [](ModelProto& m) { graph(m).add_sparse_initializer(); }},
          {"recipe_not_json", "weights_recipe",
           [](ModelProto& m) {
             auto* entry = m.add_metadata_props();
             entry->set_key("weights_recipe");
             entry->set_value(std::string(100'000, '['));
           }},
      });
}

void add_types(HostileList& list) {
  const auto extent = [](int64_t v) {
    return [v](ModelProto& m) { input_shape(m)->mutable_dim(0)->set_dim_value(v); };
  };
  const auto axes = [](int n) {
    return [n](ModelProto& m) {
      for (int i = 0; i < n; ++i) input_shape(m)->add_dim()->set_dim_value(1);
    };
  };
  const auto element = [](int type) {
    return [type](ModelProto& m) { input_type(m)->mutable_tensor_type()->set_elem_type(type); };
  };
  add_spoiled(list,
              std::vector<SpoiledModel>{
                  {"extent_negative", "negative extent", extent(-5)},
                  {"extent_int64_min", "negative extent", extent(INT64_MIN)},
                  {"extent_2_62", "tensor_bytes", extent(int64_t{1} << 62)},
                  {"extents_overflow_elements", "tensor_bytes",
                   [](ModelProto& m) {
                     for (int i = 0; i < 2; ++i) input_shape(m)->mutable_dim(i)->set_dim_value(int64_t{1} << 32);
                   }},
                  {"extents_overflow_bytes", "tensor_bytes", extent((int64_t{1} << 59) + 1)},
                  {"rank_65", "limit rank", axes(63)},
                  {"rank_1025", "limit rank", axes(1023)},
                  {"rank_unknown", "rank", [](ModelProto& m) { input_type(m)->mutable_tensor_type()->clear_shape(); }},
                  {"type_missing", "dense tensor", [](ModelProto& m) { input_type(m)->Clear(); }},
                  {"type_0", "element type 0", element(0)},
                  {"type_999", "element type 999", element(999)},
                  {"type_negative", "element type -7", element(-7)},
                  {"type_string", "STRING", element(proto::TensorProto::STRING)},
                  {"type_complex", "COMPLEX64", element(proto::TensorProto::COMPLEX64)},
                  {"type_float4", "FLOAT4E2M1", element(proto::TensorProto::FLOAT4E2M1)},
                  {"type_sequence", "dense tensor", [](ModelProto& m) { input_type(m)->mutable_sequence_type(); }},
                  {"type_map", "dense tensor", [](ModelProto& m) { input_type(m)->mutable_map_type(); }},
                  {"type_optional", "dense tensor", [](ModelProto& m) { input_type(m)->mutable_optional_type(); }},
                  {"type_sparse", "dense tensor", [](ModelProto& m) { input_type(m)->mutable_sparse_tensor_type(); }},
                  {"output_of_other_type", "declared",
                   [](ModelProto& m) {
                     graph(m).mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
                         proto::TensorProto::INT64);
                   }},
              });
}

}  // namespace

void add_hostile_models(HostileList& list) {
  add_versions(list);
  add_names(list);
  add_bindings(list);
  add_types(list);
}

}  // namespace fusec::importer
