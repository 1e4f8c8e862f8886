// SPDX-License-Identifier: Apache-2.0
// The libraries of a GPU, where there is one: every step on device memory, put on a stream and replayed from a graph.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>

#include "runtime/library/interface/device_weights.h"
#include "tests/runtime/cuda_cases.h"
#include "tests/runtime/library_random.h"

namespace fusec::runtime {
namespace {

using ir::ScalarOp;
using ir::TensorOp;
using testing::Case;
using testing::check;

// The few functions of the driver that the test needs, by their C signatures; results are 0 for success.
struct Driver {
  using Handle = void*;
  int (*init)(unsigned) = nullptr;
  int (*device)(int*, int) = nullptr;
  int (*retain)(Handle*, int) = nullptr;
  int (*set_current)(Handle) = nullptr;
  int (*alloc)(uint64_t*, std::size_t) = nullptr;
  int (*free)(uint64_t) = nullptr;
  int (*to_device)(uint64_t, const void*, std::size_t) = nullptr;
  int (*to_host)(void*, uint64_t, std::size_t) = nullptr;
  int (*stream)(Handle*, unsigned) = nullptr;
  int (*synchronize)(Handle) = nullptr;
  int (*begin)(Handle, int) = nullptr;
  int (*end)(Handle, Handle*) = nullptr;
  int (*instantiate)(Handle*, Handle, unsigned long long) = nullptr;
  int (*launch)(Handle, Handle) = nullptr;
  int (*destroy_exec)(Handle) = nullptr;
  int (*destroy_graph)(Handle) = nullptr;

  bool open() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return false;
    bool all = true;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      all = all && function != nullptr;
    };
    find(init, "cuInit");
    find(device, "cuDeviceGet");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(set_current, "cuCtxSetCurrent");
    find(alloc, "cuMemAlloc_v2");
    find(free, "cuMemFree_v2");
    find(to_device, "cuMemcpyHtoD_v2");
    find(to_host, "cuMemcpyDtoH_v2");
    find(stream, "cuStreamCreate");
    find(synchronize, "cuStreamSynchronize");
    find(begin, "cuStreamBeginCapture_v2");
    find(end, "cuStreamEndCapture");
    find(instantiate, "cuGraphInstantiateWithFlags");
    find(launch, "cuGraphLaunch");
    find(destroy_exec, "cuGraphExecDestroy");
    find(destroy_graph, "cuGraphDestroy");
    int id = 0;
    Handle context = nullptr;
    return all && init(0) == 0 && device(&id, 0) == 0 && retain(&context, id) == 0 && set_current(context) == 0;
  }
};

struct DriverMemory : DeviceMemory {
  explicit DriverMemory(const Driver& d) : driver(d) {}
  Result<void*> allocate(std::size_t bytes) override {
    uint64_t address = 0;
    if (driver.alloc(&address, bytes) != 0) return Status(StatusCode::out_of_memory, "cuMemAlloc");
    return reinterpret_cast<void*>(address);
  }
  Status upload(void* device, const void* host, std::size_t bytes) override {
    // Of memory that is not pinned the copy may still be under way, on a stream that others do not wait for.
    const bool ok =
        driver.to_device(reinterpret_cast<uint64_t>(device), host, bytes) == 0 && driver.synchronize(nullptr) == 0;
    return ok ? Status() : Status(StatusCode::device, "cuMemcpyHtoD");
  }
  void free(void* device) override { driver.free(reinterpret_cast<uint64_t>(device)); }
  const Driver& driver;
};

