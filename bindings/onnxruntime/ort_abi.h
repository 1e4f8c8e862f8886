// SPDX-License-Identifier: Apache-2.0
// The part of ONNX Runtime's binary interface that the provider uses. ONNX Runtime ships no header in its packages; its
// tables only grow at their ends, so what is declared here holds for every release from 1.23 on. A function is named by
// its place in the table. tests/python/test_onnxruntime.py runs in the oldest and the newest release.
#pragma once

#include <cstddef>
#include <cstdint>

// Opaque types, under ONNX Runtime's own names because they are parameters of its functions.
struct OrtEpDevice;
struct OrtEpGraphSupportInfo;
struct OrtGraph;
struct OrtHardwareDevice;
struct OrtKernelContext;
struct OrtKeyValuePairs;
struct OrtLogger;
struct OrtMemoryDevice;
struct OrtMemoryInfo;
struct OrtNode;
struct OrtNodeComputeContext;
struct OrtOpAttr;
struct OrtRunOptions;
struct OrtSessionOptions;
struct OrtStatus;
struct OrtSyncStream;
struct OrtTensorTypeAndShapeInfo;
struct OrtTypeInfo;
struct OrtValue;
struct OrtValueInfo;

namespace fusec::ort {

// The release whose functions the structs below have. ONNX Runtime calls nothing that came later; an older one calls
// nothing that it does not know.
constexpr uint32_t kApiVersion = 24;
// The oldest release with all functions that the provider cannot do without.
constexpr uint32_t kOldestApi = 23;
constexpr uint32_t kApiWithHasShape = 24;
// From here on a provider may list hardware that ONNX Runtime did not find.
constexpr uint32_t kApiWithNewHardware = 24;
// From here on fused nodes of graphs inside nodes have names of their own.
constexpr uint32_t kApiWithNamesInside = 25;

enum class ErrorCode : int { fail = 1, invalid_argument = 2, not_implemented = 9, ep_fail = 11 };
enum class LogLevel : int { verbose, info, warning, error, fatal };
enum class DeviceKind : int { cpu, gpu, npu };
enum class MemoryKind : int { cpu, gpu };
enum class MemoryType : int { device = 0, host_accessible = 5 };
enum class AttributeKind : int { undefined, integer, integers, number, numbers, string, strings, graph, tensor };
constexpr int kOnnxTypeTensor = 1;
constexpr int kCompatibilityNotApplicable = 0;

struct ApiBase {
  const void* const* (*get_api)(uint32_t version) noexcept;
  const char* (*get_version)() noexcept;
};

// A function of a table: its place and its type.
template <std::size_t Place, class Function>
struct Slot;
template <std::size_t Place, class Answer, class... Args>
struct Slot<Place, Answer(Args...)> {
  static constexpr std::size_t place = Place;
  using Pointer = Answer (*)(Args...) noexcept;
};

using Size = std::size_t;

namespace api {
using CreateStatus = Slot<0, OrtStatus*(int code, const char* message)>;
using GetErrorMessage = Slot<2, const char*(const OrtStatus*)>;
using CastTypeInfoToTensorInfo = Slot<55, OrtStatus*(const OrtTypeInfo*, const OrtTensorTypeAndShapeInfo** out)>;
using GetOnnxTypeFromTypeInfo = Slot<56, OrtStatus*(const OrtTypeInfo*, int* out)>;
using GetTensorMutableData = Slot<51, OrtStatus*(OrtValue*, void** out)>;
using GetTensorElementType = Slot<60, OrtStatus*(const OrtTensorTypeAndShapeInfo*, int* out)>;
using GetDimensionsCount = Slot<61, OrtStatus*(const OrtTensorTypeAndShapeInfo*, Size* out)>;
using GetDimensions = Slot<62, OrtStatus*(const OrtTensorTypeAndShapeInfo*, int64_t* dims, Size count)>;
using GetSymbolicDimensions = Slot<63, OrtStatus*(const OrtTensorTypeAndShapeInfo*, const char** names, Size count)>;
using MemoryInfoGetId = Slot<72, OrtStatus*(const OrtMemoryInfo*, int* out)>;
using GetTensorTypeAndShape = Slot<65, OrtStatus*(const OrtValue*, OrtTensorTypeAndShapeInfo** out)>;
using KernelContextGetInput = Slot<90, OrtStatus*(const OrtKernelContext*, Size index, const OrtValue** out)>;
using KernelContextGetOutput =
    Slot<91, OrtStatus*(OrtKernelContext*, Size index, const int64_t* dims, Size count, OrtValue** out)>;
using ReleaseStatus = Slot<93, void(OrtStatus*)>;
using ReleaseMemoryInfo = Slot<94, void(OrtMemoryInfo*)>;
using ReleaseValue = Slot<96, void(OrtValue*)>;
using ReleaseTensorTypeAndShapeInfo = Slot<99, void(OrtTensorTypeAndShapeInfo*)>;
using KernelContextGetGpuComputeStream = Slot<193, OrtStatus*(const OrtKernelContext*, void** out)>;
using CreateOpAttr = Slot<211, OrtStatus*(const char* name, const void* data, int length, int kind, OrtOpAttr** out)>;
using ReleaseOpAttr = Slot<212, void(OrtOpAttr*)>;
using LoggerLogMessage = Slot<247, OrtStatus*(const OrtLogger*, int level, const char* message, const char* file,
                                              int line, const char* function)>;
using ReadOpAttr = Slot<272, OrtStatus*(const OrtOpAttr*, int kind, void* data, Size bytes, Size* needed)>;
using GetValueInfoName = Slot<289, OrtStatus*(const OrtValueInfo*, const char** out)>;
using GetValueInfoTypeInfo = Slot<290, OrtStatus*(const OrtValueInfo*, const OrtTypeInfo** out)>;
using GetModelEditorApi = Slot<291, const void* const*()>;
using CreateKeyValuePairs = Slot<295, void(OrtKeyValuePairs** out)>;
using AddKeyValuePair = Slot<296, void(OrtKeyValuePairs*, const char* key, const char* value)>;
using GetKeyValue = Slot<297, const char*(const OrtKeyValuePairs*, const char* key)>;
using GetKeyValuePairs =
    Slot<298, void(const OrtKeyValuePairs*, const char* const** keys, const char* const** values, Size* count)>;
using ReleaseKeyValuePairs = Slot<300, void(OrtKeyValuePairs*)>;
using HardwareDeviceType = Slot<307, int(const OrtHardwareDevice*)>;
using HardwareDeviceVendorId = Slot<308, uint32_t(const OrtHardwareDevice*)>;
using HardwareDeviceMetadata = Slot<311, const OrtKeyValuePairs*(const OrtHardwareDevice*)>;
using GetEpApi = Slot<317, const void* const*()>;
using GetTensorSizeInBytes = Slot<318, OrtStatus*(const OrtValue*, Size* out)>;
using CreateMemoryInfo = Slot<320, OrtStatus*(const char* name, int kind, uint32_t vendor, int32_t device, int type,
                                              Size alignment, int allocator, OrtMemoryInfo** out)>;
using MemoryInfoGetMemoryType = Slot<321, int(const OrtMemoryInfo*)>;
using ValueInfoGetInitializerValue = Slot<326, OrtStatus*(const OrtValueInfo*, const OrtValue** out)>;
using ValueInfoIsGraphOutput = Slot<330, OrtStatus*(const OrtValueInfo*, bool* out)>;
using ValueInfoIsConstantInitializer = Slot<331, OrtStatus*(const OrtValueInfo*, bool* out)>;
using GraphGetModelPath = Slot<334, OrtStatus*(const OrtGraph*, const char** out)>;
using GraphGetOnnxIrVersion = Slot<335, OrtStatus*(const OrtGraph*, int64_t* out)>;
using GraphGetNumOperatorSets = Slot<336, OrtStatus*(const OrtGraph*, Size* out)>;
using GraphGetOperatorSets =
    Slot<337, OrtStatus*(const OrtGraph*, const char** domains, int64_t* versions, Size count)>;
using GraphGetNumInputs = Slot<338, OrtStatus*(const OrtGraph*, Size* out)>;
using GraphGetNumNodes = Slot<344, OrtStatus*(const OrtGraph*, Size* out)>;
using GraphGetNodes = Slot<345, OrtStatus*(const OrtGraph*, const OrtNode** nodes, Size count)>;
using GraphGetParentNode = Slot<346, OrtStatus*(const OrtGraph*, const OrtNode** out)>;
using NodeGetName = Slot<349, OrtStatus*(const OrtNode*, const char** out)>;
using NodeGetOperatorType = Slot<350, OrtStatus*(const OrtNode*, const char** out)>;
using NodeGetDomain = Slot<351, OrtStatus*(const OrtNode*, const char** out)>;
using NodeGetNumInputs = Slot<353, OrtStatus*(const OrtNode*, Size* out)>;
using NodeGetInputs = Slot<354, OrtStatus*(const OrtNode*, const OrtValueInfo** inputs, Size count)>;
using NodeGetNumOutputs = Slot<355, OrtStatus*(const OrtNode*, Size* out)>;
using NodeGetOutputs = Slot<356, OrtStatus*(const OrtNode*, const OrtValueInfo** outputs, Size count)>;
using NodeGetNumImplicitInputs = Slot<357, OrtStatus*(const OrtNode*, Size* out)>;
using NodeGetImplicitInputs = Slot<358, OrtStatus*(const OrtNode*, const OrtValueInfo** inputs, Size count)>;
using NodeGetNumAttributes = Slot<359, OrtStatus*(const OrtNode*, Size* out)>;
using NodeGetAttributes = Slot<360, OrtStatus*(const OrtNode*, const OrtOpAttr** attributes, Size count)>;
using OpAttrGetTensorAttributeAsOrtValue = Slot<362, OrtStatus*(const OrtOpAttr*, OrtValue** out)>;
using OpAttrGetType = Slot<363, OrtStatus*(const OrtOpAttr*, int* out)>;
using OpAttrGetName = Slot<364, OrtStatus*(const OrtOpAttr*, const char** out)>;
using NodeGetNumSubgraphs = Slot<365, OrtStatus*(const OrtNode*, Size* out)>;
using NodeGetEpName = Slot<368, OrtStatus*(const OrtNode*, const char** out)>;
using GetTensorData = Slot<378, OrtStatus*(const OrtValue*, const void** out)>;
using GetSessionOptionsConfigEntries = Slot<379, OrtStatus*(const OrtSessionOptions*, OrtKeyValuePairs** out)>;
using SyncStreamGetHandle = Slot<384, void*(OrtSyncStream*)>;
using TensorTypeAndShapeHasShape = Slot<390, bool(const OrtTensorTypeAndShapeInfo*)>;  // from release 1.24 on
}  // namespace api

}  // namespace fusec::ort

