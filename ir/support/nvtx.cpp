// SPDX-License-Identifier: Apache-2.0
// The tool's library is opened at the first range and asks for tables of addresses, by module of NVTX's interface. It
// writes its functions to those that it wants to be called. Two of them are used; the others only have a place.

#include "ir/support/nvtx.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace fusec {
namespace {

// Numbers of NVTX version 3.
constexpr uint32_t kCallbacks = 1, kVersionInfo = 3;   // tables that a tool may ask for
constexpr int32_t kCoreModule = 1, kLastModule = 6;    // modules of functions
constexpr std::size_t kRangePush = 9, kRangePop = 11;  // of the core module
constexpr std::size_t kFunctions = 16;                 // at most so many in a module
using Function = void (*)();

struct Module {
  std::array<Function, kFunctions> functions{};
  std::array<Function*, kFunctions + 1> table{};  // ends with a null
};

struct Nvtx {
  std::array<Module, kLastModule + 1> modules;

  template <class F>
  F* core(std::size_t function) const {
    return reinterpret_cast<F*>(modules[kCoreModule].functions[function]);
  }
};

Nvtx& tables() {
  static Nvtx all;
  return all;
}

int get_module(int32_t module, Function*** table, unsigned* size) {
  if (module < kCoreModule || module > kLastModule) return 0;
  Module& own = tables().modules[static_cast<std::size_t>(module)];
  // Functions are numbered from 1; 0 has no place.
  for (std::size_t i = 1; i < kFunctions; ++i) own.table[i] = &own.functions[i];
  if (size != nullptr) *size = kFunctions;
  if (table != nullptr) *table = own.table.data();
  return 1;
}

void set_tool_version(uint32_t) {}

struct Callbacks {
  std::size_t size = sizeof(Callbacks);
  int (*get_module_table)(int32_t, Function***, unsigned*) = get_module;
};
struct VersionInfo {
  std::size_t size = sizeof(VersionInfo);
  uint32_t version = 3, reserved = 0;
  void (*set_version)(uint32_t) = set_tool_version;
};

const void* get_export_table(uint32_t id) {
  static const Callbacks callbacks;
  static const VersionInfo version;
  if (id == kCallbacks) return &callbacks;
  return id == kVersionInfo ? &version : nullptr;
}

}  // namespace

bool NvtxRange::attach() {
  const char* const path = secure_getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return false;
  void* const library = dlopen(path, RTLD_LAZY);
  if (library == nullptr) return false;
  using Initialize = int (*)(const void* (*)(uint32_t));
  const auto initialize = reinterpret_cast<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
  if (initialize != nullptr && initialize(get_export_table) != 0) return true;
  (void)dlclose(library);
  return false;
}

bool NvtxRange::push(const char* name) {
  auto* const function = tables().core<int(const char*)>(kRangePush);
  if (function == nullptr) return false;
  (void)function(name);
  return true;
}

void NvtxRange::pop() {
  auto* const function = tables().core<int()>(kRangePop);
  if (function != nullptr) (void)function();
}

}  // namespace fusec
