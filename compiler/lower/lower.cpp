// SPDX-License-Identifier: Apache-2.0
// Runs the lower stage: makes allocations, one kernel per distinct generated region, and library steps.

#include "compiler/lower/lower.h"

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "compiler/lower/cuda/families.h"
#include "compiler/lower/host/families.h"
#include "compiler/lower/library_step.h"
#include "compiler/lower/nest/nest.h"
#include "compiler/lower/region_nest.h"
#include "compiler/lower/schedule/kernel_name.h"
#include "compiler/lower/schedule/schedule.h"
#include "compiler/lower/split.h"
#include "compiler/partition/graph_names.h"
#include "compiler/partition/limits.h"
#include "compiler/partition/partition.h"
#include "ir/cost/cost.h"
#include "ir/support/check.h"
#include "ir/support/parallel.h"
#include "ir/text/kernel_text.h"

namespace fusec::compiler {

using ir::AllocId;
using ir::AllocKind;

namespace {

constexpr const char* kOnlyWay = "the only way";
constexpr int64_t kLargeSymbol = 64;  // such as a large batch

class Lowering {
 public:
  Lowering(const Graph& graph, const Partition& partition, const Target& target, const Options& options,
           const ir::Deadline& deadline, const CandidateLimits& limits, const LowerSettings& settings)
      : graph_(graph),
        partition_(partition),
        target_(target),
        options_(options),
        deadline_(deadline),
        settings_(settings),
        limits_(limits),
        ranges_(ir::symbol_ranges(graph.limits)) {
    for (NodeId id : graph.order) {
      const Node& node = graph.nodes[id];
      if (node.op != ir::Op(ir::TensorOp::slice)) continue;
      if (const auto view = find_view(graph, partition.storage, node.inputs[0])) ++slices_[view->base];
    }
  }

  Result<ir::Program> run() {
    program_.name = graph_.name;
    program_.symbols = graph_.symbols;
    program_.limits = graph_.limits;
    program_.imported_ops = graph_.imported_ops;
    interface();
    schedule_regions();
    for (size_t i = 0; i < partition_.regions.size(); ++i) {
      const Region& region = partition_.regions[i];
      FUSEC_TRY(deadline_.check("lower", static_cast<double>(i) / static_cast<double>(partition_.regions.size())));
      Result<ir::Slot> slot = region.kind == RegionKind::anchor ? library_slot(region) : kernel_slot(region, keys_[i]);
      if (!slot.ok()) return slot.status().with_note("while lowering " + origin(region));
      program_.slots.push_back(std::move(*slot));
    }
    for (const FusionBoundary& boundary : partition_.boundaries) program_.notes.push_back(note(boundary));
    return std::move(program_);
  }

 private:
  void interface() {
    for (ValueId v : graph_.inputs) {
      program_.inputs.push_back(allocate(v, AllocKind::input, static_cast<uint32_t>(program_.inputs.size())));
      program_.input_types.push_back(graph_.type(v));
      program_.input_names.push_back(graph_.values[v].name);
    }
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const ValueId v = graph_.outputs[i];
      program_.outputs.push_back(allocate(v, AllocKind::output, static_cast<uint32_t>(i)));
      program_.allocs[program_.outputs.back()].name = graph_.output_names[i];
      program_.output_types.push_back(graph_.type(v));
      program_.output_names.push_back(graph_.output_names[i]);
    }
  }

  AllocId allocate(ValueId base, AllocKind kind, uint32_t ordinal) {
    const ir::Type& type = graph_.type(base);
    const AllocId id = program_.allocs.push_back(
        {kind, graph_.values[base].name, type.dtype, num_elements(type.shape), ordinal, base});
    allocs_[base] = id;
    return id;
  }

  AllocId get_or_allocate(ValueId base) {
    if (auto it = allocs_.find(base); it != allocs_.end()) return it->second;
    if (const Tensor* data = graph_.constant(base)) {
      program_.constants.push_back(*data);
      return allocate(base, AllocKind::constant, static_cast<uint32_t>(program_.constants.size() - 1));
    }
    return allocate(base, AllocKind::temporary, 0);
  }

  std::string origin(const Region& region) const {
    std::string text;
    for (NodeId id : region.nodes) {
      const std::string& o = graph_.nodes[id].origin;
      if (o.empty() || text.size() > 120) continue;
      text += (text.empty() ? "" : ", ") + o;
    }
    return text.empty() ? "a region" : text;
  }

