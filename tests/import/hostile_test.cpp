// SPDX-License-Identifier: Apache-2.0
// Every hostile model ends in one clear Status, soon and in little memory.
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <set>

#include "fusec/onnx.h"
#include "tests/import/hostile_models.h"

// What writes the counts of reached lines, in builds that count them (`./dev coverage`).
extern "C" __attribute__((weak)) void __gcov_exit();

namespace fusec::importer {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FUSEC_IN_ONE_PROCESS
const bool kInstrumented = true;
#else
const bool kInstrumented = __gcov_exit != nullptr;
#endif
const double kSeconds = kInstrumented ? 20 : 1;  // of CPU time, which busy machines leave alone
const double kMebibytes = kInstrumented ? 1e9 : 256;
constexpr rlim_t kAddressSpace = rlim_t{2} << 30;  // what asks for more must not disturb the machine

// A folder of its own that is gone afterwards.
struct Folder {
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fusec-hostile-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

struct Outcome {
  StatusCode code = StatusCode::internal;
  std::string text;
  double seconds = 0, mebibytes = 0;
};

#ifdef FUSEC_IN_ONE_PROCESS
// Children of a process with sanitizers start slowly, and end without the search for leaks.
Outcome import_file(const std::string& file, const ImportOptions& options = {}) {
  std::printf("%s\n", file.c_str());  // the last one is where a sanitizer has ended the process
  std::fflush(stdout);
  ::alarm(60);
  const std::clock_t start = std::clock();
  const Status status = load_onnx(file, options).status();
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  ::alarm(0);
  return {status.code(), status.str(), seconds, 0};
}
#else
[[noreturn]] void import_and_tell(const std::string& file, const ImportOptions& options, int to) {
  const rlimit limit{kAddressSpace, kAddressSpace};
  if (!kInstrumented) (void)::setrlimit(RLIMIT_AS, &limit);
  ::alarm(60);
  const Status status = load_onnx(file, options).status();
  const std::string text = static_cast<char>('0' + static_cast<int>(status.code())) + status.str();
  const bool told = ::write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (__gcov_exit != nullptr) __gcov_exit();
  ::_exit(told ? 0 : 1);
}

// Imports a file in a process of its own, so that its memory and its end are its own.
Outcome import_file(const std::string& file, const ImportOptions& options = {}) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t child = ::fork();
  if (child == 0) import_and_tell(file, options, ends[1]);
  ::close(ends[1]);
  std::string told;
  char buffer[4096];
  for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof(buffer))) > 0;)
    told.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int state = 0;
  rusage usage = {};
  ::wait4(child, &state, 0, &usage);
  if (state != 0 || told.empty())
    return {StatusCode::internal, "the process ended with state " + std::to_string(state)};
  const auto seconds = [](timeval t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return {static_cast<StatusCode>(told[0] - '0'), told.substr(1), seconds(usage.ru_utime) + seconds(usage.ru_stime),
          static_cast<double>(usage.ru_maxrss) / 1024};
}
#endif