// An op over host memory: arguments go to the device and the output comes back. It runs once on the stream, then from a
// graph, and the bits must be the same.
class DeviceOp : public LibraryOp {
 public:
  DeviceOp(std::unique_ptr<LibraryOp> op, const LibraryCall& call, const Driver& driver, void* stream)
      : op_(std::move(op)), driver_(driver), stream_(stream) {
    for (const BoundArg& arg : call.args) {
      int64_t elements = 1;
      for (std::size_t i = 0; i < arg.shape.size(); ++i) elements += (arg.shape[i] - 1) * arg.strides[i];
      if (std::find(arg.shape.begin(), arg.shape.end(), 0) != arg.shape.end()) elements = 0;
      bytes_.push_back(static_cast<std::size_t>(elements) * size_of(arg.dtype));
    }
  }

  Status run(void* const* args, void*, const ExecContext&) const override {
    DriverMemory memory(driver_);
    std::vector<void*> device;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      FUSEC_ASSIGN(void* const address, memory.allocate(std::max<std::size_t>(bytes_[i], 1)));
      FUSEC_TRY(memory.upload(address, args[i], bytes_[i]));
      device.push_back(address);
    }
    FUSEC_ASSIGN(void* const workspace, memory.allocate(op_->workspace_bytes() + 256));
    FUSEC_TRY(op_->run(device.data(), workspace, {1, stream_}));
    if (driver_.synchronize(stream_) != 0) return Status(StatusCode::device, "the stream failed");
    std::vector<char> first(bytes_.back());
    driver_.to_host(first.data(), reinterpret_cast<uint64_t>(device.back()), bytes_.back());
    FUSEC_TRY(memory.upload(device.back(), args[bytes_.size() - 1], bytes_.back()));
    FUSEC_TRY(replay(device, workspace));
    driver_.to_host(args[bytes_.size() - 1], reinterpret_cast<uint64_t>(device.back()), bytes_.back());
    EXPECT_EQ(std::memcmp(first.data(), args[bytes_.size() - 1], first.size()), 0) << "other bits from the graph";
    device.push_back(workspace);
    for (void* address : device) memory.free(address);
    return {};
  }
  std::string implementation() const override { return op_->implementation(); }

 private:
  Status replay(const std::vector<void*>& device, void* workspace) const {
    constexpr int kThreadLocal = 1;
    void *graph = nullptr, *exec = nullptr;
    if (driver_.begin(stream_, kThreadLocal) != 0) return Status(StatusCode::device, "no capture");
    const Status captured = op_->run(device.data(), workspace, {1, stream_});
    if (driver_.end(stream_, &graph) != 0) return Status(StatusCode::device, "the capture broke: " + captured.str());
    FUSEC_TRY(captured);
    if (driver_.instantiate(&exec, graph, 0) != 0) return Status(StatusCode::device, "no graph");
    const bool ok = driver_.launch(exec, stream_) == 0 && driver_.synchronize(stream_) == 0;
    driver_.destroy_exec(exec);
    driver_.destroy_graph(graph);
    return ok ? Status() : Status(StatusCode::device, "the graph failed");
  }

  std::unique_ptr<LibraryOp> op_;
  const Driver& driver_;
  void* stream_;
  std::vector<std::size_t> bytes_;
};

class DeviceLibrary : public Library {
 public:
  DeviceLibrary(std::shared_ptr<Library> library, const Driver& driver, void* stream)
      : library_(std::move(library)), driver_(driver), stream_(stream) {}
  std::string name() const override { return library_->name(); }
  std::optional<std::string> get_unsupported_reason(const ir::LibraryStep& step) const override {
    return library_->get_unsupported_reason(step);
  }
  std::vector<Algorithm> algorithms(const LibraryCall& call) override { return library_->algorithms(call); }
  Result<std::unique_ptr<LibraryOp>> bind(const LibraryCall& call) override {
    FUSEC_ASSIGN(auto op, library_->bind(call));
    return std::unique_ptr<LibraryOp>(std::make_unique<DeviceOp>(std::move(op), call, driver_, stream_));
  }

 private:
  std::shared_ptr<Library> library_;
  const Driver& driver_;
  void* stream_;
};

