// SPDX-License-Identifier: Apache-2.0
// The smallest program that embeds fusec: build a graph, compile it, run it.
#include <cstdio>

#include "fusec/engine.h"
#include "fusec/graph_builder.h"
#include "fusec/session.h"

int main() {
  using namespace fusec;
  GraphBuilder b;
  b.output("y", b.softmax(b.input("x", DType::f32, {Dim::symbol("n"), 3}), -1));
  const Result<Model> model = b.finish();
  if (!model.ok()) return std::puts(model.status().str().c_str()), 1;
  const Result<Engine> engine = Engine::compile(*model);
  if (!engine.ok()) return std::puts(engine.status().str().c_str()), 1;
  Result<Session> session = Session::create(*engine);
  if (!session.ok()) return std::puts(session.status().str().c_str()), 1;

  float x[] = {0, 0, 0, 1, 2, 3};
  const Tensor input = Tensor::borrow(DType::f32, {2, 3}, x);
  const Result<std::vector<Tensor>> out = session->run({&input, 1});
  if (!out.ok()) return std::puts(out.status().str().c_str()), 1;
  const float* const y = (*out)[0].as<float>();
  for (int row = 0; row < 2; ++row) std::printf("%.4f %.4f %.4f\n", y[3 * row], y[3 * row + 1], y[3 * row + 2]);
  return 0;
}
