// C = A B, float16 in, float32 out: 64 x 64 x 32 tiles, 4 warps of 32 x 32, three cp.async stages,
// XOR-swizzled shared memory. FAULT is a number that the tests put in; 0 is right.
#include <tl/core.h>
#include <tl/cp_async.h>
#include <tl/ldmatrix.h>
#include <tl/mma.h>

extern "C" __global__ void __launch_bounds__(128, 1) gemm(
    const half_t* __restrict__ A, const half_t* __restrict__ B, float* __restrict__ C, int M, int N, int K) {
  extern __shared__ __align__(1024) unsigned char buf_dyn_shmem[];
  half_t* As = (half_t*)buf_dyn_shmem;
  half_t* Bs = (half_t*)(buf_dyn_shmem + 12288);
  const int t = (int)threadIdx.x, warp = t >> 5, lane = t & 31, wm = (warp >> 1) * 32, wn = (warp & 1) * 32;
  const int bm = (int)blockIdx.y * 64, bn = (int)blockIdx.x * 64;
  float acc[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) acc[i] = 0.0f;
  const int nk = K / 32;
  for (int k = 0; k < nk + 2; ++k) {
    if (k >= 2) {
      if (FAULT != 1) tl::cp_async_wait<1>();
      if (FAULT != 2) tl::sync_threads();
    }
    if (k < nk) {
      const int s = FAULT == 3 ? k % 2 : k % 3;
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const int i = t + v * 128, r = i >> 2, c = i & 3;
        tl::cp_async<16>(&As[s * 2048 + r * 32 + ((c ^ ((r >> 1) & 3)) << 3)], &A[(long long)(bm + r) * K + k * 32 + c * 8], true);
      }
#pragma unroll
      for (int v = 0; v < 2; ++v) {
        const int i = t + v * 128, r = i >> 3, c = i & 7;
        tl::cp_async<16>(&Bs[s * 2048 + r * 64 + ((c ^ (r & 7)) << 3)], &B[(long long)(k * 32 + r) * N + bn + c * 8], true);
      }
    }
    tl::cp_async_commit();
    if (k < 2) continue;
    const int s = FAULT == 3 ? k % 2 : (k - 2) % 3;
#pragma unroll
    for (int kk = 0; kk < 2; ++kk) {
      half_t a[16], b[16];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int r = wm + i * 16 + (lane & 15), c = kk * 2 + (lane >> 4);
        tl::ldmatrix<4, false>(&a[i * 8], &As[s * 2048 + r * 32 + ((c ^ ((r >> 1) & 3)) << 3)]);
      }
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int r = kk * 16 + (lane & 15), c = (wn >> 3) + j * 2 + (lane >> 4);
        tl::ldmatrix<4, true>(&b[j * 8], &Bs[s * 2048 + r * 64 + ((c ^ (r & 7)) << 3)]);
      }
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) tl::mma_m16n8k16_f16_f32(&acc[(i * 4 + j) * 4], &a[i * 8], &b[j * 4]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int r = bm + wm + i * 16 + (lane >> 2) + (FAULT == 4), c = bn + wn + j * 8 + (lane & 3) * 2 + (FAULT == 5);
      tl::store_vec(&C[(long long)r * N + c], tl::load_vec<float, 2>(&acc[(i * 4 + j) * 4]));
      tl::store_vec(&C[(long long)(r + 8) * N + c], tl::load_vec<float, 2>(&acc[(i * 4 + j) * 4 + 2]));
    }
}
