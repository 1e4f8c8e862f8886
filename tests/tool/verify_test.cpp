// SPDX-License-Identifier: Apache-2.0
// run and verify, on values: inputs and outputs as files, and references that are wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::HasSubstr;

// A .npy file of version 1, written here in plain bytes.
template <class T>
std::string npy(const std::string& descr, const std::string& shape, const std::vector<T>& values,
                bool fortran = false) {
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }";
  header.append(64 - (10 + header.size() + 1) % 64, ' ');
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  std::string data(values.size() * sizeof(T), '\0');
  std::memcpy(data.data(), values.data(), data.size());
  return out + header + data;
}

constexpr const char* kDouble =
    "graph @main(%x: f32[N, 3]) {\n"
    "  %0 = constant f32[] {2.0}\n"
    "  %1 = mul %x, %0: f32[N, 3]\n"
    "  return %1 as \"y\"\n"
    "}\n";

TEST(Run, ReadsAndWritesNpy) {
  const Workplace w;
  const std::string model = w.file("double.fir", kDouble);
  const std::string x = w.file("x.npy", npy<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, 6}));
  const Outcome run = w.fusec({"run", model, "--input", "x=@" + x, "--output-dir", w.path("out"), "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["symbols"]["N"], 2);
  EXPECT_EQ(run.json()["outputs"][0]["first"], (std::vector<double>{2, 4, 6, 8, 10, 12}));
  EXPECT_EQ(read_text(w.path("out/y.npy")), npy<float>("<f4", "(2,3)", {2, 4, 6, 8, 10, 12}));
}

TEST(Run, TheEvaluatorCompilesNothing) {
  const Workplace w;
  const std::string model = w.file("double.fir", kDouble);
  const std::string x = w.file("x.npy", npy<float>("<f4", "(1, 3)", {1, 2, 3}));
  const Outcome run =
      w.fusec({"run", model, "--input", "x=@" + x, "--evaluator", "--output-dir", w.path("out"), "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["outputs"][0]["first"], (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(read_text(w.path("out/y.npy")), npy<float>("<f4", "(1,3)", {2, 4, 6}));
  EXPECT_EQ(w.fusec({"cache", "stats", "--json"}).json()["entries"], 0);
}

TEST(Run, ReadsColumnMajorFiles) {
  const Workplace w;
  const std::string model = w.file("double.fir", kDouble);
  const std::string x = w.file("x.npy", npy<float>("<f4", "(2, 3)", {1, 4, 2, 5, 3, 6}, true));
  const Outcome run = w.fusec({"run", model, "--input", "x=@" + x, "--json"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.json()["outputs"][0]["first"], (std::vector<double>{2, 4, 6, 8, 10, 12}));
}

TEST(Run, RefusesDamagedFiles) {
  const Workplace w;
  const std::string model = w.file("double.fir", kDouble);
  const auto refuses = [&](const std::string& bytes, const std::string& why) {
    const Outcome run = w.fusec({"run", model, "--input", "x=@" + w.file("x.npy", bytes)});
    EXPECT_EQ(run.code, 2);
    EXPECT_THAT(run.err, HasSubstr(why));
  };
  const std::string good = npy<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, 6});
  refuses(good.substr(0, good.size() - 1), "24 bytes of data are stated, 23 are there");
  refuses("x" + good, "NUMPY");
  refuses(good.substr(0, 40), "cut off");
  refuses(npy<float>(">f4", "(2, 3)", {1, 2, 3, 4, 5, 6}), "not known");
  refuses(npy<float>("<f4", "(2, -3)", {1}), "tuple of extents");
  refuses(npy<float>("<f4", "(4611686018427387904, 3)", {1}), "63 bits");
  refuses(npy<double>("<f8", "(2, 3)", {1, 2, 3, 4, 5, 6}), "is f64, the model wants f32");
}

// The errors of 16-bit models swing with the input: several are judged together.
TEST(Verify, Samples) {
  const Workplace w;
  const std::string model = w.file("double.fir", kDouble);
  const std::string x = w.file("x.npy", npy<float>("<f4", "(2, 3)", {1, 4, 2, 5, 3, 6}, true));
  const auto samples = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"verify", model, "--device", "cpu", "--json"});
    const Outcome outcome = w.fusec(flags);
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
    return outcome.json()["batches"][0]["samples"].get<int>();
  };
  EXPECT_EQ(samples({}), 1);
  EXPECT_EQ(samples({"--samples", "3"}), 3);
  EXPECT_EQ(samples({"--precision", "f16"}), 4);
  EXPECT_EQ(samples({"--precision", "f16", "--samples", "2"}), 2);
  EXPECT_EQ(samples({"--precision", "f16", "--wide"}), 1);
  EXPECT_EQ(samples({"--precision", "f16", "--input", "x=@" + x, "--samples", "2"}), 1);
  EXPECT_EQ(w.fusec({"verify", model, "--samples", "-1"}).code, 2);
}

