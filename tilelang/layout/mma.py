# SPDX-License-Identifier: Apache-2.0
"""Tensor-core fragments, as data.

Lane = 4*g + q (g = 0..7, q = 0..3) throughout; sources: PTX ISA, "Matrix Fragments for
mma.m16n8k16" and its siblings, "wgmma … Register Fragments". Warps (warpgroups) form a grid,
row-major: warp = wm * warps_n + wn; each owns a contiguous block of tiles. A ragged extent is
padded to whole tiles of every warp.
"""

from __future__ import annotations

from .digits import Digit, Replica
from .fragment import Fragment

WARP = 32
WARPGROUP = 128
LANE_G = 4  # thread stride of g
LANE_Q = 1  # thread stride of q


def _tiles(extent: int, tile: int, warps: int) -> int:
    return max(1, -(-extent // (tile * warps)))


def _oriented(frag: Fragment, transposed: bool) -> Fragment:
    return frag.permute((1, 0)) if transposed else frag


def mma_c(m: int, n: int, warps_m: int, warps_n: int, bits: int = 32) -> Fragment:
    """Accumulator of m16n8kX, or m8n8k4 for 64 bits. Registers: [mt][nt][row half][2 columns]."""
    halves = 1 if bits == 64 else 2
    mt, nt = _tiles(m, 8 * halves, warps_m), _tiles(n, 8, warps_n)
    atom = 2 * halves
    threads = [
        Digit(0, 1, 8, LANE_G),
        Digit(1, 2, 4, LANE_Q),
        Digit(0, 8 * halves * mt, warps_m, WARP * warps_n),
        Digit(1, 8 * nt, warps_n, WARP),
    ]
    regs = [
        Digit(1, 1, 2, 1),
        Digit(0, 8, halves, 2),
        Digit(1, 8, nt, atom),
        Digit(0, 8 * halves, mt, atom * nt),
    ]
    return Fragment((m, n), WARP * warps_m * warps_n, threads, regs)


def mma_a(
    m: int, k: int, warps_m: int, warps_n: int, bits: int = 16, transposed: bool = False
) -> Fragment:
    """Operand A of m16n8k(256/bits), shape (m, k) or (k, m) if transposed; m8n8k4 for 64 bits.

    Registers: [mt][kt][k half][row half][elements of one 32-bit register]. Each warp of a row holds
    the same.
    """
    each = max(1, 32 // bits)
    halves = 1 if bits == 64 else 2
    mt, kt = _tiles(m, 8 * halves, warps_m), _tiles(k, 4 * each * halves, 1)
    atom = each * halves * halves
    threads = [
        Digit(0, 1, 8, LANE_G),
        Digit(1, each, 4, LANE_Q),
        Digit(0, 8 * halves * mt, warps_m, WARP * warps_n),
    ]
    regs = [
        Digit(1, 1, each, 1),
        Digit(0, 8, halves, each),
        Digit(1, 4 * each, halves, each * halves),
        Digit(1, 4 * each * halves, kt, atom),
        Digit(0, 8 * halves, mt, atom * kt),
    ]
    replicas = [Replica(warps_n, WARP)]
    return _oriented(
        Fragment((m, k), WARP * warps_m * warps_n, threads, regs, replicas), transposed
    )


def mma_b(
    k: int, n: int, warps_m: int, warps_n: int, bits: int = 16, transposed: bool = False
) -> Fragment:
    """Operand B of m16n8k(256/bits), shape (k, n) or (n, k) if transposed; m8n8k4 for 64 bits.

    Registers: [nt][kt][k half][elements of one 32-bit register]. Each warp of a column holds the
    same.
    """
    each = max(1, 32 // bits)
    halves = 1 if bits == 64 else 2
    nt, kt = _tiles(n, 8, warps_n), _tiles(k, 4 * each * halves, 1)
    atom = each * halves
    threads = [Digit(1, 1, 8, LANE_G), Digit(0, each, 4, LANE_Q), Digit(1, 8 * nt, warps_n, WARP)]
    regs = [
        Digit(0, 1, each, 1),
        Digit(0, 4 * each, halves, each),
        Digit(0, 4 * each * halves, kt, atom),
        Digit(1, 8, nt, atom * kt),
    ]
    replicas = [Replica(warps_m, WARP * warps_n)]
    return _oriented(
        Fragment((k, n), WARP * warps_m * warps_n, threads, regs, replicas), transposed
    )


def wgmma_c(m: int, n: int, warpgroups_m: int, warpgroups_n: int = 1) -> Fragment:
    """Accumulator of m64nN. Registers: [mt][d[4*j + 0..3]], j counting groups of 8 columns."""
    mt, nt = _tiles(m, 64, warpgroups_m), _tiles(n, 8, warpgroups_n)
    threads = [
        Digit(0, 1, 8, LANE_G),
        Digit(1, 2, 4, LANE_Q),
        Digit(0, 16, 4, WARP),
        Digit(0, 64 * mt, warpgroups_m, WARPGROUP * warpgroups_n),
        Digit(1, 8 * nt, warpgroups_n, WARPGROUP),
    ]
    regs = [Digit(1, 1, 2, 1), Digit(0, 8, 2, 2), Digit(1, 8, nt, 4), Digit(0, 64, mt, 4 * nt)]
    return Fragment((m, n), WARPGROUP * warpgroups_m * warpgroups_n, threads, regs)


def wgmma_a(m: int, k: int, warpgroups_m: int, warpgroups_n: int = 1, bits: int = 16) -> Fragment:
    """Register operand A of m64nNk(256/bits). Registers: [mt][kt][k half][row half][32-bit
    register].
    """
    each = 32 // bits
    mt, kt = _tiles(m, 64, warpgroups_m), _tiles(k, 8 * each, 1)
    threads = [
        Digit(0, 1, 8, LANE_G),
        Digit(1, each, 4, LANE_Q),
        Digit(0, 16, 4, WARP),
        Digit(0, 64 * mt, warpgroups_m, WARPGROUP * warpgroups_n),
    ]
    regs = [
        Digit(1, 1, each, 1),
        Digit(0, 8, 2, each),
        Digit(1, 4 * each, 2, 2 * each),
        Digit(1, 8 * each, kt, 4 * each),
        Digit(0, 64, mt, 4 * each * kt),
    ]
    return Fragment(
        (m, k),
        WARPGROUP * warpgroups_m * warpgroups_n,
        threads,
        regs,
        [Replica(warpgroups_n, WARPGROUP)],
    )


__all__ = ["mma_a", "mma_b", "mma_c", "wgmma_a", "wgmma_c"]
