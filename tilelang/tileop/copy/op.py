# SPDX-License-Identifier: Apache-2.0
"""`T.copy`: elements of one region to another, converted to the destination's dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from tilelang.arith import Facts
from tilelang.errors import ScopeError, ShapeError
from tilelang.ir import Const, Effects, Region, Scope, TileOp, node, read, write
from tilelang.tileop.base import Lowering, imported
from tilelang.tileop.checks import CheckContext, describe, differ, shape_text
from tilelang.tileop.cpu import not_on_cpu, not_on_cuda
from tilelang.tileop.regions import Pairing, nearness, pair, region_reads
from tilelang.tileop.simt import SIMT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tilelang.ir import Buffer

_NOT_DATA = (Scope.BARRIER,)


@node
class Copy(TileOp):
    """`T.copy(src, dst)`: dst[...] = cast(src[...]).

    Dimensions longer than 1 meet in order, or are aligned on the right where their numbers differ;
    an extent of 1 in the source is repeated. Outside of a *global* tensor reads give 0 (or the
    tensor's safe value) and writes are dropped.

    disable_tma: never the bulk engine. prefer_instruction: "tma", "cp_async" (not the bulk engine)
    or "sync" (neither). loop_layout: how the elements are spread over threads. coalesced_width,
    eviction_policy: what the user wrote; no lowering follows them, and the front end says so.
    """

    src: Region
    dst: Region
    coalesced_width: int | None = None
    disable_tma: bool = False
    eviction_policy: str | None = None
    prefer_instruction: str | None = None
    loop_layout: Any = None

    name: ClassVar[str] = "copy"  # type: ignore[misc]
    LOWERINGS: ClassVar[tuple[Lowering, ...]] = (
        imported("cpu", "copy.cpu:CPU", not_on_cuda),
        imported("tma", "copy.tma:TMA", not_on_cpu, "a loop with warp roles or a staged store"),
        imported("cp_async", "copy.cp_async:CP_ASYNC", not_on_cpu, "a pipelined loop"),
        SIMT,
    )

    @property
    def pairing(self) -> Pairing:
        return pair(self.src, self.dst)

    @property
    def source(self) -> Region:
        """The part of `src` that is read."""
        p = self.pairing
        return p.touched(self.src, p.src)

    @property
    def target(self) -> Region:
        """The part of `dst` that is written."""
        p = self.pairing
        return p.touched(self.dst, p.dst)

    def check(self, ctx: CheckContext) -> None:
        for field, region in (("src", self.src), ("dst", self.dst)):
            if region.buffer.scope in _NOT_DATA:
                raise ScopeError(
                    f"T.copy: {region.buffer.name} is a barrier, which holds no data",
                    code="TL0420",
                    span=ctx.span,
                    marks=ctx.marks(field),
                    notes=[describe(region)],
                    help="copy between global, shared, fragment and local buffers",
                )
        self._check_extents(ctx)
        self._check_overlap(ctx)

    def _check_extents(self, ctx: CheckContext) -> None:
        p = self.pairing
        for loop, extent in enumerate(p.extents):
            if loop not in p.dst:
                self._mismatch(ctx, f"{extent} elements would all be written to the same place")
        same_level = nearness(self.src.buffer) == nearness(self.dst.buffer)
        if not (same_level or (self.src.is_whole and self.dst.is_whole)):
            return  # a place in a larger tensor: the nearer side says how much
        for loop in range(len(p.extents)):
            if loop in p.src and loop in p.dst:
                a = self.src.extents[p.src.index(loop)]
                b = self.dst.extents[p.dst.index(loop)]
                if differ(a, b):
                    self._mismatch(ctx, f"{a} elements do not fit {b}")

    def _check_overlap(self, ctx: CheckContext) -> None:
        """Threads copy in no order: a part of a buffer cannot be moved onto itself."""
        source, target = self.source, self.target
        if source.buffer is not target.buffer:
            return
        facts, shifts = Facts(), []
        for a, b, n, m in zip(
            source.offsets, target.offsets, source.extents, target.extents, strict=True
        ):
            shift, n, m = facts.simplify(b - a), facts.simplify(n), facts.simplify(m)
            if not (type(shift) is type(n) is type(m) is Const):
                return
            if not -m.value < shift.value < n.value:
                return
            shifts.append(shift.value)
        if not any(shifts):
            return
        raise ShapeError(
            f"T.copy: {source!r} and {target!r} overlap, and elements are copied in no order",
            code="TL0328",
            span=ctx.span,
            marks=ctx.marks("src", "dst"),
            notes=[describe(self.src), describe(self.dst)],
            help="copy to another buffer first, e.g. a fragment, and from there back",
        )

    def _mismatch(self, ctx: CheckContext, why: str) -> None:
        raise ShapeError(
            f"T.copy: source [{shape_text(self.src.extents)}] and destination "
            f"[{shape_text(self.dst.extents)}] do not match: {why}",
            code="TL0320",
            span=ctx.span,
            marks=ctx.marks("src", "dst"),
            notes=[describe(self.src), describe(self.dst)],
            help="slice the larger one, e.g. T.copy(A[i:i + n, 0:m], B)",
        )

    def effects(self) -> Effects:
        source, target = self.source, self.target
        return region_reads(source, target) | Effects((read(source), write(target)))

    def reference(
        self, env: Mapping[Buffer, Any], safe: Mapping[Buffer, Any] | None = None
    ) -> None:
        """Copies in `env` (arrays by buffer). All offsets and extents are constants by now."""
        from tilelang.tileop import numeric

        p = self.pairing
        extents = numeric.ints(p.extents)
        source, target = p.touched(self.src, p.src), p.touched(self.dst, p.dst)
        value = (safe or {}).get(source.buffer, 0)
        x = numeric.read_box(env[source.buffer], source, value)
        x = x.reshape([n if loop in p.src else 1 for loop, n in enumerate(extents)])
        x = numeric.cast_array(x, source.dtype, target.dtype)
        x = x.copy() if source.buffer.root() is target.buffer.root() else x
        shape = [n if loop in p.dst else 1 for loop, n in enumerate(extents)]
        x = numeric.broadcast(x, shape).reshape(numeric.ints(target.extents))
        numeric.write_box(env[target.buffer], target, x)
