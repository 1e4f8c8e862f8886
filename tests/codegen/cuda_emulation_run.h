// SPDX-License-Identifier: Apache-2.0
// Runs the text of the GPU writers on the CPU: CUDA C++ under the emulation of cuda_emulation.h, LLVM IR also under
// nvptx_emulation.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fusec/tensor.h"
#include "ir/kernel/kernel.h"
#include "tests/codegen/differential.h"
#include "tests/codegen/gpu_run.h"

namespace fusec::codegen_test {

// Kernels as one library, made by the system's c++.
class EmulationLibrary {
 public:
  // The texts are those of emit_text, in the order of the kernels, all of one writer. Fails the running test where they
  // do not compile.
  static std::unique_ptr<EmulationLibrary> make(const std::vector<ir::Kernel>& kernels,
                                                const std::vector<std::string>& texts);
  static bool has_compiler();
  static bool has_llvm();  // a compiler of LLVM IR, and a writer of it
  ~EmulationLibrary();
  EmulationLibrary(const EmulationLibrary&) = delete;

  // `reversed`: threads run from the last to the first. Errors are threads that wait for ever, accesses that are not
  // aligned or out of range.
  RunOutcome run(std::size_t kernel, const std::vector<Tensor>& args, const Extents& extents, bool reversed) const;

 private:
  EmulationLibrary() = default;
  std::vector<ir::Kernel> kernels_;
  std::vector<std::vector<int>> threads_;  // of each phase of each kernel
  std::vector<void*> handles_;
  std::vector<std::string> files_;
};

// Skips the running test, with a message, where there is neither a c++ (with the sources of the emulation) nor a GPU.
#define FUSEC_NEEDS_COMPILER_OR_GPU()                                     \
  if (!EmulationLibrary::has_compiler() && !GpuLibrary::available().ok()) \
  GTEST_SKIP() << "no c++ on PATH to compile generated CUDA with, and no GPU"
// The same where there is no c++.
#define FUSEC_NEEDS_COMPILER() \
  if (!EmulationLibrary::has_compiler()) GTEST_SKIP() << "no c++ on PATH to compile generated CUDA with"

#define FUSEC_NEEDS_LLVM_COMPILER() \
  if (!EmulationLibrary::has_llvm()) GTEST_SKIP() << "no clang++-19 on PATH, or no LLVM in this build"

// Fails the running test where the text is none.
ir::Kernel cuda_kernel(const std::string& text);

struct EmulationCase {
  std::string text;  // of a kernel
  std::vector<Extents> extents;
  Expectation expectation = {};
};
// All cases, by both writers, in both orders of threads, against the evaluator; compiled at once. Where there is a GPU,
// there too.
void expect_cuda_like_evaluator(const std::vector<EmulationCase>& cases);

}  // namespace fusec::codegen_test
