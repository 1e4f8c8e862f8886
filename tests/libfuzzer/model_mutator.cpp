// SPDX-License-Identifier: Apache-2.0
#include "tests/libfuzzer/model_mutator.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "compiler/import/onnx/functions.h"
#include "tests/libfuzzer/fail.h"

namespace fusec::libfuzzer {
namespace {

namespace proto = importer::proto;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int64_t kIntegers[] = {0,
                                 1,
                                 -1,
                                 2,
                                 3,
                                 4,
                                 7,
                                 8,
                                 16,
                                 31,
                                 32,
                                 64,
                                 65,
                                 127,
                                 255,
                                 1024,
                                 1025,
                                 65536,
                                 -2,
                                 -3,
                                 -8,
                                 1 << 20,
                                 INT32_MAX,
                                 INT32_MIN,
                                 int64_t{1} << 32,
                                 int64_t{1} << 40,
                                 int64_t{1} << 62,
                                 INT64_MAX,
                                 INT64_MAX - 1,
                                 INT64_MIN,
                                 INT64_MIN + 1};
constexpr double kFloats[] = {0,
                              -0.0,
                              1,
                              -1,
                              0.5,
                              1e-45,
                              1e38,
                              -1e38,
                              1e300,
                              0x1p63,
                              -0x1p63,
                              std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity(),
                              std::numeric_limits<double>::quiet_NaN()};
constexpr const char* kTexts[] = {
    "",   "x",        "y",         "N",  "main",       "ai.onnx", "com.microsoft", "axis",   "axes",       "value",
    "to", "\xc0\xaf", "a/../../b", "-1", "SAME_UPPER", "VALID",   "location",      "offset", "line\nbreak"};

class Mutator {
 public:
  Mutator(proto::ModelProto& model, unsigned seed) : model_(model), random_(seed) {}

  void run() {
    for (int edits = 1 + below(4); edits > 0; --edits) edit(walk(model_));
  }

 private:
  int below(std::size_t n) { return n == 0 ? 0 : static_cast<int>(random_() % n); }
  template <class T, std::size_t N>
  T one_of(const T (&list)[N]) {
    return list[below(N)];
  }

  // A message of the model, by a walk from `from` through set fields.
  Message& walk(Message& from) {
    std::vector<const FieldDescriptor*> fields;
    from.GetReflection()->ListFields(from, &fields);
    std::erase_if(fields, [](const FieldDescriptor* f) { return f->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE; });
    if (fields.empty() || (&from != &model_ && below(4) == 0)) return from;
    return walk(child(from, fields[static_cast<std::size_t>(below(fields.size()))]));
  }
  Message& child(Message& of, const FieldDescriptor* field) {
    const Reflection* r = of.GetReflection();
    if (!field->is_repeated()) return *r->MutableMessage(&of, field);
    return *r->MutableRepeatedMessage(&of, field, below(static_cast<std::size_t>(r->FieldSize(of, field))));
  }

  void edit(Message& message) {
    std::vector<const FieldDescriptor*> fields;
    message.GetReflection()->ListFields(message, &fields);
    // Now and then a field that is not set.
    const auto* type = message.GetDescriptor();
    const bool fresh = fields.empty() || below(6) == 0;
    if (fresh && type->field_count() == 0) return;
    const FieldDescriptor* field = fresh ? type->field(below(static_cast<std::size_t>(type->field_count())))
                                         : fields[static_cast<std::size_t>(below(fields.size()))];
    if (field->is_repeated()) return edit_list(message, field);
    if (below(8) == 0) return message.GetReflection()->ClearField(&message, field);
    set(message, field, -1);
  }

  void edit_list(Message& message, const FieldDescriptor* field) {
    const Reflection* r = message.GetReflection();
    const int n = r->FieldSize(message, field);
    switch (n == 0 ? 0 : below(5)) {
      case 0:
        return add(message, field);
      case 1:
        r->SwapElements(&message, field, below(static_cast<std::size_t>(n)), n - 1);
        return r->RemoveLast(&message, field);
      case 2:
        return r->SwapElements(&message, field, below(static_cast<std::size_t>(n)), below(static_cast<std::size_t>(n)));
      default:
        return set(message, field, below(static_cast<std::size_t>(n)));
    }
  }

