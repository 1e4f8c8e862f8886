// SPDX-License-Identifier: Apache-2.0
// The accesses of the threads of a block, or of the blocks of a cluster, to shared memory since their last barriers,
// for the evaluator of lowered kernels.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "ir/kernel/kernel.h"

namespace fusec::ir {

class SharedAccesses {
 public:
  explicit SharedAccesses(std::size_t buffers) : elements_(buffers) {}

  // `block`: threads of each block.
  void begin(std::size_t threads, std::size_t block) {
    block_ = static_cast<int>(block);
    block_syncs_ = 0;
    warp_syncs_.assign((threads + 31) / 32, 0);
    mailboxes_.clear();
    next_sync();
  }
  void allocate(BufferId buffer, int64_t elements) {
    elements_[buffer].assign(static_cast<std::size_t>(elements), {});
    mailboxes_.erase(buffer);
  }
  // The barrier of all threads: those that have arrived wait for the others later, at `sync`. What they access between
  // the two has no order with what other blocks do.
  void arrive() { arrived_ = true; }
  void sync() { next_sync(); }
  // Each block's own barrier.
  void sync_blocks() { ++block_syncs_; }
  void sync_warp(int warp) { ++warp_syncs_[static_cast<std::size_t>(warp)]; }

  // Notes an access. Returns another thread that has accessed the element with no sync since, if one of the two writes.
  std::optional<int> add(BufferId buffer, int64_t element, int thread, bool write) {
    Element& at = elements_[buffer][static_cast<std::size_t>(element)];
    if (at.syncs < syncs_) at = {};
    const int64_t warp_syncs = warp_syncs_[static_cast<std::size_t>(thread / 32)];
    const Access own{thread, write, kNone, syncs_ + (arrived_ ? 1 : 0), block_syncs_, warp_syncs};
    if (write || at.written) {
      for (uint32_t i = at.first; i != kNone; i = accesses_[i].next) {
        const Access& a = accesses_[i];
        if (a.syncs < syncs_ || a.thread == thread || !(a.write || write)) continue;
        const bool synced = (a.thread / 32 == thread / 32 && a.warp_syncs != warp_syncs) ||
                            (a.thread / block_ == thread / block_ && a.block_syncs != block_syncs_);
        if (!synced) return a.thread;
      }
    }
    if (at.last != kNone && same(accesses_[at.last], own)) return std::nullopt;
    (at.last == kNone ? at.first : accesses_[at.last].next) = static_cast<uint32_t>(accesses_.size());
    at.last = static_cast<uint32_t>(accesses_.size());
    at.written |= write;
    at.syncs = own.syncs;
    keeps_ |= arrived_;
    accesses_.push_back(own);
    return std::nullopt;
  }

  // Notes an access to a mailbox with so many elements in each block, by a thread of the block. Returns what is wrong.
  const char* add_to_mailbox(BufferId buffer, int64_t element, int64_t of_block, int64_t block, bool write) {
    Mailbox& box = mailboxes_[buffer];
    const auto at = static_cast<std::size_t>(element);
    box.stored.resize(elements_[buffer].size());
    box.loaded.resize(elements_[buffer].size() / static_cast<std::size_t>(of_block));
    if (write && box.stored[at]) return "an element of a mailbox is stored twice by";
    if (write) return box.stored[at] = true, nullptr;
    if (element / of_block != block) return "the mailbox of another block is read by";
    for (int64_t i = block * of_block; i < (block + 1) * of_block; ++i)
      if (!box.stored[static_cast<std::size_t>(i)]) return "what a mailbox lacks is waited for by";
    box.loaded[static_cast<std::size_t>(block)] = true;
    return nullptr;
  }
  // Whether some block has not waited for what others store to its mailbox.
  bool has_unread_mailbox() const {
    for (const auto& [buffer, box] : mailboxes_)
      if (std::find(box.loaded.begin(), box.loaded.end(), false) != box.loaded.end()) return true;
    return false;
  }

 private:
  struct Mailbox {
    std::vector<bool> stored, loaded;  // by element; by block
  };
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Access {
    int thread;
    bool write;
    uint32_t next;                           // of the same element
    int64_t syncs, block_syncs, warp_syncs;  // the barriers that came before it; an arrival counts as one
  };
  struct Element {
    uint32_t first = kNone, last = kNone;  // of its accesses
    bool written = false;                  // by one of them
    int64_t syncs = 0;                     // of the last one
  };
  static bool same(const Access& a, const Access& b) {
    return a.thread == b.thread && a.write == b.write && a.syncs == b.syncs && a.block_syncs == b.block_syncs &&
           a.warp_syncs == b.warp_syncs;
  }
  // Accesses before the barrier are forgotten at the next access to their element, unless they came after an arrival.
  void next_sync() {
    ++syncs_;
    arrived_ = false;
    if (!keeps_) accesses_.clear();
    keeps_ = false;
  }

  IdVector<BufferId, std::vector<Element>> elements_;
  std::vector<Access> accesses_;
  bool keeps_ = false;  // some of them came after an arrival and matter behind the barrier
  int64_t syncs_ = 0, block_syncs_ = 0;
  bool arrived_ = false;
  int block_ = 1;
  std::vector<int64_t> warp_syncs_;
  std::map<BufferId, Mailbox> mailboxes_;
};

}  // namespace fusec::ir
