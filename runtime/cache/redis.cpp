// SPDX-License-Identifier: Apache-2.0
// Implements the connection to a Redis server. The one place that knows hiredis; a build without it answers
// `unsupported`.

#include "runtime/cache/redis.h"

#if FUSEC_WITH_HIREDIS

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

namespace fusec::runtime {
namespace {

using RedisClock = std::chrono::steady_clock;

constexpr int64_t kMaxListed = 200'000;                    // rows of a table
constexpr int64_t kLargestAnswer = 4096;                   // bytes of an answer that has no value
constexpr std::size_t kReadBytes = std::size_t{64} << 10;  // bytes of one read
constexpr std::size_t kShownBytes = 100;                   // of the server, in an error

Status server_fault(const std::string& text) { return Status(StatusCode::cache, text); }
Status server_errno(const std::string& text, int error) { return server_fault(text + ": " + std::strerror(error)); }

// Answers are texts, numbers and lists of these. A list within a list, or one that is too long, is refused before there
// is memory for it: hiredis then says that there is none.
void limit_lists(redisReader& reader) {
  static const redisReplyObjectFunctions usual = *reader.fn;
  static redisReplyObjectFunctions limited = [] {
    redisReplyObjectFunctions functions = usual;
    functions.createArray = [](const redisReadTask* task, auto count) -> void* {
      if (task->parent != nullptr || static_cast<int64_t>(count) > kMaxListed) return nullptr;
      return usual.createArray(task, count);
    };
    return functions;
  }();
  reader.fn = &limited;
}

// Waits until the socket can be read or written.
Status wait_for(int socket, short events, RedisClock::time_point end, const char* what) {
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - RedisClock::now()).count();
    pollfd item{socket, events, 0};
    const int ready = left > 0 ? poll(&item, 1, static_cast<int>(left)) : 0;
    if (ready > 0) return {};
    if (ready == 0) return server_fault(std::string(what) + " took too long");
    if (errno != EINTR) return server_errno("cannot wait for it", errno);
  }
}

// Of texts of a server that go to a terminal.
std::string printable(std::string_view text) {
  std::string out(text.substr(0, kShownBytes));
  for (char& c : out) c = c >= ' ' && c <= '~' ? c : '?';
  return out;
}

// Its socket, connected, or the fault of the last address that was tried.
Result<int> connect_to(const sockaddr* to, socklen_t bytes, int family, RedisClock::time_point end) {
  const int made = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (made < 0) return server_errno("cannot make a socket", errno);
  const Status status = [&]() -> Status {
    if (connect(made, to, bytes) == 0) return {};
    if (errno != EINPROGRESS) return server_errno("cannot connect", errno);
    FUSEC_TRY(wait_for(made, POLLOUT, end, "connecting"));
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(made, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    return error == 0 ? Status() : server_errno("cannot connect", error);
  }();
  if (status.ok()) return made;
  (void)close(made);
  return status;
}

Result<int> connect_to_socket(const std::string& path, RedisClock::time_point end) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  if (path.size() >= sizeof to.sun_path) return server_fault("the path of the socket is too long");
  std::memcpy(to.sun_path, path.data(), path.size());
  return connect_to(reinterpret_cast<const sockaddr*>(&to), sizeof to, AF_UNIX, end);
}

Result<int> connect_to_host(const ServerAddress& address) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  if (const int error = getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found); error != 0)
    return server_fault(std::string("the host is not found: ") + gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, freeaddrinfo);
  const RedisClock::time_point end = RedisClock::now() + RedisConnection::kConnectTime;
  Result<int> connected = server_fault("the host has no address");
  for (const addrinfo* one = found; one != nullptr && !connected.ok(); one = one->ai_next)
    connected = connect_to(one->ai_addr, one->ai_addrlen, one->ai_family, end);
  if (!connected.ok()) return connected;
  const int yes = 1;
  (void)setsockopt(*connected, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return connected;
}

Result<RedisReply> convert_reply(const redisReply& from) {
  RedisReply to;
  switch (from.type) {
    case REDIS_REPLY_NIL:
      return to;
    case REDIS_REPLY_INTEGER:
      to.kind = RedisReply::Kind::number, to.number = from.integer;
      return to;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
      to.kind = RedisReply::Kind::text, to.text.assign(from.str, from.len);
      return to;
    case REDIS_REPLY_ERROR:
      to.kind = RedisReply::Kind::error, to.text = printable({from.str, from.len});
      return to;
    case REDIS_REPLY_ARRAY:
      break;
    default:
      return server_fault("its answer is of an unknown kind");
  }
  to.kind = RedisReply::Kind::list;
  for (std::size_t i = 0; i < from.elements; ++i) {
    if (from.element[i] == nullptr || from.element[i]->type != REDIS_REPLY_STRING)
      return server_fault("its answer is a list of something else than texts");
    to.list.emplace_back(from.element[i]->str, from.element[i]->len);
  }
  return to;
}

