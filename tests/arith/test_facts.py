# SPDX-License-Identifier: Apache-2.0
"""What `Facts` must be able to see: the index arithmetic of tiled kernels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilelang import ir
from tilelang.arith import Facts
from tilelang.arith.simplify import cost


@pytest.fixture(autouse=True)
def _session() -> Iterator[None]:
    with ir.session():
        yield


def bound(**extents: int) -> tuple[Facts, list[ir.Expr]]:
    """Facts with variables 0 <= name < extent, and the variables."""
    f, out = Facts(), []
    for name, extent in extents.items():
        v = ir.Var(name)
        f.bind(v, 0, extent)
        out.append(v)
    return f, out


def test_split_and_fuse() -> None:
    f, (i, j, k, t, x, y) = bound(i=128, j=8, k=16, t=128, x=64, y=4)
    assert f.simplify((i * 8 + j) // 8) is i
    assert f.simplify((i * 8 + j) % 8) is j
    assert f.bounds(i * 8 + j) == (0, 1023)
    assert f.simplify((i * 64 + y * 16 + k) // 64) is i
    assert f.equal((4 * x + y) // 16, x // 4)
    assert f.simplify((t // 4) * 4 + t % 4) is t
    assert f.simplify((t // 32) * 32 + t % 32 // 4 * 4 + t % 4) is t
    assert f.simplify(t // 8 % 4 * 8 + t % 8).__repr__() == "t % 32"
    assert f.equal(t % 32 // 4, t // 4 % 8)
    assert f.simplify(t % 32 % 8).__repr__() == "t % 8"
    assert f.simplify((t // 4) // 8).__repr__() == "t // 32"
    assert f.simplify((i * 8 + j + 8) // 8).__repr__() == "i + 1"


def test_bound_of_a_fragment_address() -> None:
    f, (t, r) = bound(t=128, r=8)
    address = ((t // 32) * 16 + (t % 32) // 4) * 64 + (t % 32) % 4 * 2 + r * 8
    assert f.prove(address < 4096)
    assert not f.prove(address < 3000)
    assert f.decide(address < 0) is False


def test_negative_values() -> None:
    f = Facts()
    k, n = ir.Var("k"), ir.Var("n")
    f.bind(k, -5, 10)
    assert f.bounds(k // 2) == (-3, 2)
    assert f.bounds(ir.truncdiv(k, 2)) == (-2, 2)
    assert f.bounds(k % 4) == (0, 3)
    assert f.bounds(ir.truncmod(k, 4)) == (-3, 3)
    f.bind(n, 0, 10)
    assert f.simplify(ir.truncdiv(n * 4 + 3, 4)) is n  # not negative: truncation is floor
    assert f.equal(ir.truncdiv(k * 4, 4), k)
    assert not f.equal(ir.truncdiv(k * 4 + 1, 4), k)


def test_symbolic_extents() -> None:
    f = Facts()
    n, m, i, bx, j = (ir.Var(x) for x in ("n", "m", "i", "bx", "j"))
    assert not f.prove(i < n)
    f.bind(i, 0, n)
    assert f.prove(i < n)
    assert f.prove(i >= 0)
    assert f.prove(n >= 1)
    assert f.prove(i * 4 + 3 < n * 4)
    assert not f.prove(i * 4 + 4 < n * 4)
    f.bind_nonneg(m)
    f.bind(j, 0, 128)
    whole = f.child()
    whole.assume(m % 128 == 0)
    whole.bind(bx, 0, ir.ceildiv(m, 128))
    assert whole.prove(bx * 128 + j < m)
    assert whole.equal(ir.ceildiv(m, 128) * 128, m)
    assert whole.divisible(m - bx * 64, 64)
    ragged = f.child()
    ragged.bind(bx, 0, ir.ceildiv(m, 128))
    assert ragged.prove(bx * 128 < m)
    assert not ragged.prove(bx * 128 + j < m)
    inner = f.child()
    inner.bind(bx, 0, m // 128)
    assert inner.prove(bx * 128 + j < m)


def test_bounds_pass_from_one_variable_to_another() -> None:
    f = Facts()
    n, i, j = ir.Var("n"), ir.Var("i"), ir.Var("j")
    f.assume(n <= 100)
    f.bind(i, 0, n)
    f.bind(j, i, 4)
    assert f.bounds(i) == (0, 99)
    assert f.bounds(j) == (0, 102)
    assert f.prove(j - i < 4)
    f.bind(k := ir.Var("k"), 3, 1)
    assert f.simplify(i + k).__repr__() == "i + 3"


def test_division_by_a_symbol() -> None:
    f = Facts()
    n, i, j = ir.Var("n"), ir.Var("i"), ir.Var("j")
    f.bind(i, 0, n)
    f.bind(j, 0, 64)
    assert f.simplify((j * n + i) // n) is j
    assert f.simplify((j * n + i) % n) is i
    assert f.bounds((j * n + i) // n) == (0, 63)
    assert f.prove(j * n + i < 64 * n)
    m, k = ir.Var("m"), ir.Var("k")
    f.bind(k, 0, m)
    assert f.prove(k * n + i < m * n)
    assert not f.prove(k * n + i < m * n - 1)


def test_assertions_are_used() -> None:
    f = Facts()
    x, y, z, b = ir.Var("x"), ir.Var("y"), ir.Var("z"), ir.Var("b", ir.DType("bool"))
    f.assume(ir.all_of([x < y, y <= z, z % 8 == 4, x != 0, x >= 0]))
    assert f.prove(x < z)
    assert f.prove(x >= 1)
    assert f.modular(z) == (8, 4)
    assert f.modular(z * 2 + 1) == (16, 9)
    assert f.prove(z != 3)
    assert f.decide(z % 4 == 1) is False
    f.assume(b)
    assert f.simplify(ir.select(b, x, y)) is x
    g = Facts()
    g.assume(ir.logical_not(ir.logical_or(x < 3, y > 5)))
    assert g.bounds(x) == (3, None)
    assert g.bounds(y) == (None, 5)
    g.assume(x == y)
    assert g.equal(x + 1, y + 1)
    assert g.bounds(x) == (3, 5)


def test_definitions_prove_but_are_not_copied() -> None:
    f, (i, j) = bound(i=16, j=8)
    v = ir.Var("v")
    f.define(v, i * 8 + j)
    assert f.bounds(v) == (0, 127)
    assert f.equal(v // 8, i)
    assert f.prove(v >= i)
    assert f.simplify(v + 1).__repr__() == "v + 1"
    w = ir.Var("w")
    f.define(w, v * 4)
    assert f.divisible(w, 4)
    assert f.equal(w // 32, i)
    flag = ir.Var("flag", ir.DType("bool"))
    f.define(flag, v < 64)
    assert f.child().decide(flag) is None
    inner = f.under(flag)
    assert inner.prove(i < 8)


def test_memory_is_never_a_lasting_fact() -> None:
    f = Facts()
    buffer = ir.Buffer("A", [8], "int32")
    x = buffer[0]
    f.assume(x < 4)
    assert not f.prove(x < 4)
    v = ir.Var("v")
    f.define(v, x % 8)
    assert f.bounds(v) == (0, 7)
    assert not f.equal(v, x % 8)
    byte = ir.Buffer("B", [8], "uint8")
    assert f.bounds(byte[0]) == (0, 255)


def test_scopes() -> None:
    f, (i,) = bound(i=100)
    inner = f.child()
    inner.assume(i < 10)
    assert inner.simplify(i // 16).__repr__() == "0"
    assert f.simplify(i // 16).__repr__() == "i // 16"
    assert f.under(i < 10) is f.under(i < 10)


def test_comparisons_lose_what_is_common() -> None:
    f, (i, v) = bound(i=100, v=8)
    n, m = ir.Var("n"), ir.Var("m")
    f.bind_nonneg(n)
    f.assume(m % 8 == 0)
    assert f.simplify(i + n + 1 < n + v + 1).__repr__() == "i < v"
    assert f.simplify(i * 8 + v < n * 8).__repr__() == "i < n"
    assert f.simplify(i * 8 + v < m).__repr__() == "i * 8 < m"  # the same for all lanes of a vector
    assert f.simplify(i * 8 + v < 100).__repr__() == "i * 8 + v < 100"
    assert f.simplify(i * 8 + v < 96).__repr__() == "i < 12"
    assert f.simplify(i < 100).__repr__() == "True"
    assert f.simplify(ir.logical_and(i < 100, i < n)).__repr__() == "i < n"
    assert f.simplify(ir.logical_and(i < 50, i < 60)).__repr__() == "i < 50"
    assert f.simplify(ir.logical_not(i < n)).__repr__() == "i >= n"


def test_min_max_select() -> None:
    f, (i, j) = bound(i=16, j=8)
    n = ir.Var("n")
    assert f.simplify(ir.minimum(i, 15)) is i
    assert f.simplify(ir.maximum(i, j - 8)) is i
    assert f.simplify(ir.minimum(i, n)).__repr__() == "T.min(i, n)"
    assert f.prove(ir.minimum(i, n) <= n)
    assert f.prove(ir.minimum(i, n) < 16)
    assert f.prove(ir.maximum(i, n) >= n)
    assert f.simplify(ir.select(i < 4, ir.minimum(i, 5), i)) is i
    assert f.prove(ir.select(n > 3, i, j) < 16)
    f.assume(n >= 20)
    assert f.prove(ir.minimum(n - i, 64) > 0)


def test_bit_operations() -> None:
    f, (i, j) = bound(i=16, j=8)
    assert f.equal(i & 7, i % 8)
    assert f.equal(i >> 2, i // 4)
    assert f.equal((i << 3) + j, i * 8 + j)
    assert f.bounds(i ^ j) == (0, 15)
    assert f.prove((i ^ 5) * 8 + j < 128)
    assert f.bounds(i | 16) == (0, 31)


def test_dtypes_are_kept_and_only_index_dtypes_are_rearranged() -> None:
    f, (i,) = bound(i=16)
    wide = ir.cast(i, "int64")
    assert f.simplify(wide + 3 - 3) is wide
    assert f.equal(wide * 4 // 4, wide)
    assert f.simplify(ir.cast(wide + 1, "int32")).__repr__() == "i + 1"
    u = ir.Var("u", ir.DType("uint32"))
    kept = u * 4 // ir.const(4, "uint32")  # may wrap
    assert f.simplify(kept) is kept
    assert f.bounds(u - 1) == (0, 2**32 - 1)
    f.bind(u, 3, 4)
    assert f.bounds(u - 1) == (2, 5)
    x = ir.Var("x", ir.DType("float32"))
    assert f.simplify(x + 1.0 - 1.0).__repr__() == (x + 1.0 - 1.0).__repr__()
    assert f.decide(ir.logical_not(x < 1.0)) is None
    assert type(f.simplify(ir.logical_not(x < 1.0))) is ir.Not  # not x >= 1.0: NaN
    byte = ir.Var("byte", ir.DType("int8"))
    sum8 = byte + ir.const(100, "int8")
    assert f.bounds(sum8) == (-128, 127)


def test_a_product_that_would_overflow_int32_stays_64_bit() -> None:
    f = Facts()
    i, n = ir.Var("i"), ir.Var("n")
    f.bind_nonneg(n)
    f.bind(i, 0, n)
    address = ir.cast(i, "int64") * ir.cast(n, "int64") + 1 - 1
    new = f.simplify(address)
    assert new.dtype == "int64"
    assert all(x.dtype == "int64" for x in ir.walk(new) if type(x) is ir.Mul)
    big = ir.cast(i, "int64") * 2**40
    assert f.simplify(big + 0).dtype == "int64"


def test_loads_and_calls_are_entered() -> None:
    f, (i, j) = bound(i=16, j=8)
    a = ir.Buffer("A", [16], "float32")
    assert f.simplify(a[(i * 8 + j) // 8] + 1.0).__repr__() == (a[i] + 1.0).__repr__()
    call = ir.call("exp", [a[(i * 8 + j) // 8]], "float32")
    assert f.simplify(call) is ir.call("exp", [a[i]], "float32")


def test_simplify_does_not_grow_code() -> None:
    f = Facts()
    a, b, c, d = (ir.Var(x) for x in "abcd")
    for e in (
        (a + b) * (c + d),
        (a + b) * (a + b) * (a + b),
        (a - 1) // 8,
        (a + b + c) % 64 * 3 + d,
    ):
        assert cost(f, f.simplify(e)) <= cost(f, e)
    assert f.simplify((a + b) * (c + d)) is (a + b) * (c + d)


def test_branches_below_branches_do_not_multiply() -> None:
    f, (i,) = bound(i=1000)
    e: ir.Expr = i
    for n in range(40):
        e = ir.select(i < 3 * n, e + 1, e * 2)
    assert f.simplify(e).dtype == "int32"


def test_work_grows_with_the_program() -> None:
    """Twice the expression costs at most about twice the entries in the memo."""

    def work(terms: int) -> int:
        f, (i, j) = bound(i=128, j=8)
        e: ir.Expr = i
        for n in range(terms):
            e = (e + j * n) // 3 + (i * 8 + j) % (n + 2)
            f.simplify(e)
        return len(f.linear_memo) + len(f.simple_memo)

    assert work(40) < 2.3 * work(20)
