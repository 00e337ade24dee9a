#include <tl/core.h>

extern "C" __global__ void __launch_bounds__(256, 1) add_kernel(
    const float* __restrict__ A,
    const float* __restrict__ B,
    float* __restrict__ C,
    int n) {
  const int bx = (int)blockIdx.x;
  const int tx = (int)threadIdx.x;
  const int i = bx * 256 + tx;
  if (i < n) {
    C[i] = A[i] + B[i];
  }
}
