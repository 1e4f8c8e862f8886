// SPDX-License-Identifier: Apache-2.0
// Finds the iteration domain that the outputs and reductions of a region share, or the reason why there is none.
// Partition uses it to decide whether nodes may be fused, and lower builds the loop nest from it.

#include "compiler/partition/domain.h"

#include <algorithm>

#include "compiler/partition/graph_names.h"
#include "ir/library/capabilities.h"
#include "ir/support/check.h"

namespace fusec::compiler {

std::vector<int64_t> reduced_axes(const Node& node) {
  if (node.attrs.find("axes") != nullptr) return node.attrs.ints("axes");
  return {node.attrs.i("axis")};
}

bool is_reduction(const Graph& graph, NodeId node) { return is_kind(graph.nodes[node].op, ir::OpPattern::reduction); }

bool computed_in(const Graph& graph, const std::set<NodeId>& nodes, ValueId value) {
  for (;;) {
    const NodeId id = graph.values[value].producer;
    if (!id.valid()) return false;
    if (nodes.contains(id)) return true;
    const Node& node = graph.nodes[id];
    if (node.op.is_scalar() || !is_plain_map(node.op)) return false;
    value = node.inputs[0];
  }
}

namespace {

const Dim kData = Dim::symbol("?");

std::vector<Read> concat_reads(const Graph& graph, const Node& node, const Coords& coords) {
  std::vector<Read> reads;
  const auto axis = static_cast<size_t>(node.attrs.i("axis"));
  Dim start = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    Coords c = coords;
    c[axis] = coords[axis] - start;
    reads.push_back({static_cast<int>(i), c});
    start += graph.type(node.inputs[i]).shape[axis];
  }
  return reads;
}

std::vector<Read> gather_reads(const Graph& graph, const Node& node, const Coords& coords) {
  const auto axis = static_cast<size_t>(node.attrs.i("axis"));
  const auto rank = static_cast<size_t>(graph.type(node.inputs[1]).rank());
  Coords data(coords.begin(), coords.begin() + static_cast<std::ptrdiff_t>(axis));
  data.push_back(kData);
  data.insert(data.end(), coords.begin() + static_cast<std::ptrdiff_t>(axis + rank), coords.end());
  const auto first = coords.begin() + static_cast<std::ptrdiff_t>(axis);
  return {{1, Coords(first, first + static_cast<std::ptrdiff_t>(rank))}, {0, data}};
}

std::vector<Read> gather_nd_reads(const Graph& graph, const Node& node, const Coords& coords) {
  const auto batch = static_cast<size_t>(node.attrs.i("batch_dims"));
  const Shape& index_shape = graph.type(node.inputs[1]).shape;
  const auto depth = static_cast<size_t>(index_shape.back().value());
  std::vector<Read> reads;
  Coords data(coords.begin(), coords.begin() + static_cast<std::ptrdiff_t>(batch));
  for (size_t k = 0; k < depth; ++k) {
    Coords at(coords.begin(), coords.begin() + static_cast<std::ptrdiff_t>(index_shape.size() - 1));
    at.push_back(static_cast<int64_t>(k));
    reads.push_back({1, at});
    data.push_back(kData);
  }
  data.insert(data.end(), coords.begin() + static_cast<std::ptrdiff_t>(index_shape.size() - 1), coords.end());
  reads.push_back({0, data});
  return reads;
}

// The coordinate at which position c of a padded axis is read; c itself where it is no padding.
Dim padded_coord(const Dim& c, const Dim& extent, const std::string& mode) {
  if (mode == "edge") return min(max(c, 0), extent - 1);
  if (mode == "wrap") return mod(c + extent, extent);
  const Dim up = max(c, -c);                                        // reflect at 0
  return (extent - 1) - max(up - (extent - 1), (extent - 1) - up);  // and at the last element
}

Coords pad_coords(const Graph& graph, const Node& node, const Coords& coords, const DimRanges& ranges) {
  const Shape& from = graph.type(node.inputs[0]).shape;
  const std::string& mode = node.attrs.s("mode");
  Coords c = coords;
  for (size_t i = 0; i < c.size(); ++i) {
    c[i] = coords[i] - node.attrs.dims("before")[i];
    const bool inside =
        mode == "constant" || (proves_nonneg(c[i], ranges) && proves_nonneg(from[i] - 1 - c[i], ranges));
    if (!inside) c[i] = padded_coord(c[i], from[i], mode);
  }
  return c;
}

}  // namespace

