// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/fake_redis.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>

namespace fusec::runtime {
namespace {

// The first whole command of `bytes`, which loses it.
std::optional<FakeRedis::Words> take_command(std::string& bytes) {
  std::size_t at = 0;
  const auto number = [&]() -> std::optional<std::size_t> {
    const std::size_t end = bytes.find("\r\n", at);
    if (end == std::string::npos) return std::nullopt;
    const std::size_t value = std::stoul(bytes.substr(at + 1, end - at - 1));
    at = end + 2;
    return value;
  };
  const std::optional<std::size_t> count = number();
  FakeRedis::Words words;
  for (std::size_t i = 0; count && i < *count; ++i) {
    const std::optional<std::size_t> size = number();
    if (!size || bytes.size() < at + *size + 2) return std::nullopt;
    words.push_back(bytes.substr(at, *size));
    at += *size + 2;
  }
  if (!count) return std::nullopt;
  bytes.erase(0, at);
  return words;
}

bool is_readable(int socket, int milliseconds) {
  pollfd item{socket, POLLIN, 0};
  return poll(&item, 1, milliseconds) > 0;
}

int listen_at(const sockaddr* at, socklen_t size) {
  const int listener = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (bind(listener, at, size) != 0 || listen(listener, 16) != 0) abort();
  return listener;
}

}  // namespace

std::string bulk(const std::string& text) { return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"; }

FakeRedis::FakeRedis(Answer answer, std::chrono::milliseconds pause) : answer_(std::move(answer)), pause_(pause) {
  folder_ = (std::filesystem::temp_directory_path() / "fusec-redis-XXXXXX").string();
  if (mkdtemp(folder_.data()) == nullptr) abort();
  path_ = folder_ + "/sock";
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::memcpy(at.sun_path, path_.data(), path_.size());
  listener_ = listen_at(reinterpret_cast<const sockaddr*>(&at), sizeof at);
  sockaddr_in port{};
  port.sin_family = AF_INET;
  port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  port_listener_ = listen_at(reinterpret_cast<const sockaddr*>(&port), sizeof port);
  socklen_t size = sizeof port;
  if (getsockname(port_listener_, reinterpret_cast<sockaddr*>(&port), &size) != 0) abort();
  port_ = ntohs(port.sin_port);
  server_ = std::thread([this] { serve(); });
}

FakeRedis::~FakeRedis() {
  stopping_ = true;
  server_.join();
  for (std::thread& talk : talks_) talk.join();
  (void)close(listener_);
  (void)close(port_listener_);
  std::filesystem::remove_all(folder_);
}

void FakeRedis::serve() {
  while (!stopping_) {
    accept_from(listener_);
    accept_from(port_listener_);
  }
}

void FakeRedis::accept_from(int listener) {
  if (!is_readable(listener, 5)) return;
  const int connection = accept(listener, nullptr, nullptr);
  if (connection < 0) return;
  ++connections_;
  {
    const std::lock_guard lock(mutex_);
    open_.push_back(connection);
  }
  talks_.emplace_back([this, connection] { talk(connection); });
}

void FakeRedis::talk(int connection) {
  std::string got;
  bool is_open = true;
  while (is_open && !stopping_) {
    if (!is_readable(connection, 20)) continue;
    char piece[4096];
    const ssize_t bytes = recv(connection, piece, sizeof piece, 0);
    if (bytes <= 0) break;
    got.append(piece, static_cast<std::size_t>(bytes));
    while (std::optional<Words> words = take_command(got)) {
      {
        const std::lock_guard lock(mutex_);
        commands_.push_back(*words);
      }
      std::string answer = answer_(*this, *words);
      is_open = answer.empty() || answer[0] != kThenClose;
      if (!is_open) answer.erase(0, 1);
      say(connection, answer);
    }
  }
  const std::lock_guard lock(mutex_);
  std::erase(open_, connection);
  (void)close(connection);
}

void FakeRedis::say(int connection, const std::string& answer) const {
  const std::size_t piece = pause_.count() > 0 ? 1 : answer.size();
  for (std::size_t at = 0; at < answer.size() && !stopping_; at += piece) {
    (void)send(connection, answer.data() + at, piece, MSG_NOSIGNAL);
    std::this_thread::sleep_for(pause_);
  }
}

void FakeRedis::drop_connections() {
  const std::lock_guard lock(mutex_);
  for (const int connection : open_) (void)shutdown(connection, SHUT_RDWR);
}

std::string FakeRedis::obey(const Words& words) {
  const std::lock_guard lock(mutex_);
  const std::string& name = words[0];
  if (name == "GET") {
    const auto it = texts_.find(words[1]);
    return it == texts_.end() ? "$-1\r\n" : bulk(it->second);
  }
  if (name == "HVALS") {
    std::string answer = "*" + std::to_string(tables_[words[1]].size()) + "\r\n";
    for (const auto& [field, value] : tables_[words[1]]) answer += bulk(value);
    return answer;
  }
  if (name == "HSET") {
    for (std::size_t i = 2; i + 1 < words.size(); i += 2) tables_[words[1]][words[i]] = words[i + 1];
    return ":1\r\n";
  }
  if (name == "SET") texts_[words[1]] = words[2];
  return name == "EXPIRE" ? ":1\r\n" : "+OK\r\n";
}

std::vector<FakeRedis::Words> FakeRedis::commands() const {
  const std::lock_guard lock(mutex_);
  return commands_;
}

std::map<std::string, std::string> FakeRedis::values() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> all = texts_;
  for (const auto& [name, table] : tables_)
    for (const auto& [field, value] : table) all[name + " " + field] = value;
  return all;
}

void FakeRedis::set_value(const std::string& name, const std::string& value) {
  const std::lock_guard lock(mutex_);
  const std::size_t space = name.find(' ');
  (space == std::string::npos ? texts_[name] : tables_[name.substr(0, space)][name.substr(space + 1)]) = value;
}

}  // namespace fusec::runtime
