// SPDX-License-Identifier: Apache-2.0
// Every hostile model ends in one clear Status, soon and in little memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fusec/onnx.h"
#include "tests/import/hostile_models.h"

namespace fusec::importer {
namespace {

// A folder of its own that is gone afterwards.
struct Folder {
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fusec-hostile-XXXXXX").string();
    path = ::mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

double peak_mebibytes() {
  rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(Hostile, EveryModelIsRefused) {
  Folder folder;
  std::vector<HostileModel> models = hostile_models(folder.path);
  EXPECT_GE(models.size(), 40u);
  ImportOptions options;
  options.model_dir = folder.path;
  double before = peak_mebibytes();
  for (const HostileModel& model : models) {
    auto start = std::chrono::steady_clock::now();
    Result<Model> result = load_onnx_bytes(as_bytes(model.bytes), options);
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    EXPECT_FALSE(result.ok()) << model.name;
    std::string text = result.status().str();
    EXPECT_TRUE(result.status().code() == StatusCode::invalid_model ||
                result.status().code() == StatusCode::unsupported ||
                result.status().code() == StatusCode::invalid_argument)
        << model.name << ": " << text;
    EXPECT_NE(text.find(model.message), std::string::npos) << model.name << ": " << text;
    EXPECT_LT(text.size(), 4000u) << model.name;
    EXPECT_LT(seconds, 20) << model.name;  // a second or two; sanitizers and busy machines are slower
    if (std::getenv("FUSEC_LIST_CASES") != nullptr)
      std::printf("%s (%.2f s): %s\n", model.name.c_str(), seconds, text.c_str());
  }
  EXPECT_LT(peak_mebibytes() - before, 600) << "MiB more than before";
}

TEST(Hostile, GoodExternalDataIsRead) {
  Folder folder;
  hostile_models(folder.path);  // puts `w` and `sub/w` there
  for (const HostileModel& model : hostile_models(Folder().path)) {
    if (model.name != "external_offset_past_end") continue;
    std::string bytes = model.bytes;
    bytes.replace(bytes.find("60", bytes.find("offset")), 2, "48");
    ImportOptions options;
    EXPECT_FALSE(load_onnx_bytes(as_bytes(bytes), options).ok()) << "no folder was named";
    options.external_roots = {folder.path};
    Result<Model> result = load_onnx_bytes(as_bytes(bytes), options);
    EXPECT_TRUE(result.ok()) << result.status().str();
    return;
  }
  FAIL() << "the model is gone";
}

TEST(Hostile, LimitsCanBeRaised) {
  Folder folder;
  for (const HostileModel& model : hostile_models(folder.path)) {
    if (model.name != "functions_nested_40_deep") continue;
    ImportOptions options;
    options.limits.nesting = 64;
    Result<Model> result = load_onnx_bytes(as_bytes(model.bytes), options);
    EXPECT_TRUE(result.ok()) << result.status().str();
  }
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

}  // namespace
}  // namespace fusec::importer
