// SPDX-License-Identifier: Apache-2.0
// A libcupti that a test tells what a GPU did. It writes records with the sizes and offsets of CUPTI's headers of CUDA
// 13.5 (kernel 248 bytes, copy 112, fill 104) or 12.9 (208, 96, 88), and reads them back by these sizes alone.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace {

using Requested = void (*)(uint8_t**, std::size_t*, std::size_t*);
using Completed = void (*)(void*, uint32_t, uint8_t*, std::size_t, std::size_t);
using Add = void (*)(int kind, const char* name, int64_t begin, int64_t end, uint32_t stream);

Requested requested = nullptr;
Completed completed = nullptr;
void (*source)(Add) = nullptr;
uint32_t version = 130500;
int32_t enable_result = 0;
int enabled = 0;

struct Pending {
  int kind;
  const char* name;
  uint64_t begin, end;
  uint32_t stream;
};
std::vector<Pending> pending;

// CUPTI's clock is not the steady clock.
constexpr int64_t kClock = 5'000'000'000;

std::size_t size_of(int kind) {
  const bool is_old = version < 130000;
  if (kind == 10) return is_old ? 208 : 248;
  if (kind == 1) return is_old ? 96 : 112;
  return is_old ? 88 : 104;
}

template <class T>
void put(uint8_t* record, std::size_t offset, T value) {
  std::memcpy(record + offset, &value, sizeof(T));
}

void write(uint8_t* record, const Pending& p) {
  std::memset(record, 0xab, size_of(p.kind));
  put<int32_t>(record, 0, p.kind);
  put<uint64_t>(record, 16, p.begin);
  put<uint64_t>(record, 24, p.end);
  if (p.kind == 10) {
    put<uint16_t>(record, 6, 42);
    put<uint32_t>(record, 40, 0);
    put<uint32_t>(record, 48, p.stream);
    put<uint32_t>(record, 84, 16);
    put<const char*>(record, 104, p.name);
  } else {
    put<uint64_t>(record, 8, 4096);
    put<uint32_t>(record, 32, 0);
    put<uint32_t>(record, 40, p.stream);
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void fake_cupti_reset(uint32_t as_version, int32_t result_of_enable, void (*from)(Add)) {
  version = as_version;
  enable_result = result_of_enable;
  source = from;
  pending.clear();
}
int fake_cupti_enabled() { return enabled; }

int32_t cuptiActivityRegisterCallbacks(Requested r, Completed c) {
  requested = r;
  completed = c;
  return 0;
}
int32_t cuptiActivityEnable(int32_t) {
  if (enable_result == 0) ++enabled;
  return enable_result;
}
int32_t cuptiActivityDisable(int32_t) {
  if (enabled > 0) --enabled;
  return 0;
}
int32_t cuptiGetTimestamp(uint64_t* timestamp) {
  *timestamp = static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
          .count() +
      kClock);
  return 0;
}
int32_t cuptiGetVersion(uint32_t* to) {
  *to = version;
  return 0;
}
int32_t cuptiGetResultString(int32_t, const char** text) {
  *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
  return 0;
}
int32_t cuptiActivityGetNextRecord(uint8_t* buffer, std::size_t valid, uint8_t** record) {
  uint8_t* next = buffer;
  if (*record != nullptr) {
    int32_t kind = 0;
    std::memcpy(&kind, *record, sizeof(kind));
    next = *record + size_of(kind);
  }
  if (next >= buffer + valid) return 12;
  *record = next;
  return 0;
}

// Records come in several buffers, as they do from CUPTI.
int32_t cuptiActivityFlushAll(uint32_t) {
  if (source != nullptr) {
    source([](int kind, const char* name, int64_t begin, int64_t end, uint32_t stream) {
      pending.push_back(
          {kind, name, static_cast<uint64_t>(begin + kClock), static_cast<uint64_t>(end + kClock), stream});
    });
  }
  constexpr std::size_t kPerBuffer = 3;
  for (std::size_t first = 0; first < pending.size(); first += kPerBuffer) {
    uint8_t* buffer = nullptr;
    std::size_t size = 0, most = 0, used = 0;
    requested(&buffer, &size, &most);
    for (std::size_t i = first; i < pending.size() && i < first + kPerBuffer; ++i) {
      write(buffer + used, pending[i]);
      used += size_of(pending[i].kind);
    }
    completed(nullptr, 0, buffer, size, used);
  }
  pending.clear();
  return 0;
}
}
#pragma GCC visibility pop