std::vector<Read> find_reads(const Graph& graph, const Node& node, const Coords& coords, const DimRanges& ranges) {
  std::vector<Read> reads;
  if (is_plain_map(node.op)) {
    for (size_t i = 0; i < node.inputs.size(); ++i)
      reads.push_back({static_cast<int>(i), input_coords(graph, node, static_cast<int>(i), coords, ranges)});
    return reads;
  }
  switch (node.op.tensor()) {
    case TensorOp::concat:
      return concat_reads(graph, node, coords);
    case TensorOp::pad:
      reads.push_back({0, pad_coords(graph, node, coords, ranges)});
      if (node.inputs.size() > 1) reads.push_back({1, {}});
      return reads;
    case TensorOp::gather:
      return gather_reads(graph, node, coords);
    case TensorOp::gather_elements: {
      Coords data = coords;
      data[static_cast<size_t>(node.attrs.i("axis"))] = kData;
      return {{1, coords}, {0, data}};
    }
    case TensorOp::gather_nd:
      return gather_nd_reads(graph, node, coords);
    case TensorOp::max_pool:
      for (Coords& at : window_coords(graph, node, coords, ranges)) reads.push_back({0, std::move(at)});
      return reads;
    default:
      return reads;  // iota, dim
  }
}

namespace {

// Coordinates of a shape whose axes are groups of the domain's factors.
Coords grouped_coords(const Domain& d, const std::vector<int>& groups, const std::vector<size_t>& factors) {
  Coords coords;
  size_t next = 0;
  for (int count : groups) {
    Dim c = 0;
    for (int k = 0; k < count; ++k, ++next) c = c * d.extents[factors[next]] + Dim::symbol(d.vars[factors[next]]);
    coords.push_back(c);
  }
  return coords;
}

std::vector<size_t> all_factors(const Domain& d) {
  std::vector<size_t> all;
  for (size_t i = 0; i < d.extents.size(); ++i) all.push_back(i);
  return all;
}

std::vector<size_t> outer_factors(const Domain& d) {
  std::vector<size_t> outer;
  for (size_t i = 0; i < d.extents.size(); ++i)
    if (!d.reduced[i]) outer.push_back(i);
  return outer;
}

void set_factors(Domain& d, const Shape& factors) {
  d.extents = factors;
  d.reduced.assign(factors.size(), false);
  for (size_t i = 0; i < factors.size(); ++i) {
    d.vars.push_back("d?" + std::to_string(i));
    d.ranges[d.vars.back()] = {Dim(0), factors[i] - 1};
  }
}

std::vector<bool> reduced_factors(const Node& node, const std::vector<int>& groups, size_t count) {
  std::vector<bool> reduced(count, false);
  const auto axes = reduced_axes(node);
  size_t next = 0;
  for (size_t axis = 0; axis < groups.size(); ++axis)
    for (int k = 0; k < groups[axis]; ++k, ++next)
      reduced[next] = std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
  return reduced;
}

// Follows reads from the region's access points, and checks that each reduction is read at the coordinates at which it
// is computed.
class AlignmentCheck {
 public:
  AlignmentCheck(const Graph& graph, const std::set<NodeId>& nodes, const Domain& domain)
      : graph_(graph), nodes_(nodes), domain_(domain) {}

  Status check(ValueId value, const Coords& coords) {
    if (!computed_in(graph_, nodes_, value)) return {};
    if (!seen_[value].insert(coords).second) return {};
    const NodeId id = graph_.values[value].producer;
    const Node& node = graph_.nodes[id];
    // An index map costs nothing to evaluate again, so only other ops count toward the limit.
    const bool moves = is_kind(node.op, ir::OpPattern::index_map);
    if (!moves && seen_[value].size() > kMaxMaps)
      return make_unsupported("a value is read at more than 4 index maps", value);
    if (is_reduction(graph_, id)) return check_reduction(id, coords);
    for (const Read& read : find_reads(graph_, node, coords, domain_.ranges)) {
      const ValueId input = node.inputs[static_cast<size_t>(read.input)];
      if (reads_data(read.coords) && computed_in(graph_, nodes_, input))
        return make_unsupported("gathered data is computed in the region", input);
      FUSEC_TRY(check(input, read.coords));
    }
    return {};
  }

 private:
  static constexpr size_t kMaxMaps = 4;

  static bool reads_data(const Coords& coords) {
    for (const Dim& c : coords)
      if (c.uses("?")) return true;
    return false;
  }

  Status check_reduction(NodeId id, const Coords& coords) {
    const auto found = std::find(domain_.reductions.begin(), domain_.reductions.end(), id);
    FUSEC_CHECK(found != domain_.reductions.end()) << "a reduction outside the domain";
    if (coords == domain_.reduction_results[static_cast<size_t>(found - domain_.reductions.begin())]) return {};
    return make_unsupported("a reduction is read at other coordinates than it is computed at", graph_.nodes[id].output);
  }

  Status make_unsupported(const char* why, ValueId value) const {
    const Node* node = graph_.producer(value);
    return Status(StatusCode::unsupported, std::string(why) + (node ? " (" + std::string(node->op.name()) + ")" : ""));
  }

