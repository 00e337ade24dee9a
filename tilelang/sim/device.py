# SPDX-License-Identifier: Apache-2.0
"""The simulated device: TMA descriptors, and whole programs on numpy or torch CPU tensors.

In: an `ir.HostProgram` and the module of its kernels. Out: what the launches wrote, in the caller's
tensors and in new arrays for the outputs. Argument checks beyond what is needed to bind the sizes
are the host program's business (`runtime/launch.py`), not this file's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilelang.errors import ArgumentTypeError, ArgumentValueError
from tilelang.ir import Buffer, Store, TensorMap, Var, walk
from tilelang.ir.evaluate import evaluate
from tilelang.ir.expr import Call, Expr
from tilelang.ir.intrinsics import TABLE

from .module import SimModule
from .report import SimReport

if TYPE_CHECKING:
    import numpy as np

    from tilelang.ir import DType, HostProgram, Kernel

__all__ = ["SimTensorMap", "run_program", "tensor_map"]

_SCALARS: dict[str, Any] = {
    "bool": ctypes.c_bool, "int8": ctypes.c_int8, "int16": ctypes.c_int16, "int32": ctypes.c_int32,
    "int64": ctypes.c_int64, "uint8": ctypes.c_uint8, "uint16": ctypes.c_uint16,
    "uint32": ctypes.c_uint32, "uint64": ctypes.c_uint64, "float32": ctypes.c_float,
    "float64": ctypes.c_double, "handle": ctypes.c_void_p,
}  # fmt: skip


class SimTensorMap(ctypes.Structure):
    """TlsimTensorMap of `include/tlsim/api.h`."""

    _fields_ = (
        ("base", ctypes.c_void_p), ("dims", ctypes.c_uint64 * 5), ("strides", ctypes.c_uint64 * 4),
        ("box", ctypes.c_uint32 * 5), ("rank", ctypes.c_uint8), ("element_bytes", ctypes.c_uint8),
        ("swizzle", ctypes.c_uint8), ("type", ctypes.c_uint8), ("padding", ctypes.c_uint8 * 24),
    )  # fmt: skip


# TlsimType of `include/tlsim/api.h`, in its order.
_TYPES = (
    "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
    "tfloat32", "float32", "float64", "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip


def tensor_map(
    address: int, dtype: DType, dims: Sequence[int], strides: Sequence[int], box: Sequence[int],
    swizzle: int,
) -> SimTensorMap:  # fmt: skip
    """A descriptor, innermost first; `strides` are in bytes and leave out the innermost."""
    if not 1 <= len(dims) <= 5 or len(box) != len(dims) or len(strides) != len(dims) - 1:
        raise ArgumentValueError(
            "a tensor map has 1 to 5 dimensions, and a stride for all but the first; got dims "
            f"{list(dims)}, strides {list(strides)}, box {list(box)}",
            code="TL0934",
            help="give dims, strides and box innermost first",
        )
    out = SimTensorMap(base=address, rank=len(dims), element_bytes=dtype.bytes, swizzle=swizzle)
    name = str(dtype.element)
    out.type = _TYPES.index(name) if name in _TYPES else _TYPES.index("uint8")
    out.dims[: len(dims)] = list(dims)
    out.strides[: len(strides)] = list(strides)
    out.box[: len(box)] = list(box)
    return out


def run_program(
    program: HostProgram, module: SimModule, args: Sequence[Any], check: bool | None = None
) -> tuple[list[Any], list[SimReport]]:
    """Runs all launches of a program. `args`: values for the parameters that are not outputs.

    Returns the outputs (numpy arrays) and a report for each launch that had blocks.
    """
    run = _Run(program, args)
    reports = []
    for kernel in program.launches:
        grid = [int(evaluate(g, run.values)) for g in kernel.grid]
        if min(grid) <= 0:
            continue
        values = [run.argument(a) for a in kernel.args]
        reports.append(
            module.launch(
                kernel.name,
                grid,
                kernel.block,
                kernel.dynamic_smem,
                values,
                run.ranges(kernel),
                check,
                cluster=kernel.attrs.get("cluster_dims") or (),
                cooperative=bool(kernel.attrs.get("cooperative")),
            )
        )
    return [run.arrays[program.params[i]] for i in program.outputs], reports  # type: ignore[index]


class _Run:
    """The arguments of one call: arrays by buffer, numbers by variable."""

    def __init__(self, program: HostProgram, args: Sequence[Any]) -> None:
        inputs = [p for i, p in enumerate(program.params) if i not in program.outputs]
        if len(inputs) != len(args):
            raise ArgumentTypeError(
                f"{program.name} takes {len(inputs)} arguments, got {len(args)}",
                code="TL0935",
                help="pass one argument for every parameter that is no output",
            )
        self.values: dict[Var, Any] = {}
        self.arrays: dict[Buffer, np.ndarray[Any, Any]] = {}
        for p, a in zip(inputs, args, strict=True):
            if isinstance(p, Var):
                self.values[p] = a
            else:
                self._bind(p, _as_array(p, a))
        for p in (*(program.params[i] for i in program.outputs), *program.temporaries):
            assert isinstance(p, Buffer)
            self.arrays[p] = self._allocate(p)

    def _bind(self, buffer: Buffer, array: np.ndarray[Any, Any]) -> None:
        """Sizes that are variables get their values; the others must agree."""
        if array.ndim != buffer.ndim:
            raise ArgumentValueError(
                f"{buffer.name} has {buffer.ndim} dimensions, the argument {array.ndim}",
                code="TL0936",
                help="pass an array of this rank",
            )
        self.arrays[buffer] = array
        strides = [s // array.itemsize for s in array.strides]
        sizes = list(zip(buffer.shape, array.shape, strict=True))
        if buffer.strides is not None:
            sizes += zip(buffer.strides, strides, strict=True)
        for want, got in sizes:
            if isinstance(want, Var) and want not in self.values:
                self.values[want] = got
        for want, got in sizes:
            if self._known(want) not in (None, got):
                raise ArgumentValueError(
                    f"{buffer.name}: a size of {want} is expected where the argument has {got}",
                    code="TL0937",
                    help="pass an array of this size",
                )

    def _known(self, e: Expr) -> int | None:
        try:
            return int(evaluate(e, self.values))
        except KeyError:  # of a variable that a later argument binds
            return None

    def _allocate(self, buffer: Buffer) -> np.ndarray[Any, Any]:
        import numpy as np

        return np.empty(
            [int(evaluate(s, self.values)) for s in buffer.shape], buffer.dtype.as_numpy()
        )

    def argument(self, a: Buffer | Var | TensorMap) -> Any:
        """The ctypes value of a kernel's argument."""
        if isinstance(a, Buffer):
            return ctypes.c_void_p(self.arrays[a.root()].ctypes.data)
        if isinstance(a, Var):
            return _scalar(self.values[a], a.dtype)
        dtype = a.dtype or a.buffer.dtype
        return tensor_map(
            self.arrays[a.buffer.root()].ctypes.data, dtype, _ints(a.dims, self.values),
            [s * dtype.bytes for s in _ints(a.strides[1:], self.values)], a.box, a.swizzle,
        )  # fmt: skip

    def ranges(self, kernel: Kernel) -> list[tuple[int, int, str, bool]]:
        """The memory of the kernel's tensors."""
        written = _written(kernel)
        used = {
            a.buffer.root() if isinstance(a, TensorMap) else a.root()
            for a in kernel.args
            if not isinstance(a, Var)
        }
        return [
            (array.ctypes.data, _extent(array), buffer.name, buffer in written)
            for buffer, array in self.arrays.items()
            if buffer in used and array.size
        ]


