// SPDX-License-Identifier: Apache-2.0
// Tensors whose data is not what they say.
#include "tests/import/hostile_make.h"

namespace fusec::importer {

namespace {

using proto::TensorProto;

using Edit = std::function<void(TensorProto&)>;

Edit raw(std::size_t bytes) {
  return [bytes](TensorProto& w) { w.set_raw_data(std::string(bytes, 'a')); };
}
Edit of_type(int type) {
  return [type](TensorProto& w) { w.set_data_type(type); };
}
// Of a type with two values or more in a byte.
Edit packed(int type, std::size_t bytes) {
  return [type, bytes](TensorProto& w) {
    w.set_data_type(type);
    w.set_raw_data(std::string(bytes, '\x11'));
  };
}

void add_data(HostileList& list) {
  add_spoiled(
      list, std::vector<SpoiledTensor>{
                {"raw_data_short", "raw_data has 3", raw(3)},
                {"raw_data_misaligned", "raw_data has 15", raw(15)},
                {"raw_data_long", "raw_data has 17", raw(17)},
                {"raw_data_huge", "raw_data has 10485760", raw(10 << 20)},
                {"two_data_fields", "more than one", [](TensorProto& w) { w.add_float_data(1); }},
                {"wrong_data_field", "data for 0", [](TensorProto& w) { w.clear_raw_data(), w.add_int64_data(1); }},
                {"data_short", "data for 1", [](TensorProto& w) { w.clear_raw_data(), w.add_float_data(1); }},
                {"data_long", "data for 5",
                 [](TensorProto& w) {
                   w.clear_raw_data();
                   for (int i = 0; i < 5; ++i) w.add_float_data(1);
                 }},
                {"no_data", "no data", [](TensorProto& w) { w.clear_raw_data(); }},
                {"segment", "segments", [](TensorProto& w) { w.mutable_segment()->set_begin(0); }},
                {"tensor_extent_negative", "negative extent", [](TensorProto& w) { w.set_dims(0, -1); }},
                {"tensor_extents_cancel", "negative extent", [](TensorProto& w) { w.set_dims(0, -2), w.add_dims(-2); }},
                {"tensor_extents_overflow", "tensor_bytes",
                 [](TensorProto& w) { w.set_dims(0, int64_t{1} << 62), w.add_dims(1 << 20); }},
                {"tensor_extents_wrap_to_4", "tensor_bytes",
                 [](TensorProto& w) {
                   w.set_dims(0, int64_t{1} << 32);
                   w.add_dims((int64_t{1} << 32) + 1);
                 }},
                {"tensor_rank_1025", "limit rank",
                 [](TensorProto& w) {
                   for (int i = 0; i < 1025; ++i) w.add_dims(1);
                 }},
                {"tensor_rank_million", "limit rank",
                 [](TensorProto& w) {
                   for (int i = 0; i < 1'000'000; ++i) w.add_dims(1);
                 }},
                {"tensor_1e9_of_16_bytes", "elements", [](TensorProto& w) { w.set_dims(0, 1'000'000'000); }},
                {"tensor_1e6_of_4_bytes", "raw_data has 4",
                 [](TensorProto& w) { w.set_dims(0, 40), w.set_raw_data("abcd"); }},
                {"tensor_type_0", "element type 0", of_type(0)},
                {"tensor_type_999", "element type 999", of_type(999)},
                {"tensor_type_negative", "element type -1", of_type(-1)},
                {"tensor_int4_short", "INT4", packed(TensorProto::INT4, 1)},
                {"tensor_uint4_long", "UINT4", packed(TensorProto::UINT4, 99)},
                {"tensor_float4_short", "FLOAT4E2M1", packed(TensorProto::FLOAT4E2M1, 1)},
                {"tensor_int2_short", "INT2", packed(TensorProto::INT2, 0)},
                {"tensor_float8", "FLOAT8E4M3FN", packed(TensorProto::FLOAT8E4M3FN, 4)},
                {"tensor_complex", "COMPLEX128", of_type(TensorProto::COMPLEX128)},
                {"tensor_strings", "STRING", of_type(TensorProto::STRING)},
                {"tensor_halves_by_floats", "data for 0",
                 [](TensorProto& w) {
                   w.set_data_type(TensorProto::FLOAT16);
                   w.clear_raw_data();
                   w.add_float_data(1);
                 }},
                {"tensor_name_of_10_mb", "raw_data has 3",
                 [](TensorProto& w) { w.set_name(std::string(10 << 20, 'w')), w.set_raw_data("abc"); }},
                {"tensor_name_with_lines", "w\\x0a\\xff",
                 [](TensorProto& w) { w.set_name("w\n\xff"), w.set_raw_data("abc"); }},
            });
}

}  // namespace

void add_hostile_tensors(HostileList& list) { add_data(list); }

}  // namespace fusec::importer
