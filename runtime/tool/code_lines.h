// SPDX-License-Identifier: Apache-2.0
// Puts the lines of a kernel's text between the instructions that are made of them, for `fusec emit --lines`.
#pragma once

#include <string>

#include "runtime/tool/kernel_code.h"

namespace fusec::tool {

// `code` has marks: debug locations of LLVM IR, .loc of assembly and PTX, what nvdisasm -g writes. Each gives way to a
// comment, "# 3: v0: f32 = load x[i0]", where the line is another one than before. Other code is returned as it is.
std::string with_kernel_lines(const std::string& code, const std::string& kernel, CodeForm form);

}  // namespace fusec::tool