  const Graph& graph_;
  const std::set<NodeId>& nodes_;
  const Domain& domain_;
  std::map<ValueId, std::set<Coords>> seen_;
};

Status make_unsupported(const char* why) { return Status(StatusCode::unsupported, why); }

struct Sorted {
  std::vector<Shape> full, outer;  // shapes of outputs by level
  std::vector<bool> is_full;       // per output
};

// Splits the outputs into those with one element per point and those with one per row.
Result<Sorted> sort_outputs(const Graph& graph, const std::vector<ValueId>& outputs, const Dim& total,
                            const Dim& rows) {
  Sorted s;
  for (ValueId v : outputs) {
    const Shape& shape = graph.type(v).shape;
    const Dim n = num_elements(shape);
    if (!(n == total) && !(n == rows)) return make_unsupported("outputs differ in their number of elements");
    s.is_full.push_back(n == total);
    (n == total ? s.full : s.outer).push_back(shape);
  }
  return s;
}

Dim count_rows(const Graph& graph, const std::vector<NodeId>& reductions, const Dim& total) {
  return reductions.empty() || graph.nodes[reductions[0]].op == TensorOp::cumsum
             ? total
             : num_elements(graph.type(graph.nodes[reductions[0]].output).shape);
}

// Factors that suit every full shape and, on the unreduced axes, every outer shape.
Result<Shape> common_factors(const std::vector<Shape>& full, const std::vector<Shape>& outer, const Node* reduction) {
  auto f = factorize(full);
  if (!f) return make_unsupported("shapes do not factor alike");
  if (outer.empty()) return f->factors;
  const auto reduced = reduced_factors(*reduction, f->groups[0], f->factors.size());
  std::vector<Shape> rows(1);
  for (size_t i = 0; i < reduced.size(); ++i)
    if (!reduced[i]) rows[0].push_back(f->factors[i]);
  rows.insert(rows.end(), outer.begin(), outer.end());
  auto g = factorize(rows);
  if (!g) return make_unsupported("shapes do not factor alike on the unreduced axes");
  Shape factors;
  size_t next = 0, row = 0;
  for (size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i]) {
      factors.push_back(f->factors[i]);
      continue;
    }
    for (int k = 0; k < g->groups[0][row]; ++k) factors.push_back(g->factors[next++]);
    ++row;
  }
  return factors;
}

// The coordinates of a reduction's result, from those of its input. A scan keeps all axes.
Coords drop_reduced_axes(const Node& node, const Coords& input) {
  if (node.op == TensorOp::cumsum) return input;
  const auto axes = reduced_axes(node);
  Coords kept;
  for (size_t a = 0; a < input.size(); ++a)
    if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(a)) == axes.end()) kept.push_back(input[a]);
  return kept;
}

}  // namespace

Result<Domain> compute_domain(const Graph& graph, const std::vector<NodeId>& ordered,
                              const std::vector<ValueId>& outputs) {
  Domain d;
  const std::set<NodeId> nodes(ordered.begin(), ordered.end());
  for (NodeId id : ordered)
    if (is_reduction(graph, id)) d.reductions.push_back(id);
  std::vector<Shape> full;
  for (NodeId id : d.reductions) full.push_back(graph.type(graph.nodes[id].inputs[0]).shape);
  const Dim total = num_elements(full.empty() ? graph.type(outputs[0]).shape : full[0]);
  for (const Shape& shape : full)
    if (!(num_elements(shape) == total)) return make_unsupported("reductions over different domains");
  FUSEC_ASSIGN(Sorted sorted, sort_outputs(graph, outputs, total, count_rows(graph, d.reductions, total)));
  full.insert(full.end(), sorted.full.begin(), sorted.full.end());
  const Node* reduction = d.reductions.empty() ? nullptr : &graph.nodes[d.reductions[0]];
  FUSEC_ASSIGN(Shape factors, common_factors(full, sorted.outer, reduction));
  set_factors(d, factors);

  // The groups of each shape over the final factors.
  std::vector<Shape> with_factors{factors};
  with_factors.insert(with_factors.end(), full.begin(), full.end());
  const auto groups = factorize(with_factors);
  if (!groups || groups->factors.size() != factors.size()) return make_unsupported("shapes do not factor alike");
  for (size_t i = 0; i < d.reductions.size(); ++i) {
    auto reduced = reduced_factors(graph.nodes[d.reductions[i]], groups->groups[i + 1], factors.size());
    if (i > 0 && reduced != d.reduced) return make_unsupported("reductions over different axes");
    const bool scans = graph.nodes[d.reductions[i]].op == TensorOp::cumsum;
    if (scans && std::count(reduced.begin(), reduced.end(), true) > 1)
      return make_unsupported("a scan over more than one loop");
    d.reduced = reduced;
  }
  for (size_t i = 0; i < d.reductions.size(); ++i) {
    const Node& node = graph.nodes[d.reductions[i]];
    d.reduction_inputs.push_back(grouped_coords(d, groups->groups[i + 1], all_factors(d)));
    d.reduction_results.push_back(drop_reduced_axes(node, d.reduction_inputs.back()));
  }
  Shape rows;
  for (size_t i : outer_factors(d)) rows.push_back(factors[i]);
  size_t next_full = d.reductions.size() + 1;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (sorted.is_full[i]) {
      d.outputs.push_back({outputs[i], true, grouped_coords(d, groups->groups[next_full++], all_factors(d))});
      continue;
    }
    const auto f = factorize({rows, graph.type(outputs[i]).shape});
    if (!f || f->factors.size() != rows.size())
      return make_unsupported("shapes do not factor alike on the unreduced axes");
    d.outputs.push_back({outputs[i], false, grouped_coords(d, f->groups[1], outer_factors(d))});
  }

  AlignmentCheck alignment(graph, nodes, d);
  for (const AccessPoint& site : d.outputs) FUSEC_TRY(alignment.check(site.value, site.coords));
  for (size_t i = 0; i < d.reductions.size(); ++i)
    FUSEC_TRY(alignment.check(graph.nodes[d.reductions[i]].inputs[0], d.reduction_inputs[i]));
  return d;
}

