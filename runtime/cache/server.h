// SPDX-License-Identifier: Apache-2.0
// The cache server: a Redis that machines share kernels and measured times through. A process has one CacheServer per
// address, with one connection, which all of its Engines use while they compile or bind.
// Kernels are programs, and who can reach the server or the network may change what it holds. So each value carries an
// HMAC-SHA256 of its name and bytes under a secret that the machines have in common; all else is left out.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fusec/options.h"
#include "runtime/cache/artifact.h"
#include "runtime/cache/redis.h"
#include "runtime/cache/server_address.h"

namespace fusec::runtime {

// Thread-safe. Nothing here is an error: what cannot be had is absent, and the first fault of the process is told.
// After a fault of the connection the server is left alone for ServerAddress::retry. A server that refuses to be
// written is only read from then on. `warn`: empty where the fault is to be told by a later call.
class CacheServer {
 public:
  // The server of the options; null: none is named, or its address or $FUSEC_CACHE_SECRET cannot be used.
  static std::shared_ptr<CacheServer> find(const Options& options, const Warn& warn);
  // secret: of at least kShortestSecret bytes.
  CacheServer(ServerAddress address, std::string secret);

  static constexpr std::size_t kShortestSecret = 16;

  // "fusec:1:KIND:VERSION:TARGET:HASH": a name on the server. version: of the format of the value; of: what it is for.
  static std::string name(std::string_view kind, uint32_t version, const std::string& target, std::string_view of);

  std::optional<std::vector<uint8_t>> get(const std::string& name, const Warn& warn);
  void put(const std::string& name, std::span<const uint8_t> value, const Warn& warn);
  // Of a table: a name with many values, each with a field of its own.
  std::vector<std::vector<uint8_t>> get_table(const std::string& name, const Warn& warn);
  struct Row {
    std::string field;
    std::vector<uint8_t> value;
  };
  void put_rows(const std::string& name, std::span<const Row> rows, const Warn& warn);
  // A value had the right HMAC and is useless all the same.
  void note_damage(const Warn& warn);

  struct State {
    std::string fault;  // empty: it answers
    int64_t keys = 0;   // in its database, whoever made them
  };
  // Asks it now, whatever happened before.
  State state();
  const ServerAddress& address() const { return address_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  using Command = std::span<const std::string_view>;
  // nullopt: there is no answer, or it is an error of the server.
  std::optional<RedisReply> request(Command command, bool writes, int64_t largest, const Warn& warn);
  // These four are called under mutex_.
  std::optional<RedisReply> request_within(Command command, bool writes, int64_t largest);
  Result<RedisReply> ask(Command command, int64_t largest);
  void note(const std::string& fault);
  std::string take_news(const Warn& warn);

  std::string seal(const std::string& name, std::span<const uint8_t> value) const;
  std::optional<std::vector<uint8_t>> unseal(const std::string& name, const std::string& sealed) const;
  void tell(const std::string& fault, const Warn& warn);

  const ServerAddress address_;
  const std::string secret_;
  std::mutex mutex_;  // of all below
  std::unique_ptr<RedisConnection> connection_;
  int process_ = 0;  // whose connection it is: a child of fork() must not speak on it
  std::optional<Time> closed_until_;
  bool told_ = false, refuses_writes_ = false;
  std::string news_;  // the first fault, until somebody can be told
};

}  // namespace fusec::runtime
