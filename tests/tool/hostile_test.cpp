// SPDX-License-Identifier: Apache-2.0
// Models that the command refuses, and data files beside models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/import/hostile_models.h"
#include "tests/sanitized.h"
#include "tests/tool/command.h"

namespace fusec::tool_test {
namespace {

using importer::HostileModel;
using testing::HasSubstr;
using testing::StartsWith;

// Exit code 2 or 3 (the command line or the model is at fault), and one line that names file, place and reason. Each
// model starts a process, so these are some of them; import.Hostile has all.
TEST(HostileModels, AreRefusedInOneLine) {
  const Workplace w;
  const std::vector<HostileModel> models = importer::hostile_models(w.path("."));
  for (std::size_t i = 0; i < models.size(); i += testing_support::many_or(4, 20)) {
    const HostileModel& model = models[i];
    const std::string file = w.file(model.name + ".onnx", model.bytes);
    const Outcome outcome = w.fusec({"import", file});
    EXPECT_TRUE(outcome.code == 3 || outcome.code == 2) << model.name << ": " << outcome.code;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    EXPECT_THAT(outcome.err, StartsWith("fusec: "));
    EXPECT_THAT(outcome.err, HasSubstr(file));
    EXPECT_THAT(outcome.err, HasSubstr(model.message)) << model.name;
    EXPECT_THAT(outcome.err, HasSubstr(model.where)) << model.name;
    std::filesystem::remove(file);
  }
}

// y = x + w, w in the file 'w'.
std::string model_with_data_file(const Workplace& w) {
  for (const HostileModel& model : importer::hostile_models(w.path("."))) {
    if (model.name != "external_offset_past_end") continue;
    std::string bytes = model.bytes;
    bytes.replace(bytes.find("60", bytes.find("offset")), 2, "48");
    return bytes;
  }
  return {};
}

TEST(ExternalRoots, AreSearchedAfterTheFolderOfTheModel) {
  const Workplace data, w;
  const std::string model = w.file("model.onnx", model_with_data_file(data));
  EXPECT_THAT(w.fusec({"import", model}).err, HasSubstr("'w' is not there"));
  const Outcome found =
      w.fusec({"import", model, "--external-root", w.path("absent"), "--external-root", data.path("")});
  EXPECT_EQ(found.code, 0) << found.err;
  const Outcome whole = w.fusec({"materialize", model, "-o", w.path("whole.onnx"), "--external-root", data.path("")});
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_EQ(w.fusec({"import", w.path("whole.onnx")}).out, found.out);
  EXPECT_THAT(w.fusec({"run", "--help"}).out, HasSubstr("--external-root"));
}

// A symbolic link in the model's folder is refused, not passed over in favour of another folder.
TEST(ExternalRoots, FollowNoLinks) {
  const Workplace data, w;
  const std::string model = w.file("model.onnx", model_with_data_file(data));
  std::filesystem::create_symlink(data.path("w"), w.path("w"));
  EXPECT_THAT(w.fusec({"import", model, "--external-root", data.path("")}).err, HasSubstr("symbolic link"));
}

}  // namespace
}  // namespace fusec::tool_test
