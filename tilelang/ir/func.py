# SPDX-License-Identifier: Apache-2.0
"""Functions: what the front end makes (PrimFunc), and what comes out of lowering (Kernel,
HostProgram).

    PrimFunc     one user function: parameters (tensors: Buffer, scalars and pointers: Var), a body
    IRModule     name -> PrimFunc
    Kernel       one device function at DEVICE stage: arguments, body, launch configuration
    HostProgram  the packed entry point as data: parameters, outputs, temporaries, launches
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .buffer import Buffer
from .expr import Expr, Var
from .visit import free_vars

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .stmt import Stmt


@dataclass(frozen=True)
class PrimFunc:
    """A user's function at TILE stage.

    params: `Buffer` (global tensor) or `Var` (scalar; dtype handle for a pointer), in call order.
    outputs: indices of parameters that the runtime allocates and returns (T.empty).
    """

    name: str
    params: tuple[Buffer | Var, ...]
    body: Stmt
    outputs: tuple[int, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    span: Any = None

    @property
    def symbols(self) -> tuple[Var, ...]:
        """Dynamic dimensions: variables in parameter shapes and strides that are not parameters
        themselves."""
        return _symbols(self.params)

    @property
    def buffer_map(self) -> dict[str, Buffer]:
        return {p.name: p for p in self.params if isinstance(p, Buffer)}

    def with_attr(self, key: str, value: Any) -> PrimFunc:
        return replace(self, attrs={**self.attrs, key: value})

    def with_body(self, body: Stmt) -> PrimFunc:
        return replace(self, body=body)

    def script(self) -> str:
        """The function as tilelang Python text."""
        from .printer import func_text

        return func_text(self)


@dataclass
class IRModule:
    """Named functions."""

    functions: dict[str, PrimFunc] = field(default_factory=dict)

    def __getitem__(self, name: str) -> PrimFunc:
        return self.functions[name]

    def script(self) -> str:
        return "\n\n".join(f.script() for f in self.functions.values())


@dataclass(frozen=True)
class TensorMap:
    """A TMA descriptor to encode on the host (PTX ISA, tensor maps; cuTensorMapEncodeTiled).

    dims, strides: of the global tensor, innermost first, in elements (strides[0] is 1 and not
    encoded). box: elements per dimension, innermost first. swizzle: 0, 32, 64 or 128 bytes."""

    var: Var
    buffer: Buffer
    dims: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    box: tuple[int, ...]
    swizzle: int
    dtype: Any = None


@dataclass(frozen=True)
class Kernel:
    """A device function: what code generators print.

    args: in order, `Buffer` (a global pointer), `Var` (a scalar by value) or `TensorMap` (a
    __grid_constant__ descriptor). grid: exactly three extents over the scalars. block: threads (x,
    y, z). On a CPU the body is for one block, `block_vars` are plain parameters."""

    name: str
    args: tuple[Buffer | Var | TensorMap, ...]
    body: Stmt
    grid: tuple[Expr, Expr, Expr]
    block: tuple[int, int, int]
    block_vars: tuple[Var, Var, Var]
    thread_vars: tuple[Var, Var, Var]
    dynamic_smem: int = 0
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class HostProgram:
    """The packed entry point.

    params: as of the PrimFunc. outputs: indices into params that the host allocates. temporaries:
    global workspaces (T.alloc_global) allocated per call. launches: kernels in order (all their
    arguments are params, temporaries, or scalars bound from shapes).
    """

    name: str
    params: tuple[Buffer | Var, ...]
    outputs: tuple[int, ...]
    launches: tuple[Kernel, ...]
    temporaries: tuple[Buffer, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)

    @property
    def symbols(self) -> tuple[Var, ...]:
        """As of the PrimFunc."""
        return _symbols(self.params)


def _symbols(params: Sequence[Buffer | Var]) -> tuple[Var, ...]:
    scalars = {p for p in params if isinstance(p, Var)}
    out: dict[Var, None] = {}
    for p in params:
        if isinstance(p, Buffer):
            for e in (*p.shape, *(p.strides or ())):
                out.update((v, None) for v in free_vars(e) if v not in scalars)
    return tuple(out)
