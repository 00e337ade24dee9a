// C = A B^T in bfloat16: a producer warpgroup with TMA, two consumers with wgmma, a ring of four
// stages, a TMA-store epilogue. FAULT is a number that the tests put in; 0 is right.
#include <tl/core.h>
#include <tl/ldmatrix.h>
#include <tl/mbarrier.h>
#include <tl/tma.h>
#include <tl/wgmma.h>

extern "C" __global__ void __launch_bounds__(384, 1) hopper(
    const __grid_constant__ tl::TensorMap tA, const __grid_constant__ tl::TensorMap tB,
    const __grid_constant__ tl::TensorMap tC, int M, int N, int K) {
  extern __shared__ __align__(1024) unsigned char buf_dyn_shmem[];
  constexpr int BM = 128, BN = 256, BK = 64, ST = 4, SA = BM * BK * 2, SB = BN * BK * 2;
  unsigned char* sA = buf_dyn_shmem;
  unsigned char* sB = buf_dyn_shmem + ST * SA;
  unsigned long long* full = (unsigned long long*)(buf_dyn_shmem + ST * (SA + SB));
  unsigned long long* empty = full + ST;
  const int wg = (int)threadIdx.x / 128, tid = (int)threadIdx.x % 128, warp = tid / 32, lane = tid % 32;
  if (threadIdx.x == 0) {
    for (int i = 0; i < ST; ++i) {
      tl::mbar_init(&full[i], 1);
      tl::mbar_init(&empty[i], FAULT == 8 ? 3 : 2);
    }
    if (FAULT != 9) tl::fence_mbar_init();
  }
  if (FAULT != 10) tl::sync_threads();
  const int nk = K / BK, bm = (int)blockIdx.y, bn = (int)blockIdx.x;
  if (wg == 0) {
    tl::setmaxnreg_dec<40>();
    if (threadIdx.x == 0) {
      unsigned int ph = FAULT == 2 ? 0 : 1;
      int s = 0;
      for (int k = 0; k < nk; ++k) {
        if (FAULT != 11) tl::mbar_wait(&empty[s], ph);
        tl::mbar_expect_tx(&full[s], FAULT == 5 ? SA : FAULT == 6 ? SA + SB + 16 : SA + SB);
        tl::tma_load(sA + s * SA, tA, &full[s], k * BK, bm * BM);
        tl::tma_load(sB + s * SB, tB, &full[s], k * BK, bn * BN);
        if (++s == ST) {
          s = 0;
          ph ^= 1;
        }
      }
    }
  } else {
    tl::setmaxnreg_inc<232>();
    const int cw = wg - 1;
    float d[128];
#pragma unroll
    for (int i = 0; i < 128; ++i) d[i] = 0.0f;
    unsigned int ph = 0;
    int s = 0, prev = -1;
    for (int k = 0; k < nk; ++k) {
      if (FAULT != 1) tl::mbar_wait(&full[s], ph);
      const unsigned long long da = tl::wgmma_desc(sA + s * SA + cw * 64 * BK * 2, 16, 1024, 1);
      const unsigned long long db = tl::wgmma_desc(sB + s * SB, 16, 1024, 1);
      if (FAULT != 7) tl::wgmma_fence();
#pragma unroll
      for (int kk = 0; kk < BK / 16; ++kk) tl::wgmma_m64n256k16_bf16_f32_ss<0, 0>(d, da + kk * 2, db + kk * 2, (k | kk) != 0);
      tl::wgmma_commit();
      if (FAULT != 3) tl::wgmma_wait<1>();
      if (FAULT == 3 ? tid == 0 : (prev >= 0 && tid == 0)) tl::mbar_arrive(&empty[FAULT == 3 ? s : prev]);
      prev = s;
      if (++s == ST) {
        s = 0;
        ph ^= 1;
      }
    }
    if (FAULT != 12) tl::wgmma_wait<0>();
    if (FAULT != 3 && tid == 0) tl::mbar_arrive(&empty[prev]);
    tl::named_barrier_sync(1, 256);
    unsigned char* sC = buf_dyn_shmem + cw * 64 * BN * 2;
#pragma unroll
    for (int j = 0; j < BN / 16; ++j) {
      bfloat16_t r[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) r[i] = tl::cast<bfloat16_t>(d[j * 8 + i]);
      const int row = warp * 16 + (lane & 15), col = j * 16 + (lane >> 4) * 8, sub = col >> 6, c = (col & 63) >> 3;
      tl::stmatrix<4, false>(sC + sub * 8192 + row * 128 + ((c ^ (row & 7)) << 4), r);
    }
    if (FAULT != 4) tl::fence_proxy_async();
    if (FAULT != 13) tl::named_barrier_sync(2 + cw, 128);
    if (tid == 0) {
#pragma unroll
      for (int sub = 0; sub < 4; ++sub) tl::tma_store(tC, sC + sub * 8192, bn * BN + sub * 64, bm * BM + cw * 64);
      if (FAULT != 14) tl::tma_store_commit();
      if (FAULT != 15) tl::tma_store_wait<0>();
    }
  }
}
