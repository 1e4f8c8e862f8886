// SPDX-License-Identifier: Apache-2.0
// What the passes that write composites out ask of the target's libraries.

#include <algorithm>

#include "compiler/passes/passes.h"

namespace fusec::compiler {

bool is_computed_by_library(const PassContext& context,
                            const std::function<bool(const ir::LibraryCapabilities&)>& computes) {
  const std::vector<const ir::LibraryCapabilities*> libraries = ir::libraries_of(context.target);
  return std::any_of(libraries.begin(), libraries.end(), [&](const ir::LibraryCapabilities* library) {
    return (library->is_built_in || context.options.use_library) && computes(*library);
  });
}

bool is_library_product(const PassContext& context, DType dtype) {
  return is_computed_by_library(context, [&](const ir::LibraryCapabilities& library) {
    return !unsupported_reason(library, ir::TensorOp::matmul, compute_type(dtype));
  });
}

}  // namespace fusec::compiler
