// SPDX-License-Identifier: Apache-2.0
// Pools of session handles, which keep what fusec_session_run_raw has seen.

#include <memory>

#include "bindings/c/error.h"

using namespace fusec::c;

fusec_error* fusec_session_pool_new(const fusec_engine* engine, size_t size, fusec_session_pool** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(engine, "engine"));
    if (size == 0)
      return fusec::Status(fusec::StatusCode::invalid_argument, "parameter 'size' is 0; a pool needs a session");
    *out = new fusec_session_pool(engine->engine, size);
    return {};
  });
}

void fusec_session_pool_free(fusec_session_pool* pool) { free_handle(pool, "pool"); }

fusec_error* fusec_session_pool_acquire(fusec_session_pool* pool, fusec_session** out) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_pointer(out, "out"));
    *out = nullptr;
    FUSEC_TRY(check_handle(pool, "pool"));
    const auto make = [&]() -> fusec::Result<std::unique_ptr<fusec_session>> {
      FUSEC_ASSIGN(fusec::Session session, fusec::Session::create(pool->engine));
      auto handle = std::make_unique<fusec_session>(std::move(session));
      handle->pool = pool;
      return handle;
    };
    FUSEC_ASSIGN(std::unique_ptr<fusec_session> session, pool->sessions.take(make));
    *out = session.release();
    return {};
  });
}

fusec_error* fusec_session_pool_release(fusec_session_pool* pool, fusec_session* session) {
  return guarded([&]() -> fusec::Status {
    FUSEC_TRY(check_handle(pool, "pool"));
    FUSEC_TRY(check_handle(session, "session"));
    if (session->pool != pool) {
      return fusec::Status(fusec::StatusCode::invalid_argument, "parameter 'session' was not acquired from this pool");
    }
    pool->sessions.give_back(std::unique_ptr<fusec_session>(session));
    return {};
  });
}
