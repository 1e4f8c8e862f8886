// SPDX-License-Identifier: Apache-2.0
// The kernel cache: one file per Artifact below <root>/v1, shared by all processes of a user. No locks: entries are
// published whole and verified when read. A fault never fails a compile; it is warned of once. The cache is bounded:
// storing an entry removes those used longest ago, and what killed writers left, from its folder and those that share a
// part of the bound with it.
// What it lacks may lie in a second folder of the same layout, the shared one, which is only read: it may be root's,
// lie on another machine and be read by many users. What both lack may be on a cache server (runtime/cache/server.h):
// what comes from there is stored here, and what is stored here is sent there.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/artifact/artifact.h"
#include "fusec/options.h"
#include "fusec/status.h"
#include "runtime/cache/folder.h"

namespace fusec::runtime {

using Warn = std::function<void(const std::string&)>;

// Options::cache_dir, else $FUSEC_CACHE_DIR, else $XDG_CACHE_HOME/fusec, else ~/.cache/fusec; empty: none of them is
// set.
std::string cache_root(const Options& options);
// Options::shared_cache_dir, else $FUSEC_SHARED_CACHE_DIR; empty: neither is set, or Options::use_cache is false.
std::string shared_cache_root(const Options& options);
// Options::cache_server, else $FUSEC_CACHE_SERVER; empty: neither is set, or Options::use_cache is false.
std::string cache_server_address(const Options& options);
// Options::on_warning, else Options::on_log, else one line on stderr.
Warn make_warn(const Options& options);
// Gives text() to Options::on_log; without one, the text is not even made. Not for warnings.
void log(const Options& options, Severity severity, const std::function<std::string()>& text);

class CacheServer;

class KernelCache {
 public:
  // Null when Options::use_cache is false, or when none of the root, the shared folder and the server can be used.
  // Which of them cannot be trusted, made or opened is told to `warn`.
  // Without the root, nothing is stored here.
  // target: what the kernels are for, as names on the server show it.
  static std::unique_ptr<KernelCache> open(const Options& options, const std::string& target = "any") {
    return open(options, target, make_warn(options));
  }
  static std::unique_ptr<KernelCache> open(const Options& options, const std::string& target, const Warn& warn);
  // As open, but says why not: for tools that manage the cache. limit: bytes, Options::cache_limit; 0: no bound.
  static Result<std::unique_ptr<KernelCache>> open_root(const std::string& root, Warn warn, int64_t limit = 0);

  // Syncs the folder that the last entry was stored in. A sync waits some milliseconds for the disk. Where a file
  // system has one journal (ext4, XFS), it makes all earlier entries last; elsewhere a loss of power may take some,
  // which are then made anew.
  ~KernelCache();

  // Thread-safe. nullopt: absent or damaged. A damaged entry is counted, and the first one is warned of.
  // Reads the shared folder, then the server, for what is absent or damaged in the cache's own folder. A damaged entry
  // is replaced by what they have.
  std::optional<codegen::Artifact> load(const std::string& key);
  void store(const codegen::Artifact& artifact);
  void store_own(const codegen::Artifact& artifact);  // not on the server
  int64_t damaged() const { return damaged_; }        // entries that load found so, in either folder
  int64_t shared_hits() const { return shared_hits_; }
  int64_t server_hits() const { return server_hits_; }

  struct Entry {
    std::string path;  // below <root>/v1
    int64_t bytes = 0;
    std::time_t used = 0;
  };
  std::vector<Entry> list() const;  // by path
  struct Stats {
    int64_t entries = 0, bytes = 0, left_over = 0;  // left_over: temporary files of writers that died
  };
  Stats stats() const;
  // Reads every entry; the paths of damaged or misnamed ones.
  std::vector<std::string> verify() const;
  // Removes the entries used longest ago until at most max_bytes are left, and temporary files older than an hour. The
  // number of files removed.
  int64_t gc(int64_t max_bytes);
  int64_t clear() { return gc(-1); }

 private:
  KernelCache(Folder version, Warn warn, int64_t limit)
      : version_(std::move(version)), warn_(std::move(warn)), limit_(limit) {}
  // What has been warned of, for one folder of entries.
  struct Told {
    std::atomic<bool> fault{false}, damage{false};
  };
  struct Found {
    std::optional<codegen::Artifact> artifact;
    bool damaged = false;
  };
  Found load_from(const Folder& version, const std::string& name, Told& told, const std::string& key);
  std::optional<codegen::Artifact> load_from_server(const std::string& key);
  void warn_once(const std::string& name, Told& told, const Status& status);
  void keep_bound(const std::string& stored) const;
  // Adds the entries of one folder, and removes the temporary files there of at least this age. The number of those.
  int64_t sweep(const std::string& folder, std::time_t orphan_age, std::vector<Entry>& entries) const;
  int64_t remove_oldest(std::vector<Entry> entries, int64_t max_bytes, const std::string& keep) const;
  bool remove(const Entry& entry) const;

  Folder version_;  // none: only the shared one is read
  Warn warn_;
  int64_t limit_;
  std::mutex mutex_;
  std::string last_folder_;       // that was stored in, under mutex_
  std::optional<Folder> shared_;  // to be read
  std::shared_ptr<CacheServer> server_;
  std::string target_;
  std::atomic<int64_t> damaged_{0}, shared_hits_{0}, server_hits_{0};
  Told told_, told_of_shared_;
  std::atomic<bool> read_only_{false};
};

// The bytes of one kernel cache entry:
//
//   "FUSECKRN"  u32 format version  u32 0  u64 length of the whole entry
//   key  image  ptx  number of phases  phase*  number of externs  extern*  local bytes
//   phase: offset  iterations  entry  u32 threads  u32 registers  u32 waits  dynamic shared  local bytes  shared bytes
//   SHA-256 of everything before
//
// Integers are little-endian, 64 bits where not said; strings and bytes follow their length; Dims are text.

inline constexpr uint32_t kEntryVersion = 3;

std::vector<uint8_t> encode_entry(const codegen::Artifact& artifact);  // but for Artifact::text
// nullopt for anything that encode_entry of this version did not write. Any bytes are safe input.
std::optional<codegen::Artifact> decode_entry(std::span<const uint8_t> bytes);

// Whether another version of fusec wrote them; damaged bytes of this version are not.
bool is_of_another_version(std::span<const uint8_t> bytes);

// The file of a key below the cache's version folder: "ab/abcd….fsk".
std::string entry_path(std::string_view key);

}  // namespace fusec::runtime
