// SPDX-License-Identifier: Apache-2.0
// Declares the few functions and records of CUPTI that are used, because its headers are not needed to build fusec.
// Records of newer versions are longer, and begin as those here do in all versions that are accepted.

#include "runtime/device/cuda/cupti.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>

#include "ir/support/shared_library.h"

// Enums of CUPTI are int32_t here.
extern "C" {
using FusecCuptiRequested = void (*)(uint8_t** buffer, std::size_t* size, std::size_t* most_records);
using FusecCuptiCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, std::size_t size,
                                     std::size_t valid);
int32_t cuptiActivityRegisterCallbacks(FusecCuptiRequested requested, FusecCuptiCompleted completed);
int32_t cuptiActivityEnable(int32_t kind);
int32_t cuptiActivityDisable(int32_t kind);
int32_t cuptiActivityFlushAll(uint32_t flag);
int32_t cuptiActivityGetNextRecord(uint8_t* buffer, std::size_t valid, uint8_t** record);
int32_t cuptiGetTimestamp(uint64_t* timestamp);
int32_t cuptiGetVersion(uint32_t* version);
int32_t cuptiGetResultString(int32_t result, const char** text);
}

namespace fusec::runtime::cuda {
namespace {

#define FUSEC_CUPTI(NEED, WANT)                            \
  NEED(register_callbacks, cuptiActivityRegisterCallbacks) \
  NEED(enable, cuptiActivityEnable)                        \
  NEED(disable, cuptiActivityDisable)                      \
  NEED(flush, cuptiActivityFlushAll)                       \
  NEED(next_record, cuptiActivityGetNextRecord)            \
  NEED(timestamp, cuptiGetTimestamp) NEED(version, cuptiGetVersion) WANT(result_string, cuptiGetResultString)
FUSEC_FUNCTION_TABLE(CuptiFunctions, FUSEC_CUPTI);

// CUPTI's versions whose records begin as below: of CUDA 12.0 to 12.9, and of CUDA 13.
struct VersionRange {
  uint32_t first, last;
};
constexpr VersionRange kVersions[] = {{18, 28}, {130000, 139999}};

constexpr int32_t kSuccess = 0, kNoMoreRecords = 12;
constexpr int32_t kMemcpy = 1, kMemset = 2, kConcurrentKernel = 10;  // kinds of activities
constexpr int32_t kKinds[] = {kMemcpy, kMemset, kConcurrentKernel};
constexpr uint32_t kForced = 1;  // of a flush: records that are not complete, too

struct KernelRecord {
  int32_t kind;
  uint8_t cache_config, shared_config;
  uint16_t registers;
  int32_t cache_requested, cache_executed;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared, dynamic_shared;
  uint32_t local_per_thread, local_total;
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
};
static_assert(offsetof(KernelRecord, registers) == 6 && offsetof(KernelRecord, start) == 16);
static_assert(offsetof(KernelRecord, stream) == 48 && offsetof(KernelRecord, local_per_thread) == 84);
static_assert(offsetof(KernelRecord, name) == 104 && sizeof(KernelRecord) == 112);

// Of a copy and of a fill, which differ in `what` alone.
struct TransferRecord {
  int32_t kind;
  uint8_t what[4];
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
};
static_assert(offsetof(TransferRecord, bytes) == 8 && offsetof(TransferRecord, stream) == 40);
static_assert(sizeof(TransferRecord) == 48);

int64_t steady_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What CUPTI's callbacks, which have no argument of ours, write to.
struct Collected {
  std::mutex mutex;
  const CuptiFunctions* functions = nullptr;
  std::vector<DeviceWork> work;  // times are CUPTI's
  std::string fault;             // why records are missing
};
Collected& collected() {
  static Collected all;
  return all;
}
std::atomic<bool> recorder_lives{false};

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

void give_buffer(uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(8, kBufferBytes));
  *size = *buffer != nullptr ? kBufferBytes : 0;
  *most_records = 0;  // as many as fit
}

template <class Record>
bool read_record(Record& to, const uint8_t* from, const uint8_t* end) {
  if (end - from < static_cast<std::ptrdiff_t>(sizeof(Record))) return false;
  std::memcpy(&to, from, sizeof(Record));
  return to.end >= to.start;
}

// False: the record is not as expected.
bool add_record(const uint8_t* record, const uint8_t* end, std::vector<DeviceWork>& to) {
  int32_t kind = 0;
  if (end - record < static_cast<std::ptrdiff_t>(sizeof(kind))) return false;
  std::memcpy(&kind, record, sizeof(kind));
  DeviceWork work;
  if (kind == kConcurrentKernel) {
    KernelRecord k;
    if (!read_record(k, record, end) || k.name == nullptr) return false;
    work = {DeviceWork::Kind::kernel,
            k.name,
            static_cast<int64_t>(k.start),
            static_cast<int64_t>(k.end),
            k.device,
            k.stream,
            k.registers,
            k.local_per_thread,
            0};
  } else if (kind == kMemcpy || kind == kMemset) {
    TransferRecord t;
    if (!read_record(t, record, end)) return false;
    work = {kind == kMemcpy ? DeviceWork::Kind::copy : DeviceWork::Kind::fill,
            "",
            static_cast<int64_t>(t.start),
            static_cast<int64_t>(t.end),
            t.device,
            t.stream,
            0,
            0,
            static_cast<int64_t>(t.bytes)};
  } else {
    return true;
  }
  if (work.begin != 0) to.push_back(std::move(work));  // 0: CUPTI has no time of it
  return true;
}

void take_buffer(void*, uint32_t, uint8_t* buffer, std::size_t, std::size_t valid) {
  Collected& all = collected();
  const std::lock_guard lock(all.mutex);
  try {
    uint8_t* record = nullptr;
    int32_t result = kSuccess;
    while (all.functions != nullptr && valid > 0 &&
           (result = all.functions->next_record(buffer, valid, &record)) == kSuccess) {
      if (!add_record(record, buffer + valid, all.work)) all.fault = "CUPTI has records of another form";
    }
    if (result != kSuccess && result != kNoMoreRecords) all.fault = "CUPTI's records cannot be read";
  } catch (const std::bad_alloc&) {
  }
  std::free(buffer);
}

Status cupti_failed(const CuptiFunctions& functions, int32_t result, const char* call) {
  const char* text = nullptr;
  if (functions.result_string != nullptr) (void)functions.result_string(result, &text);
  return Status(StatusCode::device, std::string(call) + ": " + (text != nullptr ? text : "error ") +
                                        (text != nullptr ? "" : std::to_string(result)));
}

class Recorder final : public WorkRecorder {
 public:
  explicit Recorder(const CuptiFunctions& functions) : functions_(functions) {}
  ~Recorder() override {
    for (const int32_t kind : kKinds) (void)functions_.disable(kind);
    (void)functions_.flush(kForced);
    Collected& all = collected();
    const std::lock_guard lock(all.mutex);
    all.functions = nullptr;
    all.work.clear();
    recorder_lives = false;
  }

