// SPDX-License-Identifier: Apache-2.0
// One region of elementwise work and a reduction as a function on the program's own strided arrays:
//   y[r, c] = gelu(x[r, c] * scale[c]),  energy[r] = sum of y[r, c]^2 over c
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <vector>

#include "fusec/graph_builder.h"
#include "fusec/jit.h"

namespace {

constexpr int64_t kRows = 2048, kColumns = 1024;

// x is stored column by column, as a Fortran program would leave it: element (r, c) at c * kRows + r.
void plain_loops(const std::vector<float>& x, const std::vector<float>& scale, std::vector<float>& y,
                 std::vector<float>& energy) {
  for (int64_t r = 0; r < kRows; ++r) {
    double sum = 0;
    for (int64_t c = 0; c < kColumns; ++c) {
      const double v =
          static_cast<double>(x[static_cast<std::size_t>(c * kRows + r)]) * scale[static_cast<std::size_t>(c)];
      const double g = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
      y[static_cast<std::size_t>(r * kColumns + c)] = static_cast<float>(g);
      sum += g * g;
    }
    energy[static_cast<std::size_t>(r)] = static_cast<float>(sum);
  }
}

double largest_error(const std::vector<float>& got, const std::vector<float>& wanted) {
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    worst =
        std::max(worst, std::abs(static_cast<double>(got[i]) - wanted[i]) / std::max(1.0, std::abs(double{wanted[i]})));
  }
  return worst;
}

template <class F>
double best_ms(const F& f) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

int fail(const fusec::Status& status) { return std::fprintf(stderr, "jit: %s\n", status.str().c_str()), 1; }

}  // namespace

int main() {
  using namespace fusec;
  GraphBuilder b;
  const Dim rows = Dim::symbol("rows"), columns = Dim::symbol("columns");
  const Var x = b.input("x", DType::f32, {rows, columns}), scale = b.input("scale", DType::f32, {columns});
  const Var y = b.gelu(x * scale);
  b.output("y", y);
  b.output("energy", b.reduce_sum(b.square(y), {-1}));
  const Result<Model> model = b.finish();
  if (!model.ok()) return fail(model.status());
  const Result<JitFunction> function = jit(*model);
  if (!function.ok()) return fail(function.status());

  constexpr auto kAll = static_cast<std::size_t>(kRows * kColumns);
  std::vector<float> x_data(kAll), scale_data(kColumns), y_data(kAll), y_plain(kAll), energy(kRows),
      energy_plain(kRows);
  for (std::size_t i = 0; i < kAll; ++i) x_data[i] = std::sin(static_cast<float>(i % 9973));
  for (std::size_t i = 0; i < scale_data.size(); ++i) scale_data[i] = 0.5f + static_cast<float>(i % 7);

  // The arrays are used where they lie; strides say that x is column-major.
  const Tensor inputs[] = {Tensor::borrow(DType::f32, {kRows, kColumns}, x_data.data(), {1, kRows}),
                           Tensor::borrow(DType::f32, {kColumns}, scale_data.data())};
  Tensor outputs[] = {Tensor::borrow(DType::f32, {kRows, kColumns}, y_data.data()),
                      Tensor::borrow(DType::f32, {kRows}, energy.data())};
  if (const Status status = (*function)(inputs, outputs); !status.ok()) return fail(status);

  const double jit_ms = best_ms([&] { (void)(*function)(inputs, outputs); });
  const double plain_ms = best_ms([&] { plain_loops(x_data, scale_data, y_plain, energy_plain); });
  const double error = std::max(largest_error(y_data, y_plain), largest_error(energy, energy_plain));
  std::printf("%ld x %ld, column-major input, %d layouts compiled\n", long{kRows}, long{kColumns},
              function->variants());
  std::printf("fusec %.2f ms, plain loops %.2f ms; largest relative error %.1e\n", jit_ms, plain_ms, error);
  return error < 1e-5 ? 0 : 1;
}
