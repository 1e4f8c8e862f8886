// SPDX-License-Identifier: Apache-2.0
// Packages: what is written is what runs, and every damage is seen.
#include "fusec/package.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "codegen/emit.h"
#include "runtime/package/file.h"
#include "runtime/package/package.h"
#include "tests/runtime/package_case.h"

namespace fusec {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace package_case;

TEST_F(PackageTest, RunsAsTheModelDoes) {
  ASSERT_TRUE(write({"cpu:x86-64-v2", "cpu:native"}).ok());
  const Result<Package> package = Package::open(path());
  ASSERT_TRUE(package.ok()) << package.status().str();
  EXPECT_EQ(package->model().graph, nullptr);
  EXPECT_EQ(package->model().symbols, std::vector<std::string>{"N"});
  ASSERT_EQ(package->model().inputs.size(), 2u);
  EXPECT_EQ(package->model().inputs[0].indexed_extents, std::vector<Dim>{11});
  EXPECT_EQ(to_string(package->model().outputs[0].shape), "[N, 3, 40]");
  EXPECT_EQ(package->info().targets.front(), "x86-64-v2");

  Options options = options_;
  for (const char* target : {"", "x86-64-v2"}) {
    options.target = target;
    const Result<Engine> loaded = Engine::load(*package, options), compiled = Engine::compile(gather_model(), options);
    ASSERT_TRUE(loaded.ok()) << loaded.status().str();
    EXPECT_EQ(loaded->target().name, compiled->target().name);
    EXPECT_EQ(loaded->stats().compiled_kernels, 0);
    EXPECT_EQ(loaded->stats().distinct_kernels, compiled->stats().distinct_kernels);
    expect_equal_runs(*loaded, *compiled);
  }
}

TEST_F(PackageTest, InMemoryItIsTheFile) {
  const std::vector<std::string> targets = {"cpu:x86-64-v2", "cpu:native"};
  ASSERT_TRUE(write(targets).ok());
  const Result<std::vector<std::byte>> bytes = package_bytes(gather_model(), targets, options_);
  ASSERT_TRUE(bytes.ok()) << bytes.status().str();
  const std::vector<char> file = read_bytes(path());
  ASSERT_EQ(bytes->size(), file.size());
  EXPECT_EQ(std::memcmp(bytes->data(), file.data(), file.size()), 0);
  PackageOptions trusting;
  trusting.trust = true;
  const Result<Package> package = Package::read(*bytes, trusting);
  ASSERT_TRUE(package.ok()) << package.status().str();
  const Result<Engine> loaded = Engine::load(*package, options_), compiled = Engine::compile(gather_model(), options_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().str();
  expect_equal_runs(*loaded, *compiled);
  EXPECT_THAT(Package::read(*bytes, {}).status().str(), AllOf(HasSubstr("nothing tells whose bytes in memory are"),
                                                              HasSubstr("while opening a package in memory")));
  std::vector<std::byte> damaged = *bytes;
  damaged[damaged.size() / 2] ^= std::byte{1};
  EXPECT_EQ(Package::read(damaged, trusting).status().code(), StatusCode::invalid_model);
  EXPECT_EQ(Package::read({}, trusting).status().code(), StatusCode::invalid_model);
}

TEST_F(PackageTest, TellsHowWellItFits) {
  const auto fit_of = [&](const std::vector<std::string>& targets) {
    PackageOptions trusting;
    trusting.trust = true;
    return *package_fit(*Package::read(*package_bytes(gather_model(), targets, options_), trusting), "cpu");
  };
  EXPECT_EQ(fit_of({"cpu:native"}), PackageFit::best);
  EXPECT_EQ(fit_of({"cuda:sm_80"}), PackageFit::none);
  const std::string native = Engine::compile(gather_model(), options_)->target().name;
  EXPECT_EQ(fit_of({"cpu:x86-64-v2", "cuda:sm_80"}), native == "x86-64-v2" ? PackageFit::best : PackageFit::other);
  ASSERT_TRUE(write({"cpu:native"}).ok());
  EXPECT_FALSE(package_fit(*Package::open(path()), "tpu").ok());
}

TEST_F(PackageTest, ConstantsAreUsedWhereTheyLie) {
  ASSERT_TRUE(write({"cpu:x86-64-v2", "cpu:native"}).ok());
  const Package package = *Package::open(path());
  const auto& state = *package.state();
  const auto pool = state.section(runtime::SectionKind::constants, 0);
  for (uint32_t target = 0; target < 2; ++target) {
    const auto program = runtime::packaged_program(state, target);
    ASSERT_TRUE(program.ok()) << program.status().str();
    ASSERT_EQ(program->constants.size(), 3u);
    for (const Tensor& c : program->constants) {
      const auto* at = static_cast<const std::byte*>(c.data());
      EXPECT_GE(at, pool.data());
      EXPECT_LE(at + c.bytes(), pool.data() + pool.size());
      EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % 64, 0u);
    }
  }
  EXPECT_LT(pool.size(), (11 * 8 + 8 * 40 + 40) * 4 + 3 * 64u) << "both targets share them";
}

TEST(PackageMemory, MoreThanAddressesReachIsAnError) {
  EXPECT_EQ(runtime::allocate_bytes(std::size_t{1} << 60).status().str(),
            "out_of_memory: there is no memory for its 1152921504606846976 bytes");
}

TEST_F(PackageTest, TwoCompilesGiveEqualBytes) {
  ASSERT_TRUE(write({"cpu:x86-64-v2", "cpu:x86-64-v4"}, "a.fsc").ok());
  ASSERT_TRUE(write({"cpu:x86-64-v2", "cpu:x86-64-v4"}, "b.fsc").ok());
  EXPECT_EQ(read_bytes(path("a.fsc")), read_bytes(path("b.fsc")));
}

TEST_F(PackageTest, ForGpusWithoutOne) {
  const Status status = write({"cuda:sm_80", "cuda:sm_90"});
  if (status.code() == StatusCode::unsupported) GTEST_SKIP() << status.str();
  ASSERT_TRUE(status.ok()) << status.str();
  EXPECT_EQ(Package::open(path())->info().targets, (std::vector<std::string>{"sm_80", "sm_90"}));
  const Status loaded = load();
  EXPECT_EQ(loaded.code(), StatusCode::invalid_argument);
  EXPECT_THAT(loaded.str(),
              AllOf(HasSubstr("no code for this CPU"), HasSubstr("its targets are sm_80, sm_90"), HasSubstr("m.fsc")));
}

TEST_F(PackageTest, TargetsAreChosenByWhatTheMachineHas) {
  runtime::Manifest m;
  for (const char* name : {"x86-64-v3", "x86-64-v2", "x86-64-v4", "sm_80", "sm_86", "sm_90"}) {
    m.targets.push_back({*named_target(name), {}});
    m.targets.back().target.has_tile_products = false;
  }
  const auto picked = [&](const char* machine, const char* wanted = "") {
    const Result<uint32_t> number = runtime::pick_target(m, *named_target(machine), wanted);
    return number.ok() ? m.targets[*number].target.name : number.status().message();
  };
  EXPECT_EQ(picked("x86-64-v4"), "x86-64-v4");
  EXPECT_EQ(picked("x86-64-v3"), "x86-64-v3");
  EXPECT_EQ(picked("x86-64-v4", "cpu:x86-64-v2"), "x86-64-v2");
  EXPECT_THAT(picked("x86-64-v3", "x86-64-v4"), HasSubstr("under the name 'x86-64-v4'"));
  EXPECT_EQ(picked("sm_89"), "sm_86");
  EXPECT_EQ(picked("sm_90"), "sm_90");
  EXPECT_EQ(picked("sm_120"), "sm_90") << "by its PTX";
  EXPECT_EQ(picked("sm_90", "cuda:sm_80"), "sm_80");
  EXPECT_THAT(picked("sm_75"), HasSubstr("no code for this GPU (sm_75)"));
  Target own = *named_target("sm_90");
  own.name = "sm_90a";
  m.targets.push_back({own, {}});
  EXPECT_EQ(picked("sm_90"), "sm_90a");
  EXPECT_EQ(picked("sm_90", "cuda:sm_90"), "sm_90a");
  EXPECT_EQ(picked("sm_100"), "sm_90") << "code of sm_90a does not run there";
}

// A large product whose activation no library fuses is code of sm_90a.
TEST_F(PackageTest, BesideCodeOfOneArchitectureLiesOtherCode) {
  if (!codegen::writable_target(*named_target("sm_90"), Codegen::automatic).has_tile_products)
    GTEST_SKIP() << "neither LLVM nor NVRTC";
  const auto graph = ir::parse_graph(R"(graph @main(%x: f16[32768, 768]) {
  %0 = constant f16[768, 3072] {random 1}
  %1 = matmul %x, %0 {transpose_a = 0, transpose_b = 0}: f16[32768, 3072]
  %2 = gelu %1: f16[32768, 3072]
  return %2 as "y"
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  ASSERT_TRUE(write_package(ir::make_model(*graph), std::vector<std::string>{"cuda:sm_90"}, path(), options_).ok());
  const Package package = *Package::open(path());
  EXPECT_EQ(package.info().targets, (std::vector<std::string>{"sm_90a", "sm_90"}));
  const runtime::PackageState& state = *package.state();
  const auto ptx_of = [&](const char* machine) {
    const uint32_t target = runtime::pick_target(state.manifest, *named_target(machine), "").value();
    const ir::Program program = runtime::packaged_program(state, target).value();
    const auto artifacts = runtime::packaged_artifacts(state, target, program);
    std::string all;
    for (const auto& [id, artifact] : artifacts.value()) all += artifact->ptx;
    return all;
  };
  EXPECT_THAT(ptx_of("sm_90"), HasSubstr(".target sm_90a"));
  EXPECT_THAT(ptx_of("sm_100"), AllOf(HasSubstr(".target sm_90"), Not(HasSubstr(".target sm_90a"))));
}

TEST_F(PackageTest, LimitsOfSymbolsAreKept) {
  const auto graph = ir::parse_graph(R"(graph @main(%x: f32[S]) limits(S = 3) {
  %0 = neg %x: f32[S]
  return %0 as "y"
}
)");
  ASSERT_TRUE(graph.ok()) << graph.status().str();
  const Model model = ir::make_model(*graph);
  ASSERT_TRUE(write_package(model, std::vector<std::string>{"cpu:x86-64-v2"}, path(), options_).ok());
  EXPECT_EQ(Package::open(path())->model().ranges.at("S"), (ExtentRange{0, 3}));
  const Engine compiled = *Engine::compile(model, options_), loaded = *Engine::load(*Package::open(path()), options_);
  for (const Engine& engine : {compiled, loaded}) {
    Session session = *Session::create(engine);
    for (const int64_t length : {3, 4}) {
      const Tensor x = *ir::random_tensor(DType::f32, {length}, 1);
      const auto out = session.run(std::span(&x, 1));
      EXPECT_EQ(out.ok(), length == 3);
      if (!out.ok()) {
        EXPECT_THAT(out.status().str(), HasSubstr("input 'x' of type f32[S]: axis 0 must be at most 3, given is 4"));
      }
    }
  }
}

TEST_F(PackageTest, EveryChangedByteIsSeen) {
  ASSERT_TRUE(write({"cpu:x86-64-v2"}).ok());
  std::vector<char> bytes = read_bytes(path());
  for (std::size_t i = 0; i < bytes.size(); i += i < 576 ? 1 : 13) {
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
    write_bytes(path(), bytes);
    const Result<Package> package = Package::open(path());
    ASSERT_FALSE(package.ok()) << "byte " << i;
    EXPECT_EQ(package.status().code(), StatusCode::invalid_model);
    EXPECT_THAT(package.status().str(), HasSubstr("while opening package"));
    bytes[i] = static_cast<char>(bytes[i] ^ (1 << i % 8));
  }
  write_bytes(path(), bytes);
  EXPECT_TRUE(load().ok());
}

TEST_F(PackageTest, EveryCutIsSeen) {
  ASSERT_TRUE(write({"cpu:x86-64-v2"}).ok());
  const std::vector<char> bytes = read_bytes(path());
  for (std::size_t size = 0; size < bytes.size(); size += size < 600 ? 1 : 61) {
    write_bytes(path(), {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_EQ(load().code(), StatusCode::invalid_model) << size;
  }
  std::vector<char> longer = bytes;
  longer.resize(bytes.size() + 64);
  write_bytes(path(), longer);
  EXPECT_THAT(load().str(), HasSubstr("cut short or added to"));
}

TEST_F(PackageTest, OtherFilesAndVersions) {
  EXPECT_EQ(load().code(), StatusCode::invalid_argument);
  EXPECT_THAT(load().str(), HasSubstr("cannot be opened: No such file"));
  fs::create_directory(path());
  EXPECT_THAT(load().str(), HasSubstr("it is not a file but a folder"));
  fs::remove(path());
  write_bytes(path(), {});
  EXPECT_THAT(load().str(), HasSubstr("it is empty"));
  write_bytes(path(), std::vector<char>(100, 'x'));
  EXPECT_THAT(load().str(), HasSubstr("it is no package"));
  EXPECT_FALSE(is_package(path()));
  ASSERT_TRUE(write({"cpu:x86-64-v2"}).ok());
  EXPECT_TRUE(is_package(path()));
  std::vector<char> bytes = read_bytes(path());
  bytes[8] = 1;
  write_bytes(path(), bytes);
  EXPECT_THAT(load().str(), HasSubstr("format version 1, this fusec reads version 4: compile the model again"));
}

TEST_F(PackageTest, WhatCannotBeReadIsTold) {
  ASSERT_TRUE(write({"cpu:x86-64-v2"}).ok());
  const std::vector<char> bytes = read_bytes(path());
  const auto file = std::as_bytes(std::span(bytes));
  const auto head = runtime::read_package_head(file);
  ASSERT_TRUE(head.ok());
  const auto answer = [&](int fault) {
    return runtime::check_digests(*head, file, 2, [=](std::size_t, std::size_t) { return fault; }).str();
  };
  EXPECT_EQ(answer(0), "ok");
  EXPECT_THAT(answer(EIO), HasSubstr("it cannot be read: Input/output error"));
  EXPECT_THAT(answer(-1), HasSubstr("cut short while it was read"));
}

// Digests that fit content which does not.
TEST_F(PackageTest, ContentIsNotTrusted) {
  ASSERT_TRUE(write({"cpu:x86-64-v2"}).ok());
  const std::vector<runtime::NewSection> good = sections();
  ASSERT_EQ(good.size(), 4u);
  const auto expect = [&](const std::string& what, const auto& change) {
    std::vector<runtime::NewSection> changed = good;
    change(changed);
    rewrite(std::move(changed));
    const Status status = load();
    EXPECT_EQ(status.code(), StatusCode::invalid_model) << what;
    EXPECT_THAT(status.str(), HasSubstr(what));
  };
  const auto replace = [](std::vector<std::byte>& bytes, const std::string& from, const std::string& to) {
    std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    const auto changed = std::as_bytes(std::span(text));
    bytes.assign(changed.begin(), changed.end());
  };
  expect("its sections are not those", [](auto& s) { s.pop_back(); });
  expect("its sections are not those", [](auto& s) { s[1].target = 1; });
  expect("it has no manifest", [](auto& s) { s[0].kind = runtime::SectionKind::code; });
  expect("parse error", [](auto& s) { s[0].bytes.resize(20); });
  expect("'producer' not found", [&](auto& s) { replace(s[0].bytes, "producer", "prodvcer"); });
  expect("no dtype 'i65'", [&](auto& s) { replace(s[0].bytes, "i64", "i65"); });
  expect("there are no numerics", [&](auto& s) { replace(s[0].bytes, "precise", "precyse"); });
  expect("lies outside of its section", [&](auto& s) { replace(s[0].bytes, "\"offset\": 0", "\"offset\": 64000000"); });
  expect("lies outside of its section", [&](auto& s) { replace(s[0].bytes, "\"offset\": 0", "\"offset\": 4"); });
  expect("the range of 'n' has no values", [&](auto& s) {
    replace(s[0].bytes, "\"symbols\"", R"("ranges": {"n": {"least": 5, "most": 4}}, "symbols")");
  });
  expect("a constant has no size", [&](auto& s) { replace(s[0].bytes, "11,", "-11,"); });
  expect("line 1, column 1: expected 'program'", [](auto& s) { s[1].bytes.resize(4); });
  expect("is not there", [&](auto& s) { replace(s[1].bytes, ": constant 0", ": constant 9"); });
  // Elements whose bytes are 4 after an overflow.
  expect("is not there",
         [&](auto& s) { replace(s[1].bytes, ": constant 0 f32 88", ": constant 0 f32 4611686018427387905"); });
  expect("code of a kernel is missing", [](auto& s) { s[2].bytes.clear(); });
  expect("code of a kernel is missing", [](auto& s) { s[2].bytes.resize(s[2].bytes.size() - 1); });
  expect("code of a kernel cannot be read", [](auto& s) { s[2].bytes[200] ^= std::byte{1}; });
  expect("code of more kernels", [](auto& s) { s[2].bytes.resize(s[2].bytes.size() + 8); });
}

TEST_F(PackageTest, WrongRequests) {
  EXPECT_THAT(write({}).str(), HasSubstr("at least one target"));
  EXPECT_THAT(write({"cpu:x86-64-v3", "x86-64-v3"}).str(), HasSubstr("named twice"));
  EXPECT_THAT(write({"cuda:sm_3"}).str(), HasSubstr("no target is named"));
  EXPECT_THAT(
      write_package(gather_model(), std::vector<std::string>{"cpu:x86-64-v2"}, dir_ + "/none/m.fsc", options_).str(),
      HasSubstr("it cannot be written: No such file"));
  EXPECT_THAT(write({"cpu:x86-64-v2"}, "m.onnx").str(), HasSubstr("must end in .fsc"));
  EXPECT_TRUE(fs::is_empty(dir_)) << "nothing is left behind";
}

}  // namespace
}  // namespace fusec
