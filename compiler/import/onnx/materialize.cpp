// SPDX-License-Identifier: Apache-2.0
// Defines `materialize_onnx`, which rewrites a model so that all external weights are present, filled from a seed where
// their file is missing. It runs outside the line and does not import the model.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/file.h"
#include "compiler/import/onnx/import.h"
#include "compiler/import/onnx/proto.h"
#include "fusec/onnx.h"
#include "ir/support/check.h"
#include "ir/support/temporary_files.h"

namespace fusec {

namespace importer {

namespace {

// Beyond this size the weights go to a file of their own, because a protobuf message is limited to 2 GiB.
constexpr int64_t kInlineBytes = 1'900'000'000;
// Alignment of tensors in that file, as ONNX recommends for mapping it.
constexpr int64_t kAlignment = 4096;

// A file under construction. It is written under a temporary name and renamed when it is complete.
class Output {
 public:
  explicit Output(const std::string& path) : path_(path), temporary_(path + ".partial"), noted_(AT_FDCWD, temporary_) {
    file_ = File(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644));
    if (file_.fd() < 0) fail("create");
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;
  ~Output() {
    if (!done_ && file_.fd() >= 0) ::unlink(temporary_.c_str());
  }

  void write(const void* data, std::size_t bytes) {
    const char* at = static_cast<const char*>(data);
    size_ += static_cast<int64_t>(bytes);
    while (bytes > 0) {
      ssize_t n = ::write(file_.fd(), at, std::min<std::size_t>(bytes, 1 << 30));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) fail("write");
      at += n;
      bytes -= static_cast<std::size_t>(n);
    }
  }
  void align() {
    std::string zeros(static_cast<std::size_t>((kAlignment - size_ % kAlignment) % kAlignment), '\0');
    write(zeros.data(), zeros.size());
  }
  int64_t size() const { return size_; }
  void finish() {
    if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename");
    done_ = true;
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw ImportError{Status(StatusCode::invalid_argument,
                             fmt::format("cannot {} '{}': {}", what, temporary_, std::strerror(errno)))};
  }

  std::string path_, temporary_;
  ir::TemporaryFile noted_;
  File file_;
  int64_t size_ = 0;
  bool done_ = false;
};

void set_external(proto::TensorProto& tensor, const std::string& location, int64_t offset, int64_t length) {
  tensor.set_data_location(proto::TensorProto::EXTERNAL);
  tensor.clear_external_data();
  auto set = [&](const char* key, std::string value) {
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(std::move(value));
  };
  set("location", location);
  set("offset", std::to_string(offset));
  set("length", std::to_string(length));
}

int64_t stripped_bytes(const proto::ModelProto& model, const ImportLimits& limits) {
  int64_t total = 0;
  for (const auto& tensor : model.graph().initializer()) {
    if (tensor.data_location() != proto::TensorProto::EXTERNAL) continue;
    auto bytes = static_cast<int64_t>(size_of(to_dtype(tensor.data_type())));
    for (int64_t extent : checked_extents(tensor, limits)) bytes *= extent;
    total += bytes;
  }
  return total;
}

// Stores the data of every external initializer, in the model or in the file `out`.data.
void materialize(proto::ModelProto& model, const TensorSource& source, const std::string& out, bool is_inline) {
  std::optional<Output> data;
  std::string location = std::filesystem::path(out).filename().string() + ".data";
  if (!is_inline) data.emplace(out + ".data");
  for (auto& proto : *model.mutable_graph()->mutable_initializer()) {
    if (proto.data_location() != proto::TensorProto::EXTERNAL) continue;
    Tensor tensor = read_tensor(proto, source);
    if (is_inline) {
      proto.clear_data_location();
      proto.clear_external_data();
      proto.set_raw_data(tensor.data(), tensor.bytes());
      continue;
    }
    data->align();
    set_external(proto, location, data->size(), static_cast<int64_t>(tensor.bytes()));
    data->write(tensor.data(), tensor.bytes());
  }
  if (data) data->finish();
}

std::vector<NodeValue> add_outputs(proto::GraphProto& graph, const std::set<std::string>& origins) {
  std::vector<NodeValue> added;
  std::set<std::string> outputs;
  for (const auto& output : graph.output()) outputs.insert(output.name());
  for (const auto& node : graph.node()) {
    const std::string origin = node_label(node);
    if (!origins.contains(origin)) continue;
    for (const std::string& name : node.output()) {
      if (name.empty()) continue;
      added.push_back({origin, name});
      if (outputs.insert(name).second) graph.add_output()->set_name(name);
    }
  }
  return added;
}

std::vector<NodeValue> materialize_file(const std::string& in, const std::string& out,
                                        const std::set<std::string>& origins, const ImportOptions& options) {
  std::vector<uint8_t> bytes = take(read_file(in, options.limits.model_bytes));
  proto::ModelProto model = take(parse_model(bytes, options.limits));
  TensorSource source{&options, {}};
  for (const auto& entry : model.metadata_props()) {
    if (entry.key() == "weights_recipe") source.recipes = take(parse_recipes(entry.value()));
  }
  std::vector<NodeValue> values = add_outputs(*model.mutable_graph(), origins);
  int64_t total = static_cast<int64_t>(bytes.size()) + stripped_bytes(model, options.limits);
  bytes = {};
  materialize(model, source, out, total <= kInlineBytes);
  std::string text;
  FUSEC_CHECK(model.SerializeToString(&text)) << "the limit on data inside of the message is protobuf's";
  Output file(out);
  file.write(text.data(), text.size());
  file.finish();
  return values;
}

}  // namespace

Result<std::vector<NodeValue>> materialize_with_values(const std::string& in, const std::string& out, uint64_t seed,
                                                       const std::set<std::string>& origins,
                                                       const ImportOptions& options) {
  return ir::guarded_with_note(
      [&]() -> Result<std::vector<NodeValue>> {
        try {
          ImportOptions filled = options;
          filled.random_weights = seed;
          if (filled.model_dir.empty()) filled.model_dir = get_parent_folder(in);
          return materialize_file(in, out, origins, filled);
        } catch (const ImportError& error) {
          return error.status;
        } catch (...) {
          return status_of_import();
        }
      },
      [&] { return fmt::format("while materializing '{}'", in); });
}

}  // namespace importer

Status materialize_onnx(const std::string& in, const std::string& out, uint64_t seed,
                        const ImportOptions& options) noexcept {
  return importer::materialize_with_values(in, out, seed, {}, options).status();
}

}  // namespace fusec
