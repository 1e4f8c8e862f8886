// SPDX-License-Identifier: Apache-2.0
// Imports Einsum as matrix products, elementwise products and sums:
//
//   result[labels of the result] = sum over the other labels of the product of the operands

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "compiler/import/onnx/build_ops.h"
#include "compiler/import/onnx/einsum.h"
#include "compiler/import/onnx/error.h"
#include "compiler/import/onnx/ops.h"

namespace fusec::importer {

namespace {

using Extents = std::map<int, Dim>;

// A value with one label per axis. Labels are distinct once `diagonal` was applied.
struct Term {
  Val value;
  Labels labels;
};

bool contains(const Labels& labels, int label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

Labels joined(Labels a, const Labels& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

template <class F>
Labels filtered(const Labels& labels, const F& keep) {
  Labels out;
  std::copy_if(labels.begin(), labels.end(), std::back_inserter(out), keep);
  return out;
}

Shape collect_extents(const Labels& labels, const Extents& extents) {
  Shape shape;
  for (int label : labels) shape.push_back(extents.at(label));
  return shape;
}

[[noreturn]] void fail_extents(int label, const Dim& a, const Dim& b) {
  fail_differ({a}, {b}, fmt::format("{} has the extents {} and {}", label_name(label), a.str(), b.str()));
}

// Records the extent of each label. An extent of 1 broadcasts to the other extent of its label.
void note_extents(const Builder& b, const Term& t, Extents& extents) {
  for (std::size_t i = 0; i < t.labels.size(); ++i) {
    const Dim& extent = b.shape(t.value)[i];
    Dim& known = extents.try_emplace(t.labels[i], extent).first->second;
    if (known == extent || extent.is(1)) continue;
    if (!known.is(1)) fail_extents(t.labels[i], known, extent);
    known = extent;
  }
}

// Merges axes of the same label into one axis: y[i] = x[i, i].
Term diagonal(Builder& b, Term t) {
  for (std::size_t j = t.labels.size(); j-- > 0;) {
    auto first = std::find(t.labels.begin(), t.labels.end(), t.labels[j]) - t.labels.begin();
    if (first == static_cast<std::ptrdiff_t>(j)) continue;
    auto axis = static_cast<int64_t>(j);
    Shape shape = b.shape(t.value);
    const Dim& extent = shape[static_cast<std::size_t>(first)];
    if (!(extent == shape[j])) fail_extents(t.labels[j], extent, shape[j]);
    shape[j] = 1;
    Val index = iota(b, shape, static_cast<int64_t>(first), DType::i64);
    t.value = drop_axes(b, b.emit(TensorOp::gather_elements, {t.value, index}, {{"axis", axis}}), {axis});
    t.labels.erase(t.labels.begin() + axis);
  }
  return t;
}

// Drops axes of extent 1 that broadcast, because no element depends on them.
Term unstretched(Builder& b, const Term& t, const Extents& extents) {
  std::vector<int64_t> axes;
  Labels rest;
  for (std::size_t i = 0; i < t.labels.size(); ++i) {
    bool stretches = !(b.shape(t.value)[i] == extents.at(t.labels[i]));
    if (stretches) axes.push_back(static_cast<int64_t>(i));
    if (!stretches) rest.push_back(t.labels[i]);
  }
  return {drop_axes(b, t.value, axes), rest};
}

// Sums over the labels that `keep` lacks, in f32 where the type is narrower.
Term sum_others(Builder& b, const Term& t, const Labels& keep) {
  std::vector<int64_t> axes;
  for (std::size_t i = 0; i < t.labels.size(); ++i) {
    if (!contains(keep, t.labels[i])) axes.push_back(static_cast<int64_t>(i));
  }
  if (axes.empty()) return t;
  Val sum = reduce(b, TensorOp::reduce_sum, widen(b, t.value), axes, false);
  return {cast(b, sum, b.dtype(t.value)), filtered(t.labels, [&](int label) { return contains(keep, label); })};
}

// Arranges the axes in this order, with extent 1 where the term lacks the label.
Val arranged(Builder& b, const Term& t, const Labels& order) {
  std::vector<int64_t> perm;
  Shape shape;
  for (int label : order) {
    auto at = std::find(t.labels.begin(), t.labels.end(), label) - t.labels.begin();
    bool lacks = at == static_cast<std::ptrdiff_t>(t.labels.size());
    shape.push_back(lacks ? Dim(1) : b.shape(t.value)[static_cast<std::size_t>(at)]);
    if (!lacks) perm.push_back(static_cast<int64_t>(at));
  }
  return reshape(b, transpose(b, t.value, perm), shape);
}

// Reshapes the term to [batch..., rows, columns]. The labels of `rows` become one axis, and so do those of `columns`.
Val as_matrices(Builder& b, const Term& t, const Labels& batch, const Labels& rows, const Labels& columns,
                const Extents& extents) {
  Shape shape = collect_extents(batch, extents);
  shape.push_back(num_elements(collect_extents(rows, extents)));
  shape.push_back(num_elements(collect_extents(columns, extents)));
  return reshape(b, arranged(b, t, joined(joined(batch, rows), columns)), shape);
}

// Sums x * y over the labels that `keep` lacks. Labels that both operands and `keep` have are batch axes of a matrix
// product. Without labels to sum, without rows and columns, or for integers, which libraries do not multiply, it is an
// elementwise product and a sum.
Term combine(Builder& b, const Term& x, const Term& y, const Labels& keep, const Extents& extents) {
  auto is_shared = [&](int label) { return contains(y.labels, label); };
  Labels batch = filtered(x.labels, [&](int label) { return is_shared(label) && contains(keep, label); });
  Labels summed = filtered(x.labels, [&](int label) { return is_shared(label) && !contains(keep, label); });
  Labels rows = filtered(x.labels, [&](int label) { return !is_shared(label); });
  Labels columns = filtered(y.labels, [&](int label) { return !contains(x.labels, label); });
  Labels result = joined(joined(batch, rows), columns);
  if (summed.empty() || (rows.empty() && columns.empty()) || !is_float(b.dtype(x.value))) {
    Labels all = joined(result, summed);
    auto factor = [&](const Term& t) { return arranged(b, t, all); };
    bool sums = !summed.empty();
    Val product = mul(b, sums ? widen(b, factor(x)) : factor(x), sums ? widen(b, factor(y)) : factor(y));
    Term sum = sum_others(b, {product, all}, keep);
    return {cast(b, sum.value, b.dtype(x.value)), sum.labels};
  }
  Val product =
      b.emit(TensorOp::matmul,
             {as_matrices(b, x, batch, rows, summed, extents), as_matrices(b, y, batch, summed, columns, extents)},
             {{"transpose_a", int64_t{0}}, {"transpose_b", int64_t{0}}});
  return {reshape(b, product, collect_extents(result, extents)), result};
}

std::vector<Term> read_terms(const NodeContext& c, const Equation& equation, Extents& extents) {
  std::vector<Term> terms;
  for (std::size_t i = 0; i < c.num_inputs(); ++i) terms.push_back(diagonal(c.b, {c.in(i), equation.operands[i]}));
  for (const Term& t : terms) note_extents(c.b, t, extents);
  for (Term& t : terms) t = unstretched(c.b, t, extents);
  return terms;
}

}  // namespace

// Combines the operands from left to right. A label is summed as soon as neither the result nor a later operand has it.
void import_einsum(NodeContext& c) {
  Builder& b = c.b;
  std::vector<int64_t> ranks;
  for (std::size_t i = 0; i < c.num_inputs(); ++i) ranks.push_back(b.rank(c.in(i)));
  Equation equation = parse_equation(c.s("equation", ""), ranks);
  Extents extents;
  std::vector<Term> terms = read_terms(c, equation, extents);
  std::map<int, int> later;  // by label: the number of remaining operands that have it
  for (const Term& t : terms)
    for (int label : t.labels) ++later[label];
  auto take = [&](const Term& t) {
    for (int label : t.labels) --later[label];
    Labels keep = equation.result;
    for (auto [label, count] : later)
      if (count > 0) keep.push_back(label);
    return keep;
  };
  take(terms[0]);
  Term all = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    Labels keep = take(terms[i]);
    all = sum_others(b, all, joined(keep, terms[i].labels));
    all = combine(b, all, sum_others(b, terms[i], joined(keep, all.labels)), keep, extents);
  }
  c.out(arranged(b, sum_others(b, all, equation.result), equation.result));
}

}  // namespace fusec::importer