  std::string note(const FusionBoundary& boundary) const {
    const Node* from = graph_.producer(boundary.value);
    return (from == nullptr ? graph_.values[boundary.value].name : from->origin) + " -> " +
           graph_.nodes[boundary.user].origin + ": " + boundary.reason;
  }

  // --- generated kernels ---------------------------------------------------------------------------------------

  // The kernel and arguments of a region, in terms of its RegionKey::values: equal regions are scheduled once.
  struct Generated {
    struct Param {
      size_t base;  // position among the values
      Dim offset, elements;
    };
    struct Scratch {
      DType dtype;
      Dim elements;
    };
    ir::KernelId kernel;  // for all shapes
    // The same kernel with 32-bit indices, which suffice where all Dims are at least 0; invalid where there is none.
    ir::KernelId narrow;
    std::vector<Dim> narrow_when;
    std::string why;
    std::vector<Dim> extents;
    std::vector<Param> params;
    std::vector<Scratch> scratch;
    double predicted_us = 0;      // with those of `rest`
    std::vector<Generated> rest;  // of a region in several kernels: those that follow
  };

  // A kernel that has no id yet, with what names it. `made` lacks the ids.
  struct Scheduled {
    Generated made;
    ir::Kernel kernel;  // canonical
    std::string stem, text;
    std::vector<Dim> many;        // each at least 0 where there are many of what the schedule asked for
    std::vector<Scheduled> rest;  // as Generated has them
  };

  // The candidates for shapes where all Dims of `when` are at least 0.
  template <class T>
  struct ForShapes {
    std::vector<Dim> when;
    bool adds_alike = true;  // as those for all shapes do
    std::vector<T> candidates;
    // What adds in an order of its own is needed for all those shapes: results then depend on the length of a row, but
    // not on the number of rows. Else the candidates for all shapes serve the few for which 32 bits do not suffice.
    bool is_only_narrow() const { return !when.empty() && adds_alike; }
  };
  template <class T>
  using Alternatives = std::vector<ForShapes<T>>;  // the last ones are for all shapes

  // Schedules the first region of each key. Regions do not depend on each other, so several threads share them.
  void schedule_regions() {
    std::vector<const Region*> first;
    for (const Region& region : partition_.regions) {
      const bool generated = region.kind != RegionKind::anchor;
      keys_.push_back(generated ? region_key(graph_, partition_.storage, region) : RegionKey{});
      if (generated && scheduled_at_.emplace(keys_.back().text, first.size()).second) first.push_back(&region);
    }
    scheduled_.assign(first.size(), Alternatives<Scheduled>{});
    constexpr int64_t kRegionsOfAThread = 4;  // take longer than a thread to start
    const auto regions = static_cast<int64_t>(first.size());
    const int64_t cores = settings_.threads > 0 ? settings_.threads : std::max(1U, std::thread::hardware_concurrency());
    const int64_t threads = std::min(cores, (regions + kRegionsOfAThread - 1) / kRegionsOfAThread);
    ir::for_each_parallel(static_cast<int>(threads), regions, [&](int64_t i) {
      const Region& region = *first[static_cast<size_t>(i)];
      const RegionKey& key = keys_[static_cast<size_t>(&region - partition_.regions.data())];
      scheduled_[static_cast<size_t>(i)] = make_schedules(region, key.values);
    });
  }

  Result<ir::Slot> kernel_slot(const Region& region, const RegionKey& key) {
    auto known = generated_.find(key.text);
    if (known == generated_.end()) {
      FUSEC_ASSIGN(Alternatives<Scheduled> scheduled, std::move(scheduled_[scheduled_at_.at(key.text)]));
      Alternatives<Generated> all;
      for (auto& [when, alike, candidates] : scheduled) {
        ForShapes<Generated>& some = all.emplace_back(ForShapes<Generated>{std::move(when), alike, {}});
        for (Scheduled& one : candidates) some.candidates.push_back(add_kernels(std::move(one), some.is_only_narrow()));
      }
      known = generated_.emplace(key.text, std::move(all)).first;
    }
    // Those with 32-bit indices first, so that the most usual shapes take the first one.
    std::vector<ir::Variant> narrow, wide;
    for (const ForShapes<Generated>& some : known->second) add_variants(some, region, key, narrow, wide);
    ir::Slot slot;
    slot.variants = std::move(narrow);
    std::move(wide.begin(), wide.end(), std::back_inserter(slot.variants));
    return slot;
  }

