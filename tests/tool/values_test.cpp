// SPDX-License-Identifier: Apache-2.0
// run --dump-values and --check-values, and compare: which value between the steps is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "ir/support/hash.h"
#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kValuesChain =
    "graph @main(%x: f32[N, 3]) {\n"
    "  %0 = constant f32[3, 3] {random 7}\n"
    "  %1 = matmul %x, %0 {transpose_a = 0, transpose_b = 0}: f32[N, 3]  // /fc1/MatMul\n"
    "  %2 = exp %1: f32[N, 3]  // /fc1/Exp\n"
    "  %3 = tanh %2: f32[N, 3]  // /act/Tanh\n"
    "  %4 = matmul %3, %0 {transpose_a = 0, transpose_b = 0}: f32[N, 3]  // /fc2/MatMul\n"
    "  return %4 as \"y\"\n"
    "}\n";

json read_json(const std::string& path) { return json::parse(read_text(path)); }

std::vector<std::string> files_in(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

json entry_of(const json& values, const std::string& origin) {
  for (const json& value : values)
    if (value["origin"] == origin) return value;
  return nullptr;
}

std::vector<std::string> cpu(std::vector<std::string> words) {
  words.insert(words.end(), {"--device", "cpu", "--shape", "N=2"});
  return words;
}

// Adds to the last float of a file.
void spoil(const std::string& path) {
  std::string bytes = read_text(path);
  float last = 0;
  std::memcpy(&last, bytes.data() + bytes.size() - sizeof last, sizeof last);
  last += 1;
  std::memcpy(bytes.data() + bytes.size() - sizeof last, &last, sizeof last);
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(Values, EveryNodeIsWrittenWithoutFusion) {
  const Workplace w;
  const std::string model = w.file("chain.fir", kValuesChain);
  const Outcome run = w.fusec(cpu({"run", model, "--no-fusion", "--dump-values", w.path("v"), "--json"}));
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["values"]["written"], 4);
  EXPECT_EQ(run.json()["values"]["nodes_inside_regions"], 0);
  const json index = read_json(w.path("v/index.json"));
  EXPECT_EQ(index["values"].size(), 4U);
  const json tanh = entry_of(index["values"], "/act/Tanh");
  EXPECT_EQ(tanh["op"], "tanh");
  EXPECT_EQ(tanh["dtype"], "f32");
  EXPECT_EQ(tanh["shape"], (std::vector<int>{2, 3}));
  EXPECT_EQ(entry_of(index["values"], "/fc2/MatMul")["value"], "y");
  EXPECT_EQ(tanh["file"], "0002-act_Tanh.npy");
  // The last value and the output are the same bytes.
  EXPECT_EQ(read_text(w.path("v/" + entry_of(index["values"], "/fc2/MatMul")["file"].get<std::string>())),
            read_text(w.path("v/output-0.npy")));
}

TEST(Values, WhatFusionRemovedIsCountedAndMatchSelects) {
  const Workplace w;
  const std::string model = w.file("chain.fir", kValuesChain);
  const Outcome run = w.fusec(cpu({"run", model, "--dump-values", w.path("v"), "--json"}));
  ASSERT_EQ(run.code, 0) << run.err;
  const json values = run.json()["values"];
  EXPECT_GT(values["nodes_inside_regions"], 0);
  EXPECT_EQ(values["nodes"].get<int>() - values["nodes_inside_regions"].get<int>(), values["written"].get<int>());
  const Outcome some =
      w.fusec(cpu({"run", model, "--no-fusion", "--dump-values", w.path("some"), "--match", "/fc?/*", "--json"}));
  ASSERT_EQ(some.code, 0) << some.err;
  EXPECT_EQ(some.json()["values"]["written"], 3);
}

TEST(Values, NamesOfAModelStayOutOfPaths) {
  const Workplace w;
  const std::string model = w.file("hostile.fir",
                                   "graph @main(%x: f32[3]) {\n"
                                   "  %0 = exp %x: f32[3]  // ../../x\n"
                                   "  %1 = tanh %0: f32[3]  // two\\nlines\n"
                                   "  %2 = exp %1: f32[3]  // " +
                                       std::string(300, 'a') +
                                       "\n"
                                       "  %3 = tanh %2: f32[3]  // /etc/passwd\n"
                                       "  return %3 as \"../../y\"\n"
                                       "}\n");
  const Outcome run = w.fusec({"run", model, "--device", "cpu", "--no-fusion", "--dump-values", w.path("v/deep")});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(files_in(w.path("v")), ElementsAre("deep"));
  EXPECT_THAT(files_in(w.path("v/deep")),
              ElementsAre("0000-.._.._x.npy", "0001-two_lines.npy", "0002-" + std::string(60, 'a') + ".npy",
                          "0003-etc_passwd.npy", "index.json", "output-0.npy"));
  const json index = read_json(w.path("v/deep/index.json"));
  EXPECT_EQ(index["values"][1]["origin"], "two\nlines");
  EXPECT_EQ(index["values"][3]["value"], "../../y");
}

TEST(Compare, AgreesWithTheEvaluatorAndWithoutFusion) {
  const Workplace w;
  const std::string model = w.file("chain.fir", kValuesChain);
  for (const char* against : {"evaluator", "unfused"}) {
    const Outcome compare = w.fusec(cpu({"compare", model, "--against", against, "--json"}));
    ASSERT_EQ(compare.code, 0) << compare.err << compare.out;
    EXPECT_EQ(compare.json()["ok"], true);
    EXPECT_EQ(compare.json()["first_bad"], nullptr);
    EXPECT_EQ(compare.json()["only_here"], 0) << compare.out;
    EXPECT_GE(compare.json()["compared"], 3);
  }
  EXPECT_GT(w.fusec(cpu({"compare", model, "--against", "unfused", "--json"})).json()["only_there"], 0);
}

// A value that is wrong there, and all that come after it are as they would be with a right one.
TEST(Compare, NamesTheFirstValueThatDiffers) {
  const Workplace w;
  const std::string model = w.file("chain.fir", kValuesChain);
  ASSERT_EQ(w.fusec(cpu({"run", model, "--no-fusion", "--dump-values", w.path("v")})).code, 0);
  ASSERT_EQ(w.fusec(cpu({"compare", model, "--no-fusion", "--against", w.path("v")})).code, 0);
  spoil(w.path("v/0001-fc1_Exp.npy"));
  spoil(w.path("v/0003-fc2_MatMul.npy"));
  const Outcome compare = w.fusec(cpu({"compare", model, "--no-fusion", "--against", w.path("v"), "--json"}));
  ASSERT_EQ(compare.code, 1) << compare.err;
  const json bad = compare.json()["first_bad"];
  EXPECT_EQ(compare.json()["ok"], false);
  EXPECT_EQ(bad["origin"], "/fc1/Exp");
  EXPECT_EQ(bad["worst"]["index"], (std::vector<int>{1, 2}));
  EXPECT_NEAR(bad["worst"]["expected"].get<double>() - bad["worst"]["got"].get<double>(), 1, 1e-4);
  EXPECT_GT(bad["rel_l2"], 1e-3);
  EXPECT_EQ(bad["inputs"]["good"].size(), 1U);
  EXPECT_TRUE(bad["inputs"]["bad"].empty());
  const Outcome text = w.fusec(cpu({"compare", model, "--no-fusion", "--against", w.path("v")}));
  EXPECT_THAT(text.out, HasSubstr("first value over tolerance"));
  EXPECT_THAT(text.out, HasSubstr("/fc1/Exp"));
}

std::string only_entry(const std::string& cache) {
  std::string found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(cache))
    if (entry.path().extension() == ".fsk") found = entry.path().string();
  return found;
}

