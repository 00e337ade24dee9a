# SPDX-License-Identifier: Apache-2.0
"""The Python functions generated for torch tensors and for numpy arrays: when they run, and what
they do not let in."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.runtime.python_launch import PythonLauncher

torch = pytest.importorskip("torch")


def kernel() -> Any:
    m, n = T.dynamic("m n")

    @T.prim_func
    def main(
        A: T.Tensor((m, n), "float32"),
        B: T.Tensor((n, 4), "float32"),
        k: T.int8,
        C: T.Tensor((m, T.ceildiv(n, 2)), "float32"),
    ):
        with T.Kernel(T.ceildiv(m, 2)) as bx:
            for i, j in T.Parallel(2, T.ceildiv(n, 2)):
                C[bx * 2 + i, j] = A[bx * 2 + i, j] + B[j, 0] * k

    return tilelang.compile(main, target="llvm", execution_backend="ctypes")


def tensors(m: int = 5, n: int = 6) -> tuple[Any, ...]:
    return torch.rand(m, n), torch.rand(n, 4), 3, torch.empty(m, (n + 1) // 2)


@pytest.mark.parametrize("of", [torch.from_numpy, np.asarray], ids=["torch", "numpy"])
def test_the_second_call_is_quick(of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    run = kernel()
    a, b, k, c = (x.numpy() if hasattr(x, "numpy") else x for x in tensors())
    run(of(a), of(b), k, of(c))
    monkeypatch.setattr(PythonLauncher, "launch", lambda *a: pytest.fail("the slow way"))
    for m, n in ((5, 6), (7, 3), (1, 1)):
        a, b, k, c = (x.numpy() if hasattr(x, "numpy") else x for x in tensors(m, n))
        run(of(a), of(b), k, C=of(c))
        h = (n + 1) // 2
        np.testing.assert_allclose(c, a[:, :h] + b[:h, 0] * k, rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda v: [v[0].astype("f8"), *v[1:]], "expected dtype float32, got float64"),
        (lambda v: [v[0][0], *v[1:]], "expected 2 dimensions, got 1"),
        (lambda v: [v[0][:, ::2], *v[1:]], r"A: stride\[1\]: expected 1, got 2"),
        (lambda v: [*v[:3], v[3][:, :1].copy()], r"C: shape\[1\]: expected 3"),
        (lambda v: [*v[:2], 128, v[3]], "expected a value of int8"),
        (lambda v: [*v[:3], read_only(v[3])], "C is written by the kernel, but the array is read-"),
        (lambda v: [v[0].astype(">f4"), *v[1:]], "this machine's byte order"),
        (lambda v: [*v[:3], None], "parameter C: expected a tensor, got None"),
    ],
)
def test_no_wrong_array_gets_in(change: Any, text: str) -> None:
    run = kernel()
    values = [x.numpy() if hasattr(x, "numpy") else x for x in tensors()]
    run(*values)
    with pytest.raises((TypeError, ValueError), match=text):
        run(*change(values))


def read_only(x: Any) -> Any:
    x.flags.writeable = False
    return x


def test_arrays_of_other_packages_dtypes() -> None:
    """ml_dtypes are dtypes of numpy like its own."""

    @T.prim_func
    def main(A: T.Tensor((4,), "bfloat16"), B: T.Tensor((4,), "bfloat16")):
        with T.Kernel(1):
            for i in T.Parallel(4):
                B[i] = A[i] + A[i]

    run = tilelang.compile(main, out_idx=-1, target="llvm", execution_backend="ctypes")
    a = np.arange(4).astype(ml_dtypes.bfloat16)
    for _ in range(3):
        out = run(a)
        assert out.dtype == a.dtype
        np.testing.assert_array_equal(out.astype("f4"), [0, 2, 4, 6])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda v: v[:2], "expected 4 arguments"),
        (lambda v: [v[0].double(), *v[1:]], "expected dtype float32, got float64"),
        (lambda v: [v[0][0], *v[1:]], "expected 2 dimensions, got 1"),
        (lambda v: [v[0].T, *v[1:]], "A|B"),
        (lambda v: [v[0][:, ::2], *v[1:]], r"A: stride\[1\]: expected 1, got 2"),
        (lambda v: [*v[:3], v[3][:, :1]], r"C: shape\[1\]: expected 3"),
        (lambda v: [*v[:2], 128, v[3]], "expected a value of int8"),
        (lambda v: [*v[:2], 1.0, v[3]], "parameter k: expected an int"),
        (lambda v: [v[0].to("meta"), *v[1:]], "A"),
        (lambda v: [torch.rand(6, 5).T, *v[1:]], "B: shape|not contiguous"),
    ],
)
def test_nothing_wrong_gets_in(change: Any, text: str) -> None:
    run = kernel()
    values = tensors()
    run(*values)
    with pytest.raises((TypeError, ValueError), match=text):
        run(*change(list(values)))
    run(*values)


def test_numpy_after_torch() -> None:
    run = kernel()
    run(*tensors())
    a, b, k, c = (x.numpy() if hasattr(x, "numpy") else x for x in tensors())
    run(a, b, k, c)
    np.testing.assert_allclose(c, a[:, :3] + b[:3, 0] * k, rtol=1e-6)


def test_parameters_and_bools() -> None:
    run = kernel()
    run(*tensors())
    a, b, _, c = tensors()
    run(torch.nn.Parameter(a), b, True, c)
    torch.testing.assert_close(c, a[:, :3] + b[:3, 0])


def test_programs_that_are_too_hard_stay_right() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.StridedTensor((n, 2), (4, 1), "float32"), s: T.float16):
        with T.Kernel(n) as bx:
            for i in T.Parallel(2):
                A[bx, i] = s

    run = tilelang.compile(main, target="llvm", execution_backend="ctypes")
    x = torch.zeros(3, 4)
    for _ in range(2):
        run(x[:, :2], 1.5)
    assert (x[:, :2] == 1.5).all()
    assert (x[:, 2:] == 0).all()
