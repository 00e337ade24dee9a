# SPDX-License-Identifier: Apache-2.0
"""Arguments that are no plain numbers in memory are refused by name, whatever the target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentTypeError, ArgumentValueError, TileError

TARGETS = ("llvm", "c", "cuda-sim -arch=sm_80")
N = 8
A = np.arange(N, dtype=np.float32)
RECORDS = np.zeros(N, [("tag", "i1"), ("x", "f4")])


@T.prim_func
def scale(X: T.Tensor((N,), "float32"), n: T.int32, f: T.float32, Y: T.Tensor((N,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(N):
            Y[i] = X[i] * n + f


def eager(target: str) -> Any:
    @tilelang.jit(target=target)
    def add(X, Z, block=N):
        M = T.const("M")
        X: T.Tensor[(M,), T.float32]
        Z: T.Tensor[(M,), T.float32]
        Y = T.empty((M,), "float32")
        with T.Kernel(T.ceildiv(M, block), threads=32) as bx:
            for i in T.Parallel(block):
                Y[bx * block + i] = X[bx * block + i] + Z[bx * block + i]
        return Y

    return add


@pytest.mark.parametrize("target", TARGETS)
def test_tensors(target: str) -> None:
    cases: list[tuple[Any, str]] = [
        (A.astype(">f4"), "this machine's byte order"),
        (RECORDS, "numbers, got records"),
        (RECORDS["x"], "strides of whole elements"),
        (torch.from_numpy(A).to_sparse(), "dense memory"),
        (np.zeros(N, "V4"), "expected dtype float32"),
    ]
    kernel, add = tilelang.compile(scale, target=target), eager(target)
    for x, text in cases:
        with pytest.raises(ArgumentTypeError, match="parameter X: .*" + text):
            kernel(x, 1, 1.0, np.zeros_like(A))
        with pytest.raises(ArgumentTypeError, match="parameter X: .*" + text):
            add(x, A)


@pytest.mark.parametrize("target", TARGETS)
def test_scalars(target: str) -> None:
    kernel, y = tilelang.compile(scale, target=target), np.zeros_like(A)
    for n in (2**40, 2**63, 2**100, -(2**100)):
        with pytest.raises(ArgumentValueError, match=rf"parameter n: expected a value .*{n}"):
            kernel(A, n, 1.0, y)
    for n in (1.5, None, "x", A):
        with pytest.raises(ArgumentTypeError, match="parameter n: expected an int"):
            kernel(A, n, 1.0, y)
    for f in (10**400, None, "x", A):
        with pytest.raises(ArgumentTypeError, match="parameter f: expected a float"):
            kernel(A, 1, f, y)
    kernel(A, 0, 2**100, y)
    assert (y == np.float32(2.0**100)).all()


@pytest.mark.parametrize("known", [False, True], ids=["first call", "later call"])
def test_eager_functions(known: bool) -> None:
    add = eager("llvm")
    if known:
        add(A, A)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: add(1.0, A), r"parameter X: expected a tensor whose shape\[0\] is `M`, got float"),
        (lambda: add([1.0], [2.0]), "got list"),
        (lambda: add(np.zeros((), "f4"), A), r"got one of shape \(\)"),
        (lambda: add(A, A, block=A), "`block` cannot be a ndarray"),
        (lambda: add(A, A, block=torch.ones(3)), "`block` cannot be a Tensor"),
        (lambda: add(A, A, block=[8]), "`block` cannot be a list"),
    ]
    for call, text in calls:
        with pytest.raises(TileError, match=text):
            call()
    np.testing.assert_array_equal(add(A, A, block=np.int64(N)), A + A)