// A sum in another order may turn a rounding of its 16-bit result: one unit is no mistake, whatever the evaluator's own
// are.
TEST(Verify, OneUnitOfAHalfIsRounding) {
  const Workplace w;
  const std::string conv = w.file("conv.fir", R"(graph @g(%x: bf16[2, 8, 14, 14], %f: bf16[8, 8, 3, 3]) {
  %0 = conv %x, %f {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], groups = 1, )"
                                              R"(layout = "first"}: bf16[2, 8, 14, 14]
  return %0 as "y"
})");
  const Outcome outcome = w.fusec({"verify", conv, "--device", "cpu", "--no-library", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.out;
  EXPECT_EQ(outcome.json()["worst_ulp"], 1);
}

// A mistake in what both sides share is seen by neither: verify says what that is.
TEST(Verify, SaysWhatItsReferenceShares) {
  const Workplace w;
  const std::string model = w.file("double.fir", kDouble);
  const auto shared = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"verify", model, "--device", "cpu", "--json"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return w.fusec(arguments).json()["shared"].get<std::string>();
  };
  EXPECT_EQ(shared({}), "import");
  EXPECT_EQ(shared({"--precision", "f16"}), "import, passes up to convert_precision");
  EXPECT_THAT(w.fusec({"verify", model, "--device", "cpu"}).out, HasSubstr("(shared with it: import)"));
}

TEST(Verify, RunsAndBatchesHaveTheSameBits) {
  const Workplace w;
  const Outcome same = w.fusec({"verify", w.file("double.fir", kDouble), "--device", "cpu", "--batch-invariant",
                                "--batch", "1,7,3", "--repeat", "2", "--json"});
  ASSERT_EQ(same.code, 0) << same.err;
  const nlohmann::json json = same.json();
  for (const nlohmann::json& batch : json["batches"]) EXPECT_EQ(batch["repeats"], 2);
  const std::string shifted = w.file("shifted.fir", R"(graph @main(%x: f32[N, 3]) {
  %0 = reduce_mean %x {axes = [0]}: f32[3]
  %1 = add %x, %0: f32[N, 3]
  return %1 as "y"
})");
  EXPECT_EQ(w.fusec({"verify", shifted, "--device", "cpu", "--batch", "1,7"}).code, 0);
  const Outcome other = w.fusec({"verify", shifted, "--device", "cpu", "--batch-invariant", "--batch", "1,7"});
  EXPECT_NE(other.code, 0);
  EXPECT_THAT(other.err, HasSubstr("output 'y' has other bits for the same samples at N=7 and at N=1"));
}

TEST(Verify, ComparesWithTheEvaluator) {
  const Workplace w;
  const Outcome verify = w.fusec({"verify", w.file("double.fir", kDouble), "--batch", "1,7", "--json"});
  ASSERT_EQ(verify.code, 0) << verify.out << verify.err;
  const nlohmann::json json = verify.json();
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["worst_rel_l2"], 0);
  EXPECT_EQ(json["worst_ulp"], 0);
  EXPECT_EQ(json["batches"].size(), 2U);
  EXPECT_EQ(json["batches"][1]["symbols"]["N"], 7);
  EXPECT_GT(json["outputs"][0]["ref_rms"], 0.5);
}

