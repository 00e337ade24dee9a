# SPDX-License-Identifier: Apache-2.0
"""Statements that multiply: gemms of every dtype and orientation, in loops and pipelines, one after
another, two in a loop.

In: a `Writer`. Out: its lines, and the tiles that they give values.
"""

from __future__ import annotations

from .program import EXACT, SMALL, Tile, Writer

__all__ = ["attention", "chained_product", "loop_head", "more_product", "product"]


# By kind of program: the stages of pipelines, and what is missing of a product's last step.
_STAGES = {"small": (0, 1, 2, 3), "large": (2, 0, 1, 3, 4), "roles": (2, 3, 4)}
_CUTS = {"small": (0, 1, 2), "large": (0, 8, 1), "roles": (0, 16)}


def loop_head(p: Writer, var: str, steps: int, *, around: bool = False) -> str:
    """A serial loop or a pipeline; its length may be known at run time only. around: of a loop
    that may hold others; the kernels with warp roles pipeline the inner one."""
    stages = p.choices.pick(_STAGES[p.kind])
    count = p.scalar(steps) if not p.repeats and p.choices.number(3) == 3 else str(steps)
    serial = around if p.kind == "roles" else p.kind == "small" and p.choices.flag()
    if serial:
        how = p.choices.pick(["serial", "unroll"]) if count.isdigit() else "serial"
        return f"for {var} in T.{how}({count}):"
    return f"for {var} in T.Pipelined({count}, num_stages={stages}):"


def product(p: Writer) -> None:
    """A loop of products of new tiles into a new fragment."""
    clear = p.choices.flag()
    _product(p, p.tile(0), "start" if clear else "fill")


def more_product(p: Writer) -> None:
    """The same, added to what a tile has; perhaps inside of another loop."""
    t = p.some()
    p.bound(t, 1000)
    _product(p, t, "add")


def _product(p: Writer, c: Tile, start: str) -> None:
    steps = p.choices.between(1 if p.large or start == "start" else 0, 3)
    depth = max(steps * p.k - p.choices.pick(_CUTS[p.kind]), 0)
    ta, tb = _orientation(p)
    a = p.tensor(f"{depth}, {p.m}" if ta else f"{p.m}, {depth}", p.dtype)
    b = p.tensor(f"{p.n}, {depth}" if tb else f"{depth}, {p.n}", p.dtype)
    x = p.alloc(f"{p.k}, {p.m}" if ta else f"{p.m}, {p.k}", p.dtype, "shared")
    y = p.alloc(f"{p.n}, {p.k}" if tb else f"{p.k}, {p.n}", p.dtype, "shared")
    if start == "fill":
        p.emit(f"T.clear({c.name})")
    part = f"k * {p.k} : k * {p.k} + {p.k}"
    flags = _flags(p, ta, tb) + (", clear_accum=k == 0" if start == "start" else "")
    with p.block(loop_head(p, "k", steps)):
        p.emit(
            f"T.copy({a}[{part}, :], {x})" if ta else f"T.copy({a}[:, {part}], {x})",
            f"T.copy({b}[:, {part}], {y})" if tb else f"T.copy({b}[{part}, :], {y})",
            f"T.gemm({x}, {y}, {c.name}{flags})",
        )
    c.limit = (c.limit + SMALL * SMALL * depth) * (4 if p.repeats else 1)


def _orientation(p: Writer) -> tuple[bool, bool]:
    """wgmma takes all but 16-bit operands with K contiguous only."""
    if p.kind == "roles" and not p.dtype.endswith("float16"):
        return False, True
    return p.choices.flag(), p.choices.flag()


def _flags(p: Writer, ta: bool, tb: bool) -> str:
    flags = (", transpose_A=True" if ta else "") + (", transpose_B=True" if tb else "")
    policy = p.choices.pick(["", "FullRow", "FullCol"])
    return flags + (f", policy=T.GemmWarpPolicy.{policy}" if policy else "")


