// SPDX-License-Identifier: Apache-2.0
// Classifies the handwritten digits of this folder: digits [folder]
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/onnx.h"
#include "fusec/session.h"

namespace {

constexpr int64_t kPixels = 64, kClasses = 10, kBatch = 60;
constexpr float kFull = 16;       // a pixel of full ink; the network takes 0 .. 1
constexpr double kRequired = 97;  // percent

// The bytes behind the header of a version 1 .npy file of uint8.
std::vector<uint8_t> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> file{std::istreambuf_iterator<char>(in), {}};
  if (file.size() < 10) return {};
  const std::size_t header = 10 + static_cast<uint8_t>(file[8]) + 256u * static_cast<uint8_t>(file[9]);
  if (file.size() < header) return {};
  return {file.begin() + static_cast<std::ptrdiff_t>(header), file.end()};
}

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

int fail(const std::string& why) { return std::fprintf(stderr, "digits: %s\n", why.c_str()), 1; }

}  // namespace

int main(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "samples/digits";
  const std::vector<uint8_t> pixels = read_bytes(folder + "/images.npy"), labels = read_bytes(folder + "/labels.npy");
  const auto count = static_cast<int64_t>(labels.size());
  if (count == 0 || pixels.size() != labels.size() * kPixels) return fail("no images and labels in " + folder);
  std::vector<float> images(pixels.size());
  std::transform(pixels.begin(), pixels.end(), images.begin(), [](uint8_t p) { return static_cast<float>(p) / kFull; });

  // Compile once. The batch is a symbol of the model, so one Engine runs any batch.
  const fusec::Result<fusec::Model> model = fusec::load_onnx(folder + "/digits.onnx");
  if (!model.ok()) return fail(model.status().str());
  const fusec::Result<fusec::Engine> engine = fusec::Engine::compile(*model);
  if (!engine.ok()) return fail(engine.status().str());
  fusec::Result<fusec::Session> session = fusec::Session::create(*engine);
  if (!session.ok()) return fail(session.status().str());

  // Run on the images where they lie, batch by batch, and count what is right.
  int64_t right = 0;
  std::vector<double> times;
  for (int64_t first = 0; first < count; first += kBatch) {
    const int64_t n = std::min(kBatch, count - first);
    const fusec::Tensor input = fusec::Tensor::borrow(fusec::DType::f32, {n, 1, 8, 8}, images.data() + first * kPixels);
    const auto start = std::chrono::steady_clock::now();
    const fusec::Result<std::vector<fusec::Tensor>> outputs = session->run({&input, 1});
    times.push_back(milliseconds_since(start));
    if (!outputs.ok()) return fail(outputs.status().str());
    const float* row = (*outputs)[0].as<float>();
    for (int64_t i = 0; i < n; ++i, row += kClasses) {
      right += std::max_element(row, row + kClasses) - row == labels[static_cast<std::size_t>(first + i)];
    }
  }

  const fusec::EngineStats& stats = engine->stats();
  const std::vector<fusec::TensorShape> shape = {{kBatch, 1, 8, 8}};
  const fusec::Result<fusec::PlanStats> plan = engine->plan(shape);
  if (!plan.ok()) return fail(plan.status().str());
  const double accuracy = 100.0 * static_cast<double>(right) / static_cast<double>(count);
  std::printf("accuracy      %.2f %% (%ld of %ld)\n", accuracy, static_cast<long>(right), static_cast<long>(count));
  std::printf("operations    %ld of the model\n", static_cast<long>(stats.imported_ops));
  std::printf("kernels       %ld distinct, %ld compiled now, %ld from the cache\n",
              static_cast<long>(stats.distinct_kernels), static_cast<long>(stats.compiled_kernels),
              static_cast<long>(stats.cached_kernels));
  std::printf("launches      %ld = %ld generated + %ld library\n", static_cast<long>(plan->launches),
              static_cast<long>(plan->generated), static_cast<long>(plan->library));
  std::printf("compile time  %.1f ms\n", stats.compile_ms);
  std::sort(times.begin(), times.end());
  std::printf("batch of %ld   %.3f ms (median of %zu; the first one binds the shapes)\n", static_cast<long>(kBatch),
              times[times.size() / 2], times.size());
  return accuracy < kRequired ? fail("less accurate than the model is") : 0;
}
