// SPDX-License-Identifier: Apache-2.0
// A server on a socket of a temporary folder, and on a port of this machine, that speaks as much of Redis as a cache
// server is asked, or what a test has it say.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace fusec::runtime {

class FakeRedis {
 public:
  using Words = std::vector<std::string>;
  // The bytes of an answer; what begins with kThenClose is sent without it, and the connection ended.
  using Answer = std::function<std::string(FakeRedis&, const Words&)>;
  static constexpr char kThenClose = '\x01';

  FakeRedis() : FakeRedis([](FakeRedis& self, const Words& words) { return self.obey(words); }) {}
  // pause: between two bytes of an answer.
  explicit FakeRedis(Answer answer, std::chrono::milliseconds pause = {});
  ~FakeRedis();
  FakeRedis(const FakeRedis&) = delete;
  FakeRedis& operator=(const FakeRedis&) = delete;

  std::string address(const std::string& parameters = "") const { return "unix://" + path_ + parameters; }
  std::string port_address() const { return "redis://127.0.0.1:" + std::to_string(port_); }
  std::string obey(const Words& words);
  void drop_connections();
  int connections() const { return connections_; }
  std::vector<Words> commands() const;
  // What it holds: texts, and texts of tables by "NAME FIELD".
  std::map<std::string, std::string> values() const;
  void set_value(const std::string& name, const std::string& value);

 private:
  void serve();
  void accept_from(int listener);
  void talk(int connection);
  void say(int connection, const std::string& answer) const;

  Answer answer_;
  std::chrono::milliseconds pause_;
  std::string folder_, path_;
  int listener_ = -1, port_listener_ = -1, port_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  mutable std::mutex mutex_;
  std::vector<Words> commands_;
  std::map<std::string, std::string> texts_;
  std::map<std::string, std::map<std::string, std::string>> tables_;
  std::vector<int> open_;
  std::vector<std::thread> talks_;
  std::thread server_;
};

// A text as Redis sends it.
std::string bulk(const std::string& text);

}  // namespace fusec::runtime
