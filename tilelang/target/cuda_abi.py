# SPDX-License-Identifier: Apache-2.0
"""The binary interface of the CUDA driver, in one place, for Python and for generated C.

In: nothing. Out: numbers and struct layouts of `cuda.h` that we rely on (CUDA Driver API
reference), and the same as C text, so that neither the runtime nor a generated host program needs
CUDA's headers or a link against libcuda: the driver is opened by name when it is first used.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

__all__ = [
    "C_DRIVER_LOADER", "C_DRIVER_TYPES", "DRIVER_SONAME", "FUNCTIONS", "DeviceAttribute",
    "FunctionAttribute", "LaunchAttribute", "TensorMapDataType", "TensorMapSwizzle",
    "c_driver_table", "tensor_map_dtype",
]  # fmt: skip

DRIVER_SONAME = "libcuda.so.1"


class FunctionAttribute(IntEnum):
    """CUfunction_attribute."""

    MAX_THREADS_PER_BLOCK = 0
    SHARED_SIZE_BYTES = 1
    LOCAL_SIZE_BYTES = 3
    NUM_REGS = 4
    BINARY_VERSION = 6
    MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14


class DeviceAttribute(IntEnum):
    """CUdevice_attribute."""

    MULTIPROCESSOR_COUNT = 16
    L2_CACHE_SIZE = 38
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97


class LaunchAttribute(IntEnum):
    """CUlaunchAttributeID."""

    COOPERATIVE = 2
    CLUSTER_DIMENSION = 4
    PROGRAMMATIC_STREAM_SERIALIZATION = 6


class TensorMapDataType(IntEnum):
    """CUtensorMapDataType."""

    UINT8 = 0
    UINT16 = 1
    UINT32 = 2
    INT32 = 3
    UINT64 = 4
    INT64 = 5
    FLOAT16 = 6
    FLOAT32 = 7
    FLOAT64 = 8
    BFLOAT16 = 9


class TensorMapSwizzle(IntEnum):
    """CUtensorMapSwizzle; the names carry the bytes of a row of the pattern."""

    NONE = 0
    B32 = 1
    B64 = 2
    B128 = 3

    @classmethod
    def of_bytes(cls, width: int) -> TensorMapSwizzle:
        """The mode for `ir.TensorMap.swizzle`: 0, 32, 64 or 128 bytes."""
        return {0: cls.NONE, 32: cls.B32, 64: cls.B64, 128: cls.B128}[width]


def tensor_map_dtype(name: str, bits: int) -> TensorMapDataType:
    """How a tensor map calls an element type. A copy moves bits: types that it does not know go as
    unsigned integers of their size, except that out-of-bounds zeros look alike in all of them."""
    same = ("float16", "bfloat16", "float32", "float64", "int32", "int64")
    return TensorMapDataType[name.upper() if name in same else f"UINT{bits}"]


class Function(NamedTuple):
    """A driver function: its symbol in the library (with the version suffix), its C parameters."""

    name: str
    symbol: str
    parameters: str


# All return CUresult, an int whose 0 is success.
FUNCTIONS = tuple(
    Function(symbol.removesuffix("_v2"), symbol, parameters)
    for symbol, parameters in (
        ("cuInit", "unsigned flags"),
        ("cuGetErrorName", "int error, const char **text"),
        ("cuGetErrorString", "int error, const char **text"),
        ("cuCtxGetCurrent", "void **context"),
        ("cuCtxSetCurrent", "void *context"),
        ("cuDevicePrimaryCtxRetain", "void **context, int device"),
        (
            "cuLibraryLoadData",
            "void **library, const void *code, void *jit_options, void *jit_values, "
            "unsigned jit_count, void *options, void *values, unsigned count",
        ),
        ("cuLibraryGetKernel", "void **kernel, void *library, const char *name"),
        ("cuKernelSetAttribute", "int attribute, int value, void *kernel, int device"),
        (
            "cuLaunchKernelEx",
            "const tl_launch_config *config, void *function, void **parameters, void **extra",
        ),
        (
            "cuTensorMapEncodeTiled",
            "tl_tensor_map *map, int dtype, unsigned rank, void *address, "
            "const unsigned long long *dims, const unsigned long long *strides, "
            "const unsigned *box, const unsigned *element_strides, int interleave, int swizzle, "
            "int l2_promotion, int oob_fill",
        ),
    )
)

# CUlaunchConfig, CUlaunchAttribute (its value is a union of 64 bytes) and CUtensorMap.
C_DRIVER_TYPES = """\
typedef struct {
  int id, pad;
  union { unsigned dim[3]; int flag; char bytes[64]; } value;
} tl_launch_attribute;
typedef struct {
  unsigned grid[3], block[3], shared_bytes;
  void *stream;
  tl_launch_attribute *attributes;
  unsigned attribute_count;
} tl_launch_config;
typedef struct { unsigned long long opaque[16]; } __attribute__((aligned(64))) tl_tensor_map;
"""

# Opens the driver once; 0, or -1 with a reason in `why`. The slots are filled from the last, so
# that cuInit, the first, says that all are.
C_DRIVER_LOADER = """\
static int tl_open_driver(char *why, unsigned long size) {
  if (tl_cu.cuInit) return 0;
  void *library = dlopen("libcuda.so.1", 2 /* RTLD_NOW */);
  if (!library) {
    snprintf(why, size, "cannot load the CUDA driver: %s", dlerror());
    return -1;
  }
  void **slots = (void **)&tl_cu;
  for (int i = (int)(sizeof(tl_cu) / sizeof(void *)) - 1; i >= 0; --i) {
    void *symbol = dlsym(library, tl_cu_symbols[i]);
    if (!symbol) {
      snprintf(why, size, "the CUDA driver is too old: it has no %s", tl_cu_symbols[i]);
      return -1;
    }
    slots[i] = symbol;
  }
  return 0;
}
"""

_LIBC = """\
void *dlopen(const char *, int);
void *dlsym(void *, const char *);
char *dlerror(void);
int snprintf(char *, unsigned long, const char *, ...);
"""


def c_driver_table() -> str:
    """C text without any include: the types, `tl_cu.<function>`, and `tl_open_driver`."""
    pointers = "\n".join(f"  int (*{f.name})({f.parameters});" for f in FUNCTIONS)
    symbols = ",\n".join(f'  "{f.symbol}"' for f in FUNCTIONS)
    return (
        f"{_LIBC}{C_DRIVER_TYPES}static struct {{\n{pointers}\n}} tl_cu;\n"
        f"static const char *const tl_cu_symbols[] = {{\n{symbols}\n}};\n{C_DRIVER_LOADER}"
    )