// The command as bytes of the protocol.
Result<std::string> format_command(std::span<const std::string_view> command) {
  std::vector<const char*> words;
  std::vector<std::size_t> lengths;
  for (const std::string_view word : command) words.push_back(word.data()), lengths.push_back(word.size());
  char* bytes = nullptr;
  const auto length = redisFormatCommandArgv(&bytes, static_cast<int>(words.size()), words.data(), lengths.data());
  const std::unique_ptr<char, decltype(&redisFreeCommand)> owner(bytes, redisFreeCommand);
  if (length < 0) throw std::bad_alloc();
  return std::string(bytes, static_cast<std::size_t>(length));
}

}  // namespace

bool has_hiredis() { return true; }

RedisConnection::RedisConnection(int socket) : socket_(socket), reader_(redisReaderCreate()) {
  if (reader_ != nullptr) limit_lists(*reader_);
}

RedisConnection::~RedisConnection() {
  if (reader_ != nullptr) redisReaderFree(reader_);
  (void)close(socket_);
}

Result<std::unique_ptr<RedisConnection>> RedisConnection::open(const ServerAddress& address) {
  FUSEC_ASSIGN(const int socket, address.socket.empty()
                                     ? connect_to_host(address)
                                     : connect_to_socket(address.socket, RedisClock::now() + kConnectTime));
  std::unique_ptr<RedisConnection> made(new RedisConnection(socket));
  if (made->reader_ == nullptr) return server_fault("there is no memory for its answers");
  FUSEC_TRY(made->log_in(address));
  return made;
}

Status RedisConnection::log_in(const ServerAddress& address) {
  const auto order = [&](std::initializer_list<std::string_view> command) -> Status {
    FUSEC_ASSIGN(const RedisReply reply, ask(std::span(command.begin(), command.size()), kLargestAnswer));
    if (reply.kind == RedisReply::Kind::error) return server_fault("it refuses the login: " + reply.text);
    return {};
  };
  if (!address.password.empty()) {
    FUSEC_TRY(address.user.empty() ? order({"AUTH", address.password})
                                   : order({"AUTH", address.user, address.password}));
  }
  return address.database == 0 ? Status() : order({"SELECT", std::to_string(address.database)});
}

Status RedisConnection::send_all(std::string_view bytes, Time end) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      FUSEC_TRY(wait_for(socket_, POLLOUT, end, "sending a command"));
    } else if (errno != EINTR) {
      was_closed_ = errno == EPIPE || errno == ECONNRESET;
      return server_errno("cannot send a command", errno);
    }
  }
  return {};
}

// Gives the next bytes to the reader, but no more than are `left`.
Status RedisConnection::receive(int64_t& left, Time end) {
  if (left <= 0) return server_fault("its answer is too large");
  FUSEC_TRY(wait_for(socket_, POLLIN, end, "its answer"));
  char piece[kReadBytes];
  const ssize_t got = recv(socket_, piece, std::min<std::size_t>(sizeof piece, static_cast<std::size_t>(left)), 0);
  if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) return {};
  if (got <= 0) {
    was_closed_ = reader_->len == 0 && (got == 0 || errno == ECONNRESET);
    return got == 0 ? server_fault("it ended the connection") : server_errno("cannot read its answer", errno);
  }
  left -= got;
  return redisReaderFeed(reader_, piece, static_cast<std::size_t>(got)) == REDIS_OK
             ? Status()
             : server_fault("there is no memory for its answer");
}

Result<RedisReply> RedisConnection::ask(std::span<const std::string_view> command, int64_t largest) {
  const Time end = RedisClock::now() + kCommandTime;
  FUSEC_ASSIGN(const std::string bytes, format_command(command));
  FUSEC_TRY(send_all(bytes, end));
  int64_t left = largest + kLargestAnswer;
  for (;;) {
    void* answer = nullptr;
    if (redisReaderGetReply(reader_, &answer) != REDIS_OK) return server_fault("its answer is none of Redis");
    if (answer != nullptr) {
      const std::unique_ptr<void, decltype(&freeReplyObject)> owner(answer, freeReplyObject);
      return convert_reply(*static_cast<const redisReply*>(answer));
    }
    FUSEC_TRY(receive(left, end));
  }
}

}  // namespace fusec::runtime

#else

namespace fusec::runtime {

bool has_hiredis() { return false; }

RedisConnection::RedisConnection(int socket) : socket_(socket) {}
RedisConnection::~RedisConnection() = default;

Result<std::unique_ptr<RedisConnection>> RedisConnection::open(const ServerAddress&) {
  return Status(StatusCode::unsupported,
                "this fusec was built without hiredis: install libhiredis-dev and build it again");
}

Result<RedisReply> RedisConnection::ask(std::span<const std::string_view>, int64_t) {
  return Status(StatusCode::unsupported, "this fusec was built without hiredis");
}

}  // namespace fusec::runtime

#endif
