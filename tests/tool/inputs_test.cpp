// SPDX-License-Identifier: Apache-2.0
// Inputs from .npz and JSON files, and packages beside their models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using testing::HasSubstr;

constexpr const char* kTwoInputs =
    "graph @main(%a: f32[N, 2], %b: f32[2]) {\n"
    "  %0 = broadcast %b {shape = [N, 2]}: f32[N, 2]\n"
    "  %1 = add %a, %0: f32[N, 2]\n"
    "  return %1 as \"y\"\n"
    "}\n";

std::string little_endian(uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  return out;
}

std::string make_npy(const std::string& shape, const std::vector<float>& values) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': " + shape + ", }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::string out = std::string("\x93NUMPY\x01\x00", 8) + little_endian(header.size(), 2) + header;
  return out.append(reinterpret_cast<const char*>(values.data()), 4 * values.size());
}

struct NpzMember {
  std::string name, data;
  int method = 0;  // 8: deflated
};

// As np.savez writes it: local headers with fields of 64 bits, which only the directory fills in.
std::string make_npz(const std::vector<NpzMember>& arrays) {
  std::string out, directory;
  for (const auto& [name, data, method] : arrays) {
    const std::string file = name + ".npy", sizes = little_endian(data.size(), 4);
    const std::string extra =
        little_endian(1, 2) + little_endian(16, 2) + little_endian(data.size(), 8) + little_endian(data.size(), 8);
    const std::string common = little_endian(static_cast<uint64_t>(method), 2) + little_endian(0, 8);
    directory += "PK\x01\x02" + little_endian(45, 2) + little_endian(45, 2) + little_endian(0, 2) + common + sizes +
                 sizes + little_endian(file.size(), 2) + little_endian(0, 2) + little_endian(0, 2) +
                 little_endian(0, 8) + little_endian(out.size(), 4) + file;
    out += "PK\x03\x04" + little_endian(45, 2) + little_endian(0, 2) + common + little_endian(0xffffffff, 4) +
           little_endian(0xffffffff, 4) + little_endian(file.size(), 2) + little_endian(extra.size(), 2) + file +
           extra + data;
  }
  return out + directory + "PK\x05\x06" + little_endian(0, 4) + little_endian(arrays.size(), 2) +
         little_endian(arrays.size(), 2) + little_endian(directory.size(), 4) + little_endian(out.size(), 4) +
         little_endian(0, 2);
}

class Inputs : public testing::Test {
 protected:
  nlohmann::json first(const std::vector<std::string>& flags) const {
    const Outcome outcome = run(flags);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.code == 0 ? outcome.json()["outputs"][0]["first"] : nlohmann::json();
  }
  void refused(const std::vector<std::string>& flags, const std::string& why) const {
    const Outcome outcome = run(flags);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_THAT(outcome.err, HasSubstr(why));
  }
  Outcome run(const std::vector<std::string>& flags) const {
    std::vector<std::string> words = {"run", add, "--device", "cpu", "--json"};
    words.insert(words.end(), flags.begin(), flags.end());
    return w.fusec(words);
  }
  const Workplace w;
  const std::string add = w.file("add.fir", kTwoInputs);
  const std::string both =
      w.file("both.npz", make_npz({{"a", make_npy("(2, 2)", {1, 2, 3, 4})}, {"b", make_npy("(2,)", {10, 20})}}));
  const nlohmann::json sums = {11, 22, 13, 24};
};

TEST_F(Inputs, OfAnArchiveOneByOneAndAtOnce) {
  EXPECT_EQ(first({"--input", "a=@" + both, "--input", "b=@" + both}), sums);
  EXPECT_EQ(first({"--inputs", both}), sums);
  EXPECT_EQ(first({"--inputs", both, "--input", "b=zeros"}), nlohmann::json({1, 2, 3, 4})) << "--input goes first";
}

