// SPDX-License-Identifier: Apache-2.0
#include "ir/support/temporary_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>

namespace fusec::ir {
namespace {

constexpr std::size_t kSlots = 64;
constexpr std::size_t kMaxBytes = 4096;  // PATH_MAX

struct Slot {
  enum State : int { empty, filling, noted };
  std::atomic<int> state{empty};
  int folder = -1;
  std::array<char, kMaxBytes> name{};
};

// Of the process, as its signals are; constant-initialized, so that a handler finds it at any time.
constinit std::array<Slot, kSlots> g_slots;

}  // namespace

TemporaryFile::TemporaryFile(int folder, const std::string& name) : slot_(kSlots) {
  if (name.size() >= kMaxBytes) return;
  for (std::size_t i = 0; i < kSlots && slot_ == kSlots; ++i) {
    int expected = Slot::empty;
    if (g_slots[i].state.compare_exchange_strong(expected, Slot::filling)) slot_ = i;
  }
  if (slot_ == kSlots) return;
  Slot& slot = g_slots[slot_];
  slot.folder = folder;
  slot.name[name.copy(slot.name.data(), name.size())] = '\0';
  slot.state.store(Slot::noted);
}

TemporaryFile::~TemporaryFile() {
  if (slot_ < kSlots) g_slots[slot_].state.store(Slot::empty);
}

void remove_temporary_files() {
  for (const int folders : {0, AT_REMOVEDIR})  // which are empty by then
    for (const Slot& slot : g_slots)
      if (slot.state.load() == Slot::noted) (void)unlinkat(slot.folder, slot.name.data(), folders);
}

}  // namespace fusec::ir
