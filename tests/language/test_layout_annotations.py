# SPDX-License-Identifier: Apache-2.0
"""`T.annotate_layout` with every form of layout: kept, obeyed, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import LayoutError
from tilelang.ir import PrimFunc
from tilelang.layout import Fragment, Layout, LayoutTable, make_swizzled, make_swizzled_layout

FORMS: dict[str, Any] = {
    "none": lambda S, F: {},
    "function": lambda S, F: {S: lambda i, j: (i, j ^ ((i % 4) * 8))},
    "address": lambda S, F: {S: lambda i, j: i * 40 + j},
    "layout": lambda S, F: {S: T.Layout((32, 32), lambda i, j: (j, i))},
    "named": lambda S, F: {S: make_swizzled_layout(S)},
    "table": lambda S, F: {S: T.Layout((32, 32), lambda i, j: (i * 5 % 32, (j * 7 + i) % 32))},
    "fragment": lambda S, F: {
        F: T.Fragment((32, 32), forward_fn=lambda i, j: (i * 2 + j // 16, j % 16))
    },
    "thread": lambda S, F: {
        F: T.Fragment((32, 32), forward_thread_fn=lambda i, j: i * 2 + j // 16)
    },
    "fragment_function": lambda S, F: {F: lambda i, j: (j * 2 + i // 16, i % 16)},
    "fragment_table": lambda S, F: {F: lambda i, j: (i * 2 + (j + i) % 2, j // 2)},
    "wrong_shape": lambda S, F: {S: T.Layout((16, 32), lambda i, j: i * 32 + j)},
    "wrong_kind": lambda S, F: {F: T.Layout((32, 32), lambda i, j: i * 32 + j)},
    "not_one_to_one": lambda S, F: {S: lambda i, j: i + j},
}


def copies(form: str) -> PrimFunc:
    @T.prim_func
    def copies(A: T.Tensor((32, 32), "float16"), B: T.Tensor((32, 32), "float16")):
        with T.Kernel(1, threads=64):
            S = T.alloc_shared((32, 32), "float16")
            F = T.alloc_fragment((32, 32), "float16")
            T.annotate_layout(FORMS[form](S, F))
            T.copy(A, S)
            T.copy(S, F)
            for i, j in T.Parallel(32, 32):
                F[i, j] = F[i, j] + 1
            T.copy(F, B)

    return copies


def kept(form: str) -> Any:
    (layout,) = copies(form).body.annotations["layouts"].values()  # type: ignore[attr-defined]
    return layout


def test_what_is_kept() -> None:
    assert isinstance(kept("function"), Layout)
    assert isinstance(kept("table"), LayoutTable)
    assert isinstance(kept("fragment"), Fragment)
    assert kept("fragment") == kept("thread")
    assert kept("named") == make_swizzled((32, 32), 16)


@pytest.mark.parametrize("form", ["function", "table", "fragment_function"])
def test_obeyed_on_the_simulated_gpu(form: str) -> None:
    a = (np.arange(1024).reshape(32, 32) % 100).astype(np.float16)
    b = np.zeros_like(a)
    tilelang.compile(copies(form), target="cuda-sim -arch=sm_80")(a, b)
    np.testing.assert_array_equal(b, a + 1)


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("wrong_shape", "the layout is for [16, 32], `S` has the shape [32, 32]"),
        ("wrong_kind", "its layout is a T.Fragment"),
        ("not_one_to_one", "elements (0, 1) and (1, 0) have the same address"),
    ],
)
def test_refused(form: str, text: str) -> None:
    with pytest.raises(LayoutError) as caught:
        copies(form)
    assert text in str(caught.value)
    assert caught.value.span is not None


def test_a_fragment_that_is_no_digits_is_refused_where_it_matters() -> None:
    func = copies("fragment_table")
    with pytest.raises(LayoutError, match="`F` is not supported"):
        tilelang.compile(func, target="cuda-sim -arch=sm_80")
