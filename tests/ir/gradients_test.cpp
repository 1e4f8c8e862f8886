// SPDX-License-Identifier: Apache-2.0
// GraphBuilder::gradients: each scalar op of the table, casts, what is refused, and what gradients are where there is
// no slope. tests/ir/gradient_rules_test.cpp has the tensor ops.
#include "ir/gradient/gradients.h"

#include <limits>

#include "ir/text/graph_text.h"
#include "tests/ir/differences.h"

namespace fusec {
namespace {

using namespace differences;

TEST(Gradients, PlantedMistakesAreSeen) {
  const std::vector<Argument> one = {{{kN, 2}}};
  const Function sine = [](GraphBuilder& b, const Vars& x) { return b.sin(x[0]); };
  EXPECT_EQ(Differences(one).wrong(sine, sine), 0);
  EXPECT_GT(Differences(one).wrong(sine, [](GraphBuilder& b, const Vars& x) { return b.sin(x[0]) * 1.001; }), 0);
  EXPECT_GT(Differences(one).wrong(sine, [](GraphBuilder& b, const Vars& x) { return b.sin(b.floor(x[0])); }), 0);
}

// --- Scalar ops: all rows of the table -----------------------------------------------------------------------------

bool is_differentiable(ir::ScalarOp op) {
  const ir::Typing typing = ir::info(op).typing;
  return typing == ir::Typing::float_ || typing == ir::Typing::num || typing == ir::Typing::signed_ ||
         typing == ir::Typing::select || typing == ir::Typing::f32_;
}

std::vector<Argument> operands(ir::ScalarOp op, int turn) {
  const ir::ScalarOpInfo& row = ir::info(op);
  const DType dtype = row.typing == ir::Typing::f32_ ? DType::f32 : DType::f64;
  const Shape shapes[] = {{kN, 5}, {5}, {kN, 1}};  // which operand is broadcast, and along which axis, changes by turn
  std::vector<Argument> out;
  for (int i = 0; i < row.arity; ++i) out.push_back({shapes[(i + turn) % 3], row.domain_lo, row.domain_hi, {}, dtype});
  const double third = (row.domain_hi - row.domain_lo) / 3;
  if (op == ir::ScalarOp::clamp) {  // a proper interval
    out[1].hi = row.domain_lo + third;
    out[2].lo = row.domain_hi - third;
  }
  if (row.typing == ir::Typing::select) out[0] = {shapes[turn % 3], 0, 1, {0, 1, 1}, DType::bool_};
  return out;
}

TEST(Gradients, ScalarOpsMatchFiniteDifferences) {
  int differentiated = 0;
  for (std::size_t i = 0; i < ir::all_scalar_ops().size(); ++i) {
    const auto op = static_cast<ir::ScalarOp>(i);
    const std::string name(ir::info(op).name);
    if (!is_differentiable(op) || ir::gradients(op).empty()) continue;
    ++differentiated;
    for (int turn = 0; turn < 3; ++turn) {
      check(name, operands(op, turn),
            [&](GraphBuilder& b, const Vars& x) { return b.apply(name, std::vector<Operand>(x.begin(), x.end())); });
    }
  }
  EXPECT_GE(differentiated, 54);
}

// An op of floats that the table has no gradient of is refused by its name; one with another result is no float.
TEST(Gradients, OtherScalarOpsAreRefused) {
  int refused = 0;
  for (std::size_t i = 0; i < ir::all_scalar_ops().size(); ++i) {
    const auto op = static_cast<ir::ScalarOp>(i);
    const std::string name(ir::info(op).name);
    if (!ir::accepts(op, DType::f64) || !ir::gradients(op).empty() || op == ir::ScalarOp::cast) continue;
    ++refused;
    GraphBuilder b;
    const Var x = b.input("x", DType::f64, {kN});
    const Var y = b.apply(name, std::vector<Operand>(static_cast<std::size_t>(ir::info(op).arity), Operand(x)));
    EXPECT_FALSE(b.gradients(y, {x}, y)[0].valid());
    b.output("y", y);
    const std::string message = b.finish().status().message();
    if (is_float(y.dtype())) {
      EXPECT_EQ(message,
                "gradients: " + name + " of f64[n], f64[n] has no gradient; docs/ops.md lists the ops that have one");
    } else {
      EXPECT_EQ(message, "gradients: the result is bool[n]; only floats have gradients");
    }
  }
  EXPECT_GE(refused, 9);
}

TEST(Gradients, CastsBetweenFloats) {
  check("cast", {{{kN, 2}}}, [](GraphBuilder& b, const Vars& x) {
    return b.cast(b.cast(x[0], DType::f32), DType::f64) * 0 + b.square(x[0]);
  });
  GraphBuilder b;
  const Var x = b.input("x", DType::f16, {kN});
  const Var y = b.reduce_sum(b.square(b.cast(x, DType::f32)), {0});
  EXPECT_EQ(b.gradients(y, {x})[0].dtype(), DType::f16);
  b.output("g", b.gradients(y, {x})[0]);
  Tensor data = *Tensor::make(DType::f16, {1});
  *static_cast<uint16_t*>(data.data()) = 0x4200;  // 3
  const Tensor g = evaluate(*b.finish(), {data})[0];
  EXPECT_EQ(*static_cast<const uint16_t*>(g.data()), 0x4600);  // 6
}

// A count that f16 does not hold.
TEST(Gradients, MeansOfManyHalves) {
  GraphBuilder b;
  const Var x = b.input("x", DType::f16, {kN});
  b.output("g", b.gradients(b.reduce_mean(x, {0}), {x})[0]);
  const Tensor g = evaluate(*b.finish(), {*Tensor::make(DType::f16, {131072})})[0];
  EXPECT_EQ(static_cast<const uint16_t*>(g.data())[131071], 0x0080);  // 2^-17
}

// --- Several users, several steps ----------------------------------------------------------------------------------

TEST(Gradients, UsesOfOneValueAreAdded) {
  check("x * x + x", {{{kN, 2}}}, [](GraphBuilder& b, const Vars& x) { return x[0] * x[0] + b.sin(x[0]) * x[0]; });
}

TEST(Gradients, OfGradients) {
  check("second order", {{{kN, 3}}, {{3, 2}}}, [](GraphBuilder& b, const Vars& x) {
    const Var y = b.reduce_sum(b.tanh(b.matmul(x[0], x[1])), {0, 1});
    return b.reduce_sum(b.square(b.gradients(y, {x[1]})[0]), {1}) + b.gradients(y, {x[0]})[0];
  });
}

TEST(Gradients, ConstantsOfConditionsAndIntegers) {
  check("mask", {{{kN, 5}}}, [](GraphBuilder& b, const Vars& x) {
    const Var mask = b.cast(b.gt(x[0], 0.3), DType::f64), whole = b.cast(b.cast(x[0], DType::i32), DType::f64);
    return b.where(b.lt(x[0], 0), b.square(x[0]), x[0]) * mask + whole * x[0];
  });
}

std::vector<double> numbers(const Tensor& t) { return {t.as<double>(), t.as<double>() + t.num_elements()}; }

std::vector<double> gradient_at(const std::function<Var(GraphBuilder&, Var)>& function, std::vector<double> at) {
  GraphBuilder b;
  const auto n = static_cast<int64_t>(at.size());
  const Var x = b.input("x", DType::f64, {1, 1, n});
  b.output("g", b.gradients(function(b, x), {x})[0]);
  const Result<Model> model = b.finish();
  EXPECT_TRUE(model.ok()) << model.status().str();
  return numbers(evaluate(*model, {Tensor::borrow(DType::f64, {1, 1, n}, at.data())})[0]);
}

// Reductions share equally, as their elements have no order; choices between two operands and windows have one.
TEST(Gradients, AtTiesAndKinks) {
  using List = std::vector<double>;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto highest = [](GraphBuilder& b, Var x) { return b.reduce_max(x, {0, 1, 2}); };
  EXPECT_EQ(gradient_at(highest, {1, 4, 4, 2}), (List{0, 0.5, 0.5, 0}));
  EXPECT_EQ(gradient_at(highest, {1, nan, 4}), (List{0, 0, 0}));
  EXPECT_EQ(gradient_at(
                [](GraphBuilder& b, Var x) {
                  return b.reduce_min(x, {0, 1, 2});
                },
                {1, 4, 1}),
            (List{0.5, 0, 0.5}));
  EXPECT_EQ(gradient_at([](GraphBuilder& b, Var x) { return b.max_pool(x, {3}); }, {4, 1, 4}), (List{1, 0, 0}));
  const auto sum = [](GraphBuilder& b, Var x) { return b.reduce_sum(x, {0, 1, 2}); };
  EXPECT_EQ(gradient_at([&](GraphBuilder& b, Var x) { return sum(b, b.max(x, 2)); }, {1, 2, 3}), (List{0, 1, 1}));
  EXPECT_EQ(gradient_at([&](GraphBuilder& b, Var x) { return sum(b, b.relu(x)); }, {-1, 0, 1}), (List{0, 0, 1}));
  EXPECT_EQ(gradient_at([&](GraphBuilder& b, Var x) { return sum(b, b.abs(x)); }, {-1, 0, 1}), (List{-1, 0, 1}));
  EXPECT_EQ(gradient_at([&](GraphBuilder& b, Var x) { return sum(b, b.round(x)); }, {-1, 0.5}), (List{0, 0}));
  EXPECT_EQ(gradient_at(
                [](GraphBuilder& b, Var x) {
                  return b.reduce_prod(x, {0, 1, 2});
                },
                {2, 0, 3}),
            (List{0, 6, 0}));
}

TEST(Gradients, OfWhatTheResultDoesNotDependOn) {
  GraphBuilder b;
  const Var x = b.input("x", DType::f32, {kN, 2}), w = b.constant(DType::f32, 3), y = x * w;
  const Var z = b.reduce_sum(y, {0, 1});
  const Vars g = b.gradients(z, {w, y, z, b.constant(DType::f16, 1), x, x});
  for (std::size_t i = 0; i < g.size(); ++i) b.output("g" + std::to_string(i), g[i]);
  Tensor ones = *Tensor::make(DType::f32, {2, 2});
  std::fill_n(ones.as<float>(), 4, 1.0f);
  const std::vector<Tensor> out = evaluate(*b.finish(), {ones});
  EXPECT_EQ(out[0].as<float>()[0], 4);
  EXPECT_EQ(out[1].as<float>()[3], 1);
  EXPECT_EQ(out[2].as<float>()[0], 1);
  EXPECT_EQ(*static_cast<const uint16_t*>(out[3].data()), 0);
  EXPECT_EQ(out[4].as<float>()[3], 3);
  EXPECT_EQ(out[5].as<float>()[3], 3);
}

// No rule is asked for a path that does not lead to wrt.
TEST(Gradients, OpsBesideThePathNeedNoGradient) {
  GraphBuilder b;
  const Var x = b.input("x", DType::f32, {kN}), w = b.input("w", DType::f32, {kN});
  EXPECT_TRUE(b.gradients(b.reduce_sum(b.mod(x, 3) * w, {0}), {w})[0].valid());
}

// --- Mistakes ------------------------------------------------------------------------------------------------------

using Mistake = std::function<Vars(GraphBuilder&, Var)>;

std::string message(const Mistake& mistake, StatusCode code) {
  GraphBuilder b;
  const Var x = b.input("x", DType::f32, {kN, 4});
  for (Var v : mistake(b, x)) EXPECT_FALSE(v.valid());
  b.output("y", x);
  const Status status = b.finish().status();
  EXPECT_EQ(status.code(), code) << status.str();
  EXPECT_EQ(status.notes().size(), 0u);
  return status.message();
}

TEST(Gradients, MistakesOfCallers) {
  const auto wrong = [](const Mistake& mistake) { return message(mistake, StatusCode::invalid_argument); };
  EXPECT_EQ(wrong([](GraphBuilder& b, Var x) { return b.gradients(x, {x}); }),
            "gradients: the result is f32[n, 4]; without a dy it has one element: reduce it, or give a dy");
  EXPECT_EQ(wrong([](GraphBuilder& b, Var x) { return b.gradients(x, {x}, b.reduce_sum(x, {1}, true)); }),
            "gradients: dy is f32[n, 1], the result f32[n, 4]; they have one type");
  EXPECT_EQ(wrong([](GraphBuilder& b, Var x) {
              return b.gradients(x, {x, b.cast(x, DType::i32)}, x);
            }),
            "gradients: wrt[1] is i32[n, 4]; only floats have gradients");
  EXPECT_EQ(wrong([](GraphBuilder& b, Var x) { return b.gradients(b.argmax(x, 1), {x}, b.argmax(x, 1)); }),
            "gradients: the result is i64[n]; only floats have gradients");
  EXPECT_EQ(wrong([](GraphBuilder& b, Var x) { return b.gradients(x, {Var()}, x); }),
            "gradients: an operand is an empty Var");
  GraphBuilder other;
  const Var z = other.input("z", DType::f32, {kN, 4});
  EXPECT_EQ(wrong([&](GraphBuilder& b, Var x) { return b.gradients(x, {x}, z); }),
            "gradients: an operand belongs to another GraphBuilder");
  EXPECT_EQ(wrong([](GraphBuilder& b, Var x) { return b.gradients(b.reduce_sum(x, {7}), {x}); }),
            "reduce_sum: axis 7 is outside the axes of rank 2");
}

TEST(Gradients, OpsWithoutOneAreNamed) {
  const auto missing = [](const std::function<Var(GraphBuilder&, Var)>& function) {
    return message(
        [&](GraphBuilder& b, Var x) {
          const Var y = function(b, x);
          return b.gradients(y, {x}, y);
        },
        StatusCode::unsupported);
  };
  EXPECT_EQ(
      missing([](GraphBuilder& b, Var x) { return b.custom_call("f", {x}, DType::f32, {kN}); }),
      "gradients: custom_call of f32[n, 4] has no gradient: what its function computes is not known; differentiate "
      "up to its result, and on from its operands with a dy of your own");
  EXPECT_EQ(
      missing([](GraphBuilder& b, Var x) {
        return b.pad_mode(x, {0, 1}, {0, 0}, "wrap");
      }),
      "gradients: pad of f32[n, 4] has no gradient in mode wrap; the modes constant, edge and reflect have one, and "
      "a concat of slices");
  EXPECT_EQ(missing([](GraphBuilder& b, Var x) {
              return b.scatter_nd(x, b.iota(DType::i64, {kN, 1}, 0), x, "mul");
            }),
            "gradients: scatter_nd of f32[n, 4], i64[n, 1], f32[n, 4] has no gradient with reduction mul; add and none "
            "have one");
  EXPECT_EQ(
      missing([](GraphBuilder& b, Var x) {
        return b.avg_pool(b.reshape(x, {1, kN, 4}), {65}, {.pads = {64, 64}});
      }),
      "gradients: avg_pool of f32[1, n, 4] has no gradient for windows of more than 64 positions; a reduce_mean or "
      "reduce_max over whole axes has one");
}

// What only graphs from elsewhere have.
TEST(Gradients, CausalAttentionIsRefused) {
  auto graph = ir::parse_graph(R"(graph @main(%q: f32[1, 2, 3, 4]) {
    %0 = attention %q, %q, %q {scale = 1, causal = 1}: f32[1, 2, 3, 4]
    return %0 as "y"
  })");
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  const ir::ValueId y = graph->outputs[0];
  const auto made = ir::add_gradients(*graph, y, y, {graph->inputs[0]});
  EXPECT_EQ(made.status().code(), StatusCode::unsupported);
  EXPECT_NE(made.status().message().find("has no gradient where it is causal"), std::string::npos);
}

}  // namespace
}  // namespace fusec