class CudaLibraries : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!driver_.open() || driver_.stream(&stream_, 1) != 0)
      GTEST_SKIP() << "no GPU: libcuda.so.1 is missing, too old, or has no device";
    use({});
    if (libraries_.empty()) GTEST_SKIP() << "neither cuDNN nor cuBLASLt was found";
  }
  void use(Options options) {
    options.on_warning = [](const std::string& text) { std::printf("warning: %s\n", text.c_str()); };
    libraries_.clear();
    for (auto& library : cuda_libraries(options, std::make_shared<DriverMemory>(driver_))) {
      libraries_[library->name()] = std::make_shared<DeviceLibrary>(library, driver_, stream_);
    }
  }
  // By the library of this name; "" where it is missing. Counts implementations.
  std::string run(const char* library, Case c, double tolerance = 3e-6) {
    const auto it = libraries_.find(library);
    if (it == libraries_.end()) return "";
    const std::string what = check(*it->second, c, tolerance);
    ++seen_[what];
    kept_.push_back(std::move(c));
    return what;
  }
  // By every library and each of its algorithms that is deterministic.
  void for_every_choice(Case& c, double tolerance) {
    for (const auto& [name, library] : libraries_) {
      if (library->get_unsupported_reason(*c.step)) continue;
      std::vector<Algorithm> algorithms = library->algorithms(c.call);
      algorithms.push_back({});
      for (const Algorithm& algorithm : algorithms) {
        if (!algorithm.deterministic) continue;
        SCOPED_TRACE(to_string(c.call.args[0].dtype) + ::testing::PrintToString(c.call.args[1].shape) + " by " + name +
                     " " + algorithm.id);
        c.call.algorithm = algorithm.id;
        ++seen_[check(*library, c, tolerance)];
      }
    }
  }
  static Options exact() {
    Options options;
    options.numerics = Numerics::exact;
    return options;
  }
  // Relu behind convolutions of images of NaN, by every choice.
  void images_of_nan(bool may_drop_nan) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      for (const testing::Image& image : testing::image_cases()) {
        for (const bool last : {true, false}) {
          Case c = testing::image_case(image, last, true, 0, dtype, last ? "bar" : "r");
          for (int64_t i = 0; i < c.elements[0]; ++i) ir::store_double(dtype, c.at(0, i), std::nan(""));
          c.may_drop_nan = may_drop_nan;
          for_every_choice(c, 1);
          kept_.push_back(std::move(c));
        }
      }
    }
  }
  void TearDown() override {
    for (const auto& [what, count] : seen_) std::printf("%5d x %s\n", count, what.c_str());
  }

  Driver driver_;
  void* stream_ = nullptr;
  std::map<std::string, std::shared_ptr<Library>> libraries_;
  std::map<std::string, int> seen_;
  std::vector<Case> kept_;  // libraries know constants by their address
};

struct TypeTolerance {
  DType dtype;
  double tolerance;
};
constexpr TypeTolerance kTypes[] = {{DType::f32, 3e-6}, {DType::f16, 2e-3}, {DType::bf16, 1.6e-2}, {DType::f64, 1e-14}};

TEST_F(CudaLibraries, Products) {
  for (const auto& [dtype, tolerance] : kTypes) {
    for (const testing::Product& p : testing::product_cases()) {
      for (const char* what : {"", "b", "a", "ba", "r", "bar"}) {
        if (dtype == DType::f64 && std::string(what).find('r') != std::string::npos) continue;
        SCOPED_TRACE(to_string(dtype) + ::testing::PrintToString(p.a) + ::testing::PrintToString(p.b) +
                     ::testing::PrintToString(p.out_strides) + what);
        EXPECT_EQ(run("cublaslt", testing::product_case(p, what, dtype), tolerance).find("unsupported"),
                  std::string::npos);
      }
    }
  }
}