// The entry of one kernel with the machine code of another: runtime/cache/artifact.h has the format.
std::string with_code_of(const std::string& entry, const std::string& other) {
  constexpr std::size_t kHeader = 24;  // its last 8 bytes are the length of all
  const auto after_key = [](const std::string& bytes) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + kHeader, sizeof length);
    return kHeader + sizeof length + length;
  };
  const std::size_t begin = after_key(other);
  std::string bytes =
      entry.substr(0, after_key(entry)) + other.substr(begin, other.size() - begin - sizeof(ir::Sha256Digest));
  const uint64_t length = bytes.size() + sizeof(ir::Sha256Digest);
  std::memcpy(bytes.data() + kHeader - sizeof length, &length, sizeof length);
  const ir::Sha256Digest digest = ir::sha256(bytes);
  return bytes.append(reinterpret_cast<const char*>(digest.data()), digest.size());
}

// A kernel that computes tanh where the model says exp. Nothing but its values tells.
TEST(Compare, NamesTheRegionOfAWrongKernel) {
  const Workplace w;
  const auto unary = [&](const std::string& op) {
    return w.file(op + ".fir",
                  "graph @main(%x: f32[N, 3]) {\n  %0 = " + op + " %x: f32[N, 3]  // /fc1\n  return %0 as \"y\"\n}\n");
  };
  for (const char* op : {"exp", "tanh"})
    ASSERT_EQ(w.fusec(cpu({"run", unary(op), "--no-fusion", "--cache-dir", w.path(op)})).code, 0);
  const std::string model = w.file("chain.fir", kValuesChain);
  const auto compare = [&] {
    return w.fusec(
        cpu({"compare", model, "--no-fusion", "--cache-dir", w.path("exp"), "--against", "evaluator", "--json"}));
  };
  const std::string at = only_entry(w.path("exp"));
  const std::string wrong_code = with_code_of(read_text(at), read_text(only_entry(w.path("tanh"))));
  EXPECT_EQ(compare().code, 0);
  std::ofstream(at, std::ios::binary) << wrong_code;
  const Outcome wrong = compare();
  ASSERT_EQ(wrong.code, 1) << wrong.err << wrong.out;
  const json bad = wrong.json()["first_bad"];
  EXPECT_EQ(bad["origin"], "/fc1/Exp");
  EXPECT_EQ(bad["op"], "exp");
  EXPECT_EQ(bad["inputs"]["good"].size(), 1U);
  EXPECT_TRUE(bad["inputs"]["bad"].empty());
  EXPECT_EQ(entry_of(wrong.json()["values"], "/fc1/MatMul")["ok"], true);
}

