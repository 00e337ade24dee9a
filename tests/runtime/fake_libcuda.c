// SPDX-License-Identifier: Apache-2.0
// A CUDA driver that records what it is asked: host code is tested with it where there is no GPU.
#include <string.h>

typedef struct { unsigned grid[3], block[3], smem; void *stream; void *attributes; unsigned count; } Config;
typedef struct { Config config; char attributes[4 * 72]; void *kernel; int device; unsigned long long params[16]; } Launch;
typedef struct { void *out; int type; unsigned rank; void *address; unsigned long long dims[5], strides[4]; unsigned box[5]; int swizzle; } Map;

Launch fake_launches[64];
int fake_num_launches, fake_num_params, fake_num_loads, fake_num_maps, fake_fail, fake_current = -1;
int fake_smem[64], fake_pushed[8], fake_num_pushed;
Map fake_maps[64];
static void *contexts[8] = {(void *)101, (void *)102, (void *)103};

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuDeviceGetCount(int *n) { *n = 2; return 0; }
int cuDeviceGetAttribute(int *v, int which, int device) { *v = which == 75 ? 9 : 0; return 0; }
int cuGetErrorName(int code, const char **s) { *s = "CUDA_ERROR_FAKE"; return 0; }
int cuGetErrorString(int code, const char **s) { *s = "a fake failure"; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int device) { *c = contexts[device]; return 0; }
static int device_of(void *context) { return context ? (int)(long)context - 101 : -1; }
int cuCtxSetCurrent(void *c) { fake_current = device_of(c); return 0; }
int cuCtxGetDevice(int *device) { if (fake_current < 0) return 201; *device = fake_current; return 0; }
static int stack[8], depth;
int cuCtxPushCurrent_v2(void *c) { stack[depth++] = fake_current; fake_current = device_of(c); fake_pushed[fake_num_pushed++ & 7] = fake_current; return 0; }
int cuCtxPopCurrent_v2(void **c) { *c = contexts[0]; fake_current = stack[--depth]; return 0; }
int cuLibraryLoadData(void **l, const void *code, void *a, void *b, unsigned n, void *c, void *d, unsigned m) {
  if (memcmp(code, "\177ELF", 4)) return 200;
  fake_num_loads++;
  *l = (void *)code;
  return 0;
}
int cuLibraryUnload(void *l) { return 0; }
int cuLibraryGetKernel(void **k, void *l, const char *name) { *k = (void *)(long)(name[strlen(name) - 1]); return 0; }
int cuKernelSetAttribute(int which, int value, void *k, int device) { fake_smem[device] = value; return 0; }
int cuTensorMapEncodeTiled(void *out, int type, unsigned rank, void *address, const unsigned long long *dims,
                           const unsigned long long *strides, const unsigned *box, const unsigned *ones, int interleave,
                           int swizzle, int promotion, int fill) {
  if (fake_fail) return 1;
  Map *m = &fake_maps[fake_num_maps++ & 63];
  *m = (Map){out, type, rank, address, {0}, {0}, {0}, swizzle};
  memcpy(m->dims, dims, 8 * rank);
  memcpy(m->strides, strides, 8 * (rank - 1));
  memcpy(m->box, box, 4 * rank);
  memset(out, 0x40 + fake_num_maps, 128);
  return 0;
}
int cuLaunchKernelEx(const Config *config, void *kernel, void **params, void **extra) {
  if (fake_fail) return 1;
  Launch *l = &fake_launches[fake_num_launches++ & 63];
  l->config = *config;
  memset(l->attributes, 0, sizeof l->attributes);
  if (config->count) memcpy(l->attributes, config->attributes, 72 * config->count);
  l->kernel = kernel;
  l->device = fake_current;
  for (int i = 0; i < fake_num_params; i++) memcpy(&l->params[i], params[i], 8);
  return 0;
}