struct OrtNodeFusionOptions {
  uint32_t version;
  bool drop_constant_initializers;  // constants are no inputs of the fused node
};

struct OrtEpFactory;

struct OrtAllocator {
  uint32_t version = fusec::ort::kApiVersion;
  void* (*alloc)(OrtAllocator*, std::size_t bytes) noexcept = nullptr;  // null: there is no memory
  void (*free)(OrtAllocator*, void* memory) noexcept = nullptr;
  const OrtMemoryInfo* (*info)(const OrtAllocator*) noexcept = nullptr;
  void* (*reserve)(OrtAllocator*, std::size_t bytes) noexcept = nullptr;  // for what a session keeps
  void* get_stats = nullptr;
  void* (*alloc_on_stream)(OrtAllocator*, std::size_t bytes, OrtSyncStream*) noexcept = nullptr;
  void* later[8] = {};
};

struct OrtDataTransferImpl {
  uint32_t version = fusec::ort::kApiVersion;
  void (*release)(OrtDataTransferImpl*) noexcept = nullptr;
  bool (*can_copy)(const OrtDataTransferImpl*, const OrtMemoryDevice* from,
                   const OrtMemoryDevice* to) noexcept = nullptr;
  // `streams`, or a stream, may be null: the copy is over when the call returns.
  OrtStatus* (*copy_tensors)(OrtDataTransferImpl*, const OrtValue** from, OrtValue** to, OrtSyncStream** streams,
                             std::size_t count) noexcept = nullptr;
  void* later[8] = {};
};