TEST_F(CudaLibraries, LargerProducts) {
  for (const auto& [dtype, tolerance] : kTypes) {
    SCOPED_TRACE(to_string(dtype));
    for (const int64_t n : {64, 200, 256}) {
      run("cublaslt", testing::product_case({{n, n}, {n, n}, {n, n}}, dtype == DType::f64 ? "ba" : "bar", dtype),
          tolerance);
    }
  }
}

TEST_F(CudaLibraries, Convolutions) {
  for (const auto& [dtype, tolerance] : kTypes) {
    for (const testing::Image& s : testing::image_cases()) {
      for (const bool last : {true, false}) {
        for (const bool constant : {true, false}) {
          SCOPED_TRACE(to_string(dtype) + ::testing::PrintToString(s.kernel) + ::testing::PrintToString(s.in) +
                       (last ? " last" : " first") + (constant ? "" : " views"));
          const std::string what =
              run("cudnn", testing::image_case(s, last, constant, constant ? 0 : 3, dtype), tolerance);
          EXPECT_EQ(what.find("unsupported"), std::string::npos) << what;
        }
      }
    }
  }
}

TEST_F(CudaLibraries, PointwiseConvolutions) {
  for (const auto& [dtype, tolerance] : kTypes) {
    if (dtype == DType::f64) continue;
    const testing::Image s{2, 32, 64, {14, 14}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}};
    EXPECT_EQ(run("cublaslt", testing::image_case(s, true, true, 0, dtype, "bar"), tolerance),
              libraries_.contains("cublaslt") ? "cublaslt" : "");
  }
}

TEST_F(CudaLibraries, Pools) {
  for (const auto& [dtype, tolerance] : kTypes) {
    for (const bool is_max : {true, false}) {
      for (const bool include : {true, false}) {
        SCOPED_TRACE(to_string(dtype));
        Case c(is_max ? TensorOp::max_pool : TensorOp::avg_pool,
               testing::window_attrs({3, 3}, {2, 2}, {1, 1, 0, 0}, false, include, is_max));
        c.add({2, 8, 8, 5}, {}, false, dtype);
        c.add({2, 4, 4, 5}, {}, false, dtype);
        EXPECT_EQ(run("cudnn", std::move(c), tolerance), libraries_.contains("cudnn") ? "cudnn pooling" : "");
        Case nothing(is_max ? TensorOp::max_pool : TensorOp::avg_pool,
                     testing::window_attrs({2, 3}, {1, 2}, {1, 1, 1, 1}, false, include, is_max));
        nothing.add({2, 0, 8, 5}, {}, false, dtype);
        nothing.add({2, 1, 4, 5}, {32, 32, 8, 1}, false, dtype);
        EXPECT_EQ(run("cudnn", std::move(nothing), tolerance), libraries_.contains("cudnn") ? "cudnn fill" : "");
      }
    }
  }
}

// cuBLASLt takes gelu_tanh behind any product of 16-bit types: plans rely on it.
TEST_F(CudaLibraries, ProductsWithGelu) {
  for (const auto& [dtype, tolerance] : kTypes) {
    if (!fuses(ir::library_capabilities("cublaslt").epilogues, ScalarOp::gelu_tanh, dtype, {})) continue;
    std::vector<testing::Product> products = testing::product_cases();
    for (const int64_t n : {64, 200, 256}) products.push_back({{n, n}, {n, n}, {n, n}});
    products.push_back({{32, 768}, {768, 512}, {32, 512}});
    for (const testing::Product& p : products) {
      for (const char* what : {"g", "bg"}) {
        SCOPED_TRACE(to_string(dtype) + ::testing::PrintToString(p.a) + ::testing::PrintToString(p.b) +
                     ::testing::PrintToString(p.out_strides) + what);
        EXPECT_EQ(run("cublaslt", testing::product_case(p, what, dtype), tolerance).find("unsupported"),
                  std::string::npos);
        Case c = testing::product_case(p, what, dtype);
        if (testing::count(p.out) < 5000) for_every_choice(c, tolerance);
        kept_.push_back(std::move(c));
      }
    }
  }
}

