// SPDX-License-Identifier: Apache-2.0
// What exceptions become.
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "fusec/dim.h"
#include "ir/support/check.h"
#include "ir/support/guard.h"

namespace fusec::ir {
namespace {

template <class Exception>
std::string becomes(const Exception& exception, const ExceptionCodes& codes = {}) {
  return guarded([&]() -> Status { throw exception; }, codes).str();
}

TEST(Guard, EveryExceptionIsAStatus) {
  const ExceptionCodes of_a_model = {.overflow = StatusCode::invalid_model, .other = StatusCode::invalid_model};
  EXPECT_EQ(becomes(InternalError("a.cpp:1: check failed")), "internal: a.cpp:1: check failed");
  EXPECT_EQ(becomes(InternalError("a.cpp:1: check failed"), of_a_model), "internal: a.cpp:1: check failed");
  EXPECT_EQ(becomes(DimOverflow()), "invalid_argument: extent arithmetic overflows 64 bits");
  EXPECT_EQ(becomes(DimOverflow(), of_a_model), "invalid_model: extent arithmetic overflows 64 bits");
  EXPECT_EQ(becomes(std::bad_alloc()), "out_of_memory: host memory is exhausted");
  EXPECT_EQ(becomes(std::runtime_error("odd")), "internal: unexpected exception: odd");
  EXPECT_EQ(becomes(std::runtime_error("odd"), of_a_model), "invalid_model: odd");
  EXPECT_EQ(becomes(7), "internal: unexpected exception");
  EXPECT_EQ(guarded([]() -> Result<int> { return 7; }).value(), 7);
}

}  // namespace
}  // namespace fusec::ir