struct OrtSyncNotificationImpl {
  uint32_t version = fusec::ort::kApiVersion;
  void (*release)(OrtSyncNotificationImpl*) noexcept = nullptr;
  OrtStatus* (*activate)(OrtSyncNotificationImpl*) noexcept = nullptr;
  OrtStatus* (*wait_on_device)(OrtSyncNotificationImpl*, OrtSyncStream* waiting) noexcept = nullptr;
  OrtStatus* (*wait_on_host)(OrtSyncNotificationImpl*) noexcept = nullptr;
  void* later[8] = {};
};

struct OrtSyncStreamImpl {
  uint32_t version = fusec::ort::kApiVersion;
  void (*release)(OrtSyncStreamImpl*) noexcept = nullptr;
  void* (*get_handle)(OrtSyncStreamImpl*) noexcept = nullptr;
  OrtStatus* (*create_notification)(OrtSyncStreamImpl*, OrtSyncNotificationImpl** out) noexcept = nullptr;
  OrtStatus* (*flush)(OrtSyncStreamImpl*) noexcept = nullptr;
  OrtStatus* (*on_session_run_end)(OrtSyncStreamImpl*) noexcept = nullptr;
  void* later[8] = {};
};

// Functions that ONNX Runtime calls. Those that are void* stay null: its documentation says that they may.
struct OrtEp {
  uint32_t version = fusec::ort::kApiVersion;
  const char* (*get_name)(const OrtEp*) noexcept = nullptr;
  OrtStatus* (*get_capability)(OrtEp*, const OrtGraph*, OrtEpGraphSupportInfo*) noexcept = nullptr;
  OrtStatus* (*compile)(OrtEp*, const OrtGraph** graphs, const OrtNode** fused, std::size_t count,
                        struct OrtNodeComputeInfo** infos, OrtNode** context_nodes) noexcept = nullptr;
  void (*release_node_compute_infos)(OrtEp*, struct OrtNodeComputeInfo** infos, std::size_t count) noexcept = nullptr;
  void* get_preferred_data_layout = nullptr;
  void* should_convert_data_layout_for_op = nullptr;
  void* set_dynamic_options = nullptr;
  void* on_run_start = nullptr;
  void* on_run_end = nullptr;
  void* create_allocator = nullptr;
  void* create_sync_stream_for_device = nullptr;
  void* get_compiled_model_compatibility_info = nullptr;  // the last of 1.23
  void* get_kernel_registry = nullptr;
  OrtStatus* (*is_concurrent_run_supported)(OrtEp*, bool* out) noexcept = nullptr;
  void* later[16] = {};  // for a release that would look further than it promises
};

