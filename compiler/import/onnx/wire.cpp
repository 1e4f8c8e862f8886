// SPDX-License-Identifier: Apache-2.0
// Scans the protobuf wire format of a model and parses it in the import stage. The scan rejects truncated, deeply
// nested or oversized files before protobuf allocates memory for them.

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include <limits>
#include <string>

#include "compiler/import/onnx/proto.h"

namespace fusec::importer {

namespace {

// This is protobuf's own default. Each nested graph takes three levels.
constexpr int kMaxWireDepth = 100;

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// protobuf builds the descriptions of its messages on first use. If memory runs out meanwhile, the next use crashes.
// They are therefore built when the library is loaded, which takes less than half a millisecond.
const Descriptor* const kModel = proto::ModelProto::descriptor();

class Scanner {
 public:
  Scanner(std::span<const uint8_t> bytes, int64_t max_messages) : bytes_(bytes), budget_(max_messages) {}

  Status message(const Descriptor* type, std::size_t end, int depth) {
    if (depth > kMaxWireDepth) {
      return {StatusCode::unsupported,
              fmt::format("messages are nested deeper than {}; fusec reads no deeper (byte {})", kMaxWireDepth, at_)};
    }
    while (at_ < end) FUSEC_TRY(field(type, end, depth));
    return {};
  }

 private:
  Status bad(const std::string& what) const {
    return {StatusCode::invalid_model, fmt::format("not an ONNX file: {} (byte {})", what, at_)};
  }

  Status varint(std::size_t end, uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ >= end) return bad("truncated");
      uint8_t byte = bytes_[at_++];
      value |= static_cast<uint64_t>(byte & 127) << (shift & 63);
      if (byte < 128) return {};
    }
    return bad("a varint is longer than 10 bytes");
  }

  Status skip(std::size_t end, uint64_t size) {
    if (size > end - at_) return bad("truncated");
    at_ += size;
    return {};
  }

  Status spend() {
    if (budget_-- > 0) return {};
    return {StatusCode::unsupported, "the file has more protobuf messages than the limit 'messages' allows"};
  }

  Status field(const Descriptor* type, std::size_t end, int depth) {
    uint64_t tag = 0, size = 0;
    FUSEC_TRY(varint(end, tag));
    if (tag >> 3 == 0 || tag >> 3 > (1u << 29) - 1) return bad("a field number is out of range");
    const FieldDescriptor* known = type->FindFieldByNumber(static_cast<int>(tag >> 3));
    if (known == nullptr) FUSEC_TRY(spend());
    switch (tag & 7) {
      case 0:
        return varint(end, size);
      case 1:
        return skip(end, 8);
      case 5:
        return skip(end, 4);
      case 2:
        break;
      default:
        return bad("groups are not part of ONNX");
    }
    FUSEC_TRY(varint(end, size));
    if (size > end - at_) return bad("truncated");
    bool is_message = known != nullptr && known->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    bool is_text = known != nullptr && known->cpp_type() == FieldDescriptor::CPPTYPE_STRING && known->is_repeated();
    if (is_message || is_text) FUSEC_TRY(spend());
    return is_message ? message(known->message_type(), at_ + size, depth + 1) : skip(end, size);
  }

  std::span<const uint8_t> bytes_;
  std::size_t at_ = 0;
  int64_t budget_;
};

}  // namespace

Status scan_wire(std::span<const uint8_t> bytes, const ImportLimits& limits) {
  if (static_cast<int64_t>(bytes.size()) > limits.model_bytes) {
    return {StatusCode::unsupported, fmt::format("the file has {} bytes, more than the limit model_bytes = {}",
                                                 bytes.size(), limits.model_bytes)};
  }
  Scanner scanner(bytes, limits.messages);
  Status status = scanner.message(kModel, bytes.size(), 0);
  if (status.ok()) return status;
  return std::move(status).with_note(fmt::format("limit messages = {}", limits.messages));
}

Result<proto::ModelProto> parse_model(std::span<const uint8_t> bytes, const ImportLimits& limits) {
  if (bytes.empty()) return Status(StatusCode::invalid_model, "the file is empty");
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    return Status(StatusCode::invalid_model, "the file is larger than 2 GiB, which protobuf cannot read");
  }
  FUSEC_TRY(scan_wire(bytes, limits));
  // protobuf must not log: its errors become a Status, and check_name finds invalid names again.
  google::protobuf::LogSilencer silencer;
  proto::ModelProto model;
  google::protobuf::io::CodedInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  stream.SetTotalBytesLimit(std::numeric_limits<int>::max());
  stream.SetRecursionLimit(kMaxWireDepth);
  if (!model.ParseFromCodedStream(&stream) || !stream.ConsumedEntireMessage()) {
    return Status(StatusCode::invalid_model, "not an ONNX file: protobuf cannot parse it");
  }
  return model;
}

}  // namespace fusec::importer
