// SPDX-License-Identifier: Apache-2.0
// Programs by hand whose kernels are C++ functions: bind, executor and session without compiler and emitter.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "fusec/engine.h"
#include "ir/program/program.h"
#include "runtime/link/link.h"

namespace fusec::runtime_test {

inline Dim n() { return Dim::symbol("n"); }

// A kernel over flat f32[n] buffers: its inputs, then its outputs, one iteration per element.
struct KernelSpec {
  std::string name;
  int inputs = 1, outputs = 1;
  codegen::HostFunction function = nullptr;
  std::vector<std::pair<int, int>> alias;  // (input, output) by position among inputs and outputs
  int alignment = 0;
  bool clamps = false;  // has a data-dependent index
  Dim local_bytes;
  bool waits = false;  // for earlier launches, by itself
};

// out = in + 1; out = a + b; first output = in, second = -in.
void add_one(const codegen::HostArgs* args, int64_t begin, int64_t end, void* local);
void add(const codegen::HostArgs* args, int64_t begin, int64_t end, void* local);
void split(const codegen::HostArgs* args, int64_t begin, int64_t end, void* local);

class ProgramBuilder {
 public:
  ProgramBuilder() { program.symbols = {"n"}; }

  ir::AllocId input(const std::string& name, Dim elements = n(), DType dtype = DType::f32);
  ir::AllocId output(const std::string& name, Dim elements = n(), DType dtype = DType::f32);
  ir::AllocId constant(const std::vector<float>& values);
  ir::AllocId temporary(Dim elements = n());
  ir::KernelId kernel(const KernelSpec& spec);
  // Adds a slot of one variant and candidate.
  void launch(ir::KernelId kernel, const std::vector<ir::View>& args, const std::string& origin = "step");
  ir::Step step(ir::KernelId kernel, const std::vector<ir::View>& args, const std::string& origin = "step") const;
  void slot(std::vector<ir::Variant> variants) { program.slots.push_back({std::move(variants)}); }
  static ir::Variant variant(std::vector<Dim> when, std::vector<ir::Step> steps);

  std::shared_ptr<const runtime::LoadedProgram> load(
      std::vector<std::shared_ptr<runtime::Library>> libraries = {}) const;
  Engine engine(int threads = 1, std::vector<std::shared_ptr<runtime::Library>> libraries = {}) const;

  const std::map<ir::KernelId, KernelSpec>& specs() const { return specs_; }
  std::vector<TensorInfo> inputs() const, outputs() const;

  ir::Program program;

 private:
  std::map<ir::KernelId, KernelSpec> specs_;
};

// The whole of an allocation of `elements`, flat.
ir::View flat(ir::AllocId alloc, Dim elements = n(), Dim offset = 0);

// Each step adds two earlier values, often the latest, some by kernels that may work in place; one input, one output.
ProgramBuilder random_program(std::mt19937& random);

}  // namespace fusec::runtime_test
