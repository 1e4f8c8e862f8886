// SPDX-License-Identifier: Apache-2.0
// Fills the float inputs of a model with zeros, the largest numbers, NaN in one place and the like, and compares the
// outputs with the evaluator's.

#include "runtime/tool/specials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/ops/element.h"
#include "runtime/tool/measure/compare.h"
#include "runtime/tool/value_reference.h"

namespace fusec::tool {
namespace {

struct TypeLimits {
  double largest, smallest, subnormal;
};

TypeLimits type_limits(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {std::numeric_limits<double>::max(), 0x1p-1022, 0x1p-1060};
    case DType::f16:
      return {65504, 0x1p-14, 0x1p-20};
    case DType::bf16:
      return {0x1.FEp127, 0x1p-126, 0x1p-130};
    default:
      return {std::numeric_limits<float>::max(), 0x1p-126, 0x1p-140};
  }
}

enum class SpecialKind : uint8_t { finite, subnormal, largest, beyond };

// The element at position i of n; `before`: what random filling has there.
struct SpecialClass {
  const char* name;
  SpecialKind kind;
  double (*element)(int64_t i, int64_t n, const TypeLimits& limits, double before);
};

const SpecialClass kClasses[] = {
    {"zeros", SpecialKind::finite, [](int64_t, int64_t, const TypeLimits&, double) { return 0.0; }},
    {"negative zeros", SpecialKind::finite, [](int64_t, int64_t, const TypeLimits&, double) { return -0.0; }},
    {"ones", SpecialKind::finite, [](int64_t, int64_t, const TypeLimits&, double) { return 1.0; }},
    {"alternating signs", SpecialKind::finite,
     [](int64_t i, int64_t, const TypeLimits&, double x) { return i % 2 == 0 ? std::abs(x) : -std::abs(x); }},
    {"smallest normal", SpecialKind::finite,
     [](int64_t i, int64_t, const TypeLimits& l, double) { return i % 2 == 0 ? l.smallest : -l.smallest; }},
    {"subnormal", SpecialKind::subnormal,
     [](int64_t i, int64_t, const TypeLimits& l, double) { return i % 2 == 0 ? l.subnormal : -l.subnormal; }},
    {"largest finite", SpecialKind::largest,
     [](int64_t i, int64_t, const TypeLimits& l, double) { return i % 2 == 0 ? l.largest : -l.largest; }},
    {"one nan", SpecialKind::beyond,
     [](int64_t i, int64_t n, const TypeLimits&, double x) { return i == n / 2 ? NAN : x; }},
    {"one inf", SpecialKind::beyond,
     [](int64_t i, int64_t n, const TypeLimits&, double x) { return i == n / 2 ? INFINITY : x; }},
    {"one -inf", SpecialKind::beyond,
     [](int64_t i, int64_t n, const TypeLimits&, double x) { return i == n / 2 ? -INFINITY : x; }},
};

Result<Tensor> fill(const Tensor& like, const SpecialClass& c) {
  if (!is_float(like.dtype())) return like;
  FUSEC_ASSIGN(Tensor out, Tensor::make(like.dtype(), like.shape()));
  const TypeLimits limits = type_limits(like.dtype());
  const int64_t n = like.num_elements();
  for (int64_t i = 0; i < n; ++i) {
    double x = 0;
    ir::load_elements(like.dtype(), like.data(), i, 1, 1, &x);
    x = c.element(i, n, limits, x);
    ir::store_elements<double>(out.dtype(), out.data(), i, 1, 1, &x);
  }
  return out;
}

// Sums overflow in f32 where those of the evaluator, in f64, do not: nothing is promised of the largest numbers.
// Library calls lose NaN and infinities but in exact mode, and the bf16 instructions of CPUs flush subnormal numbers.
bool is_promised(SpecialKind kind, bool keeps_non_finite, bool flushes) {
  switch (kind) {
    case SpecialKind::finite:
      return true;
    case SpecialKind::subnormal:
      return !flushes;
    case SpecialKind::largest:
      return false;
    case SpecialKind::beyond:
      break;
  }
  return keeps_non_finite;
}

// How far from the evaluator in f64 compiled code may be, beside the tolerance: as many times as far as the evaluator
// that rounds every result. Edge inputs cancel, so that results may be rounding alone.
constexpr double kEdgeTimesRounding = 10;

}  // namespace

Result<std::vector<SpecialRow>> verify_specials(const Model& model, Session& session, const Options& options,
                                                const std::vector<Tensor>& inputs) {
  std::vector<TensorShape> shapes;
  for (const Tensor& t : inputs) shapes.push_back(t.shape());
  FUSEC_ASSIGN(const PlanStats plan, session.engine().plan(shapes));
  const bool keeps = options.numerics == Numerics::exact || plan.library == 0;
  const bool has_bf16 =
      options.precision == DType::bf16 ||
      std::any_of(inputs.begin(), inputs.end(), [](const Tensor& t) { return t.dtype() == DType::bf16; });
  const bool flushes = options.device == "cpu" && has_bf16;
  std::vector<SpecialRow> rows;
  for (const SpecialClass& c : kClasses) {
    std::vector<Tensor> given;
    for (const Tensor& input : inputs) {
      FUSEC_ASSIGN(Tensor filled, fill(input, c));
      given.push_back(std::move(filled));
    }
    FUSEC_ASSIGN(const std::vector<Tensor> got, session.run(given));
    FUSEC_ASSIGN(const std::vector<Tensor> wide, evaluate_model(model, given, true));
    FUSEC_ASSIGN(const std::vector<Tensor> rounded, evaluate_model(model, given, false));
    SpecialRow row;
    row.name = c.name;
    row.promised = is_promised(c.kind, keeps, flushes);
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double rounding = compare("", rounded[i], wide[i], {}).rel_l2;
      const double allowed = std::max(default_tolerance(wide[i].dtype()), kEdgeTimesRounding * rounding);
      // Where rounding alone makes an infinity or a NaN, both evaluators are right.
      ValueDiff diff = diff_values(got[i], wide[i], {}, allowed);
      if (!diff.why.empty()) {
        const ValueDiff other = diff_values(got[i], rounded[i], {}, allowed);
        if (other.why.empty()) diff = other;
      }
      if (row.output.empty() || (row.ok && !diff.why.empty()) || diff.rel_l2 > row.rel_l2) {
        row.output = model.outputs[i].name;
        row.rel_l2 = diff.rel_l2;
        if (row.ok) row.why = diff.why;
      }
      row.ok = row.ok && diff.why.empty();
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

bool all_promises_hold(const std::vector<SpecialRow>& rows) {
  return std::all_of(rows.begin(), rows.end(), [](const SpecialRow& row) { return row.ok || !row.promised; });
}

Json specials_json(const std::vector<SpecialRow>& rows) {
  Json list = Json::array();
  for (const SpecialRow& row : rows) {
    Json entry = {{"class", row.name}, {"promised", row.promised}, {"ok", row.ok}, {"output", row.output}};
    entry["rel_l2"] = std::isfinite(row.rel_l2) ? Json(row.rel_l2) : Json("inf");
    if (!row.ok) entry["why"] = row.why;
    list.push_back(std::move(entry));
  }
  return list;
}

std::string specials_table(const std::vector<SpecialRow>& rows) {
  Table table({"inputs", "promised", "rel_l2", "verdict", "output"});
  for (const SpecialRow& row : rows)
    table.row({row.name, row.promised ? "yes" : "no", fmt::format("{:.3g}", row.rel_l2), row.ok ? "ok" : row.why,
               shortened(row.output, 40)});
  return table.str();
}

}  // namespace fusec::tool
