// SPDX-License-Identifier: Apache-2.0
// Selects the variant of each slot for one set of symbol values and evaluates all offsets, shapes and strides to
// numbers; this is the first step of bind. A view outside its allocation fails a FUSEC_CHECK.

#include "runtime/plan/resolve.h"

#include <algorithm>

#include "ir/support/check.h"

namespace fusec::runtime {
namespace {

// What one Plan may keep for its lifetime. It bounds memory, not time: writing a value again takes at least as long as
// reading it. A Session holds 16 Plans, so this is 512 MiB at most. A mask of 2048 x 2048 floats takes half of it.
constexpr int64_t kMostKept = int64_t{32} << 20;

const std::vector<ir::View>& views_of(const ir::Step& step) {
  if (const auto* launch = std::get_if<ir::KernelStep>(&step.v)) return launch->args;
  return std::get<ir::LibraryStep>(step.v).args;
}

int64_t multiply_add(int64_t sum, int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product) || __builtin_add_overflow(sum, product, &sum)) throw DimOverflow();
  return sum;
}

// Checks that lowest and highest element of the view lie in the allocation.
void check_bounds(const ResolvedView& view, int64_t first, int64_t elements, const ir::Step& step) {
  if (view.empty()) return;
  int64_t low = first, high = first;
  for (std::size_t axis = 0; axis < view.shape.size(); ++axis) {
    int64_t& end = view.strides[axis] < 0 ? low : high;
    end = multiply_add(end, view.shape[axis] - 1, view.strides[axis]);
  }
  FUSEC_CHECK(low >= 0 && high < elements) << "in step '" << step.origin << "' a view reaches elements " << low
                                           << " to " << high << " of an allocation of " << elements;
}

ResolvedView resolve_view(const ir::Program& program, const ir::View& view, const Bindings& bindings,
                          const ir::Step& step) {
  const ir::Allocation& alloc = program.allocs[view.alloc];
  ResolvedView out;
  out.alloc = view.alloc;
  out.dtype = alloc.dtype;
  const int64_t first = evaluate(view.offset, bindings);
  out.offset = multiply_add(0, first, static_cast<int64_t>(size_of(alloc.dtype)));
  out.shape = evaluate(view.shape, bindings);
  out.strides = evaluate(view.strides, bindings);
  FUSEC_CHECK(out.shape.size() == out.strides.size()) << "a view of step '" << step.origin << "' lacks strides";
  check_bounds(out, first, evaluate(alloc.elements, bindings), step);
  return out;
}

bool holds(const std::vector<Dim>& when, const Bindings& bindings) try {
  return std::all_of(when.begin(), when.end(), [&](const Dim& d) { return evaluate(d, bindings) >= 0; });
} catch (const DimOverflow&) {
  return false;
}

const ir::Candidate& take(const ir::Slot& slot, const Bindings& bindings) {
  const ir::Variant& variant = variant_for(slot, bindings);
  FUSEC_CHECK(variant.picked >= 0 && static_cast<std::size_t>(variant.picked) < variant.candidates.size())
      << "a variant without a picked candidate";
  return variant.candidates[static_cast<std::size_t>(variant.picked)];
}

ResolvedStep resolve_step(const ir::Program& program, const ir::Step& step, const Bindings& bindings) {
  ResolvedStep out;
  out.step = &step;
  for (const ir::View& view : views_of(step)) out.args.push_back(resolve_view(program, view, bindings, step));
  if (const auto* launch = std::get_if<ir::KernelStep>(&step.v)) out.extents = evaluate(launch->extents, bindings);
  return out;
}

bool writes_nothing(const ir::Program& program, const ResolvedStep& step) {
  for (std::size_t i = 0; i < step.args.size(); ++i) {
    if (writes(program, *step.step, i) && !step.args[i].empty()) return false;
  }
  return true;
}

}  // namespace

bool ResolvedView::empty() const { return std::find(shape.begin(), shape.end(), 0) != shape.end(); }

int64_t evaluate(const Dim& dim, const Bindings& bindings) {
  if (dim.is_const()) return dim.value();
  const std::optional<int64_t> value = dim.eval(bindings);
  FUSEC_CHECK(value.has_value()) << "extent " << dim.str() << " has no value for the shapes given";
  return *value;
}

std::vector<int64_t> evaluate(const Shape& shape, const Bindings& bindings) {
  std::vector<int64_t> out(shape.size());
  std::transform(shape.begin(), shape.end(), out.begin(), [&](const Dim& d) { return evaluate(d, bindings); });
  return out;
}

const ir::Variant& variant_for(const ir::Slot& slot, const Bindings& bindings) {
  const auto it = std::find_if(slot.variants.begin(), slot.variants.end(),
                               [&](const ir::Variant& variant) { return holds(variant.when, bindings); });
  FUSEC_CHECK(it != slot.variants.end()) << "no variant of a slot covers these shapes";
  return *it;
}

bool writes(const ir::Program& program, const ir::Step& step, std::size_t arg) {
  if (const auto* launch = std::get_if<ir::KernelStep>(&step.v)) {
    const ir::Kernel& kernel = program.kernels[launch->kernel];
    return arg >= kernel.params.size() || kernel.buffers[kernel.params[arg]].space == ir::Space::out;
  }
  return arg + 1 == std::get<ir::LibraryStep>(step.v).args.size();
}

bool has_weights(const ir::Program& program) {
  return std::any_of(program.allocs.begin(), program.allocs.end(), [](const ir::Allocation& alloc) {
    return alloc.kind == ir::AllocKind::constant && !alloc.name.empty();
  });
}

Result<ResolvedProgram> resolve(const ir::Program& program, const Bindings& bindings) try {
  ResolvedProgram out;
  for (const ir::Allocation& alloc : program.allocs) {
    const int64_t elements = evaluate(alloc.elements, bindings);
    FUSEC_CHECK(elements >= 0) << "an allocation of " << elements << " elements";
    out.alloc_bytes.push_back(multiply_add(0, elements, static_cast<int64_t>(size_of(alloc.dtype))));
  }
  for (const ir::Slot& slot : program.slots) {
    for (const ir::Step& step : take(slot, bindings).steps) {
      ResolvedStep resolved = resolve_step(program, step, bindings);
      if (!writes_nothing(program, resolved)) out.steps.push_back(std::move(resolved));
    }
  }
  put_once_steps_first(program, out, has_weights(program) ? INT64_MAX : kMostKept);
  return out;
} catch (const DimOverflow&) {
  return Status(StatusCode::out_of_memory, "a buffer for these shapes passes 63 bits of bytes");
}

}  // namespace fusec::runtime
