// SPDX-License-Identifier: Apache-2.0
// Target: all that the compiler knows of the machine it compiles for. Plain data: nothing here asks a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fusec/export.h"
#include "fusec/status.h"

namespace fusec {

enum class TargetKind : uint8_t { cpu, cuda };

// Where memory lies and work runs: the CPU, or one of the GPUs that the driver lists.
struct FUSEC_API Device {
  TargetKind kind = TargetKind::cpu;
  int ordinal = 0;
  bool operator==(const Device&) const = default;
};

struct FUSEC_API Target {
  TargetKind kind = TargetKind::cpu;
  std::string name;  // "x86-64-v4" or "sm_90"

  // CPU
  std::string triple_cpu;             // LLVM's name of the CPU model used for code generation, e.g. "x86-64-v3"
  std::vector<std::string> features;  // sorted LLVM feature names, e.g. "avx512f"
  int vector_bytes = 16;              // widest profitable vector: 16, 32 or 64
  int threads = 1;
  bool has_f16c = false, has_avx512_fp16 = false;

  // CUDA
  int sm = 0;  // 90 for sm_90
  int sm_count = 0;
  int registers_per_sm = 0;  // 32-bit
  int threads_per_sm = 0;
  int shared_bytes_per_sm = 0;
  int shared_bytes_per_block = 0;  // that a launch may ask for

  // The libraries of such a machine by name, in order of preference: "onednn", "plain", "cublaslt", "cudnn". What each
  // computes is a table inside fusec, so that a model can be compiled where they are missing.
  std::vector<std::string> libraries;
  bool keeps_rows = true;  // kernels may keep a row of values in memory of the thread; else in registers alone

  // Fitted figures used by cost models.
  double copy_gb_per_s = 40;           // read + write
  double launch_us = 1.0;              // cost of starting one step
  int64_t last_level_cache = 8 << 20;  // bytes
  int64_t l1_bytes = 32 << 10;
  int64_t l2_bytes = 1 << 20;

  bool has(const std::string& feature) const;
  bool operator==(const Target&) const = default;
};

// Targets by name: "x86-64-v2" (SSE4.2), "x86-64-v3" (AVX2), "x86-64-v4" (AVX-512); "sm_75" ... "sm_121" with the
// figures of that architecture's largest data-centre or desktop GPU. "cpu:" and "cuda:" may stand in front. Unknown:
// invalid_argument.
FUSEC_API Result<Target> named_target(const std::string& name) noexcept;
// One line of "key=value" pairs that is equal exactly when code generation would be.
FUSEC_API std::string codegen_key(const Target& target);
// The names that named_target takes, without prefix.
FUSEC_API std::vector<std::string> target_names();

}  // namespace fusec
