// SPDX-License-Identifier: Apache-2.0
// Implements the kernel cache on top of Folder: loads and stores artifacts by key in the emit stage, bounds the size of
// the cache, and removes temporary files of writers that died. A write error turns off storing for the rest of the
// compile.

#include "runtime/cache/artifact.h"

#include <stdlib.h>

#include <algorithm>
#include <cstdio>
#include <limits>

namespace fusec::runtime {
namespace {

constexpr char kVersionFolder[] = "v1";
constexpr std::time_t kOrphanAge = 3600;  // seconds; no writer takes that long
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

}  // namespace

std::string cache_root(const Options& options) {
  if (options.cache_dir) return *options.cache_dir;
  if (const char* dir = non_empty("FUSEC_CACHE_DIR")) return dir;
  if (const char* dir = non_empty("XDG_CACHE_HOME")) return std::string(dir) + "/fusec";
  if (const char* dir = non_empty("HOME")) return std::string(dir) + "/.cache/fusec";
  return {};
}

Warn make_warn(const Options& options) {
  if (options.on_warning) return options.on_warning;
  if (options.on_log) return [log = options.on_log](const std::string& text) { log(Severity::warning, text); };
  return [](const std::string& text) { (void)std::fprintf(stderr, "fusec: warning: %s\n", text.c_str()); };
}

void log(const Options& options, Severity severity, const std::function<std::string()>& text) {
  if (options.on_log) options.on_log(severity, text());
}

std::unique_ptr<KernelCache> KernelCache::open(const Options& options) {
  if (!options.use_cache) return nullptr;
  const Warn warn = make_warn(options);
  Result<std::unique_ptr<KernelCache>> cache = open_root(cache_root(options), warn, options.cache_limit);
  if (cache.ok()) return std::move(cache).value();
  warn("running without the kernel cache: " + cache.status().message());
  return nullptr;
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

void KernelCache::warn_once(const Status& status) {
  if (!warned_.exchange(true)) warn_("the kernel cache is not used fully: " + status.message());
}

void KernelCache::note_damaged(const std::string& path) {
  if (damaged_++ > 0) return;
  warn_("the entry '" + path + "' of the kernel cache is damaged and made anew (fusec cache verify lists all such)");
}

std::optional<codegen::Artifact> KernelCache::load(const std::string& key) {
  const auto [folder_name, name] = split(entry_path(key));
  const Result<Folder> folder = version_.open_below(folder_name, false);
  if (!folder.ok()) return std::nullopt;
  Result<std::optional<std::vector<uint8_t>>> bytes = folder->read(name);
  if (!bytes.ok()) warn_once(bytes.status());
  if (!bytes.ok() || !*bytes) return std::nullopt;
  std::optional<codegen::Artifact> artifact = decode_entry(**bytes);
  if (!artifact || artifact->key != key) {
    if (!is_of_another_version(**bytes)) note_damaged(folder_name + "/" + name);
    return std::nullopt;
  }
  folder->touch(name, kTouchAge);
  return artifact;
}

void KernelCache::store(const codegen::Artifact& artifact) {
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
  warn_once(status);
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
