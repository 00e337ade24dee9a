# SPDX-License-Identifier: Apache-2.0
"""Generated kernels in the simulator, with all checks, against numpy: tiles, threads, layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.engine.lower import lower
from tilelang.sim import build, run_program
from tilelang.testing import kernels


def run(func: Any, arch: str, *arrays: Any, traffic: bool = False) -> str:
    """Runs on the arrays in place; the generated text."""
    artifact = lower(func, f"cuda-sim -arch={arch}")
    program = artifact.host_mod[func.name]
    run_program(program, build(artifact.kernel_source, program.launches), arrays)
    return artifact.kernel_source


def matmul(
    arch: str, shape: Any, tile: Any, stages: int, threads: int, trans: Any, dtype: str
) -> str:
    (m, n, k), (bm, bn, bk), (ta, tb) = shape, tile, trans
    func = kernels.matmul(m, n, k, bm, bn, bk, stages, dtype, "float32", "float32", threads, ta, tb)
    rng = np.random.default_rng(0)
    element = func.params[0].dtype.as_numpy()
    a, b = (rng.integers(-3, 4, s).astype(element) for s in ((m, k), (k, n)))
    c = np.full((m, n), np.nan, np.float32)
    text = run(
        func, arch, *(np.ascontiguousarray(x.T if t else x) for x, t in ((a, ta), (b, tb))), c
    )
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    return text


@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_matmul_on_ampere(trans: Any, dtype: str) -> None:
    text = matmul("sm_80", (70, 88, 72), (64, 32, 32), 3, 128, trans, dtype)
    assert ("tl::mma_" in text) == (dtype != "float32")


HOPPER = [
    ((128, 256, 128), (128, 128, 64), 3, 256, (False, False)),
    ((128, 256, 128), (64, 128, 64), 2, 128, (True, False)),
    ((200, 72, 96), (128, 64, 32), 2, 256, (False, True)),
    ((64, 256, 64), (64, 64, 32), 2, 256, (False, False)),  # two warpgroups would cut a box of B
    ((64, 192, 64), (64, 96, 32), 2, 256, (False, False)),
    ((64, 256, 64), (64, 128, 32), 2, 256, (False, False)),  # and here each has one
    ((72, 40, 200), (64, 32, 64), 3, 128, (True, True)),
]


@pytest.mark.parametrize(("shape", "tile", "stages", "threads", "trans"), HOPPER)
def test_matmul_on_hopper(shape: Any, tile: Any, stages: int, threads: int, trans: Any) -> None:
    matmul("sm_90a", shape, tile, stages, threads, trans, "float16")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "name", ["transpose", "histogram", "control_flow", "reductions", "two_gemms"]
)
def test_kernels_of_the_zoo(name: str, arch: str) -> None:
    """No false alarms, and the oracle's results."""
    from tilelang.interp import tile
    from tilelang.testing.compare import assert_close, random_inputs

    func = kernels.ZOO[name]()
    inputs = random_inputs(func, [p.static_shape for p in func.params])  # type: ignore[union-attr,misc]
    got, want = [x.copy() for x in inputs], [x.copy() for x in inputs]
    run(func, arch, *got)
    tile.run(func, *want)
    for n, (x, y) in enumerate(zip(got, want, strict=True)):
        assert_close(x, y, 1e-2, 1e-2, f"{name}, argument {n}")


def test_negative_strides() -> None:
    """What a kernel may touch lies on both sides of the first element."""
    s, t = T.dynamic("s, t", "int64")

    @T.prim_func
    def main(A: T.StridedTensor((4, 8), (s, t), "float32"), B: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 8):
                B[i, j] = A[i, j]

    a = np.arange(64, dtype=np.float32).reshape(4, 16)
    kernel = tilelang.compile(main, target="cuda-sim -arch=sm_80")
    for view in (a[::-1, ::-2], a[::-1, 4:12], a[:, 15:7:-1]):
        b = np.zeros((4, 8), np.float32)
        kernel(view, b)
        np.testing.assert_array_equal(b, view)