struct OrtNodeComputeInfo {
  uint32_t version = fusec::ort::kApiVersion;
  OrtStatus* (*create_state)(OrtNodeComputeInfo*, OrtNodeComputeContext*, void** state) noexcept = nullptr;
  OrtStatus* (*compute)(OrtNodeComputeInfo*, void* state, OrtKernelContext*) noexcept = nullptr;
  void (*release_state)(OrtNodeComputeInfo*, void* state) noexcept = nullptr;
};

struct OrtEpFactory {
  uint32_t version = fusec::ort::kApiVersion;
  const char* (*get_name)(const OrtEpFactory*) noexcept = nullptr;
  const char* (*get_vendor)(const OrtEpFactory*) noexcept = nullptr;
  OrtStatus* (*get_supported_devices)(OrtEpFactory*, const OrtHardwareDevice* const* devices, std::size_t count,
                                      OrtEpDevice** out, std::size_t most, std::size_t* out_count) noexcept = nullptr;
  OrtStatus* (*create_ep)(OrtEpFactory*, const OrtHardwareDevice* const* devices,
                          const OrtKeyValuePairs* const* metadata, std::size_t count, const OrtSessionOptions*,
                          const OrtLogger*, OrtEp** out) noexcept = nullptr;
  void (*release_ep)(OrtEpFactory*, OrtEp*) noexcept = nullptr;
  uint32_t (*get_vendor_id)(const OrtEpFactory*) noexcept = nullptr;
  const char* (*get_version)(const OrtEpFactory*) noexcept = nullptr;
  OrtStatus* (*validate_compiled_model)(OrtEpFactory*, const OrtHardwareDevice* const* devices, std::size_t count,
                                        const char* info, int* compatibility) noexcept = nullptr;
  OrtStatus* (*create_allocator)(OrtEpFactory*, const OrtMemoryInfo*, const OrtKeyValuePairs*,
                                 OrtAllocator** out) noexcept = nullptr;
  void (*release_allocator)(OrtEpFactory*, OrtAllocator*) noexcept = nullptr;
  OrtStatus* (*create_data_transfer)(OrtEpFactory*, OrtDataTransferImpl** out) noexcept = nullptr;
  bool (*is_stream_aware)(const OrtEpFactory*) noexcept = nullptr;
  OrtStatus* (*create_sync_stream)(OrtEpFactory*, const OrtMemoryDevice*, const OrtKeyValuePairs*,
                                   OrtSyncStreamImpl** out) noexcept = nullptr;  // the last of 1.23
  void* later[16] = {};
};

