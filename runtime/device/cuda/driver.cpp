// SPDX-License-Identifier: Apache-2.0
#include "runtime/device/cuda/driver.h"

#include <dlfcn.h>

#include <atomic>
#include <memory>

namespace fusec::runtime::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

std::atomic<const Driver*> table_of_test{nullptr};

Result<Driver> load_functions(void* library) {
  Driver table;
  const char* missing = nullptr;
#define FUSEC_LOAD(name)                                                       \
  table.name = reinterpret_cast<decltype(table.name)>(dlsym(library, #name)); \
  if (table.name == nullptr && missing == nullptr) missing = #name;
  FUSEC_CUDA_DRIVER(FUSEC_LOAD)
#undef FUSEC_LOAD
  table.cuFuncLoad = reinterpret_cast<decltype(table.cuFuncLoad)>(dlsym(library, "cuFuncLoad"));
  if (missing == nullptr) return table;
  return Status(StatusCode::device, std::string(kLibrary) + " lacks " + missing + ": a driver of CUDA 12.0 or newer is needed");
}

Result<const Driver*> open_driver() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);  // kept for the life of the process
  if (library == nullptr) {
    const char* const why = dlerror();
    return Status(StatusCode::device, std::string("no NVIDIA driver: ") + (why != nullptr ? why : kLibrary));
  }
  FUSEC_ASSIGN(const Driver table, load_functions(library));
  if (const CUresult result = table.cuInit(0); result != CUDA_SUCCESS) {
    return Status(StatusCode::device, "cuInit: " + error_text(table, result));
  }
  return static_cast<const Driver*>(new Driver(table));  // as long as the library
}

}  // namespace

Result<const Driver*> driver() {
  if (const Driver* table = table_of_test.load()) return table;
  static const Result<const Driver*> opened = open_driver();
  return opened;
}

std::string error_text(const Driver& driver, CUresult result) {
  const char *name = nullptr, *text = nullptr;
  (void)driver.cuGetErrorName(result, &name);
  (void)driver.cuGetErrorString(result, &text);
  std::string out = name != nullptr ? name : "error " + std::to_string(static_cast<int>(result));
  return text != nullptr ? out + " (" + text + ")" : out;
}

DriverForTest::DriverForTest(const Driver& table) { table_of_test = &table; }
DriverForTest::~DriverForTest() { table_of_test = nullptr; }

}  // namespace fusec::runtime::cuda
