// SPDX-License-Identifier: Apache-2.0
// The builder: values are numbers of Vars, and a mistake that GraphBuilder records is the error of the call.

#include <cstdint>
#include <memory>

#include "bindings/c/builder_ops.h"
#include "bindings/c/json.h"
#include "bindings/c/tensor.h"

namespace fusec::c {
namespace {

// What finish() says last.
Status take_mistake(fusec_builder& handle) {
  const Status all = handle.builder.finish().status();
  const bool first = !handle.failed;
  handle.failed = true;
  if (first || all.notes().empty()) return all;
  return Status(StatusCode::invalid_argument, all.notes().back());
}

// Only an error writes -1: `out` may be one of the arguments.
template <class Make>
fusec_error* add_value(fusec_builder* builder, fusec_value* out, const Make& make) {
  return guarded([&]() -> Status {
    FUSEC_TRY(check_pointer(out, "out"));
    const Result<fusec_value> value = ir::guarded([&]() -> Result<fusec_value> {
      FUSEC_TRY(check_handle(builder, "builder"));
      FUSEC_ASSIGN(const Var var, make());
      if (!var.valid()) return take_mistake(*builder);
      builder->values.push_back(var);
      return static_cast<fusec_value>(builder->values.size() - 1);
    });
    *out = value.ok() ? *value : -1;
    return value.status();
  });
}

Result<DType> read_dtype(const char* text) {
  FUSEC_TRY(check_pointer(text, "dtype"));
  if (const std::optional<DType> dtype = parse_dtype(text)) return *dtype;
  return Status(StatusCode::invalid_argument,
                std::string("parameter 'dtype' is '") + text + "', which is no dtype such as f32, i64 or bool");
}

Result<Var> find_value(const fusec_builder& builder, fusec_value value, const std::string& parameter) {
  if (value >= 0 && static_cast<std::size_t>(value) < builder.values.size()) {
    return builder.values[static_cast<std::size_t>(value)];
  }
  return Status(StatusCode::invalid_argument,
                "parameter '" + parameter + "' is " + std::to_string(value) + ", which is no value of this builder");
}

Result<std::vector<Var>> find_values(const fusec_builder& builder, const fusec_value* args, std::size_t count,
                                     const std::string& parameter) {
  if (count > 0) FUSEC_TRY(check_pointer(args, parameter.c_str()));
  std::vector<Var> vars;
  for (std::size_t i = 0; i < count; ++i) {
    FUSEC_ASSIGN(const Var var, find_value(builder, args[i], parameter + "[" + std::to_string(i) + "]"));
    vars.push_back(var);
  }
  return vars;
}

Result<std::vector<fusec_value>> add_gradients(fusec_builder* builder, fusec_value y, fusec_value dy,
                                               const fusec_value* wrt, std::size_t count) {
  FUSEC_TRY(check_handle(builder, "builder"));
  FUSEC_ASSIGN(const Var result, find_value(*builder, y, "y"));
  FUSEC_ASSIGN(const std::vector<Var> by, find_values(*builder, wrt, count, "wrt"));
  std::vector<Var> made;
  if (dy == -1) {
    made = builder->builder.gradients(result, by);
  } else {
    FUSEC_ASSIGN(const Var scale, find_value(*builder, dy, "dy"));
    made = builder->builder.gradients(result, by, scale);
  }
  if (made.size() != count) return Status::exhausted();
  std::vector<fusec_value> values;
  for (Var var : made) {
    if (!var.valid()) return take_mistake(*builder);
    builder->values.push_back(var);
    values.push_back(static_cast<fusec_value>(builder->values.size() - 1));
  }
  return values;
}

}  // namespace
}  // namespace fusec::c

using namespace fusec::c;
using fusec::Result;
using fusec::Status;
using fusec::Tensor;
using fusec::Var;

fusec_error* fusec_builder_new(fusec_builder** out) {
  return guarded([&]() -> Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    *out = new fusec_builder;
    return {};
  });
}

void fusec_builder_free(fusec_builder* builder) { free_handle(builder, "builder"); }

fusec_error* fusec_builder_input(fusec_builder* builder, const char* name, const char* dtype, const char* shape,
                                 fusec_value* out) {
  return add_value(builder, out, [&]() -> Result<Var> {
    FUSEC_TRY(check_pointer(name, "name"));
    FUSEC_ASSIGN(const fusec::DType type, read_dtype(dtype));
    FUSEC_TRY(check_pointer(shape, "shape"));
    Result<fusec::Shape> extents = parse_extents(shape);
    if (!extents.ok()) {
      return Status(fusec::StatusCode::invalid_argument,
                    std::string("parameter 'shape' is '") + shape + "': " + extents.status().message());
    }
    return builder->builder.input(name, type, std::move(*extents));
  });
}

fusec_error* fusec_builder_range(fusec_builder* builder, const char* symbol, int64_t least, int64_t most) {
  return guarded([&]() -> Status {
    FUSEC_TRY(check_handle(builder, "builder"));
    FUSEC_TRY(check_pointer(symbol, "symbol"));
    return builder->builder.range(symbol, least, most < 0 ? INT64_MAX : most);
  });
}

