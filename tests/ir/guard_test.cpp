// SPDX-License-Identifier: Apache-2.0
// What exceptions become.
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <type_traits>

#include "fusec/dim.h"
#include "ir/support/check.h"

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

struct Odd : std::exception {
  const char* what() const noexcept override { return "unexpected"; }
};

TEST(Guard, NotesThatCannotBeMadeAreLeftOut) {
  const auto no_memory = []() -> std::string { throw std::bad_alloc(); };
  const auto fails = []() -> Result<int> { throw Odd(); };
  EXPECT_EQ(guarded_with_note(fails, [] { return std::string("here"); }).status().str(),
            "internal: unexpected exception: unexpected; here");
  EXPECT_EQ(guarded_with_note(fails, no_memory).status().str(), "internal: unexpected exception: unexpected");
  EXPECT_EQ(guarded_with_note([]() -> Status { throw std::bad_alloc(); }, no_memory).str(),
            "out_of_memory: host memory is exhausted");
  EXPECT_TRUE(guarded_with_note([] { return Status(); }, no_memory).ok());
}

static_assert(std::is_nothrow_copy_constructible_v<Status> && std::is_nothrow_move_assignable_v<Status>);
static_assert(std::is_nothrow_move_constructible_v<Result<int>>);

TEST(Status, CopiesShareTheirTextAndNotesStayApart) {
  const Status first(StatusCode::unsupported, "no rule for op 'Foo'");
  const Status noted = Status(first).with_note("here").with_note("there");
  EXPECT_EQ(first.str(), "unsupported: no rule for op 'Foo'");
  EXPECT_EQ(noted.str(), "unsupported: no rule for op 'Foo'; here; there");
  EXPECT_EQ(Status().str(), "ok");
  EXPECT_EQ(Status::exhausted().with_note("here").str(), "out_of_memory: host memory is exhausted; here");
}

}  // namespace
}  // namespace fusec::ir
