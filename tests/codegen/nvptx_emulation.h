// SPDX-License-Identifier: Apache-2.0
// What LLVM IR for NVPTX calls, on a CPU: intrinsics, and instructions of PTX (asm), under their names with
// underscores. Comes after cuda_emulation.h, whose fibers are the threads.
#pragma once

extern "C" {

__attribute__((section("fusec_shared"), aligned(16))) unsigned char emulation_dynamic_shared[256 << 10];

unsigned nvvm_read_ptx_sreg_tid_x() { return emulation::thread_index.x; }
unsigned nvvm_read_ptx_sreg_ctaid_x() { return emulation::block_index.x; }
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
void* nvvm_mapa(void* own, unsigned block) { return in_block((char*)own, block); }
void nvvm_bar_warp_sync(unsigned mask) { __syncwarp(mask); }
unsigned nvvm_vote_ballot_sync(unsigned mask, bool holds) { return __ballot_sync(mask, holds); }
unsigned nvvm_shfl_sync_bfly_i32(unsigned mask, unsigned v, unsigned bits, unsigned) {
  return __shfl_xor_sync(mask, v, (int)bits);
}
unsigned nvvm_shfl_sync_idx_i32(unsigned mask, unsigned v, unsigned from, unsigned) {
  return __shfl_sync(mask, v, (int)from);
}

int nvvm_asm_cvt_rzi_s32_f32(float v) { return __float2int_rz(v); }
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
