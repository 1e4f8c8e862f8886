// SPDX-License-Identifier: Apache-2.0
#include "fusec/target.h"

#include <algorithm>
#include <initializer_list>

namespace fusec {
namespace {

// The levels of the x86-64 psABI, as LLVM feature names beyond the level below.
constexpr std::initializer_list<const char*> kV2 = {"cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"};
constexpr std::initializer_list<const char*> kV3 = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"};
constexpr std::initializer_list<const char*> kV4 = {"avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"};

Target x86(int level) {
  Target t;
  t.kind = TargetKind::cpu;
  t.name = t.triple_cpu = "x86-64-v" + std::to_string(level);
  t.vector_bytes = level >= 4 ? 64 : level >= 3 ? 32 : 16;
  t.has_f16c = level >= 3;
  t.features.assign(kV2.begin(), kV2.end());
  if (level >= 3) t.features.insert(t.features.end(), kV3.begin(), kV3.end());
  if (level >= 4) t.features.insert(t.features.end(), kV4.begin(), kV4.end());
  std::sort(t.features.begin(), t.features.end());
  return t;
}

}  // namespace

bool Target::has(const std::string& feature) const {
  return std::binary_search(features.begin(), features.end(), feature);
}

Result<Target> named_target(const std::string& name) {
  for (int level = 2; level <= 4; ++level) {
    if (name == "x86-64-v" + std::to_string(level)) return x86(level);
  }
  return Status(StatusCode::invalid_argument,
                "no target is named '" + name + "'; known are x86-64-v2, x86-64-v3 and x86-64-v4");
}

std::string codegen_key(const Target& target) {
  if (target.kind == TargetKind::cuda) {
    return "kind=cuda sm=" + std::to_string(target.sm) + " shared=" + std::to_string(target.shared_bytes_per_block);
  }
  std::string key = "kind=cpu cpu=" + target.triple_cpu + " vector=" + std::to_string(target.vector_bytes);
  key += " f16c=" + std::to_string(target.has_f16c) + " avx512fp16=" + std::to_string(target.has_avx512_fp16);
  key += " features=";
  for (std::size_t i = 0; i < target.features.size(); ++i) key += (i ? "," : "") + target.features[i];
  return key;
}

}  // namespace fusec
