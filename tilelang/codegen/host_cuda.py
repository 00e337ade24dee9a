# SPDX-License-Identifier: Apache-2.0
"""Launches CUDA kernels from the packed entry.

In: checked arguments. Out: instructions that load the module on a device's first call (through a
loader that the runtime provides), encode TMA descriptors, and call cuLaunchKernelEx on the caller's
stream.

`STATE` is the memory that entry and loader share: addresses of driver functions and of the loader,
per device a flag and the primary context, and the handle of every kernel. The runtime finds it
through the exported function `state_name(program)`, and puts the loader there.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from tilelang.errors import InternalError
from tilelang.ir import Buffer, Kernel, TensorMap, Var

from .host_values import kernel_argument
from .host_writer import NULL, Externs, HostWriter, Value

if TYPE_CHECKING:
    from tilelang.ir import HostProgram

    from .host_args import Arguments

__all__ = ["MAX_DEVICES", "STATE", "STATE_ENTRIES", "CudaLaunches", "state_name", "state_size"]

MAX_DEVICES = 64
# Offsets in the shared memory; the functions are pointers of 8 bytes.
STATE = {
    "cuLaunchKernelEx": 0, "cuTensorMapEncodeTiled": 8, "cuCtxGetDevice": 16,
    "cuCtxPushCurrent_v2": 24, "cuCtxPopCurrent_v2": 32, "cuGetErrorString": 40, "loader": 48,
    "ready": 64, "contexts": 64 + MAX_DEVICES, "kernels": 64 + MAX_DEVICES + 8 * MAX_DEVICES,
}  # fmt: skip
STATE_ENTRIES = {name: offset for name, offset in STATE.items() if name.startswith("cu")}
_LAUNCH_CONFIG_BYTES = 56
_ATTRIBUTE_BYTES = 72
# CUlaunchAttributeID (cuda.h).
_COOPERATIVE, _CLUSTER, _PROGRAMMATIC = 2, 4, 6
# CUtensorMapDataType (cuda.h).
_MAP_TYPES = {
    "uint8": 0, "int8": 0, "bool": 0, "float8_e4m3fn": 0, "float8_e5m2": 0, "uint16": 1, "int16": 1,
    "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "tfloat32": 7,
    "float64": 8, "bfloat16": 9,
}  # fmt: skip
_MAP_SWIZZLE = {0: 0, 32: 1, 64: 2, 128: 3}
_PROMOTE_L2_128B = 2
_MAP_BYTES, _MAP_ALIGN = 128, 64
_CACHE_WAYS = 8


def state_name(entry: str) -> str:
    """The function that gives the address of the state of an entry."""
    return f"{entry}_state"


def state_size(num_kernels: int) -> int:
    return STATE["kernels"] + 8 * num_kernels


class CudaLaunches:
    """Emits the launches of one program."""

    def __init__(self, w: HostWriter, program: HostProgram) -> None:
        self.w = w
        self.program = program
        w.extern("memcpy", Externs("ptr", ("ptr", "ptr", "i64")))
        w.extern("memset", Externs("ptr", ("ptr", "i32", "i64")))
        self.state = w.memory("tl_cuda_state", state_size(len(program.launches)), 64)
        self.device: Value | None = None
        self.stream: Value | None = None
        self.switched: Value | None = None

    def emit_state(self, entry: str) -> None:
        """The function through which the runtime finds the state."""
        w = self.w
        with w.function(state_name(entry), [], returns="ptr", export=True):
            w.ret(self.state)

    def launch(self, a: Arguments, index: int, kernel: Kernel, owned: Value) -> None:
        """Runs one kernel, unless its grid is empty."""
        w = self.w
        w.comment(kernel.name)
        grid = [a.exprs(e) for e in kernel.grid]
        some = w.compare("gt", grid[0], w.number(0))
        for extent in grid[1:]:
            some = w.op("and", some, w.compare("gt", extent, w.number(0)))
        for m in (arg for arg in kernel.args if isinstance(arg, TensorMap)):
            for e in (*m.dims, *m.strides):  # before the branch: later launches may use them too
                a.exprs(e)
        if kernel.attrs.get("context", self.stream is None):
            self._prepare(a)
        with w.if_(some):
            params = self._params(a, kernel)
            config = self._config(a, kernel, grid)
            handle = w.load("ptr", self.state, STATE["kernels"] + 8 * index, "kernel")
            run = w.load("ptr", self.state, STATE["cuLaunchKernelEx"], "launch")
            code = w.call(run, [config, handle, params, NULL], "code")
            self._restore()
            self.launched(a, kernel, code, config, owned)

    def launched(
        self, a: Arguments, kernel: Kernel, code: Value, config: Value, owned: Value
    ) -> None:
        """Reports a launch that failed."""
        w = self.w
        strerror = w.load("ptr", self.state, STATE["cuGetErrorString"])
        args = [strerror, w.string(kernel.name), w.convert(code, "i64"), config, owned]
        a.fail_if(w.compare("ne", code, w.number(0, "i32")), "tl_fail_launch", args)

    # -------------------------------------------------------------------------------- device

    def _prepare(self, a: Arguments) -> None:
        """The module on this device, and the caller's stream."""
        w = self.w
        device = a.device_id if a.device_id is not None else w.number(0, "i32")
        self.device = device
        place = w.offset(self.state, w.convert(device, "i64"))
        ready = w.load("i8", place, STATE["ready"], "ready")
        self.prepare(a, w.compare("eq", ready, w.number(0, "i8")))
        self.stream = self.current_stream(a)

    def prepare(self, a: Arguments, missing: Value) -> None:
        """Has the module loaded on a device that it is missing on."""
        w = self.w
        assert self.device is not None
        with w.if_(missing, unlikely=True):
            loader = w.load("ptr", self.state, STATE["loader"], "loader")
            failed = w.compare("ne", w.call(loader, [self.state, self.device]), w.number(0, "i32"))
            with w.if_(failed):
                w.ret(w.number(-1, "i32"))

    def current_stream(self, a: Arguments) -> Value:
        """The stream of the caller's framework."""
        assert self.device is not None
        return self.w.call("TVMFFIEnvGetStream", [self.w.number(2, "i32"), self.device], "stream")

    def _enter(self) -> None:
        """Makes the device's context current if another one is."""
        w = self.w
        assert self.device is not None
        current = w.stack(4, hint="current")
        w.store(w.number(-1, "i32"), current)
        w.call(w.load("ptr", self.state, STATE["cuCtxGetDevice"]), [current])
        other = w.compare("ne", w.load("i32", current), self.device)
        with w.if_(other, unlikely=True):
            at = w.op("mul", w.convert(self.device, "i64"), w.number(8))
            context = w.load("ptr", w.offset(self.state, at), STATE["contexts"])
            w.call(w.load("ptr", self.state, STATE["cuCtxPushCurrent_v2"]), [context])
        self.switched = other

    def _restore(self) -> None:
        w = self.w
        assert self.switched is not None
        with w.if_(self.switched, unlikely=True):
            place = w.stack(8, hint="popped")
            w.call(w.load("ptr", self.state, STATE["cuCtxPopCurrent_v2"]), [place])

    # -------------------------------------------------------------------------------- launch

    def _config(self, a: Arguments, kernel: Kernel, grid: list[Value]) -> Value:
        """A CUlaunchConfig."""
        w = self.w
        assert self.stream is not None
        self._enter()
        config = w.stack(_LAUNCH_CONFIG_BYTES, hint="config")
        for i, extent in enumerate(grid):
            w.store(w.convert(extent, "i32"), config, 4 * i)
        for i, threads in enumerate((*kernel.block, kernel.dynamic_smem)):
            w.store(w.number(threads, "i32"), config, 12 + 4 * i)
        w.store(self.stream, config, 32)
        attributes = self._attributes(kernel)
        w.store(attributes[0], config, 40)
        w.store(w.number(attributes[1], "i32"), config, 48)
        return config

    def _attributes(self, kernel: Kernel) -> tuple[Value, int]:
        """CUlaunchAttributes: clusters, cooperative launch, programmatic dependent launch."""
        w = self.w
        rows: list[tuple[int, tuple[int, ...]]] = []
        cluster = kernel.attrs.get("cluster_dims")
        if cluster is not None and tuple(cluster) != (1, 1, 1):
            rows.append((_CLUSTER, tuple(int(c) for c in cluster)))
        if kernel.attrs.get("cooperative"):
            rows.append((_COOPERATIVE, (1,)))
        if kernel.attrs.get("pdl"):
            rows.append((_PROGRAMMATIC, (1,)))
        if not rows:
            return NULL, 0
        memory = w.stack(_ATTRIBUTE_BYTES * len(rows), hint="attributes")
        for n, (id_, values) in enumerate(rows):
            w.store(w.number(id_, "i32"), memory, _ATTRIBUTE_BYTES * n)
            for i, v in enumerate(values):
                w.store(w.number(v, "i32"), memory, _ATTRIBUTE_BYTES * n + 8 + 4 * i)
        return memory, len(rows)

    def _params(self, a: Arguments, kernel: Kernel) -> Value:
        """The array of pointers to arguments."""
        w = self.w
        params = w.stack(8 * max(len(kernel.args), 1), hint="params")
        for i, arg in enumerate(kernel.args):
            if isinstance(arg, (Buffer, Var)):
                place = w.stack(8, hint=f"{arg.name}_arg")
                w.store(kernel_argument(a, arg), place)
            else:
                place = self._tensor_map(a, arg)
            w.store(place, params, 8 * i)
        return params

    # -------------------------------------------------------------------------------- TMA

    def _tensor_map(self, a: Arguments, m: TensorMap) -> Value:
        """The descriptor's place. The driver cannot describe an empty tensor: a kernel that is
        launched with one has no tile of it to copy, and is given zeros, which the TMA unit refuses.
        """
        w = self.w
        dims = [a.exprs(e) for e in m.dims]
        copy = w.stack(_MAP_BYTES, _MAP_ALIGN, hint="descriptor")

        def blank() -> Value:
            return w.call("memset", [copy, w.number(0, "i32"), w.number(_MAP_BYTES)], "map")

        empty = self._any([w.compare("eq", d, w.number(0)) for d in dims])
        w.choose(empty, blank, lambda: self._cached_map(a, m, dims, copy), "map")
        return copy

    def _any(self, conditions: list[Value]) -> Value:
        return reduce(lambda x, y: self.w.op("or", x, y), conditions)

    def _cached_map(self, a: Arguments, m: TensorMap, dims: list[Value], copy: Value) -> Value:
        """Fills `copy` with a descriptor that is encoded when the tensor's address, shape or
        strides are new.

        The last few are kept, found by the address; a lock guards them, and what the launch reads
        is a copy of our own.
        """
        w = self.w
        bits = m.buffer.dtype.bits
        strides = [self._bytes(a.exprs(e), bits) for e in m.strides[1:]]
        data = w.convert(a.data[m.buffer], "i64")
        key = [data, *dims, *strides]
        slot_bytes = _MAP_BYTES + 64 * -(-(8 * len(key)) // 64)
        cache = w.memory(f"tma_{m.buffer.name}", slot_bytes * _CACHE_WAYS, _MAP_ALIGN)
        lock = w.memory(f"tma_lock_{m.buffer.name}", 4, 4)
        way = w.op("and", w.op("lshr", data, w.number(9)), w.number(_CACHE_WAYS - 1))
        slot = w.offset(cache, w.op("mul", way, w.number(slot_bytes)), "slot")
        w.lock(lock)
        stale = self._any(
            [w.compare("ne", w.load("i64", slot, _MAP_BYTES + 8 * i), v) for i, v in enumerate(key)]
        )
        code = w.choose(
            stale, lambda: self._encode(a, m, slot, key, dims, strides), lambda: w.number(0, "i32"),
            "code",
        )  # fmt: skip
        w.call("memcpy", [copy, slot, w.number(_MAP_BYTES)])
        w.unlock(lock)
        args = [w.string(m.buffer.name), w.convert(code, "i64")]
        a.fail_if(w.compare("ne", code, w.number(0, "i32")), "tl_fail_encode", args)
        return copy

    def _bytes(self, elements: Value, bits: int) -> Value:
        w = self.w
        if bits % 8:
            return w.op("sdiv", w.op("mul", elements, w.number(bits)), w.number(8))
        return w.op("mul", elements, w.number(bits // 8))

    def _encode(
        self, a: Arguments, m: TensorMap, slot: Value, key: list[Value], dims: list[Value],
        strides: list[Value],
    ) -> Value:  # fmt: skip
        """Calls cuTensorMapEncodeTiled into the slot; the key is stored only if it succeeds."""
        w = self.w
        dtype = m.dtype or m.buffer.dtype
        kind = _MAP_TYPES.get(dtype.row.name)
        if kind is None:
            raise InternalError(f"TMA cannot copy elements of {dtype}")
        rank = len(m.dims)
        numbers = w.stack(8 * rank, hint="dims"), w.stack(8 * rank, hint="strides")
        for i, v in enumerate(dims):
            w.store(v, numbers[0], 8 * i)
        for i, v in enumerate(strides):
            w.store(v, numbers[1], 8 * i)
        box, ones = w.stack(4 * rank, hint="box"), w.stack(4 * rank, hint="ones")
        for i, extent in enumerate(m.box):
            w.store(w.number(extent, "i32"), box, 4 * i)
            w.store(w.number(1, "i32"), ones, 4 * i)
        encode = w.load("ptr", self.state, STATE["cuTensorMapEncodeTiled"], "encode")
        small = [w.number(n, "i32") for n in (0, _MAP_SWIZZLE[m.swizzle], _PROMOTE_L2_128B, 0)]
        head = [slot, w.number(kind, "i32"), w.number(rank, "i32"), a.data[m.buffer]]
        code = w.call(encode, [*head, numbers[0], numbers[1], box, ones, *small], "code")
        succeeded = w.compare("eq", code, w.number(0, "i32"))
        for i, v in enumerate(key):
            w.store(w.select(succeeded, v, w.number(0)), slot, _MAP_BYTES + 8 * i)
        return code
