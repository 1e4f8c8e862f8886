// SPDX-License-Identifier: Apache-2.0
// Opens shared libraries with dlopen and looks up symbols. Libraries are never closed.

#include "ir/support/shared_library.h"

#include <dlfcn.h>
#include <link.h>

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

}  // namespace fusec
