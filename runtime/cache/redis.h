// SPDX-License-Identifier: Apache-2.0
// A connection to a Redis server, with a limit on all that it may take: time, and bytes of an answer. What the server
// sends is untrusted. hiredis reads and writes the protocol; the socket is served here, because hiredis limits the time
// of a single read alone and may raise SIGPIPE.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/status.h"
#include "runtime/cache/server_address.h"

struct redisReader;

namespace fusec::runtime {

bool has_hiredis();  // built with it

struct RedisReply {
  enum class Kind : uint8_t { nothing, text, number, list, error };
  Kind kind = Kind::nothing;
  std::string text;  // also of an error
  int64_t number = 0;
  std::vector<std::string> list;  // of texts
};

// Not thread-safe. Every fault is a Status of code `cache` and ends the connection, which is then of no more use.
class RedisConnection {
 public:
  static constexpr std::chrono::milliseconds kConnectTime{
      200};  // without the look-up of a name, which the system times
  static constexpr std::chrono::milliseconds kCommandTime{500};

  // Connects, logs in and selects the database. unsupported: built without hiredis.
  static Result<std::unique_ptr<RedisConnection>> open(const ServerAddress& address);
  RedisConnection(const RedisConnection&) = delete;
  RedisConnection& operator=(const RedisConnection&) = delete;
  ~RedisConnection();

  // Sends one command and waits for its answer, which may be an error of the server. The answer has at most `largest`
  // bytes.
  Result<RedisReply> ask(std::span<const std::string_view> command, int64_t largest);
  // Whether the server ended the connection, as it does with idle ones, before the answer to the last command began.
  bool was_closed() const { return was_closed_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  explicit RedisConnection(int socket);
  Status log_in(const ServerAddress& address);
  Status send_all(std::string_view bytes, Time end);
  Status receive(int64_t& left, Time end);

  int socket_ = -1;
  bool was_closed_ = false;
  redisReader* reader_ = nullptr;
};

}  // namespace fusec::runtime
