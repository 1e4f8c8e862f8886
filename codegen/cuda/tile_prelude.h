// SPDX-License-Identifier: Apache-2.0
// The text of the CUDA prelude for products of tiles by the warpgroup instructions of sm_90.
#pragma once

namespace fusec::codegen::cuda {

// It stands behind multiply_step, the instruction for N columns of the type (codegen/cuda/tiles.cpp).
//
// Tiles<M, N, S> streams the factors of tiles of 64 M rows and N columns through S stages of shared memory, in chunks
// of kTerms terms. One warpgroup of 128 threads fills stages, and two multiply in turns: while one has its instructions
// on the tensor cores, the other one computes what follows its last product. A stage holds 64 M rows of the first
// factor and N of the second one, 128 bytes each, of which the 16-byte piece c of row r lies at c xor (r mod 8): the
// swizzle of 128 bytes that the descriptors name. Its barrier `full` counts the 128 threads whose copies have come,
// `empty` the four warps that have read it.
inline constexpr const char* kTiles = R"(#define MEMBER __device__ __forceinline__
FUNCTION u32 shared_address(const void* at) { return (u32)__cvta_generic_to_shared(at); }
FUNCTION void open_barrier(u32 barrier, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" : : "r"(barrier), "r"(count) : "memory");
}
FUNCTION void arrive_at(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" : : "r"(barrier) : "memory");
}
FUNCTION void await_barrier(u32 barrier, u32 parity) {
  u32 done;
  do {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(barrier), "r"(parity) : "memory");
  } while (!done);
}
// 16 bytes to shared memory, zeros where `exists` does not hold.
FUNCTION void copy_piece(u32 to, u64 from, bool exists) {
  asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16, %2;"
               : : "r"(to), "l"(from), "r"(exists ? 16 : 0) : "memory");
}
FUNCTION u64 plus_product(u64 at, u32 step, u32 count) {
  asm("mad.wide.u32 %0, %1, %2, %0;" : "+l"(at) : "r"(step), "r"(count));
  return at;
}
// Rows of 128 bytes, swizzled, in groups of 8 that are 1024 bytes apart.
FUNCTION u64 describe_rows(u32 at) { return (u64)((at & 0x3ffff) >> 4) | 1ull << 16 | 64ull << 32 | 1ull << 62; }

