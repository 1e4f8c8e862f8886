// SPDX-License-Identifier: Apache-2.0
// Wraps cuDNN's descriptor-based functions (pooling, transform, fill, add, activation) as Work, and implements the
// cuDNN Backend. Descriptors are made at bind; a run only calls the function.

#include <optional>
#include <utility>
#include <vector>

#include "ir/ops/cast.h"
#include "runtime/library/cudnn/handles.h"

namespace fusec::runtime::cudnn {
namespace {

std::optional<cudnnDataType_t> type_of(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::f16:
      return CUDNN_DATA_HALF;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      return std::nullopt;
  }
}

std::vector<int> ints(const Extents& extents) { return {extents.begin(), extents.end()}; }

struct Descriptors {
  explicit Descriptors(std::shared_ptr<Handles> s) : handles(std::move(s)) {}
  ~Descriptors() {
    for (cudnnTensorDescriptor_t tensor : tensors) handles->api.destroy_tensor(tensor);
    if (pooling != nullptr) handles->api.destroy_pooling(pooling);
    if (activation != nullptr) handles->api.destroy_activation(activation);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  Status add(const TensorSpec& spec) {
    const auto type = type_of(spec.dtype);
    if (!type)
      return Status(StatusCode::unsupported, std::string("cuDNN has no arithmetic in ") + to_string(spec.dtype));
    tensors.push_back(nullptr);
    const std::vector<int> dims = ints(spec.dims), strides = ints(spec.strides);
    cudnnStatus_t status = handles->api.create_tensor(&tensors.back());
    if (status == CUDNN_STATUS_SUCCESS) {
      status =
          handles->api.set_tensor(tensors.back(), *type, static_cast<int>(dims.size()), dims.data(), strides.data());
    }
    return handles->check(status, "takes no such tensor", StatusCode::unsupported);
  }

  std::shared_ptr<Handles> handles;
  std::vector<cudnnTensorDescriptor_t> tensors;
  cudnnPoolingDescriptor_t pooling = nullptr;
  cudnnActivationDescriptor_t activation = nullptr;
};

// The factors alpha and beta of an op, in the type in which cuDNN reads them.
struct Factors {
  float one32 = 1, zero32 = 0;
  double one64 = 1, zero64 = 0;
  bool is_double = false;
  const void* one() const { return is_double ? static_cast<const void*>(&one64) : &one32; }
  const void* zero() const { return is_double ? static_cast<const void*>(&zero64) : &zero32; }
};

// Run: cudnnStatus_t(const Descriptors&, const Factors&, cudnnHandle_t, void* const* pointers)
template <class Run>
class LegacyWork : public CudnnPlan {
 public:
  LegacyWork(std::unique_ptr<Descriptors> descriptors, DType dtype, const char* name, Run run)
      : descriptors_(std::move(descriptors)), name_(name), run_(run) {
    factors_.is_double = dtype == DType::f64;
  }
  Status run(void* const* pointers, void*, void* stream) const override {
    Handles& handles = *descriptors_->handles;
    return handles.run(stream, [&](cudnnHandle_t handle) {
      const cudnnStatus_t status =
          handle == nullptr ? CUDNN_STATUS_BAD_PARAM : run_(*descriptors_, factors_, handle, pointers);
      return handles.check(status, name_, StatusCode::device);
    });
  }
  std::string name() const override { return name_; }

 private:
  std::unique_ptr<Descriptors> descriptors_;
  const char* name_;
  Run run_;
  Factors factors_;
};

template <class Run>
std::unique_ptr<CudnnPlan> make_plan(std::unique_ptr<Descriptors> descriptors, DType dtype, const char* name, Run run) {
  return std::make_unique<LegacyWork<Run>>(std::move(descriptors), dtype, name, run);
}

Status add_pooling(Descriptors& d, const PoolSpec& spec) {
  const cudnnPoolingMode_t mode = spec.is_max              ? CUDNN_POOLING_MAX_DETERMINISTIC
                                  : spec.count_include_pad ? CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                                                           : CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
  const std::vector<int> kernel = ints(spec.kernel), padding = ints(spec.padding), strides = ints(spec.strides);
  cudnnStatus_t status = d.handles->api.create_pooling(&d.pooling);
  if (status == CUDNN_STATUS_SUCCESS) {
    status = d.handles->api.set_pooling(d.pooling, mode, CUDNN_PROPAGATE_NAN, static_cast<int>(kernel.size()),
                                        kernel.data(), padding.data(), strides.data());
  }
  return d.handles->check(status, "takes no such pooling", StatusCode::unsupported);
}

Status add_relu(Descriptors& d) {
  cudnnStatus_t status = d.handles->api.create_activation(&d.activation);
  if (status == CUDNN_STATUS_SUCCESS) {
    status = d.handles->api.set_activation(d.activation, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0);
  }
  return d.handles->check(status, "takes no such activation", StatusCode::unsupported);
}

class CudnnBackend : public Backend {
 public:
  CudnnBackend(std::shared_ptr<Handles> handles, const Options& options, const std::string& device_name)
      : handles_(std::move(handles)), cache_(CudnnPlanCache::open(options, device_name, CudnnBackend::version())) {}
  std::string version() const override {
    return handles_->api.version != nullptr ? std::to_string(handles_->api.version()) : "unknown";
  }
  Result<std::vector<CudnnPlanInfo>> conv_plans(const ConvSpec& spec) override { return plan_names(handles_, spec); }
  Result<std::vector<CudnnPlanInfo>> attention_plans(const AttentionSpec& spec) override {
    return plan_names(handles_, spec);
  }
  Result<std::unique_ptr<CudnnPlan>> conv(const ConvSpec& spec) override {
    return conv_plan(handles_, spec, cache_.get());
  }
  Result<std::unique_ptr<CudnnPlan>> attention(const AttentionSpec& spec) override {
    return attention_plan(handles_, spec, cache_.get());
  }
  Result<std::unique_ptr<CudnnPlan>> pool(const PoolSpec& spec) override { return pool_plan(handles_, spec); }
  Result<std::unique_ptr<CudnnPlan>> copy(const TensorSpec& from, const TensorSpec& to) override {
    return copy_plan(handles_, from, to);
  }
  Result<std::unique_ptr<CudnnPlan>> fill(const TensorSpec& out, double value) override {
    return fill_plan(handles_, out, value);
  }
  Result<std::unique_ptr<CudnnPlan>> epilogue(const EpilogueSpec& epilogue, const TensorSpec& out) override {
    return epilogue_plan(handles_, epilogue, out);
  }

