# SPDX-License-Identifier: Apache-2.0
"""Random numbers: known answers of cuRAND's device API, the same on every executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import LanguageError, OptionError
from tilelang.language.rng_jump import MRG_MODULI, mrg_matrix, xorwow_jump, xorwow_polynomial

from .everywhere import compiles, everywhere, run

PHILOX, MRG, XORWOW = (f"curandState{n}_t" for n in ("Philox4_32_10", "MRG32k3a", "XORWOW"))
# (seed, sequence, offset), and six draws of curand() after curand_init() with these.
STARTS = [(42, 0, 0), (0, 1, 3), (0x123456789ABCDEF, 123456789, 10)]
DRAWS = {
    PHILOX: [
        [2632642643, 2012563771, 314527917, 1463989207, 4242219303, 1404726525],
        [2214098416, 3397187230, 3653729773, 2120669524, 1835372352, 3321500563],
        [1600172353, 3293672042, 2779000082, 1060085809, 800227230, 3989140512],
    ],
    MRG: [
        [994013773, 4154291561, 3812527821, 1283817913, 664973188, 3645448362],
        [3078677252, 728620639, 2366770807, 1813435333, 1246189498, 1716704465],
        [3660785319, 3922834462, 3629288075, 814603468, 2174573078, 2536349885],
    ],
    XORWOW: [
        [300737663, 2363150160, 799977142, 2317951200, 1151197823, 3621806847],
        [1599962988, 2102826641, 2436410096, 343192820, 1002308619, 2187761229],
        [2779287187, 4210544684, 4223346748, 264587145, 848454856, 2573064643],
    ],
}
# Four draws of curand_uniform, _uniform_double, _normal, _normal_double at (7, 3, 0).
FLOATS = {
    PHILOX: [
        [0.59258025884628296, 0.12378288805484772, 0.16271346807479858, 0.59978139400482178],
        [0.5925802499987185, 0.12378288875333965, 0.16271346271969378, 0.59978139796294272],
        [0.71782028675079346, 0.72888392210006714, -1.1179987192153931, -1.5432460308074951],
        [-1.1992359796839098, -1.6553816774401338, -0.1732713422597198, -1.2343371615164807],
    ],
    MRG: [
        [0.91059261560440063, 0.55280178785324097, 0.67035454511642456, 0.7591744065284729],
        [0.91059261940276659, 0.55280178821076964, 0.67035451952929026, 0.75917440272575487],
        [-0.14096900820732117, -0.4092029333114624, -0.89288413524627686, 0.051527261734008789],
        [-0.14096894190973822, -0.40920298147752537, -0.89288415943755439, 0.051526921621591407],
    ],
    XORWOW: [
        [0.28700494766235352, 0.54257369041442871, 0.45299479365348816, 0.79749053716659546],
        [0.54257355392587225, 0.79749039740612493, 0.81396631840840894, 0.15511932473004469],
        [-0.41763463616371155, -1.5238415002822876, -1.2028597593307495, 0.3699696958065033],
        [-1.0569656106134866, 0.32509527365015983, 0.53093932995781146, 0.36024437723386421],
    ],
}
KINDS = pytest.mark.parametrize("generator", [PHILOX, MRG, XORWOW])


def draws(generator: str) -> Any:
    @T.prim_func
    def main(S: T.Tensor((3, 3), "uint64"), O: T.Tensor((3, 6), "uint32")):
        with T.Kernel(1, threads=3):
            tx = T.get_thread_binding()
            T.rng_init(S[tx, 0], S[tx, 1], S[tx, 2], generator=generator)
            for i in T.serial(6):
                O[tx, i] = T.rng_rand()

    return main


@everywhere
@KINDS
def test_draws(where: str, generator: str) -> None:
    out = np.zeros((3, 6), np.uint32)
    run(where, draws(generator), np.array(STARTS, np.uint64), out)
    assert out.tolist() == DRAWS[generator]


def float_kernel(generator: str, bit: int, dist: str) -> Any:
    @T.prim_func
    def main(O: T.Tensor((4,), f"float{bit}")):
        with T.Kernel(1, threads=1):
            T.rng_init(7, 3, 0, generator)
            for i in T.serial(4):
                O[i] = T.rng_rand_float(bit, dist)

    return main


FORMS = [(32, "uniform"), (64, "uniform"), (32, "normal"), (64, "normal")]


@everywhere
@KINDS
def test_floats(where: str, generator: str) -> None:
    for (bit, dist), want in zip(FORMS, FLOATS[generator], strict=True):
        out = np.zeros(4, f"float{bit}")
        run(where, float_kernel(generator, bit, dist), out)
        if dist == "uniform":
            assert out.tolist() == want
        else:
            np.testing.assert_allclose(out, want, rtol=2e-6 if bit == 32 else 1e-14)


@everywhere
def test_each_thread_has_its_sequence(where: str) -> None:
    """By default that of its index in the grid."""

    @T.prim_func
    def main(O: T.Tensor((2, 3, 64, 2), "uint32"), W: T.Tensor((2, 3, 64, 2), "uint32")):
        with T.Kernel(3, 2, threads=(16, 4)) as (bx, by):
            tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
            T.rng_init(5)
            for i in T.serial(2):
                O[by, bx, ty * 16 + tx, i] = T.rng_rand()
            T.rng_init(5, (by * 3 + bx) * 64 + ty * 16 + tx)
            for i in T.serial(2):
                W[by, bx, ty * 16 + tx, i] = T.rng_rand()

    out, want = (np.zeros((2, 3, 64, 2), np.uint32) for _ in range(2))
    run(where, main, out, want)
    np.testing.assert_array_equal(out, want)
    assert len(set(out.flat)) == out.size


@everywhere
def test_one_thread_may_draw_in_a_parallel_loop(where: str) -> None:
    @T.prim_func
    def main(O: T.Tensor((4, 8), "uint32")):
        with T.Kernel(4, threads=1) as bx:
            T.rng_init(42, 0, bx * 8)
            for i in T.Parallel(8):
                O[bx, i] = T.rng_rand()

    out = np.zeros((4, 8), np.uint32)
    run(where, main, out)
    assert out[0, :6].tolist() == DRAWS[PHILOX][0]
    assert len(set(out.flat)) == 32


def test_uniform_numbers_are_uniform() -> None:
    @T.prim_func
    def main(O: T.Tensor((2, 64, 1000), "float32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            T.rng_init(1)
            for i in T.serial(1000):
                O[0, tx, i] = T.rng_rand_float()
                O[1, tx, i] = T.rng_rand_float(dist="normal")

    out = np.zeros((2, 64, 1000), np.float32)
    run("llvm", main, out)
    uniform, normal = out.reshape(2, -1)
    assert uniform.min() > 0
    assert uniform.max() <= 1
    assert abs(uniform.mean() - 0.5) < 0.005
    assert abs(np.histogram(uniform, 10, (0, 1))[0] / 6400 - 1).max() < 0.05
    assert abs(normal.mean()) < 0.02
    assert abs(normal.std() - 1) < 0.02
    assert abs(np.corrcoef(out[0])[np.triu_indices(64, 1)]).max() < 0.2


def test_jumps() -> None:
    """A jump is the power that it says: once more by another way."""
    for which, m in enumerate(MRG_MODULI):
        eighth, fourth = mrg_matrix(which, 3), np.array(mrg_matrix(which, 2), object)
        assert (fourth.dot(fourth) % m).tolist() == [list(row) for row in eighth]
    p = xorwow_polynomial()
    assert p.bit_length() == 161
    assert xorwow_jump(7) == 1 << 128
    assert xorwow_jump(160) == 2  # all of GF(2**160): x**(2**160) is x


def test_cuda_compiles_them() -> None:
    for generator in DRAWS:
        compiles(draws(generator))
        compiles(float_kernel(generator, 64, "normal"))
        compiles(float_kernel(generator, 32, "uniform"))


def test_refusals() -> None:
    def refused(body: str, kind: type[Exception], text: str, threads: int = 32) -> None:
        with pytest.raises(kind, match=text):

            @T.prim_func
            def main(A: T.Tensor((32,), "uint32")):
                with T.Kernel(1, threads=threads):
                    exec(body, {"T": T, "A": A})
                    for i in T.Parallel(32):
                        A[i] = T.rng_rand()

    refused("", LanguageError, r"before T\.rng_init")
    refused("T.rng_init(1)", LanguageError, r"inside T\.Parallel")
    refused("T.rng_init(1, generator='mt19937')", OptionError, "unknown generator")
    refused("T.rng_init(1)\nT.rng_rand_float(16)", OptionError, "bit=16")
