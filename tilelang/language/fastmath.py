# SPDX-License-Identifier: Apache-2.0
"""Approximate and packed arithmetic: `T.__exp`, `T.add2`, `T.dp4a`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang import ir
from tilelang.ir import Buffer, DType, Expr, Load, Region, call, const

from .math import fail, operand


def _fast(name: str) -> Callable[[Any], Expr]:
    what = f"T.__{name}" if name != "rcp" else "T.fast_rcp"

    def function(x: Any) -> Expr:
        e = operand(x, what)
        if not e.dtype.is_float:
            raise fail(
                f"{what} only supports floating-point inputs, but got {e.dtype}",
                "TL0234",
                f"cast it, or use T.{name}",
            )
        wide = DType("float32").with_lanes(e.dtype.lanes)
        return ir.cast(call(f"fast_{name}", [ir.cast(e, wide)], wide), e.dtype)

    function.__name__ = function.__qualname__ = f"fast_{name}"
    function.__doc__ = f"The approximate hardware form of {name}."
    return function


FAST = {n: _fast(n) for n in ("exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan")}
fast_rcp = _fast("rcp")


def _packed(name: str, function: Callable[..., Expr]) -> Callable[..., Expr]:
    def packed(*args: Any) -> Expr:
        items = [operand(a, f"T.{name}") for a in args]
        if any(e.dtype.lanes != 2 for e in items):
            got = ", ".join(str(e.dtype) for e in items)
            raise fail(f"T.{name} takes pairs, got {got}", "TL0223", "e.g. T.float16x2(a, b)")
        return function(*items)

    packed.__name__ = packed.__qualname__ = name
    packed.__doc__ = f"{name[:-1]} of two lanes at once."
    return packed


add2 = _packed("add2", lambda a, b: a + b)
sub2 = _packed("sub2", lambda a, b: a - b)
mul2 = _packed("mul2", lambda a, b: a * b)
fma2 = _packed("fma2", lambda a, b, c: a * b + c)
max2 = _packed("max2", ir.maximum)
min2 = _packed("min2", ir.minimum)
abs2 = _packed("abs2", lambda a: call("abs", [a], a.dtype))


def dp4a(A: Any, B: Any, C: Any) -> None:
    """C += the products of four int8 pairs, in int32; A and B name the first of four elements."""
    from .trace import current
    from .values import store

    t = current("T.dp4a")
    a, b, c = (_first(x, n) for x, n in ((A, "A"), (B, "B"), (C, "C")))
    if str(a.dtype) not in ("int8", "uint8") or a.dtype is not b.dtype or str(c.dtype) != "int32":
        raise fail(
            f"dp4a requires int8 operands and an int32 accumulator, got {a.dtype}, {b.dtype} and "
            f"{c.dtype}",
            "TL0224",
            "cast the operands, or write the products out",
        )
    total: Expr = c
    for k in range(4):
        x, y = (Load(v.buffer, (*v.indices[:-1], v.indices[-1] + k)) for v in (a, b))
        total = total + ir.cast(x, "int32") * ir.cast(y, "int32")
    store(t, c.buffer, c.indices, total)


def _first(x: Any, name: str) -> Load:
    if isinstance(x, Buffer):
        return Load(x, tuple(const(0) for _ in x.shape))
    if isinstance(x, Region):
        return Load(x.buffer, x.offsets)
    if isinstance(x, Load):
        return x
    raise fail(
        f"T.dp4a: {name} must be a buffer or an element of one, got {x!r}", "TL0225", "e.g. A[i]"
    )
