# SPDX-License-Identifier: Apache-2.0
"""Memory of a kernel: shared, fragment, local, global, mutable scalars, barriers.

Each function emits an `Alloc` and returns the `Buffer` (a `VarRef` for `alloc_var`). The buffer
takes its name from the assignment that follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.errors import OptionError, ScopeError, ShapeError
from tilelang.ir import Alloc, Buffer, Expr, Scope, cast, const, const_int

from .tensor import as_dtype, as_shape
from .trace import Trace, current
from .values import VarRef, plain, scalar, store


def _alloc(
    what: str,
    shape: Any,
    dtype: Any,
    scope: str,
    *,
    static: bool = True,
    name: str = "",
    annotations: dict[str, Any] | None = None,
) -> Buffer:
    t = current(what)
    dims = as_shape(shape, what)
    symbolic = [d for d in dims if isinstance(d, Expr)]
    if static and symbolic:
        raise t.error(
            f"{what}: the size `{symbolic[0]}` is known only when the kernel runs",
            "TL0304",
            "memory inside a kernel needs a compile-time size: pass it to the factory, or use "
            "T.const",
            ShapeError,
        )
    buffer = Buffer(name, dims, as_dtype(dtype, what), scope, None, None, t.span())
    _emit(t, buffer, annotations or {})
    return buffer


def _emit(t: Trace, buffer: Buffer, annotations: dict[str, Any]) -> None:
    emit = t.emit_outside if buffer.scope == Scope.GLOBAL else t.emit
    emit(Alloc(buffer, annotations, buffer.span))


def _in_kernel(what: str) -> Trace:
    t = current(what)
    if not t.in_kernel and not t.symbolic:
        raise t.error(
            f"{what} is memory of a thread block and needs a kernel around it",
            "TL0402",
            "put it inside `with T.Kernel(...)`",
            ScopeError,
        )
    if t.parallel_region() is not None:
        raise t.error(
            f"{what} is memory of the whole block and cannot be made inside T.Parallel",
            "TL0405",
            "make it before the loop, or use T.alloc_local for memory of one iteration",
            ScopeError,
        )
    return t


def alloc_shared(shape: Any, dtype: Any, scope: str = Scope.SHARED) -> Buffer:
    """Memory shared by the threads of a block; uninitialised."""
    t = _in_kernel("T.alloc_shared")
    if scope not in (Scope.SHARED, Scope.SHARED_STATIC):
        raise t.error(
            f"T.alloc_shared: unknown scope {scope!r}",
            "TL0403",
            "'shared.dyn' or 'shared'",
            ScopeError,
        )
    if as_dtype(dtype, "T.alloc_shared").is_bool:
        scope = Scope.SHARED_STATIC
    return _alloc("T.alloc_shared", shape, dtype, scope)


def alloc_fragment(shape: Any, dtype: Any, scope: str = Scope.FRAGMENT) -> Buffer:
    """A tile distributed over the registers of the block's threads; uninitialised."""
    _in_kernel("T.alloc_fragment")
    return _alloc("T.alloc_fragment", shape, dtype, scope)


def alloc_local(shape: Any, dtype: Any, scope: str = Scope.LOCAL) -> Buffer:
    """An array private to each thread; uninitialised."""
    return _alloc("T.alloc_local", shape, dtype, scope)


def alloc_var(dtype: Any, *args: Any, init: Any = None, scope: str = Scope.VAR) -> VarRef:
    """One mutable scalar per thread: reading the name gives its value, assigning to it stores.

    A second positional argument is the initial value, or (text) the scope.
    """
    t = current("T.alloc_var")
    for extra in args:
        if isinstance(extra, str):
            scope = extra
        elif init is None:
            init = extra
        else:
            raise t.error(
                "T.alloc_var: two initial values", "TL0581", "give init= once", OptionError
            )
    buffer = _alloc("T.alloc_var", (1,), dtype, scope)
    if init is not None:
        value = scalar(t, plain(init), "T.alloc_var: init", buffer.dtype)
        store(t, buffer, (const(0),), cast(value, buffer.dtype))
    return VarRef(buffer, (const(0),))


def alloc_global(shape: Any, dtype: Any) -> Buffer:
    """Scratch memory in global memory, shared by all blocks and kernels of the function;
    uninitialised.
    """
    return _alloc("T.alloc_global", shape, dtype, Scope.GLOBAL, static=False)


def alloc_barrier(arrive_count: int | Sequence[int]) -> Buffer:
    """mbarriers in shared memory (sm_90), one per entry; each phase completes after so many
    arrivals.
    """
    t = _in_kernel("T.alloc_barrier")
    items: Sequence[Any] = (
        arrive_count if isinstance(arrive_count, (list, tuple)) else [arrive_count]
    )
    counts = [const_int(plain(c)) for c in items]
    if not counts or any(c is None or c < 1 for c in counts):
        raise t.error(
            f"T.alloc_barrier: arrival counts must be constants >= 1, got {arrive_count}",
            "TL0582",
            "the number of threads that arrive in each phase",
            OptionError,
        )
    return _alloc(
        "T.alloc_barrier",
        (len(counts),),
        "uint64",
        Scope.BARRIER,
        annotations={"arrive_count": tuple(counts)},
    )


def alloc_buffer(
    shape: Any, dtype: Any = "float32", scope: str = Scope.GLOBAL, **options: Any
) -> Buffer:
    """Memory of any scope, by its name."""
    t = current("T.alloc_buffer")
    if options:
        raise t.error(
            f"T.alloc_buffer: unknown option(s) {', '.join(options)}",
            "TL0522",
            "its parameters are shape, dtype and scope",
            OptionError,
        )
    return _alloc("T.alloc_buffer", shape, dtype, scope, static=scope != Scope.GLOBAL)
