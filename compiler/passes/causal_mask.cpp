// SPDX-License-Identifier: Apache-2.0
// Recognizes causal masks in what is known of a value: by index, or element by element.

#include "compiler/passes/causal_mask.h"

#include <algorithm>

#include "ir/ops/cast.h"

namespace fusec::compiler {
namespace {

// Whether at >= 0 just where the last index is at most the one before it plus `stored`.
bool is_lower_triangle(const IndexSum& at, const Dim& stored) {
  const std::size_t rank = at.steps.size();
  if (rank < 2 || std::any_of(at.steps.begin(), at.steps.end() - 2, [](int64_t s) { return s != 0; })) return false;
  const int64_t row = at.steps[rank - 2];
  const Dim rest = at.offset - Dim(row) * stored;
  return row > 0 && at.steps[rank - 1] == -row && rest.is_const() && rest.value() >= 0 && rest.value() < row;
}

double first_of(const Tensor& tensor) { return ir::load_double(tensor.dtype(), tensor.data()); }

}  // namespace

bool is_causal(KnownValues& values, ir::ValueId mask, const Dim& queries, const Dim& keys,
               const std::function<bool(double)>& keeps, const std::function<bool(double)>& drops) {
  const Dim stored = keys - queries;
  if (queries.is(1) || !proves_nonneg(stored, {})) return false;
  const KnownValue& known = values.of(mask);
  if (const auto* choice = std::get_if<IndexChoice>(&known)) {
    const double yes = first_of(choice->yes), no = first_of(choice->no);
    return (is_lower_triangle(choice->at, stored) && keeps(yes) && drops(no)) ||
           (is_lower_triangle(negated(choice->at), stored) && keeps(no) && drops(yes));
  }
  const auto* const tensor = std::get_if<Tensor>(&known);
  const std::size_t rank = tensor != nullptr ? tensor->shape().size() : 0;
  if (rank < 2 || !queries.is(tensor->shape()[rank - 2]) || !keys.is(tensor->shape()[rank - 1])) return false;
  const int64_t m = queries.value(), n = keys.value();
  const auto size = static_cast<int64_t>(size_of(tensor->dtype()));
  for (int64_t i = 0; i < tensor->num_elements(); ++i) {
    const double x = ir::load_double(tensor->dtype(), tensor->as<char>() + i * size);
    if (!(i % n <= i / n % m + n - m ? keeps(x) : drops(x))) return false;
  }
  return true;
}

}  // namespace fusec::compiler
