# SPDX-License-Identifier: Apache-2.0
"""LOOP → LOOP: `vectorized` loops become vector accesses where that is provably right.

In: loops that lowerings or the user marked `vectorized`. Out: none are left; accesses with a `Ramp`
as last index, or serial and unrolled loops (the reason is a note). What a vector is differs: see
`vectorize_cuda` (wide memory accesses) and `vectorize_cpu` (wide arithmetic too).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tilelang.ir import Alloc, For, PrimFunc, Stmt, seq

from .manager import PassContext
from .scope import ScopedRewriter
from .summary import statements

if TYPE_CHECKING:
    from .vectorize_cuda import Layouts


def run(func: PrimFunc, ctx: PassContext) -> PrimFunc:
    return func.with_body(_Vectorize(func, ctx).stmt(func.body) or seq())


class _Vectorize(ScopedRewriter):
    def __init__(self, func: PrimFunc, ctx: PassContext) -> None:
        super().__init__(func, ctx)
        self.func = func

    @cached_property
    def layouts(self) -> Layouts:
        from .vectorize_cuda import Layouts

        return Layouts(
            {
                x.buffer: x.annotations["layout"]
                for x in statements(self.func.body)
                if type(x) is Alloc and x.annotations.get("layout") is not None
            }
        )

    def loop(self, s: For) -> Stmt | None:
        if s.kind != "vectorized":
            return super().loop(s)
        if any(type(x) is For for x in statements(s.body)):
            s = super().loop(s)  # type: ignore[assignment]
        if not self.ctx.options.vectorize:
            return For(s.var, s.start, s.extent, s.body, "serial", s.annotations, s.span)
        # Each target pays for the import of its own vectoriser only.
        if self.ctx.target.is_cuda:
            from . import vectorize_cuda

            return vectorize_cuda.vectorize(s, self.facts, self.ctx, self.layouts)
        from . import vectorize_cpu

        return vectorize_cpu.vectorize(s, self.facts, self.ctx)
