// SPDX-License-Identifier: Apache-2.0
// Lists GPUs, allocates tensors on them, and copies tensors from, to and within a GPU, for the public functions of
// fusec/device.h and for staging. Strided copies merge axes first and then use one 2D copy for each plane.

#include "runtime/device/cuda/tensors.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/device/cuda/handles.h"
#include "runtime/device/host/memory.h"

namespace fusec::runtime::cuda {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// nullopt: the GPU cannot be used.
std::optional<DeviceInfo> describe(const Driver& driver, int ordinal, int version) {
  CUdevice device = 0;
  char name[256] = {};
  std::size_t bytes = 0;
  if (driver.cuDeviceGet(&device, ordinal) != CUDA_SUCCESS) return std::nullopt;
  if (driver.cuDeviceGetName(name, sizeof(name) - 1, device) != CUDA_SUCCESS) return std::nullopt;
  if (driver.cuDeviceTotalMem(&bytes, device) != CUDA_SUCCESS) return std::nullopt;
  Result<Detected> detected = detect(driver, device);
  if (!detected.ok()) return std::nullopt;
  return DeviceInfo{{TargetKind::cuda, ordinal}, name,
                    static_cast<int64_t>(bytes), version_text(version),
                    std::move(detected->target), std::move(detected->limits_source)};
}

// A row-major copy on the host of a tensor anywhere.
Result<Tensor> on_host(const Tensor& from) {
  if (from.on_host() && from.is_contiguous()) return from;
  FUSEC_ASSIGN(Tensor to, Tensor::make(from.dtype(), from.shape()));
  FUSEC_TRY(fusec::copy(from, to));
  return to;
}

// An axis of a copy. Adjacent axes that are dense in both tensors are merged.
struct Axis {
  int64_t extent, to, from;  // strides in bytes
};
std::vector<Axis> merged_axes(std::span<const int64_t> shape, std::span<const int64_t> to,
                              std::span<const int64_t> from, int64_t element) {
  std::vector<Axis> axes;  // innermost first
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 1) continue;
    const Axis axis{shape[i], to[i] * element, from[i] * element};
    if (!axes.empty() && axis.to == axes.back().extent * axes.back().to &&
        axis.from == axes.back().extent * axes.back().from) {
      axes.back().extent *= axis.extent;
    } else {
      axes.push_back(axis);
    }
  }
  return axes;
}

class StridedCopy {
 public:
  StridedCopy(const Context& context, CUstream stream) : context_(context), stream_(stream) {}

  // Axes from `axis` - 1 down to 0.
  Status run(CUdeviceptr to, CUdeviceptr from, std::span<const Axis> axes, int64_t row) {
    if (axes.empty()) return plane(to, from, row, {1, row, row});
    if (axes.size() == 1 && fits(axes[0], row)) return plane(to, from, row, axes[0]);
    const Axis& outer = axes.back();
    for (int64_t i = 0; i < outer.extent; ++i) {
      FUSEC_TRY(run(to + static_cast<CUdeviceptr>(i * outer.to), from + static_cast<CUdeviceptr>(i * outer.from),
                    axes.first(axes.size() - 1), row));
    }
    return {};
  }

 private:
  static bool fits(const Axis& axis, int64_t row) { return axis.to >= row && axis.from >= row; }

  Status plane(CUdeviceptr to, CUdeviceptr from, int64_t row, const Axis& rows) {
    CUDA_MEMCPY2D copy = {};
    copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from;
    copy.dstDevice = to;
    copy.srcPitch = static_cast<std::size_t>(rows.from);
    copy.dstPitch = static_cast<std::size_t>(rows.to);
    copy.WidthInBytes = static_cast<std::size_t>(row);
    copy.Height = static_cast<std::size_t>(rows.extent);
    return context_.check(context_.driver().cuMemcpy2DAsync(&copy, stream_), "cuMemcpy2DAsync");
  }

  const Context& context_;
  CUstream stream_;
};

// Copies from pageable memory and fills may return before the device has finished them.
Status wait_for_default_stream(const Context& context) {
  return context.check(context.driver().cuStreamSynchronize(nullptr), "cuStreamSynchronize");
}

Status to_device(const Context& context, const Tensor& from, Tensor& to) {
  FUSEC_ASSIGN(const Tensor dense, on_host(from));
  const Driver& driver = context.driver();
  if (to.is_contiguous()) {
    FUSEC_TRY(context.check(driver.cuMemcpyHtoD(address_of(to.data()), dense.data(), dense.bytes()), "cuMemcpyHtoD"));
    return wait_for_default_stream(context);
  }
  FUSEC_ASSIGN(Tensor staged, make_gpu_tensor(to.device(), to.dtype(), to.shape()));
  FUSEC_TRY(to_device(context, dense, staged));
  return fusec::copy(staged, to);
}

