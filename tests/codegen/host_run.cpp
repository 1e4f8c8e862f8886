// SPDX-License-Identifier: Apache-2.0
#include "tests/codegen/host_run.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "tests/sanitized.h"

namespace fusec::codegen_test {

Loaded::Loaded(codegen::Artifact artifact) : artifact_(std::move(artifact)), size_(artifact_.image.size()) {
  image_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (image_ == MAP_FAILED) throw std::runtime_error("mmap");
  std::memcpy(image_, artifact_.image.data(), size_);
  mprotect(image_, size_, PROT_READ | PROT_EXEC);
  for (const std::string& name : artifact_.externs) {
    externs_.push_back(dlsym(RTLD_DEFAULT, name.c_str()));
    if (!externs_.back()) throw std::runtime_error("no function " + name);
  }
}

Loaded::~Loaded() { munmap(image_, size_); }

codegen::HostFunction Loaded::function(std::size_t phase) const {
  void* at = static_cast<char*>(image_) + artifact_.phases[phase].offset;
  codegen::HostFunction out;
  std::memcpy(&out, &at, sizeof out);
  return out;
}

int32_t Loaded::run(const std::vector<Tensor>& args, const std::map<std::string, int64_t>& extents,
                    const ir::Kernel& kernel, int splits) const {
  std::vector<void*> buffers;
  for (const Tensor& t : args) buffers.push_back(const_cast<void*>(t.data()));
  std::vector<std::unique_ptr<char[]>> scratch;
  for (const ir::Buffer& b : kernel.buffers) {
    if (b.space != ir::Space::scratch) continue;
    scratch.push_back(std::make_unique<char[]>(
        static_cast<std::size_t>(*named(kernel, num_elements(b.shape)).eval(extents)) * size_of(b.dtype) + 64));
    buffers.push_back(scratch.back().get());
  }
  std::vector<int64_t> values;
  for (const std::string& name : kernel.extents) values.push_back(extents.at(name));
  int32_t status = 0;
  const codegen::HostArgs host{buffers.data(), values.data(), externs_.data(), &status};
  const auto bytes = static_cast<std::size_t>(*artifact_.local_bytes.eval(extents));
  std::unique_ptr<void, decltype(&std::free)> local(std::aligned_alloc(64, bytes + 64), &std::free);
  std::memset(local.get(), 0xff, bytes);
  for (std::size_t phase = 0; phase < artifact_.phases.size(); ++phase) {
    const int64_t n = *artifact_.phases[phase].iterations.eval(extents);
    for (int s = 0; s < splits; ++s) function(phase)(&host, n * s / splits, n * (s + 1) / splits, local.get());
  }
  return status;
}

std::unique_ptr<Target> usable_target(const std::string& name) {
  const bool usable = name == "x86-64-v2"   ? __builtin_cpu_supports("sse4.2")
                      : name == "x86-64-v3" ? __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                                            : __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (!usable) return nullptr;
  return std::make_unique<Target>(named_target(name).value());
}

std::vector<Target> usable_targets() {
  std::vector<Target> out;
  for (const char* name : {"x86-64-v2", "x86-64-v3", "x86-64-v4"}) {
    if (const auto target = usable_target(name)) out.push_back(*target);
  }
  const auto with = [&](const char* feature, bool usable) {
    if (out.empty() || !out.back().name.starts_with("x86-64-v4") || !usable) return;
    Target more = out.back();
    more.name += std::string("+") + feature;
    more.features.push_back(feature);
    std::sort(more.features.begin(), more.features.end());
    out.push_back(std::move(more));
  };
  with("avx512bf16", __builtin_cpu_supports("avx512bf16") != 0);
  with("avx512vbmi", __builtin_cpu_supports("avx512vbmi") != 0);
  return testing_support::kSanitized && out.size() > 2 ? std::vector{out.front(), out.back()} : out;
}

}  // namespace fusec::codegen_test
