// SPDX-License-Identifier: Apache-2.0
// The C interface between a kernel compiled for the host and the simulator's runtime.
//
// Kernels reach it only through the `tl::` functions of `include/tl/*.h`. `line` is always the line
// of the call in the generated text: the runtime names it in reports. Pointers are ordinary host
// pointers; shared memory is one arena per block (`tlsim_shared`).
#pragma once
#include <stddef.h>
#include <stdint.h>

struct TlsimDim3 {
  unsigned x, y, z;
};

// A TMA descriptor as the simulator keeps it: 128 bytes like the hardware's, filled in by
// `sim/device.py`. dims are innermost first; strides[i] is the stride of dims[i + 1] in bytes.
struct alignas(64) TlsimTensorMap {
  unsigned char* base;
  uint64_t dims[5];
  uint64_t strides[4];
  uint32_t box[5];
  uint8_t rank, element_bytes, swizzle, type;  // swizzle: 0, 32, 64 or 128; type: TlsimType
  uint8_t padding[24];
};
static_assert(sizeof(TlsimTensorMap) == 128, "a tensor map has 128 bytes");

// Element types, for atomics and matrix instructions.
enum TlsimType : int {
  TLSIM_S8,
  TLSIM_U8,
  TLSIM_S16,
  TLSIM_U16,
  TLSIM_S32,
  TLSIM_U32,
  TLSIM_S64,
  TLSIM_U64,
  TLSIM_F16,
  TLSIM_BF16,
  TLSIM_TF32,
  TLSIM_F32,
  TLSIM_F64,
  TLSIM_E4M3,
  TLSIM_E5M2,
};
enum TlsimAtomic : int {
  TLSIM_ATOMIC_ADD,
  TLSIM_ATOMIC_MAX,
  TLSIM_ATOMIC_MIN,
  TLSIM_ATOMIC_EXCHANGE,
  TLSIM_ATOMIC_OR,
  TLSIM_ATOMIC_LOAD,
  TLSIM_ATOMIC_STORE
};
enum TlsimShuffle : int { TLSIM_SHFL_IDX, TLSIM_SHFL_XOR, TLSIM_SHFL_UP, TLSIM_SHFL_DOWN };

// One matrix instruction: D[m, n] += A[m, k] * B[k, n].
struct TlsimMma {
  int m, n, k;
  TlsimType operand, accumulator;
};
struct TlsimWgmma {
  int n, k;
  TlsimType operand, accumulator;
  int trans_a, trans_b;
};

extern "C" {
// Coordinates do not change while a thread runs, so the compiler may keep them in registers.
TlsimDim3 tlsim_thread_idx() __attribute__((const));
TlsimDim3 tlsim_block_idx() __attribute__((const));
TlsimDim3 tlsim_block_dim() __attribute__((const));
TlsimDim3 tlsim_grid_dim() __attribute__((const));
unsigned char* tlsim_shared() __attribute__((const));
void* tlsim_static_shared(const char* name, size_t bytes, size_t alignment);

// barriers and warp collectives
void tlsim_sync_threads(int line);
void tlsim_named_barrier(int id, int count, int waits, int line);
void tlsim_sync_grid(int line);
void tlsim_fence(int order, int line);
unsigned tlsim_cluster_rank();
void tlsim_cluster_arrive(int orders, int line);
void tlsim_cluster_wait(int line);
void* tlsim_map_shared(const void* p, unsigned rank, int line);
void tlsim_mbar_arrive_remote(void* bar, unsigned rank, int line);
void tlsim_sync_warp(unsigned mask, int line);
uint64_t tlsim_shuffle(uint64_t value, int mode, int operand, int width, int line);
int tlsim_elect_one(int line);
// One bit per lane: with `match`, whose value is the caller's; else, whose value is not 0.
unsigned tlsim_vote(uint64_t value, int match, int line);
void tlsim_ldmatrix(void* dst, const void* row, int count, int trans, int line);
void tlsim_stmatrix(void* row, const void* src, int count, int trans, int line);
void tlsim_mma(const TlsimMma* shape, void* c, const void* a, const void* b, int line);

// old and value point to one element.
void tlsim_atomic(void* p, const void* value, void* old, int op, int type, int line);

// cp.async
void tlsim_cp_async(void* dst, const void* src, int bytes, int pred, int line);
void tlsim_cp_async_commit(int line);
void tlsim_cp_async_mbar_arrive(void* bar, int line);
void tlsim_cp_async_wait(int pending, int line);

// mbarriers, fences, TMA
void tlsim_mbar_init(void* bar, unsigned count, int line);
void tlsim_mbar_arrive(void* bar, int line);
void tlsim_mbar_expect_tx(void* bar, unsigned bytes, int line);
void tlsim_mbar_announce(void* bar, unsigned bytes, int line);
void tlsim_mbar_wait(void* bar, unsigned parity, int line);
void tlsim_fence_mbar_init(int line);
void tlsim_fence_proxy_async(int line);
void tlsim_tma_load(void* dst, const TlsimTensorMap* map, void* bar, const int* coords, int rank,
                    int line);
void tlsim_tma_load_multicast(void* dst, const TlsimTensorMap* map, void* bar, unsigned mask,
                              const int* coords, int rank, int line);
void tlsim_copy_cluster(void* dst, const void* src, unsigned bytes, void* bar, unsigned rank,
                        int line);
void tlsim_tma_reduce_add(const TlsimTensorMap* map, const void* src, const int* coords, int rank,
                          int line);
void tlsim_tma_store(const TlsimTensorMap* map, const void* src, const int* coords, int rank,
                     int line);
void tlsim_tma_store_commit(int line);
void tlsim_tma_store_wait(int pending, int line);

// warpgroup matrix instructions; `a` is null when the A operand is a descriptor
uint64_t tlsim_wgmma_desc(const void* p, unsigned lbo, unsigned sbo, int swizzle);
void tlsim_wgmma(const TlsimWgmma* shape, void* d, const void* a, uint64_t desc_a, uint64_t desc_b,
                 int scale_d, int line);
void tlsim_wgmma_fence(int line);
void tlsim_wgmma_commit(int line);
void tlsim_wgmma_wait(int pending, int line);

// Reports
void tlsim_trap(int line);
void tlsim_assert(const char* message, int line);
void tlsim_print(const char* format, ...);
}
