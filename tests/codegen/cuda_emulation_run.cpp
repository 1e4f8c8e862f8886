// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/cuda_emulation_run.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>
#include <regex>
#include <set>
#include <sstream>

#include "codegen/kernel/layout.h"
#include "ir/eval/kernel.h"
#include "ir/ops/cast.h"
#include "ir/text/kernel_text.h"
#include "tests/codegen/gpu_run.h"
#include "tests/codegen/lowered.h"

namespace fusec::codegen_test {
namespace {

// Of the release that writes the text: its form changes.
constexpr const char* kClang = "clang++-19 -lm -O1";
// Not optimised: that would take longer than the code runs, even for the longest rows.
constexpr const char* kCxx = "c++ -fsanitize=alignment,bounds -std=c++17 -O0";
constexpr std::size_t kFiles = 2;  // compiled side by side, where there are more kernels than this

std::string read_emulation_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool is_llvm(const std::string& text) { return text.starts_with("; ModuleID"); }

std::vector<int> threads_in(const std::string& text) {
  static const std::regex bounds("__launch_bounds__\\((\\d+)(?:, \\d+)?\\) void |!\"maxntidx\", i32 (\\d+)");
  std::vector<int> out;
  for (std::sregex_iterator at(text.begin(), text.end(), bounds), end; at != end; ++at)
    out.push_back(std::stoi((*at)[(*at)[1].matched ? 1 : 2]));
  return out;
}

std::string entry_name(std::size_t kernel, std::size_t phase) {
  return "k" + std::to_string(kernel) + "_phase" + std::to_string(phase);
}

// The text in a namespace of its own, its functions renamed, and for each a function that launches it.
std::string wrapped(std::size_t number, const ir::Kernel& kernel, const std::string& text, std::size_t phases) {
  std::string out = "#undef LANES\n#undef FUNCTION\nnamespace k" + std::to_string(number) + " {\n", after;
  for (std::size_t p = 0; p < phases; ++p) {
    const std::string name = entry_name(number, p);
    const std::string written = codegen::make_entry_name(kernel, p, phases);
    out += "#define " + written + " " + name + "\n";
    after += "#undef " + written + "\nextern \"C\" void " + name +
             "_launch(unsigned blocks, unsigned threads, unsigned cluster, void** parameters, bool reversed) {\n"
             "  emulation::launch(&" +
             name + ", blocks, threads, cluster, parameters, reversed);\n}\n";
  }
  return out + text + after + "}\n";
}

// Products of tiles, by an instruction of each of their parts. Only the results of a product are computed: no stage of
// shared memory is filled. Structures are returned in other registers than in C.
std::string without_tiles(std::string text, std::set<std::string>& declared) {
  text = std::regex_replace(
      text,
      std::regex(" *call void asm sideeffect \"[^\"]*(mbarrier\\.init[^\"]*\\$0\\+|setmaxnreg|cp\\.async)[^\n]*\n"),
      "");
  const std::regex fill("call \\{ i32, i32 \\} asm sideeffect \"[^\"]*cp\\.async[^\"]*\", \"[^\"]*\"");
  if (std::regex_search(text, fill)) {
    text = std::regex_replace(text, fill, "call { i32, i32 } @fill_stages");
    declared.insert(
        "define internal { i32, i32 } @fill_stages(i32, i32, i32, i32, ptr addrspace(1), i32, i32, ptr addrspace(1), "
        "i32, i32, i32, i32) {\n  ret { i32, i32 } zeroinitializer\n}\n");
  }
  const std::regex group("call void asm sideeffect \"bar\\.sync \\$0, 128;\", \"[^\"]*\"\\(i32 [^)]*\\)");
  if (std::regex_search(text, group)) {
    text = std::regex_replace(text, group, "call void @llvm.nvvm.group.sync()");
    declared.insert("declare void @llvm.nvvm.group.sync()\n");
  }
  const std::regex multiply(
      "call (\\{ float[^}]*\\}) asm sideeffect \"[^\"]*wgmma[.]mma_async[^\"]*k16[.]f32[.](b?f16)[^\"]*\", \"[^\"]*\"");
  for (std::smatch found; std::regex_search(text, found, multiply);) {
    const std::string results = found[1].str(), type = found[2].str();
    const std::size_t sums = static_cast<std::size_t>(std::count(results.begin(), results.end(), ',')) - 1;
    static const std::regex kStep("m64n([0-9]+)k16");
    std::smatch step;
    const std::string whole = found.str();
    if (!std::regex_search(whole, step, kStep)) break;
    const std::string columns = step[1].str(), name = "multiply_" + type + "_" + std::to_string(sums) + "_" + columns;
    text = found.prefix().str() + "call " + results + " @" + name + found.suffix().str();
    declared.insert("declare void @llvm.nvvm.tile." + type +
                    "(ptr, i32, i32, ptr addrspace(1), i32, i32, ptr addrspace(1), i32, i32, i32)\n");
    declared.insert(
        "define internal " + results + " @" + name +
        "(i32, i32, i32, i32, i32, i32, i32, ptr addrspace(1) %a, i32 %ap, i32 %ar, ptr addrspace(1) %b, i32 "
        "%bp, i32 %br, i32 %k) {\n  %d = alloca " +
        results + "\n  store " + results + " zeroinitializer, ptr %d\n  call void @llvm.nvvm.tile." + type +
        "(ptr %d, i32 " + std::to_string(sums) + ", i32 " + columns +
        ", ptr addrspace(1) %a, i32 %ap, i32 %ar, ptr addrspace(1) %b, i32 %bp, i32 %br, i32 %k)\n  %out = "
        "load " +
        results + ", ptr %d\n  ret " + results + " %out\n}\n");
  }
  return text;
}

// Instructions of PTX as intrinsics.
std::string without_asm(const std::string& text) {
  static const std::regex kInstruction(R"re(call (\w+) asm "([\w.]+) \$0, \$1;", "[^"]*"\((\w+) )re");
  std::set<std::string> declared;
  for (std::sregex_iterator i(text.begin(), text.end(), kInstruction); i != std::sregex_iterator(); ++i) {
    declared.insert("declare " + i->str(1) + " @llvm.nvvm.asm." + i->str(2) + "(" + i->str(3) + ")\n");
  }
  std::string out = without_tiles(std::regex_replace(text, kInstruction, "call $1 @llvm.nvvm.asm.$2($3 "), declared);
  // Mailboxes and tasks, by an instruction of each of their operations.
  static const std::tuple<std::regex, const char*, const char*> kMailboxes[] = {
      {std::regex(R"re(call void asm sideeffect "[^"]*mbarrier\.init[^"]*", "[^"]*")re"), "open",
       "ptr addrspace(3), i32"},
      {std::regex(R"re(call void asm sideeffect "[^"]*st\.async[^"]*b32[^"]*", "[^"]*")re"), "word",
       "ptr addrspace(3), i32, ptr addrspace(3), i32"},
      {std::regex(R"re(call void asm sideeffect "[^"]*st\.async[^"]*bytes\.b64[^"]*", "[^"]*")re"), "pair",
       "ptr addrspace(3), i64, ptr addrspace(3), i32"},
      {std::regex(R"re(call void asm sideeffect "[^"]*red\.release[^"]*", "[^"]*")re"), "end", "ptr addrspace(1)"},
      {std::regex(R"re(call void asm sideeffect "[^"]*ld\.acquire[^"]*", "[^"]*")re"), "await",
       "ptr addrspace(1), i32"},
      {std::regex(R"re(call void asm sideeffect "[^"]*try_wait[^"]*", "[^"]*")re"), "wait", "ptr addrspace(3)"}};
  for (const auto& [what, name, types] : kMailboxes) {
    const std::string changed = std::regex_replace(out, what, "call void @llvm.nvvm.mailbox." + std::string(name));
    if (changed != out) declared.insert("declare void @llvm.nvvm.mailbox." + std::string(name) + "(" + types + ")\n");
    out = changed;
  }
  static const std::regex kTake(R"re(call i32 asm sideeffect "[^"]*atom\.relaxed[^"]*", "[^"]*")re");
  const std::string taking = std::regex_replace(out, kTake, "call i32 @llvm.nvvm.task.take");
  if (taking != out) declared.insert("declare i32 @llvm.nvvm.task.take(ptr addrspace(1), ptr addrspace(3))\n");
  out = taking;
  for (const std::string type : {"s8", "u8"}) {
    const std::regex kPack("asm \"cvt[.]pack[.]sat[.]" + type + "[^\"]*\", \"[^\"]*\"");
    const std::string changed = std::regex_replace(out, kPack, "@llvm.nvvm.pack." + type);
    if (changed != out) declared.insert("declare i32 @llvm.nvvm.pack." + type + "(i32, i32, i32)\n");
    out = changed;
  }
  // Structures are returned in other registers than in C.
  for (const std::string type : {"f16", "bf16"}) {
    const std::regex kMma("asm sideeffect \"mma[.\\w]*[.]f32[.]" + type + "[.][^\"]*\", \"[^\"]*\"");
    const std::string changed = std::regex_replace(out, kMma, "@mma_" + type);
    if (changed == out) continue;
    declared.insert("declare void @llvm.nvvm.mma." + type + "(ptr, i32, i32, i32, i32, i32, i32)\n");
    declared.insert("define internal { float, float, float, float } @mma_" + type +
                    R"((i32 %a0, i32 %a1, i32 %a2, i32 %a3,
    i32 %b0, i32 %b1, float %c0, float %c1, float %c2, float %c3) {
  %d = alloca { float, float, float, float }
  %d1 = getelementptr float, ptr %d, i64 1
  %d2 = getelementptr float, ptr %d, i64 2
  %d3 = getelementptr float, ptr %d, i64 3
  store float %c0, ptr %d
  store float %c1, ptr %d1
  store float %c2, ptr %d2
  store float %c3, ptr %d3
  call void @llvm.nvvm.mma.)" +
                    type + R"((ptr %d, i32 %a0, i32 %a1, i32 %a2, i32 %a3, i32 %b0, i32 %b1)
  %out = load { float, float, float, float }, ptr %d
  ret { float, float, float, float } %out
}
)");
    out = changed;
  }
  for (const std::string& line : declared) out += line;
  return out;
}

// LLVM IR of this machine, its intrinsics as functions, shared memory in the section that the emulation fills with a
// pattern.
std::string llvm_for_host(std::size_t number, const ir::Kernel& kernel, const std::string& text, std::size_t phases) {
  static const std::pair<std::regex, const char*> kChanges[] = {
      {std::regex("target (datalayout|triple) = .*\n"), ""},
      {std::regex("ptx_kernel "), ""},
      {std::regex("@dynamic_shared"), "@emulation_dynamic_shared"},
      {std::regex(" *call void asm sideeffect \"(griddepcontrol|prefetch)[^\n]*\n"), ""},
      {std::regex("internal addrspace\\(3\\) global (\\[.*\\]) undef,"),
       "addrspace(3) global $1 zeroinitializer, section \"fusec_shared\","},
      {std::regex("declare bfloat @llvm.nvvm.f2bf16.rn\\(float\\).*"),
       "declare i16 @emulation_bf16_from_f32(float)\ndefine internal bfloat @llvm.nvvm.f2bf16.rn(float %v) {\n"
       "  %bits = call i16 @emulation_bf16_from_f32(float %v)\n  %out = bitcast i16 %bits to bfloat\n  ret bfloat "
       "%out\n}"},
  };
  std::string out = without_asm(text);
  for (const auto& [what, to] : kChanges) out = std::regex_replace(out, what, to);
  for (std::size_t p = 0; p < phases; ++p) {
    // Its shared memory has its name, too, with more behind it.
    const std::regex written("@" + codegen::make_entry_name(kernel, p, phases) + "(?![0-9a-z])");
    out = std::regex_replace(out, written, "@" + entry_name(number, p));
  }
  for (std::size_t at = 0; (at = out.find("@llvm.nvvm.", at)) != std::string::npos;) {
    out.erase(at + 1, 5);
    for (; out[at] != '('; ++at) {
      if (out[at] == '.') out[at] = '_';
    }
  }
  return out;
}

// Declarations of its functions, whose arguments are all of 8 bytes, and for each one that launches it.
std::string llvm_launchers(std::size_t number, const ir::Kernel& kernel, std::size_t phases) {
  std::size_t arguments = kernel.params.size() + kernel.extents.size();
  for (const ir::Buffer& b : kernel.buffers) arguments += b.space == ir::Space::scratch;
  std::string types = "uint64_t", out;
  for (std::size_t i = 0; i < arguments; ++i) types += ", uint64_t";
  for (std::size_t p = 0; p < phases; ++p) {
    const std::string name = entry_name(number, p);
    out += "extern \"C\" void " + name + "(" + types + ");\nextern \"C\" void " + name +
           "_launch(unsigned blocks, unsigned threads, unsigned cluster, void** parameters, bool reversed) {\n"
           "  emulation::launch(&" +
           name + ", blocks, threads, cluster, parameters, reversed);\n}\n";
  }
  return out;
}

struct Source {
  std::string cpp;
  std::vector<std::string> modules;  // LLVM IR
};

std::string compile_emulation(const std::string& stem, const Source& source) {
  std::ofstream(stem + ".cpp") << source.cpp;
  std::string files = stem + ".cpp";
  for (std::size_t i = 0; i < source.modules.size(); ++i) {
    const std::string file = stem + "_" + std::to_string(i) + ".ll";
    std::ofstream(file) << source.modules[i];
    files += " " + file;
  }
  const std::string command = std::string(source.modules.empty() ? kCxx : kClang) +
                              " -w -shared -fPIC -ffp-contract=off -Wl,-Bsymbolic -o " + stem + ".so " + files +
                              " 2> " + stem + ".log";
  const bool ok = std::system(command.c_str()) == 0;
  for (std::size_t i = 0; i < source.modules.size() && ok; ++i)
    std::remove((stem + "_" + std::to_string(i) + ".ll").c_str());
  return ok ? "" : command + "\n" + read_emulation_file(stem + ".log").substr(0, 4000);
}

// The test program may run where its sources are not.
bool has_header(const char* name) {
  return std::filesystem::exists(std::string(FUSEC_SOURCE_DIR) + "/tests/codegen/" + name);
}

}  // namespace

bool EmulationLibrary::has_compiler() {
  static const bool has = has_header("cuda_emulation.h") && std::system("c++ --version > /dev/null 2>&1") == 0;
  return has;
}

bool EmulationLibrary::has_llvm() {
  static const bool has = FUSEC_WITH_LLVM && has_header("nvptx_emulation.h") &&
                          std::system((std::string("clang++-19") + " --version > /dev/null 2>&1").c_str()) == 0;
  return has;
}

std::unique_ptr<EmulationLibrary> EmulationLibrary::make(const std::vector<ir::Kernel>& kernels,
                                                         const std::vector<std::string>& texts) {
  static int made = 0;
  std::unique_ptr<EmulationLibrary> out(new EmulationLibrary);
  for (const ir::Kernel& kernel : kernels) {
    const auto lowered = compiler::lower_to_threads(kernel);
    out->kernels_.push_back(lowered.ok() ? *lowered : kernel);
  }
  const std::string emulation =
      std::filesystem::absolute(std::string(FUSEC_SOURCE_DIR) + "/tests/codegen/cuda_emulation.h").string();
  const bool llvm = is_llvm(texts.at(0));
  std::string head = "#include \"" + emulation + "\"\n";
  if (llvm) head += "#include \"" + filled(emulation, {{"cuda_emulation.h", "nvptx_emulation.h"}}) + "\"\n";
  std::vector<Source> sources(kernels.size() > kFiles ? kFiles : 1, Source{head, {}});
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    out->threads_.push_back(threads_in(texts[i]));
    Source& source = sources[i % sources.size()];
    const std::size_t phases = out->threads_.back().size();
    source.cpp += llvm ? llvm_launchers(i, kernels[i], phases) : wrapped(i, kernels[i], texts[i], phases);
    if (llvm) source.modules.push_back(llvm_for_host(i, kernels[i], texts[i], phases));
  }
  std::vector<std::future<std::string>> results;
  for (const Source& source : sources) {
    out->files_.push_back(testing::TempDir() + "fusec_emulation_" + std::to_string(getpid()) + "_" +
                          std::to_string(made++));
    results.push_back(std::async(std::launch::async, compile_emulation, out->files_.back(), source));
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

EmulationLibrary::~EmulationLibrary() {
  for (void* handle : handles_) {
    if (handle != nullptr) dlclose(handle);
  }
  for (const std::string& stem : files_) {
    for (const char* end : {".cpp", ".so", ".log"}) std::remove((stem + end).c_str());
  }
}

RunOutcome EmulationLibrary::run(std::size_t number, const std::vector<Tensor>& args, const Extents& extents,
                                 bool reversed) const {
  const ir::Kernel& kernel = kernels_[number];
  std::vector<void*> values;
  for (const Tensor& t : args) values.push_back(const_cast<void*>(t.data()));
  std::vector<std::unique_ptr<char[]>> scratch;
  for (const ir::Buffer& b : kernel.buffers) {
    if (b.space != ir::Space::scratch) continue;
    scratch.push_back(std::make_unique<char[]>(
        static_cast<std::size_t>(*named(kernel, num_elements(b.shape)).eval(extents)) * size_of(b.dtype) + 64));
    values.push_back(scratch.back().get());
  }
  RunOutcome out;
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
    const auto launch =
        reinterpret_cast<void (*)(unsigned, unsigned, unsigned, void**, bool)>(find(entry_name(number, p) + "_launch"));
    int64_t blocks = *named(kernel, codegen::count_blocks(phases[p])).eval(extents);
    // Blocks that take several tiles each are fewer, so that each of their warpgroups has some.
    if (ir::has_tile_product(kernel.body)) blocks = std::min<int64_t>(blocks, 2);
    launch(static_cast<unsigned>(std::max<int64_t>(0, blocks)), static_cast<unsigned>(threads_[number][p]),
           static_cast<unsigned>(phases[p].cluster), parameters.data(), reversed);
  }
  out.error = reinterpret_cast<const char* (*)()>(find("fusec_emulation_error"))();
  return out;
}

ir::Kernel cuda_kernel(const std::string& text) {
  const auto kernel = ir::parse_kernel(text);
  EXPECT_TRUE(kernel.ok()) << kernel.status().str() << "\n" << text;
  return kernel.ok() ? *kernel : ir::Kernel();
}

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  const std::size_t size = size_of(a.dtype());
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const char *x = static_cast<const char*>(a.data()) + i * static_cast<int64_t>(size),
               *y = static_cast<const char*>(b.data()) + i * static_cast<int64_t>(size);
    const bool both_nan =
        is_float(a.dtype()) && std::isnan(ir::load_double(a.dtype(), x)) && std::isnan(ir::load_double(a.dtype(), y));
    if (!both_nan && std::memcmp(x, y, size) != 0) return false;
  }
  return true;
}

// The evaluator runs the threads of the lowered form in lockstep, and finds missing barriers and wrong masks.
void expect_lowered_like_scheduled(const ir::Kernel& kernel, const Extents& extents, const std::vector<Tensor>& want,
                                   const EmulationCase& c) {
  const auto lowered = compiler::lower_to_threads(kernel);
  ASSERT_TRUE(lowered.ok()) << lowered.status().str() << "\n" << c.text;
  const std::vector<Tensor> got = make_args(kernel, extents, 7, c.expectation.lo, c.expectation.hi);
  const auto evaluated = ir::evaluate(*lowered, got, extents);
  ASSERT_TRUE(evaluated.ok()) << evaluated.status().str() << "\n" << ir::print(*lowered);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_TRUE(same_bits(got[i], want[i])) << "argument " << i << "\n" << c.text << ir::print(*lowered);
  }
}

// The texts of one writer; fails the running test where there are none.
std::vector<std::string> write_texts(const std::vector<EmulationCase>& cases, const std::vector<ir::Kernel>& kernels,
                                     Codegen codegen) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const auto text = codegen_test::emit_text(kernels[i], named_target("sm_90").value(), codegen);
    EXPECT_TRUE(text.ok()) << text.status().str() << "\n" << cases[i].text;
    if (!text.ok()) return {};
    texts.push_back(*text);
  }
  return texts;
}

// The texts of one writer as a library; fails the running test where there is none.
std::unique_ptr<EmulationLibrary> make_library(const std::vector<EmulationCase>& cases,
                                               const std::vector<ir::Kernel>& kernels, Codegen codegen) {
  const std::vector<std::string> texts = write_texts(cases, kernels, codegen);
  if (texts.empty()) return nullptr;
  auto library = EmulationLibrary::make(kernels, texts);
  EXPECT_NE(library, nullptr);
  return library;
}

struct WriterLibrary {
  std::string name;
  std::unique_ptr<EmulationLibrary> library;
};

// Rows that take this much are evaluated by tests of their bits, as scheduled and as lowered.
constexpr int64_t kMaxEvaluated = 100'000;

int64_t count_elements(const std::vector<Tensor>& tensors) {
  int64_t sum = 0;
  for (const Tensor& t : tensors) sum += t.num_elements();
  return sum;
}

// Under sanitizers: both writers write all cases, and the evaluator runs one in four, as scheduled and as lowered. What
// the texts compute is left to builds without.
void expect_written_and_evaluated(const std::vector<EmulationCase>& cases, const std::vector<ir::Kernel>& kernels) {
  write_texts(cases, kernels, Codegen::nvrtc);
  if (EmulationLibrary::has_llvm()) write_texts(cases, kernels, Codegen::llvm);
  for (std::size_t i = 0; i < cases.size() && !testing::Test::HasFailure(); i += 4) {
    const Expectation& e = cases[i].expectation;
    const Extents& extents = cases[i].extents.front();
    const std::vector<Tensor> want = make_args(kernels[i], extents, 7, e.lo, e.hi);
    if (count_elements(want) > kMaxEvaluated) continue;
    const auto evaluated = ir::evaluate(kernels[i], want, extents);
    ASSERT_TRUE(evaluated.ok()) << evaluated.status().str() << "\n" << cases[i].text;
    expect_lowered_like_scheduled(kernels[i], extents, want, cases[i]);
  }
}

void expect_like_evaluator(const std::vector<EmulationCase>& cases) {
  std::vector<ir::Kernel> kernels;
  for (const EmulationCase& c : cases) {
    const auto parsed = ir::parse_kernel(c.text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().str() << "\n" << c.text;
    kernels.push_back(*parsed);
  }
  if (kSanitized) return expect_written_and_evaluated(cases, kernels);
  std::vector<WriterLibrary> writers;
  if (EmulationLibrary::has_compiler()) writers.push_back({"cuda sm_90", make_library(cases, kernels, Codegen::nvrtc)});
  if (EmulationLibrary::has_llvm()) writers.push_back({"llvm sm_90", make_library(cases, kernels, Codegen::llvm)});
  if (testing::Test::HasFailure()) return;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Expectation& e = cases[i].expectation;
    for (const Extents& extents : cases[i].extents) {
      const std::vector<Tensor> want = make_args(kernels[i], extents, 7, e.lo, e.hi);
      const auto evaluated = ir::evaluate(kernels[i], want, extents);
      ASSERT_TRUE(evaluated.ok()) << evaluated.status().str() << "\n" << cases[i].text;
      expect_lowered_like_scheduled(kernels[i], extents, want, cases[i]);
      if (testing::Test::HasFailure()) return;
      for (const WriterLibrary& writer : writers) {
        for (const bool reversed : {true, false}) {
          const std::vector<Tensor> got = make_args(kernels[i], extents, 7, e.lo, e.hi);
          const RunOutcome outcome = writer.library->run(i, got, extents, reversed);
          ASSERT_EQ(outcome.error, "") << writer.name << "\n" << cases[i].text;
          ASSERT_EQ(outcome.status, 0) << cases[i].text;
          expect_close(got, want, e, writer.name + (reversed ? ", threads reversed" : ""), cases[i].text);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

void expect_on_gpu(const std::vector<EmulationCase>& cases, const GpuMode& mode) {
  std::vector<ir::Kernel> kernels;
  for (const EmulationCase& c : cases) kernels.push_back(cuda_kernel(c.text));
  const auto library = GpuLibrary::make(kernels, mode);
  ASSERT_NE(library, nullptr);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Expectation& e = cases[i].expectation;
    for (const Extents& extents : cases[i].extents) {
      const std::vector<Tensor> want = make_args(kernels[i], extents, 7, e.lo, e.hi),
                                got = make_args(kernels[i], extents, 7, e.lo, e.hi);
      ASSERT_TRUE(ir::evaluate(kernels[i], want, extents).ok()) << cases[i].text;
      const RunOutcome outcome = library->run(i, got, extents);
      ASSERT_EQ(outcome.error, "") << mode.name << "\n" << cases[i].text;
      EXPECT_EQ(outcome.status, 0) << mode.name << "\n" << cases[i].text;
      expect_close(got, want, e, std::string("a GPU, ") + mode.name, cases[i].text);
    }
  }
}

}  // namespace

void expect_cuda_like_evaluator(const std::vector<EmulationCase>& cases) {
  expect_like_evaluator(cases);
  if (!GpuLibrary::available().ok()) return;
  for (const GpuMode& mode : kGpuModes) {
    if (GpuLibrary::has(mode).ok()) expect_on_gpu(cases, mode);
  }
}

}  // namespace fusec::codegen_test
