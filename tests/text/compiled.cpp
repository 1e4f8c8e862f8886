// SPDX-License-Identifier: Apache-2.0
#include "tests/text/compiled.h"

#if FUSEC_WITH_LLVM

#include <algorithm>
#include <cmath>
#include <string>

#include "fusec/engine.h"
#include "fusec/session.h"
#include "ir/graph/model_internal.h"
#include "ir/ops/cast.h"

namespace fusec::text_test {

namespace {

double load(const Tensor& t, int64_t i) {
  return ir::load_double(t.dtype(), static_cast<const char*>(t.data()) + i * static_cast<int64_t>(size_of(t.dtype())));
}

// Relative to the largest magnitude of the tensor: what sums of its terms may lose.
double tolerance(DType dtype) {
  if (dtype == DType::f16) return 2e-3;
  if (dtype == DType::bf16) return 2e-2;
  return is_float(dtype) ? 1e-6 : 0;
}

double magnitude(const Tensor& t) {
  double largest = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    const double v = std::fabs(load(t, i));
    if (std::isfinite(v)) largest = std::max(largest, v);
  }
  return largest;
}

Status compare(const std::string& name, const Tensor& got, const Tensor& want, std::optional<DType> precision) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape())
    return Status(StatusCode::internal, "compiled, '" + name + "' has another type");
  const DType computed = want.dtype() == DType::f32 ? precision.value_or(DType::f32) : want.dtype();
  const double allowed = tolerance(computed) * magnitude(want);
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const double a = load(got, i), b = load(want, i);
    if (a == b || (std::isnan(a) && std::isnan(b)) || std::fabs(a - b) <= allowed) continue;
    return Status(StatusCode::internal, "compiled, element " + std::to_string(i) + " of '" + name + "' is " +
                                            std::to_string(a) + ", evaluated it is " + std::to_string(b));
  }
  return Status();
}

}  // namespace

Status check_compiled(const ir::Graph& graph, const std::vector<Tensor>& inputs, const std::vector<Tensor>& expected,
                      std::optional<DType> precision) {
  Options options;
  options.precision = precision;
  options.use_cache = false;
  options.verify_each_pass = true;
  FUSEC_ASSIGN(const Engine engine, Engine::compile(ir::make_model(graph), options));
  FUSEC_ASSIGN(Session session, Session::create(engine));
  FUSEC_ASSIGN(const std::vector<Tensor> outputs, session.run(inputs));
  for (std::size_t i = 0; i < expected.size(); ++i)
    FUSEC_TRY(compare(graph.output_names[i], outputs[i], expected[i], precision));
  return Status();
}

}  // namespace fusec::text_test

#else

namespace fusec::text_test {

Status check_compiled(const ir::Graph&, const std::vector<Tensor>&, const std::vector<Tensor>&, std::optional<DType>) {
  return Status();
}

}  // namespace fusec::text_test

#endif