// A relu is exact, sums in f32 are not: a tolerance below their rounding makes the product the first bad
// value.
TEST(Compare, NamesTheRegionWhoseInputsAreStillGood) {
  const Workplace w;
  const std::string model = w.file("sums.fir",
                                   "graph @main(%x: f32[4, 512]) {\n"
                                   "  %0 = relu %x: f32[4, 512]  // /relu\n"
                                   "  %1 = constant f32[512, 8] {random 3}\n"
                                   "  %2 = matmul %0, %1 {transpose_a = 0, transpose_b = 0}: f32[4, 8]  // /sums\n"
                                   "  %3 = tanh %2: f32[4, 8]  // /act\n"
                                   "  return %3 as \"y\"\n"
                                   "}\n");
  const std::vector<std::string> words = {"compare", model, "--device", "cpu", "--no-fusion", "--json"};
  EXPECT_EQ(w.fusec(words).code, 0);
  std::vector<std::string> tight = words;
  tight.insert(tight.end(), {"--tolerance", "1e-12"});
  const Outcome compare = w.fusec(tight);
  ASSERT_EQ(compare.code, 1) << compare.err;
  const json bad = compare.json()["first_bad"];
  EXPECT_EQ(bad["origin"], "/sums");
  EXPECT_EQ(bad["matched_by"], "graph");
  EXPECT_EQ(bad["inputs"]["good"].size(), 1U);
  EXPECT_EQ(bad["inputs"]["given"].size(), 1U);
  EXPECT_EQ(entry_of(compare.json()["values"], "/relu")["ok"], true);
}

// The other model has another op in the place of one: what comes after it is matched by what its own node says.
TEST(Compare, FindsTheRegionOfAnOpThatIsComputedOtherwise) {
  const Workplace w;
  const std::string model = w.file("chain.fir", kValuesChain);
  std::string other = kValuesChain;
  other.replace(other.find("= tanh"), 6, "= sigmoid");
  ASSERT_EQ(w.fusec(cpu({"run", w.file("other.fir", other), "--no-fusion", "--dump-values", w.path("v")})).code, 0);
  const Outcome compare = w.fusec(cpu({"compare", model, "--no-fusion", "--against", w.path("v"), "--json"}));
  ASSERT_EQ(compare.code, 1) << compare.err;
  EXPECT_EQ(compare.json()["only_here"], 1);
  EXPECT_EQ(compare.json()["only_there"], 1);
  EXPECT_EQ(compare.json()["first_bad"]["origin"], "/fc2/MatMul");
  EXPECT_EQ(compare.json()["first_bad"]["matched_by"], "own key");
  EXPECT_EQ(compare.json()["first_bad"]["inputs"]["not_compared"].size(), 1U);
}

