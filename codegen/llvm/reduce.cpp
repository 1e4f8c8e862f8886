// SPDX-License-Identifier: Apache-2.0
#include "codegen/llvm/writer.h"

namespace fusec::codegen {

void write_reduce(Writer&, const ir::Reduce&) { throw Inexpressible("reduce"); }
void write_scan(Writer&, const ir::Scan&) { throw Inexpressible("scan"); }

}  // namespace fusec::codegen