  // 32-bit indices suffice where they do for all candidates.
  void add_variants(const ForShapes<Generated>& some, const Region& region, const RegionKey& key,
                    std::vector<ir::Variant>& narrow, std::vector<ir::Variant>& wide) {
    ir::Variant with_32, any;
    const auto add = [](std::vector<Dim>& when, const std::vector<Dim>& conditions) {
      for (const Dim& dim : conditions)
        if (std::find(when.begin(), when.end(), dim) == when.end()) when.push_back(dim);
    };
    any.when = some.when;
    for (const Generated& made : some.candidates) {
      ir::Candidate& narrowed = with_32.candidates.emplace_back();
      narrowed.why = made.why, narrowed.predicted_us = made.predicted_us;
      ir::Candidate& general = any.candidates.emplace_back(narrowed);
      const auto launch = [&](const Generated& one) {
        ir::KernelStep step = kernel_step(one, key);
        add(with_32.when, one.narrow_when);
        step.kernel = one.narrow.valid() ? one.narrow : one.kernel;
        narrowed.steps.push_back({step, origin(region)});
        step.kernel = one.kernel;
        general.steps.push_back({std::move(step), origin(region)});
      };
      launch(made);
      for (const Generated& next : made.rest) launch(next);
    }
    const bool depends = !with_32.when.empty();
    add(with_32.when, some.when);
    if (depends) narrow.push_back(std::move(with_32));
    if (!depends || !some.is_only_narrow()) wide.push_back(std::move(any));
  }

  // Without its kernel.
  ir::KernelStep kernel_step(const Generated& made, const RegionKey& key) {
    ir::KernelStep step;
    step.extents = made.extents;
    for (const Generated::Param& param : made.params)
      step.args.push_back({get_or_allocate(key.values[param.base]), param.offset, {param.elements}, {1}});
    for (const Generated::Scratch& scratch : made.scratch) {
      const AllocId id = program_.allocs.push_back({AllocKind::temporary, "", scratch.dtype, scratch.elements, 0});
      step.args.push_back({id, 0, {scratch.elements}, {1}});
    }
    return step;
  }

  ir::KernelCost predict(const ir::Kernel& kernel, const std::vector<Dim>& launch, int64_t symbol) const {
    std::map<std::string, int64_t> symbols;
    for (const std::string& name : graph_.symbols) symbols[name] = symbol;
    for (const auto& [name, value] : settings_.symbol_values) symbols[name] = value;
    std::vector<int64_t> extents;
    for (const Dim& extent : launch) extents.push_back(extent.eval(symbols).value_or(1));
    for (const auto& [extent, divisor] : kernel.divisible)  // as the kernel is launched
      extents[extent.index] = (extents[extent.index] + divisor - 1) / divisor * divisor;
    return ir::cost(kernel, target_, {extents});
  }

  // Whether a kernel of this cost may have more candidates than one. Where extents are not fixed, select takes none by
  // its prediction.
  bool has_alternatives(const ir::KernelCost& cost, const ir::Kernel& first, bool fixed) const {
    if (cost.predicted_us < limits_.short_launches * target_.model.dependent_launch.value) return false;
    const bool may_gain = fixed && cost.bound_us < limits_.share_of_bound * cost.predicted_us;
    return may_gain || (limits_.is_measured && limits_.is_measured(first));
  }

  // For the values of the symbols that are known, or for all where numbers in their place divide by 0: in a loop that
  // never runs.
  Result<Alternatives<Scheduled>> make_schedules(const Region& region, const std::vector<ValueId>& values) const {
    try {
      return make_schedules(region, values, settings_.symbol_values);
    } catch (const DimOverflow&) {
      if (settings_.symbol_values.empty()) throw;
      return make_schedules(region, values, {});
    }
  }