// The gelu of cuBLASLt, by each of its algorithms, beside gelu_tanh in double, for every number of the type from -8 to
// 8: a product by the identity has them as its sums, to which a bias of 0 or 1/4 is added. Its formula is not
// documented. The bound is one unit in the last place of the result, of results from 1/4 on, as docs/numerics.md has it
// of a library's activations; what a rounding of the sum would do to the result may be more than that.
TEST_F(CudaLibraries, GeluByTanh) {
  if (!libraries_.contains("cublaslt")) GTEST_SKIP() << "cuBLASLt was not found";
  Library& library = *libraries_["cublaslt"];
  constexpr int64_t kTerms = 16;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    if (!fuses(ir::library_capabilities("cublaslt").epilogues, ScalarOp::gelu_tanh, dtype, {})) continue;
    std::vector<uint16_t> numbers;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const auto number = static_cast<uint16_t>(bits);
      if (std::fabs(ir::load_double(dtype, &number)) <= 8) numbers.push_back(number);
    }
    numbers.resize((numbers.size() + kTerms - 1) / kTerms * kTerms);
    const auto rows = static_cast<int64_t>(numbers.size()) / kTerms;
    const int digits = dtype == DType::f16 ? 10 : 7;
    for (const double bias : {-1.0, 0.0, 0.25}) {  // -1: none
      Case c = testing::product_case({{rows, kTerms}, {kTerms, kTerms}, {rows, kTerms}}, bias < 0 ? "g" : "bg", dtype);
      std::memcpy(c.at(0, 0), numbers.data(), numbers.size() * sizeof(uint16_t));
      for (int64_t i = 0; i < kTerms * kTerms; ++i)
        ir::store_double(dtype, c.at(1, i), i / kTerms == i % kTerms ? 1 : 0);
      if (bias >= 0)
        for (int64_t i = 0; i < kTerms; ++i) ir::store_double(dtype, c.at(2, i), bias);
      std::vector<Algorithm> algorithms = library.algorithms(c.call);
      algorithms.push_back({});
      for (const Algorithm& algorithm : algorithms) {
        SCOPED_TRACE(std::string(to_string(dtype)) + " " + algorithm.id);
        c.call.algorithm = algorithm.id;
        const auto op = library.bind(c.call);
        ASSERT_TRUE(op.ok()) << op.status().str();
        std::vector<void*> args;
        for (const testing::Memory& memory : c.memory) args.push_back(memory.get());
        ASSERT_TRUE((*op)->run(args.data(), nullptr, {}).ok());
        double most = 0, most_ulp = 0, most_absolute = 0, at = 0;
        int64_t wrong = 0, beyond = 0;
        for (std::size_t i = 0; i < numbers.size(); ++i) {
          const double x = ir::load_double(dtype, &numbers[i]) + std::max(bias, 0.0);
          const double want = ir::eval_scalar(ScalarOp::gelu_tanh, x);
          const double error =
              std::fabs(ir::load_double(dtype, c.at(c.call.args.size() - 1, static_cast<int64_t>(i))) - want);
          const auto unit = [&](double v) { return std::ldexp(1, std::max(std::ilogb(v), -14) - digits); };
          if (error / unit(std::max(std::fabs(want), 0.25)) > most) {
            most = error / unit(std::max(std::fabs(want), 0.25));
            at = x;
          }
          wrong += !(error <= unit(std::max(std::fabs(want), 0.25)));
          const double ulp = want == 0 ? 0 : error / unit(std::fabs(want));
          most_ulp = std::max(most_ulp, ulp);
          most_absolute = std::max(most_absolute, error);
          beyond += !(ulp <= 1);
        }
        std::printf(
            "%s%s, %s: %.3g units of at least those of 1/4, at %g; %.3g units of the result; %.3g absolute; "
            "%lld of %zu beyond one unit\n",
            to_string(dtype), bias < 0 ? "" : " with a bias", algorithm.id.c_str(), most, at, most_ulp, most_absolute,
            static_cast<long long>(beyond), numbers.size());
        EXPECT_EQ(wrong, 0);
      }
      kept_.push_back(std::move(c));
    }
  }
}

