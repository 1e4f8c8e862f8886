// SPDX-License-Identifier: Apache-2.0
// Opens shared libraries with dlopen and looks up symbols; libraries are never closed. Searches for CUDA and cuDNN
// libraries and for fusec's own. In programs that run with elevated rights it ignores the environment and the place of
// the program, because these lead to code that is executed.

#include "ir/support/shared_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <sys/auxv.h>

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

bool is_hidden(const char* library) {
  const std::vector<std::string> names = split(environment("FUSEC_HIDE_LIBRARIES"), ',');
  return std::find(names.begin(), names.end(), library) != names.end();
}

// The folder of the program or library that holds this code; empty if it is not known or not to be trusted: whoever may
// link a program with elevated rights to another place decides what lies beside it.
fs::path own_folder() {
  if (getauxval(AT_SECURE) != 0) return {};
  Dl_info info;
  link_map* map = nullptr;
  static const char kHere = 0;
  if (dladdr1(&kHere, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return {};
  std::error_code error;
  // The program itself has no name in the linker's list.
  const fs::path file = fs::canonical(*map->l_name != '\0' ? map->l_name : "/proc/self/exe", error);
  return error ? fs::path() : file.parent_path();
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
  if (is_hidden(library.name))
    return Status(StatusCode::unsupported, list + " is hidden by FUSEC_HIDE_LIBRARIES" + remedy(library.product));
  const std::string home = environment("FUSEC_CUDA_HOME");
  Search search(std::move(files));
  if (find(search, home)) return search.opened;
  return Status(StatusCode::unsupported, list + " was not found in " + (home.empty() ? "" : home + "/lib64, in ") +
                                             "the dynamic linker's folders, in " + kToolkit +
                                             "/lib64 or in the nvidia packages of python3" + search.faults +
                                             remedy(library.product));
}

Result<SharedLibrary> open_own_library(const OwnLibrary& library) {
  const std::string file = "lib" + std::string(library.name) + ".so." + FUSEC_VERSION;
  if (is_hidden(library.hidden)) return Status(StatusCode::unsupported, file + " is hidden by FUSEC_HIDE_LIBRARIES");
  Search search({file});
  const fs::path folder = own_folder();
  if (!folder.empty()) {
    for (const char* place : {"", FUSEC_PROGRAMS_TO_LIBRARIES, "../lib"}) {
      if (search.in_folder((folder / place).lexically_normal())) return search.opened;
    }
  }
  if (search.by_linker()) return search.opened;
  return Status(StatusCode::unsupported, file + " was not found " +
                                             (folder.empty() ? "" : "beside " + folder.string() + " or ") +
                                             "in the dynamic linker's folders" + search.faults);
}

}  // namespace fusec
