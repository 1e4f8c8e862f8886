// SPDX-License-Identifier: Apache-2.0
// Implements `fusec cache`: lists, verifies, bounds and clears the kernel cache. It compiles nothing.

#include <fmt/format.h>

#include "runtime/cache/artifact.h"
#include "runtime/cache/server.h"
#include "runtime/options/keys.h"
#include "runtime/tool/commands.h"
#include "runtime/tool/common.h"
#include "runtime/tool/io/output.h"

namespace fusec::tool {
namespace {

struct CacheFlags {
  std::string action, cache_dir, cache_server, max_size;
  bool json = false;
};

void show_list(const runtime::KernelCache& cache, bool json) {
  Json list = Json::array();
  Table table({"entry", "bytes", "last used"});
  for (const auto& entry : cache.list()) {
    list.push_back({{"path", entry.path}, {"bytes", entry.bytes}, {"used", time_text(entry.used)}});
    table.row({entry.path, std::to_string(entry.bytes), time_text(entry.used)});
  }
  if (json) {
    print(list);
  } else {
    print_text(table.str());
  }
}

// null: no server is named, or it cannot be used, which is a warning.
Json server_json(const Options& options) {
  const auto server = runtime::CacheServer::find(options, runtime::make_warn(options));
  if (!server) return {};
  const runtime::CacheServer::State state = server->state();
  return {{"address", server->address().shown()},
          {"answers", state.fault.empty()},
          {"fault", state.fault},
          {"keys", state.keys}};
}

void show_stats(const runtime::KernelCache& cache, const std::string& root, const Options& options, bool json) {
  const runtime::KernelCache::Stats stats = cache.stats();
  const Json server = server_json(options);
  if (json) {
    print(Json{{"path", root},
               {"entries", stats.entries},
               {"bytes", stats.bytes},
               {"left_over", stats.left_over},
               {"server", server}});
    return;
  }
  print_text(fmt::format("{}: {} entries, {}, {} left over by writers that died", root, stats.entries,
                         bytes_text(stats.bytes), stats.left_over));
  if (server.is_null()) return;
  const std::string address = server["address"], fault = server["fault"];
  print_text(fault.empty() ? fmt::format("{}: {} keys", address, server["keys"].get<int64_t>())
                           : fmt::format("{}: {}", address, fault));
}

bool show_damaged(const runtime::KernelCache& cache, bool json) {
  const std::vector<std::string> damaged = cache.verify();
  if (json) {
    print(Json{{"ok", damaged.empty()}, {"damaged", damaged}});
  } else {
    for (const std::string& path : damaged) print_text("damaged: " + path);
    print_text(damaged.empty() ? "every entry is whole" : "damaged entries are rebuilt when they are needed");
  }
  return damaged.empty();
}

void show_removed(int64_t count, bool json) {
  if (json) {
    print(Json{{"removed", count}});
  } else {
    print_text(fmt::format("{} files removed", count));
  }
}

Result<bool> cache(const CacheFlags& flags) {
  Options options;
  if (!flags.cache_dir.empty()) options.cache_dir = flags.cache_dir;
  if (!flags.cache_server.empty()) FUSEC_TRY(runtime::set_option(options, "cache-server", flags.cache_server, "--"));
  const std::string root = runtime::cache_root(options);
  if (root.empty()) {
    return Status(StatusCode::invalid_argument, "there is no cache folder: HOME is not set; give --cache-dir DIR");
  }
  FUSEC_ASSIGN(const auto opened, runtime::KernelCache::open_root(root, runtime::make_warn(options)));
  if (flags.action == "ls") {
    show_list(*opened, flags.json);
  } else if (flags.action == "stats") {
    show_stats(*opened, root, options, flags.json);
  } else if (flags.action == "verify") {
    return show_damaged(*opened, flags.json);
  } else if (flags.action == "clear") {
    show_removed(opened->clear(), flags.json);
  } else if (flags.action == "gc") {
    int64_t bytes = options.cache_limit;
    if (!flags.max_size.empty()) {
      FUSEC_ASSIGN(bytes, runtime::parse_size(flags.max_size, "--max-size"));
    }
    show_removed(opened->gc(bytes), flags.json);
  } else {
    return Status(StatusCode::invalid_argument,
                  fmt::format("cache '{}' is none of ls, stats, verify, gc, clear", flags.action));
  }
  return true;
}

}  // namespace

Command cache_command() {
  auto flags = std::make_shared<CacheFlags>();
  return {"cache", "look at and clean the cache of compiled kernels",
          "  fusec cache stats\n"
          "  fusec cache ls --json\n"
          "  fusec cache verify                    exit code 1 when an entry is damaged\n"
          "  fusec cache gc --max-size 500M        the entries used longest ago go first (default 2G)\n"
          "  fusec cache clear --cache-dir DIR",
          [flags](Flags& f) {
            f.argument("action", flags->action, "ls, stats, verify, gc or clear");
            f.option("--cache-dir", flags->cache_dir,
                     "default: $FUSEC_CACHE_DIR, $XDG_CACHE_HOME/fusec, ~/.cache/fusec");
            f.option("--cache-server", flags->cache_server,
                     "of stats: a server that is asked whether it answers; default: $FUSEC_CACHE_SERVER");
            f.option("--max-size", flags->max_size, "of gc: bytes to keep, such as 500M or 1G");
            f.flag("--json", flags->json, "machine-readable result");
          },
          [flags] { return cache(*flags); }};
}

}  // namespace fusec::tool
