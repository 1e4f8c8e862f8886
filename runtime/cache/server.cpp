// SPDX-License-Identifier: Apache-2.0
// Implements the cache server: names and seals what is shared, speaks to the server, and stays away from one that
// failed. Warnings are given without a lock, because they run code of the host.

#include "runtime/cache/server.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <utility>

#include "ir/support/hash.h"

namespace fusec::runtime {
namespace {

constexpr char kAddress[] = "FUSEC_CACHE_SERVER", kSecret[] = "FUSEC_CACHE_SECRET",
               kPassword[] = "FUSEC_CACHE_PASSWORD";
constexpr char kForeign[] = "it holds values that were not made with this FUSEC_CACHE_SECRET, which are left out";
constexpr int64_t kLargestTable = int64_t{64} << 20;  // bytes of all values of a table
constexpr int64_t kNoValue = 0;                       // bytes of the answers to commands that only write
constexpr std::size_t kHashBlock = 64, kSeal = sizeof(ir::Sha256Digest);

std::string_view as_text(const ir::Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// RFC 2104.
ir::Sha256Digest hmac_sha256(const std::string& secret, std::string_view text) {
  std::string key = secret.size() <= kHashBlock ? secret : std::string(as_text(ir::sha256(secret)));
  key.resize(kHashBlock, '\0');
  std::string inner = key, outer = key;
  for (char& c : inner) c = static_cast<char>(c ^ 0x36);
  for (char& c : outer) c = static_cast<char>(c ^ 0x5c);
  inner += text;
  return ir::sha256(outer.append(as_text(ir::sha256(inner))));
}

// In a time that does not tell where they differ.
bool are_equal(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    difference |= static_cast<unsigned>(static_cast<unsigned char>(a[i] ^ b[i]));
  return difference == 0;
}

std::string environment_text(const char* name) {
  const char* const value = secure_getenv(name);
  return value != nullptr ? value : "";
}

// The servers of the process, by address and secret.
class ServerTable {
 public:
  Result<std::shared_ptr<CacheServer>> find(const std::string& text) {
    FUSEC_ASSIGN(ServerAddress address, parse_server_address(text));
    if (address.password.empty()) address.password = environment_text(kPassword);
    const std::string secret = environment_text(kSecret);
    if (secret.size() < CacheServer::kShortestSecret) {
      return Status(StatusCode::cache, std::string(kSecret) +
                                           " is to be a secret of at least 16 bytes that all machines which share the "
                                           "server have in common: kernels without its seal are not run");
    }
    const std::lock_guard lock(mutex_);
    std::shared_ptr<CacheServer>& server = servers_[text + "\n" + address.password + "\n" + secret];
    if (!server) server = std::make_shared<CacheServer>(std::move(address), secret);
    return server;
  }
  // Once for each text of an address.
  void tell(const std::string& text, const std::string& fault, const Warn& warn) {
    if (!warn) return;
    {
      const std::lock_guard lock(mutex_);
      if (!told_.insert(text).second) return;
    }
    warn("running without the cache server: " + fault);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<CacheServer>> servers_;
  std::set<std::string> told_;
};

ServerTable& server_table() {
  static ServerTable table;
  return table;
}

}  // namespace

std::shared_ptr<CacheServer> CacheServer::find(const Options& options, const Warn& warn) {
  const std::string text = cache_server_address(options);
  if (text.empty()) return nullptr;
  Result<std::shared_ptr<CacheServer>> found = server_table().find(text);
  if (found.ok()) return std::move(found).value();
  const std::string from = options.cache_server ? "" : std::string(kAddress) + ": ";
  server_table().tell(text, from + found.status().message(), warn);
  return nullptr;
}

CacheServer::CacheServer(ServerAddress address, std::string secret)
    : address_(std::move(address)), secret_(std::move(secret)) {}

std::string CacheServer::name(std::string_view kind, uint32_t version, const std::string& target, std::string_view of) {
  std::string shown = target;
  for (char& c : shown) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    if (!plain) c = '_';
  }
  return "fusec:1:" + std::string(kind) + ":" + std::to_string(version) + ":" + shown + ":" +
         ir::to_hex(ir::sha256(of));
}

std::string CacheServer::seal(const std::string& name, std::span<const uint8_t> value) const {
  std::string text(reinterpret_cast<const char*>(value.data()), value.size());
  const ir::Sha256Digest digest = hmac_sha256(secret_, name + '\0' + text);
  return std::string(as_text(digest)) + text;
}

std::optional<std::vector<uint8_t>> CacheServer::unseal(const std::string& name, const std::string& sealed) const {
  if (sealed.size() < kSeal) return std::nullopt;
  const std::string_view digest = std::string_view(sealed).substr(0, kSeal);
  const std::string_view text = std::string_view(sealed).substr(kSeal);
  if (!are_equal(digest, as_text(hmac_sha256(secret_, (name + '\0').append(text))))) return std::nullopt;
  return std::vector<uint8_t>(text.begin(), text.end());
}

void CacheServer::note(const std::string& fault) {
  if (!told_ && news_.empty()) news_ = fault;
}

std::string CacheServer::take_news(const Warn& warn) {
  if (!warn || told_ || news_.empty()) return {};
  told_ = true;
  return "the cache server " + address_.shown() + " is not used fully: " + std::exchange(news_, {});
}

void CacheServer::tell(const std::string& fault, const Warn& warn) {
  std::string news;
  {
    const std::lock_guard lock(mutex_);
    note(fault);
    news = take_news(warn);
  }
  if (!news.empty()) warn(news);
}

void CacheServer::note_damage(const Warn& warn) { tell("it holds values that are damaged, which are left out", warn); }

Result<RedisReply> CacheServer::ask(Command command, int64_t largest) {
  if (std::exchange(process_, getpid()) != getpid()) connection_.reset();
  for (;;) {
    const bool is_new = connection_ == nullptr;
    if (is_new) {
      FUSEC_ASSIGN(connection_, RedisConnection::open(address_));
    }
    Result<RedisReply> reply = connection_->ask(command, largest);
    if (reply.ok()) return reply;
    const bool was_idle = !is_new && connection_->was_closed();
    connection_.reset();
    if (!was_idle) return reply;
  }
}

std::optional<RedisReply> CacheServer::request_within(Command command, bool writes, int64_t largest) {
  const Time now = std::chrono::steady_clock::now();
  if ((closed_until_ && now < *closed_until_) || (writes && refuses_writes_)) return std::nullopt;
  Result<RedisReply> reply = ask(command, largest);
  if (!reply.ok()) {
    closed_until_ = std::chrono::steady_clock::now() + std::chrono::seconds(address_.retry);
    note(reply.status().message());
    return std::nullopt;
  }
  if (reply->kind != RedisReply::Kind::error) return std::move(reply).value();
  refuses_writes_ |= writes;
  note((writes ? "it refuses to store: " : "it refuses to answer: ") + reply->text);
  return std::nullopt;
}

std::optional<RedisReply> CacheServer::request(Command command, bool writes, int64_t largest, const Warn& warn) {
  std::optional<RedisReply> reply;
  std::string news;
  {
    const std::lock_guard lock(mutex_);
    reply = request_within(command, writes, largest);
    news = take_news(warn);
  }
  if (!news.empty()) warn(news);
  return reply;
}

std::optional<std::vector<uint8_t>> CacheServer::get(const std::string& name, const Warn& warn) {
  const std::array<std::string_view, 2> command = {"GET", name};
  const std::optional<RedisReply> reply = request(command, false, address_.largest, warn);
  if (!reply || reply->kind == RedisReply::Kind::nothing) return std::nullopt;
  std::optional<std::vector<uint8_t>> value;
  if (reply->kind == RedisReply::Kind::text) value = unseal(name, reply->text);
  if (!value) tell(kForeign, warn);
  return value;
}

void CacheServer::put(const std::string& name, std::span<const uint8_t> value, const Warn& warn) {
  if (static_cast<int64_t>(value.size() + kSeal) > address_.largest) return;
  const std::string sealed = seal(name, value), expire = std::to_string(address_.expire);
  std::vector<std::string_view> command = {"SET", name, sealed};
  if (address_.expire > 0) command.insert(command.end(), {"EX", expire});
  (void)request(command, true, kNoValue, warn);
}

std::vector<std::vector<uint8_t>> CacheServer::get_table(const std::string& name, const Warn& warn) {
  const std::array<std::string_view, 2> command = {"HVALS", name};
  const std::optional<RedisReply> reply = request(command, false, kLargestTable, warn);
  std::vector<std::vector<uint8_t>> values;
  if (!reply) return values;
  bool foreign = reply->kind != RedisReply::Kind::list;
  for (const std::string& sealed : reply->list) {
    std::optional<std::vector<uint8_t>> value = unseal(name, sealed);
    foreign |= !value;
    if (value) values.push_back(std::move(*value));
  }
  if (foreign) tell(kForeign, warn);
  return values;
}

void CacheServer::put_rows(const std::string& name, std::span<const Row> rows, const Warn& warn) {
  std::vector<std::string> sealed;
  for (const Row& row : rows) sealed.push_back(seal(name, row.value));
  std::vector<std::string_view> command = {"HSET", name};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<int64_t>(sealed[i].size()) <= address_.largest)
      command.insert(command.end(), {rows[i].field, sealed[i]});
  }
  if (command.size() == 2) return;
  const bool stored = request(command, true, kNoValue, warn).has_value();
  if (!stored || address_.expire == 0) return;
  const std::string expire = std::to_string(address_.expire);
  const std::array<std::string_view, 3> renew = {"EXPIRE", name, expire};
  (void)request(renew, true, kNoValue, warn);
}

CacheServer::State CacheServer::state() {
  const std::array<std::string_view, 1> command = {"DBSIZE"};
  const std::lock_guard lock(mutex_);
  const Result<RedisReply> reply = ask(command, kNoValue);
  if (!reply.ok()) return {reply.status().message(), 0};
  if (reply->kind != RedisReply::Kind::number) return {"it refuses to answer: " + reply->text, 0};
  return {{}, reply->number};
}

}  // namespace fusec::runtime