  // The candidates of a region: for shapes that 16 bytes divide, where that matters, and for all shapes.
  Result<Alternatives<Scheduled>> make_schedules(const Region& region, const std::vector<ValueId>& values,
                                                 const SymbolBindings& symbols) const {
    FUSEC_ASSIGN(LoopNest nest, unscheduled_nest(region, partition_.storage, symbols));
    Alternatives<Scheduled> all;
    FUSEC_ASSIGN(std::vector<Scheduled> usual, make_candidates(region, values, nest, symbols));
    if (target_.kind == TargetKind::cuda && !graph_.symbols.empty() && !has_scan(region)) {
      const Alignment alignment = assume_aligned(nest, usual[0].kernel);
      if (!alignment.extents.empty()) {
        FUSEC_ASSIGN(std::vector<Scheduled> aligned, make_candidates(region, values, nest, symbols));
        const bool alike = adds_alike(aligned[0].kernel, usual[0].kernel);
        if (alike || of_reduced_extents(nest.domain, alignment))
          FUSEC_TRY(add_by_count(all, region, values, nest, {alignment.when(), alike, std::move(aligned)}));
      }
      nest.multiples.clear();
    }
    ForShapes<Scheduled> any{{}, true, std::move(usual)};
    FUSEC_TRY(add_by_count(all, region, values, nest, std::move(any)));
    return all;
  }

  // Adds the candidates, or others for few results and for many if their schedules depend on that; the order of sums
  // does for products alone (LoopNest::splits_sums). Those for few come first, as most runs have one sample.
  Status add_by_count(Alternatives<Scheduled>& all, const Region& region, const std::vector<ValueId>& values,
                      LoopNest nest, ForShapes<Scheduled> made) const {
    if (made.candidates[0].many.empty()) return all.push_back(std::move(made)), Status();
    SymbolBindings one;
    for (const std::string& name : graph_.symbols) one[name] = 1;
    nest.has_many = true;
    FUSEC_ASSIGN(std::vector<Scheduled> many, make_candidates(region, values, nest, {}));
    const std::vector<Dim> conditions = many[0].many;
    const auto holds = [&](const Dim& dim) { return dim.eval(one).value_or(0) >= 0; };
    if (!std::all_of(conditions.begin(), conditions.end(), holds)) {
      nest.has_many.reset(), nest.typical = one;
      FUSEC_ASSIGN(std::vector<Scheduled> few, make_candidates(region, values, nest, {}));
      ForShapes<Scheduled> some{made.when, made.adds_alike, {}};
      for (const Dim& dim : conditions) some.when.push_back(-dim - 1);
      const bool differs = few[0].text != many[0].text;
      some.candidates = std::move(few);
      if (differs) all.push_back(std::move(some));
    }
    made.candidates = std::move(many);
    all.push_back(std::move(made));
    return {};
  }

  // The order of a scan's sums cannot be read from its kernel, so nothing shows that another kernel adds alike.
  bool has_scan(const Region& region) const {
    return std::any_of(region.nodes.begin(), region.nodes.end(),
                       [&](NodeId id) { return graph_.nodes[id].op == ir::TensorOp::cumsum; });
  }

  // Lets the nest assume what makes the accesses of its kernel wider than those of `usual`, and no more than that.
  Alignment assume_aligned(LoopNest& nest, const ir::Kernel& usual) const {
    Alignment wanted = find_alignment(nest);
    if (wanted.extents.empty()) return {};
    const AccessWidths before = measure_accesses(usual, wanted.params);
    if (before.narrowest >= wanted.elements) return {};
    nest.multiple_of = wanted.elements;
    const auto widths_with = [&](const std::vector<Dim>& extents) {
      LoopNest probe = nest;
      probe.multiples = extents;
      schedule(probe, abstract_extents(probe), {});
      return measure_accesses(probe.kernel, wanted.params);
    };
    const AccessWidths best = widths_with(wanted.extents);
    if (best <= before) return {};
    for (size_t i = wanted.extents.size(); i-- > 0 && wanted.extents.size() > 1;) {
      std::vector<Dim> fewer = wanted.extents;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (widths_with(fewer) >= best) wanted.extents = std::move(fewer);
    }
    nest.multiples = wanted.extents;
    return wanted;
  }

  // Whether the condition speaks of the lengths of sums alone.
  static bool of_reduced_extents(const Domain& domain, const Alignment& alignment) {
    std::set<std::string> reduced, asked;
    for (size_t i = 0; i < domain.extents.size(); ++i)
      if (domain.reduced[i]) domain.extents[i].collect_symbols(reduced);
    for (const Dim& extent : alignment.extents) extent.collect_symbols(asked);
    return std::includes(reduced.begin(), reduced.end(), asked.begin(), asked.end());
  }

