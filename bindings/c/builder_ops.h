// SPDX-License-Identifier: Apache-2.0
// The ops that fusec_builder_op takes: a row per method of GraphBuilder, and the scalar ops.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "bindings/c/attributes.h"
#include "fusec/graph_builder.h"

namespace fusec::c {

struct BuilderOp {
  std::string_view name;
  int min_args, max_args;       // -1: any
  std::string_view attributes;  // as parse_specs reads them
  Var (*build)(GraphBuilder& builder, std::span<const Var> args, const Attributes& attributes);  // null: apply
};

std::vector<BuilderOp> builder_ops();

// The Var is invalid where the builder recorded a mistake. invalid_argument: the op is unknown, or takes other
// arguments or attributes.
Result<Var> build_op(GraphBuilder& builder, std::string_view op, std::span<const Var> args,
                     std::string_view attributes);

}  // namespace fusec::c