 private:
  std::shared_ptr<Handles> handles_;
  std::unique_ptr<CudnnPlanCache> cache_;
};

}  // namespace

Result<std::unique_ptr<CudnnPlan>> pool_plan(std::shared_ptr<Handles> handles, const PoolSpec& spec) {
  auto descriptors = std::make_unique<Descriptors>(std::move(handles));
  FUSEC_TRY(descriptors->add(spec.in));
  FUSEC_TRY(descriptors->add(spec.out));
  FUSEC_TRY(add_pooling(*descriptors, spec));
  return make_plan(std::move(descriptors), spec.out.dtype, "pooling",
                   [](const Descriptors& d, const Factors& f, cudnnHandle_t handle, void* const* pointers) {
                     return d.handles->api.pooling_forward(handle, d.pooling, f.one(), d.tensors[0], pointers[0],
                                                           f.zero(), d.tensors[1], pointers[1]);
                   });
}

Result<std::unique_ptr<CudnnPlan>> copy_plan(std::shared_ptr<Handles> handles, const TensorSpec& from,
                                             const TensorSpec& to) {
  auto descriptors = std::make_unique<Descriptors>(std::move(handles));
  FUSEC_TRY(descriptors->add(from));
  FUSEC_TRY(descriptors->add(to));
  return make_plan(std::move(descriptors), to.dtype, "copy",
                   [](const Descriptors& d, const Factors& f, cudnnHandle_t handle, void* const* pointers) {
                     return d.handles->api.transform_tensor(handle, f.one(), d.tensors[0], pointers[0], f.zero(),
                                                            d.tensors[1], pointers[1]);
                   });
}

Result<std::unique_ptr<CudnnPlan>> fill_plan(std::shared_ptr<Handles> handles, const TensorSpec& out, double value) {
  auto descriptors = std::make_unique<Descriptors>(std::move(handles));
  FUSEC_TRY(descriptors->add(out));
  double element = 0;  // one element; a float even for halves, as observed, although the manual asks for a half
  ir::store_double(is_16_bit_float(out.dtype) ? DType::f32 : out.dtype, &element, value);
  return make_plan(std::move(descriptors), out.dtype, "fill",
                   [element](const Descriptors& d, const Factors&, cudnnHandle_t handle, void* const* pointers) {
                     return d.handles->api.fill_tensor(handle, d.tensors[0], pointers[0], &element);
                   });
}

Result<std::unique_ptr<CudnnPlan>> epilogue_plan(std::shared_ptr<Handles> handles, const EpilogueSpec& epilogue,
                                                 const TensorSpec& out) {
  auto descriptors = std::make_unique<Descriptors>(std::move(handles));
  if (epilogue.operand) {
    FUSEC_TRY(descriptors->add(*epilogue.operand));
    FUSEC_TRY(descriptors->add(out));
    return make_plan(std::move(descriptors), out.dtype, "add",
                     [](const Descriptors& d, const Factors& f, cudnnHandle_t handle, void* const* pointers) {
                       return d.handles->api.add_tensor(handle, f.one(), d.tensors[0], pointers[0], f.one(),
                                                        d.tensors[1], pointers[1]);
                     });
  }
  FUSEC_TRY(descriptors->add(out));
  FUSEC_TRY(add_relu(*descriptors));
  return make_plan(std::move(descriptors), out.dtype, "activation",
                   [](const Descriptors& d, const Factors& f, cudnnHandle_t handle, void* const* pointers) {
                     return d.handles->api.activation_forward(handle, d.activation, f.one(), d.tensors[0], pointers[0],
                                                              f.zero(), d.tensors[0], pointers[0]);
                   });
}

Result<std::shared_ptr<Backend>> open_cudnn(const Options& options, const std::string& device_name) {
  FUSEC_ASSIGN(std::shared_ptr<Handles> handles, Handles::open());
  return std::shared_ptr<Backend>(std::make_shared<CudnnBackend>(std::move(handles), options, device_name));
}

}  // namespace fusec::runtime::cudnn
