// SPDX-License-Identifier: Apache-2.0
// Constructs the errors of the import stage and checks the names of a model. Every message is made printable and
// bounded in length, because it may contain strings of an untrusted model.

#include "compiler/import/onnx/error.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/graph/infer_rules.h"
#include "ir/support/check.h"

namespace fusec::importer {
namespace {

constexpr std::size_t kMaxBytes = 500;

}  // namespace

ImportError::ImportError(const Status& any) : status(any.code(), printable(any.message(), std::string::npos)) {
  for (const std::string& note : any.notes()) status = std::move(status).with_note(note);
}

void fail_invalid(const std::string& message) {
  throw ImportError(Status(StatusCode::invalid_model, printable(message, kMaxBytes)));
}

void fail_unsupported(const std::string& message) {
  throw ImportError(Status(StatusCode::unsupported, printable(message, kMaxBytes)));
}

void fail_option(const std::string& message) {
  throw ImportError{Status(StatusCode::invalid_argument, printable(message, kMaxBytes))};
}

void fail_limit(const std::string& message) {
  ImportError error(Status(StatusCode::unsupported, printable(message, kMaxBytes)));
  error.ends_import = true;
  throw error;
}

void fail_differ(const Shape& a, const Shape& b, const std::string& message) {
  ImportError error(ir::infer::differ(a, b, printable(message, kMaxBytes)));
  error.unequal = find_unequal(a, b);
  throw error;
}

Status status_of_import() {
  const Status status =
      ir::status_of_exception({.overflow = StatusCode::unsupported, .other = StatusCode::invalid_model});
  return Status(status.code(), printable(status.message(), kMaxBytes));
}

namespace {

// Returns the length of the UTF-8 sequence at `at`, or 0 if there is none.
std::size_t sequence_length(std::string_view text, std::size_t at) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(at);
  std::size_t n = lead < 0x80 ? 1 : lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (n == 0 || at + n > text.size()) return 0;
  for (std::size_t i = 1; i < n; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  bool overlong = (lead == 0xe0 && byte(at + 1) < 0xa0) || (lead == 0xf0 && byte(at + 1) < 0x90);
  bool surrogate_or_past = (lead == 0xed && byte(at + 1) > 0x9f) || (lead == 0xf4 && byte(at + 1) > 0x8f);
  return overlong || surrogate_or_past ? 0 : n;
}

}  // namespace

void check_name(const std::string& name, const ImportLimits& limits) {
  if (static_cast<int64_t>(name.size()) > limits.name_bytes) {
    fail_limit(fmt::format("a name has {} bytes, more than the limit name_bytes = {}", name.size(), limits.name_bytes));
  }
  for (std::size_t at = 0; at < name.size();) {
    std::size_t n = sequence_length(name, at);
    if (n == 0) fail_invalid("a name is not valid UTF-8");
    if (name[at] == '\0') fail_invalid("a name holds a NUL");
    at += n;
  }
}

std::string printable(std::string_view text, std::size_t most) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; };
  const auto is_ascii = [&](char c) { return !is_control(c) && static_cast<unsigned char>(c) < 128; };
  if (text.size() <= most && std::all_of(text.begin(), text.end(), is_ascii)) return std::string(text);
  std::string out;
  std::size_t cut = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t n = sequence_length(text, at);
    const bool is_plain = n > 1 || (n == 1 && !is_control(text[at]));
    out += is_plain ? std::string(text.substr(at, n)) : fmt::format("\\x{:02x}", static_cast<unsigned char>(text[at]));
    if (out.size() + 3 <= most) cut = out.size();
    if (out.size() > most) return out.substr(0, cut) + "...";
    at += std::max<std::size_t>(n, 1);
  }
  return out;
}

std::string node_label(const proto::NodeProto& node) {
  const std::string& name = node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  return short_name(name) + " (" + short_name(node.op_type()) + ")";
}

}  // namespace fusec::importer
