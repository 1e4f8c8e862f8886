// SPDX-License-Identifier: Apache-2.0
#include "runtime/library/find_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace fusec::runtime {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    out.push_back(it->path());
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> pythons_on_path() {
  std::vector<std::string> out;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  std::error_code error;
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path python = fs::path(folder) / "python3";
    if (!folder.empty() && fs::exists(python, error)) out.push_back(python.string());
  }
  return out;
}

// nvidia/<package>/lib and nvidia/<package>/lib64.
std::vector<fs::path> package_folders() {
  std::vector<fs::path> out;
  std::error_code error;
  for (const std::string& python : pythons_on_path()) {
    for (const std::string& nvidia : nvidia_packages(python)) {
      for (const fs::path& package : entries(nvidia)) {
        for (const char* lib : {"lib", "lib64"}) {
          if (fs::is_directory(package / lib, error)) out.push_back(package / lib);
        }
      }
    }
  }
  return out;
}

class Search {
 public:
  explicit Search(const std::vector<std::string>& names) : names_(names) {}

  bool in_folder(const fs::path& folder) {
    std::error_code error;
    for (const std::string& name : names_) {
      if (fs::exists(folder / name, error) && open((folder / name).string(), RTLD_NOW | RTLD_LOCAL)) return true;
    }
    return false;
  }
  bool by_name(int mode) {
    return std::any_of(names_.begin(), names_.end(), [&](const std::string& name) { return open(name, mode); });
  }

  OpenLibrary found;
  std::string faults;  // of files that exist but do not load

 private:
  bool open(const std::string& path, int mode) {
    found.handle = dlopen(path.c_str(), mode);
    found.path = path;
    if (found.handle != nullptr) return true;
    const char* fault = dlerror();
    if (path.find('/') != std::string::npos && fault != nullptr) faults += std::string("; ") + fault;
    return false;
  }

  const std::vector<std::string>& names_;
};

}  // namespace

std::vector<std::string> nvidia_packages(const std::string& python) {
  std::error_code error;
  std::vector<fs::path> roots{fs::path(python).parent_path().parent_path()};
  const fs::path real = fs::canonical(python, error);
  if (!error) roots.push_back(real.parent_path().parent_path());
  std::vector<std::string> out;
  for (const fs::path& root : roots) {
    for (const char* lib : {"lib", "lib64", "local/lib"}) {
      for (const fs::path& version : entries(root / lib)) {
        if (!version.filename().string().starts_with("python3")) continue;
        for (const char* site : {"site-packages", "dist-packages"}) {
          const std::string nvidia = (version / site / "nvidia").string();
          if (fs::is_directory(nvidia, error) && std::find(out.begin(), out.end(), nvidia) == out.end())
            out.push_back(nvidia);
        }
      }
    }
  }
  return out;
}

Result<OpenLibrary> find_library(const std::vector<std::string>& names) {
  Search search(names);
  const char* home = std::getenv("FUSEC_CUDA_HOME");
  if (home != nullptr && *home != '\0' && search.in_folder(fs::path(home) / "lib64")) return search.found;
  if (search.by_name(RTLD_NOW | RTLD_NOLOAD)) return search.found;
  if (search.by_name(RTLD_NOW | RTLD_LOCAL)) return search.found;
  if (search.in_folder("/usr/local/cuda/lib64")) return search.found;
  for (const fs::path& folder : package_folders()) {
    if (search.in_folder(folder)) return search.found;
  }
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : " or ") + name;
  return Status(StatusCode::device, list +
                                        " was not found in $FUSEC_CUDA_HOME/lib64, by the dynamic linker, in "
                                        "/usr/local/cuda/lib64 or in the nvidia packages of python3" +
                                        search.faults);
}

}  // namespace fusec::runtime
