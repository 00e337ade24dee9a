// SPDX-License-Identifier: Apache-2.0
// A driver for tests: answers as one H200 would and records what is launched, without a GPU.
// Memory is the host's. It is built with the soname of the real driver, so that a process that has
// loaded it (with global symbols) finds it by that name.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  int id, pad;
  union { unsigned dim[3]; int flag; char bytes[64]; } value;
} Attribute;
typedef struct {
  unsigned grid[3], block[3], shared;
  void *stream;
  Attribute *attributes;
  unsigned attribute_count;
} Config;

// What tests read.
int fake_launches, fake_fail_with, fake_current_device = -1, fake_shared_limit = 48 * 1024;
unsigned fake_grid[3], fake_block[3], fake_shared, fake_attribute_count, fake_attribute_id, fake_attribute_dim[3];
void *fake_stream;
char fake_kernel[256];
unsigned long long fake_params[32];
struct {
  int dtype, swizzle;
  unsigned rank, box[5];
  unsigned long long address, dims[5], strides[5];
} fake_map;

int cuInit(unsigned flags) { return flags; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Fake H200 %d", device); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
  *value = attribute == 75 ? 9 : attribute == 76 ? 0 : attribute == 97 ? 232448 : attribute == 16 ? 132 : 0;
  return device ? 101 : 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(long)(device + 1); return 0; }
int cuCtxSetCurrent(void *context) { fake_current_device = (int)(long)context - 1; return 0; }
int cuCtxGetCurrent(void **context) { *context = (void *)(long)(fake_current_device + 1); return 0; }
int cuCtxPushCurrent_v2(void *context) { return cuCtxSetCurrent(context); }
int cuCtxPopCurrent_v2(void **context) { cuCtxGetCurrent(context); fake_current_device = -1; return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuStreamCreate(void **stream, unsigned flags) { *stream = (void *)(0x5000L + flags); return 0; }

int cuGetErrorName(int error, const char **text) { *text = error == 200 ? "CUDA_ERROR_INVALID_IMAGE" : "CUDA_ERROR_FAKE"; return 0; }
int cuGetErrorString(int error, const char **text) { *text = error == 200 ? "device kernel image is invalid" : "told to fail"; return 0; }

int cuLibraryLoadData(void **library, const void *code, void *a, void *b, unsigned c, void *d, void *e, unsigned f) {
  *library = (void *)code;
  return a || b || c || d || e || f ? 1 : memcmp(code, "\177ELF", 4) ? 200 : 0;
}
int cuLibraryUnload(void *library) { return library == 0; }
int cuLibraryGetKernel(void **kernel, void *library, const char *name) { *kernel = strdup(name); return library == 0; }
int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device) {
  *value = attribute == 4 ? 168 : attribute == 8 ? fake_shared_limit : 0;
  return kernel == 0 || device;
}
int cuKernelSetAttribute(int attribute, int value, void *kernel, int device) {
  if (attribute == 8) fake_shared_limit = value;
  return kernel == 0 || device || value > 232448;
}
int cuLaunchKernelEx(const Config *c, void *kernel, void **params, void **extra) {
  if (fake_fail_with) return fake_fail_with;
  if (extra || c->shared > (unsigned)fake_shared_limit) return 1;
  fake_launches++;
  memcpy(fake_grid, c->grid, sizeof fake_grid);
  memcpy(fake_block, c->block, sizeof fake_block);
  fake_shared = c->shared;
  fake_stream = c->stream;
  fake_attribute_count = c->attribute_count;
  if (c->attribute_count) {
    fake_attribute_id = c->attributes[0].id;
    memcpy(fake_attribute_dim, c->attributes[0].value.dim, sizeof fake_attribute_dim);
  }
  snprintf(fake_kernel, sizeof fake_kernel, "%s", (const char *)kernel);
  // Eight bytes of each parameter: a test passes as many as it names in the kernel ("f_3").
  const char *digits = strrchr(fake_kernel, '_');
  for (int i = 0, n = digits ? atoi(digits + 1) : 0; i < n && i < 32; ++i) memcpy(&fake_params[i], params[i], 8);
  return 0;
}
int cuTensorMapEncodeTiled(void *map, int dtype, unsigned rank, void *address, const unsigned long long *dims,
                           const unsigned long long *strides, const unsigned *box, const unsigned *element_strides,
                           int interleave, int swizzle, int l2, int oob) {
  if ((unsigned long)map % 64 || rank < 1 || rank > 5 || interleave || oob || l2 < 0) return 1;
  fake_map.dtype = dtype;
  fake_map.swizzle = swizzle;
  fake_map.rank = rank;
  fake_map.address = (unsigned long long)address;
  for (unsigned i = 0; i < rank; ++i) {
    if (element_strides[i] != 1) return 1;
    fake_map.dims[i] = dims[i];
    fake_map.box[i] = box[i];
    if (i + 1 < rank) fake_map.strides[i] = strides[i];
  }
  memset(map, 0xab, 128);
  return 0;
}

int cuMemAlloc_v2(unsigned long long *address, size_t size) { *address = (unsigned long long)malloc(size); return *address ? 0 : 2; }
int cuMemFree_v2(unsigned long long address) { free((void *)address); return 0; }
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t size) { memcpy((void *)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size) { memcpy(to, (void *)from, size); return 0; }
int cuEventCreate(void **event, unsigned flags) { *event = malloc(1); return flags; }
int cuEventRecord(void *event, void *stream) { return event == 0 || stream == (void *)1; }
int cuEventSynchronize(void *event) { return event == 0; }
int cuEventElapsedTime(float *ms, void *start, void *end) { *ms = 1.5f; return start == end; }
int cuEventDestroy_v2(void *event) { free(event); return 0; }
