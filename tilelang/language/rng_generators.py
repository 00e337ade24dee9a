# SPDX-License-Identifier: Apache-2.0
"""The random generators: Philox4x32-10, MRG32k3a and XORWOW, as statements of the kernel language.

In: a trace, and seed, sequence and offset as uint64 names. Out: statements that hold the state in
private arrays, step it, and make 32 bits of it. Published as

    Philox4x32-10   J. Salmon, M. Moraes, R. Dror, D. Shaw: Parallel Random Numbers: As Easy as 1,
                    2, 3 (2011)
    MRG32k3a        P. L'Ecuyer: Good Parameters and Implementations for Combined Multiple Recursive
                    Random Number Generators (1999)
    XORWOW          G. Marsaglia: Xorshift RNGs (2003)

How a seed becomes a state and how far apart sequences lie is what cuRAND's device API does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tilelang import ir
from tilelang.ir import Buffer, DType, Expr, Var, const

from .rng_base import F64, U64, Generator, u32, u64
from .rng_jump import (
    MRG_MODULI,
    MRG_SUBSEQUENCE,
    XORWOW_BITS,
    XORWOW_SUBSEQUENCE,
    mrg_matrix,
    words,
    xorwow_jump,
    xorwow_polynomial,
)

if TYPE_CHECKING:
    from .trace import Trace


# ------------------------------------------------------------------------------------ Philox


class Philox(Generator):
    """A block cipher of a counter: no state but the counter, the key and the last four words."""

    MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
    WEYL = (0x9E3779B9, 0xBB67AE85)

    def __init__(self, t: Trace) -> None:
        super().__init__(t)
        self.counter = self.array(2, U64)
        self.key, self.out, self.at = (self.array(n) for n in (2, 4, 1))

    def start(self, seed: Var, sequence: Var, offset: Var) -> None:
        self.no_spares()
        self.put(self.key, 0, u32(seed))
        self.put(self.key, 1, u32(seed >> u64(32)))
        self.put(self.counter, 0, offset >> u64(2))
        self.put(self.counter, 1, sequence)
        self.put(self.at, 0, u32(offset & u64(3)))
        self.encrypt()

    def encrypt(self) -> None:
        key = self.array(2)
        for i in range(2):
            self.put(key, i, self.get(self.key, i))
            part = self.get(self.counter, i)
            self.put(self.out, 2 * i, u32(part))
            self.put(self.out, 2 * i + 1, u32(part >> u64(32)))

        def one_round(_: Expr) -> None:
            x = [self.t.bind("x", self.get(self.out, i)) for i in range(4)]
            a, b = (
                self.t.bind("product", u64(x[i]) * u64(m))
                for i, m in zip((0, 2), self.MULTIPLIERS, strict=True)
            )
            self.put(self.out, 0, u32(b >> u64(32)) ^ x[1] ^ self.get(key, 0))
            self.put(self.out, 1, u32(b))
            self.put(self.out, 2, u32(a >> u64(32)) ^ x[3] ^ self.get(key, 1))
            self.put(self.out, 3, u32(a))
            for i, w in enumerate(self.WEYL):
                self.put(key, i, self.get(key, i) + u32(w))

        self.times(10, one_round)

    def draw(self) -> Expr:
        at = self.t.bind("at", self.get(self.at, 0))
        value = self.get(self.out, 3)
        for i in (2, 1, 0):  # no index into the array: it can stay in registers
            value = ir.select(at == u32(i), self.get(self.out, i), value)
        out = self.t.bind("word", value)
        self.put(self.at, 0, (at + u32(1)) & u32(3))

        def advance() -> None:
            low = self.t.bind("low", self.get(self.counter, 0) + u64(1))
            self.put(self.counter, 0, low)
            carry = ir.select(low == u64(0), u64(1), u64(0))
            self.put(self.counter, 1, self.get(self.counter, 1) + carry)
            self.encrypt()

        self.when(at == u32(3), advance)
        return out

    def uniform(self, dtype: DType) -> Expr:
        if dtype is F64:  # of one draw
            word = ir.cast(self.draw_name(), F64)
            return word * const(2.0**-32, F64) + const(2.0**-32, F64)
        return super().uniform(dtype)


# ------------------------------------------------------------------------------------ MRG32k3a


class Mrg32k3a(Generator):
    """Two linear recurrences modulo primes near 2**32; three words of each."""

    NORM = 2.3283065498378288e-10  # just below 1 / m1, so that the result is below 1
    TO_32_BITS = 1.000000048662  # (2**32 - 1) / m1

    def __init__(self, t: Trace) -> None:
        super().__init__(t)
        self.parts = (self.array(3, U64), self.array(3, U64))

    def start(self, seed: Var, sequence: Var, offset: Var) -> None:
        self.no_spares()
        plain = seed == u64(0)
        low = self.t.bind("low", (seed & u64(0xFFFFFFFF)) ^ u64(0x55555555))
        high = self.t.bind("high", (seed >> u64(32)) ^ u64(0xAAAAAAAA))
        for part, m, order in zip(self.parts, MRG_MODULI, ((0, 1, 0), (1, 0, 1)), strict=True):
            for i, which in enumerate(order):
                mixed = ((low, high)[which] * u64(12345)) % u64(m)
                self.put(part, i, ir.select(plain, u64(12345), mixed))
        for which in (0, 1):
            self.jump(which, MRG_SUBSEQUENCE, sequence)
            self.jump(which, 0, offset)

    def jump(self, which: int, doublings: int, n: Expr) -> None:
        part, m = self.parts[which], u64(MRG_MODULI[which])
        power, work = self.array(9, U64), self.array(9, U64)
        self.fill(power, [x for row in mrg_matrix(which, doublings) for x in row])

        def times(columns: int, right: Buffer) -> None:
            """work = power · right, and back."""

            def cell(e: Expr) -> None:
                i, j = e // columns, e % columns
                total = u64(0)
                for k in range(3):
                    a = self.get(power, i * 3 + k)
                    total = total + (a * self.get(right, j + k * columns)) % m
                self.put(work, e, total % m)

            self.times(3 * columns, cell)
            self.times(3 * columns, lambda e: self.put(right, e, self.get(work, e)))

        self.powers(n, lambda: times(1, part), lambda: times(3, power))

    def step(self) -> Expr:
        """The next z in 1 … m1."""
        new = []
        coefficients = (((1, 1403580), (0, 810728)), ((2, 527612), (0, 1370589)))
        for part, m, ((i, a), (j, b)) in zip(self.parts, MRG_MODULI, coefficients, strict=True):
            minus = u64(m) - self.get(part, j)
            x = (u64(a) * self.get(part, i) + u64(b) * minus) % u64(m)
            new.append(self.t.bind("x", x))
            self.put(part, 0, self.get(part, 1))
            self.put(part, 1, self.get(part, 2))
            self.put(part, 2, new[-1])
        m1 = u64(MRG_MODULI[0])
        return ir.select(new[0] <= new[1], new[0] + m1 - new[1], new[0] - new[1])

    def _fraction(self) -> Expr:
        z = self.t.bind("z", self.step())
        return ir.cast(z, F64) * const(self.NORM, F64)

    def draw(self) -> Expr:
        z = self.t.bind("z", self.step())
        return u32(ir.cast(ir.cast(z, F64) * const(self.TO_32_BITS, F64), U64))

    def uniform(self, dtype: DType) -> Expr:
        return ir.cast(self._fraction(), dtype)

    def polar(self, dtype: DType) -> tuple[Expr, Expr]:
        u, v = (self.t.bind("u", self.uniform(dtype)) for _ in range(2))
        return u, v * const(2 * math.pi, dtype)


# ------------------------------------------------------------------------------------ XORWOW


class Xorwow(Generator):
    """Shifts and exclusive ors of five words, and a counter that is added."""

    STEP = 362437

    def __init__(self, t: Trace) -> None:
        super().__init__(t)
        self.v, self.d = self.array(5), self.array(1)

    def start(self, seed: Var, sequence: Var, offset: Var) -> None:
        self.no_spares()
        low = (u32(seed) ^ u32(0xAAD26B49)) * u32(1099087573)
        high = (u32(seed >> u64(32)) ^ u32(0xF7DCEFDD)) * u32(2591861531)
        low, high = self.t.bind("low", low), self.t.bind("high", high)
        first = (
            u32(123456789) + low, u32(362436069) ^ low, u32(521288629) + high,
            u32(88675123) ^ high, u32(5783321) + low,
        )  # fmt: skip
        for i, x in enumerate(first):
            self.put(self.v, i, x)
        self.put(self.d, 0, u32(6615241) + high + low + u32(offset) * u32(self.STEP))
        self.jump(XORWOW_SUBSEQUENCE, sequence)
        self.jump(0, offset)

    def jump(self, doublings: int, n: Expr) -> None:
        """power: the jump so far, a polynomial in one step."""
        power, right = self.array(5), self.array(5)
        total = self.array(5)
        self.fill(power, words(xorwow_jump(doublings)))

        def bit(b: Buffer, i: Expr) -> Expr:
            return (self.get(b, i // 32) >> u32(i % 32)) & u32(1)

        def add(source: Buffer, mask: Expr) -> None:
            for k in range(5):
                self.put(total, k, self.get(total, k) ^ (self.get(source, k) & mask))

        def apply() -> None:
            """The state becomes power(step) · state."""
            self.fill(total, [0] * 5)

            def term(i: Expr) -> None:
                add(self.v, self.t.bind("mask", u32(0) - bit(power, i)))
                self.shift()

            self.times(XORWOW_BITS, term)
            self.times(5, lambda k: self.put(self.v, k, self.get(total, k)))

        def square() -> None:
            """By Horner's scheme, modulo the characteristic polynomial."""
            self.times(5, lambda k: self.put(right, k, self.get(power, k)))
            self.fill(total, [0] * 5)

            def term(i: Expr) -> None:
                over = self.t.bind("over", u32(0) - (self.get(total, 4) >> u32(31)))
                for k, p in reversed(list(enumerate(words(xorwow_polynomial())))):
                    below = self.get(total, k - 1) >> u32(31) if k else u32(0)
                    new = (self.get(total, k) << u32(1)) | below
                    self.put(total, k, new ^ (over & u32(p)))
                last = const(XORWOW_BITS - 1)
                add(power, self.t.bind("mask", u32(0) - bit(right, last - i)))

            self.times(XORWOW_BITS, term)
            self.times(5, lambda k: self.put(power, k, self.get(total, k)))

        self.powers(n, apply, square)

    def shift(self) -> Expr:
        """One step of the five words; the last of them."""
        first, last = (self.t.bind("word", self.get(self.v, k)) for k in (0, 4))
        t = self.t.bind("t", first ^ (first >> u32(2)))
        for k in range(4):
            self.put(self.v, k, self.get(self.v, k + 1))
        new = self.t.bind("new", last ^ (last << u32(4)) ^ t ^ (t << u32(1)))
        self.put(self.v, 4, new)
        return new

    def draw(self) -> Expr:
        new = self.shift()
        d = self.t.bind("d", self.get(self.d, 0) + u32(self.STEP))
        self.put(self.d, 0, d)
        return new + d


GENERATORS: dict[str, type[Generator]] = {
    "curandStatePhilox4_32_10_t": Philox,
    "curandStateMRG32k3a_t": Mrg32k3a,
    "curandStateXORWOW_t": Xorwow,
}