Status to_host(const Context& context, const Tensor& from, Tensor& to) {
  if (!from.is_contiguous()) {
    FUSEC_ASSIGN(Tensor staged, make_gpu_tensor(from.device(), from.dtype(), from.shape()));
    FUSEC_TRY(fusec::copy(from, staged));
    return to_host(context, staged, to);
  }
  Tensor dense = to;
  if (!to.is_contiguous()) {
    FUSEC_ASSIGN(dense, Tensor::make(to.dtype(), to.shape()));
  }
  FUSEC_TRY(context.check(context.driver().cuMemcpyDtoH(dense.data(), address_of(from.data()), from.bytes()),
                          "cuMemcpyDtoH"));
  return to.is_contiguous() ? Status() : fusec::copy(dense, to);
}

Status within_device(const ContextPtr& context, const Tensor& from, Tensor& to) {
  FUSEC_ASSIGN(const Stream stream, make_stream(context));
  FUSEC_TRY(copy_on_stream(*context, from, to.data(), to.strides(), stream.get()));
  return context->check(context->driver().cuStreamSynchronize(stream.get()), "cuStreamSynchronize");
}

}  // namespace

Status driver_status() {
  FUSEC_ASSIGN(const Driver* const table, driver());
  int count = 0;
  if (const CUresult result = table->cuDeviceGetCount(&count); result != CUDA_SUCCESS) {
    return Status(StatusCode::device, "cuDeviceGetCount: " + error_text(*table, result));
  }
  if (count == 0) return Status(StatusCode::device, "the NVIDIA driver lists no GPU");
  return {};
}

std::vector<DeviceInfo> list_gpus() {
  std::vector<DeviceInfo> out;
  const Result<const Driver*> table = driver();
  if (!table.ok()) return out;
  int count = 0, version = 0;
  if ((*table)->cuDeviceGetCount(&count) != CUDA_SUCCESS) return out;
  (void)(*table)->cuDriverGetVersion(&version);
  for (int i = 0; i < count; ++i) {
    if (std::optional<DeviceInfo> info = describe(**table, i, version)) out.push_back(std::move(*info));
  }
  return out;
}

Result<Tensor> make_gpu_tensor(const Device& device, DType dtype, std::vector<int64_t> shape) {
  // An unowned tensor of this shape tells its bytes; Tensor::make's checks of the shape are repeated here.
  int64_t bytes = static_cast<int64_t>(size_of(dtype));
  for (int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes)) {
      return Status(StatusCode::invalid_argument, "a tensor's size in bytes must be at least 0 and fit 63 bits");
    }
  }
  FUSEC_ASSIGN(const ContextPtr context, Context::open(device.ordinal));
  const Current current(*context);
  FUSEC_TRY(current.status());
  FUSEC_ASSIGN(DeviceBuffer made, DeviceBuffer::make(context, bytes));
  auto buffer = std::make_shared<const DeviceBuffer>(std::move(made));
  if (bytes > 0) {
    FUSEC_TRY(context->check(context->driver().cuMemsetD8(buffer->address(), 0, static_cast<std::size_t>(bytes)),
                             "cuMemsetD8"));
    FUSEC_TRY(wait_for_default_stream(*context));
  }
  void* const data = buffer->data();
  return Tensor::share(dtype, std::move(shape), data, std::move(buffer), device);
}

Status copy_on_stream(const Context& context, const Tensor& from, void* to, std::span<const int64_t> to_strides,
                      CUstream stream) {
  const auto element = static_cast<int64_t>(size_of(from.dtype()));
  std::vector<Axis> axes = merged_axes(from.shape(), to_strides, from.strides(), element);
  int64_t row = element;
  if (!axes.empty() && axes[0].to == element && axes[0].from == element) {
    row *= axes[0].extent;
    axes.erase(axes.begin());
  }
  if (axes.empty()) {
    return context.check(context.driver().cuMemcpyDtoDAsync(address_of(to), address_of(from.data()),
                                                            static_cast<std::size_t>(row), stream),
                         "cuMemcpyDtoDAsync");
  }
  // The longest axis that a 2D copy can iterate over goes innermost.
  std::stable_sort(axes.begin(), axes.end(), [&](const Axis& a, const Axis& b) {
    const auto rows = [&](const Axis& axis) { return axis.to >= row && axis.from >= row ? axis.extent : 0; };
    return rows(a) > rows(b);
  });
  return StridedCopy(context, stream).run(address_of(to), address_of(from.data()), axes, row);
}

Status copy_with_gpu(const Tensor& from, Tensor& to) {
  if (!from.on_host() && !to.on_host() && from.device() != to.device()) {
    FUSEC_ASSIGN(const Tensor between, on_host(from));
    return fusec::copy(between, to);
  }
  const int ordinal = from.on_host() ? to.device().ordinal : from.device().ordinal;
  FUSEC_ASSIGN(const ContextPtr context, Context::open(ordinal));
  const Current current(*context);
  FUSEC_TRY(current.status());
  if (from.on_host()) return to_device(*context, from, to);
  if (to.on_host()) return to_host(*context, from, to);
  return within_device(context, from, to);
}

}  // namespace fusec::runtime::cuda
