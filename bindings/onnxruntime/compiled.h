// SPDX-License-Identifier: Apache-2.0
// A compiled piece of nodes: what ONNX Runtime calls to run it.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bindings/onnxruntime/api.h"
#include "bindings/onnxruntime/fusec_api.h"
#include "bindings/onnxruntime/settings.h"

namespace fusec::ort {

struct Port {
  std::string name;
  fusec_dtype dtype = {};
  int32_t rank = 0;
};

// An engine with sessions for as many threads as run it at once.
class Compiled {
 public:
  Compiled(EngineHandle engine, const Settings& settings);

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }
  const fusec_engine* engine() const { return engine_.get(); }

  // Which input or output of ONNX Runtime's fused node each of ours is. Without a call: the same.
  void set_places(std::vector<Size> inputs, std::vector<Size> outputs);

  // An input of the fused node whose contents the engine has by this address.
  struct Fixed {
    Size place = 0;
    const void* data = nullptr;
  };
  void set_fixed(std::vector<Fixed> fixed) { fixed_ = std::move(fixed); }

  // Runs on the tensors of ONNX Runtime, where they lie. Threads may run at once. A run on a GPU's memory is put on the
  // stream of ONNX Runtime, and need not be over when the function returns.
  void run(const Api& api, OrtKernelContext* context);

 private:
  // What one run at a time uses; later runs of the same shapes allocate nothing of ours.
  struct RunState {
    SessionHandle session;
    void* stream = nullptr;  // on which all runs of the session are: they end in order
    std::vector<int64_t> extents, seen_extents, output_extents;
    std::vector<void*> inputs, outputs;
    std::vector<void*> moved;  // memory of the GPU for inputs that came on the host
    std::vector<fusec_tensor> input_tensors, output_tensors;
  };
  std::unique_ptr<RunState> take_idle(void* stream);
  std::unique_ptr<RunState> make_state(void* stream) const;
  void check_fixed(const Api& api, const OrtKernelContext* context) const;
  void read_inputs(const Api& api, const OrtKernelContext* context, RunState& state) const;
  void* move_to_gpu(const Api& api, const OrtValue* value, RunState& state) const;
  void free_moved(RunState& state) const;
  void check_output(const Api& api, OrtValue* value, std::size_t index, bool is_empty) const;
  void make_outputs(const Api& api, OrtKernelContext* context, RunState& state) const;
  void put_run(RunState& state) const;
  void run_by_tensors(RunState& state) const;

  EngineHandle engine_;
  bool in_place_;  // the engine computes where ONNX Runtime's tensors lie
  Gpu* gpu_;       // where they do, or null for the host
  std::vector<Port> inputs_, outputs_;
  std::vector<Size> input_places_, output_places_;
  std::vector<Fixed> fixed_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<RunState>> idle_;
};

}  // namespace fusec::ort