fusec_error* fusec_builder_scalar(fusec_builder* builder, const char* dtype, double value, fusec_value* out) {
  return add_value(builder, out, [&]() -> Result<Var> {
    FUSEC_ASSIGN(const fusec::DType type, read_dtype(dtype));
    return builder->builder.constant(type, value);
  });
}

fusec_error* fusec_builder_constant(fusec_builder* builder, const fusec_tensor* tensor, fusec_value* out) {
  return add_value(builder, out, [&]() -> Result<Var> {
    FUSEC_TRY(check_pointer(tensor, "tensor"));
    FUSEC_ASSIGN(const Tensor data, copy_to_host(*tensor, "parameter 'tensor'"));
    return builder->builder.constant(data);
  });
}

fusec_error* fusec_builder_weight(fusec_builder* builder, const char* name, const fusec_tensor* tensor,
                                  fusec_value* out) {
  return add_value(builder, out, [&]() -> Result<Var> {
    FUSEC_TRY(check_pointer(name, "name"));
    FUSEC_TRY(check_pointer(tensor, "tensor"));
    FUSEC_ASSIGN(const Tensor data, copy_to_host(*tensor, "parameter 'tensor'"));
    return builder->builder.weight(name, data);
  });
}

fusec_error* fusec_builder_constant_managed(fusec_builder* builder, fusec_managed_tensor* tensor, fusec_value* out) {
  return add_value(builder, out, [&]() -> Result<Var> {
    FUSEC_TRY(check_pointer(tensor, "tensor"));
    FUSEC_ASSIGN(SharedTensor shared, share(*tensor, "parameter 'tensor'", "fusec_builder_constant"));
    const Var var = builder->builder.constant(std::move(shared.tensor));
    if (var.valid()) shared.owner->take(tensor);
    return var;
  });
}

fusec_error* fusec_builder_op(fusec_builder* builder, const char* op, const fusec_value* args, size_t arg_count,
                              const char* attributes, fusec_value* out) {
  return add_value(builder, out, [&]() -> Result<Var> {
    FUSEC_TRY(check_pointer(op, "op"));
    FUSEC_ASSIGN(const std::vector<Var> vars, find_values(*builder, args, arg_count, "args"));
    return build_op(builder->builder, op, vars, attributes == nullptr ? "" : attributes);
  });
}

fusec_error* fusec_builder_gradients(fusec_builder* builder, fusec_value y, fusec_value dy, const fusec_value* wrt,
                                     size_t count, fusec_value* out) {
  return guarded([&]() -> Status {
    if (count > 0) FUSEC_TRY(check_pointer(out, "out"));
    const auto values = fusec::ir::guarded([&] { return add_gradients(builder, y, dy, wrt, count); });
    for (std::size_t i = 0; i < count; ++i) out[i] = values.ok() ? (*values)[i] : -1;
    return values.status();
  });
}

fusec_error* fusec_builder_ops_json(char** out) {
  return guarded([&]() -> Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    JsonWriter json;
    json.open('[');
    for (const BuilderOp& op : builder_ops()) {
      json.open('{').member("op", op.name).member("min_args", op.min_args).member("max_args", op.max_args);
      json.key("attributes").open('[');
      for (const AttributeSpec& spec : parse_specs(op.attributes)) {
        json.open('{').member("name", spec.name).member("kind", spec.kind).member("required", spec.required).close('}');
      }
      json.close(']').close('}');
    }
    return give_json(json.close(']'), out);
  });
}

fusec_error* fusec_builder_value_json(const fusec_builder* builder, fusec_value value, char** out) {
  return guarded([&]() -> Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(builder, "builder"));
    FUSEC_ASSIGN(const Var var, find_value(*builder, value, "value"));
    JsonWriter json;
    json.open('{').member("dtype", to_string(var.dtype())).member("shape", var.shape());
    return give_json(json.close('}'), out);
  });
}

fusec_error* fusec_builder_output(fusec_builder* builder, const char* name, fusec_value value) {
  return guarded([&]() -> Status {
    FUSEC_TRY(check_handle(builder, "builder"));
    FUSEC_TRY(check_pointer(name, "name"));
    FUSEC_ASSIGN(const Var var, find_value(*builder, value, "value"));
    const std::string text = name;
    if (text.empty()) return Status(fusec::StatusCode::invalid_argument, "parameter 'name' is empty");
    if (!builder->outputs.insert(text).second) {
      return Status(fusec::StatusCode::invalid_argument, "two outputs are named '" + text + "'");
    }
    builder->builder.output(text, var);
    return {};
  });
}

fusec_error* fusec_builder_finish(const fusec_builder* builder, fusec_model** out) {
  return guarded([&]() -> Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(builder, "builder"));
    auto model = std::make_unique<fusec_model>();
    FUSEC_ASSIGN(model->model, builder->builder.finish());
    *out = model.release();
    return {};
  });
}
