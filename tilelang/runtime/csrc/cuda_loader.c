// SPDX-License-Identifier: Apache-2.0
// Loads the kernels of an exported library: on a device's first call, from the cubin in the library.
//
// What stands before this text (runtime/export.py): ENTRY_STATE, the function that gives the memory shared
// with the entry; the offsets in it; `tl_cubin`, `tl_kernels` and `tl_functions`. The driver is found at run
// time, so the library loads where there is none.

extern void* dlopen(const char*, int);
extern void* dlsym(void*, const char*);
extern int snprintf(char*, unsigned long, const char*, ...);
extern void TVMFFIErrorSetRaisedFromCStr(const char*, const char*);
extern char* ENTRY_STATE(void);

enum { TL_MAX_SHARED = 8, TL_NOW = 2 };  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, RTLD_NOW

static int tl_lock;
static void* tl_library;

static int tl_failed(const char* what, int code) {
  char text[256];
  snprintf(text, sizeof text, "kernel %s: %s failed (CUDA error %d)", TL_NAME, what, code);
  TVMFFIErrorSetRaisedFromCStr("RuntimeError", text);
  return -1;
}

#define TL_CALL(name, params, ...)                                              \
  do {                                                                         \
    int (*call) params = (int (*) params)dlsym(driver, #name);                  \
    int code = call ? call(__VA_ARGS__) : -1;                                   \
    if (code) return tl_failed(#name, code);                                    \
  } while (0)

static int tl_load_module(void* driver, char* state, int device) {
  void *context, *previous;
  TL_CALL(cuInit, (unsigned), 0);
  TL_CALL(cuDevicePrimaryCtxRetain, (void**, int), &context, device);
  TL_CALL(cuCtxPushCurrent_v2, (void*), context);
  if (!tl_library)
    TL_CALL(cuLibraryLoadData, (void**, const void*, void*, void*, unsigned, void*, void*, unsigned), &tl_library,
            tl_cubin, 0, 0, 0, 0, 0, 0);
  for (int i = 0; i < TL_NUM_KERNELS; ++i) {
    void* kernel;
    TL_CALL(cuLibraryGetKernel, (void**, void*, const char*), &kernel, tl_library, tl_kernels[i].name);
    TL_CALL(cuKernelSetAttribute, (int, int, void*, int), TL_MAX_SHARED, tl_kernels[i].shared, kernel, device);
    *(void**)(state + TL_KERNELS + 8 * i) = kernel;
  }
  TL_CALL(cuCtxPopCurrent_v2, (void**), &previous);
  for (int i = 0; i < TL_NUM_FUNCTIONS; ++i) {
    void* function = dlsym(driver, tl_functions[i].name);
    if (!function) return tl_failed(tl_functions[i].name, -1);
    *(void**)(state + tl_functions[i].offset) = function;
  }
  *(void**)(state + TL_CONTEXTS + 8 * device) = context;
  __atomic_store_n(state + TL_READY + device, 1, __ATOMIC_RELEASE);
  return 0;
}

static int tl_load(char* state, int device) {
  void* driver = dlopen("libcuda.so.1", TL_NOW);
  if (!driver) {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", "kernel " TL_NAME ": there is no CUDA driver on this machine");
    return -1;
  }
  while (__atomic_exchange_n(&tl_lock, 1, __ATOMIC_ACQUIRE)) {}
  int code = tl_load_module(driver, state, device);
  __atomic_store_n(&tl_lock, 0, __ATOMIC_RELEASE);
  return code;
}

__attribute__((constructor)) static void tl_install(void) {
  *(int (**)(char*, int))(ENTRY_STATE() + TL_LOADER) = tl_load;
}