def chained_product(p: Writer) -> None:
    """The product of a fragment, made narrow, with a shared tile."""
    t, c = p.some(), p.tile(0)
    p.bound(t, SMALL)
    a, b = p.fragment(p.dtype), p.tensor(f"{p.n}, {p.n}", p.dtype)
    s = p.alloc(f"{p.n}, {p.n}", p.dtype, "shared")
    p.emit(
        f"T.copy({t.name}, {a})", f"T.copy({b}, {s})",
        f"T.gemm({a}, {s}, {c.name}, clear_accum=True)",
    )  # fmt: skip
    c.limit = SMALL * SMALL * p.n


def attention(p: Writer) -> None:
    """Two products in a loop, the second of what the first gave; between them what attention does
    to its scores: cut, reduced to a row, which rescales."""
    steps = p.choices.between(1, 4)
    q, k = p.tensor(f"{p.rows}, {p.k}", p.dtype), p.tensor(f"{steps * p.n}, {p.k}", p.dtype)
    turned = _orientation(p)[1]  # V, as the second product wants it
    v = p.tensor(f"{p.n}, {steps * p.n}" if turned else f"{steps * p.n}, {p.n}", p.dtype)
    q_s = p.alloc(f"{p.m}, {p.k}", p.dtype, "shared")
    k_s = p.alloc(f"{p.n}, {p.k}", p.dtype, "shared")
    v_s = p.alloc(f"{p.n}, {p.n}", p.dtype, "shared")
    scores, out, top = p.fragment(p.acc), p.tile(0), _row_vector(p)
    in_shared = p.choices.number(3) == 3
    narrow = p.shared(p.dtype) if in_shared else p.fragment(p.dtype)
    p.emit(f"T.copy({q}[bx * {p.m}, 0], {q_s})", f"T.clear({out.name})", f"T.clear({top})")
    part, flags = f"k * {p.n} : k * {p.n} + {p.n}", _policy(p)
    copy_v = f"T.copy({v}[:, {part}], {v_s})" if turned else f"T.copy({v}[{part}, :], {v_s})"
    rescale, late = p.choices.flag(), p.choices.flag()
    with p.block(loop_head(p, "k", steps)):
        p.emit(f"T.copy({k}[{part}, :], {k_s})")
        if not late:
            p.emit(copy_v)
        if p.choices.flag():
            p.emit(f"T.gemm({q_s}, {k_s}, {scores}, transpose_B=True, clear_accum=True{flags})")
        else:
            _masked_start(p, scores)
            p.emit(f"T.gemm({q_s}, {k_s}, {scores}, transpose_B=True{flags})")
        if p.choices.flag():
            p.emit(f"T.reduce_max({scores}, {top}, dim=1, clear=False)")
        with p.nest():
            value = f"T.min(T.max({scores}[i, j] - {top}[i], {-SMALL}), {SMALL})"
            p.emit(f"{scores}[i, j] = {value}")
        p.emit(f"T.copy({scores}, {narrow})")
        if rescale:
            with p.nest():
                p.emit(f"{out.name}[i, j] *= T.if_then_else({top}[i] > 5, -1, 1)")
        if late:
            p.emit(copy_v)
        turn = ", transpose_B=True" if turned else ""
        p.emit(f"T.gemm({narrow}, {v_s}, {out.name}{turn}{flags})")
    out.limit = min(SMALL * SMALL * p.n * steps, EXACT)


def _row_vector(p: Writer) -> str:
    name = p.alloc(f"{p.m},", p.acc, "fragment")
    p.row_vectors.append(Tile(name, SMALL * SMALL * p.k + SMALL))
    return name


def _policy(p: Writer) -> str:
    return ", policy=T.GemmWarpPolicy.FullRow" if p.choices.flag() else ""


def _masked_start(p: Writer, scores: str) -> None:
    with p.nest():
        p.emit(f"{scores}[i, j] = T.if_then_else(bx * {p.m} + i >= k * {p.n} + j, 0, -3)")
