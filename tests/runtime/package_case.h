// SPDX-License-Identifier: Apache-2.0
// A small package and what tests of packages do with it.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "fusec/package.h"
#include "fusec/session.h"
#include "ir/graph/model_internal.h"
#include "ir/ops/random.h"
#include "ir/text/graph_text.h"
#include "runtime/package/format.h"

namespace fusec::package_case {

namespace fs = std::filesystem;

// Rows of a table by index, a product, and what one kernel makes of it: generated and library steps, constants, a
// symbol.
inline constexpr const char* kGraph = R"(graph @main(%ids: i64[N, 3], %x: f32[N, 3, 8]) {
  %0 = constant f32[11, 8] {random 1}
  %1 = gather %0, %ids {axis = 0}: f32[N, 3, 8]
  %2 = add %1, %x: f32[N, 3, 8]
  %3 = constant f32[8, 40] {random 2}
  %4 = matmul %2, %3 {transpose_a = 0, transpose_b = 0}: f32[N, 3, 40]
  %5 = constant f32[40] {random 3}
  %6 = add %4, %5: f32[N, 3, 40]
  %7 = tanh %6: f32[N, 3, 40]
  %8 = reduce_mean %7 {axes = [2]}: f32[N, 3]
  return %7 as "y", %8 as "m"
}
)";

inline Model gather_model() { return ir::make_model(*ir::parse_graph(kGraph)); }

inline std::vector<char> read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, const std::vector<char>& bytes) {
  std::ofstream out(path, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A folder of its own, which holds the package m.fsc.
class PackageTest : public testing::Test {
 protected:
  PackageTest() : umask_(umask(022)) {
    std::string name = (fs::temp_directory_path() / "fusec_package_XXXXXX").string();
    dir_ = mkdtemp(name.data());
    options_.use_cache = false;
    options_.device = "cpu";
  }
  ~PackageTest() override {
    fs::remove_all(dir_);
    umask(umask_);
  }

  std::string path(const std::string& name = "m.fsc") const { return dir_ + "/" + name; }
  Status write(std::vector<std::string> targets, const std::string& name = "m.fsc") const {
    return write_package(gather_model(), targets, path(name), options_);
  }
  Status write_signed(const SigningKey& key, const std::string& name = "m.fsc") const {
    return write_package(gather_model(), std::vector<std::string>{"cpu:x86-64-v2"}, path(name), options_, key);
  }
  // Its sections, to be changed and written again with digests that fit.
  std::vector<runtime::NewSection> sections() const {
    const std::vector<char> bytes = read_bytes(path());
    const auto found = runtime::package_sections(std::as_bytes(std::span(bytes)), 1);
    std::vector<runtime::NewSection> out;
    for (const runtime::Section& s : *found) out.push_back({s.kind, s.target, {s.bytes.begin(), s.bytes.end()}});
    return out;
  }
  void rewrite(std::vector<runtime::NewSection> sections) const {
    const std::vector<std::byte> head = runtime::package_head(sections, 1);
    std::ofstream out(path(), std::ios::binary);
    const auto put = [&](const std::vector<std::byte>& b) {
      out.write(reinterpret_cast<const char*>(b.data()), static_cast<std::streamsize>(b.size()));
    };
    put(head);
    for (const runtime::NewSection& s : sections) put(s.bytes);
  }
  Status load() const {
    const Result<Package> package = Package::open(path());
    if (!package.ok()) return package.status();
    return Engine::load(*package, options_).status();
  }

  mode_t umask_;  // with 002 others could write what tests make
  std::string dir_;
  Options options_;
};

inline std::vector<Tensor> inputs_for(int64_t n) {
  Tensor ids = *Tensor::make(DType::i64, {n, 3});
  for (int64_t i = 0; i < ids.num_elements(); ++i) ids.as<int64_t>()[i] = (7 * i) % 11;
  return {ids, *ir::random_tensor(DType::f32, {n, 3, 8}, 5)};
}

inline void expect_equal_runs(const Engine& a, const Engine& b) {
  Session first = *Session::create(a), second = *Session::create(b);
  for (const int64_t n : {1, 4}) {
    const auto x = first.run(inputs_for(n)), y = second.run(inputs_for(n));
    ASSERT_TRUE(x.ok() && y.ok()) << x.status().str() << y.status().str();
    for (std::size_t i = 0; i < x->size(); ++i) {
      ASSERT_EQ((*x)[i].shape(), (*y)[i].shape());
      EXPECT_EQ(std::memcmp((*x)[i].data(), (*y)[i].data(), (*x)[i].bytes()), 0) << "output " << i << " at " << n;
    }
  }
}

}  // namespace fusec::package_case
