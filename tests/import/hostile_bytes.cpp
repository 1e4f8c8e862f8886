// SPDX-License-Identifier: Apache-2.0
// Files that are no protobuf message, or too much of one.
#include "tests/import/hostile_make.h"

namespace fusec::importer {

namespace {

std::string repeated(int count, const std::string& piece) {
  std::string out;
  for (int i = 0; i < count; ++i) out += piece;
  return out;
}

// Graphs in attributes of nodes of graphs, without any content.
std::string nested_graphs(int depth) {
  std::string inner;
  for (int i = 0; i < depth; ++i) inner = wire_field('\x0a', wire_field('\x2a', wire_field('\x32', inner)));
  return wire_field('\x3a', inner);
}

// An Add of two tensors, one of which is stored with packed extents that end in the middle of a number.
std::string cut_extents() {
  const std::string tensor = wire_field('\x0a', "\xff");
  return std::string("\x08\x08", 2) + wire_field('\x3a', wire_field('\x2a', tensor));
}

}  // namespace

void add_hostile_bytes(HostileList& list) {
  const std::string good = parse_hostile("(float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }").SerializeAsString();
  const std::vector<HostileModel> files = {
      {"empty", "", "empty", ""},
      {"one_byte", "\x08", "truncated", ""},
      {"zeros", std::string(1000, '\0'), "field number", ""},
      {"garbage", std::string(1000, '\xff'), "not an ONNX file", ""},
      {"text", "<html>not a model</html>", "not an ONNX file", ""},
      {"archive", std::string("PK\x03\x04\x14\x00\x00\x00\x08\x00", 10) + good, "not an ONNX file", ""},
      {"gzip", std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00", 8) + good, "not an ONNX file", ""},
      {"truncated", good.substr(0, good.size() - 5), "truncated", ""},
      {"truncated_half", good.substr(0, good.size() / 2), "truncated", ""},
      {"truncated_number", good + "\x09\x01\x02", "truncated", ""},
      {"trailing_garbage", good + std::string(100, '\xfe'), "not an ONNX file", ""},
      {"length_past_end", std::string("\x3a\xff\xff\xff\xff\x0f", 6), "truncated", ""},
      {"length_2_63", "\x3a" + std::string(9, '\x80') + "\x01", "truncated", ""},
      {"long_varint", "\x08" + std::string(20, '\xff'), "varint", ""},
      {"group", std::string("\x0b\x0c", 2), "groups", ""},
      {"field_zero", std::string("\x02\x00", 2), "field number", ""},
      {"field_of_wrong_kind", wire_field('\x0a', "8") + good.substr(2), "IR version", ""},
      {"cut_extents", cut_extents(), "protobuf cannot parse", ""},
      {"wire_recursion", nested_graphs(60), "nested deeper", ""},
      {"wire_recursion_1000", nested_graphs(1000), "nested deeper", ""},
      {"nine_million_nodes", wire_field('\x3a', repeated(9'000'000, std::string("\x0a\x00", 2))), "messages", ""},
      {"nine_million_names", wire_field('\x3a', wire_field('\x0a', repeated(9'000'000, std::string("\x0a\x00", 2)))),
       "messages", ""},
      {"unknown_fields", repeated(9'000'000, std::string("\xf8\x07\x00", 3)), "messages", ""},
  };
  list.insert(list.end(), files.begin(), files.end());
}

}  // namespace fusec::importer
