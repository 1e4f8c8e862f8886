// SPDX-License-Identifier: Apache-2.0
// What the fake driver and the functions in front of libfusec-c's know in common.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "fusec/c.h"
#include "tests/fake_cuda/order.h"

namespace fusec::fake_cuda {

struct Block {
  std::size_t bytes = 0;
  Accesses accesses;
};

struct State {
  std::mutex mutex;
  std::map<std::string, long> calls;   // by name
  std::map<std::string, long> copies;  // "to gpu", "to host", "inside", "host"
  std::map<uintptr_t, Block> memory, pinned;
  std::map<void*, void*> streams;  // the context of each
  std::set<void*> events, captured;
  std::map<int, long> contexts;  // by the handle of a GPU, how often retained
  struct Counts {
    std::size_t inputs, outputs;
    int ordinal;            // -1: of the CPU
    bool is_ready = false;  // some shapes were run or prepared
  };
  std::map<const fusec_options*, int> options;  // those for a GPU
  std::map<const fusec_engine*, int> engines;
  std::map<const fusec_session*, Counts> sessions;
  Order order;
  long strays = 0;        // tensors of a run that a GPU cannot reach; runs that cannot be captured
  long runs = 0;          // on a stream
  long races = 0;         // work on memory that is not ordered behind other work on it
  long graph_nodes = 0;   // what was put on a stream in capture beside runs
  long non_blocking = 0;  // streams that were made so
};

State& state();
int gpus();

// The block that holds an address, or nullptr.
Block* find(std::map<uintptr_t, Block>& blocks, uintptr_t address);

// The stream that a handle means, or nullptr if there is none.
void* take_stream(void* stream);

// Work on the memory that holds the address, if it is the GPU's.
void look_at(uintptr_t address, void* stream, bool write);

}  // namespace fusec::fake_cuda
