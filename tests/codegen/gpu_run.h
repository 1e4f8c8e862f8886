// SPDX-License-Identifier: Apache-2.0
// Runs kernels on a real GPU through the CUDA driver, where there is one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fusec/options.h"
#include "fusec/tensor.h"
#include "ir/kernel/kernel.h"
#include "tests/codegen/differential.h"

namespace fusec::codegen_test {

// Who makes the code, and whether the driver assembles its PTX in place of the cubin.
struct GpuMode {
  const char* name;
  Codegen codegen;
  bool ptx;
};
inline constexpr GpuMode kGpuModes[] = {
    {"nvrtc", Codegen::nvrtc, false}, {"llvm", Codegen::llvm, false}, {"llvm, as PTX", Codegen::llvm, true}};

// Kernels as loaded code.
class GpuLibrary {
 public:
  // Ok where there is a GPU; else what was looked for.
  static Status available();
  // Whether this machine can make such code; else why not.
  static Status has(const GpuMode& mode);
  // Whether the GPU multiplies tiles (Target::has_tile_products).
  static bool has_tile_products();
  // Fails the running test where they do not compile or load. `multiprocessors`: that the GPU is taken to have; 0: its
  // own.
  static std::unique_ptr<GpuLibrary> make(const std::vector<ir::Kernel>& kernels, const GpuMode& mode,
                                          int multiprocessors = 0);
  ~GpuLibrary();
  GpuLibrary(const GpuLibrary&) = delete;

  // Arguments are host tensors; outputs are copied back. Writes past the end of a buffer are errors.
  RunOutcome run(std::size_t kernel, const std::vector<Tensor>& args, const Extents& extents) const;

 private:
  GpuLibrary() = default;
  struct State;
  std::unique_ptr<State> state_;
};

#define FUSEC_NEEDS_GPU(mode)                                                       \
  if (!GpuLibrary::available().ok()) GTEST_SKIP() << GpuLibrary::available().str(); \
  if (!GpuLibrary::has(mode).ok()) GTEST_SKIP() << GpuLibrary::has(mode).str()

}  // namespace fusec::codegen_test
