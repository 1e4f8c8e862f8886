// SPDX-License-Identifier: Apache-2.0
// A GPU, and its memory as ONNX Runtime allocates it.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "bindings/onnxruntime/cuda.h"

namespace fusec::ort {

// One GPU of the process. Its primary context is retained when it is first used. Threads may call at once.
class Gpu {
 public:
  // `cuda` must outlive the object.
  Gpu(const Cuda& cuda, int ordinal) : cuda_(cuda), ordinal_(ordinal) {}
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;
  ~Gpu();

  const Cuda& cuda() const { return cuda_; }
  int ordinal() const { return ordinal_; }
  // "cuda:0": the device of fusec's options.
  std::string name() const { return "cuda:" + std::to_string(ordinal_); }

  // Makes the GPU's context the current one of this thread, until the object ends.
  class Current {
   public:
    explicit Current(Gpu& gpu);
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    ~Current();

   private:
    const Cuda& cuda_;
  };

  // Memory of the GPU for work on `stream`, or, if it is null, for work on any stream. Throws Failure where there is
  // none left. What was freed is kept for later allocations, which come behind the work that was put on the stream
  // before it was freed: another stream waits for that, and without a stream the calling thread does. The driver's own
  // functions would wait for all work of the GPU.
  void* allocate(std::size_t bytes, CudaStream stream);
  void free(void* memory);

  // Pinned memory of the host.
  void* allocate_host(std::size_t bytes);
  void free_host(void* memory);

  // Copies between any two of host, pinned and GPU memory. The copy is over when the function returns if `stream` is
  // null; it is then in order with all streams of `create_stream`.
  void copy(void* to, const void* from, std::size_t bytes, CudaStream stream);
  void wait_for(CudaStream stream);

  CudaStream create_stream();
  // Waits for the stream.
  void destroy_stream(CudaStream stream);

 private:
  struct Block {
    std::size_t bytes = 0;
    CudaStream stream = nullptr;  // null: any, as where the stream has ended
    CudaEvent freed = nullptr;    // recorded on the stream, or on the legacy default one, which waits for all of ours
  };
  CudaContext context();
  void* new_memory(std::size_t bytes);
  void* use(void* memory, const Block& block);
  bool take_kept(std::size_t bytes, CudaStream stream, void** memory);
  bool release_kept();

  const Cuda& cuda_;
  const int ordinal_;
  std::mutex mutex_;  // of all below
  CudaContext context_ = nullptr;
  int device_ = 0;
  std::unordered_map<void*, Block> used_;
  std::multimap<std::size_t, std::pair<void*, Block>> kept_;  // by size
  std::size_t used_bytes_ = 0, most_used_ = 0, kept_bytes_ = 0;
};

}  // namespace fusec::ort
