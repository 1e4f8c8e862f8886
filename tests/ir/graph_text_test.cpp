// SPDX-License-Identifier: Apache-2.0
#include "ir/text/graph_text.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "ir/ops/random.h"
#include "ir/text/lexer.h"

namespace fusec::ir {
namespace {

TEST(Lexer, TokensAndPlaces) {
  Lexer lexer("load.4 %a.b -> 0x1F 1e-3 #ff // end\n  @g \"q\\\"\"");
  EXPECT_EQ(lexer.next().text, "load.4");
  EXPECT_EQ(lexer.next().text, "a.b");
  EXPECT_TRUE(lexer.accept("->"));
  EXPECT_EQ(lexer.next().text, "0x1F");
  EXPECT_EQ(lexer.next().text, "1e-3");
  EXPECT_EQ(lexer.next().text, "ff");
  EXPECT_EQ(lexer.trailing_comment(), "end");
  EXPECT_EQ(lexer.error("here").message(), "line 2, column 3: here");
  EXPECT_EQ(lexer.next().kind, TokenKind::global);
  EXPECT_EQ(lexer.trailing_comment(), "");
  EXPECT_EQ(lexer.next().text, "q\"");
  EXPECT_EQ(lexer.next().kind, TokenKind::end);
  EXPECT_EQ(lexer.next().kind, TokenKind::end);
}

TEST(Lexer, DimStopsAtItsEnd) {
  Lexer lexer("[2*N + min(a, b), floordiv(H + 1, 2)] x");
  const auto shape = lexer.shape();
  ASSERT_TRUE(shape.ok()) << shape.status().str();
  EXPECT_EQ(to_string(*shape), "[2*N + min(a, b), floordiv(H + 1, 2)]");
  EXPECT_TRUE(lexer.accept_word("x"));
}

TEST(Text, EscapesAnyBytes) {
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::size_t n = random() % 8; n > 0; --n) text += static_cast<char>(random() % 256);
    const std::string source = quote(text);
    Lexer lexer(source);
    const Token token = lexer.next();
    ASSERT_EQ(token.kind, TokenKind::string) << source;
    ASSERT_EQ(token.text, text) << source;
    ASSERT_EQ(source.find('\n'), std::string::npos);
  }
  EXPECT_EQ(quote("größe"), "\"größe\"");
}

TEST(Text, EveryHalfSurvives) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto element = static_cast<uint16_t>(bits);
      const std::string text = literal(dtype, &element);
      Lexer lexer(text);
      uint16_t back = 0;
      ASSERT_TRUE(parse_literal(lexer, dtype, &back).ok()) << text;
      ASSERT_EQ(back, element) << text;
    }
  }
}

TEST(Text, RandomFloatsSurvive) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t bits = random();
    for (const DType dtype : {DType::f64, DType::f32}) {
      const std::string text = literal(dtype, &bits);
      Lexer lexer(text);
      uint64_t back = 0;
      ASSERT_TRUE(parse_literal(lexer, dtype, &back).ok()) << text;
      ASSERT_EQ(std::memcmp(&back, &bits, size_of(dtype)), 0) << text;
    }
  }
}

// A graph of elementwise nodes with odd names and constants of all dtypes.
Graph random_graph(uint32_t seed) {
  std::mt19937 random(seed);
  const auto any_name = [&] {
    std::string name;
    for (std::size_t n = random() % 6; n > 0; --n) name += static_cast<char>(random() % 256);
    return name;
  };
  Graph graph;
  graph.name = any_name();
  std::vector<ValueId> floats;
  for (int i = 0; i < 3; ++i) {
    floats.push_back(
        add_input(graph, any_name() + std::to_string(i), {DType::f32, {Dim::symbol("N"), 1 + i * 3 % 2 * 3}}));
  }
  for (int i = 0; i < 20; ++i) {
    const ValueId a = floats[random() % floats.size()], b = floats[random() % floats.size()];
    const auto pick = random() % 4;
    if (pick == 0) {
      const auto dtype = static_cast<DType>(random() % kDTypeCount);
      add_constant(graph, *random_tensor(dtype, {static_cast<int64_t>(random() % 30)}, random()), any_name());
      floats.push_back(add_scalar_constant(graph, DType::f32, random_float(seed, static_cast<uint64_t>(i))));
    } else {
      floats.push_back(
          add_node(graph, pick == 1 ? ScalarOp::add : ScalarOp::max, {a, a == b ? a : floats.front()}, {}, any_name()));
    }
  }
  add_output(graph, floats.back(), any_name() + "1");
  add_output(graph, floats[3], any_name() + "2");
  return graph;
}

TEST(GraphText, RandomGraphsRoundTrip) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Graph graph = random_graph(seed);
    const std::string text = print(graph);
    const auto again = parse_graph(text, constant_table(graph));
    ASSERT_TRUE(again.ok()) << again.status().str() << "\n" << text;
    ASSERT_TRUE(same_graph(graph, *again)) << text;
    ASSERT_EQ(print(*again), text);
  }
}

TEST(GraphText, OneHashServesAllTypesOfItsBytes) {
  Graph graph;
  add_constant(graph, *Tensor::make(DType::f32, {20}));
  add_constant(graph, *Tensor::make(DType::i32, {4, 5}));
  EXPECT_EQ(constant_table(graph).size(), 1u);
  const auto again = parse_graph(print(graph), constant_table(graph));
  ASSERT_TRUE(again.ok()) << again.status().str();
  EXPECT_TRUE(same_graph(graph, *again));
  std::string text = print(graph);
  text.replace(text.find("[4, 5]"), 6, "[4, 6]");
  const auto wrong = parse_graph(text, constant_table(graph));
  EXPECT_NE(wrong.status().message().find("this constant has 80 bytes, not 96"), std::string::npos);
}

TEST(RandomTensor, HasMeanZeroAndVarianceOne) {
  const Tensor t = *random_tensor(DType::f64, {100000}, 9);
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    sum += t.as<double>()[i];
    squares += t.as<double>()[i] * t.as<double>()[i];
  }
  EXPECT_NEAR(sum / 1e5, 0, 0.015);
  EXPECT_NEAR(squares / 1e5, 1, 0.02);
  EXPECT_EQ(t.as<double>()[12345], random_float(9, 12345));
  EXPECT_NE(random_float(9, 0), random_float(10, 0));
}

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(std::string(FUSEC_SOURCE_DIR) + "/tests/text/roundtrip")) {
    if (entry.path().extension() != ".fir") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    texts.push_back(text.substr(text.find("\ngraph") + 1, text.find("\n====") - text.find("\ngraph")));
  }
  return texts;
}

// Whatever the text, parsing ends with a graph or with an error that has a place.
TEST(GraphText, BrokenTextsAreRefused) {
  const std::vector<std::string> texts = seeds();
  ASSERT_FALSE(texts.empty());
  std::mt19937 random(3);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string text = texts[random() % texts.size()];
    const std::string& other = texts[random() % texts.size()];
    for (std::size_t edits = 1 + random() % 3; edits > 0 && !text.empty(); --edits) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          text.erase(at, random() % 9);
          break;
        case 2:
          text.insert(at, other.substr(random() % other.size(), random() % 12));
          break;
        default:
          text.resize(at + 1);
      }
    }
    const auto graph = parse_graph(text);
    if (graph.ok()) continue;
    ++refused;
    ASSERT_EQ(graph.status().code(), StatusCode::invalid_model) << text;
    ASSERT_EQ(graph.status().message().rfind("line ", 0), 0u) << graph.status().str();
  }
  EXPECT_GT(refused, 3000);
}

}  // namespace
}  // namespace fusec::ir
