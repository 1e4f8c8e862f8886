// SPDX-License-Identifier: Apache-2.0
// Reads and writes .npy files. The length of the header and its fields are checked; big-endian files and unknown types
// are refused.

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <fstream>
#include <optional>
#include <string_view>

#include "ir/eval/graph.h"
#include "runtime/tool/io/tensor_file.h"

namespace fusec::tool {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kMaxHeader = 1 << 16;
constexpr std::size_t kMaxRank = 64;

struct TypeName {
  DType dtype;
  std::string_view written, read;  // without byte order
};
constexpr TypeName kTypes[] = {
    {DType::f64, "<f8", "f8"},   {DType::f32, "<f4", "f4"}, {DType::f16, "<f2", "f2"}, {DType::bf16, "<u2", "V2"},
    {DType::i8, "|i1", "i1"},    {DType::i16, "<i2", "i2"}, {DType::i32, "<i4", "i4"}, {DType::i64, "<i8", "i8"},
    {DType::u8, "|u1", "u1"},    {DType::u16, "<u2", "u2"}, {DType::u32, "<u4", "u4"}, {DType::u64, "<u8", "u8"},
    {DType::bool_, "|b1", "b1"},
};

Status bad(const std::string& path, const std::string& rule) {
  return Status(StatusCode::invalid_argument, fmt::format("'{}' is no .npy file that can be read: {}", path, rule));
}

struct Header {
  DType dtype = DType::f32;
  bool fortran = false;
  std::vector<int64_t> shape;
};

// The text after "'key':", without leading blanks; empty if the key is absent.
std::string_view after_key(std::string_view text, std::string_view key) {
  std::size_t at = text.find(fmt::format("'{}':", key));
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + key.size() + 3);
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  return text;
}

std::optional<DType> parse_descr(std::string_view text) {
  if (text.size() < 5 || text[0] != '\'' || text[4] != '\'') return std::nullopt;
  if (text[1] != '<' && text[1] != '|' && text[1] != '=') return std::nullopt;
  for (const TypeName& type : kTypes) {
    if (type.read == text.substr(2, 2)) return type.dtype;
  }
  return std::nullopt;
}

std::optional<std::vector<int64_t>> parse_shape(std::string_view text) {
  const std::size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == std::string_view::npos) return std::nullopt;
  text = text.substr(1, end - 1);
  std::vector<int64_t> shape;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" ,"), text.size()));
    if (text.empty()) return shape;
    int64_t extent = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0 || shape.size() == kMaxRank) return std::nullopt;
    shape.push_back(extent);
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  }
}

Result<Header> parse_header(const std::string& path, std::string_view text) {
  Header header;
  const std::string_view descr = after_key(text, "descr");
  const auto dtype = parse_descr(descr);
  if (!dtype) return bad(path, fmt::format("type {} is not known", descr.substr(0, descr.find(','))));
  const auto shape = parse_shape(after_key(text, "shape"));
  if (!shape) return bad(path, "its shape is not a tuple of extents");
  header.dtype = *dtype;
  header.shape = *shape;
  header.fortran = after_key(text, "fortran_order").starts_with("True");
  return header;
}

Result<std::string> read_header(const std::string& path, std::istream& in) {
  std::array<char, 8> lead{};
  if (!in.read(lead.data(), lead.size()) || std::string_view(lead.data(), 6) != kMagic) {
    return bad(path, "it does not begin with \\x93NUMPY");
  }
  const int length_bytes = lead[6] == 1 ? 2 : 4;
  if (lead[6] < 1 || lead[6] > 3) return bad(path, "its format version is not 1, 2 or 3");
  std::size_t length = 0;
  for (int i = 0; i < length_bytes; ++i) length |= static_cast<std::size_t>(in.get() & 0xff) << (8 * i);
  if (!in || length > kMaxHeader) return bad(path, "its header is longer than 64 KiB");
  std::string text(length, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(length))) return bad(path, "its header is cut off");
  return text;
}

Result<Tensor> from_fortran(const Tensor& file, const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides;
  int64_t stride = 1;
  for (const int64_t extent : shape) {
    strides.push_back(stride);
    stride *= extent;
  }
  const Tensor view = Tensor::borrow(file.dtype(), shape, const_cast<void*>(file.data()), strides);
  FUSEC_ASSIGN(Tensor out, Tensor::make(file.dtype(), shape));
  FUSEC_ASSIGN(const Tensor dense, ir::contiguous(view));
  std::copy_n(dense.as<std::byte>(), dense.bytes(), out.as<std::byte>());
  return out;
}

}  // namespace

Result<Tensor> read_npy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return Status(StatusCode::invalid_argument, fmt::format("'{}' cannot be opened", path));
  in.seekg(0, std::ios::end);
  const std::streamoff size = in.tellg();
  in.seekg(0);
  return read_npy(path, in, size);
}

Result<Tensor> read_npy(const std::string& path, std::istream& in, int64_t size) {
  const std::streamoff start = in.tellg();
  FUSEC_ASSIGN(const std::string text, read_header(path, in));
  FUSEC_ASSIGN(const Header header, parse_header(path, text));
  // Extents are checked against the file before memory is taken.
  int64_t left = size - (in.tellg() - start), bytes = static_cast<int64_t>(size_of(header.dtype));
  for (const int64_t extent : header.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return bad(path, "its shape passes 63 bits of bytes");
  }
  if (bytes > left) return bad(path, fmt::format("{} bytes of data are stated, {} are there", bytes, left));
  FUSEC_ASSIGN(Tensor tensor, Tensor::make(header.dtype, header.shape));
  if (bytes > 0 && !in.read(tensor.as<char>(), bytes)) return bad(path, "its data cannot be read");
  if (header.fortran && header.shape.size() > 1) return from_fortran(tensor, header.shape);
  return tensor;
}

Status write_npy(const std::string& path, const Tensor& tensor) {
  FUSEC_ASSIGN(const Tensor dense, ir::contiguous(tensor));
  std::string shape;
  for (const int64_t extent : dense.shape()) shape += std::to_string(extent) + ",";
  if (dense.rank() > 1) shape.pop_back();
  const std::string_view descr = kTypes[static_cast<std::size_t>(dense.dtype())].written;
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  text.append(63 - (10 + text.size()) % 64, ' ');  // data begins at a multiple of 64
  text += '\n';
  std::ofstream out(path, std::ios::binary);
  out << kMagic << '\1' << '\0' << static_cast<char>(text.size() & 0xff) << static_cast<char>(text.size() >> 8) << text;
  if (dense.bytes() > 0) out.write(dense.as<char>(), static_cast<std::streamsize>(dense.bytes()));
  out.close();
  if (!out) return Status(StatusCode::invalid_argument, fmt::format("'{}' cannot be written", path));
  return {};
}

Result<Tensor> as_dtype(const Tensor& tensor, DType dtype, const std::string& what) {
  if (tensor.dtype() == dtype) return tensor;
  const bool bits =
      (tensor.dtype() == DType::u16 && dtype == DType::bf16) || (tensor.dtype() == DType::u8 && dtype == DType::bool_);
  if (!bits) {
    return Status(StatusCode::invalid_argument, fmt::format("{} is {}, the model wants {}; convert it before", what,
                                                            to_string(tensor.dtype()), to_string(dtype)));
  }
  auto owner = std::make_shared<Tensor>(tensor);
  return Tensor::share(dtype, tensor.shape(), owner->data(), owner);
}

}  // namespace fusec::tool
