// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "codegen/emit.h"
#include "compiler/lower/gpu/gpu.h"
#include "compiler/lower/lower.h"
#include "compiler/partition/partition.h"
#include "compiler/passes/pipeline.h"
#include "compiler/select/select.h"
#include "ir/eval/graph.h"
#include "ir/eval/kernel.h"
#include "ir/ops/cast.h"
#include "ir/support/check.h"
#include "ir/text/kernel_text.h"
#include "ir/text/program_text.h"
#include "ir/verify/kernel.h"
#include "runtime/plan/resolve.h"
#include "tests/fuzz/execute.h"

namespace fusec::fuzz {
namespace {

using Tensors = std::vector<Tensor>;

struct FrontEnd {
  Options options;
  ir::Graph graph;  // as optimized
  compiler::Partition parts;
  ir::Program program;
};

Result<ir::Program> lower(const FrontEnd& f, const Target& target, const ir::SymbolBindings& symbols) {
  const compiler::CandidateLimits all{0, 0, [](const ir::Kernel&) { return true; }, 1e9, 64};
  FUSEC_ASSIGN(ir::Program program, compiler::lower(f.graph, f.parts, target, f.options, {}, all, {symbols}));
  FUSEC_TRY(compiler::select(program, target));
  return program;
}

Result<FrontEnd> front_end(const Case& c, const Target& target) {
  FrontEnd f;
  Options& options = f.options;
  options.numerics = c.setting.numerics;
  options.use_library = c.setting.use_library;
  options.disabled_passes = c.setting.disabled_passes;
  options.fuse = c.setting.fuse;
  options.verify_each_pass = true;
  f.graph = c.graph;
  FUSEC_TRY(compiler::optimize(f.graph, target, options));
  FUSEC_ASSIGN(f.parts, compiler::partition(f.graph, target, options));
  FUSEC_ASSIGN(f.program, lower(f, target, {}));
  return f;
}

// The memory of every allocation.
struct Store {
  std::vector<std::vector<char>> bytes;
  char* at(const runtime::ResolvedView& view) { return bytes[view.alloc.index].data() + view.offset; }
  // Whether all elements of the tensor, which begins where the view does, lie in the allocation. What spans the
  // elements of an empty view may have a negative extent.
  bool holds(const Tensor& tensor, const runtime::ResolvedView& view) const {
    if (std::any_of(tensor.shape().begin(), tensor.shape().end(), [](int64_t extent) { return extent <= 0; }))
      return true;
    int64_t first = 0, last = 0;
    for (std::size_t i = 0; i < tensor.shape().size(); ++i) {
      const int64_t way = (tensor.shape()[i] - 1) * tensor.strides()[i];
      (way < 0 ? first : last) += way;
    }
    const auto size = static_cast<int64_t>(size_of(tensor.dtype()));
    const auto end = static_cast<int64_t>(bytes[view.alloc.index].size()) - kPadding;
    return view.offset + first * size >= 0 && view.offset + (last + 1) * size <= end;
  }
  static constexpr int64_t kPadding = 16;
};

Store make_store(const ir::Program& program, const runtime::ResolvedProgram& resolved, const Tensors& inputs) {
  Store store;
  for (std::size_t i = 0; i < resolved.alloc_bytes.size(); ++i) {
    const ir::Allocation& alloc = program.allocs[ir::AllocId{static_cast<uint32_t>(i)}];
    std::vector<char> memory(static_cast<std::size_t>(resolved.alloc_bytes[i] + Store::kPadding), '\x5a');
    const Tensor* from = alloc.kind == ir::AllocKind::input      ? &inputs[alloc.ordinal]
                         : alloc.kind == ir::AllocKind::constant ? &program.constants[alloc.ordinal]
                                                                 : nullptr;
    if (from != nullptr) std::copy_n(from->as<char>(), from->bytes(), memory.data());
    store.bytes.push_back(std::move(memory));
  }
  return store;
}

// The kernel as it is launched: what the verifier cannot prove for all extents it can for these. Throws DimOverflow
// where a loop that never runs divides by an extent of 0.
ir::Kernel with_extents(ir::Kernel kernel, const std::map<std::string, int64_t>& extents) {
  const auto fix = [&](ir::IndexExpr& e) {
    e = e.substitute([&](ir::SymbolId symbol) -> std::optional<ir::IndexExpr> {
      const auto extent = symbol.extent();
      return extent ? std::optional<ir::IndexExpr>(extents.at(kernel.extents[*extent])) : std::nullopt;
    });
  };
  for (ir::Buffer& buffer : kernel.buffers) {
    for (ir::IndexExpr& e : buffer.shape) fix(e);
    for (ir::IndexExpr& e : buffer.strides) fix(e);
  }
  for_each_stmt(kernel.body, [&](ir::Stmt& stmt) { for_each_index(stmt, fix); });
  kernel.extents = {};
  kernel.divisible.clear();
  return kernel;
}

// Whether all accesses that the text quotes have one index.
bool one_element(const std::string& finding) {
  std::set<std::string> indices;
  for (std::size_t at = 0; (at = finding.find('[', at)) != std::string::npos; ++at)
    indices.insert(finding.substr(at, finding.find(']', at) - at));
  return indices.size() == 1;
}

// Findings that show a mistake; others are what the verifier cannot prove.
Status check_kernel(const ir::Kernel& kernel) {
  for (const std::string& finding : ir::findings(kernel)) {
    const auto says = [&](const char* words) { return finding.find(words) != std::string::npos; };
    if (says("cannot prove") || says("may write") || says("may both write")) continue;
    if (says("comes after") && !one_element(finding)) continue;
    return Status(StatusCode::internal, "kernel " + kernel.name + ": " + finding);
  }
  return {};
}

// The bytes from the first to the last element, gaps included.
int64_t spanned_bytes(const Tensor& t) {
  if (t.num_elements() == 0) return 0;
  int64_t span = 1;
  for (std::size_t a = 0; a < t.shape().size(); ++a) span += (t.shape()[a] - 1) * t.strides()[a];
  return span * static_cast<int64_t>(size_of(t.dtype()));
}

// Copies of tensors with the same strides, in memory of their own. Those that share memory do so as copies, too:
// outputs that are parts of one concat lie between each other's elements.
struct Copies {
  explicit Copies(const Tensors& from) {
    std::map<const char*, int64_t> begins;  // of tensors, and the most bytes that one of them spans
    for (const Tensor& t : from) {
      int64_t& bytes = begins[t.as<char>()];
      bytes = std::max(bytes, spanned_bytes(t));
    }
    std::map<const char*, std::vector<char>> blocks;  // by their first byte
    const char* end = nullptr;
    for (const auto& [begin, bytes] : begins) {
      const bool is_apart = blocks.empty() || begin >= end;
      end = is_apart ? begin + bytes : std::max(end, begin + bytes);
      const char* const first = is_apart ? begin : blocks.rbegin()->first;
      blocks[first].assign(first, end);
    }
    for (const Tensor& t : from) {
      auto& [first, block] = *std::prev(blocks.upper_bound(t.as<char>()));
      tensors.push_back(Tensor::borrow(t.dtype(), t.shape(), block.data() + (t.as<char>() - first), t.strides()));
    }
    for (auto& [first, block] : blocks) memory.push_back(std::move(block));  // whose bytes stay where they are
  }
  Tensors tensors;
  std::vector<std::vector<char>> memory;
};

// `other` has the elements of t at the same distances.
bool is_same(const Tensor& t, const Tensor& other) {
  const auto size = static_cast<int64_t>(size_of(t.dtype()));
  for (int64_t i = 0; i < spanned_bytes(t); i += size) {
    const char *x = t.as<char>() + i, *y = other.as<char>() + i;
    const bool both_nan =
        is_float(t.dtype()) && std::isnan(ir::load_double(t.dtype(), x)) && std::isnan(ir::load_double(t.dtype(), y));
    if (!both_nan && std::memcmp(x, y, static_cast<std::size_t>(size)) != 0) return false;
  }
  return true;
}

using Extents = std::map<std::string, int64_t>;

// A GPU's kernel gives the same bits in the form in which it is printed, thread by thread.
Result<std::monostate> evaluate_both(const ir::Kernel& kernel, const Target& target, const Tensors& args,
                                     const Extents& extents) {
  if (target.kind != TargetKind::cuda) return ir::evaluate(kernel, args, extents);
  FUSEC_ASSIGN(const ir::Kernel lowered, compiler::lower_for_writer(kernel, target));
  const Copies copies(args);
  const Result<std::monostate> threads = ir::evaluate(lowered, copies.tensors, extents);
  FUSEC_TRY(ir::evaluate(kernel, args, extents).status());
  if (!threads.ok()) return threads;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool is_out = kernel.buffers[kernel.params[i]].space == ir::Space::out;
    if (is_out && !is_same(args[i], copies.tensors[i]))
      return Status(StatusCode::internal,
                    "kernel " + kernel.name + ": the lowered form gives other bits\n" + ir::print(lowered));
  }
  return std::monostate();
}

Status run_kernel(const ir::Kernel& kernel, const Target& target, const runtime::ResolvedStep& step, Store& store) {
  std::map<std::string, int64_t> extents;
  for (uint32_t i = 0; i < step.extents.size(); ++i) extents[kernel.extents[ir::ExtentId{i}]] = step.extents[i];
  const auto sizes = [&](const ir::IndexShape& shape) {
    Shape dims;
    for (const ir::IndexExpr& e : shape) dims.push_back(named(kernel, e));
    return runtime::evaluate(dims, extents);
  };
  try {
    FUSEC_TRY(check_kernel(with_extents(kernel, extents)));
  } catch (const DimOverflow&) {
  }
  Tensors args;
  for (std::size_t i = 0; i < kernel.params.size(); ++i) {
    const ir::Buffer& buffer = kernel.buffers[kernel.params[i]];
    args.push_back(Tensor::borrow(buffer.dtype, sizes(buffer.shape), store.at(step.args[i]), sizes(buffer.strides)));
    if (!store.holds(args.back(), step.args[i]))
      return Status(StatusCode::internal, "kernel " + kernel.name + ": " + buffer.name + " reaches beyond its memory");
  }
  return evaluate_both(kernel, target, args, extents).status();
}

Shape shape_of(const runtime::ResolvedView& view) { return {view.shape.begin(), view.shape.end()}; }

// The step as a graph of its own; a bias or an operand of an epilogue broadcasts as its strides say.
ir::Graph as_graph(const ir::LibraryStep& step, const runtime::ResolvedStep& at) {
  ir::Graph graph;
  std::vector<ir::ValueId> args;
  for (std::size_t i = 0; i + 1 < at.args.size(); ++i)
    args.push_back(ir::add_input(graph, "a" + std::to_string(i), {at.args[i].dtype, shape_of(at.args[i])}));
  const auto inputs = step.op == ir::TensorOp::attention ? static_cast<std::ptrdiff_t>(args.size())
                      : ir::is_product(step.op)          ? 2
                                                         : 1;
  ir::ValueId v = ir::add_node(graph, step.op, {args.begin(), args.begin() + inputs}, step.attrs);
  const bool first = step.attrs.find("layout") != nullptr && step.attrs.s("layout") == "first";
  const auto operand = [&](int i) {
    const ir::ValueId a = args[static_cast<std::size_t>(i)];
    if (!first || graph.type(a).rank() != 1 || graph.type(v).rank() < 3 || i != step.bias) return a;
    Shape channel(graph.type(v).shape.size() - 1, Dim(1));
    channel[0] = graph.type(a).shape[0];
    return ir::add_node(graph, ir::TensorOp::reshape, {a}, {{"shape", channel}});
  };
  const auto number = [&](double value) { return ir::add_scalar_constant(graph, graph.type(v).dtype, value); };
  if (step.bias >= 0) v = ir::add_node(graph, ir::ScalarOp::add, {v, operand(step.bias)});
  for (const ir::Epilogue& e : step.epilogues) {
    std::vector<ir::ValueId> in = {v};
    if (e.operand >= 0) {
      in.push_back(operand(e.operand));
    } else {
      if (info(e.op).arity > 1) in.push_back(number(e.alpha));
      if (info(e.op).arity > 2) in.push_back(number(e.beta));
    }
    v = ir::add_node(graph, e.op, in);
  }
  if (graph.type(v).dtype != at.args.back().dtype)
    v = ir::add_node(graph, ir::ScalarOp::cast, {v}, {{"to", at.args.back().dtype}});
  ir::add_output(graph, v, "y");
  return graph;
}

Status run_library(const ir::LibraryStep& step, const runtime::ResolvedStep& at, Store& store) {
  Tensors inputs;
  for (std::size_t i = 0; i + 1 < at.args.size(); ++i)
    inputs.push_back(Tensor::borrow(at.args[i].dtype, at.args[i].shape, store.at(at.args[i]), at.args[i].strides));
  ir::EvalOptions wide;
  wide.wide = true;
  FUSEC_ASSIGN(const Tensors result, ir::evaluate(as_graph(step, at), inputs, wide));
  const runtime::ResolvedView& out = at.args.back();
  FUSEC_CHECK(result[0].shape() == out.shape) << "a library step gives another shape than its view";
  const auto size = static_cast<int64_t>(size_of(out.dtype));
  for (int64_t i = 0; i < result[0].num_elements(); ++i) {
    int64_t rest = i, offset = 0;
    for (std::size_t axis = out.shape.size(); axis-- > 0; rest /= out.shape[axis])
      offset += rest % out.shape[axis] * out.strides[axis];
    std::memcpy(store.at(out) + offset * size, result[0].as<char>() + i * size, static_cast<std::size_t>(size));
  }
  return {};
}

Result<Tensors> run_once(const Case& c, const ir::Program& program, const Target& target, const Tensors& inputs) {
  FUSEC_ASSIGN(const ir::SymbolBindings symbols, ir::bind_symbols(c.graph, inputs));
  FUSEC_ASSIGN(const runtime::ResolvedProgram resolved, runtime::resolve(program, symbols));
  Store store = make_store(program, resolved, inputs);
  for (const runtime::ResolvedStep& step : resolved.steps) {
    if (const auto* launch = std::get_if<ir::KernelStep>(&step.step->v)) {
      FUSEC_TRY(run_kernel(program.kernels[launch->kernel], target, step, store));
    } else {
      FUSEC_TRY(run_library(std::get<ir::LibraryStep>(step.step->v), step, store));
    }
  }
  Tensors out;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    FUSEC_ASSIGN(Tensor t, Tensor::make(program.output_types[i].dtype,
                                        runtime::evaluate(program.output_types[i].shape, symbols)));
    std::copy_n(store.bytes[program.outputs[i].index].data(), t.bytes(), t.as<char>());
    out.push_back(std::move(t));
  }
  return out;
}