bool widens(const Graph& graph, const Node& node) {
  return node.op == ScalarOp::cast && graph.type(node.output).dtype == DType::f32 &&
         is_16_bit_float(graph.type(node.inputs[0]).dtype);
}

bool multiplies_by_kernels(const Target& target, const Options& options) {
  if (target.kind != TargetKind::cuda || !options.fuse || options.numerics == Numerics::exact) return false;
  const std::vector<const ir::LibraryCapabilities*> libraries = ir::libraries_of(target);
  return std::none_of(libraries.begin(), libraries.end(), [&](const ir::LibraryCapabilities* library) {
    return (library->is_built_in || options.use_library) && !unsupported_reason(*library, TensorOp::matmul, DType::f32);
  });
}

namespace {

// Whether x has the rows of a product and y its columns, in a sum over the last axis of this rank.
bool are_rows_and_columns(const Shape& x, const Shape& y, std::size_t rank) {
  const auto extent = [&](const Shape& shape, std::size_t axis) {
    return axis + shape.size() < rank ? Dim(1) : shape[axis + shape.size() - rank];
  };
  if (!extent(x, rank - 2).is(1) || extent(y, rank - 2).is(1)) return false;
  bool has_rows = false, is_of_images = rank > 3;
  for (std::size_t axis = 0; axis + 2 < rank; ++axis) {
    has_rows |= extent(y, axis).is(1) && !extent(x, axis).is(1);
    is_of_images &= axis == 0 || (extent(x, axis).is(1) && extent(y, axis).is(1));
  }
  return has_rows && !is_of_images;
}

}  // namespace

bool is_product_sum(const Graph& graph, const Node& node, bool any) {
  if (!(node.op == TensorOp::reduce_sum) || graph.type(node.output).dtype != DType::f32) return false;
  const int rank = graph.type(node.inputs[0]).rank();
  const NodeId producer = graph.values[node.inputs[0]].producer;
  if (!producer.valid() || rank < 2 || node.attrs.ints("axes") != std::vector<int64_t>{rank - 1}) return false;
  const Node& mul = graph.nodes[producer];
  if (!(mul.op == ScalarOp::mul)) return false;
  if (any) {
    const Shape &x = graph.type(mul.inputs[0]).shape, &y = graph.type(mul.inputs[1]).shape;
    const auto axes = static_cast<std::size_t>(rank);
    if (are_rows_and_columns(x, y, axes) || are_rows_and_columns(y, x, axes)) return true;
  }
  const auto is_factor = [&](ValueId v) {
    const NodeId cast = graph.values[v].producer;
    return cast.valid() && widens(graph, graph.nodes[cast]);
  };
  // Rows, which have no columns, and columns, which have nothing but them.
  const auto is_rows = [&](ValueId v) {
    const Shape& shape = graph.type(v).shape;
    return shape.size() >= 2 && shape[shape.size() - 2].is(1);
  };
  const auto is_columns = [&](ValueId v) {
    const Shape& shape = graph.type(v).shape;
    return shape.size() >= 2 && std::all_of(shape.begin(), shape.end() - 2, [](const Dim& d) { return d.is(1); });
  };
  const ValueId x = mul.inputs[0], y = mul.inputs[1];
  return is_factor(x) && is_factor(y) && ((is_rows(x) && is_columns(y)) || (is_columns(x) && is_rows(y)));
}

}  // namespace fusec::compiler