  Status start() {
    Collected& all = collected();
    {
      const std::lock_guard lock(all.mutex);
      all.functions = &functions_;
      all.work.clear();
      all.fault.clear();
    }
    if (const int32_t r = functions_.register_callbacks(give_buffer, take_buffer); r != kSuccess)
      return cupti_failed(functions_, r, "cuptiActivityRegisterCallbacks");
    for (const int32_t kind : kKinds) {
      if (const int32_t r = functions_.enable(kind); r != kSuccess)
        return cupti_failed(functions_, r, "cuptiActivityEnable");
    }
    return {};
  }

  Result<std::vector<DeviceWork>> take() override {
    if (const int32_t r = functions_.flush(kForced); r != kSuccess)
      return cupti_failed(functions_, r, "cuptiActivityFlushAll");
    uint64_t theirs = 0;
    const int64_t before = steady_ns();
    if (const int32_t r = functions_.timestamp(&theirs); r != kSuccess)
      return cupti_failed(functions_, r, "cuptiGetTimestamp");
    const int64_t offset = before + (steady_ns() - before) / 2 - static_cast<int64_t>(theirs);
    std::vector<DeviceWork> work;
    {
      Collected& all = collected();
      const std::lock_guard lock(all.mutex);
      if (!all.fault.empty()) {
        return Status(StatusCode::unsupported, all.fault + "; FUSEC_HIDE_LIBRARIES=cupti measures without it");
      }
      work = std::move(all.work);
      all.work.clear();
    }
    for (DeviceWork& one : work) {
      one.begin += offset;
      one.end += offset;
    }
    std::stable_sort(work.begin(), work.end(),
                     [](const DeviceWork& a, const DeviceWork& b) { return a.begin < b.begin; });
    return work;
  }

 private:
  const CuptiFunctions functions_;
};

}  // namespace

Result<std::unique_ptr<WorkRecorder>> WorkRecorder::start() {
  FUSEC_ASSIGN(const SharedLibrary library, open_nvidia_library(kCupti));
  FUSEC_ASSIGN(const CuptiFunctions functions,
               load_functions<CuptiFunctions>(library, "CUPTI of CUDA 12.0 or newer is needed"));
  uint32_t version = 0;
  if (const int32_t r = functions.version(&version); r != kSuccess)
    return cupti_failed(functions, r, "cuptiGetVersion");
  if (std::none_of(std::begin(kVersions), std::end(kVersions),
                   [&](const VersionRange& range) { return range.first <= version && version <= range.last; })) {
    return Status(StatusCode::unsupported, library.path() + " is version " + std::to_string(version) +
                                               " of CUPTI; known are those of CUDA 12 and 13");
  }
  if (recorder_lives.exchange(true)) {
    return Status(StatusCode::unsupported, "another profile of this process uses CUPTI at this time");
  }
  auto recorder = std::make_unique<Recorder>(functions);
  FUSEC_TRY(recorder->start());
  return std::unique_ptr<WorkRecorder>(std::move(recorder));
}

}  // namespace fusec::runtime::cuda
