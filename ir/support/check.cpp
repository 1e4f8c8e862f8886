// SPDX-License-Identifier: Apache-2.0
// Maps the exception being handled to a Status, at the public entry points. If describing it fails for lack of memory,
// the status is out_of_memory.

#include "ir/support/check.h"

#include <exception>
#include <new>

#include "fusec/dim.h"

namespace fusec::ir {
namespace {

// May run out of memory while building the text.
Status describe_exception(const ExceptionCodes& codes) {
  try {
    throw;
  } catch (const InternalError& e) {
    return Status(StatusCode::internal, e.what());
  } catch (const DimOverflow& e) {
    return Status(codes.overflow, e.what());
  } catch (const std::bad_alloc&) {
    return Status::exhausted();
  } catch (const std::exception& e) {
    return Status(codes.other,
                  codes.other == StatusCode::internal ? std::string("unexpected exception: ") + e.what() : e.what());
  } catch (...) {
    return Status(codes.other, "unexpected exception");
  }
}

}  // namespace

Status status_of_exception(const ExceptionCodes& codes) noexcept {
  try {
    return describe_exception(codes);
  } catch (...) {
    return Status::exhausted();
  }
}

}  // namespace fusec::ir
