#include <tl/core.h>
#include <tl/ldmatrix.h>
#include <tl/mbarrier.h>
#include <tl/tma.h>
#include <tl/warp.h>
#include <tl/wgmma.h>

extern "C" __global__ void __launch_bounds__(288, 1) matmul_kernel(
    const __grid_constant__ tl::TensorMap A_desc,
    const __grid_constant__ tl::TensorMap B_desc,
    const __grid_constant__ tl::TensorMap C_desc,
    int M,
    int N,
    int K) {
  const int bx = (int)blockIdx.x;
  const int by = (int)blockIdx.y;
  const int tx = (int)threadIdx.x;
  extern __shared__ __align__(1024) unsigned char buf_dyn_shmem[];
  half_t* A_shared = (half_t*)buf_dyn_shmem;
  half_t* B_shared = (half_t*)(buf_dyn_shmem + 65536);
  half_t* C_shared = (half_t*)(buf_dyn_shmem + 131072);
  unsigned long long* full = (unsigned long long*)(buf_dyn_shmem + 147456);
  unsigned long long* empty = (unsigned long long*)(buf_dyn_shmem + 147488);
  if (tx == 0) {
    tl::prefetch_tensormap(A_desc);
    tl::prefetch_tensormap(B_desc);
    tl::prefetch_tensormap(C_desc);
    #pragma unroll
    for (int s = 0; s < 4; ++s) {
      tl::mbar_init(&full[s], 1);
      tl::mbar_init(&empty[s], 2);
    }
    tl::fence_mbar_init();
  }
  tl::sync_threads();
  const int warp = tl::warp_uniform(tx >> 5);
  const int blocks = (K + 63) >> 6;
  if (warp >= 8) {
    if (tl::elect_one()) {
      for (int ko = 0; ko < blocks; ++ko) {
        const int s_1 = ko & 3;
        const int parity = ((ko >> 2) & 1) ^ 1;
        tl::mbar_wait(&empty[s_1], parity);
        tl::mbar_expect_tx(&full[s_1], 32768);
        tl::tma_load(&A_shared[s_1 * 8192], A_desc, &full[s_1], ko * 64, by * 128);
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
          tl::tma_load(&B_shared[s_1 * 8192 + j * 4096], B_desc, &full[s_1], bx * 128 + j * 64, ko * 64);
        }
      }
    }
  } else {
    const int group = warp >> 2;
    __align__(16) float C_local[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
      C_local[i] = 0.0f;
    }
    tl::reg_fence<64>(C_local);
    for (int ko_1 = 0; ko_1 < blocks; ++ko_1) {
      const int s_2 = ko_1 & 3;
      const int parity_1 = (ko_1 >> 2) & 1;
      tl::mbar_wait(&full[s_2], parity_1);
      const unsigned long long desc_a = tl::wgmma_desc(&A_shared[s_2 * 8192 + group * 4096], 16, 1024, 1);
      const unsigned long long desc_b = tl::wgmma_desc(&B_shared[s_2 * 8192], 8192, 1024, 1);
      tl::wgmma_fence();
      #pragma unroll
      for (int k = 0; k < 4; ++k) {
        tl::wgmma_m64n128k16_f16_f32_ss<0, 1>(C_local, desc_a + (unsigned long long)k * 2ULL, desc_b + (unsigned long long)k * 128ULL, 1);
      }
      tl::wgmma_commit();
      tl::wgmma_wait<1>();
      if ((tx & 127) == 0 && ko_1 > 0) {
        tl::mbar_arrive(&empty[(ko_1 + 3) & 3]);
      }
    }
    tl::wgmma_wait<0>();
    tl::reg_fence<64>(C_local);
    __align__(16) half_t packed[8];
    const int row = ((tx & 127) >> 5) * 16 + (tx & 15);
    #pragma unroll
    for (int j_1 = 0; j_1 < 2; ++j_1) {
      if ((tx & 127) == 0) {
        tl::tma_store_wait<0>();
      }
      tl::named_barrier_sync(group + 1, 128);
      #pragma unroll
      for (int q = 0; q < 4; ++q) {
        tl::store_vec(packed, tl::cast<half_t>(tl::load_vec<float, 8>(&C_local[j_1 * 32 + q * 8])));
        tl::stmatrix<4, false>(&C_shared[group * 4096 + row * 64 + ((q * 2 + ((tx & 31) >> 4)) ^ (row & 7)) * 8], packed);
      }
      tl::fence_proxy_async();
      tl::named_barrier_sync(group + 1, 128);
      if ((tx & 127) == 0) {
        tl::tma_store(C_desc, &C_shared[group * 4096], bx * 128 + j_1 * 64, by * 128 + group * 64);
        tl::tma_store_commit();
      }
    }
    if ((tx & 127) == 0) {
      tl::tma_store_wait<0>();
    }
  }
}