// Takes candidate number `number` of each variant; false: no variant has so many.
bool pick(ir::Program& program, int number) {
  bool found = false;
  for (ir::Slot& slot : program.slots) {
    for (ir::Variant& variant : slot.variants) {
      const bool has = number < static_cast<int>(variant.candidates.size());
      variant.picked = has ? number : 0;
      found |= has;
    }
  }
  return found;
}

// All candidates give the same bits.
Status compare_candidates(const Case& c, ir::Program program, const Target& target, const Tensors& inputs,
                          const Tensors& expected, const char* what = "") {
  for (int number = 0; pick(program, number); ++number) {
    FUSEC_ASSIGN(const Tensors outputs, run_once(c, program, target, inputs));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!is_same(outputs[i], expected[i]))
        return Status(StatusCode::internal, std::string(what) + "candidate " + std::to_string(number) +
                                                " gives other bits in output " + std::to_string(i) + "\n" +
                                                ir::print(program));
    }
  }
  return {};
}

// A GPU's kernels as both emitters print them: which machine compiles and runs them is another matter.
Status print_kernels(const ir::Program& program, const Target& target) {
  if (target.kind != TargetKind::cuda) return {};
  for (const ir::Kernel& scheduled : program.kernels) {
    FUSEC_ASSIGN(const ir::Kernel kernel, compiler::lower_for_writer(scheduled, target));
    for (const Codegen codegen : {Codegen::nvrtc, Codegen::llvm}) {
      const Status status = codegen::emit_text(kernel, target, codegen).status();
      if (!status.ok() && status.code() != StatusCode::unsupported) return status;
    }
  }
  return {};
}

