// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/cuda_shim_run.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <regex>
#include <sstream>

#include "codegen/emit.h"
#include "codegen/phases.h"
#include "ir/eval/kernel.h"
#include "ir/text/kernel_text.h"

namespace fusec::codegen_test {
namespace {

constexpr std::size_t kFiles = 2;  // compiled side by side, where there are more kernels than this

std::string read_shim_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<int> threads_in(const std::string& text) {
  static const std::regex bounds("__launch_bounds__\\((\\d+)\\) void phase");
  std::vector<int> out;
  for (std::sregex_iterator at(text.begin(), text.end(), bounds), end; at != end; ++at) out.push_back(std::stoi((*at)[1]));
  return out;
}

std::string entry_name(std::size_t kernel, std::size_t phase) {
  return "k" + std::to_string(kernel) + "_phase" + std::to_string(phase);
}

// The text in a namespace of its own, its functions renamed, and for each a function that launches it.
std::string wrapped(std::size_t kernel, const std::string& text, std::size_t phases) {
  std::string out = "#undef LANES\n#undef FUNCTION\nnamespace k" + std::to_string(kernel) + " {\n", after;
  for (std::size_t p = 0; p < phases; ++p) {
    const std::string name = entry_name(kernel, p);
    out += "#define phase" + std::to_string(p) + " " + name + "\n";
    after += "#undef phase" + std::to_string(p) + "\nextern \"C\" void " + name +
             "_launch(unsigned blocks, unsigned threads, void** parameters, bool reversed) {\n  shim::launch(&" + name +
             ", blocks, threads, parameters, reversed);\n}\n";
  }
  return out + text + after + "}\n";
}

std::string compile_shim(const std::string& stem, const std::string& source) {
  std::ofstream(stem + ".cpp") << source;
  const std::string command = "c++ -std=c++17 -O1 -w -shared -fPIC -ffp-contract=off -fsanitize=alignment,bounds -Wl,-Bsymbolic -o " +
                              stem + ".so " + stem + ".cpp 2> " + stem + ".log";
  return std::system(command.c_str()) == 0 ? "" : read_shim_file(stem + ".log").substr(0, 4000);
}

}  // namespace

bool ShimLibrary::has_compiler() { return std::system("c++ --version > /dev/null 2>&1") == 0; }

std::unique_ptr<ShimLibrary> ShimLibrary::make(const std::vector<ir::Kernel>& kernels, const std::vector<std::string>& texts) {
  static int made = 0;
  std::unique_ptr<ShimLibrary> out(new ShimLibrary);
  out->kernels_ = kernels;
  const std::string shim = std::filesystem::absolute(std::string(FUSEC_SOURCE_DIR) + "/tests/codegen/cuda_shim.h").string();
  std::vector<std::string> sources(kernels.size() > kFiles ? kFiles : 1, "#include \"" + shim + "\"\n");
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    out->threads_.push_back(threads_in(texts[i]));
    sources[i % sources.size()] += wrapped(i, texts[i], out->threads_.back().size());
  }
  std::vector<std::future<std::string>> results;
  for (const std::string& source : sources) {
    out->files_.push_back(testing::TempDir() + "fusec_shim_" + std::to_string(getpid()) + "_" + std::to_string(made++));
    results.push_back(std::async(std::launch::async, compile_shim, out->files_.back(), source));
  }
  bool ok = true;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const std::string log = results[i].get();
    EXPECT_EQ(log, "") << "c++ does not take the generated text";
    ok &= log.empty();
  }
  if (!ok) return nullptr;
  for (const std::string& stem : out->files_) {
    out->handles_.push_back(dlopen((stem + ".so").c_str(), RTLD_NOW | RTLD_LOCAL));
    if (out->handles_.back() == nullptr) {
      ADD_FAILURE() << dlerror();
      return nullptr;
    }
  }
  return out;
}

