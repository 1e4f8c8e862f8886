// SPDX-License-Identifier: Apache-2.0
// Writes a cubin to a temporary file and runs nvdisasm or cuobjdump on it.

#include "runtime/tool/disassemble.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ir/support/temporary_files.h"
#include "runtime/tool/common.h"
#include "runtime/tool/process.h"

namespace fusec::tool {
namespace {

namespace fs = std::filesystem;

constexpr double kSeconds = 600;
constexpr std::size_t kMostText = std::size_t{1} << 30;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::vector<std::string> folders() {
  std::vector<std::string> out;
  if (const std::string home = environment("FUSEC_CUDA_HOME"); !home.empty()) out.push_back(home + "/bin");
  for (const std::string& folder : split(environment("PATH"), ':'))
    if (!folder.empty()) out.push_back(folder);
  out.push_back("/usr/local/cuda/bin");
  return out;
}

// The words before the file.
Result<std::vector<std::string>> find_disassembler(bool lines) {
  for (const char* program : {"nvdisasm", "cuobjdump"}) {
    for (const std::string& folder : folders()) {
      const std::string path = folder + "/" + program;
      if (access(path.c_str(), X_OK) != 0) continue;
      if (std::string(program) == "cuobjdump") return std::vector<std::string>{path, "-sass"};
      return lines ? std::vector<std::string>{path, "-c", "-g"} : std::vector<std::string>{path, "-c"};
    }
  }
  return Status(StatusCode::unsupported,
                "neither nvdisasm nor cuobjdump was found in $FUSEC_CUDA_HOME/bin, on PATH or in /usr/local/cuda/bin; "
                "install the CUDA toolkit, or NVIDIA's package cuda-nvdisasm");
}

// A file that goes with the object.
class CubinFile {
 public:
  explicit CubinFile(const std::vector<uint8_t>& cubin) {
    path_ = (fs::temp_directory_path() / "fusec-cubin-XXXXXX").string();
    const int fd = mkstemp(path_.data());
    if (fd < 0) return;
    noted_.emplace(AT_FDCWD, path_);
    close(fd);
    std::ofstream out(path_, std::ios::binary);
    out.write(reinterpret_cast<const char*>(cubin.data()), static_cast<std::streamsize>(cubin.size()));
    out.close();
    written_ = out.good();
  }
  ~CubinFile() {
    if (noted_) (void)unlink(path_.c_str());
  }
  CubinFile(const CubinFile&) = delete;
  CubinFile& operator=(const CubinFile&) = delete;

  const std::string& path() const { return path_; }
  bool written() const { return written_; }

 private:
  std::string path_;
  std::optional<ir::TemporaryFile> noted_;  // for signals
  bool written_ = false;
};

}  // namespace

Result<std::string> disassemble(const std::vector<uint8_t>& cubin, bool lines) {
  FUSEC_ASSIGN(std::vector<std::string> words, find_disassembler(lines));
  const CubinFile file(cubin);
  if (!file.written()) return Status(StatusCode::device, fmt::format("'{}' cannot be written", file.path()));
  words.push_back(file.path());
  FUSEC_ASSIGN(Ended ended, run_child(words, kSeconds, kMostText));
  if (ended.code != 0) {
    const std::string said = ended.output.substr(0, ended.output.find('\n'));
    return Status(StatusCode::device, fmt::format("{} failed: {}{}{}", words.front(), ended_text(ended.code),
                                                  said.empty() ? "" : ": ", said));
  }
  return std::move(ended.output);
}

}  // namespace fusec::tool
