// SPDX-License-Identifier: Apache-2.0
// Makes the kernels of one set of shapes. The graph and the partition are those of all shapes, so the steps are, too:
// what changes is how lower schedules their kernels. The kernel cache keeps a note once all of them have been made, and
// another process then takes them from there before its first run.

#include "runtime/engine/specialize.h"

#include <map>
#include <utility>

#include "compiler/lower/lower.h"
#include "ir/support/check.h"
#include "ir/support/hash.h"
#include "ir/support/stage_context.h"
#include "runtime/cache/artifact.h"
#include "runtime/engine/engine.h"

namespace fusec::runtime {
namespace {

class Specialization {
 public:
  Specialization(const ir::Program& generic, SpecializeSource source) : source_(std::move(source)) {
    for (const Tensor& constant : generic.constants) constants_.push_back(constant.data());
    for (const ir::KernelId id : picked_kernels(generic)) generic_[compiler::kernel_key(generic.kernels[id])] = id;
  }

  Result<std::shared_ptr<const LoadedProgram>> make(const std::shared_ptr<const LoadedProgram>& generic,
                                                    const Bindings& values, Effort effort,
                                                    const std::atomic<bool>& cancelled) const {
    Options options = source_.options;
    if (effort == Effort::cached) options.cache_server = "";  // a run waits for the answer
    const std::unique_ptr<KernelCache> cache = KernelCache::open(options, source_.target.name);
    const std::string note = note_key(*generic, values);
    if (effort == Effort::cached && !(cache && cache->load(note))) return std::shared_ptr<const LoadedProgram>();
    const ir::Deadline deadline(source_.options.compile_seconds, &cancelled);
    FUSEC_ASSIGN(SpecializedProgram special, lower(values, deadline));
    const std::vector<ir::KernelId> own = take_same(*generic, special);
    if (own.empty()) return std::shared_ptr<const LoadedProgram>();
    std::optional<Artifacts> known =
        find_kernels(special.program, own, source_.target, source_.options.codegen, cache.get());
    if (!known && effort == Effort::cached) return std::shared_ptr<const LoadedProgram>();
    if (known) {
      special.artifacts = std::move(*known);
    } else {
      FUSEC_ASSIGN(special.artifacts, compile(special.program, own, cache.get(), deadline));
    }
    if (cache) store_note(*cache, note);
    return link_specialized(generic, std::move(special));
  }

 private:
  Result<SpecializedProgram> lower(const Bindings& values, const ir::Deadline& deadline) const {
    SpecializedProgram special;
    FUSEC_ASSIGN(special.program, compiler::lower(source_.graph, source_.partition, source_.target, source_.options,
                                                  deadline, limits_of(source_.tuning, Listing::needed), {values, 1}));
    FUSEC_TRY(compiler::select(special.program, source_.target, source_.tuning));
    bool same = special.program.constants.size() == constants_.size();
    for (std::size_t i = 0; same && i < constants_.size(); ++i)
      same = std::as_const(special.program.constants[i]).data() == constants_[i];
    if (!same) return Status(StatusCode::internal, "the kernels for these shapes read other constants");
    return special;
  }

  // Fills SpecializedProgram::same, and answers the picked kernels that are not among them.
  std::vector<ir::KernelId> take_same(const LoadedProgram& generic, SpecializedProgram& special) const {
    std::vector<ir::KernelId> own;
    for (const ir::KernelId id : picked_kernels(special.program)) {
      const auto same = generic_.find(compiler::kernel_key(special.program.kernels[id]));
      if (same != generic_.end() && !generic.kernel(same->second).phases.empty())
        special.same[id] = same->second;
      else
        own.push_back(id);
    }
    return own;
  }

  // On this thread alone.
  Result<Artifacts> compile(const ir::Program& program, const std::vector<ir::KernelId>& ids, KernelCache* cache,
                            const ir::Deadline& deadline) const {
    KernelCounts counts;
    return obtain_kernels(program, ids, source_.target, source_.options.codegen, cache, source_.options.use_cache, 1,
                          make_warn(source_.options), counts, deadline);
  }

  // The entry of the kernel cache that says that a process has made the kernels of these shapes.
  static std::string note_key(const LoadedProgram& generic, const Bindings& values) {
    std::string text = "specialized 1";
    for (const auto& artifact : generic.artifacts) text += "\n" + artifact->key;
    for (const auto& [name, value] : values) text += "\n" + name + "=" + std::to_string(value);
    return "specialized " + ir::to_hex(ir::sha256(text));
  }

  static void store_note(KernelCache& cache, const std::string& key) {
    codegen::Artifact note;
    note.key = key;
    cache.store_own(note);
  }

  const SpecializeSource source_;
  std::vector<const void*> constants_;           // of the generic Program, as lower gave them
  std::map<std::string, ir::KernelId> generic_;  // its picked kernels
};

}  // namespace

SpecializeProgram specialize_from(const ir::Program& generic, SpecializeSource source) {
  auto shared = std::make_shared<const Specialization>(generic, std::move(source));
  return [shared](const std::shared_ptr<const LoadedProgram>& loaded, const Bindings& values, Effort effort,
                  const std::atomic<bool>& cancelled) { return shared->make(loaded, values, effort, cancelled); };
}

}  // namespace fusec::runtime