  using Storages = std::map<ValueId, Storage>;

  Result<LoopNest> unscheduled_nest(const Region& region, const Storages& storage,
                                    const SymbolBindings& symbols) const {
    FUSEC_TRY(deadline_.check("lower"));
    FUSEC_ASSIGN(LoopNest nest, build_region_nest({graph_, storage, target_, options_.numerics}, region));
    if (graph_.nodes[region.nodes[0]].op == ir::TensorOp::attention) return fix_symbols(nest, symbols), nest;
    const auto multiplies = [&](NodeId id) { return is_product_sum(graph_, graph_.nodes[id], true); };
    nest.multiplies = multiplies_by_kernels(target_, options_) && std::ranges::any_of(region.nodes, multiplies);
    nest.splits_sums = nest.multiplies && !options_.batch_invariant;
    find_aliases(nest);
    rebase_inputs(nest, [&](ValueId base) {
      const auto count = slices_.find(base);
      return count != slices_.end() && count->second > kMaxSlicesInPlace;
    });
    if (!nest.domain.has_reduced()) fix_symbols(nest, symbols);
    if (target_.kind == TargetKind::cuda) split_loops(nest);
    collapse(nest);
    return nest;
  }

  // Candidates for what the nest knows of its shapes. The first one is as the families choose by themselves.
  Result<std::vector<Scheduled>> make_candidates(const Region& region, const std::vector<ValueId>& values,
                                                 LoopNest nest, const SymbolBindings& symbols) const {
    const std::vector<Dim> extents = abstract_extents(nest);
    const std::string stem = make_name_stem(graph_, region, nest);
    if (!symbols.empty()) nest.typical = symbols;
    const LoopNest unscheduled = nest;
    const ScheduleChoice own = schedule(nest, extents, {});
    std::vector<Scheduled> all;
    all.push_back(scheduled(std::move(nest), extents, values, stem, symbols));
    // Symbols of the model have the value that unset ones have at a run; what matters is seen at a larger one.
    const bool fixed = !symbols.empty() || std::ranges::all_of(extents, [](const Dim& d) { return d.is_const(); });
    const int64_t symbol = fixed ? 1 : kLargeSymbol;
    const std::vector<Dim> launch = all[0].made.extents;
    const ir::KernelCost cost = predict(all[0].kernel, launch, symbol);
    all[0].made.predicted_us = fixed ? cost.predicted_us : predict(all[0].kernel, launch, 1).predicted_us;
    if (!has_alternatives(cost, all[0].kernel, fixed)) return all;
    const auto is_near = [&](double us) { return us <= limits_.far_from_first * cost.predicted_us; };
    for (const SplitRegion& split : list_splits(graph_, region)) {
      std::optional<Scheduled> parts =
          split_schedule(split, unscheduled, all[0].kernel, values, is_near, symbols, symbol);
      if (parts && all.size() < limits_.most) all.push_back(*std::move(parts));
    }
    for (const ScheduleChoice& choice : list_choices(own)) {
      if (all.size() == limits_.most) break;
      nest = unscheduled;
      schedule(nest, extents, choice);
      const double us = predict(nest.kernel, extents, symbol).predicted_us;
      if (!is_near(us)) continue;
      const double predicted = fixed ? us : predict(nest.kernel, extents, 1).predicted_us;
      Scheduled other = scheduled(std::move(nest), extents, values, stem, symbols);
      const auto same = [&](const Scheduled& made) { return made.text == other.text; };
      if (std::any_of(all.begin(), all.end(), same)) continue;
      other.made.why = to_string(choice), other.made.predicted_us = predicted;
      all.push_back(std::move(other));
    }
    if (all.size() > 1) all[0].made.why = own == ScheduleChoice() ? "in one kernel" : to_string(own);
    return all;
  }

