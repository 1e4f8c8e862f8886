// SPDX-License-Identifier: Apache-2.0
#include "tests/text/inputs.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <sstream>

#include "ir/ops/cast.h"
#include "ir/ops/random.h"
#include "ir/text/lexer.h"

namespace fusec::text_test {
namespace {

constexpr std::string_view kPrefix = "// input ";

Status bad(std::string message) { return Status(StatusCode::invalid_argument, std::move(message)); }

Result<std::vector<int64_t>> parse_extents(ir::Lexer& lexer) {
  FUSEC_ASSIGN(const Shape shape, lexer.shape());
  std::vector<int64_t> extents;
  for (const Dim& d : shape) extents.push_back(d.value());
  return extents;
}

Result<Tensor> parse_values(ir::Lexer& lexer, DType dtype) {
  std::vector<char> bytes;
  FUSEC_TRY(lexer.expect("{"));
  while (!lexer.peek().is("}")) {
    char element[8] = {};
    FUSEC_TRY(ir::parse_literal(lexer, dtype, element));
    bytes.insert(bytes.end(), element, element + size_of(dtype));
    if (!lexer.accept(",")) break;
  }
  FUSEC_TRY(lexer.expect("}"));
  FUSEC_ASSIGN(const auto extents, parse_extents(lexer));
  FUSEC_ASSIGN(Tensor out, Tensor::make(dtype, extents));
  if (out.bytes() != bytes.size()) return bad("the number of values does not fit the shape");
  std::copy(bytes.begin(), bytes.end(), out.as<char>());
  return out;
}

Result<Tensor> parse_input(const std::string& text, DType dtype) {
  ir::Lexer lexer(text);
  if (!lexer.accept_word("random")) return parse_values(lexer, dtype);
  FUSEC_ASSIGN(const int64_t seed, lexer.integer());
  FUSEC_ASSIGN(const auto extents, parse_extents(lexer));
  return ir::random_tensor(dtype, extents, static_cast<uint64_t>(seed));
}

std::string element_text(const Tensor& tensor, int64_t i) {
  const char* at = tensor.as<char>() + i * static_cast<int64_t>(size_of(tensor.dtype()));
  if (!is_float(tensor.dtype())) return ir::literal(tensor.dtype(), at);
  const double value = ir::load_double(tensor.dtype(), at);
  return std::isnan(value) ? "nan" : fmt::format("{:.6g}", value);
}

}  // namespace

Result<std::vector<Tensor>> parse_inputs(const ir::Graph& graph, const std::string& text) {
  std::map<std::string, std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t equals = line.find(" = ");
    if (line.rfind(kPrefix, 0) != 0 || equals == std::string::npos) continue;
    lines[line.substr(kPrefix.size(), equals - kPrefix.size())] = line.substr(equals + 3);
  }
  std::vector<Tensor> inputs;
  for (const ir::ValueId v : graph.inputs) {
    const auto it = lines.find(graph.values[v].name);
    if (it == lines.end()) return bad("no line '// input " + graph.values[v].name + " = ...'");
    FUSEC_ASSIGN(Tensor input, parse_input(it->second, graph.type(v).dtype));
    inputs.push_back(std::move(input));
  }
  return inputs;
}

std::string summarize(const std::string& name, const Tensor& tensor) {
  constexpr int64_t kAll = 24, kFirst = 8;
  const int64_t count = tensor.num_elements(), shown = count <= kAll ? count : kFirst;
  std::string values;
  for (int64_t i = 0; i < shown; ++i) values += (i == 0 ? "" : ", ") + element_text(tensor, i);
  const Shape shape(tensor.shape().begin(), tensor.shape().end());
  std::string out = fmt::format("{}: {}{} {{{}", name, to_string(tensor.dtype()), to_string(shape), values);
  if (shown == count) return out + "}\n";
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto offset = i * static_cast<int64_t>(size_of(tensor.dtype()));
    const double value = ir::load_double(tensor.dtype(), tensor.as<char>() + offset);
    sum += value;
    squares += value * value;
  }
  const auto n = static_cast<double>(count);
  return out + fmt::format(", ...}} mean {:.6g} rms {:.6g}\n", sum / n, std::sqrt(squares / n));
}

}  // namespace fusec::text_test
