// SPDX-License-Identifier: Apache-2.0
#include "tests/runtime/sync_log.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <mutex>

namespace fusec::runtime {
namespace {

std::mutex g_mutex;

}  // namespace

std::vector<std::string>& sync_log() {
  static std::vector<std::string> log;
  return log;
}

}  // namespace fusec::runtime

extern "C" int fsync(int file) {
  struct stat info;
  if (fstat(file, &info) == 0) {
    const std::lock_guard lock(fusec::runtime::g_mutex);
    fusec::runtime::sync_log().emplace_back(S_ISDIR(info.st_mode) ? "folder" : "file");
  }
  return static_cast<int>(syscall(SYS_fsync, file));
}
