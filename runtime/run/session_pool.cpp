// SPDX-License-Identifier: Apache-2.0
// Implements SessionPool.

#include "fusec/session_pool.h"

#include <utility>

#include "ir/support/check.h"
#include "runtime/threads/lending.h"

namespace fusec {

struct SessionPool::State {
  State(const Engine& e, std::size_t size) : engine(e), sessions(size) {}
  Engine engine;
  runtime::Lending<Session> sessions;
};

struct SessionPool::Lease::Held {
  std::shared_ptr<State> pool;
  std::unique_ptr<Session> session = nullptr;
  ~Held() {
    if (session != nullptr) pool->sessions.give_back(std::move(session));
  }
};

SessionPool::SessionPool(std::shared_ptr<State> state) : state_(std::move(state)) {}
SessionPool::Lease::Lease(std::unique_ptr<Held> held) : held_(std::move(held)) {}
SessionPool::Lease::Lease(Lease&&) noexcept = default;
SessionPool::Lease& SessionPool::Lease::operator=(Lease&&) noexcept = default;
SessionPool::Lease::~Lease() = default;
Session& SessionPool::Lease::operator*() const { return *held_->session; }

Result<SessionPool> SessionPool::create(const Engine& engine, std::size_t size) noexcept {
  return ir::guarded([&]() -> Result<SessionPool> {
    if (size == 0) return Status(StatusCode::invalid_argument, "a pool needs at least one session");
    return SessionPool(std::make_shared<State>(engine, size));
  });
}

Result<SessionPool::Lease> SessionPool::acquire() const noexcept {
  return ir::guarded([&]() -> Result<Lease> {
    auto held = std::make_unique<Lease::Held>(state_);
    const auto make = [&]() -> Result<std::unique_ptr<Session>> {
      FUSEC_ASSIGN(Session session, Session::create(state_->engine));
      return std::make_unique<Session>(std::move(session));
    };
    FUSEC_ASSIGN(held->session, state_->sessions.take(make));
    return Lease(std::move(held));
  });
}

std::size_t SessionPool::size() const { return state_->sessions.size(); }
std::size_t SessionPool::idle() const { return state_->sessions.idle(); }

}  // namespace fusec