// A causal attention is taken where one without a mask is, also behind stored keys.
TEST_F(CudaLibraries, Attention) {
  for (const auto& [dtype, tolerance] : kTypes) {
    if (!is_16_bit_float(dtype)) continue;
    SCOPED_TRACE(to_string(dtype));
    const auto refused = [&](bool causal, int64_t keys) {
      Case c(TensorOp::attention, {{"scale", 0.125}, {"causal", int64_t{causal}}});
      for (const int64_t positions : {int64_t{32}, keys, keys, int64_t{32}})
        c.add({1, 2, positions, 16}, {}, false, dtype);
      return run("cudnn", std::move(c), tolerance).find("unsupported") != std::string::npos;
    };
    for (const int64_t keys : {32, 45}) EXPECT_EQ(refused(true, keys), refused(false, keys));
  }
}

TEST_F(CudaLibraries, RandomProductsByEveryChoice) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    fuzz::Random random(seed);
    Case c = testing::random_product(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + testing::describe_case(c));
    const double tolerance = testing::tolerance_of(c.call.args[0].dtype);
    for_every_choice(c, tolerance);
    c.call.algorithm.clear();
    EXPECT_EQ(run("cublaslt", std::move(c), tolerance).find("unsupported"), std::string::npos);
  }
}

// By the first choice: plans that are compiled for a call take a second each.
TEST_F(CudaLibraries, RandomConvolutions) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    fuzz::Random random(seed);
    Case c = testing::random_conv(random);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": " + testing::describe_case(c));
    const double tolerance = testing::tolerance_of(c.call.args[0].dtype);
    EXPECT_EQ(run("cudnn", std::move(c), tolerance).find("unsupported"), std::string::npos);
  }
}

// Padding that differs at both ends, of filters per channel and of others, by every choice: one engine of cuDNN reads
// other memory where there is more in front (barred_engines of cudnn/spec.h).
TEST_F(CudaLibraries, FrontPadsOfGroups) {
  struct Row {
    int64_t length, taps, before, after;
  };
  constexpr Row kRows[] = {{2, 3, 1, 0}, {2, 3, 0, 1}, {4, 3, 2, 1}, {2, 4, 3, 0}, {33, 4, 3, 0}};
  for (const auto& [length, taps, before, after] : kRows) {
    for (const int64_t groups : {2, 8}) {
      for (const bool last : {true, false}) {
        const testing::Image images[] = {
            {3, 8, 8, {length}, {taps}, {1}, {before, after}, {1}, groups},
            {3, groups, groups, {length}, {taps}, {1}, {before, after}, {1}, groups},
            {1, groups, groups, {3, length}, {2, taps}, {1, 1}, {1, before, 0, after}, {1, 1}, groups}};
        for (const testing::Image& image : images) {
          SCOPED_TRACE("groups " + std::to_string(groups) + ", " + std::to_string(image.c) + " channels, " +
                       ::testing::PrintToString(image.in) + ", pads " + ::testing::PrintToString(image.pads));
          Case c = testing::image_case(image, last, true);
          for_every_choice(c, 3e-6);
          kept_.push_back(std::move(c));
        }
      }
    }
  }
}

