# SPDX-License-Identifier: Apache-2.0
"""The call of a program as data.

In: a `HostProgram` at DEVICE stage. Out: its `CallSpec`, for launchers without generated host code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.errors import InternalError, LanguageError
from tilelang.ir import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BitAnd,
    BitOr,
    BitXor,
    Buffer,
    Call,
    Cast,
    Const,
    Expr,
    FloorDiv,
    FloorMod,
    HostProgram,
    IfThenElse,
    Kernel,
    Max,
    Min,
    Mul,
    Neg,
    Not,
    Or,
    Select,
    Shl,
    Shr,
    Store,
    Sub,
    TensorMap,
    TruncDiv,
    TruncMod,
    Var,
    walk,
)
from tilelang.ir.intrinsics import TABLE

from .launch import CODES, CallSpec, KernelSpec, MapSpec, ParamSpec, Size

__all__ = ["call_spec"]

_OPERATORS: dict[type, str] = {
    Add: "+", Sub: "-", Mul: "*", FloorDiv: "//", FloorMod: "%", TruncDiv: ":tdiv",
    TruncMod: ":tmod", Min: ":min", Max: ":max", BitAnd: "&", BitOr: "|", BitXor: "^", Shl: "<<",
    Shr: ">>", EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">=", And: ":and", Or: ":or",
    Not: ":not", Neg: ":neg", Select: ":if", IfThenElse: ":if",
}  # fmt: skip


def call_spec(program: HostProgram, align: Mapping[Buffer, int] | None = None) -> CallSpec:
    """The program without its code."""
    return _SpecBuilder(program, align or {}).spec()


class _SpecBuilder:
    def __init__(self, program: HostProgram, align: Mapping[Buffer, int]) -> None:
        self.program = program
        self.align = align
        self.names: dict[Var, str] = {}
        self.bits: dict[str, int] = {}

    def spec(self) -> CallSpec:
        p = self.program
        params = tuple(self.param(x) for x in p.params)
        kernels = tuple(self.kernel(k) for k in p.launches)
        workspaces = tuple(
            (str(b.dtype), tuple(self.size(s) for s in b.shape)) for b in p.temporaries
        )
        asserts = tuple(
            (self.size(cond), message or str(cond)) for cond, message in p.attrs.get("asserts", ())
        )
        outputs = tuple(o % len(params) for o in p.outputs)
        return CallSpec(p.name, params, outputs, kernels, workspaces, asserts, self.bits)

    def name(self, v: Var) -> str:
        if v not in self.names:
            taken = set(self.names.values())
            name, n = v.name, 1
            while name in taken:
                n += 1
                name = f"{v.name}_{n}"
            self.names[v] = name
            if v.dtype.is_int and v.dtype.bits < 64:
                self.bits[name] = v.dtype.bits
        return self.names[v]

    def size(self, e: Expr) -> Size:
        t = type(e)
        if isinstance(e, Const):
            return int(e.value)
        if isinstance(e, Var):
            return self.name(e)
        if isinstance(e, Cast) and not e.to.is_float and not e.a.dtype.is_float:
            return self.size(e.a)
        if t not in _OPERATORS or e.dtype.is_float:
            raise LanguageError(
                f"kernel {self.program.name}: the host cannot compute the expression `{e}`",
                code=CODES["expression"],
                help="sizes and grids are made of integer parameters and input dimensions",
            )
        return [_OPERATORS[t], *(self.size(c) for c in e.children)]

    def param(self, p: Buffer | Var) -> ParamSpec:
        if isinstance(p, Var):
            kind = "pointer" if p.dtype.is_handle else "scalar"
            return ParamSpec(p.name, kind, str(p.dtype), symbol=self.name(p))
        strides = None if p.strides is None else tuple(self.size(s) for s in p.strides)
        shape = tuple(self.size(s) for s in p.shape)
        return ParamSpec(p.name, "tensor", str(p.dtype), shape, strides, self.align.get(p, 1))

    def source(self, b: Buffer) -> tuple[str, int]:
        """Where the memory of a buffer, or of what it is a view of, comes from."""
        b = b.root()
        for kind, where in (
            ("param", self.program.params),
            ("workspace", self.program.temporaries),
        ):
            for i, x in enumerate(where):
                if x is b:
                    return kind, i
        raise InternalError(f"{b.name} is neither a parameter nor a workspace")

    def kernel(self, k: Kernel) -> KernelSpec:
        args: list[tuple[Any, ...]] = []
        maps: list[MapSpec] = []
        for a in k.args:
            if isinstance(a, Buffer):
                args.append(self.source(a))
            elif isinstance(a, Var):
                args.append(("symbol", self.name(a), str(a.dtype)))
            else:
                args.append(("map", len(maps)))
                maps.append(self.map(a))
        readonly = k.attrs.get("readonly")
        written = [a for a in k.args if isinstance(a, Buffer)]
        written = [b for b in written if b not in readonly] if readonly is not None else _written(k)
        written += [b for b in k.attrs.get("bulk_stored", ()) if b not in written]
        writes = tuple(i for kind, i in map(self.source, written) if kind == "param")
        cluster = tuple(int(c) for c in k.attrs.get("cluster_dims") or ())
        grid = tuple(self.size(e) for e in k.grid)
        return KernelSpec(
            k.name, tuple(args), grid, k.block, k.dynamic_smem, tuple(maps), writes, cluster,
            bool(k.attrs.get("cooperative")), bool(k.attrs.get("pdl")),
        )  # fmt: skip

    def map(self, m: TensorMap) -> MapSpec:
        dims = tuple(self.size(e) for e in m.dims)
        strides = tuple(self.size(e) for e in m.strides)
        dtype = str(m.dtype or m.buffer.dtype)
        return MapSpec(self.source(m.buffer), dtype, dims, strides, m.box, m.swizzle)


def _written(k: Kernel) -> list[Buffer]:
    """Global buffers of a kernel that its code may write."""
    roots: set[Buffer] = set()
    for x in walk(k.body):
        if isinstance(x, Store):
            roots.add(x.buffer.root())
        elif isinstance(x, Call) and x.op != "address_of":
            for i, a in enumerate(x.args):
                use = TABLE[x.op].pointers.get(i, "rw")
                if isinstance(a, Call) and a.op == "address_of" and use != "read":
                    roots.add(a.args[0].buffer.root())  # type: ignore[attr-defined]
    return [a for a in k.args if isinstance(a, Buffer) and a in roots]
