// SPDX-License-Identifier: Apache-2.0
// The built-in targets: x86-64 levels and NVIDIA GPUs by compute capability, as data, and the part of a target that
// determines generated code. Targets are data only: nothing here queries the machine.

#include "fusec/target.h"

#include <algorithm>
#include <initializer_list>

#include "ir/support/check.h"

namespace fusec {
namespace {

// Figures from vendors' data sheets and from CUDA's table of compute capabilities. Copies reach about 90% of the data
// sheet's bandwidth. An SM adds `lanes` pairs of floats in a cycle.
struct GpuRow {
  int sm, sm_count, threads_per_sm;
  int shared_kb_per_sm, shared_kb_per_block;
  int64_t l2_mb;
  double copy_gb_per_s;
  int lanes;
  double ghz;
};
constexpr GpuRow kGpus[] = {
    {75, 40, 1024, 64, 64, 4, 240, 64, 1.59},          // T4
    {80, 108, 2048, 164, 163, 40, 1400, 64, 1.41},     // A100 40 GB
    {86, 82, 1536, 100, 99, 6, 840, 128, 1.70},        // GeForce RTX 3090
    {87, 16, 1536, 164, 163, 4, 170, 128, 1.3},        // Jetson AGX Orin
    {89, 128, 1536, 100, 99, 72, 900, 128, 2.52},      // GeForce RTX 4090
    {90, 132, 2048, 228, 227, 50, 3000, 128, 1.755},   // H100 SXM
    {100, 148, 2048, 228, 227, 126, 7000, 128, 1.85},  // B200
    {103, 148, 2048, 228, 227, 126, 7000, 128, 1.85},  // B300
    {110, 20, 1536, 228, 227, 32, 240, 128, 1.57},     // Jetson Thor
    {120, 170, 1536, 100, 99, 96, 1600, 128, 2.41},    // GeForce RTX 5090
    {121, 48, 1536, 100, 99, 24, 240, 128, 2.4},       // GB10
};

Figure estimated(double value) { return {value, FigureSource::estimated}; }
Figure published(double value) { return {value, FigureSource::published}; }
Figure reference(double value) { return {value, FigureSource::reference}; }

// An L2 moves 64 bytes in a cycle to each SM, of which copies reach about two thirds; an SM alone can take 128.
// Launches and latencies differ little between the generations.
MachineModel gpu_model(const GpuRow& row) {
  MachineModel m;
  const double simple = row.lanes * row.ghz;
  m.memory_copy = published(row.copy_gb_per_s);
  m.memory_read = published(row.copy_gb_per_s);
  m.cache_copy = estimated(std::max(2 * row.copy_gb_per_s, 64 * row.ghz * row.sm_count * 0.4));
  m.near_copy = published(128 * row.ghz);
  m.worker_memory = m.worker_cache = estimated(128 * row.ghz);
  m.memory_latency = published(0.6);
  m.cache_latency = published(0.27);
  m.launch = estimated(4);
  m.dependent_launch = estimated(1.1);
  m.block_start = estimated(0.15);
  m.barrier = estimated(0.03);
  m.simple_ops = published(simple);
  m.transcendental_ops = estimated(1.6 * simple);
  m.division_ops = estimated(0.7 * simple);
  m.conversion_ops = estimated(2 * simple);
  return m;
}

// Measured on H100 SXM: the copy of 2 GB, one empty kernel between events and one in a CUDA graph, copies that stay in
// L2, and a sum of one result, which a single SM computes.
void take_hopper_figures(MachineModel& m) {
  m.memory_copy = m.memory_read = reference(3026);
  m.cache_copy = reference(6900);
  m.worker_memory = m.worker_cache = reference(228);
  m.launch = reference(4.1);
  m.dependent_launch = reference(0.95);
}

// Figures of a virtual machine with two Zen 4 cores of 3.8 GHz; `fusec doctor --measure` finds those of any other.
MachineModel cpu_model(int vector_bytes) {
  MachineModel m;
  const double simple = vector_bytes / 4 * 3.8;
  m.memory_copy = estimated(50);
  m.memory_read = estimated(40);
  m.cache_copy = estimated(190);
  m.near_copy = estimated(95);
  m.worker_memory = estimated(40);
  m.worker_cache = estimated(95);
  m.memory_latency = estimated(0.13);
  m.cache_latency = estimated(0.05);
  m.launch = estimated(0.1);
  m.dependent_launch = estimated(1.1);
  m.block_start = estimated(0.005);
  m.barrier = estimated(1);
  m.simple_ops = estimated(simple);
  m.transcendental_ops = estimated(0.6 * simple);
  m.division_ops = estimated(0.8 * simple);
  m.conversion_ops = estimated(0.9 * simple);
  return m;
}

Target gpu(const GpuRow& row) {
  Target t;
  t.kind = TargetKind::cuda;
  t.name = "sm_" + std::to_string(row.sm);
  t.sm = row.sm;
  t.libraries = {"cublaslt", "cudnn"};
  t.keeps_rows = false;
  t.sm_count = row.sm_count;
  t.registers_per_sm = 64 << 10;
  t.threads_per_sm = row.threads_per_sm;
  t.shared_bytes_per_sm = row.shared_kb_per_sm << 10;
  t.shared_bytes_per_block = row.shared_kb_per_block << 10;
  t.vector_bytes = 16;
  t.model = gpu_model(row);
  if (row.sm == 90) take_hopper_figures(t.model);
  t.has_tile_products = row.sm == 90;
  t.last_level_cache = row.l2_mb << 20;
  return t;
}

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
  t.model = cpu_model(t.vector_bytes);
  t.libraries = {"onednn", "plain"};
  t.features.assign(kV2.begin(), kV2.end());
  if (level >= 3) t.features.insert(t.features.end(), kV3.begin(), kV3.end());
  if (level >= 4) t.features.insert(t.features.end(), kV4.begin(), kV4.end());
  std::sort(t.features.begin(), t.features.end());
  return t;
}

std::string without_prefix(const std::string& name) {
  for (const char* prefix : {"cpu:", "cuda:"}) {
    if (name.rfind(prefix, 0) == 0) return name.substr(std::char_traits<char>::length(prefix));
  }
  return name;
}

}  // namespace

