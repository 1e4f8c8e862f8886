// SPDX-License-Identifier: Apache-2.0
#include "ir/support/shared_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

namespace fusec {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The folder above bin/ of the python3 on PATH; empty when there is none.
fs::path python_prefix() {
  std::istringstream path(environment("PATH"));
  std::error_code error;
  for (std::string folder; std::getline(path, folder, ':');) {
    const fs::path python = fs::path(folder) / "python3";
    if (!folder.empty() && fs::exists(python, error)) return python.parent_path().parent_path();
  }
  return {};
}

// lib/python3.x/{site,dist}-packages of a prefix.
std::vector<fs::path> site_packages() {
  std::vector<fs::path> out;
  const fs::path prefix = python_prefix();
  if (prefix.empty()) return out;
  std::error_code error;
  for (const char* lib : {"lib", "lib64", "local/lib"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(prefix / lib, error)) {
      if (!entry.path().filename().string().starts_with("python3")) continue;
      for (const char* kind : {"site-packages", "dist-packages"}) {
        if (fs::is_directory(entry.path() / kind, error)) out.push_back(entry.path() / kind);
      }
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

struct Place {
  std::string folder;  // empty: the loader's search
  int flags = RTLD_NOW | RTLD_LOCAL;
};

std::vector<Place> places(const std::vector<std::string>& packages) {
  std::vector<Place> out;
  if (const std::string home = environment("FUSEC_CUDA_HOME"); !home.empty()) out.push_back({home + "/lib64"});
  out.push_back({"", RTLD_NOW | RTLD_NOLOAD});
  out.push_back({""});
  out.push_back({"/usr/local/cuda/lib64"});
  for (const fs::path& site : site_packages()) {
    for (const std::string& package : packages) out.push_back({(site / "nvidia" / package / "lib").string()});
  }
  return out;
}

}  // namespace

void* SharedLibrary::symbol(const char* name) const { return handle_ != nullptr ? dlsym(handle_, name) : nullptr; }

Result<SharedLibrary> open_cuda_library(const std::vector<std::string>& names, const std::vector<std::string>& packages) {
  std::string looked;
  for (const Place& place : places(packages)) {
    for (const std::string& name : names) {
      const std::string path = place.folder.empty() ? name : place.folder + "/" + name;
      if (void* handle = dlopen(path.c_str(), place.flags)) return SharedLibrary(handle, path);
    }
    if (!place.folder.empty()) looked += ", " + place.folder;
  }
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : " or ") + name;
  return Status(StatusCode::unsupported, all + " was not found by the loader" + looked +
                                             "; install the CUDA toolkit or set FUSEC_CUDA_HOME to its folder");
}

Result<std::string> find_cuda_file(const std::string& name, const std::vector<std::string>& packages) {
  std::vector<fs::path> folders = {"/usr/local/cuda"};
  if (const std::string home = environment("FUSEC_CUDA_HOME"); !home.empty()) folders.insert(folders.begin(), home);
  for (const fs::path& site : site_packages()) {
    for (const std::string& package : packages) folders.push_back(site / "nvidia" / package);
  }
  std::string looked;
  for (const fs::path& folder : folders) {
    std::error_code error;
    if (fs::exists(folder / name, error)) return (folder / name).string();
    looked += (looked.empty() ? "" : ", ") + folder.string();
  }
  return Status(StatusCode::unsupported, name + " was not found in " + looked + "; install the CUDA toolkit or set FUSEC_CUDA_HOME to its folder");
}

}  // namespace fusec
