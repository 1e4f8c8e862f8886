// SPDX-License-Identifier: Apache-2.0
// From --shape and --input to shapes and tensors.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/model.h"
#include "fusec/status.h"
#include "fusec/tensor.h"
#include "runtime/tool/common.h"

namespace fusec::tool {

struct Assignment {
  std::string name, value;
};
// "a=b=c" is a=b and c: names of inputs may hold '='. invalid_argument, naming `flag`, for anything else.
Result<Assignment> parse_assignment(const std::string& flag, const std::string& text);

// What one input is filled with.
struct InputSpec {
  enum class Kind { random, zeros, ones, file };
  Kind kind = Kind::random;
  uint64_t seed = 0;
  Tensor data;  // of a file
};

// What the command line says of shapes and contents; files are read.
struct Request {
  std::map<std::string, TensorShape> shapes;  // by input
  Symbols symbols;
  std::map<std::string, InputSpec> inputs;
  uint64_t sample = 0;  // of several fillings by the same seeds
};
// Whether another sample has other contents.
bool has_random_inputs(const Model& model, const Request& request);
// invalid_argument for names that the model lacks and for values that do not parse.
Result<Request> parse_request(const Model& model, const ModelFlags& flags);

// Those of --shape's texts that name an input or a symbol of the model: one command line serves several models.
std::vector<std::string> shapes_of(const Model& model, const std::vector<std::string>& shapes);

// The symbols as the request gives them, where it does not 1, or what of their ranges is next to it; `batch` > 0: the
// symbol that batch_symbol names. invalid_argument for values out of range.
Result<Symbols> solve_symbols(const Model& model, const Request& request, int64_t batch = 0);
// The symbol of the first axis of the first input that has one there; invalid_argument if none has.
Result<std::string> batch_symbol(const Model& model);
Result<std::vector<TensorShape>> input_shapes(const Model& model, const Symbols& symbols);

// Floats are standard normal, bools fair, integers that reach an index operand uniform over its axis, others 0 ... 9.
// Inputs of one seed differ from each other.
Result<std::vector<Tensor>> make_inputs(const Model& model, const Request& request, const Symbols& symbols);

}  // namespace fusec::tool
