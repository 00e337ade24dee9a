# SPDX-License-Identifier: Apache-2.0
"""A copy of a function for one compilation alone; functions that go to another process."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

import tilelang.language as T
from tilelang import ir
from tilelang.ir import Alloc, Buffer, Launch, PrimFunc, Var, own_copy, walk
from tilelang.testing.alpha import difference
from tilelang.testing.kernels import ZOO


def buffers(func: PrimFunc) -> Iterator[Buffer]:
    """All that the function names."""
    yield from (p for p in func.params if isinstance(p, Buffer))
    for n in walk(func.body):
        for f in n.fields:
            v = getattr(n, f)
            held = (v, *v, *v.values()) if hasattr(v, "values") else (v,)
            yield from (b for b in held if isinstance(b, Buffer))


@pytest.mark.parametrize("name", list(ZOO))
def test_an_own_copy_shares_no_buffer(name: str) -> None:
    func = ZOO[name]()
    with ir.fresh_session():
        copy = own_copy(func)
    assert difference(func, copy) is None
    assert copy.script() == func.script()
    assert {id(b) for b in buffers(func)}.isdisjoint(id(b) for b in buffers(copy))
    variables = {n for n in walk(func.body) if type(n) is Var}
    assert variables == {n for n in walk(copy.body) if type(n) is Var}


def annotated() -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16, 32), "float32")
            T.annotate_layout({s: T.Layout((16, 32), lambda i, j: j * 16 + i)})
            v = T.reshape(s, (32, 16))
            T.copy(A, s)
            T.copy(v, T.reshape(A, (32, 16)))

    return main


def test_annotations_and_views_name_the_copies() -> None:
    func = annotated()
    with ir.fresh_session():
        copy = own_copy(func)
    allocated = {n.buffer for n in walk(copy.body) if type(n) is Alloc}
    (launch,) = (n for n in walk(copy.body) if type(n) is Launch)
    layouts: Any = launch.annotations["layouts"]
    assert set(layouts) <= allocated
    assert all(b.view_of is None or b.root() in {*allocated, *copy.params} for b in allocated)
    assert copy.script() == func.script()


def test_equal_expressions_become_one_in_a_session() -> None:
    func = ZOO["add"]()
    with ir.fresh_session():
        one, other = own_copy(func), own_copy(func)
    assert one.params[0].shape[0] is other.params[0].shape[0]


@pytest.mark.parametrize("name", list(ZOO))
def test_a_function_can_be_pickled(name: str) -> None:
    func = ZOO[name]()
    again = pickle.loads(pickle.dumps(func))
    assert difference(func, again) is None
    assert again.script() == func.script()
    assert again.span == func.span
