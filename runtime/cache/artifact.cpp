// SPDX-License-Identifier: Apache-2.0
// Implements the kernel cache on top of Folder: loads and stores artifacts by key in the emit stage, reads a shared
// folder and asks a server for what is absent, bounds the size of the cache, and removes temporary files of writers
// that died. A write error turns off storing for the rest of the compile.

#include "runtime/cache/artifact.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <limits>

#include "runtime/cache/server.h"

namespace fusec::runtime {
namespace {

constexpr char kVersionFolder[] = "v1";
constexpr char kOwn[] = "kernel cache", kShared[] = "shared kernel cache";  // in warnings
constexpr std::time_t kOrphanAge = 3600;                                    // seconds; no writer takes that long
constexpr std::time_t kNoAge = std::numeric_limits<std::time_t>::max();
constexpr std::time_t kAnyAge = std::numeric_limits<std::time_t>::min();
constexpr std::time_t kTouchAge = 3600;  // a hit renews the time of use at most once an hour
// The size bound is enforced for each group of folders: keys are hashes, so each group holds about the same number of
// bytes, and a store only scans its own group. At 2 GiB a group is one folder of 8 MiB with some hundred entries.
constexpr int64_t kFolders = 256;
constexpr int64_t kGroupBytes = int64_t{8} << 20;

// "ab/abcd….fsk" -> "ab" and "abcd….fsk".
std::pair<std::string, std::string> split(const std::string& path) {
  const std::size_t slash = path.find('/');
  return {path.substr(0, slash), path.substr(slash + 1)};
}

std::string make_folder_name(int64_t index) {
  constexpr char kHex[] = "0123456789abcdef";
  return {kHex[index / 16], kHex[index % 16]};
}

bool is_entry_name(const std::string& folder, const std::string& name) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() == 64 + 4 && name.ends_with(".fsk") && name.starts_with(folder) &&
         std::all_of(name.begin(), name.begin() + 64, is_hex);
}

// Also null in a process that runs with elevated privileges.
const char* non_empty(const char* name) {
  const char* value = secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

std::string server_name(const std::string& target, const std::string& key) {
  return CacheServer::name("kernel", kEntryVersion, target, key);
}

// nullopt, without a warning: no such folder is named, or it has no kernels.
std::optional<Folder> open_shared(const Options& options, const Warn& warn) {
  const std::string root = shared_cache_root(options);
  if (root.empty()) return std::nullopt;
  Result<Folder> folder = Folder::open_to_read(root);
  if (!folder.ok()) {
    warn("running without the shared kernel cache: " + folder.status().message());
    return std::nullopt;
  }
  if (!folder->has(kVersionFolder)) return std::nullopt;
  Result<Folder> version = folder->open_below(kVersionFolder, false);
  if (version.ok()) return std::move(version).value();
  warn("running without the shared kernel cache: " + version.status().message());
  return std::nullopt;
}

}  // namespace

std::string cache_root(const Options& options) {
  if (options.cache_dir) return *options.cache_dir;
  if (const char* dir = non_empty("FUSEC_CACHE_DIR")) return dir;
  if (const char* dir = non_empty("XDG_CACHE_HOME")) return std::string(dir) + "/fusec";
  if (const char* dir = non_empty("HOME")) return std::string(dir) + "/.cache/fusec";
  return {};
}

std::string shared_cache_root(const Options& options) {
  if (!options.use_cache) return {};
  if (options.shared_cache_dir) return *options.shared_cache_dir;
  const char* const dir = non_empty("FUSEC_SHARED_CACHE_DIR");
  return dir != nullptr ? dir : "";
}

std::string cache_server_address(const Options& options) {
  if (!options.use_cache) return {};
  if (options.cache_server) return *options.cache_server;
  const char* const address = non_empty("FUSEC_CACHE_SERVER");
  return address != nullptr ? address : "";
}

Warn make_warn(const Options& options) {
  if (options.on_warning) return options.on_warning;
  if (options.on_log) return [log = options.on_log](const std::string& text) { log(Severity::warning, text); };
  return [](const std::string& text) { (void)std::fprintf(stderr, "fusec: warning: %s\n", text.c_str()); };
}

void log(const Options& options, Severity severity, const std::function<std::string()>& text) {
  if (options.on_log) options.on_log(severity, text());
}

std::unique_ptr<KernelCache> KernelCache::open(const Options& options, const std::string& target, const Warn& warn) {
  if (!options.use_cache) return nullptr;
  std::optional<Folder> shared = open_shared(options, warn);
  std::shared_ptr<CacheServer> server = CacheServer::find(options, make_warn(options));
  Result<std::unique_ptr<KernelCache>> opened = open_root(cache_root(options), make_warn(options), options.cache_limit);
  if (!opened.ok()) warn("running without the kernel cache: " + opened.status().message());
  if (!opened.ok() && !shared && !server) return nullptr;
  std::unique_ptr<KernelCache> cache;
  if (opened.ok()) {
    cache = std::move(opened).value();
  } else {
    cache.reset(new KernelCache(Folder(), make_warn(options), 0));
    cache->read_only_ = true;
  }
  cache->shared_ = std::move(shared);
  cache->server_ = std::move(server);
  cache->target_ = target;
  return cache;
}

Result<std::unique_ptr<KernelCache>> KernelCache::open_root(const std::string& root, Warn warn, int64_t limit) {
  if (root.empty())
    return Status(StatusCode::cache, "no folder for it is known: neither FUSEC_CACHE_DIR nor HOME is set");
  FUSEC_ASSIGN(const Folder folder, Folder::open(root));
  FUSEC_ASSIGN(Folder version, folder.open_below(kVersionFolder, true));
  return std::unique_ptr<KernelCache>(new KernelCache(std::move(version), std::move(warn), limit));
}

KernelCache::~KernelCache() {
  if (!last_folder_.empty()) version_.sync(last_folder_);
}

void KernelCache::warn_once(const std::string& name, Told& told, const Status& status) {
  if (!told.fault.exchange(true)) warn_("the " + name + " is not used fully: " + status.message());
}

std::optional<codegen::Artifact> KernelCache::load(const std::string& key) {
  Found own = load_from(version_, kOwn, told_, key);
  if (own.artifact) {
    const auto [folder_name, name] = split(entry_path(key));
    if (const Result<Folder> folder = version_.open_below(folder_name, false); folder.ok())
      folder->touch(name, kTouchAge);
    return std::move(own.artifact);
  }
  if (shared_) {
    Found shared = load_from(*shared_, kShared, told_of_shared_, key);
    shared_hits_ += shared.artifact.has_value();
    if (shared.artifact && own.damaged) store_own(*shared.artifact);
    if (shared.artifact) return std::move(shared.artifact);
  }
  return server_ ? load_from_server(key) : std::nullopt;
}

KernelCache::Found KernelCache::load_from(const Folder& version, const std::string& cache, Told& told,
                                          const std::string& key) {
  const auto [folder_name, name] = split(entry_path(key));
  const Result<Folder> folder = version.open_below(folder_name, false);
  if (!folder.ok()) return {};
  Result<std::optional<std::vector<uint8_t>>> bytes = folder->read(name);
  if (!bytes.ok()) warn_once(cache, told, bytes.status());
  if (!bytes.ok() || !*bytes) return {};
  std::optional<codegen::Artifact> artifact = decode_entry(**bytes);
  if (artifact && artifact->key == key) return {std::move(artifact)};
  if (is_of_another_version(**bytes)) return {};
  ++damaged_;
  if (!told.damage.exchange(true)) {
    warn_(
        "the entry '" + folder_name + "/" + name + "' of the " + cache +
        (cache == kOwn ? " is damaged and made anew (fusec cache verify lists all such)" : " is damaged and left out"));
  }
  return {std::nullopt, true};
}

std::optional<codegen::Artifact> KernelCache::load_from_server(const std::string& key) {
  const std::optional<std::vector<uint8_t>> bytes = server_->get(server_name(target_, key), warn_);
  if (!bytes) return std::nullopt;
  std::optional<codegen::Artifact> artifact = decode_entry(*bytes);
  if (!artifact || artifact->key != key) {
    server_->note_damage(warn_);
    return std::nullopt;
  }
  ++server_hits_;
  store_own(*artifact);
  return artifact;
}

void KernelCache::store(const codegen::Artifact& artifact) {
  store_own(artifact);
  if (server_) server_->put(server_name(target_, artifact.key), encode_entry(artifact), warn_);
}

void KernelCache::store_own(const codegen::Artifact& artifact) {
  if (read_only_) return;
  const auto [folder_name, name] = split(entry_path(artifact.key));
  const Result<Folder> folder = version_.open_below(folder_name, true);
  const Status status = folder.ok() ? folder->write(name, encode_entry(artifact)) : folder.status();
  if (status.ok()) {
    keep_bound(folder_name + "/" + name);
    const std::lock_guard lock(mutex_);
    last_folder_ = folder_name;
    return;
  }
  read_only_ = true;  // a full or read-only disk will not get better within this compile
  warn_once(kOwn, told_, status);
}

int64_t KernelCache::sweep(const std::string& folder, std::time_t orphan_age, std::vector<Entry>& entries) const {
  const Result<Folder> opened = version_.open_below(folder, false);
  if (!opened.ok()) return 0;
  const std::time_t now = std::time(nullptr);
  int64_t removed = 0;
  for (const Folder::File& file : opened->files()) {
    if (is_entry_name(folder, file.name)) entries.push_back({folder + "/" + file.name, file.bytes, file.modified});
    if (file.temporary && now - file.modified >= orphan_age) removed += opened->remove(file.name);
  }
  return removed;
}

std::vector<KernelCache::Entry> KernelCache::list() const {
  std::vector<Entry> out;
  for (const std::string& name : version_.folders()) (void)sweep(name, kNoAge, out);
  return out;
}

KernelCache::Stats KernelCache::stats() const {
  Stats stats;
  for (const Entry& entry : list()) {
    ++stats.entries;
    stats.bytes += entry.bytes;
  }
  for (const std::string& name : version_.folders()) {
    const Result<Folder> folder = version_.open_below(name, false);
    if (!folder.ok()) continue;
    for (const Folder::File& file : folder->files()) stats.left_over += file.temporary;
  }
  return stats;
}

std::vector<std::string> KernelCache::verify() const {
  std::vector<std::string> damaged;
  for (const Entry& entry : list()) {
    const auto [folder_name, name] = split(entry.path);
    const Result<Folder> folder = version_.open_below(folder_name, false);
    if (!folder.ok()) continue;
    const Result<std::optional<std::vector<uint8_t>>> bytes = folder->read(name);
    if (bytes.ok() && !*bytes) continue;  // removed meanwhile
    if (bytes.ok() && is_of_another_version(**bytes)) continue;
    const std::optional<codegen::Artifact> artifact = bytes.ok() ? decode_entry(**bytes) : std::nullopt;
    if (!artifact || entry_path(artifact->key) != entry.path) damaged.push_back(entry.path);
  }
  return damaged;
}

bool KernelCache::remove(const Entry& entry) const {
  const auto [folder_name, name] = split(entry.path);
  const Result<Folder> folder = version_.open_below(folder_name, false);
  return folder.ok() && folder->remove(name);
}

int64_t KernelCache::remove_oldest(std::vector<Entry> entries, int64_t max_bytes, const std::string& keep) const {
  int64_t left = 0, removed = 0;
  for (const Entry& entry : entries) left += entry.bytes;
  if (left <= max_bytes) return 0;
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (left <= max_bytes) break;
    if (entry.path == keep) continue;
    removed += remove(entry);
    left -= entry.bytes;
  }
  return removed;
}

// Removes old entries of the group. The entry just stored is kept, however large it is.
void KernelCache::keep_bound(const std::string& stored) const {
  const int64_t groups = limit_ <= 0 ? kFolders : std::clamp(limit_ / kGroupBytes, int64_t{1}, kFolders);
  std::vector<Entry> entries;
  for (int64_t i = std::stoll(stored.substr(0, 2), nullptr, 16) % groups; i < kFolders; i += groups) {
    (void)sweep(make_folder_name(i), kOrphanAge, entries);
  }
  if (limit_ > 0) (void)remove_oldest(std::move(entries), limit_ / groups, stored);
}

int64_t KernelCache::gc(int64_t max_bytes) {
  std::vector<Entry> entries;
  int64_t removed = 0;
  const std::time_t age = max_bytes < 0 ? kAnyAge : kOrphanAge;
  for (const std::string& name : version_.folders()) removed += sweep(name, age, entries);
  return removed + remove_oldest(std::move(entries), max_bytes, {});
}

}  // namespace fusec::runtime
