// SPDX-License-Identifier: Apache-2.0
// Opens shared libraries with dlopen and looks up symbols; libraries are never closed. Searches for CUDA and cuDNN
// libraries, but ignores the environment in programs that run with elevated rights, because the paths lead to code that
// is executed.

#include "ir/support/shared_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace fusec {
namespace {

// The path at which the dynamic linker found it.
std::string find_file(void* handle, const std::string& name) {
  link_map* map = nullptr;
  return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && *map->l_name != '\0' ? map->l_name : name;
}

}  // namespace

Result<SharedLibrary> SharedLibrary::open(const std::string& name, int mode) {
  SharedLibrary library;
  library.handle_ = dlopen(name.c_str(), mode);
  if (library.handle_ == nullptr) {
    const char* const fault = dlerror();  // null if the linker only reports that it is not loaded
    return Status(StatusCode::unsupported, fault != nullptr ? fault : name + " is not loaded");
  }
  library.path_ = find_file(library.handle_, name);
  return library;
}

Result<SharedLibrary> SharedLibrary::open(const std::string& name) { return open(name, RTLD_NOW | RTLD_LOCAL); }
Result<SharedLibrary> SharedLibrary::loaded(const std::string& name) { return open(name, RTLD_NOW | RTLD_NOLOAD); }

void* SharedLibrary::symbol(const char* name) const { return dlsym(handle_, name); }

namespace {

namespace fs = std::filesystem;

constexpr const char* kToolkit = "/usr/local/cuda";

// Empty in a program that runs with more rights than its user has, because the variable leads to code.
std::string environment(const char* name) {
  const char* const value = secure_getenv(name);
  return value != nullptr ? value : "";
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) {
    if (!part.empty()) out.push_back(part);
  }
  return out;
}

std::vector<fs::path> entries(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    out.push_back(it->path());
  std::sort(out.begin(), out.end());
  return out;
}

// nvidia/<package> of every python3 on PATH. Relative folders on PATH are skipped: they depend on the current folder.
std::vector<fs::path> packages() {
  std::vector<fs::path> out;
  std::error_code error;
  for (const std::string& folder : split(environment("PATH"), ':')) {
    const fs::path python = fs::path(folder) / "python3";
    if (!python.is_absolute() || !fs::exists(python, error)) continue;
    for (const std::string& nvidia : nvidia_packages(python.string())) {
      for (const fs::path& package : entries(nvidia)) out.push_back(package);
    }
  }
  return out;
}

bool hidden(const NvidiaLibrary& library) {
  const std::vector<std::string> names = split(environment("FUSEC_HIDE_LIBRARIES"), ',');
  return std::find(names.begin(), names.end(), library.name) != names.end();
}

// Opens the first of the given files that is found.
class Search {
 public:
  explicit Search(std::vector<std::string> files) : files_(std::move(files)) {}

  bool in_folder(const fs::path& folder) {
    std::error_code error;
    for (const std::string& file : files_) {
      if (!fs::exists(folder / file, error)) continue;
      if (take(SharedLibrary::open((folder / file).string()))) return true;
      faults += "; " + opened.status().message();
    }
    return false;
  }
  bool loaded() {
    return std::any_of(files_.begin(), files_.end(),
                       [&](const std::string& f) { return take(SharedLibrary::loaded(f)); });
  }
  bool by_linker() {
    return std::any_of(files_.begin(), files_.end(),
                       [&](const std::string& f) { return take(SharedLibrary::open(f)); });
  }

  Result<SharedLibrary> opened = SharedLibrary();
  std::string faults;  // messages about files that exist but do not load

 private:
  bool take(Result<SharedLibrary> library) {
    opened = std::move(library);
    return opened.ok();
  }

  std::vector<std::string> files_;
};

bool find(Search& search, const std::string& home) {
  if (!home.empty() && search.in_folder(fs::path(home) / "lib64")) return true;
  if (search.loaded() || search.by_linker() || search.in_folder(fs::path(kToolkit) / "lib64")) return true;
  for (const fs::path& package : packages()) {
    if (search.in_folder(package / "lib") || search.in_folder(package / "lib64")) return true;
  }
  return false;
}

std::string remedy(const char* product) {
  return std::string("; install ") + product + " or set FUSEC_CUDA_HOME to the folder that holds it";
}

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

Result<SharedLibrary> open_nvidia_library(const NvidiaLibrary& library) {
  std::vector<std::string> files;
  std::string list;
  for (int version = library.newest; version >= library.oldest; --version) {
    files.push_back("lib" + std::string(library.name) + ".so." + std::to_string(version));
    list += (list.empty() ? "" : " or ") + files.back();
  }
  if (hidden(library))
    return Status(StatusCode::unsupported, list + " is hidden by FUSEC_HIDE_LIBRARIES" + remedy(library.product));
  const std::string home = environment("FUSEC_CUDA_HOME");
  Search search(std::move(files));
  if (find(search, home)) return search.opened;
  return Status(StatusCode::unsupported, list + " was not found in " + (home.empty() ? "" : home + "/lib64, in ") +
                                             "the dynamic linker's folders, in " + kToolkit +
                                             "/lib64 or in the nvidia packages of python3" + search.faults +
                                             remedy(library.product));
}

}  // namespace fusec