template <int M, int N, int S, bool kBf16> struct Tiles {
  static constexpr int kTerms = 64, kFillers = 128, kRowsAtOnce = kFillers / 8;
  static constexpr u32 kFirst = 64 * M * 128, kStage = kFirst + N * 128;
  u32 stages, full, empty, turns;  // addresses in shared memory
  u32 group, stage, parity, turn;

  // All threads of the block come here. `memory` begins at a multiple of 1024 bytes and has S stages, then 2 S + 2
  // barriers of 8 bytes.
  MEMBER Tiles(unsigned char* memory, u32 warpgroup, int terms) {
    stages = shared_address(memory), full = stages + S * kStage, empty = full + 8 * S, turns = empty + 8 * S;
    group = warpgroup;
    if (threadIdx.x == 0) {
      for (int s = 0; s < S; ++s) open_barrier(full + 8 * s, kFillers), open_barrier(empty + 8 * s, 4);
      open_barrier(turns, 4), open_barrier(turns + 8, 4);
      asm volatile("fence.mbarrier_init.release.cluster;" : : : "memory");
    }
    __syncthreads();
    const u32 chunks = group == 1 ? (terms + kTerms - 1) / kTerms : 0;
    stage = chunks % S, parity = group == 2 ? 1 : chunks / S & 1, turn = group ^ 1;
  }
  MEMBER void next_stage() {
    if (++stage == S) stage = 0, parity ^= 1;
  }

  // The warpgroup that fills leaves registers to those that multiply, where sums take more than the 168 that a thread
  // of three warpgroups can have. The code then needs all of these, so that there are 168 to share when it begins.
  static constexpr bool kShares = M * N / 2 > 168;
  MEMBER void begin_filling() {
    if constexpr (kShares) asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
  }
  MEMBER void begin_multiplying() {
    if constexpr (kShares) asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  }
  MEMBER void end_filling() { asm volatile("cp.async.wait_all;" : : : "memory"); }

  MEMBER void fill(const u16* a, u32 a_pitch, int rows, const u16* b, u32 b_pitch, int columns, int terms) {
    const int thread = threadIdx.x % kFillers, row = thread / 8, piece = thread % 8;
    const u32 to = stages + row * 128 + ((piece ^ (row & 7)) << 4);
    u64 from_a = (u64)a + ((u64)(u32)row * a_pitch + piece * 8) * 2;
    u64 from_b = (u64)b + ((u64)(u32)row * b_pitch + piece * 8) * 2;
    const u32 step_a = a_pitch * (2 * kRowsAtOnce), step_b = b_pitch * (2 * kRowsAtOnce);
    rows -= row, columns -= row;
    int left = terms - piece * 8;
    const int chunks = (terms + kTerms - 1) / kTerms;
#pragma unroll 1
    for (int chunk = 0; chunk < chunks; ++chunk) {
      await_barrier(empty + 8 * stage, parity);
      const u32 at = to + stage * kStage;
      const int rows_left = left > 0 ? rows : 0, columns_left = left > 0 ? columns : 0;
#pragma unroll
      for (int i = 0; i < 64 * M; i += kRowsAtOnce)
        copy_piece(at + i * 128, plus_product(from_a, step_a, i / kRowsAtOnce), i < rows_left);
#pragma unroll
      for (int i = 0; i < N; i += kRowsAtOnce)
        if (N % kRowsAtOnce == 0 || i + row < N)
          copy_piece(at + kFirst + i * 128, plus_product(from_b, step_b, i / kRowsAtOnce), i < columns_left);
      from_a += 2 * kTerms, from_b += 2 * kTerms, left -= kTerms;
      asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" : : "r"(full + 8 * stage) : "memory");
      next_stage();
    }
  }

  // The sums of one tile. Each of the two warpgroups takes every second tile of the block. Nothing is between the loop
  // and the wait behind it: else ptxas may move uses of the sums in front of the wait, and then make every instruction
  // wait for the one before it.
  MEMBER void multiply(float (&sums)[M * N / 2], const u16*, u32, int, const u16*, u32, int, int terms) {
    const bool first_lane = threadIdx.x % 32 == 0;
    const int chunks = (terms + kTerms - 1) / kTerms;
#pragma unroll
    for (int i = 0; i < M * N / 2; ++i) sums[i] = 0;  // else their registers would not be free behind the last product
    await_barrier(turns + 8 * group, turn);
    turn ^= 1;
    u32 read = 0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
      await_barrier(full + 8 * stage, parity);
      asm volatile("fence.proxy.async.shared::cta;" : : : "memory");
      const u32 at = stages + stage * kStage;
      const u64 a = describe_rows(at), b = describe_rows(at + kFirst);
      asm volatile("wgmma.fence.sync.aligned;" : : : "memory");
#pragma unroll
      for (int k = 0; k < kTerms / 16; ++k)
#pragma unroll
        for (int m = 0; m < M; ++m) multiply_step(sums + m * (N / 2), a + (m * 512 + k * 2), b + k * 2);
      asm volatile("wgmma.commit_group.sync.aligned;" : : : "memory");
      if (chunk == chunks - 1 && first_lane) arrive_at(turns + 8 * (group ^ 1));
      asm volatile("wgmma.wait_group.sync.aligned 1;" : : : "memory");
      if (chunk > 0 && first_lane) arrive_at(read);
      read = empty + 8 * stage;
      next_stage();
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" : : : "memory");
#pragma unroll
    for (int i = 0; i < M * N / 2; ++i) asm volatile("" : "+f"(sums[i]) : : "memory");
    if (first_lane) arrive_at(read);
    stage += chunks % S, parity ^= chunks / S & 1;  // those of the other warpgroup's tile
    if (stage >= S) stage -= S, parity ^= 1;
  }
  MEMBER void sync() { asm volatile("bar.sync %0, 128;" : : "r"(group + 1) : "memory"); }
};
)";

}  // namespace fusec::codegen::cuda