TEST(CheckValues, TellsNaNOfWeightsFromNaNThatIsMade) {
  const Workplace w;
  const std::string made = w.file("made.fir",
                                  "graph @main(%x: f32[2, 3]) {\n"
                                  "  %0 = sub %x, %x: f32[2, 3]  // /zero\n"
                                  "  %1 = div %0, %0: f32[2, 3]  // /ratio\n"
                                  "  %2 = exp %1: f32[2, 3]  // /exp\n"
                                  "  return %2 as \"y\"\n"
                                  "}\n");
  const Outcome run = w.fusec({"run", made, "--device", "cpu", "--no-fusion", "--check-values", "--json"});
  ASSERT_EQ(run.code, 1) << run.err;
  const json check = run.json()["values"]["check"];
  EXPECT_EQ(check["first"]["nan"]["origin"], "/ratio");
  EXPECT_EQ(check["first"]["nan"]["index"], (std::vector<int>{0, 0}));
  EXPECT_EQ(check["first"]["nan"]["made_here"], true);
  EXPECT_EQ(check["first"]["inf"], nullptr);
  EXPECT_TRUE(check["given"].empty());

  const std::string given = w.file("given.fir",
                                   "graph @main(%x: f32[2, 3]) {\n"
                                   "  %0 = constant f32[3] {1, nan, 3}  // w\n"
                                   "  %1 = tanh %x: f32[2, 3]  // /tanh\n"
                                   "  %2 = mul %1, %0: f32[2, 3]  // /scale\n"
                                   "  return %2 as \"y\"\n"
                                   "}\n");
  const Outcome weights = w.fusec({"run", given, "--device", "cpu", "--no-fusion", "--check-values", "--json"});
  ASSERT_EQ(weights.code, 1) << weights.err;
  const json found = weights.json()["values"]["check"];
  ASSERT_EQ(found["given"].size(), 1U);
  EXPECT_EQ(found["given"][0]["where"], "weight");
  EXPECT_EQ(found["given"][0]["name"], "w");
  EXPECT_EQ(found["given"][0]["index"], (std::vector<int>{1}));
  EXPECT_EQ(found["first"]["nan"]["origin"], "/scale");
  EXPECT_EQ(found["first"]["nan"]["index"], (std::vector<int>{0, 1}));
  EXPECT_EQ(found["first"]["nan"]["made_here"], false);
}

TEST(CheckValues, SubnormalNumbersAreNoFault) {
  const Workplace w;
  const std::string model = w.file("small.fir",
                                   "graph @main(%x: f32[3]) {\n"
                                   "  %0 = constant f32[] {1e-40}\n"
                                   "  %1 = tanh %x: f32[3]  // /tanh\n"
                                   "  %2 = mul %1, %0: f32[3]  // /small\n"
                                   "  return %2 as \"y\"\n"
                                   "}\n");
  const Outcome run =
      w.fusec({"run", model, "--device", "cpu", "--no-fusion", "--check-values", "--denormals", "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["values"]["check"]["first"]["denormal"]["origin"], "/small");
}

TEST(Compare, RefusesWhatItCannotCompare) {
  const Workplace w;
  const std::string model = w.file("chain.fir", kValuesChain);
  const auto expect = [&](const std::vector<std::string>& words, const char* told) {
    const Outcome outcome = w.fusec(words);
    EXPECT_EQ(outcome.code, 2) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(told));
  };
  expect(cpu({"compare", model, "--against", "cpu"}), "--against cpu compares another device");
  expect(cpu({"compare", model, "--against", w.path("nowhere")}), "it has no index.json");
  expect(cpu({"compare", model, "--denormals"}), "--denormals extends --check-values");
  expect(cpu({"run", model, "--match", "*"}), "--match selects for --dump-values DIR");
  expect(cpu({"run", model, "--evaluator", "--check-values"}), "--evaluator has no steps");
  std::filesystem::create_directory(w.path("bad"));
  (void)w.file("bad/index.json", R"({"values": [{"file": "../chain.fir"}], "outputs": []})");
  expect(cpu({"compare", model, "--against", w.path("bad")}), "names a file outside of it");
  (void)w.file("bad/index.json", "[]");
  expect(cpu({"compare", model, "--against", w.path("bad")}), "is no JSON object");
  ASSERT_EQ(w.fusec(cpu({"run", model, "--dump-values", w.path("v")})).code, 0);
  expect(cpu({"compare", model, "--against", w.path("v"), "--input", "x=random:5"}), "with another input 'x'");
}

}  // namespace
}  // namespace fusec::tool_test
