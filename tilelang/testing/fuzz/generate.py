# SPDX-License-Identifier: Apache-2.0
"""Whole programs. In: choices. Out: the text of a kernel `program`, valid on every target, and the
sizes and numbers that it is to be called with."""

from __future__ import annotations

from dataclasses import dataclass

from . import copies, elements, products
from .choices import Choices
from .program import Writer
from .threads import thread_program

__all__ = ["KINDS", "Program", "generate"]

# Tiles of any shape; tiles that tensor cores take whole; pipelines that get warp roles; what single
# threads do.
KINDS = ("small", "large", "roles", "small", "large", "roles", "threads")

_SMALL_DTYPES = ("float16", "float32", "bfloat16", "int8")
_LARGE_DTYPES = ("float16", "bfloat16", "int8", "float8_e4m3fn", "float8_e5m2", "float32")
_ROLE_DTYPES = ("float16", "bfloat16", "int8", "float8_e4m3fn", "float8_e5m2", "tfloat32")
_STATEMENTS = (
    elements.elementwise, copies.load, elements.reduce, products.product, copies.fill,
    copies.load_elements, copies.through_shared, copies.convert, copies.box, copies.reshaped,
    elements.repeated, elements.conditional, copies.masked_rows, elements.counted,
    elements.histogram, products.chained_product, products.more_product, products.attention,
)  # fmt: skip

_BESIDE_ROLES = (
    elements.elementwise, elements.repeated, products.product, products.more_product,
    products.attention, elements.conditional, elements.reduce, copies.fill, copies.load,
    elements.counted, products.chained_product,
)  # fmt: skip
_FIRST = {
    "small": (copies.load, products.product), "large": (products.product, products.attention),
    "roles": (products.product, products.attention),
}  # fmt: skip
_MOST = {"small": 6, "large": 3, "roles": 3}


@dataclass(frozen=True)
class Program:
    """sizes: by name, of dimensions that are known at run time, and of numbers it is given."""

    text: str
    sizes: dict[str, int]


def generate(choices: Choices) -> Program:
    kind = choices.pick(KINDS)
    if kind == "threads":
        return Program(thread_program(choices), {})
    with choices.span():
        p = _small(choices) if kind == "small" else _large(choices, kind)
    with choices.span():
        choices.pick(_FIRST[kind])(p)
    statements = _BESIDE_ROLES if kind == "roles" else _STATEMENTS
    choices.repeat(_MOST[kind], lambda: choices.pick(statements)(p))
    for t in p.tiles:
        copies.store(p, t)
    for v in p.row_vectors:
        copies.store(p, v, vector=True)
    return Program(p.text(), p.sizes)


def _small(c: Choices) -> Writer:
    """Tiles of any shape."""
    m, n, k = (1 + c.number(39) for _ in range(3))
    return _writer(c, (m, n, k), c.pick([32, 64, 128]), c.pick(_SMALL_DTYPES), "small")


def _large(c: Choices, kind: str) -> Writer:
    """Tiles that tensor cores take whole."""
    m, n, k = (
        c.pick([64, 128]),
        c.pick([64, 128]),
        c.pick([64, 32] if kind == "roles" else [64, 128]),
    )
    dtype = c.pick(_ROLE_DTYPES if kind == "roles" else _LARGE_DTYPES)
    return _writer(c, (m, n, k), c.pick([128, 256]), dtype, kind)


def _writer(c: Choices, shape: tuple[int, int, int], threads: int, dtype: str, kind: str) -> Writer:
    rows = max(shape[0] * c.between(1, 2) - c.pick([0, 1, 2, 3]), 1)
    name = "M" if c.flag() else str(rows)
    sizes = {"M": rows} if name == "M" else {}
    acc = "int32" if dtype == "int8" else "float32"
    return Writer(c, *shape, threads, dtype, acc, name, sizes, kind)
