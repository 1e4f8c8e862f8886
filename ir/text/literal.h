// SPDX-License-Identifier: Apache-2.0
// Numbers as text: every element of every dtype survives printing and parsing bit by bit.
#pragma once

#include <string>

#include "fusec/dtype.h"
#include "fusec/status.h"
#include "ir/text/lexer.h"

namespace fusec::ir {

// The shortest decimal that reads back as the same value; "inf", "-0", "nan", and "nan(0x7fc00001)" for NaNs other than
// the usual quiet one. Integers in decimal; true and false.
std::string literal(DType dtype, const void* element);
std::string literal(double value);

// Reads one literal into `element`. A float literal is rounded to nearest even; an integer must fit.
Status parse_literal(Lexer& lexer, DType dtype, void* element);
Result<double> parse_float(Lexer& lexer);

}  // namespace fusec::ir
