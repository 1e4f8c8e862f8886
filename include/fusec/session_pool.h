// SPDX-License-Identifier: Apache-2.0
// SessionPool: Sessions of one Engine for hosts that call from many threads.
#pragma once

#include <cstddef>
#include <memory>

#include "fusec/engine.h"
#include "fusec/export.h"
#include "fusec/session.h"
#include "fusec/status.h"

namespace fusec {

// Any thread may acquire and release. Copies share the pool.
class FUSEC_API SessionPool {
 public:
  // At most `size` Sessions, at least 1, which are made when they are first needed.
  static Result<SessionPool> create(const Engine& engine, std::size_t size) noexcept;

  // A Session for the calling thread, by preference the one that was released last; it goes back when the Lease ends.
  class FUSEC_API Lease {
   public:
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();
    Session& operator*() const;
    Session* operator->() const { return &**this; }

   private:
    friend class SessionPool;
    struct Held;
    explicit Lease(std::unique_ptr<Held> held);
    std::unique_ptr<Held> held_;
  };
  // Waits while all Sessions are out. Errors: as of Session::create.
  Result<Lease> acquire() const noexcept;

  std::size_t size() const;  // at most
  std::size_t idle() const;  // Sessions that are made and not out

 private:
  struct State;
  explicit SessionPool(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace fusec