// Kernels for these shapes alone give the same bits.
Status compare_specialized(const Case& c, const FrontEnd& front, const Target& target, const Tensors& inputs,
                           const Tensors& expected) {
  FUSEC_ASSIGN(const ir::SymbolBindings symbols, ir::bind_symbols(c.graph, inputs));
  if (symbols.empty()) return {};
  FUSEC_ASSIGN(const ir::Program program, lower(front, target, symbols));
  FUSEC_CHECK(program.constants.size() == front.program.constants.size()) << "specialised kernels read other constants";
  FUSEC_TRY(print_kernels(program, target));
  return compare_candidates(c, program, target, inputs, expected, "specialised, ");
}

// Whether a kernel of the variant has indices of 32 bits.
bool has_narrow_kernel(const ir::Program& program, const ir::Variant& variant) {
  return std::any_of(variant.candidates.begin(), variant.candidates.end(), [&](const ir::Candidate& candidate) {
    return std::any_of(candidate.steps.begin(), candidate.steps.end(), [&](const ir::Step& step) {
      const auto* launch = std::get_if<ir::KernelStep>(&step.v);
      return launch != nullptr && program.kernels[launch->kernel].fits32;
    });
  });
}

// The program with the variants whose indices suffice for every size. They have the bits of those in front of them for
// the same lengths; a variant for lengths that 16 bytes divide may add in an order of its own.
ir::Program for_other_shapes(ir::Program program) {
  for (ir::Slot& slot : program.slots) {
    const auto is_narrow = [&](const ir::Variant& variant) { return has_narrow_kernel(program, variant); };
    if (!std::all_of(slot.variants.begin(), slot.variants.end(), is_narrow)) std::erase_if(slot.variants, is_narrow);
  }
  return program;
}