  // The region in two kernels that give the same bits as `whole`; nullopt where that is not evident, or too slow by the
  // prediction.
  std::optional<Scheduled> split_schedule(const SplitRegion& split, const LoopNest& assumed, const ir::Kernel& whole,
                                          const std::vector<ValueId>& values,
                                          const std::function<bool(double)>& is_near, const SymbolBindings& symbols,
                                          int64_t symbol) const {
    // A CPU's kernels add in loops of their own, whose order is not evident, and one of several axes follows memory.
    const Domain& domain = assumed.domain;
    const bool sums = sums_floats(graph_, split.first) || sums_floats(graph_, split.second);
    const auto axes = std::count(domain.reduced.begin(), domain.reduced.end(), true);
    if (sums && (target_.kind != TargetKind::cuda || axes != 1)) return std::nullopt;
    Storages storage = partition_.storage;
    storage[split.between] = {split.between, 0, contiguous_strides(graph_.type(split.between).shape)};
    std::vector<Scheduled> parts;
    double us = 0, listed_us = 0;
    for (const Region* region : {&split.first, &split.second}) {
      Result<LoopNest> nest = unscheduled_nest(*region, storage, symbols);
      if (!nest.ok()) return std::nullopt;
      nest->multiples = assumed.multiples, nest->multiple_of = assumed.multiple_of;
      nest->typical = assumed.typical, nest->has_many = assumed.has_many;
      const std::vector<Dim> extents = abstract_extents(*nest);
      const std::string stem = make_name_stem(graph_, *region, *nest);
      schedule(*nest, extents, {});
      us += predict(nest->kernel, extents, symbol).predicted_us;
      listed_us += predict(nest->kernel, extents, 1).predicted_us;
      parts.push_back(scheduled(*std::move(nest), extents, values, stem, symbols));
    }
    if (!is_near(us)) return std::nullopt;
    if (sums && !parts_add_alike(whole, {&parts[0].kernel, &parts[1].kernel})) return std::nullopt;
    Scheduled all = std::move(parts[0]);
    all.made.why = split.why, all.made.predicted_us = ir::rounded(listed_us);
    all.rest.push_back(std::move(parts[1]));
    return all;
  }

  ScheduleChoice schedule(LoopNest& nest, const std::vector<Dim>& extents, const ScheduleChoice& choice) const {
    if (target_.kind == TargetKind::cuda) return schedule_cuda(nest, target_, extents, choice);
    ScheduleChoice made = schedule_host(nest, target_, extents, choice);
    const auto is_result = [&](ValueId v) {
      return std::find(graph_.outputs.begin(), graph_.outputs.end(), v) != graph_.outputs.end();
    };
    if (choice.streams != Decision::no && stream(nest, target_, extents, is_result)) made.streams = Decision::yes;
    return made;
  }

  Scheduled scheduled(LoopNest nest, const std::vector<Dim>& extents, const std::vector<ValueId>& values,
                      const std::string& stem, const SymbolBindings& symbols) const {
    Scheduled out;
    Generated& made = out.made;
    made.extents = extents;
    if (!symbols.empty() && nest.domain.has_reduced()) {
      fix_extents(nest.kernel, made.extents, symbols);
      fix_params(nest.params, symbols);
    }
    made.why = kOnlyWay;
    for (const ParamSource& source : nest.params) {
      const auto at = std::lower_bound(values.begin(), values.end(), source.base);
      FUSEC_CHECK(at != values.end() && *at == source.base) << "a parameter that the region's key does not know";
      made.params.push_back({static_cast<size_t>(at - values.begin()), source.offset, source.elements});
    }
    for (const ir::Buffer& buffer : nest.kernel.buffers)
      if (buffer.space == ir::Space::scratch)
        made.scratch.push_back({buffer.dtype, scratch_elements(buffer, made.extents)});
    for (const CountQuestion& question : nest.questions) {
      const auto argument = [&](ir::SymbolId symbol) { return extents.at(symbol.index); };
      out.many.push_back(to_dim(question.count - question.least, argument));
    }
    out.stem = stem;
    out.kernel = canonical(nest.kernel);
    choose_index_width(out);
    out.text = print(out.kernel);
    return out;
  }

  // 32-bit indices wherever they suffice for some shapes, and alone where they do for all shapes that the graph's
  // limits let be. The choice is the GPU's: a CPU computes addresses in 64 bits.
  void choose_index_width(Scheduled& scheduled) const {
    if (target_.kind != TargetKind::cuda) return;
    std::vector<Dim> sizes;
    for (const Generated::Param& param : scheduled.made.params) sizes.push_back(param.elements);
    for (const Generated::Scratch& scratch : scheduled.made.scratch) sizes.push_back(scratch.elements);
    auto when = when_32_bits_suffice(sizes);
    scheduled.kernel.fits32 = when.has_value();
    if (!when) return;
    std::erase_if(*when, [&](const Dim& dim) { return proves_nonneg(dim, ranges_); });
    scheduled.made.narrow_when = *std::move(when);
  }

