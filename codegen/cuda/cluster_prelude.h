// SPDX-License-Identifier: Apache-2.0
// The texts of the CUDA prelude for clusters of thread blocks.
#pragma once

namespace fusec::codegen::cuda {

// The barrier of a cluster of thread blocks, in two halves. It releases and acquires memory.
inline constexpr const char* kArriveCluster = R"(FUNCTION void arrive_cluster() {
  asm volatile("barrier.cluster.arrive.aligned;" : : : "memory");
}
)";

inline constexpr const char* kWaitCluster = R"(FUNCTION void wait_cluster() {
  asm volatile("barrier.cluster.wait.aligned;" : : : "memory");
}
)";

// The same first half, of a block that has not accessed memory and only opened mailboxes.
inline constexpr const char* kBeginCluster = R"(FUNCTION void begin_cluster() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" : : : "memory");
}
)";

// A mailbox is a barrier object that counts the bytes of an array. One thread of the block opens it; mail() stores
// to the array of another block and counts there; await_mail() returns when all bytes have come.
inline constexpr const char* kOpenMailbox = R"(FUNCTION void open_mailbox(u64* mailbox, u32 bytes) {
  if (threadIdx.x != 0) return;
  const u32 at = (u32)__cvta_generic_to_shared(mailbox);
  asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" : : "r"(at) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" : : "r"(at), "r"(bytes) : "memory");
}
)";

inline constexpr const char* kMailPiece =
    R"(FUNCTION u32 in_cluster(const void* own, u32 block) {
  u32 out;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(out) : "r"((u32)__cvta_generic_to_shared(own)), "r"(block));
  return out;
}
FUNCTION void mail_piece(void* own, u32 piece, u64* mailbox, u32 block) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" )"
    R"(: : "r"(in_cluster(own, block)), "r"(piece), "r"(in_cluster(mailbox, block)) : "memory");
}
FUNCTION void mail_piece(void* own, u64 piece, u64* mailbox, u32 block) {
  asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];" )"
    R"(: : "r"(in_cluster(own, block)), "l"(piece), "r"(in_cluster(mailbox, block)) : "memory");
}
)";

inline constexpr const char* kMail =
    R"(template <class T> FUNCTION void mail(T* own, T value, u64* mailbox, u32 block) {
  if constexpr (sizeof(T) == 4) {
    Pieces<u32, T> p;
    p.lanes[0] = value;
    mail_piece(own, p.piece, mailbox, block);
  } else {
    Pieces<u64, T> p;
    p.lanes[0] = value;
    mail_piece(own, p.piece, mailbox, block);
  }
}
)";

inline constexpr const char* kAwaitMail = R"(FUNCTION void await_mail(u64* mailbox) {
  const u32 at = (u32)__cvta_generic_to_shared(mailbox);
  u32 done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }" )"
                                          R"(: "=r"(done) : "r"(at) : "memory");
  } while (!done);
}
)";

// The same place in the shared memory of another block.
inline constexpr const char* kInBlock = R"(template <class T> FUNCTION T* in_block(T* own, u32 block) {
  T* out;
  asm("mapa.u64 %0, %1, %2;" : "=l"(out) : "l"(own), "r"(block));
  return out;
}
)";

}  // namespace fusec::codegen::cuda