namespace fusec::ort {

namespace ep_api {
using CreateEpDevice = Slot<0, OrtStatus*(OrtEpFactory*, const OrtHardwareDevice*, const OrtKeyValuePairs* metadata,
                                          const OrtKeyValuePairs* options, OrtEpDevice** out)>;
using AddNodesToFuse =
    Slot<2, OrtStatus*(OrtEpGraphSupportInfo*, const OrtNode* const* nodes, Size count, const OrtNodeFusionOptions*)>;
using EpDeviceAddAllocatorInfo = Slot<5, OrtStatus*(OrtEpDevice*, const OrtMemoryInfo*)>;
using ValueGetMemoryDevice = Slot<7, const OrtMemoryDevice*(const OrtValue*)>;
using MemoryDeviceGetDeviceType = Slot<9, int(const OrtMemoryDevice*)>;
using MemoryDeviceGetMemoryType = Slot<10, int(const OrtMemoryDevice*)>;
using MemoryDeviceGetVendorId = Slot<11, uint32_t(const OrtMemoryDevice*)>;
using MemoryDeviceGetDeviceId = Slot<12, uint32_t(const OrtMemoryDevice*)>;
// From release 1.24 on:
using CreateHardwareDevice = Slot<16, OrtStatus*(int kind, uint32_t vendor, uint32_t device, const char* vendor_name,
                                                 const OrtKeyValuePairs* metadata, OrtHardwareDevice** out)>;
using ReleaseHardwareDevice = Slot<17, void(OrtHardwareDevice*)>;
}  // namespace ep_api

namespace editor_api {
using CreateNode = Slot<6, OrtStatus*(const char* op, const char* domain, const char* name, const char* const* inputs,
                                      Size input_count, const char* const* outputs, Size output_count,
                                      OrtOpAttr** attributes, Size attribute_count, OrtNode** out)>;
}  // namespace editor_api

}  // namespace fusec::ort