  // Adds the kernel and, where its indices of 32 bits do not suffice for every shape, the one for the other shapes.
  Generated add_kernels(Scheduled scheduled, bool only_narrow) {
    auto& [made, kernel, stem, text, many, rest] = scheduled;
    for (Scheduled& next : rest) made.rest.push_back(add_kernels(std::move(next), only_narrow));
    if (!made.narrow_when.empty()) {
      made.kernel = made.narrow = kernel_id(kernel, text, stem);
      if (only_narrow) return std::move(made);
      kernel.fits32 = false;
      text = with_new_facts(kernel, text);
    }
    made.kernel = kernel_id(std::move(kernel), text, stem);
    return std::move(made);
  }

  // The text of a kernel whose facts, which stand in its first line, have changed since `text` was printed.
  static std::string with_new_facts(ir::Kernel& kernel, const std::string& text) {
    ir::Block body = std::move(kernel.body);
    kernel.body.clear();
    const std::string head = print(kernel);
    kernel.body = std::move(body);
    return head.substr(0, head.find('\n')) + text.substr(text.find('\n'));
  }

  // The size of a scratch buffer, whose shape is in terms of the kernel's arguments.
  static Dim scratch_elements(const ir::Buffer& buffer, const std::vector<Dim>& launch) {
    return to_dim(num_elements(buffer.shape), [&](ir::SymbolId symbol) { return launch.at(symbol.index); });
  }

  // Returns the id of a canonical kernel with this text; equal kernels share one, named by the first region that has
  // it.
  ir::KernelId kernel_id(ir::Kernel kernel, const std::string& text, const std::string& stem) {
    if (auto it = kernels_.find(text); it != kernels_.end()) return it->second;
    kernel.name = make_kernel_name(stem, text, kNameDigits);
    if (!names_.insert(kernel.name).second) kernel.name = make_kernel_name(stem, text, kMoreNameDigits);
    const ir::KernelId id = program_.kernels.push_back(std::move(kernel));
    kernels_[text] = id;
    return id;
  }

  // --- library steps -------------------------------------------------------------------------------------------

  Result<ir::View> view(ValueId value) {
    const auto view = find_view(graph_, partition_.storage, value);
    if (!view) return Status(StatusCode::internal, "an operand of a library step is not materialized");
    return ir::View{get_or_allocate(view->base), view->offset, view->shape, view->strides};
  }

  Result<ir::Slot> library_slot(const Region& region) {
    const auto view_of = [&](ValueId value) { return view(value); };
    FUSEC_ASSIGN(ir::LibraryStep step, make_library_step(graph_, region, view_of));
    ir::Variant only;
    only.candidates.push_back({{}, kOnlyWay, 0});
    only.candidates[0].steps.push_back({std::move(step), origin(region)});
    ir::Slot slot;
    slot.variants.push_back(std::move(only));
    return slot;
  }

  const Graph& graph_;
  const Partition& partition_;
  const Target& target_;
  const Options& options_;
  const ir::Deadline& deadline_;
  const LowerSettings& settings_;
  const CandidateLimits& limits_;
  const DimRanges ranges_;
  ir::Program program_;
  std::map<ValueId, size_t> slices_;  // how often the value or a view of it is sliced
  std::map<ValueId, AllocId> allocs_;
  std::map<std::string, ir::KernelId> kernels_;               // by canonical text
  std::set<std::string> names_;                               // of the kernels
  std::vector<RegionKey> keys_;                               // of all regions; empty ones of library steps
  std::map<std::string, size_t> scheduled_at_;                // where in `scheduled_`, by the text of the region's key
  std::vector<Result<Alternatives<Scheduled>>> scheduled_;    // each is taken by the first region that needs it
  std::map<std::string, Alternatives<Generated>> generated_;  // by the text of the region's key
};

}  // namespace

Result<ir::Program> lower(const Graph& graph, const Partition& partition, const Target& target, const Options& options,
                          const ir::Deadline& deadline, const CandidateLimits& limits, const LowerSettings& settings) {
  return Lowering(graph, partition, target, options, deadline, limits, settings).run();
}

}  // namespace fusec::compiler
