// SPDX-License-Identifier: Apache-2.0
// What the text of the CUDA writer needs to be compiled and run as C++ on a CPU: included in front of it by
// cuda_emulation_run.cpp, compiled by the system's compiler at the time of the test.
//
// The threads of a block are fibers. One runs until it waits at a barrier or a shuffle, then the next: so what lacks a
// barrier reads what is not yet written, in one of the two orders of threads that a kernel is run in. A wait that not
// all threads come to, an access that is not aligned and an index out of an array are errors, which run() answers.
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <utility>  // the only C++ header: the compiler's time is the test's

#define FUSEC_CUDA_EMULATION
#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static __attribute__((section("fusec_shared")))
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(...)
#define __cluster_dims__(x, y, z)

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};

// The linker's names of the ends of that section.
extern "C" char __start_fusec_shared[] __attribute__((weak)), __stop_fusec_shared[] __attribute__((weak));

namespace emulation {

enum class State { ready, at_block, at_group, at_warp, done };

struct Fiber {
  void** top = nullptr;  // of its stack, while it does not run
  char* stack = nullptr;
  State state = State::ready;
  unsigned mask = 0;       // of the warp operation that it waits at
  unsigned turn = 0;       // warp operations done
  uint64_t slots[2] = {};  // what it gives to the others, by turn
};

struct Index {
  unsigned x = 0;
};

constexpr size_t kStack = 128 << 10;

constexpr unsigned kBlocks = 8;  // of a cluster

inline Fiber fibers[kBlocks * 1024];
inline unsigned thread_count = 0;   // of all blocks of the cluster
inline unsigned block_threads = 0;  // of one
inline unsigned running = 0;        // the fiber that runs
struct OtherBlocks {                // their shared memory, while the arrays have that of the block that runs
  char* memory[kBlocks] = {};
  ~OtherBlocks() {
    for (char* one : memory) free(one);
  }
  char*& operator[](unsigned block) { return memory[block]; }
};
inline OtherBlocks other_blocks;
inline unsigned running_block = 0;  // of the cluster
inline void** scheduler = nullptr;  // the top of its stack, while a fiber runs
inline Index thread_index, block_index, grid_size;
inline unsigned first_block = 0;  // of the cluster
inline char error[200] = "";
inline void (*entry)(void*) = nullptr;
inline void* entry_arguments = nullptr;

inline void fail(const char* what) {
  if (error[0] == 0) snprintf(error, sizeof error, "%s, thread %u of block %u", what, thread_index.x, block_index.x);
}

inline Fiber& current() { return fibers[running]; }

// Leaves the running stack for that with the given top, with the registers that a call of x86-64 keeps on each.
// swapcontext would ask the kernel for the mask of signals, at every barrier of every thread.
__attribute__((naked, noinline)) static void switch_stacks(void*** left [[maybe_unused]], void** top [[maybe_unused]]) {
  asm("push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
      "mov %rsp, (%rdi)\n mov %rsi, %rsp\n"
      "pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n ret");
}

inline void wait(State state) {
  current().state = state;
  switch_stacks(&current().top, scheduler);
}

// Ends the thread: what follows would do harm.
inline void fail_and_stop(const char* what) {
  fail(what);
  wait(State::done);
}

inline void fiber_main() {
  entry(entry_arguments);
  wait(State::done);
}

inline void start(unsigned t) {
  Fiber& f = fibers[t];
  if (f.stack == nullptr) {  // of the process, whichever library asked first
    f.stack = static_cast<char*>(mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  }
  // Six registers, where to begin, and the place of an address to return to, which there is not.
  f.top = reinterpret_cast<void**>(f.stack + kStack) - 8;
  memset(f.top, 0, 8 * sizeof(void*));
  f.top[6] = reinterpret_cast<void*>(&fiber_main);
  f.state = State::ready;
  f.turn = 0;
}

inline size_t shared_bytes() {
  return __start_fusec_shared != nullptr ? __stop_fusec_shared - __start_fusec_shared : 0;
}

inline void give_arrays_to(unsigned block) {
  if (block == running_block || __start_fusec_shared == nullptr) return;
  memcpy(other_blocks[running_block], __start_fusec_shared, shared_bytes());
  memcpy(__start_fusec_shared, other_blocks[block], shared_bytes());
  running_block = block;
}

inline void resume(unsigned t) {
  running = t;
  give_arrays_to(t / block_threads);
  thread_index.x = t % block_threads;
  block_index.x = first_block + t / block_threads;
  switch_stacks(&scheduler, fibers[t].top);
}

// All threads of the mask have come, with the same mask.
inline bool warp_is_complete(unsigned t) {
  const unsigned first = t & ~31u, mask = fibers[t].mask;
  for (unsigned lane = 0; lane < 32 && first + lane < thread_count; ++lane) {
    const Fiber& f = fibers[first + lane];
    if ((mask >> lane & 1) && (f.state != State::at_warp || f.mask != mask)) return false;
  }
  return true;
}

// All threads of the warpgroup have come.
inline bool group_is_complete(unsigned t) {
  const unsigned first = t & ~127u;
  for (unsigned i = first; i < first + 128 && i < thread_count; ++i)
    if (fibers[i].state != State::at_group) return false;
  return true;
}

inline bool release() {
  unsigned at_block = 0, count = 0;
  static bool free[kBlocks * 1024];
  for (unsigned t = 0; t < thread_count; ++t) at_block += fibers[t].state == State::at_block;
  for (unsigned t = 0; t < thread_count; ++t) {
    free[t] = at_block == thread_count || (fibers[t].state == State::at_warp && warp_is_complete(t)) ||
              (fibers[t].state == State::at_group && group_is_complete(t));
  }
  for (unsigned t = 0; t < thread_count; ++t) {
    if (free[t]) fibers[t].state = State::ready, ++count;
  }
  return count > 0;
}

// What a block finds in its memory, and what is left of it at its end.
inline void forget_shared(unsigned block) {
  if (__start_fusec_shared == nullptr) return;
  memset(block == running_block ? __start_fusec_shared : other_blocks[block], 0xcd, shared_bytes());
}

// The blocks all of whose threads are done lose their memory.
inline void end_blocks() {
  for (unsigned b = 0; b * block_threads < thread_count; ++b) {
    bool done = true;
    for (unsigned t = 0; t < block_threads; ++t) done &= fibers[b * block_threads + t].state == State::done;
    if (done) forget_shared(b);
  }
}

// The memory of other blocks belongs to the process, for kernels of any library.
constexpr size_t kMaxShared = 512 << 10;

inline void run_cluster(bool reversed) {
  if (thread_count > block_threads && shared_bytes() > kMaxShared) return fail("more shared memory than a block has");
  running_block = 0;
  for (unsigned b = 0; b * block_threads < thread_count; ++b) {
    if (thread_count > block_threads && other_blocks[b] == nullptr)
      other_blocks[b] = static_cast<char*>(malloc(kMaxShared));
    forget_shared(b);
  }
  for (unsigned t = 0; t < thread_count; ++t) start(t);
  for (;;) {
    for (unsigned k = 0; k < thread_count; ++k) {
      const unsigned t = reversed ? thread_count - 1 - k : k;
      if (fibers[t].state == State::ready) resume(t);
    }
    if (thread_count > block_threads) end_blocks();
    bool done = true;
    for (unsigned t = 0; t < thread_count; ++t) done &= fibers[t].state == State::done;
    if (done) return;
    if (!release()) return fail("a barrier that not all threads reach");
  }
}

template <class... A>
struct Call {
  void (*function)(A...);
  void** parameters;
  template <size_t... i>
  void run(std::index_sequence<i...>) const {
    function(*static_cast<A*>(parameters[i])...);
  }
  static void enter(void* self) { static_cast<const Call*>(self)->run(std::index_sequence_for<A...>()); }
};

// `parameters` are addresses of the arguments, as a driver takes them.
template <class... A>
void launch(void (*function)(A...), unsigned blocks, unsigned threads, unsigned cluster, void** parameters,
            bool reversed) {
  Call<A...> call{function, parameters};
  entry = &Call<A...>::enter;
  entry_arguments = &call;
  block_threads = threads;
  thread_count = threads * cluster;
  grid_size.x = blocks;
  if (blocks % cluster != 0) return fail("a cluster without all its blocks");
  for (first_block = 0; first_block < blocks && error[0] == 0; first_block += cluster) run_cluster(reversed);
}

// Lane `from` of the warp after all of the mask gave their value; a pattern where there is no such thread in the mask.
template <class T>
T exchange(unsigned mask, T value, unsigned from) {
  Fiber& f = current();
  const unsigned lane = thread_index.x % 32, parity = f.turn++ % 2;
  if (!(mask >> lane & 1)) fail("a warp operation without its own thread");
  memcpy(&f.slots[parity], &value, sizeof value);
  f.mask = mask;
  wait(State::at_warp);
  const unsigned other = running / 32 * 32 + from % 32;
  T out;
  memset(&out, 0xcd, sizeof out);
  if (other < thread_count && (mask >> (from % 32) & 1)) memcpy(&out, &fibers[other].slots[parity], sizeof out);
  return out;
}

template <class To, class From>
To saturate(From v, double lowest, double past) {
  if (v != v) return 0;
  if ((double)v < lowest) return (To)lowest;
  if ((double)v >= past) return past == 0x1p63 ? (To)INT64_MAX : past == 0x1p64 ? (To)UINT64_MAX : (To)(past - 1);
  return (To)v;
}

inline float toward_zero(long double v) {
  const float near = (float)v;
  return fabsl((long double)near) > fabsl(v) ? nextafterf(near, 0) : near;
}

}  // namespace emulation

#define threadIdx emulation::thread_index
#define blockIdx emulation::block_index
#define gridDim emulation::grid_size

// Of the block, or of its cluster: kernels have one or the other.
inline void __syncthreads() { emulation::wait(emulation::State::at_block); }
inline void arrive_cluster() {}
inline void prefetch_line(const void*) {}
template <int bytes>
void copy_async(void* to, const void* from, bool holds) {
  if ((size_t)to % bytes != 0 || (holds && (size_t)from % bytes != 0))
    emulation::fail_and_stop("a copy that is not aligned");
  if (holds) memcpy(to, from, bytes);
  if (!holds) memset(to, 0, bytes);
}
template <int left>
void wait_for_copies() {}
inline void wait_cluster() { __syncthreads(); }
template <class T>
T* in_block(T* own, unsigned block) {
  if (block >= emulation::kBlocks || block * emulation::block_threads >= emulation::thread_count)
    emulation::fail_and_stop("memory of a block that the cluster lacks");
  return block == emulation::running_block ? own
                                           : (T*)(emulation::other_blocks[block] + ((char*)own - __start_fusec_shared));
}
inline void begin_cluster() {}
// The bytes that have not come yet.
inline void open_mailbox(unsigned long long* mailbox, unsigned bytes) {
  if (threadIdx.x == 0) *mailbox = bytes;
}
template <class T>
void mail_piece(void* own, T piece, unsigned long long* mailbox, unsigned block) {
  *in_block((T*)own, block) = piece;
  *in_block(mailbox, block) -= sizeof piece;
}
inline void await_mail(unsigned long long* mailbox) {
  __syncthreads();
  if (*mailbox != 0) emulation::fail_and_stop("a mailbox without all that is waited for");
}
// Blocks run one after the other, so that whatever a task waits for has ended, or never will.
inline unsigned take_number(int* counter, unsigned* taken) {
  if (threadIdx.x == 0) *taken = (unsigned)(*counter)++;
  __syncthreads();
  return *taken;
}
inline void end_task(int* ended) {
  __syncthreads();
  if (threadIdx.x == 0) ++*ended;
}
inline void await_tasks(const int* ended, unsigned tasks) {
  if (*ended != (int)tasks) emulation::fail_and_stop("a task that waits for tasks behind it");
}
inline void __syncwarp(unsigned mask) { emulation::exchange(mask, 0, 0); }
template <class T>
T __shfl_sync(unsigned mask, T v, int from) {
  return emulation::exchange(mask, v, (unsigned)from);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int bits) {
  return emulation::exchange(mask, v, emulation::thread_index.x % 32 ^ (unsigned)bits);
}
inline unsigned __ballot_sync(unsigned mask, bool holds) {
  unsigned out = 0;
  const unsigned first = emulation::running & ~31u, parity = emulation::current().turn % 2;
  emulation::exchange<uint64_t>(mask, holds, 0);
  for (unsigned lane = 0; lane < 32 && first + lane < emulation::thread_count; ++lane) {
    if (mask >> lane & 1) out |= (unsigned)(emulation::fibers[first + lane].slots[parity] != 0) << lane;
  }
  return out;
}
template <class T>
T __ldg(const T* at) {
  return *at;
}

inline float __uint_as_float(unsigned v) {
  float out;
  memcpy(&out, &v, 4);
  return out;
}
inline unsigned __float_as_uint(float v) {
  unsigned out;
  memcpy(&out, &v, 4);
  return out;
}
inline double __longlong_as_double(long long v) {
  double out;
  memcpy(&out, &v, 8);
  return out;
}
inline float __double2float_rz(double v) { return v != v || isinf(v) ? (float)v : emulation::toward_zero(v); }
inline float __ll2float_rz(long long v) { return emulation::toward_zero(v); }
inline float __ull2float_rz(unsigned long long v) { return emulation::toward_zero(v); }
inline int __float2int_rz(float v) { return emulation::saturate<int>(v, -0x1p31, 0x1p31); }
inline int __double2int_rz(double v) { return emulation::saturate<int>(v, -0x1p31, 0x1p31); }
inline unsigned __float2uint_rz(float v) { return emulation::saturate<unsigned>(v, 0, 0x1p32); }
inline unsigned __double2uint_rz(double v) { return emulation::saturate<unsigned>(v, 0, 0x1p32); }
inline long long __float2ll_rz(float v) { return emulation::saturate<long long>(v, -0x1p63, 0x1p63); }
inline long long __double2ll_rz(double v) { return emulation::saturate<long long>(v, -0x1p63, 0x1p63); }
inline unsigned long long __float2ull_rz(float v) { return emulation::saturate<unsigned long long>(v, 0, 0x1p64); }
inline unsigned long long __double2ull_rz(double v) { return emulation::saturate<unsigned long long>(v, 0, 0x1p64); }

// The prelude's functions in PTX.
inline float f32_from_f16(unsigned short v) {
  const int exponent = v >> 10 & 31, fraction = v & 1023;
  const float magnitude = exponent == 0    ? ldexpf((float)fraction, -24)
                          : exponent == 31 ? (fraction ? NAN : INFINITY)
                                           : ldexpf((float)(1024 + fraction), exponent - 25);
  return v >> 15 ? -magnitude : magnitude;
}
inline unsigned short f16_from_f32(float v) {
  const unsigned short sign = signbit(v) ? 0x8000 : 0;
  const float magnitude = fabsf(v);
  if (v != v) return sign | 0x7e00;
  if (magnitude >= 65520) return sign | 0x7c00;
  if (magnitude < 0x1p-14f) return sign | (unsigned short)nearbyintf(magnitude * 0x1p24f);
  const int exponent = ilogbf(magnitude);
  return sign | (unsigned short)(((exponent + 14) << 10) + (int)nearbyintf(ldexpf(magnitude, 10 - exponent)));
}
inline unsigned short bf16_from_f32(float v) {
  const unsigned bits = __float_as_uint(v);
  return v != v ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
// Each thread computes its results from the tiles, of which the threads of a warp read a part each.
template <class F>
void mma_of(float (&d)[4], const unsigned short* a, int row_pitch, int width, int line_pitch, const unsigned short* b,
            int b_pitch, const F& f32) {
  const int lane = (int)emulation::thread_index.x % 32;
  for (int i = 0; i < 4; ++i) {
    const unsigned short *row = a + (lane / 4 + i / 2 * 8) * row_pitch, *column = b + (lane % 4 * 2 + i % 2) * b_pitch;
    double sum = d[i];
    for (int k = 0; k < 16; ++k) sum += (double)f32(row[k / width * line_pitch + k % width]) * (double)f32(column[k]);
    d[i] = (float)sum;
  }
}
inline void mma_f16(float (&d)[4], const unsigned short* a, int row_pitch, int width, int line_pitch,
                    const unsigned short* b, int b_pitch) {
  mma_of(d, a, row_pitch, width, line_pitch, b, b_pitch, f32_from_f16);
}
inline void mma_bf16(float (&d)[4], const unsigned short* a, int row_pitch, int width, int line_pitch,
                     const unsigned short* b, int b_pitch) {
  mma_of(d, a, row_pitch, width, line_pitch, b, b_pitch,
         [](unsigned short v) { return __uint_as_float((unsigned)v << 16); });
}
// Each thread that multiplies reads both factors from where they lie: nothing is streamed.
template <int M, int N, int S, bool kBf16>
struct Tiles {
  unsigned group;

  Tiles(unsigned char*, unsigned warpgroup, int) : group(warpgroup) { __syncthreads(); }
  void begin_filling() {}
  void end_filling() {}
  void begin_multiplying() {}
  void fill(const unsigned short*, unsigned, int, const unsigned short*, unsigned, int, int) {}
  void sync() { emulation::wait(emulation::State::at_group); }

  static float f32(unsigned short v) { return kBf16 ? __uint_as_float((unsigned)v << 16) : f32_from_f16(v); }
  void multiply(float (&sums)[M * N / 2], const unsigned short* a, unsigned a_pitch, int rows, const unsigned short* b,
                unsigned b_pitch, int columns, int terms) {
    const int t = (int)emulation::thread_index.x % 128;
    for (int i = 0; i < M * N / 2; ++i) {
      const int row = i / (N / 2) * 64 + t / 32 * 16 + t % 32 / 4 + i % 4 / 2 * 8;
      const int column = i % (N / 2) / 4 * 8 + t % 4 * 2 + i % 2;
      double sum = 0;
      for (int k = 0; k < terms && row < rows && column < columns; ++k)
        sum += (double)f32(a[(size_t)row * a_pitch + k]) * (double)f32(b[(size_t)column * b_pitch + k]);
      sums[i] = (float)sum;
    }
  }
};
namespace emulation {
template <class F>
F greater_of(F a, F b) {
  return a != a || b != b ? a + b : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}
template <class F>
F lesser_of(F a, F b) {
  return a != a || b != b ? a + b : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}
}  // namespace emulation
inline float div_f32(float a, float b) { return a / b; }
inline double div_f64(double a, double b) { return a / b; }
inline float reciprocal_f32(float a) { return 1.0f / a; }
inline double reciprocal_f64(double a) { return 1.0 / a; }
inline float max_f32(float a, float b) { return emulation::greater_of(a, b); }
inline float min_f32(float a, float b) { return emulation::lesser_of(a, b); }
inline double max_f64(double a, double b) { return emulation::greater_of(a, b); }
inline double min_f64(double a, double b) { return emulation::lesser_of(a, b); }
template <class T, bool kRounds, int N>
void bytes_of(T* to, const float* from) {
  for (int i = 0; i < N; ++i) {
    const int whole = __float2int_rz(kRounds ? rintf(from[i]) : from[i]), low = (T)-1 < 0 ? -128 : 0;
    to[i] = (T)(whole < low ? low : whole > low + 255 ? low + 255 : whole);
  }
}
template <int N>
void i8_nearest(signed char* to, const float* from) {
  bytes_of<signed char, true, N>(to, from);
}
template <int N>
void i8_truncated(signed char* to, const float* from) {
  bytes_of<signed char, false, N>(to, from);
}
template <int N>
void u8_nearest(unsigned char* to, const float* from) {
  bytes_of<unsigned char, true, N>(to, from);
}
template <int N>
void u8_truncated(unsigned char* to, const float* from) {
  bytes_of<unsigned char, false, N>(to, from);
}
inline void wait_for_launches() {}
namespace emulation {
inline float without_denormals(float a) { return fabsf(a) < 0x1p-126f ? copysignf(0.0f, a) : a; }
}  // namespace emulation
inline float exp2_approx_f32(float a) { return emulation::without_denormals(exp2f(emulation::without_denormals(a))); }
inline float rcp_approx_f32(float a) { return emulation::without_denormals(1.0f / emulation::without_denormals(a)); }
inline float __saturatef(float a) { return a > 0 ? (a < 1 ? a : 1.0f) : 0.0f; }
inline float __fmaf_rd(float a, float b, float c) {  // the product is exact
  const double product = (double)a * b, sum = product + c, part = sum - product;
  const double rest = (product - (sum - part)) + (c - part);
  const float near = (float)sum;
  if (sum == 0) return signbit(product) || signbit(c) ? -0.0f : 0.0f;
  return (double)near > sum || ((double)near == sum && rest < 0) ? nextafterf(near, -INFINITY) : near;
}
template <class V>
void shared_piece(V& to, const void* from) {
  to = *static_cast<const V*>(from);
}
__attribute__((section("fusec_shared"), aligned(1024))) static unsigned char dynamic_shared[256 << 10];
#define aligned_shared dynamic_shared

// Of -fsanitize=alignment,bounds.
extern "C" {
void __ubsan_handle_type_mismatch_v1(void*, void*) { emulation::fail_and_stop("an access that is not aligned"); }
void __ubsan_handle_out_of_bounds(void*, void*) { emulation::fail_and_stop("an index out of an array"); }
// Once.
const char* fusec_emulation_error() {
  static char answer[sizeof emulation::error];
  memcpy(answer, emulation::error, sizeof answer);
  emulation::error[0] = 0;
  return answer;
}
}