void expect_refused(const HostileModel& model, const std::string& file, const Outcome& outcome) {
  const bool refused = outcome.code == StatusCode::invalid_model || outcome.code == StatusCode::unsupported ||
                       outcome.code == StatusCode::invalid_argument;
  EXPECT_TRUE(refused) << model.name << ": " << outcome.text;
  EXPECT_NE(outcome.text.find(model.message), std::string::npos) << model.name << ": " << outcome.text;
  EXPECT_NE(outcome.text.find(model.where), std::string::npos) << model.name << ": " << outcome.text;
  EXPECT_NE(outcome.text.find(file), std::string::npos) << model.name << ": " << outcome.text;
  EXPECT_LT(outcome.text.size(), 20'000u) << model.name;
  for (const char c : outcome.text) {
    if (static_cast<unsigned char>(c) >= ' ' && c != '\x7f') continue;
    ADD_FAILURE() << model.name << ": a control character in " << outcome.text;
    break;
  }
  EXPECT_LT(outcome.seconds, kSeconds) << model.name;
  EXPECT_LT(outcome.mebibytes, kMebibytes) << model.name;
}

TEST(Hostile, EveryModelIsRefused) {
  Folder folder;
  std::vector<HostileModel> models = hostile_models(folder.path);
  EXPECT_GE(models.size(), 150u);
  std::set<std::string> names;
  // All are written before the first is read: a child begins with the memory that this process has then.
  for (HostileModel& model : models) {
    EXPECT_TRUE(names.insert(model.name).second) << "two models have the name " << model.name;
    EXPECT_FALSE(model.message.empty()) << model.name;
    std::ofstream(folder.path + "/" + model.name + ".onnx", std::ios::binary) << model.bytes;
    std::string().swap(model.bytes);
  }
  (void)::malloc_trim(0);
  Outcome most;
  for (const HostileModel& model : models) {
    const std::string file = folder.path + "/" + model.name + ".onnx";
    const Outcome outcome = import_file(file);
    expect_refused(model, file, outcome);
    most.seconds = std::max(most.seconds, outcome.seconds);
    most.mebibytes = std::max(most.mebibytes, outcome.mebibytes);
    if (std::getenv("FUSEC_LIST_CASES") == nullptr) continue;
    std::printf("%s (%.2f s, %.0f MiB): %s\n", model.name.c_str(), outcome.seconds, outcome.mebibytes,
                outcome.text.c_str());
  }
  std::printf("%zu models; at most %.2f s and %.0f MiB\n", models.size(), most.seconds, most.mebibytes);
}

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

HostileModel model_named(const std::string& name, const std::string& folder) {
  for (HostileModel& model : hostile_models(folder)) {
    if (model.name == name) return std::move(model);
  }
  throw std::runtime_error("there is no hostile model " + name);
}

TEST(Hostile, GoodExternalDataIsRead) {
  Folder folder;
  std::string bytes = model_named("external_offset_past_end", folder.path).bytes;  // puts `w` and `sub/w` there
  bytes.replace(bytes.find("60", bytes.find("offset")), 2, "48");
  ImportOptions options;
  EXPECT_FALSE(load_onnx_bytes(as_bytes(bytes), options).ok()) << "no folder was named";
  options.external_roots = {folder.path};
  const Result<Model> result = load_onnx_bytes(as_bytes(bytes), options);
  EXPECT_TRUE(result.ok()) << result.status().str();
}

TEST(Hostile, LimitsCanBeRaised) {
  Folder folder;
  ImportOptions options;
  options.limits.nesting = 64;
  const Result<Model> result =
      load_onnx_bytes(as_bytes(model_named("functions_nested_40_deep", folder.path).bytes), options);
  EXPECT_TRUE(result.ok()) << result.status().str();
}

TEST(Hostile, FilesThatAreNoModels) {
  Folder folder;
  EXPECT_EQ(load_onnx(folder.path + "/absent.onnx").status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(load_onnx(folder.path).status().code(), StatusCode::invalid_argument);
  ImportOptions options;
  options.limits.model_bytes = 10;
  std::ofstream(folder.path + "/long.onnx") << std::string(11, 'x');
  EXPECT_NE(load_onnx(folder.path + "/long.onnx", options).status().str().find("model_bytes = 10"), std::string::npos);
}

// Sparse files: their size is known before anything is read.
TEST(Hostile, FilesOfThreeGibibytes) {
  Folder folder;
  const std::string file = folder.path + "/large.onnx";
  std::ofstream(file).flush();
  std::filesystem::resize_file(file, uint64_t{3} << 30);
  const Outcome outcome = import_file(file);
  EXPECT_NE(outcome.text.find("model_bytes"), std::string::npos) << outcome.text;
  EXPECT_LT(outcome.mebibytes, kMebibytes);
}

}  // namespace
}  // namespace fusec::importer