// In exact numerics NaN comes through relu of cuDNN, and max.
TEST_F(CudaLibraries, ExactKeepsNan) {
  use(exact());
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    SCOPED_TRACE(to_string(dtype));
    const auto poisoned = [&](Case c) {
      ir::store_double(dtype, c.at(0, 3), std::nan(""));
      return c;
    };
    const double tolerance = dtype == DType::f32 ? 3e-6 : 1.6e-2;
    for (const bool last : {true, false})
      run("cudnn", poisoned(testing::image_case(testing::image_cases()[0], last, true, 0, dtype)), tolerance);
    Case pool(TensorOp::max_pool, testing::window_attrs({3, 3}, {2, 2}, {1, 1, 1, 1}, false, false, true));
    pool.add({1, 9, 9, 4}, {}, false, dtype);
    pool.add({1, 5, 5, 4}, {}, false, dtype);
    run("cudnn", poisoned(std::move(pool)), tolerance);
  }
}

// In exact numerics an image of NaN stays one behind relu, by every choice: some of a library's algorithms have another
// relu than others.
TEST_F(CudaLibraries, ExactReluKeepsNan) {
  use(exact());
  images_of_nan(false);
}

// In precise numerics it may be zeros, too, and nothing else.
TEST_F(CudaLibraries, PreciseReluMakesNanOrZeroOfNan) { images_of_nan(true); }

// What is finite keeps its bounds beside a row of NaN, by every choice.
TEST_F(CudaLibraries, PreciseReluKeepsFiniteRows) {
  for (const auto& [dtype, tolerance] : kTypes) {
    if (dtype == DType::f64) continue;
    for (const int64_t n : {7, 16, 200}) {
      Case c = testing::product_case({{5, n}, {n, n}, {5, n}}, "bar", dtype);
      for (int64_t i = 0; i < n; ++i) ir::store_double(dtype, c.at(0, n + i), std::nan(""));
      c.may_drop_nan = true;
      for_every_choice(c, tolerance);
      kept_.push_back(std::move(c));
    }
  }
}

// In exact numerics sums past the range of the type are infinite, of either sign, by every choice that a library lists.
// Nothing else is looked at: plans by way of FFT or Winograd tiles spread the error of the largest operand, and in f32
// make NaN of what overflows inside a tile, so f32 has no window of several places here.
TEST_F(CudaLibraries, ExactOverflowIsInfinite) {
  use(exact());
  const auto overflow = [&](Case c, DType dtype, double largest) {
    constexpr double kWeight = 1.5;
    for (int64_t i = 0; i < c.elements[1]; ++i)
      ir::store_double(dtype, c.at(1, i), ir::load_double(dtype, c.at(1, i)) < 0 ? -kWeight : kWeight);
    ir::store_double(dtype, c.at(0, 3), -largest);
    for_every_choice(c, 1);
    kept_.push_back(std::move(c));
  };
  const std::vector<testing::Image> images = {
      {2, 8, 4, {1, 4}, {1, 1}, {1, 1}, {0, 1, 0, 1}, {1, 1}},
      {1, 16, 16, {6, 6}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}},
      {2, 16, 24, {5, 5}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}},
      {1, 3, 16, {9, 9}, {3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}},
      {1, 8, 8, {6, 6}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 8},
  };
  struct Range {
    DType dtype;
    double largest;
    std::size_t images;
  };
  for (const auto& [dtype, largest, some] :
       {Range{DType::f16, 65504, images.size()}, Range{DType::bf16, 3.38e38, 2}, Range{DType::f32, 3.4e38, 1}}) {
    for (const std::string what : {"", "ba", "br"}) {
      overflow(testing::product_case({{16, 16}, {16, 16}, {16, 16}}, what, dtype), dtype, largest);
      for (std::size_t i = 0; i < some; ++i)
        overflow(testing::image_case(images[i], true, true, 0, dtype, what), dtype, largest);
    }
  }
}

TEST_F(CudaLibraries, Tf32) {
  Options options;
  options.tf32 = true;
  use(options);
  run("cublaslt", testing::product_case({{256, 256}, {256, 256}, {256, 256}}, "br"), 1e-3);
  run("cudnn", testing::image_case({1, 32, 32, {9, 9}, {3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}}, true), 1e-3);
}

}  // namespace
}  // namespace fusec::runtime
