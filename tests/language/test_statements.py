# SPDX-License-Identifier: Apache-2.0
"""What the statements of a kernel mean: kernels run by the oracle, one thread per block."""

from __future__ import annotations

import functools
import textwrap
from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import Span
from tilelang.interp import tile
from tilelang.ir import PrimFunc
from tilelang.language import remember_source

_COUNT = iter(range(10**6))


def kernel(body: str, before: str = "", **names: Any) -> PrimFunc:
    """A kernel of one thread over A: (8, 8) float32, I: (16,) int32, n: int32."""
    text = (
        "import tilelang.language as T\n"
        + textwrap.dedent(before)
        + "\n@T.prim_func\n"
        + "def main(A: T.Tensor((8, 8), 'float32'), I: T.Tensor((16,), 'int32'), n: T.int32):\n"
        + "    with T.Kernel(1, threads=1) as bx:\n"
        + textwrap.indent(textwrap.dedent(body).lstrip("\n"), " " * 8)
    )
    file = f"<statements {next(_COUNT)}>"
    remember_source(text, file)
    scope: dict[str, Any] = {"__name__": "user", **names}
    exec(compile(text, file, "exec"), scope)
    func: PrimFunc = scope["main"]
    return func


def run(body: str, n: int = 5, before: str = "", **names: Any) -> list[int]:
    """The values of I after the kernel; A[i, j] is i * 8 + j."""
    a = np.arange(64, dtype=np.float32).reshape(8, 8)
    i = np.full(16, -1, np.int32)
    tile.run(kernel(body, before, **names), a, i, n)
    return i.tolist()


def first(body: str, n: int = 5, before: str = "", **names: Any) -> int:
    return run(body, n, before, **names)[0]


# ------------------------------------------------------------------------------------- assignment


def test_simultaneous_assignment() -> None:
    body = """
    a = T.alloc_var("int32", init=1)
    b = T.alloc_var("int32", 2)
    a, b = b + 10, a
    I[0] = a
    I[1], I[2] = b, I[0] * 2
    x, y = n, n + 1
    x, y = y, x
    I[3] = x * 100 + y
    I[4], I[3] = I[3], I[4]
    """
    assert run(body)[:5] == [12, 1, 24, -1, 605]


def test_chained_starred_and_nested() -> None:
    body = """
    p = q = n * 2
    I[0] = p + q
    a, *rest, z = (1, 2, 3, 4)
    I[1] = rest[0] * 10 + rest[1]
    (u, v), w = (n, 2), 3
    I[2] = u + v + w
    x: T.float32 = 7
    I[3] = x
    [c, d] = [n, n]
    I[4] = c - d
    """
    assert run(body)[:5] == [20, 23, 10, 7, 0]


def test_a_name_is_a_snapshot() -> None:
    body = """
    I[0] = 3
    x = I[0]
    y = (I[0], 1)
    I[0] = 4
    I[1] = x
    I[2] = y[0]
    v = T.alloc_var("int32", init=8)
    w = v
    v += 1
    I[3] = w
    I[4] = v
    """
    assert run(body)[:5] == [4, 3, 3, 8, 9]


def test_augmented_assignment() -> None:
    body = """
    x = n
    x += 1
    x *= 2
    I[0] = x
    I[0] -= 1
    I[0] //= 2
    I[0] %= 4
    I[1] = 6
    I[1] |= 1
    I[1] <<= 2
    I[1] ^= 1
    l = [1]
    l += [n]
    I[2] = l[1]
    d = {"k": n}
    d["k"] += 1
    I[3] = d["k"]
    """
    assert run(body)[:4] == [1, 29, 5, 6]


def test_lists_of_mutable_scalars() -> None:
    body = """
    vs = [T.alloc_var("int32", init=k) for k in (10, 20)]
    vs[0] = vs[1] + 1
    vs[1] += 5
    I[0] = vs[0]
    I[1] = vs[1]
    """
    assert run(body)[:2] == [21, 25]
    assert "vs_0" in kernel(body).script()


def test_python_values_stay_python() -> None:
    body = """
    shape = A.shape
    rows, cols = shape
    name = f"{rows}x{cols}"
    if name == "8x8":
        I[0] = rows * cols
    table = {k: k * k for k in range(4)}
    I[1] = sum(table.values())
    f = lambda v: v + n
    I[2] = f(2)
    import math
    I[3] = math.isqrt(50)
    try:
        I[4] = {}["missing"]
    except KeyError:
        I[4] = 44
    I[5] = helper(n, 3)
    del name
    for k, v in enumerate([7, 8]):
        I[6 + k] = v
    """
    assert run(body, helper=lambda a, b: a * b)[:8] == [64, 14, 7, 7, 44, 15, 7, 8]


