# SPDX-License-Identifier: Apache-2.0
"""CUDA C++ for `ir.Kernel`s, made to be read.

In: kernels at DEVICE stage. Out: one translation unit that includes only our own device headers
(`templates/cuda`, of which it names the parts it uses) and contains one `extern "C"` function for
each kernel. The text is plain C++17 over `tl::` functions, CUDA's built-in variables and
qualifiers, so the simulator compiles the same text with the host's compiler.

    #include <tl/core.h>

    extern "C" __global__ void __launch_bounds__(128, 1) main_kernel(
        const float* __restrict__ A, float* __restrict__ B) {
      const int bx = (int)blockIdx.x;
      const int tx = (int)threadIdx.x;
      B[bx * 128 + tx] = A[bx * 128 + tx] + 1.0f;
    }
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilelang.errors import InternalError, TargetError, TileError
from tilelang.ir import (
    INTRINSICS,
    Alloc,
    Assert,
    Broadcast,
    Buffer,
    Call,
    Cast,
    Const,
    DType,
    Expr,
    Kernel,
    Load,
    Ramp,
    Scope,
    Store,
    StringImm,
    TensorMap,
    Var,
    const_int,
    walk,
)

from .cfamily import ASSIGN, ATOM, POSTFIX, UNARY, CFamily, string_literal
from .names import CUDA_RESERVED

if TYPE_CHECKING:
    from tilelang.config import Options

__all__ = ["CudaPrinter", "cuda_source"]

SHARED_ARENA = "buf_dyn_shmem"
_MAX_WIDTH = 100
_MAX_VECTOR_BYTES = 16
_INT_SUFFIX = {"int32": "", "int64": "LL", "uint32": "u", "uint64": "ULL"}
# Types for which C's own conversion is the IR's: integers wrap, and round to the nearest float.
_PLAIN = frozenset({"bool", "float32", "tfloat32", "float64"})
_FP8 = ("float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu")
_AXES = ("x", "y", "z")


def cuda_source(kernels: Sequence[Kernel], target_arch: int, options: Options) -> str:
    """The CUDA C++ of all kernels of a program. `target_arch`: 80, 90, …"""
    printers = [CudaPrinter(k, target_arch, options) for k in kernels]
    bodies = [p.text() for p in printers]
    headers = sorted(set().union(*(p.headers for p in printers)) - {"core"})
    parts = ["\n".join(f"#include <tl/{name}.h>" for name in ("core", *headers))]
    parts += dict.fromkeys(str(k.attrs["prelude"]) for k in kernels if k.attrs.get("prelude"))
    return "\n\n".join([*parts, *bodies]) + "\n"


class CudaPrinter(CFamily):
    """Prints one kernel; `headers` collects the device headers that it needs."""

    reserved = CUDA_RESERVED

    def __init__(self, kernel: Kernel, target_arch: int, options: Options) -> None:
        super().__init__(line_directives=options.line_directives)
        self.kernel = kernel
        self.arch = target_arch
        self.options = options
        self.headers: set[str] = {"core"}
        self._written, self._punned = _uses_of_buffers(kernel)

    def text(self) -> str:
        """The whole function."""
        self.names.fresh(self.kernel.name)
        arguments = [self.argument(a) for a in self.kernel.args]
        self.depth = 1
        self._declare_indices()
        if self.kernel.dynamic_smem or self._uses_arena():
            self.line(f"extern __shared__ __align__(1024) unsigned char {SHARED_ARENA}[];")
        self.stmt(self.kernel.body)
        return "\n".join([self._signature(arguments), *self.lines, "}"])

    def _signature(self, arguments: Sequence[str]) -> str:
        threads = math.prod(self.kernel.block)
        bounds = f"__launch_bounds__({threads}, {int(self.kernel.attrs.get('min_blocks', 1))})"
        head = f'extern "C" __global__ void {bounds} {self.kernel.name}('
        line = head + ", ".join(arguments) + ") {"
        if len(line) <= _MAX_WIDTH:
            return line
        return head + "\n    " + ",\n    ".join(arguments) + ") {"

    def _declare_indices(self) -> None:
        used = {n for n in walk(self.kernel.body) if type(n) is Var}
        for source, names in (
            ("blockIdx", self.kernel.block_vars),
            ("threadIdx", self.kernel.thread_vars),
        ):
            for axis, var in zip(_AXES, names, strict=True):
                if var in used:
                    ctype = self.ctype(var.dtype)
                    self.nonnegative.add(var)
                    self.line(f"const {ctype} {self.names.of(var)} = ({ctype}){source}.{axis};")

    def _uses_arena(self) -> bool:
        return any(type(n) is Alloc and "offset" in n.annotations for n in walk(self.kernel.body))

    def argument(self, a: Buffer | Var | TensorMap) -> str:
        """One parameter of the kernel."""
        if isinstance(a, TensorMap):
            self.headers.add("tma")
            return f"const __grid_constant__ tl::TensorMap {self.names.of(a.var)}"
        if isinstance(a, Var):
            return f"{self.ctype(a.dtype)} {self.names.of(a)}"
        try:
            self.ctype(a.dtype)
        except TileError as error:
            error.at(a.span)
            raise
        const = "" if a in self._written else "const "
        alone = self.options.noalias and a in self.kernel.attrs.get("restrict", (a,))
        restrict = "* __restrict__" if alone else "*"
        return f"{const}{self.ctype(a.dtype)}{restrict} {self.names.of(a)}"

    # ----------------------------------------------------------------------- types and literals

    def ctype(self, dtype: DType) -> str:
        if dtype.bits < 8:
            raise TargetError(
                f"CUDA code has no variables of {dtype.element}, which is narrower than a byte",
                code="TL0620",
                help="keep packed values in uint8 and unpack them with shifts",
            )
        if dtype.is_float and dtype.bits == 8:
            if str(dtype.element) not in _FP8:
                raise TargetError(
                    f"CUDA code cannot compute with {dtype.element}",
                    code="TL0621",
                    help=f"the 8-bit floating-point types there are {', '.join(_FP8)}",
                )
            self.headers.add("fp8")
        base = dtype.row.cuda
        return base if dtype.lanes == 1 else f"tl::vec<{base}, {dtype.lanes}>"

    def literal(self, e: Const) -> tuple[str, int]:
        t = e.dtype
        if t.is_bool:
            return ("true" if e.value else "false"), ATOM
        if t.is_handle:
            return f"(void*){int(e.value)}", UNARY
        if t.is_int:
            return self._integer(int(e.value), t)
        if t.row.cuda == "double":
            return _float_text(float(e.value), "(double)", repr(float(e.value)))
        text, prec = _float_text(float(e.value), "", _float32_text(float(e.value)) + "f")
        if t.row.cuda == "float":
            return text, prec
        return f"{self.ctype(t)}({text})", ATOM

    def _integer(self, value: int, t: DType) -> tuple[str, int]:
        suffix = _INT_SUFFIX.get(str(t))
        if suffix is None:
            return f"({self.ctype(t)}){value}", UNARY
        if value == -(1 << (t.bits - 1)):  # C has no negative literals: -(2^31) would not be an int
            return f"(-{-(value + 1)}{suffix} - 1)", ATOM
        return f"{value}{suffix}", UNARY if value < 0 else ATOM

    def cast(self, e: Cast) -> tuple[str, int]:
        src, dst = e.a.dtype, e.to
        if dst.lanes == 1 and not (src.is_float and dst.is_int):
            plain = {src.row.name, dst.row.name} <= _PLAIN or src.is_int or dst.is_int
            if plain or src.is_handle or dst.is_handle or str(dst) == "float32":
                return f"({self.ctype(dst)}){self.expr(e.a, UNARY)}", UNARY
        return f"tl::cast<{self.ctype(dst.element)}>({self.expr(e.a)})", ATOM

    def function(self, name: str, args: Sequence[str], dtype: DType) -> str:
        return f"tl::{name}({', '.join(args)})"

    # ---------------------------------------------------------------------------------- vectors

    def vector(self, e: Ramp | Broadcast) -> tuple[str, int]:
        if type(e) is Broadcast:
            return f"tl::broadcast<{e.lanes}>({self.expr(e.a)})", ATOM
        assert isinstance(e, Ramp)
        return f"tl::ramp<{e.lanes}>({self.expr(e.base)}, {self.expr(e.stride)})", ATOM

    def load_vector(self, e: Load) -> tuple[str, int]:
        index = e.indices[0]
        if type(index) is Broadcast:
            return f"tl::broadcast<{index.lanes}>({self.expr(Load(e.buffer, (index.a,)))})", ATOM
        access, place, tail = self._access(e.buffer, index)
        element = self.ctype(e.dtype.element)
        return f"tl::load_{access}<{element}, {e.dtype.lanes}>({place}{tail})", ATOM

    def store_vector(self, s: Store) -> None:
        access, place, tail = self._access(s.buffer, s.indices[0])
        self.line(f"tl::store_{access}({place}{tail}, {self.expr(s.value, ASSIGN)});")

    def _access(self, buffer: Buffer, index: Expr) -> tuple[str, str, str]:
        """(kind, pointer, further arguments) of a vector access."""
        if type(index) is Ramp and const_int(index.stride) == 1:
            place = self.element_pointer(buffer, index.base)
            if buffer.dtype.lanes > 1:  # a vector of vectors is one longer vector
                const = "" if buffer in self._written else "const "
                place = f"({const}{self.ctype(buffer.dtype.element)}*){place}"
            return "vec", place, ""
        if buffer.dtype.lanes > 1:
            raise InternalError(
                f"a strided vector access of {buffer.name}, whose elements are vectors"
            )
        if type(index) is Ramp:
            return (
                "strided",
                self.element_pointer(buffer, index.base),
                f", {self.index(index.stride)}",
            )
        return "indexed", self.pointer(buffer), f", {self.index(index)}"

    def element_pointer(self, buffer: Buffer, index: Expr) -> str:
        """A pointer to one element, fit for a cast in front."""
        if buffer.scope == Scope.VAR:
            return f"&{self.names.of(buffer)}"
        if const_int(index) == 0:
            return self.pointer(buffer)
        return f"&{self.pointer(buffer)}[{self.index(index)}]"

    # ------------------------------------------------------------------------------- intrinsics

    def intrinsic(self, e: Call) -> tuple[str, int]:
        row = INTRINSICS.get(e.op)
        if row is None:
            raise InternalError(f"{e.op} is not in the intrinsic table")
        if row.arch > self.arch:
            raise InternalError(f"{e.op} needs sm_{row.arch}, the target is sm_{self.arch}")
        if e.op == "address_of":
            return self._address_of(e)
        if e.op == "call_extern":
            return self._extern(e)
        self.headers.add(row.header)
        if e.op == "reinterpret":
            return f"tl::reinterpret<{self.ctype(e.dtype)}>({self.expr(e.args[0])})", ATOM
        constants, rest = e.args[: row.template], e.args[row.template :]
        template = (
            f"<{', '.join(self._constant(c, row.name) for c in constants)}>" if constants else ""
        )
        return f"tl::{e.op}{template}({', '.join(self.expr(a) for a in rest)})", ATOM

    def _constant(self, e: Expr, op: str) -> str:
        if type(e) is not Const:
            raise InternalError(f"{op} needs a constant where it was given {e!r}")
        return str(int(e.value)) if e.dtype.is_int else self.expr(e)

    def _address_of(self, e: Call) -> tuple[str, int]:
        load = e.args[0]
        assert isinstance(load, Load)
        index = load.indices[0] if load.indices else Const(0, DType("int32"))
        text = self.element_pointer(load.buffer, index.base if type(index) is Ramp else index)
        return text, UNARY if text[0] == "&" else POSTFIX

    def _extern(self, e: Call) -> tuple[str, int]:
        name = e.args[0]
        assert isinstance(name, StringImm)
        return f"{name.value}({', '.join(self.expr(a) for a in e.args[1:])})", ATOM

    def fail(self, s: Assert) -> list[str]:
        self.headers.add("print")
        where = f" at {s.span.place}" if s.span is not None else ""
        text = f"{self.kernel.name}: assertion failed{where}: {s.message}\n".replace("%", "%%")
        return [f"tl::print({string_literal(text)});", "tl::trap();"]

    # ----------------------------------------------------------------------------- declarations

    def declare(self, s: Alloc) -> None:
        b = s.buffer
        if b.data is not None:  # named by its address wherever it is used
            return
        ctype = self.ctype(b.dtype)
        if b.view_of is not None:
            self.line(f"{ctype}* {self.names.of(b)} = ({ctype}*){self.pointer(b.view_of)};")
        elif "offset" in s.annotations:
            offset = const_int(s.annotations["offset"])
            place = f"({SHARED_ARENA} + {offset})" if offset else SHARED_ARENA
            self.line(f"{ctype}* {self.names.of(b)} = ({ctype}*){place};")
        elif b.scope == Scope.VAR:
            init = s.annotations.get("init")
            value = "" if init is None else f" = {self.expr(init)}"
            self.line(f"{ctype} {self.names.of(b)}{value};")
        elif b.scope == Scope.LOCAL:
            align = self._alignment(b)
            self.line(f"{align}{ctype} {self.names.of(b)}[{_elements(b)}];")
        elif b.is_shared or b.scope == Scope.BARRIER:
            size = _elements(b)
            self.line(
                f"__shared__ __align__({_MAX_VECTOR_BYTES}) {ctype} {self.names.of(b)}[{size}];"
            )
        else:
            raise InternalError(f"a buffer of scope {b.scope} ({b.name}) reached code generation")

    def _alignment(self, b: Buffer) -> str:
        """Local arrays that are read as wider things must be aligned as these."""
        size = _elements(b) * b.dtype.bytes
        wanted = min(_MAX_VECTOR_BYTES, size & -size)
        own = min(_MAX_VECTOR_BYTES, b.dtype.bytes & -b.dtype.bytes)
        return f"__align__({wanted}) " if b in self._punned and wanted > own else ""


def _elements(b: Buffer) -> int:
    shape = b.static_shape
    if shape is None:
        raise InternalError(f"{b.name} is not global and has a dynamic shape")
    return math.prod(shape)


def _uses_of_buffers(kernel: Kernel) -> tuple[set[Buffer], set[Buffer]]:
    """(buffers that the kernel may write, buffers that are accessed as something wider)."""
    written: set[Buffer] = set()
    punned: set[Buffer] = set()
    for n in walk(kernel.body):
        if type(n) is Store:
            written.add(n.buffer.root())
        if type(n) in (Store, Load) and n.indices and n.indices[-1].dtype.lanes > 1:  # type: ignore[attr-defined]
            punned.add(n.buffer.root())  # type: ignore[attr-defined]
        if type(n) is Alloc and n.buffer.view_of is not None:
            punned.add(n.buffer.root())
        if type(n) is Call and n.op != "address_of":
            _uses_in_call(n, written, punned)
    return written, punned


def _uses_in_call(call: Call, written: set[Buffer], punned: set[Buffer]) -> None:
    row = INTRINSICS.get(call.op)
    if row is None:
        raise InternalError(f"{call.op} is not in the intrinsic table")
    for i, arg in enumerate(call.args):
        if type(arg) is Call and arg.op == "address_of":
            root: Any = arg.args[0].buffer.root()  # type: ignore[attr-defined]
            punned.add(root)
            if row.pointers.get(i, "write") != "read":
                written.add(root)


def _float_text(value: float, prefix: str, finite: str) -> tuple[str, int]:
    if math.isnan(value):
        return f"{prefix}tl::nan()", UNARY if prefix else ATOM
    if math.isinf(value):
        sign = "-" if value < 0 else ""
        return f"{prefix}{sign}tl::inf()", UNARY if prefix or sign else ATOM
    return finite, UNARY if finite[0] == "-" else ATOM


def _float32_text(value: float) -> str:
    """The shortest decimal that reads back as the same float32."""
    import numpy as np

    text = str(np.float32(value))
    return text if "." in text or "e" in text else text + ".0"
