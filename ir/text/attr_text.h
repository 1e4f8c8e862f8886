// SPDX-License-Identifier: Apache-2.0
// Attributes as text: {axis = 1, perm = [1, 0], shape = [N, 4], mode = "edge", dtype = f32}.
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

// The attributes of `op`, in print order: those of the op table; `to` for cast; none for other scalar ops.
std::vector<AttrSpec> attr_specs(Op op);
// " {...}", or nothing if there are no attributes.
std::string print_attrs(Op op, const Attrs& attrs);
// Parses attributes in any order. The braces may be missing. infer_type checks whether all attributes are present.
Result<Attrs> parse_attrs(Lexer& lexer, Op op);

}  // namespace fusec::ir