class References : public testing::Test {
 protected:
  Outcome verify(const std::vector<float>& reference) {
    const std::string x = w.file("x.npy", npy<float>("<f4", "(2, 3)", {1, 2, 3, 4, 5, 6}));
    w.file("y.npy", npy<float>("<f4", "(2, 3)", reference));
    return w.fusec(
        {"verify", w.file("double.fir", kDouble), "--input", "x=@" + x, "--reference", w.path(""), "--json"});
  }
  void refuses(const std::vector<float>& reference, const std::string& why) {
    const Outcome outcome = verify(reference);
    EXPECT_EQ(outcome.code, 1) << outcome.err;
    EXPECT_EQ(outcome.json()["ok"], false);
    EXPECT_THAT(outcome.json()["outputs"][0]["why"].get<std::string>(), HasSubstr(why));
  }
  Workplace w;
};

TEST_F(References, RightOneIsAccepted) { EXPECT_EQ(verify({2, 4, 6, 8, 10, 12}).code, 0); }

TEST_F(References, OneUnitInTheLastPlaceIsCounted) {
  const Outcome outcome = verify({2, 4, 6, 8, 10, std::nextafterf(12, 13)});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_DOUBLE_EQ(outcome.json()["worst_ulp"].get<double>(), 1);
}

TEST_F(References, WrongOnesFail) {
  refuses({2, 4, 6, 8, 10, 12.01F}, "rel_l2");
  refuses({2, 4, 6, 8, 10, NAN}, "NaN or Inf differ in 1 places");
  refuses({2, 4, 6, 8, 10, INFINITY}, "NaN or Inf differ in 1 places");
}

TEST_F(References, OnesThatCheckNothingFail) {
  const std::string x = w.file("x.npy", npy<float>("<f4", "(1, 3)", {1, 1, 1}));
  w.file("y.npy", npy<float>("<f4", "(1, 3)", {2, 2, 2}));
  const std::string model = w.file("double.fir", kDouble);
  EXPECT_THAT(w.fusec({"verify", model, "--input", "x=@" + x, "--reference", w.path("")}).out,
              HasSubstr("is constant"));
  w.file("x.npy", npy<float>("<f4", "(1, 3)", {1e-8F, 1e-9F, 0}));
  w.file("y.npy", npy<float>("<f4", "(1, 3)", {2e-8F, 2e-9F, 0}));
  EXPECT_THAT(w.fusec({"verify", model, "--input", "x=@" + x, "--reference", w.path("")}).out, HasSubstr("vanishes"));
}

TEST_F(References, AbsentFilesAreNamed) {
  const Outcome outcome = w.fusec({"verify", w.file("double.fir", kDouble), "--reference", w.path("")});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("y.npy"));
}

// Rows of one value, each by the same kernel at its own place: plain, backwards, of f16 and after an op.
TEST(Verify, PartsOfASplit) {
  const Workplace w;
  const std::string dtypes[] = {"f32", "f16"};
  for (const std::string& dtype : dtypes) {
    std::string text = "graph @main(%x: " + dtype + "[40, 6]) {\n  %e = exp %x: " + dtype + "[40, 6]\n", outputs;
    for (int i = 0; i < 40; ++i) {
      const std::string at = std::to_string(i), name = "%" + at;
      const bool backwards = i % 5 == 4;
      text += "  " + name + " = slice " + (i % 2 ? "%x" : "%e") + " {starts = [" + at + (backwards ? ", 5" : ", 0") +
              "], sizes = [1, 6], steps = [1, " + (backwards ? "-1" : "1") + "]}: " + dtype + "[1, 6]\n";
      text += "  %r" + at + " = neg " + name + ": " + dtype + "[1, 6]\n";
      outputs += (i ? ", " : "") + std::string(i % 3 ? name : "%r" + at) + " as \"y" + at + "\"";
    }
    const Outcome outcome =
        w.fusec({"verify", w.file("split.fir", text + "  return " + outputs + "\n}\n"), "--device", "cpu", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  }
}

}  // namespace
}  // namespace fusec::tool_test