bool Target::has(const std::string& feature) const {
  return std::binary_search(features.begin(), features.end(), feature);
}

namespace {

Result<Target> find_target(const std::string& name) {
  const std::string bare = without_prefix(name);
  for (int level = 2; level <= 4; ++level) {
    if (bare == "x86-64-v" + std::to_string(level) && name != "cuda:" + bare) return x86(level);
  }
  for (const GpuRow& row : kGpus) {
    if (bare == "sm_" + std::to_string(row.sm) && name != "cpu:" + bare) return gpu(row);
  }
  std::string known;
  for (const std::string& one : target_names()) known += (known.empty() ? "" : ", ") + one;
  return Status(StatusCode::invalid_argument, "no target is named '" + name + "'; known are " + known);
}

}  // namespace

Result<Target> named_target(const std::string& name) noexcept {
  return ir::guarded([&] { return find_target(name); });
}

std::vector<std::string> target_names() {
  std::vector<std::string> names = {"x86-64-v2", "x86-64-v3", "x86-64-v4"};
  for (const GpuRow& row : kGpus) names.push_back("sm_" + std::to_string(row.sm));
  return names;
}

std::string codegen_key(const Target& target) {
  if (target.kind == TargetKind::cuda) {
    return "kind=cuda sm=" + std::to_string(target.sm);
  }
  std::string key = "kind=cpu cpu=" + target.triple_cpu + " vector=" + std::to_string(target.vector_bytes);
  key += " f16c=" + std::to_string(target.has_f16c) + " avx512fp16=" + std::to_string(target.has_avx512_fp16);
  key += " features=";
  for (std::size_t i = 0; i < target.features.size(); ++i) key += (i ? "," : "") + target.features[i];
  return key;
}

}  // namespace fusec
