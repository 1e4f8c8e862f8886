// SPDX-License-Identifier: Apache-2.0
// Obtains the machine code of kernels, in the emit stage or for a bind: from another Engine of the process, from the
// kernel cache, or by compiling it. Kernels are compiled in parallel, and concurrent requests for one key share a
// single compilation.

#include <time.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "codegen/emit.h"
#include "compiler/lower/gpu/gpu.h"
#include "ir/support/check.h"
#include "ir/support/parallel.h"
#include "runtime/engine/engine.h"
#include "runtime/threads/single_flight.h"

namespace fusec::runtime {
namespace {

struct Obtained {
  ArtifactPtr artifact;
  bool compiled = false;
  double ms = 0;  // that the compile took of one core
};

// Of the calling thread, so that it does not count how often the thread had to wait for a core.
double cpu_ms() {
  timespec time{};
  (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// Kernels that some Engine of this process holds, and compiles under way.
class KernelPool {
 public:
  ArtifactPtr find(const std::string& key) {
    const std::lock_guard lock(mutex_);
    auto it = held_.find(key);
    if (it == held_.end()) return nullptr;
    if (ArtifactPtr artifact = it->second.lock()) return artifact;
    held_.erase(it);
    return nullptr;
  }
  void hold(const ArtifactPtr& artifact) {
    const std::lock_guard lock(mutex_);
    if (held_.size() >= sweep_at_) {
      std::erase_if(held_, [](const auto& item) { return item.second.expired(); });
      sweep_at_ = 2 * held_.size() + 64;
    }
    held_[artifact->key] = artifact;
  }
  SingleFlight<std::string, Obtained> in_flight;

 private:
  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const codegen::Artifact>> held_;
  std::size_t sweep_at_ = 64;
};

// The pool of the process, through which equal kernels of different Engines are compiled once.
KernelPool& pool() {
  static KernelPool kernels;
  return kernels;
}

struct Source {
  const Target& target;
  codegen::EmitOptions options;
  KernelCache* cache;
  bool reuse;
};

Result<Obtained> load_or_emit(const ir::Kernel& kernel, const std::string& key, Codegen emitter, const Source& source) {
  if (source.cache != nullptr) {
    if (std::optional<codegen::Artifact> found = source.cache->load(key)) {
      return Obtained{std::make_shared<codegen::Artifact>(std::move(*found)), false};
    }
  }
  const double start = cpu_ms();
  FUSEC_ASSIGN(const ir::Kernel lowered, compiler::lower_for_writer(kernel, source.target));
  FUSEC_ASSIGN(codegen::Artifact made, codegen::emit_with(emitter, lowered, source.target));
  made.key = key;
  const double ms = cpu_ms() - start;
  auto artifact = std::make_shared<codegen::Artifact>(std::move(made));
  if (source.cache != nullptr) source.cache->store(*artifact);
  return Obtained{artifact, true, ms};
}

// Each emitter's code has its own key, so code from a fallback emitter is never mistaken for that of the first one.
Result<Obtained> obtain_by(Codegen emitter, const ir::Kernel& kernel, const Source& source) {
  const std::string key = codegen::artifact_key(kernel, source.target, emitter);
  return pool().in_flight.run(key, [&]() -> Result<Obtained> {
    if (source.reuse) {
      if (ArtifactPtr held = pool().find(key)) return Obtained{held, false};
    }
    Result<Obtained> fresh = load_or_emit(kernel, key, emitter, source);
    if (fresh.ok()) pool().hold(fresh->artifact);
    return fresh;
  });
}

Result<Obtained> obtain(const ir::Kernel& kernel, const Source& source) {
  Result<Obtained> obtained = codegen::by_first_emitter<Obtained>(
      kernel, source.target, source.options, [&](Codegen emitter) { return obtain_by(emitter, kernel, source); });
  if (!obtained.ok()) return obtained.status().with_note("while compiling kernel '" + kernel.name + "'");
  return obtained;
}

// Positions in `ids`, those of the kernels with the most statements first. They take longest to compile, and one that
// starts last keeps a single thread busy while the others have nothing left to do.
std::vector<std::size_t> longest_first(const ir::Program& program, const std::vector<ir::KernelId>& ids) {
  std::vector<int64_t> statements(ids.size(), 0);
  for (std::size_t i = 0; i < ids.size(); ++i)
    ir::for_each_stmt(program.kernels[ids[i]].body, [&](const ir::Stmt&) { ++statements[i]; });
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return statements[a] > statements[b]; });
  return order;
}

// By the emitter that would make it first.
ArtifactPtr find_one(const ir::Kernel& kernel, const Target& target, Codegen codegen, KernelCache* cache) {
  const std::string key = codegen::artifact_key(kernel, target, codegen);
  if (ArtifactPtr held = pool().find(key)) return held;
  std::optional<codegen::Artifact> stored = cache == nullptr ? std::nullopt : cache->load(key);
  if (!stored) return nullptr;
  auto artifact = std::make_shared<const codegen::Artifact>(std::move(*stored));
  pool().hold(artifact);
  return artifact;
}

}  // namespace

std::optional<Artifacts> find_kernels(const ir::Program& program, const std::vector<ir::KernelId>& ids,
                                      const Target& target, Codegen codegen, KernelCache* cache) {
  Artifacts artifacts;
  for (const ir::KernelId id : ids) {
    artifacts[id] = find_one(program.kernels[id], target, codegen, cache);
    if (!artifacts[id]) return std::nullopt;
  }
  return artifacts;
}

Result<Artifacts> obtain_kernels(const ir::Program& program, const std::vector<ir::KernelId>& ids, const Target& target,
                                 Codegen codegen, KernelCache* cache, bool reuse, int threads, const Warn& warn,
                                 KernelCounts& counts, const ir::Deadline& deadline) {
  const Source source{target, {.codegen = codegen, .on_warning = warn}, cache, reuse};
  std::vector<Result<Obtained>> results(ids.size(), Obtained{});
  const std::vector<std::size_t> order = longest_first(program, ids);
  ir::for_each_parallel(threads, static_cast<int64_t>(ids.size()), [&](int64_t i) {
    const std::size_t at = order[static_cast<std::size_t>(i)];
    results[at] = ir::guarded([&]() -> Result<Obtained> {
      FUSEC_TRY(deadline.check("emit", static_cast<double>(i) / static_cast<double>(ids.size())));
      return obtain(program.kernels[ids[at]], source);
    });
  });
  if (cache != nullptr) {
    counts.damaged = cache->damaged();
    counts.shared = cache->shared_hits();
    counts.server = cache->server_hits();
  }
  Artifacts artifacts;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (!results[i].ok()) return results[i].status();
    artifacts[ids[i]] = results[i]->artifact;
    ++counts.distinct;
    ++(results[i]->compiled ? counts.compiled : counts.cached);
    if (results[i]->compiled) counts.times.push_back({program.kernels[ids[i]].name, results[i]->ms});
  }
  std::stable_sort(counts.times.begin(), counts.times.end(),
                   [](const KernelTime& a, const KernelTime& b) { return a.ms > b.ms; });
  return artifacts;
}

}  // namespace fusec::runtime
