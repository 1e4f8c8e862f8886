// SPDX-License-Identifier: Apache-2.0
// The table of the figures of a MachineModel, which everything that lists, stores or compares them loops over.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "fusec/target.h"
#include "ir/support/hash.h"

namespace fusec {

std::vector<FigureInfo> machine_figures() {
  using M = MachineModel;
  return {{"memory_copy", "GB/s", &M::memory_copy},
          {"memory_read", "GB/s", &M::memory_read},
          {"cache_copy", "GB/s", &M::cache_copy},
          {"near_copy", "GB/s", &M::near_copy},
          {"worker_memory", "GB/s", &M::worker_memory},
          {"worker_cache", "GB/s", &M::worker_cache},
          {"memory_latency", "us", &M::memory_latency},
          {"cache_latency", "us", &M::cache_latency},
          {"launch", "us", &M::launch},
          {"dependent_launch", "us", &M::dependent_launch},
          {"block_start", "us", &M::block_start},
          {"barrier", "us", &M::barrier},
          {"simple_ops", "per ns", &M::simple_ops},
          {"transcendental_ops", "per ns", &M::transcendental_ops},
          {"division_ops", "per ns", &M::division_ops},
          {"conversion_ops", "per ns", &M::conversion_ops}};
}

const char* to_string(FigureSource source) {
  switch (source) {
    case FigureSource::published:
      return "published, unmeasured";
    case FigureSource::reference:
      return "measured on such a machine";
    case FigureSource::measured:
      return "measured";
    case FigureSource::estimated:
      break;
  }
  return "estimated, unmeasured";
}

std::string machine_digest(const MachineModel& model) {
  std::string bits;
  for (const FigureInfo& figure : machine_figures())
    bits += std::to_string(std::bit_cast<uint64_t>((model.*figure.member).value)) + " ";
  const ir::Sha256Digest digest = ir::sha256(bits);
  return ir::to_hex(std::span(digest).first(8));
}

}  // namespace fusec
