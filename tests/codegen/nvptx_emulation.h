// SPDX-License-Identifier: Apache-2.0
// What LLVM IR for NVPTX calls, on a CPU: intrinsics, and instructions of PTX (asm), under their names with
// underscores. Comes after cuda_emulation.h, whose fibers are the threads.
#pragma once

extern "C" {

__attribute__((section("fusec_shared"), aligned(16))) unsigned char emulation_dynamic_shared[256 << 10];

unsigned nvvm_read_ptx_sreg_tid_x() { return emulation::thread_index.x; }
unsigned nvvm_read_ptx_sreg_ctaid_x() { return emulation::block_index.x; }
unsigned nvvm_read_ptx_sreg_nctaid_x() { return gridDim.x; }
void nvvm_barrier0() { __syncthreads(); }
void nvvm_barrier_cluster_arrive_aligned() { arrive_cluster(); }
void nvvm_barrier_cluster_arrive_relaxed_aligned() { begin_cluster(); }
void nvvm_mailbox_open(unsigned long long* mailbox, unsigned bytes) { open_mailbox(mailbox, bytes); }
void nvvm_mailbox_word(void* own, unsigned piece, unsigned long long* mailbox, unsigned block) {
  mail_piece(own, piece, mailbox, block);
}
void nvvm_mailbox_pair(void* own, unsigned long long piece, unsigned long long* mailbox, unsigned block) {
  mail_piece(own, piece, mailbox, block);
}
void nvvm_mailbox_wait(unsigned long long* mailbox) { await_mail(mailbox); }
void nvvm_mailbox_end(int* ended) { end_task(ended); }
void nvvm_mailbox_await(int* ended, unsigned tasks) { await_tasks(ended, tasks); }
unsigned nvvm_task_take(int* counter, unsigned* taken) { return take_number(counter, taken); }
void nvvm_barrier_cluster_wait_aligned() { wait_cluster(); }
void nvvm_cp_async_cg_shared_global_16_s(void* to, const void* from, unsigned read) {
  copy_async<16>(to, from, read != 0);
}
void nvvm_cp_async_ca_shared_global_8_s(void* to, const void* from, unsigned read) {
  copy_async<8>(to, from, read != 0);
}
void nvvm_cp_async_ca_shared_global_4_s(void* to, const void* from, unsigned read) {
  copy_async<4>(to, from, read != 0);
}
void nvvm_cp_async_commit_group() {}
void nvvm_cp_async_wait_group(unsigned) {}
void* nvvm_mapa(void* own, unsigned block) { return in_block((char*)own, block); }
void nvvm_bar_warp_sync(unsigned mask) { __syncwarp(mask); }
unsigned nvvm_vote_ballot_sync(unsigned mask, bool holds) { return __ballot_sync(mask, holds); }
unsigned nvvm_shfl_sync_bfly_i32(unsigned mask, unsigned v, unsigned bits, unsigned) {
  return __shfl_xor_sync(mask, v, (int)bits);
}
unsigned nvvm_shfl_sync_idx_i32(unsigned mask, unsigned v, unsigned from, unsigned) {
  return __shfl_sync(mask, v, (int)from);
}

// Two numbers, saturated, below the lower half of a word.
unsigned nvvm_pack_s8(int high, int low, unsigned above) {
  const auto byte = [](int v) { return (unsigned)(v < -128 ? -128 : v > 127 ? 127 : v) & 0xff; };
  return above << 16 | byte(high) << 8 | byte(low);
}
unsigned nvvm_pack_u8(int high, int low, unsigned above) {
  const auto byte = [](int v) { return (unsigned)(v < 0 ? 0 : v > 255 ? 255 : v); };
  return above << 16 | byte(high) << 8 | byte(low);
}

// The words that the threads of a warp hold, as mma.sync takes them; is_f16: else bf16.
static void mma_of_words(float* d, const unsigned (&a)[4], const unsigned (&b)[2], bool is_f16) {
  const unsigned lane = emulation::thread_index.x % 32, g = lane / 4, t = lane % 4;
  const auto part = [&](unsigned word, int half) -> double {
    const unsigned short bits = (unsigned short)(word >> (16 * half));
    return is_f16 ? f32_from_f16(bits) : __uint_as_float((unsigned)bits << 16);
  };
  double rows[2][16], columns[2][16];
  for (int word = 0; word < 4; ++word) {
    for (int from = 0; from < 4; ++from) {
      const unsigned v = __shfl_sync(0xffffffffu, a[word], (int)g * 4 + from);
      for (int half = 0; half < 2; ++half) rows[word % 2][word / 2 * 8 + from * 2 + half] = part(v, half);
    }
  }
  for (int word = 0; word < 2; ++word) {
    for (int column = 0; column < 2; ++column) {
      for (int from = 0; from < 4; ++from) {
        const unsigned v = __shfl_sync(0xffffffffu, b[word], ((int)t * 2 + column) * 4 + from);
        for (int half = 0; half < 2; ++half) columns[column][word * 8 + from * 2 + half] = part(v, half);
      }
    }
  }
  for (int i = 0; i < 4; ++i) {
    double sum = d[i];
    for (int k = 0; k < 16; ++k) sum += rows[i / 2][k] * columns[i % 2][k];
    d[i] = (float)sum;
  }
}
void nvvm_mma_f16(float* d, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  mma_of_words(d, {a0, a1, a2, a3}, {b0, b1}, true);
}
void nvvm_mma_bf16(float* d, unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  mma_of_words(d, {a0, a1, a2, a3}, {b0, b1}, false);
}

void nvvm_group_sync() { emulation::wait(emulation::State::at_group); }
// The sums of a thread, as Tiles::multiply() has them.
static void tile_of_matrices(float* sums, int count, int of_step, const unsigned short* a, unsigned a_pitch, int rows,
                             const unsigned short* b, unsigned b_pitch, int columns, int terms, bool is_f16) {
  const int t = (int)emulation::thread_index.x % 128;
  const auto number = [&](unsigned short v) -> double {
    return is_f16 ? f32_from_f16(v) : __uint_as_float((unsigned)v << 16);
  };
  for (int i = 0; i < count; ++i) {
    const int row = i / (of_step / 2) * 64 + t / 32 * 16 + t % 32 / 4 + i % 4 / 2 * 8;
    const int column = i % (of_step / 2) / 4 * 8 + t % 4 * 2 + i % 2;
    double sum = 0;
    for (int k = 0; k < terms && row < rows && column < columns; ++k)
      sum += number(a[(size_t)row * a_pitch + k]) * number(b[(size_t)column * b_pitch + k]);
    sums[i] = (float)sum;
  }
}
void nvvm_tile_f16(float* sums, int count, int of_step, const unsigned short* a, unsigned a_pitch, int rows,
                   const unsigned short* b, unsigned b_pitch, int columns, int terms) {
  tile_of_matrices(sums, count, of_step, a, a_pitch, rows, b, b_pitch, columns, terms, true);
}
void nvvm_tile_bf16(float* sums, int count, int of_step, const unsigned short* a, unsigned a_pitch, int rows,
                    const unsigned short* b, unsigned b_pitch, int columns, int terms) {
  tile_of_matrices(sums, count, of_step, a, a_pitch, rows, b, b_pitch, columns, terms, false);
}

int nvvm_asm_cvt_rzi_s32_f32(float v) { return __float2int_rz(v); }
int nvvm_asm_cvt_rni_s32_f32(float v) { return __float2int_rz(rintf(v)); }
unsigned nvvm_asm_cvt_rzi_u32_f32(float v) { return __float2uint_rz(v); }
long long nvvm_asm_cvt_rzi_s64_f32(float v) { return __float2ll_rz(v); }
unsigned long long nvvm_asm_cvt_rzi_u64_f32(float v) { return __float2ull_rz(v); }
int nvvm_asm_cvt_rzi_s32_f64(double v) { return __double2int_rz(v); }
unsigned nvvm_asm_cvt_rzi_u32_f64(double v) { return __double2uint_rz(v); }
long long nvvm_asm_cvt_rzi_s64_f64(double v) { return __double2ll_rz(v); }
unsigned long long nvvm_asm_cvt_rzi_u64_f64(double v) { return __double2ull_rz(v); }
float nvvm_asm_cvt_rz_f32_f64(double v) { return __double2float_rz(v); }
float nvvm_asm_cvt_rz_f32_s64(long long v) { return __ll2float_rz(v); }
float nvvm_asm_cvt_rz_f32_u64(unsigned long long v) { return __ull2float_rz(v); }
unsigned short emulation_bf16_from_f32(float v) { return bf16_from_f32(v); }

// Zeros are in order, NaN loses.
double nvvm_fmax_d(double a, double b) { return a != a ? b : b != b ? a : emulation::greater_of(a, b); }
double nvvm_fmin_d(double a, double b) { return a != a ? b : b != b ? a : emulation::lesser_of(a, b); }
float nvvm_fmax_f(float a, float b) { return a != a ? b : b != b ? a : emulation::greater_of(a, b); }
float nvvm_fmin_f(float a, float b) { return a != a ? b : b != b ? a : emulation::lesser_of(a, b); }
float nvvm_saturate_f(float v) { return __saturatef(v); }
float nvvm_ex2_approx_ftz_f(float v) { return exp2_approx_f32(v); }
float nvvm_rcp_approx_ftz_f(float v) { return rcp_approx_f32(v); }
float nvvm_fma_rm_f(float a, float b, float c) { return __fmaf_rd(a, b, c); }
}
