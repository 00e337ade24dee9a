#include <tl/core.h>
#include <tl/cp_async.h>
#include <tl/ldmatrix.h>
#include <tl/mma.h>
#include <tl/warp.h>

extern "C" __global__ void __launch_bounds__(128, 1) matmul_kernel(
    const half_t* __restrict__ A,
    const half_t* __restrict__ B,
    half_t* __restrict__ C,
    int M,
    int N,
    int K) {
  const int bx = (int)blockIdx.x;
  const int by = (int)blockIdx.y;
  const int tx = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char buf_dyn_shmem[];
  half_t* A_shared = (half_t*)buf_dyn_shmem;
  half_t* B_shared = (half_t*)(buf_dyn_shmem + 24576);
  __align__(16) float C_local[128];
  __align__(16) half_t A_frag[32];
  __align__(16) half_t B_frag[32];
  const int lane = tx & 31;
  const int warp = tl::warp_uniform(tx >> 5);
  const int warp_m = warp >> 1;
  const int warp_n = warp & 1;
  const int blocks = (K + 31) >> 5;
  #pragma unroll
  for (int i = 0; i < 128; ++i) {
    C_local[i] = 0.0f;
  }
  if (0 < blocks) {
    #pragma unroll
    for (int i_1 = 0; i_1 < 4; ++i_1) {
      tl::cp_async<16>(&A_shared[(((tx >> 2) + i_1 * 32) * 4 + ((tx & 3) ^ ((((tx >> 2) + i_1 * 32) >> 1) & 3))) * 8], &A[(long long)(by * 128 + ((tx >> 2) + i_1 * 32)) * (long long)K + (long long)((tx & 3) * 8)], by * 128 + ((tx >> 2) + i_1 * 32) < M && (tx & 3) * 8 < K);
    }
    #pragma unroll
    for (int i_2 = 0; i_2 < 4; ++i_2) {
      tl::cp_async<16>(&B_shared[(((tx >> 4) + i_2 * 8) * 16 + ((tx & 15) ^ (((tx >> 4) + i_2 * 8) & 7))) * 8], &B[(long long)((tx >> 4) + i_2 * 8) * (long long)N + (long long)(bx * 128 + (tx & 15) * 8)], (tx >> 4) + i_2 * 8 < K && bx * 128 + (tx & 15) * 8 < N);
    }
  }
  tl::cp_async_commit();
  if (1 < blocks) {
    #pragma unroll
    for (int i_3 = 0; i_3 < 4; ++i_3) {
      tl::cp_async<16>(&A_shared[(((tx >> 2) + i_3 * 32) * 4 + ((tx & 3) ^ ((((tx >> 2) + i_3 * 32) >> 1) & 3))) * 8 + 4096], &A[(long long)(by * 128 + ((tx >> 2) + i_3 * 32)) * (long long)K + (long long)((tx & 3) * 8 + 32)], by * 128 + ((tx >> 2) + i_3 * 32) < M && (tx & 3) * 8 + 32 < K);
    }
    #pragma unroll
    for (int i_4 = 0; i_4 < 4; ++i_4) {
      tl::cp_async<16>(&B_shared[(((tx >> 4) + i_4 * 8) * 16 + ((tx & 15) ^ (((tx >> 4) + i_4 * 8) & 7))) * 8 + 4096], &B[(long long)((tx >> 4) + i_4 * 8 + 32) * (long long)N + (long long)(bx * 128 + (tx & 15) * 8)], (tx >> 4) + i_4 * 8 + 32 < K && bx * 128 + (tx & 15) * 8 < N);
    }
  }
  tl::cp_async_commit();
  for (int ko = 0; ko < blocks; ++ko) {
    tl::cp_async_wait<1>();
    tl::sync_threads();
    const int ahead = ko + 2;
    if (ahead < blocks) {
      const int slot = ahead % 3;
      #pragma unroll
      for (int i_5 = 0; i_5 < 4; ++i_5) {
        tl::cp_async<16>(&A_shared[slot * 4096 + (((tx >> 2) + i_5 * 32) * 4 + ((tx & 3) ^ ((((tx >> 2) + i_5 * 32) >> 1) & 3))) * 8], &A[(long long)(by * 128 + ((tx >> 2) + i_5 * 32)) * (long long)K + (long long)(ahead * 32 + (tx & 3) * 8)], by * 128 + ((tx >> 2) + i_5 * 32) < M && ahead * 32 + (tx & 3) * 8 < K);
      }
      #pragma unroll
      for (int i_6 = 0; i_6 < 4; ++i_6) {
        tl::cp_async<16>(&B_shared[slot * 4096 + (((tx >> 4) + i_6 * 8) * 16 + ((tx & 15) ^ (((tx >> 4) + i_6 * 8) & 7))) * 8], &B[(long long)(ahead * 32 + ((tx >> 4) + i_6 * 8)) * (long long)N + (long long)(bx * 128 + (tx & 15) * 8)], ahead * 32 + ((tx >> 4) + i_6 * 8) < K && bx * 128 + (tx & 15) * 8 < N);
      }
    }
    tl::cp_async_commit();
    const int stage = ko % 3;
    #pragma unroll
    for (int k = 0; k < 2; ++k) {
      #pragma unroll
      for (int i_7 = 0; i_7 < 4; ++i_7) {
        tl::ldmatrix<4, false>(&A_frag[i_7 * 8], &A_shared[stage * 4096 + ((warp_m * 64 + i_7 * 16 + (lane & 15)) * 4 + ((k * 2 + (lane >> 4)) ^ (((warp_m * 64 + i_7 * 16 + (lane & 15)) >> 1) & 3))) * 8]);
      }
      #pragma unroll
      for (int j = 0; j < 4; ++j) {
        tl::ldmatrix<4, true>(&B_frag[j * 8], &B_shared[stage * 4096 + ((k * 16 + (lane & 15)) * 16 + ((warp_n * 8 + j * 2 + (lane >> 4)) ^ ((k * 16 + (lane & 15)) & 7))) * 8]);
      }
      #pragma unroll
      for (int i_8 = 0; i_8 < 4; ++i_8) {
        #pragma unroll
        for (int j_1 = 0; j_1 < 8; ++j_1) {
          tl::mma_m16n8k16_f16_f32(&C_local[i_8 * 32 + j_1 * 4], &A_frag[i_8 * 8], &B_frag[j_1 * 4]);
        }
      }
    }
  }
  #pragma unroll
  for (int i_9 = 0; i_9 < 4; ++i_9) {
    #pragma unroll
    for (int j_2 = 0; j_2 < 8; ++j_2) {
      #pragma unroll
      for (int h = 0; h < 2; ++h) {
        if (by * 128 + warp_m * 64 + i_9 * 16 + (lane >> 2) + h * 8 < M && bx * 128 + warp_n * 64 + j_2 * 8 + (lane & 3) * 2 < N) {
          tl::store_vec(&C[(long long)(by * 128 + warp_m * 64 + i_9 * 16 + (lane >> 2) + h * 8) * (long long)N + (long long)(bx * 128 + warp_n * 64 + j_2 * 8 + (lane & 3) * 2)], tl::cast<half_t>(tl::load_vec<float, 2>(&C_local[i_9 * 32 + j_2 * 4 + h * 2])));
        }
      }
    }
  }
}