ShimLibrary::~ShimLibrary() {
  for (void* handle : handles_) {
    if (handle != nullptr) dlclose(handle);
  }
  for (const std::string& stem : files_) {
    for (const char* end : {".cpp", ".so", ".log"}) std::remove((stem + end).c_str());
  }
}

ShimLibrary::Outcome ShimLibrary::run(std::size_t number, const std::vector<Tensor>& args, const Extents& extents,
                                      bool reversed) const {
  const ir::Kernel& kernel = kernels_[number];
  std::vector<void*> values;
  for (const Tensor& t : args) values.push_back(const_cast<void*>(t.data()));
  std::vector<std::unique_ptr<char[]>> scratch;
  for (const ir::Buffer& b : kernel.buffers) {
    if (b.space != ir::Space::scratch) continue;
    scratch.push_back(std::make_unique<char[]>(static_cast<std::size_t>(*num_elements(b.shape).eval(extents)) * size_of(b.dtype) + 64));
    values.push_back(scratch.back().get());
  }
  Outcome out;
  std::vector<int64_t> sizes;
  for (const std::string& name : kernel.extents) sizes.push_back(extents.at(name));
  int32_t* status = &out.status;
  std::vector<void*> parameters;
  for (void*& value : values) parameters.push_back(&value);
  for (int64_t& size : sizes) parameters.push_back(&size);
  parameters.push_back(&status);

  void* handle = handles_[number % handles_.size()];
  const auto find = [&](const std::string& name) { return dlsym(handle, name.c_str()); };
  const std::vector<codegen::Phase> phases = codegen::split_phases(kernel);
  for (std::size_t p = 0; p < phases.size(); ++p) {
    const auto launch = reinterpret_cast<void (*)(unsigned, unsigned, void**, bool)>(find(entry_name(number, p) + "_launch"));
    const int64_t blocks = *codegen::iterations_of(phases[p]).eval(extents);
    launch(static_cast<unsigned>(std::max<int64_t>(0, blocks)), static_cast<unsigned>(threads_[number][p]), parameters.data(), reversed);
  }
  out.error = reinterpret_cast<const char* (*)()>(find("fusec_shim_error"))();
  return out;
}

ir::Kernel cuda_kernel(const std::string& text) {
  const auto kernel = ir::parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status().str() << "\n" << text;
  return kernel.ok() ? *kernel : ir::Kernel();
}

void expect_cuda_like_evaluator(const std::vector<ShimCase>& cases) {
  const Target target = named_target("sm_90").value();
  std::vector<ir::Kernel> kernels;
  std::vector<std::string> texts;
  for (const ShimCase& c : cases) {
    const auto parsed = ir::parse_kernel(c.text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().str() << "\n" << c.text;
    const auto text = codegen::emit_text(*parsed, target, Codegen::nvrtc);
    ASSERT_TRUE(text.ok()) << text.status().str() << "\n" << c.text;
    kernels.push_back(*parsed);
    texts.push_back(*text);
  }
  const auto library = ShimLibrary::make(kernels, texts);
  ASSERT_NE(library, nullptr);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Expectation& e = cases[i].expectation;
    for (const Extents& extents : cases[i].extents) {
      const std::vector<Tensor> want = make_args(kernels[i], extents, 7, e.lo, e.hi);
      const auto evaluated = ir::evaluate(kernels[i], want, extents);
      ASSERT_TRUE(evaluated.ok()) << evaluated.status().str() << "\n" << cases[i].text;
      for (const bool reversed : {true, false}) {
        const std::vector<Tensor> got = make_args(kernels[i], extents, 7, e.lo, e.hi);
        const ShimLibrary::Outcome outcome = library->run(i, got, extents, reversed);
        ASSERT_EQ(outcome.error, "") << cases[i].text;
        ASSERT_EQ(outcome.status, 0) << cases[i].text;
        expect_close(got, want, e, std::string("sm_90") + (reversed ? ", threads reversed" : ""), cases[i].text);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

}  // namespace fusec::codegen_test