def test_nested_plain_functions() -> None:
    body = """
    def twice(v):
        if isinstance(v, int):
            return v * 2
        return v + v
    I[0] = twice(4)
    I[1] = twice(n)
    """
    assert run(body)[:2] == [8, 10]


# ---------------------------------------------------------------------------------------- control


def test_conditions_fold_while_tracing() -> None:
    func = kernel("""
    if A.shape[0] == 8:
        I[0] = 1
    else:
        I[0] = no_such_name
    if None:
        I[0] = no_such_name
    elif n > 2:
        I[1] = 1
    I[2] = 5 if "text" else no_such_name
    """)
    assert func.script().count("if ") == 1


def test_run_time_branches() -> None:
    body = """
    if n > 5:
        I[0] = 1
    elif n == 5:
        I[0] = 2
        if n % 2 == 1 and n > 0:
            I[1] = 3
    else:
        I[0] = 4
    if n:
        I[2] = 6
    if A[0, 1]:
        I[3] = 7
    """
    assert run(body, 5)[:4] == [2, 3, 6, 7]
    assert run(body, 9)[:4] == [1, -1, 6, 7]
    assert run(body, 0)[:4] == [4, -1, -1, 7]


def test_boolean_operators() -> None:
    body = """
    I[0] = (n > 3 and n < 6) or n == 100
    I[1] = not n
    I[2] = 3 < n < 6
    I[3] = n in (1, 5)
    I[4] = n not in (1, 5)
    I[5] = 1 < 2 < 3
    I[6] = 7 if n > 3 else 8
    I[7] = I[99] if n > 1000 else 5
    x = True and n
    I[8] = x
    I[9] = 0 or 9
    I[10] = None is None
    I[11] = T.if_then_else(n > 3, 1, 2.5)
    """
    assert run(body)[:12] == [1, 0, 1, 1, 0, 1, 7, 5, 5, 9, 1, 1]


def test_loops() -> None:
    body = """
    s = T.alloc_var("int32", init=0)
    for i in range(3):
        s += i
    I[0] = s
    for i in T.serial(10, 0, -3):
        I[i] = i
    for i in T.serial(n, n + 2):
        I[i] = 50 + i
    for i, j in T.grid(2, 2):
        s += 100
    for u in T.unroll(2):
        s += 1000
    for (k,) in T.Parallel(1):
        I[k + 15] = 9
    for k in range(0, 10, 2):
        for l in T.serial(1):
            if k == 4:
                break
        if k == 6:
            break
        if k == 2:
            continue
        s += 10000
    I[2] = s
    """
    got = run(body)
    assert got == [3, 1, 22403, -1, 4, 55, 56, 7, -1, -1, 10, -1, -1, -1, -1, 9]


def test_step_of_unknown_sign() -> None:
    body = """
    for i in T.serial(4, 4 + 3 * n, n):
        I[i] = i
    """
    assert [k for k, v in enumerate(run(body, 2)) if v == k] == [4, 6, 8]
    assert [k for k, v in enumerate(run(body, -1)) if v == k] == [2, 3, 4]


def test_while() -> None:
    body = """
    i = T.alloc_var("int32", init=0)
    while i < n:
        i += 1
        if i == 3:
            continue
        I[i] = i
    while True:
        i += 1
        if i > 8:
            break
    I[0] = i
    k = 40
    while k > 3:
        k = k // 2
    I[10] = k
    while T.if_then_else(i > 0, i, 0) > 2:
        i -= 2
    I[11] = i
    """
    got = run(body)
    assert got[:6] == [9, 1, 2, -1, 4, 5]
    assert got[10:12] == [2, 1]


def test_python_loops_unroll() -> None:
    func = kernel("""
    for dtype, k in zip(["a", "b"], [n, 2]):
        if dtype == "b":
            continue
        I[0] = k
    for k in [1, 2, 3]:
        if k == 2:
            break
        I[k] = k
    """)
    assert "for" not in func.script()


def test_assignments_that_do_not_escape() -> None:
    body = """
    x = 1
    for i in T.serial(4):
        x = i * 2
        I[i] = x
    x = 5
    I[4] = x
    if n > 1:
        y = n * 3
        I[5] = y
    for i in T.serial(2):
        t = I[i] + 1
        I[i + 6] = t
    t = n
    I[8] = t
    flag = False
    for i in T.serial(2):
        flag = False
    I[9] = flag
    """
    assert run(body)[:10] == [0, 2, 4, 6, 5, 15, 1, 3, 5, 0]