def _extent(array: np.ndarray[Any, Any]) -> int:
    """Bytes from the first to the end of the last element."""
    return (
        sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) + array.itemsize
    )


def _ints(sizes: Sequence[Expr], values: Mapping[Var, Any]) -> list[int]:
    return [int(evaluate(s, values)) for s in sizes]


def _as_array(buffer: Buffer, value: Any) -> np.ndarray[Any, Any]:
    """A numpy array of the same memory."""
    import numpy as np

    if not isinstance(value, np.ndarray) and hasattr(value, "data_ptr"):  # torch, bfloat16 included
        value = value.detach().view(value.dtype)
        flat = (ctypes.c_uint8 * (value.untyped_storage().nbytes())).from_address(
            value.untyped_storage().data_ptr()
        )
        strides = [s * value.element_size() for s in value.stride()]
        offset = value.storage_offset() * value.element_size()
        return np.ndarray(tuple(value.shape), buffer.dtype.as_numpy(), flat, offset, strides)
    if not isinstance(value, np.ndarray) or value.dtype != buffer.dtype.as_numpy():
        raise ArgumentTypeError(
            f"{buffer.name} must be an array of {buffer.dtype}",
            code="TL0938",
            help="convert it: x.astype(dtype)",
        )
    return value


def _scalar(value: Any, dtype: DType) -> Any:
    """A ctypes value; narrow floats as their bit patterns."""
    make = _SCALARS.get(dtype.row.name)
    if make is not None:
        return make(value)
    import numpy as np

    bits = int(np.array(value, dtype.as_numpy()).view(f"u{dtype.bytes}"))
    return ctypes.c_uint16(bits) if dtype.bytes == 2 else ctypes.c_uint8(bits)


def _written(kernel: Kernel) -> set[Buffer]:
    """Global tensors that the kernel may write."""
    maps = {a.var: a.buffer.root() for a in kernel.args if isinstance(a, TensorMap)}
    out: set[Buffer] = set()
    for n in walk(kernel.body):
        if isinstance(n, Store):
            out.add(n.buffer.root())
        elif isinstance(n, Call) and n.op in ("call_extern", "tma_store"):
            out.update(maps[v] for v in n.args if isinstance(v, Var) and v in maps)
            out.update(_pointed(n, every=n.op == "call_extern"))
        elif isinstance(n, Call):
            out.update(_pointed(n, every=False))
    return out


def _pointed(call: Call, every: bool) -> set[Buffer]:
    """Buffers that a call may write through pointers."""
    uses = TABLE[call.op].pointers if call.op in TABLE else {}
    out: set[Buffer] = set()
    for i, a in enumerate(call.args):
        if (
            isinstance(a, Call)
            and a.op == "address_of"
            and (every or uses.get(i, "read") != "read")
        ):
            out.add(a.args[0].buffer.root())  # type: ignore[attr-defined]
    return out
