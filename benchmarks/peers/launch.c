// SPDX-License-Identifier: Apache-2.0
// The cheapest launch there is: cuLaunchKernelEx in a loop. Needs no CUDA header; the caller passes
// the driver's function, a CUlaunchConfig, the kernel and its argument pointers.
#include <time.h>

typedef int (*Launch)(const void* config, void* kernel, void** arguments, void** extra);

// Microseconds of host time per launch; a negative number is the driver's error code.
double launch_us(Launch launch, const void* config, void* kernel, void** arguments, int calls) {
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (int i = 0; i < calls; ++i) {
    int code = launch(config, kernel, arguments, 0);
    if (code) return -code;
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  return ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / 1e3 / calls;
}
