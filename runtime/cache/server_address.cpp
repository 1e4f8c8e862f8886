// SPDX-License-Identifier: Apache-2.0
// Parses the address of a cache server. No error repeats the text, because it may hold a password.

#include "runtime/cache/server_address.h"

#include <sys/un.h>

#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

namespace fusec::runtime {
namespace {

constexpr std::string_view kHosts = "redis://", kSockets = "unix://";
constexpr int64_t kLongestTime = int64_t{10} * 365 * 86400;  // seconds of a time
constexpr int64_t kSmallestValue = 4096,
                  kLargestValue = int64_t{512} << 20;  // bytes of a value; Redis has no larger ones
constexpr int64_t kLastDatabase = 65535;
constexpr std::size_t kLongestSocket = sizeof(sockaddr_un::sun_path) - 1;

Status address_fault(const std::string& text) { return Status(StatusCode::invalid_argument, text); }

std::optional<int64_t> parse_integer(std::string_view text, int64_t low, int64_t high) {
  int64_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size() || value < low || value > high) return std::nullopt;
  return value;
}

// A number and one of the units; no unit is the first one.
std::optional<int64_t> parse_units(std::string_view text, std::string_view units, const int64_t (&sizes)[4],
                                   int64_t low, int64_t high) {
  int64_t size = sizes[0];
  if (const std::size_t unit = text.empty() ? text.npos : units.find(text.back()); unit != text.npos) {
    size = sizes[unit];
    text.remove_suffix(1);
  }
  const std::optional<int64_t> number = parse_integer(text, 0, high / size);
  return number && *number * size >= low ? std::optional(*number * size) : std::nullopt;
}

std::optional<int64_t> parse_time(std::string_view text, int64_t low) {
  return parse_units(text, "smhd", {1, 60, 3600, 86400}, low, kLongestTime);
}

std::optional<int64_t> parse_bytes(std::string_view text) {
  return parse_units(text, "BKMG", {1, 1 << 10, 1 << 20, 1 << 30}, kSmallestValue, kLargestValue);
}

// nullopt: a % without two hexadecimal digits, or a byte 0.
std::optional<std::string> decode_percents(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    unsigned value = 0;
    const std::string_view digits = text.substr(i + 1, 2);
    const auto [rest, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc() || digits.size() != 2 || rest != digits.data() + 2 || value == 0) return std::nullopt;
    out.push_back(static_cast<char>(value));
    i += 2;
  }
  return out;
}

// Cuts `text` at the first separator; what follows it, or nothing.
std::string_view cut_at(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view rest = at == text.npos ? std::string_view() : text.substr(at + 1);
  text = text.substr(0, at);
  return rest;
}

Status set_parameter(ServerAddress& to, std::string_view name, std::string_view value) {
  const auto set = [](auto& member, const std::optional<int64_t>& number, const char* rule) {
    if (!number) return address_fault(rule);
    member = static_cast<std::remove_reference_t<decltype(member)>>(*number);
    return Status();
  };
  if (name == "db") return set(to.database, parse_integer(value, 0, kLastDatabase), "db is a number, 0 to 65535");
  if (name == "expire") return set(to.expire, parse_time(value, 0), "expire is a time such as 30d, 12h or 0 for never");
  if (name == "largest") return set(to.largest, parse_bytes(value), "largest is a size such as 16M, of 4K to 512M");
  if (name == "retry") return set(to.retry, parse_time(value, 1), "retry is a time such as 30s, at least 1s");
  return address_fault("there is no such parameter of a cache server; there are db, expire, largest and retry");
}

Status set_parameters(ServerAddress& to, std::string_view text) {
  while (!text.empty()) {
    std::string_view name = text;
    text = cut_at(name, '&');
    const std::string_view value = cut_at(name, '=');
    FUSEC_TRY(set_parameter(to, name, value));
  }
  return {};
}

Status set_login(ServerAddress& to, std::string_view text) {
  std::string_view user = text;
  const std::optional<std::string> password = decode_percents(cut_at(user, ':')), name = decode_percents(user);
  if (!password || !name) return address_fault("a % in the user or password is followed by no two hexadecimal digits");
  if (password->empty()) return address_fault("a user needs a password: USER:PASSWORD@");
  to.user = *name;
  to.password = *password;
  return {};
}

Status set_host(ServerAddress& to, std::string_view text) {
  const std::string_view database = cut_at(text, '/');
  if (!database.empty()) FUSEC_TRY(set_parameter(to, "db", database));
  if (text.starts_with('[')) {
    text.remove_prefix(1);
    const std::size_t end = text.find(']');
    if (end == text.npos) return address_fault("an IPv6 address stands in brackets: redis://[::1]:6379");
    to.host = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (!text.empty() && !text.starts_with(':')) return address_fault("the port follows a colon");
  } else {
    to.host = text.substr(0, text.find(':'));
    text.remove_prefix(to.host.size());
  }
  if (to.host.empty()) return address_fault("the host is missing");
  if (text.empty()) return {};
  const std::optional<int64_t> port = parse_integer(text.substr(1), 1, 65535);
  if (!port) return address_fault("the port is a number, 1 to 65535");
  to.port = static_cast<int>(*port);
  return {};
}

Status set_socket(ServerAddress& to, std::string_view text) {
  const std::optional<std::string> path = decode_percents(text);
  if (!path || !path->starts_with('/'))
    return address_fault("the path of a socket is absolute: unix:///run/redis.sock");
  if (path->size() > kLongestSocket) return address_fault("the path of a socket has at most 107 bytes");
  to.socket = *path;
  return {};
}

}  // namespace

std::string ServerAddress::shown() const {
  if (!socket.empty()) return std::string(kSockets) + socket;
  const bool is_v6 = host.find(':') != host.npos;
  return std::string(kHosts) + (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port) + "/" +
         std::to_string(database);
}

Result<ServerAddress> parse_server_address(const std::string& text) {
  ServerAddress address;
  std::string_view rest = text;
  const bool is_socket = rest.starts_with(kSockets);
  if (!is_socket && !rest.starts_with(kHosts)) {
    return address_fault(rest.starts_with("rediss://")
                             ? "TLS is not supported: take a tunnel, or redis:// within a network of your own"
                             : "the address of a cache server begins with redis:// or unix://");
  }
  rest.remove_prefix(is_socket ? kSockets.size() : kHosts.size());
  FUSEC_TRY(set_parameters(address, cut_at(rest, '?')));
  if (const std::size_t at = rest.rfind('@'); at != rest.npos) {
    FUSEC_TRY(set_login(address, rest.substr(0, at)));
    rest.remove_prefix(at + 1);
  }
  FUSEC_TRY(is_socket ? set_socket(address, rest) : set_host(address, rest));
  return address;
}

}  // namespace fusec::runtime
