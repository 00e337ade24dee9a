# SPDX-License-Identifier: Apache-2.0
"""A random generator as statements of the kernel language: what all kinds have in common.

In: a trace. Out: private arrays, statements on them, uniform floats and angles made of 32-bit
draws (as cuRAND's device API makes them).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilelang import ir
from tilelang.ir import Buffer, DType, Expr, For, If, Load, Store, Var, While, const, seq

from .alloc import alloc_local

if TYPE_CHECKING:
    from .trace import Trace

U32, U64, I32 = DType("uint32"), DType("uint64"), DType("int32")
F32, F64 = DType("float32"), DType("float64")


def u32(x: Any) -> Expr:
    return const(x, U32) if isinstance(x, int) else ir.cast(x, U32)


def u64(x: Any) -> Expr:
    return const(x, U64) if isinstance(x, int) else ir.cast(x, U64)


class Generator(ABC):
    """The state of one thread's generator, and the statements that use it."""

    def __init__(self, t: Trace) -> None:
        self.t = t
        self._spares = {d: (self.array(1, d), self.array(1, I32))
                        for d in (F32, F64)}  # fmt: skip

    @abstractmethod
    def start(self, seed: Var, sequence: Var, offset: Var) -> None:
        """The state at a place of a sequence."""

    @abstractmethod
    def draw(self) -> Expr:
        """The next 32 bits."""

    def uniform(self, dtype: DType) -> Expr:
        """The next float in (0, 1]."""
        if dtype is F64:
            return self._fraction64(self.draw_name(), self.draw_name())
        return ir.cast(self.draw_name(), F32) * const(2.0**-32, F32) + const(2.0**-33, F32)

    def polar(self, dtype: DType) -> tuple[Expr, Expr]:
        """A uniform number and an angle in (0, 2 pi]."""
        if dtype is F64:
            four = [self.draw_name() for _ in range(4)]
            u, v = self._fraction64(*four[:2]), self._fraction64(*four[2:])
            return u, v * const(2.0, F64) * const(math.pi, F64)
        x, y = self.draw_name(), self.draw_name()
        unit = 2.0**-32 * float(2 * math.pi)
        return (
            ir.cast(x, F32) * const(2.0**-32, F32) + const(2.0**-33, F32),
            ir.cast(y, F32) * const(unit, F32) + const(unit / 2, F32),
        )

    def draw_name(self) -> Var:
        return self.t.bind("random", self.draw())

    @staticmethod
    def _fraction64(low: Expr, high: Expr) -> Expr:
        """53 bits of two draws."""
        z = u64(low) ^ (u64(high) << u64(21))
        return ir.cast(z, F64) * const(2.0**-53, F64) + const(2.0**-54, F64)

    def spare(self, dtype: DType) -> tuple[Buffer, Buffer]:
        return self._spares[dtype]

    # ------------------------------------------------------------------------------ statements

    def array(self, size: int, dtype: DType = U32) -> Buffer:
        return alloc_local((size,), dtype)

    def get(self, b: Buffer, i: Any) -> Expr:
        return Load(b, (const(i) if isinstance(i, int) else i,))

    def put(self, b: Buffer, i: Any, value: Expr) -> None:
        at = const(i) if isinstance(i, int) else i
        self.t.emit(Store(b, (at,), value, self.t.span()))

    def fill(self, b: Buffer, values: Sequence[int]) -> None:
        for i, x in enumerate(values):
            self.put(b, i, const(x, b.dtype))

    def no_spares(self) -> None:
        for _, has in self._spares.values():
            self.put(has, 0, const(0, I32))

    def block(self, body: Callable[[], None]) -> Any:
        with self.t.collected() as statements:
            body()
        return seq(statements)

    def times(self, n: Any, body: Callable[[Expr], None]) -> None:
        var = Var("i", I32)
        inner = self.block(lambda: body(var))
        extent = const(n) if isinstance(n, int) else n
        self.t.emit(For(var, const(0), extent, inner, "serial", {}, self.t.span()))

    def repeat(self, cond: Expr, body: Callable[[], None]) -> None:
        self.t.emit(While(cond, self.block(body), self.t.span()))

    def when(self, cond: Expr, body: Callable[[], None]) -> None:
        self.t.emit(If(cond, self.block(body), None, self.t.span()))

    def either(self, cond: Expr, yes: Callable[[], None], no: Callable[[], None]) -> None:
        self.t.emit(If(cond, self.block(yes), self.block(no), self.t.span()))

    def powers(self, n: Expr, apply: Callable[[], None], square: Callable[[], None]) -> None:
        """A jump by n: `apply` the jump so far where n has a bit, and `square` it."""
        left = self.array(1, U64)
        self.put(left, 0, n)

        def bit() -> None:
            self.when((self.get(left, 0) & u64(1)) != u64(0), apply)
            square()
            self.put(left, 0, self.get(left, 0) >> u64(1))

        self.repeat(self.get(left, 0) != u64(0), bit)