def test_assertions() -> None:
    func = kernel("""
    assert A.shape == A.shape
    assert n > 0, "positive"
    T.device_assert(n < 100, "small")
    assert n != 7
    """)
    assert func.script().count("assert") == 3
    assert "'n != 7'" in func.script()


# ----------------------------------------------------------------------------------------- macros

MACROS = """
@T.macro
def store(buffer, at, value=3):
    x = at + 1
    buffer[x] = value
    return x

@T.macro
def bump(v: T.Ref, by: "int" = 1):
    v += by

@T.macro
def power(x, k):
    if k == 0:
        return 1
    return x * power(x, k - 1)

@T.macro
def pair(x):
    y = x * 2
    return y, x
"""


def test_macros() -> None:
    body = """
    x = 7
    where = store(I, 0)
    I[2] = where + x
    c = T.alloc_var("int32", init=5)
    bump(c)
    bump(c, by=2)
    I[3] = c
    bump(I[3], 100)
    I[4] = power(n, 3)
    big, small = pair(n)
    I[5] = big - small
    i = T.alloc_var("int32", init=6)
    bump(I[i])
    """
    got = run(body, before=MACROS)
    assert got[:7] == [-1, 3, 8, 108, 125, 5, 0]


def test_reference_indices_are_frozen() -> None:
    before = """
    @T.macro
    def later(slot: T.Ref, index: T.Ref):
        index = 2
        slot = 77
    """
    body = """
    i = T.alloc_var("int32", init=1)
    later(I[i], i)
    """
    assert run(body, before=before)[1:3] == [77, -1]


def test_meta_class() -> None:
    before = """
    @T.meta_class
    class Counter:
        def __init__(self, start):
            self.value = T.alloc_var("int32", init=start)
            self.step = 2
        def advance(self, times):
            for _ in T.serial(times):
                self.value = self.value + self.step
        def get(self):
            return self.value
    """
    body = """
    c = Counter(10)
    c.advance(n)
    I[0] = c.get()
    """
    assert first(body, before=before) == 20


# ------------------------------------------------------------------------------------------ spans


def test_spans_are_the_users() -> None:
    func = kernel("""
    x = n + 1
    for i in T.serial(2):
        I[i] = (x +
                1)
    """)
    body = func.body.body.stmts  # type: ignore[attr-defined]
    assert [s.span.line for s in body] == [6, 7]
    store = body[1].body
    assert (store.span.line, store.span.end_line, store.span.col) == (8, 9, 13)
    assert store.span.function == "main"
    assert func.body.span.line == 5


def test_spans_of_macros_and_helpers() -> None:
    func = kernel("store(I, 0)\nhelper(I)\n", MACROS, helper=_helper)
    stores = [s for s in func.body.body.stmts if type(s).__name__ == "Store"]  # type: ignore[attr-defined]
    spans: list[Span] = [s.span for s in stores]
    assert spans[0].function == "store"
    assert spans[0].inlined_at is not None
    assert spans[0].inlined_at.function == "main"
    copy = next(s for s in func.body.body.stmts if type(s).__name__ == "TileStmt")  # type: ignore[attr-defined]
    assert copy.span.function == "_helper"
    assert copy.span.inlined_at.function == "main"


def _helper(buffer: Any) -> None:
    T.clear(buffer)


def test_closures_and_globals_are_live() -> None:
    def factory(size: int) -> PrimFunc:
        offset = size * 2

        @T.prim_func
        def main(A: T.Tensor((size,), "int32")):
            with T.Kernel(1, threads=1):
                A[0] = offset + _GLOBAL

        return main

    a = np.zeros(4, np.int32)
    tile.run(factory(4), a)
    assert a[0] == 8 + _GLOBAL


_GLOBAL = 1000


def test_decorated_helpers_and_partial() -> None:
    add = functools.partial(lambda a, b: a + b, 10)
    assert first("I[0] = add(n)", add=add) == 15


@pytest.mark.parametrize("count", [1000])
def test_long_programs_are_linear(count: int) -> None:
    import time

    def seconds(n: int) -> float:
        body = "".join(f"x{k} = n + {k}\nI[{k % 16}] = x{k}\n" for k in range(n))
        start = time.process_time()
        kernel(body)
        return time.process_time() - start

    seconds(50)
    small, large = min(seconds(count) for _ in range(2)), seconds(4 * count)
    assert large < 10 * small + 0.1  # quadratic would be 16; the rest is the garbage collector
