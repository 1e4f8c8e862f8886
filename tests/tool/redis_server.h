// SPDX-License-Identifier: Apache-2.0
// A redis-server of the system that holds its data in memory and listens on a socket of a folder alone.
#pragma once

#include <sys/types.h>

#include <string>

namespace fusec::tool_test {

class RedisServer {
 public:
  // Makes the folder and waits until the server listens.
  explicit RedisServer(const std::string& folder);
  ~RedisServer() { stop(); }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  bool is_running() const { return process_ > 0; }  // false: it is not installed
  std::string address() const { return "unix://" + socket_; }
  void stop();

 private:
  std::string socket_;
  pid_t process_ = -1;
};

}  // namespace fusec::tool_test
