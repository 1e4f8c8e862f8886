// SPDX-License-Identifier: Apache-2.0
#include "runtime/guard.h"

#include <exception>
#include <new>

#include "fusec/dim.h"
#include "ir/support/check.h"

namespace fusec::runtime {

Status status_of_exception() {
  try {
    throw;
  } catch (const ir::InternalError& e) {
    return Status(StatusCode::internal, e.what());
  } catch (const DimOverflow& e) {
    return Status(StatusCode::invalid_argument, e.what());
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::out_of_memory, "host memory is exhausted");
  } catch (const std::exception& e) {
    return Status(StatusCode::internal, std::string("unexpected exception: ") + e.what());
  } catch (...) {
    return Status(StatusCode::internal, "unexpected exception");
  }
}

}  // namespace fusec::runtime
