# SPDX-License-Identifier: Apache-2.0
"""A call as data: what is checked, computed and launched, for launchers without generated host
code.

In: a `CallSpec` of plain values (call_spec.py makes it), which goes to JSON and back: it is part of
the cache. Out: `bind`, which checks a call's arguments against it with the texts of the packed
entry and gives addresses, scalars and sizes.

A size is an int, the name of a symbol, or `[operator, operand, ...]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any
from weakref import CallableProxyType, ProxyType

from tilelang.errors import ArgumentTypeError, ArgumentValueError, ToolchainError
from tilelang.ir import DType

from .dlpack import CPU, CUDA, View, is_numpy, view_of

__all__ = [
    "CODES", "Bound", "CallSpec", "KernelSpec", "MapSpec", "ParamSpec", "Size", "alike", "evaluate",
]  # fmt: skip

# Codes of the mistakes that the packed entry reports too (codegen.host_errors); the texts agree.
CODES = {
    "count": "TL0901", "kind": "TL0902", "rank": "TL0903", "dtype": "TL0904", "shape": "TL0905",
    "stride": "TL0906", "device": "TL0907", "alignment": "TL0908", "null": "TL0909",
    "scalar": "TL0910", "range": "TL0911", "size": "TL0912", "devices": "TL0913",
    "assert": "TL0914", "contiguous": "TL0995", "expression": "TL0180", "kernel": "TL0817",
}  # fmt: skip
Size = Any  # int | str | list: recursive, which type checkers do not follow through JSON

_CONTIGUOUS = "pass x.contiguous() (numpy.ascontiguousarray), or declare T.StridedTensor"


def _tdiv(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_MEANING: dict[str, Callable[..., int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "//": lambda a, b: a // b if b else a, "%": lambda a, b: a % b if b else 0, ":tdiv": _tdiv,
    ":tmod": lambda a, b: a - b * _tdiv(a, b), ":min": min, ":max": max, "&": lambda a, b: a & b,
    "|": lambda a, b: a | b, "^": lambda a, b: a ^ b, "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b, ":and": lambda a, b: a and b, ":or": lambda a, b: a or b,
    ":not": lambda a: not a, ":neg": lambda a: -a, ":if": lambda c, a, b: a if c else b,
}  # fmt: skip


def evaluate(size: Size, symbols: Mapping[str, Any]) -> int:
    """The value of a size."""
    if isinstance(size, int):
        return size
    if isinstance(size, str):
        return int(symbols[size])
    return int(_MEANING[size[0]](*(evaluate(s, symbols) for s in size[1:])))


@dataclass(frozen=True)
class ParamSpec:
    """kind: tensor, scalar or pointer. strides: None for row-major. symbol: the name under which
    sizes refer to a scalar."""

    name: str
    kind: str
    dtype: str
    shape: tuple[Size, ...] = ()
    strides: tuple[Size, ...] | None = None
    align: int = 1
    symbol: str = ""


@dataclass(frozen=True)
class MapSpec:
    """A TMA descriptor of the tensor at `source`; see `ir.TensorMap`."""

    source: tuple[str, int]
    dtype: str
    dims: tuple[Size, ...]
    strides: tuple[Size, ...]
    box: tuple[int, ...]
    swizzle: int


@dataclass(frozen=True)
class KernelSpec:
    """args: ("param", n), ("workspace", n), ("symbol", name, dtype) or ("map", n) into `maps`.
    writes: which of the params it may write."""

    name: str
    args: tuple[tuple[Any, ...], ...]
    grid: tuple[Size, ...]
    block: tuple[int, int, int]
    dynamic_smem: int
    maps: tuple[MapSpec, ...] = ()
    writes: tuple[int, ...] = ()
    cluster: tuple[int, ...] = ()
    cooperative: bool = False
    pdl: bool = False


@dataclass
class Bound:
    """A checked call: views of the tensors by parameter, scalars and sizes by symbol."""

    views: dict[int, View]
    symbols: dict[str, Any]
    device: tuple[int, int]


@dataclass(frozen=True)
class CallSpec:
    """outputs: params that the caller may leave out. workspaces: (dtype, shape). asserts:
    (condition, message). bits: of the symbols that have fewer than 64."""

    name: str
    params: tuple[ParamSpec, ...]
    outputs: tuple[int, ...]
    kernels: tuple[KernelSpec, ...]
    workspaces: tuple[tuple[str, tuple[Size, ...]], ...] = ()
    asserts: tuple[tuple[Size, str], ...] = ()
    bits: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CallSpec:
        data = {k: _tuples(v) for k, v in data.items()}
        data["params"] = tuple(ParamSpec(**p) for p in data["params"])
        kernels = [
            KernelSpec(**{**k, "maps": tuple(MapSpec(**m) for m in k["maps"])})
            for k in data["kernels"]
        ]
        return cls(**{**data, "kernels": tuple(kernels)})

    @cached_property
    def inputs(self) -> tuple[int, ...]:
        """Positions of the params that the caller always passes."""
        return tuple(i for i in range(len(self.params)) if i not in self.outputs)

    @cached_property
    def first_tensor(self) -> int:
        """Position among the inputs of the first tensor; -1 if there is none."""
        kinds = [self.params[i].kind for i in self.inputs]
        return kinds.index("tensor") if "tensor" in kinds else -1

    @cached_property
    def written(self) -> frozenset[int]:
        """Params that some kernel may write."""
        return frozenset(w for k in self.kernels for w in k.writes)

    @cached_property
    def unread(self) -> frozenset[int]:
        """Tensors that no kernel takes: the caller may pass None for them."""
        used = [a for k in self.kernels for a in (*k.args, *(m.source for m in k.maps))]
        taken = {a[1] for a in used if a[0] == "param"}
        tensors = {i for i, p in enumerate(self.params) if p.kind == "tensor"}
        return frozenset(tensors - taken - set(self.outputs))

    @cached_property
    def symbol_sources(self) -> dict[str, tuple[str, int, str, int]]:
        """symbol -> (param name, position among the inputs, "shape" or "stride", dimension)."""
        out: dict[str, tuple[str, int, str, int]] = {}
        for at, index in enumerate(self.inputs):
            p = self.params[index]
            for kind, sizes in (("shape", p.shape), ("stride", p.strides or ())):
                for d, s in enumerate(sizes):
                    if isinstance(s, str) and not self._is_scalar(s):
                        out.setdefault(s, (p.name, at, kind, d))
        return out

    def _is_scalar(self, symbol: str) -> bool:
        return any(p.symbol == symbol for p in self.params)

    def output_shapes(self, inputs: Sequence[Any]) -> list[tuple[int, ...]]:
        """Shapes of the outputs for a call's inputs, before anything is checked."""
        symbols: dict[str, Any] = {}
        for at, index in enumerate(self.inputs):
            p = self.params[index]
            if p.kind == "scalar":
                symbols[p.symbol] = inputs[at]
        for symbol, (_, at, kind, d) in self.symbol_sources.items():
            sizes = _sizes(inputs[at], kind)
            if d >= len(sizes):
                symbols = self.bind(inputs, partial=True).symbols  # or says what is wrong
                break
            symbols[symbol] = sizes[d]
        return [tuple(evaluate(s, symbols) for s in self.params[o].shape) for o in self.outputs]

    # ---------------------------------------------------------------------------- checking

    def bind(
        self,
        args: Sequence[Any],
        *,
        device_type: int = CPU,
        partial: bool = False,
        trusted: bool = False,
    ) -> Bound:
        """Checks all arguments (only the inputs if `partial`); texts as of the packed entry.
        trusted: dtype, shape, strides and device of the tensors are as they should be."""
        indices = self.inputs if partial else tuple(range(len(self.params)))
        if len(args) != len(indices):
            names = ", ".join(self.params[i].name for i in indices)
            raise ArgumentValueError(
                f"kernel {self.name}: expected {len(indices)} arguments ({names}), got {len(args)}",
                code=CODES["count"],
            )
        bound = Bound({}, {}, (device_type, 0))
        origins: dict[str, str] = {}
        for index, x in zip(indices, args, strict=True):
            p = self.params[index]
            if p.kind != "tensor":
                bound.symbols[p.symbol] = self.number(p, x)
            elif x is not None or index not in self.unread:
                bound.views[index] = self._tensor(p, x, trusted)
                self.check_writable(index, x)
        order = [i for i in indices if i in bound.views and i not in self.outputs]
        if bound.views:
            bound.device = next(iter(bound.views.values())).device
        for index in order:
            self._bind_symbols(self.params[index], bound.views[index], bound, origins)
        if len(bound.views) + sum(p.kind != "tensor" for p in self.params) < len(indices):
            self._check_sizes_known(bound)
        for index in [] if trusted else [*order, *(o for o in self.outputs if o in bound.views)]:
            self._check(self.params[index], bound.views[index], bound, origins, device_type)
        for cond, message in self.asserts:
            if not evaluate(cond, bound.symbols):
                text = f"kernel {self.name}: assertion failed: {message}"
                raise ArgumentValueError(text, code=CODES["assert"])
        return bound

    def _check_sizes_known(self, bound: Bound) -> None:
        """Where None stands for a tensor, another must give the sizes that are needed."""
        needed: set[str] = set()
        for index in (*bound.views, *self.outputs):
            p = self.params[index]
            needed |= _names_in([*p.shape, *(p.strides or ())])
        for k in self.kernels:
            needed |= _names_in(k.grid) | {a[1] for a in k.args if a[0] == "symbol"}
            needed |= {n for m in k.maps for n in _names_in([*m.dims, *m.strides])}
        needed |= _names_in([cond for cond, _ in self.asserts])
        for name in sorted(needed - bound.symbols.keys()):
            having = [p.name for p in self.params if name in _names_in(p.shape)]
            raise ArgumentValueError(
                f"kernel {self.name}: the size {name} is known from none of {', '.join(having)}:"
                " one of them must be a tensor",
                code="TL0999",
            )

    def failed(self, message: str) -> ToolchainError:
        """The error of a CPU kernel that gave a message (an assertion of it did not hold)."""
        return ToolchainError(f"kernel {self.name}: {message}", code=CODES["kernel"])

    def stand_in(self, index: int, bound: Bound) -> tuple[int, ...]:
        """The shape of a tensor that passes for the parameter; sizes that nobody knows are 1."""
        shape = self.params[index].shape
        symbols = dict.fromkeys(_names_in(shape), 1) | bound.symbols
        return tuple(evaluate(s, symbols) for s in shape)

    def _where(self, p: ParamSpec) -> str:
        return f"kernel {self.name}: parameter {p.name}"

    def check_writable(self, index: int, x: Any) -> None:
        """Refuses an array that may not be written as a parameter that is."""
        if index in self.written and is_numpy(x) and not x.flags.writeable:
            raise ArgumentValueError(
                f"{self._where(self.params[index])} is written by the kernel, but the array is"
                " read-only",
                code="TL0918",
                help="pass a copy: x.copy()",
            )

    def _tensor(self, p: ParamSpec, x: Any, trusted: bool) -> View:
        try:
            view = view_of(x)
        except (ArgumentTypeError, ArgumentValueError) as error:
            text = f"{self._where(p)}: {error.message}"
            raise type(error)(text, code=error.code, help=error.help) from None
        except Exception as error:  # an object of any class may raise anything
            why = "" if _is_dead(x) else f" that gives no memory: {error}"
            text = f"{self._where(p)}: expected a tensor, got {_kind_name(x)}{why}"
            raise ArgumentTypeError(text, code=CODES["kind"]) from error
        if view is None:
            text = f"{self._where(p)}: expected a tensor, got {_kind_name(x)}"
            raise ArgumentTypeError(text, code=CODES["kind"])
        if len(view.shape) != len(p.shape):
            raise ArgumentValueError(
                f"{self._where(p)}: expected {len(p.shape)} dimensions, got {len(view.shape)}",
                code=CODES["rank"],
            )
        if not trusted and not _dtype_fits(p.dtype, view.dtype):
            raise ArgumentTypeError(
                f"{self._where(p)}: expected dtype {p.dtype}, got {view.dtype}", code=CODES["dtype"]
            )
        bits = DType(p.dtype).bits
        if bits < 8 and view.shape and view.dtype in ("int8", "uint8"):
            view = view._replace(shape=(*view.shape[:-1], view.shape[-1] * 8 // bits))
        return view

    def number(self, p: ParamSpec, x: Any) -> Any:
        """The value of a scalar or a pointer, as Python's own int, float or bool."""
        dtype = DType(p.dtype)
        if p.kind == "pointer":
            if isinstance(x, int) or x is None:
                return int(x or 0)
            view = view_of(x)
            if view is not None:
                return view.address
            expected = "an address (x.data_ptr())"
        elif dtype.is_float:
            try:
                if hasattr(x, "__float__"):
                    return float(x)
            except (OverflowError, TypeError, ValueError):
                pass
            expected = "a float"
        else:
            value = _index(x)
            if value is not None:
                return bool(value) if dtype.is_bool else self._in_range(p, dtype, value)
            expected = "a bool" if dtype.is_bool else "an int"
        text = f"{self._where(p)}: expected {expected}, got {_kind_name(x)}"
        raise ArgumentTypeError(text, code=CODES["scalar"])

    def _in_range(self, p: ParamSpec, dtype: DType, value: int) -> int:
        low = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
        high = low + 2**dtype.bits - 1
        if not low <= value <= high:
            raise ArgumentValueError(
                f"{self._where(p)}: expected a value of {dtype} ({low} to {high}), got {value}",
                code=CODES["range"],
            )
        return value

    def _bind_symbols(
        self, p: ParamSpec, view: View, bound: Bound, origins: dict[str, str]
    ) -> None:
        pairs = [(s, v, f"{p.name}.shape[{d}]") for d, (s, v) in enumerate(
            zip(p.shape, view.shape, strict=True)
        )]  # fmt: skip
        if p.strides is not None:
            pairs += [
                (s, v, f"{p.name}.stride[{d}]")
                for d, (s, v) in enumerate(zip(p.strides, view.strides, strict=True))
            ]
        for size, value, origin in pairs:
            if isinstance(size, str) and size not in bound.symbols:
                bound.symbols[size] = value
                origins[size] = origin
                bits = self.bits.get(size, 64)
                if value >= 2 ** (bits - 1):
                    raise ArgumentValueError(
                        f"kernel {self.name}: {size} = {value} (from {origin})"
                        f" does not fit int{bits}",
                        code=CODES["size"],
                        help='declare it as T.dynamic(name, "int64")',
                    )

    def _check(
        self, p: ParamSpec, view: View, bound: Bound, origins: Mapping[str, str], device_type: int
    ) -> None:
        for d, (size, got) in enumerate(zip(p.shape, view.shape, strict=True)):
            want = evaluate(size, bound.symbols)
            if got != want:
                because = _because(size, origins)
                raise ArgumentValueError(
                    f"{self._where(p)}: shape[{d}]: expected {want}{because}, got {got}",
                    code=CODES["shape"],
                )
        self._check_strides(p, view, bound, origins)
        if view.device[0] != device_type:
            from .cuda_driver import missing_device  # a CPU kernel needs no driver

            expected = "a CUDA device" if device_type == CUDA else "the CPU"
            got_name = {CPU: "cpu", CUDA: "cuda"}.get(view.device[0], "another device")
            missing = missing_device() if device_type == CUDA else ""
            raise ArgumentValueError(
                f"{self._where(p)}: expected a tensor on {expected},"
                f" got one on {got_name}:{view.device[1]}{missing and '; '}{missing}",
                code=CODES["device"],
                help="to run it here, compile for target 'llvm', or for 'cuda-sim', the simulator"
                if missing
                else "compile for the tensor's device with target=, or move the tensor",
            )
        if device_type == CUDA and view.device[1] != bound.device[1]:
            raise ArgumentValueError(
                f"{self._where(p)}: expected a tensor on device {bound.device[1]} as the others,"
                f" got device {view.device[1]}",
                code=CODES["devices"],
            )
        if p.align > 1 and view.address % p.align:
            raise ArgumentValueError(
                f"{self._where(p)}: data must be aligned to {p.align} bytes,"
                f" got address {view.address:#x}",
                code=CODES["alignment"],
                help="slice the tensor at a multiple of this many bytes, or pass a copy",
            )
        if not view.address and 0 not in view.shape:
            raise ArgumentValueError(
                f"{self._where(p)}: the data pointer is NULL", code=CODES["null"]
            )

    def _check_strides(
        self, p: ParamSpec, view: View, bound: Bound, origins: Mapping[str, str]
    ) -> None:
        if 0 in view.shape or DType(p.dtype).bits < 8:
            return
        want = 1
        for d in reversed(range(len(view.shape))):
            size = None if p.strides is None else p.strides[d]
            expected = want if size is None else evaluate(size, bound.symbols)
            if view.shape[d] != 1 and view.strides[d] != expected:
                text = (
                    f"{self._where(p)}: stride[{d}]: expected {expected}"
                    f"{_because(size, origins)}, got {view.strides[d]}"
                )
                if size is not None:
                    raise ArgumentValueError(text, code=CODES["stride"])
                raise ArgumentValueError(
                    f"{text}: the tensor is not contiguous",
                    code=CODES["contiguous"],
                    help=_CONTIGUOUS,
                )
            want *= view.shape[d]


def _names_in(sizes: Sequence[Size]) -> set[str]:
    """Symbols in sizes; what begins an operation is its operator."""
    out: set[str] = set()
    for s in sizes:
        if isinstance(s, str):
            out.add(s)
        elif not isinstance(s, int):
            out |= _names_in(s[1:])
    return out


def _because(size: Size, origins: Mapping[str, str]) -> str:
    if size is None or isinstance(size, int):
        return ""
    if isinstance(size, str):
        return f" ({size}, from {origins[size]})" if size in origins else f" ({size})"
    return ""


def _index(x: Any) -> int | None:
    """The value of an integer of any framework; None for anything else."""
    try:
        return int(x.__index__())
    except (AttributeError, TypeError):  # an array of several numbers has the method
        is_bool = getattr(getattr(x, "dtype", None), "kind", "") == "b" and x.shape == ()
        return int(x) if is_bool else None  # numpy's bool lacks it


def _sizes(x: Any, kind: str) -> tuple[int, ...]:
    """Shape or strides of an argument that may be anything."""
    try:
        if kind == "stride":
            view = view_of(x)
            return view.strides if view else ()
        return tuple(x.shape)
    except Exception:  # an object of any class may raise anything
        return ()


def _kind_name(x: object) -> str:
    names = {type(None): "None", int: "int", float: "float", bool: "bool", str: "a string"}
    dead = "a weak reference to an object that is gone"
    names |= {ProxyType: dead, CallableProxyType: dead} if _is_dead(x) else {}
    return names.get(type(x), f"an object of type {type(x).__name__}")


def _is_dead(x: object) -> bool:
    try:
        x.__class__  # noqa: B018 - of what a proxy refers to
    except ReferenceError:
        return True
    return False


_ALIKE = (
    frozenset({"float8_e4m3fn", "float8_e4m3fnuz"}), frozenset({"float8_e5m2", "float8_e5m2fnuz"}),
    frozenset({"bool", "int8", "uint8"}), frozenset({"tfloat32", "float32"}),
)  # fmt: skip
_BYTES = ("int8", "uint8")


def alike(dtype: str) -> frozenset[str]:
    """The dtypes whose tensors a parameter of this one takes as they are."""
    return next((names for names in _ALIKE if dtype in names), frozenset({dtype}))


def _dtype_fits(expected: str, got: str) -> bool:
    if got in alike(expected):
        return True
    packed = DType(expected).bits < 8 or expected == "float4_e2m1_unpacked"
    return packed and (got in _BYTES or got.removesuffix("_x2") == expected)


def _tuples(value: Any) -> Any:
    """JSON has only lists; specs hold tuples, except in sizes, which are lists."""
    if isinstance(value, list):
        if value and isinstance(value[0], str) and value[0] in _MEANING and len(value) > 1:
            return [_tuples(v) for v in value]
        return tuple(_tuples(v) for v in value)
    if isinstance(value, dict):
        return {k: _tuples(v) for k, v in value.items()}
    return value
