// SPDX-License-Identifier: Apache-2.0
// Opens libcuda.so.1 with dlopen once per process, looks up the driver functions and initializes CUDA. fusec does not
// link CUDA, so a machine without a driver gets a Status and not a loader error.

#include "runtime/device/cuda/driver.h"

#include <atomic>
#include <memory>

#include "ir/support/shared_library.h"
#include "runtime/device/host/process.h"

namespace fusec::runtime::cuda {
namespace {

// An initialized driver, or why there is none.
struct Opened {
  Result<const Driver*> table;
  uint64_t forks = 0;  // before cuInit
};

std::atomic<const Driver*> table_of_test{nullptr};

Result<const Driver*> open_driver() {
  const Result<SharedLibrary> library = SharedLibrary::open("libcuda.so.1");
  if (!library.ok()) return Status(StatusCode::device, "no NVIDIA driver: " + library.status().message());
  const Result<Driver> loaded = load_functions<Driver>(*library, "a driver of CUDA 12.0 or newer is needed");
  if (!loaded.ok()) return Status(StatusCode::device, loaded.status().message());
  const Driver& table = *loaded;
  if (const CUresult result = table.cuInit(0); result != CUDA_SUCCESS) {
    return Status(StatusCode::device, "cuInit: " + error_text(table, result));
  }
  return static_cast<const Driver*>(new Driver(table));  // as long as the library
}

}  // namespace

Result<const Driver*> driver() {
  if (const Driver* table = table_of_test.load()) return table;
  static const Opened opened = [] {
    const uint64_t before = forks();
    return Opened{open_driver(), before};
  }();
  if (opened.table.ok() && forks() != opened.forks) {
    return Status(StatusCode::device,
                  "CUDA was initialized before this process was forked, and does not work in such a child: use the GPU "
                  "after fork alone, or start the process with exec");
  }
  return opened.table;
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
