// SPDX-License-Identifier: Apache-2.0
// Attributes in text: {axis = 1, perm = [1, 0], shape = [N, 4], mode = "edge", dtype = f32}.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fusec/status.h"
#include "ir/ops/attr.h"
#include "ir/ops/op.h"
#include "ir/text/lexer.h"

namespace fusec::ir {

struct AttrSpec {
  std::string_view name, kind;  // kinds as in tensor_ops.def
};

// What `op` takes, in print order: the table's attributes, for cast `to`, nothing for other scalar ops.
std::vector<AttrSpec> attr_specs(Op op);
// " {...}", or nothing for no attributes.
std::string print_attrs(Op op, const Attrs& attrs);
// In any order. The braces may be missing; whether all attributes are there is for infer_type to say.
Result<Attrs> parse_attrs(Lexer& lexer, Op op);

}  // namespace fusec::ir