  void add(Message& message, const FieldDescriptor* field) {
    const Reflection* r = message.GetReflection();
    const int n = r->FieldSize(message, field);
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE: {
        Message* added = r->AddMessage(&message, field);
        if (n > 0) added->CopyFrom(r->GetRepeatedMessage(message, field, below(static_cast<std::size_t>(n))));
        if (n == 0) take_from_elsewhere(*added);
        return;
      }
      case FieldDescriptor::CPPTYPE_STRING:
        return r->AddString(&message, field, text(field));
      case FieldDescriptor::CPPTYPE_INT64:
        return r->AddInt64(&message, field, one_of(kIntegers));
      case FieldDescriptor::CPPTYPE_INT32:
        return r->AddInt32(&message, field, static_cast<int32_t>(one_of(kIntegers)));
      case FieldDescriptor::CPPTYPE_UINT64:
        return r->AddUInt64(&message, field, static_cast<uint64_t>(one_of(kIntegers)));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return r->AddFloat(&message, field, static_cast<float>(one_of(kFloats)));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return r->AddDouble(&message, field, one_of(kFloats));
      default:
        return;
    }
  }

  // A field, or its element `i` where that is not negative, gets another value.
  void set(Message& message, const FieldDescriptor* field, int i) {
    const Reflection* r = message.GetReflection();
    const int64_t number = below(3) == 0 ? below(12) : one_of(kIntegers);
    const double real = one_of(kFloats);
    const bool one = i < 0;
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return take_from_elsewhere(one ? *r->MutableMessage(&message, field)
                                       : *r->MutableRepeatedMessage(&message, field, i));
      case FieldDescriptor::CPPTYPE_STRING:
        return one ? r->SetString(&message, field, text(field)) : r->SetRepeatedString(&message, field, i, text(field));
      case FieldDescriptor::CPPTYPE_INT64:
        return one ? r->SetInt64(&message, field, number) : r->SetRepeatedInt64(&message, field, i, number);
      case FieldDescriptor::CPPTYPE_INT32:
        return one ? r->SetInt32(&message, field, static_cast<int32_t>(number))
                   : r->SetRepeatedInt32(&message, field, i, static_cast<int32_t>(number));
      case FieldDescriptor::CPPTYPE_UINT64:
        return one ? r->SetUInt64(&message, field, static_cast<uint64_t>(number))
                   : r->SetRepeatedUInt64(&message, field, i, static_cast<uint64_t>(number));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return one ? r->SetFloat(&message, field, static_cast<float>(real))
                   : r->SetRepeatedFloat(&message, field, i, static_cast<float>(real));
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return one ? r->SetDouble(&message, field, real) : r->SetRepeatedDouble(&message, field, i, real);
      case FieldDescriptor::CPPTYPE_ENUM:
        return one ? r->SetEnumValue(&message, field, below(24))
                   : r->SetRepeatedEnumValue(&message, field, i, below(24));
      default:
        return;
    }
  }

  // The same message as some other one of its type, if a few walks meet any.
  void take_from_elsewhere(Message& message) {
    for (int tries = 0; tries < 16; ++tries) {
      const Message& other = walk(model_);
      if (other.GetDescriptor() != message.GetDescriptor() || &other == &message) continue;
      const std::string copy = other.SerializeAsString();  // one may lie inside of the other
      message.ParseFromString(copy);
      return;
    }
  }

  std::string text(const FieldDescriptor* field) {
    if (field->type() == FieldDescriptor::TYPE_BYTES) return std::string(static_cast<std::size_t>(below(64)), '\x01');
    if (field->name() == "op_type" && below(3) > 0) {
      static const std::vector<proto::OpSchema> schemas = proto::OpSchemaRegistry::get_all_schemas();
      return schemas[static_cast<std::size_t>(below(schemas.size()))].Name();
    }
    if (below(3) == 0) return one_of(kTexts);
    return name_of_node();
  }
  // A name that stands somewhere in the graph.
  std::string name_of_node() {
    const auto& nodes = model_.graph().node();
    if (nodes.empty()) return "x";
    const auto& node = nodes.Get(below(static_cast<std::size_t>(nodes.size())));
    const auto& names = below(2) == 0 && node.input_size() > 0 ? node.input() : node.output();
    return names.empty() ? node.op_type() : names.Get(below(static_cast<std::size_t>(names.size())));
  }

  proto::ModelProto& model_;
  std::minstd_rand random_;
};

}  // namespace

size_t mutate_model(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  google::protobuf::LogSilencer silencer;
  proto::ModelProto model;
  if (seed % 8 == 0 || !model.ParseFromArray(data, static_cast<int>(size)))
    return LLVMFuzzerMutate(data, size, max_size);
  Mutator(model, seed / 8).run();
  const std::string out = model.SerializeAsString();
  if (out.empty() || out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}

}  // namespace fusec::libfuzzer