TEST_F(Inputs, OfJson) {
  const std::string set = w.file("set.json", R"({"a": [[1, 2], [3, 4]], "b": [10, 20.0]})");
  EXPECT_EQ(first({"--inputs", set}), sums);
  EXPECT_EQ(first({"--input", "a=@" + set, "--input", "b=@" + w.file("b.json", "[10, 20]")}), sums);
}

TEST_F(Inputs, OfFilesThatDoNotFit) {
  refused({"--inputs", w.file("x.json", R"({"a": [[1, 2], [3]]})")}, "unequal length or depth");
  refused({"--inputs", w.file("x.json", R"({"a": [[1, "2"]]})")}, "\"2\" is no f32");
  refused({"--inputs", w.file("x.json", R"({"c": [1]})")}, "has no input 'c'; it has: a, b");
  refused({"--inputs", w.file("x.json", "[1]")}, "no JSON object");
  refused({"--inputs", w.file("x.json", "{")}, "is no JSON");
  refused({"--inputs", w.file("x.txt", "{}")}, "neither .npz nor .json");
  refused({"--inputs", w.path("absent.npz")}, "cannot be opened");
  refused({"--input", "b=@" + w.file("x.npz", make_npz({{"a", make_npy("(2, 2)", {1, 2, 3, 4})}}))},
          "has no array 'b'");
  refused({"--inputs", w.file("x.npz", make_npz({{"a", make_npy("(2, 2)", {1, 2, 3, 4}), 8}}))}, "np.savez_compressed");
  const std::string whole = read_text(both);
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{10}, whole.size() / 2, whole.size() - 1})
    refused({"--inputs", w.file("x.npz", whole.substr(0, bytes))}, "is no .npz file that can be read");
  std::string damaged = whole;
  for (std::size_t i = whole.size() - 22 - 100; i < whole.size() - 22; ++i) damaged[i] = '\x7f';
  refused({"--inputs", w.file("x.npz", damaged)}, "is no .npz file that can be read");
}

TEST_F(Inputs, IntegersHoldWhatTheyCan) {
  const std::string bytes = w.file("bytes.fir",
                                   "graph @main(%a: i8[3]) {\n"
                                   "  %0 = neg %a: i8[3]\n"
                                   "  return %0 as \"y\"\n"
                                   "}\n");
  const auto with = [&](const std::string& text) {
    return w.fusec({"run", bytes, "--device", "cpu", "--json", "--input", "a=@" + w.file("a.json", text)});
  };
  EXPECT_EQ(with("[-127, 127, true]").json()["outputs"][0]["first"], nlohmann::json({127, -127, -1}));
  for (const char* text : {"[128, 0, 0]", "[-129, 0, 0]", "[0.5, 0, 0]"}) EXPECT_EQ(with(text).code, 2) << text;
}

TEST_F(Inputs, APackageIsVerifiedAgainstItsModel) {
  const std::string package = w.path("add.fsc");
  ASSERT_EQ(w.fusec({"compile", add, "-o", package}).code, 0);
  const Outcome good = w.fusec({"verify", package, "--model", add, "--device", "cpu", "--batch", "1,3", "--json"});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_EQ(good.json()["ok"], true);
  EXPECT_EQ(good.json()["batches"].size(), 2U);
  std::string other = kTwoInputs;
  other.replace(other.find("= add"), 5, "= sub");
  const Outcome wrong = w.fusec({"verify", package, "--model", w.file("sub.fir", other), "--device", "cpu", "--json"});
  EXPECT_EQ(wrong.code, 1) << wrong.err;
  EXPECT_EQ(wrong.json()["ok"], false);
  const std::string relu =
      w.file("relu.fir", "graph @main(%x: f32[4]) {\n  %0 = relu %x: f32[4]\n  return %0 as \"y\"\n}\n");
  EXPECT_THAT(w.fusec({"verify", package, "--model", relu, "--device", "cpu"}).err,
              HasSubstr("has other inputs or outputs"));
  EXPECT_THAT(w.fusec({"verify", add, "--model", add}).err, HasSubstr("--model names the model of a package"));
}

}  // namespace
}  // namespace fusec::tool_test
