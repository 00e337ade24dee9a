# SPDX-License-Identifier: Apache-2.0
"""How far random generators jump: the constants of `language/random.py`, computed when needed.

MRG32k3a is linear over two primes: a jump by n is the n-th power of a 3x3 matrix. XORWOW without
its counter is linear over GF(2): a jump by n is x**n modulo the characteristic polynomial of one
step, which is found from a sequence of output bits (Berlekamp-Massey).
"""

from __future__ import annotations

import functools

# L'Ecuyer 1999: the moduli, and the recurrences as matrices on (s[n-3], s[n-2], s[n-1]).
MRG_MODULI = (4294967087, 4294944443)
MRG_STEPS = (
    ((0, 1, 0), (0, 0, 1), (-810728, 1403580, 0)),
    ((0, 1, 0), (0, 0, 1), (-1370589, 0, 527612)),
)
MRG_SUBSEQUENCE = 76  # log2 of the distance between sequences
XORWOW_BITS = 160
XORWOW_SUBSEQUENCE = 67

Matrix = tuple[tuple[int, ...], ...]


def _times(a: Matrix, b: Matrix, m: int) -> Matrix:
    return tuple(
        tuple(sum(a[i][k] * b[k][j] for k in range(3)) % m for j in range(3)) for i in range(3)
    )


@functools.cache
def mrg_matrix(which: int, doublings: int) -> Matrix:
    """The step matrix of a recurrence to the power 2**doublings."""
    m = MRG_MODULI[which]
    out: Matrix = tuple(tuple(x % m for x in row) for row in MRG_STEPS[which])
    for _ in range(doublings):
        out = _times(out, out, m)
    return out


def _xorwow_bits(count: int) -> list[int]:
    """The lowest bit of the last word, step by step."""
    v, mask, out = [1, 0, 0, 0, 0], 0xFFFFFFFF, []
    for _ in range(count):
        t = v[0] ^ (v[0] >> 2)
        last = v[4] ^ (v[4] << 4 & mask) ^ t ^ (t << 1 & mask)
        v = [*v[1:], last]
        out.append(last & 1)
    return out


@functools.cache
def xorwow_polynomial() -> int:
    """The characteristic polynomial of one step, bit i for x**i, the leading x**160 included."""
    bits = _xorwow_bits(2 * XORWOW_BITS + 8)
    current, previous, length, gap = 1, 1, 0, 1  # connection polynomials
    for n, bit in enumerate(bits):
        wrong = bit
        for i in range(1, length + 1):
            wrong ^= (current >> i & 1) & bits[n - i]
        if not wrong:
            gap += 1
        elif 2 * length <= n:
            current, previous, length, gap = current ^ (previous << gap), current, n + 1 - length, 1
        else:
            current ^= previous << gap
            gap += 1
    return sum((current >> i & 1) << (length - i) for i in range(length + 1))


def _reduced(x: int) -> int:
    p = xorwow_polynomial()
    while x.bit_length() > XORWOW_BITS:
        x ^= p << (x.bit_length() - 1 - XORWOW_BITS)
    return x


@functools.cache
def xorwow_jump(doublings: int) -> int:
    """x**(2**doublings) modulo the characteristic polynomial."""
    out = 2
    for _ in range(doublings):
        square = sum((out >> i & 1) << 2 * i for i in range(XORWOW_BITS))
        out = _reduced(square)
    return out


def words(x: int, count: int = 5) -> tuple[int, ...]:
    """32 bits each, the lowest first."""
    return tuple(x >> 32 * i & 0xFFFFFFFF for i in range(count))
