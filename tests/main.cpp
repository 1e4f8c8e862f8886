// SPDX-License-Identifier: Apache-2.0
// Tests name their data relative to the source folder. Run elsewhere, they go there first; in a folder that has a
// tests/ of its own, such as an unpacked gpu-pack, they stay.
#include <gmock/gmock.h>

#include <filesystem>

int main(int argc, char** argv) {
  std::error_code ignored;
  if (!std::filesystem::exists("tests/text", ignored)) std::filesystem::current_path(FUSEC_BUILT_FROM, ignored);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