bool same_bits(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Tensor& x, const Tensor& y) {
    return x.bytes() == y.bytes() && std::memcmp(x.as<char>(), y.as<char>(), x.bytes()) == 0;
  });
}

int64_t reach(const runtime::ResolvedView& view) {
  int64_t last = 0;
  for (std::size_t i = 0; i < view.shape.size(); ++i) last += (view.shape[i] - 1) * view.strides[i];
  return view.empty() ? 0 : last;
}

// For larger and larger shapes: no kernel with 32-bit indices is taken where its views reach further.
Status check_index_widths(const ir::Program& program, ir::SymbolBindings symbols) {
  for (int doublings = 0; doublings < 32; doublings += 4) {
    for (auto& [name, value] : symbols) value *= 16;
    const auto resolved = runtime::resolve(program, symbols);
    if (!resolved.ok()) return {};  // past 63 bits
    for (const runtime::ResolvedStep& step : resolved->steps) {
      const auto* launch = std::get_if<ir::KernelStep>(&step.step->v);
      if (launch == nullptr || !program.kernels[launch->kernel].fits32) continue;
      for (const runtime::ResolvedView& view : step.args)
        FUSEC_CHECK(reach(view) < INT32_MAX) << program.kernels[launch->kernel].name << " takes 32-bit indices";
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Tensors>> execute_kernels(const Case& c) try {
  FUSEC_ASSIGN(Target target, named_target(c.setting.target.empty() ? "x86-64-v3" : c.setting.target));
  if (c.setting.narrow) target.vector_bytes = 1;
  FUSEC_ASSIGN(const FrontEnd front, front_end(c, target));
  const ir::Program& program = front.program;
  FUSEC_TRY(print_kernels(program, target));
  const bool has_variants = std::any_of(program.slots.begin(), program.slots.end(),
                                        [](const ir::Slot& slot) { return slot.variants.size() > 1; });
  const ir::Program other = for_other_shapes(program);
  std::vector<Tensors> out;
  for (const Run& run : c.runs) {
    FUSEC_ASSIGN(Tensors outputs, run_once(c, program, target, run.inputs));
    if (has_variants) {
      FUSEC_ASSIGN(const Tensors others, run_once(c, other, target, run.inputs));
      FUSEC_CHECK(same_bits(outputs, others)) << "the variants of a slot differ";
      FUSEC_ASSIGN(const ir::SymbolBindings symbols, ir::bind_symbols(c.graph, run.inputs));
      FUSEC_TRY(check_index_widths(program, symbols));
    }
    FUSEC_TRY(compare_candidates(c, program, target, run.inputs, outputs));
    FUSEC_TRY(compare_specialized(c, front, target, run.inputs, outputs));
    out.push_back(std::move(outputs));
  }
  return out;
} catch (const std::exception& e) {
  return Status(StatusCode::internal, e.what());
}

}  // namespace fusec::fuzz
