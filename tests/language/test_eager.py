# SPDX-License-Identifier: Apache-2.0
"""Eager functions: which arguments are what, where T.const sizes come from, outputs, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import ArgumentTypeError, ArgumentValueError, LanguageError
from tilelang.interp import tile
from tilelang.language.entry import ConstMatcher, EagerFunction, detect_mode

N_GLOBAL = 4


def scaled(A, B, s, block=32, dtype=T.float32):
    M, N = T.const("M N")
    K = T.const("K")
    A: T.Tensor((M, N), dtype)
    B: T.StridedTensor[(M, N), (K, 1), dtype]
    s: T.float32
    C = T.empty((M, N), dtype)
    D = T.empty(M, N, dtype="int32")
    with T.Kernel(T.ceildiv(N, block), M, threads=32) as (bx, by):
        if N > 64:
            T.device_assert(bx >= 0)
        for i in T.Parallel(block):
            C[by, bx * block + i] = A[by, bx * block + i] * s + B[by, bx * block + i]
            D[by, bx * block + i] = N // 2
    return D, C


def in_signature(A: T.Tensor((8,), "float32"), n: T.int32, p: T.ptr, block: int = 8, scale=2.0):
    with T.Kernel(1, threads=1):
        for i in T.serial(block):
            A[i] = A[i] * scale + n


def test_split() -> None:
    f = EagerFunction(scaled)
    assert f.runtime_names == ("A", "B", "s")
    a, b = np.zeros((2, 3)), np.zeros((2, 3))
    compile_time, runtime, extra = f.split((a, b), {"s": 2.0, "block": 16, "M": 2})
    assert compile_time == {"block": 16, "dtype": "float32"}
    assert runtime[0] is a
    assert runtime[1] is b
    assert runtime[2] == 2.0
    assert extra == {"M": 2}
    assert f.split((), {})[1] == [None, None, None]
    assert EagerFunction(in_signature).runtime_names == ("A", "n", "p")


def test_plan_and_values() -> None:
    f = EagerFunction(scaled)
    plan = f.plan({"block": 32, "dtype": "float32"})
    assert plan.names == ("M", "N", "K")
    assert plan.matchers["M"] == (
        ConstMatcher("A", 0, "shape", 0),
        ConstMatcher("B", 1, "shape", 0),
    )
    assert plan.matchers["K"] == (ConstMatcher("B", 1, "stride", 0),)
    wide = np.zeros((4, 200), np.float32)[:, :100]
    assert plan.values([np.zeros((4, 100)), wide, 1.0], {}) == {"M": 4, "N": 100, "K": 200}
    assert plan.values([None, wide, None], {"M": 3}) == {"M": 3, "N": 100, "K": 200}
    with pytest.raises(ArgumentValueError, match="`M=<value>`, or pass the tensor `A`"):
        plan.values([None, None, None], {})


def test_trace_and_run() -> None:
    f = EagerFunction(scaled)
    func = f.trace({"block": 32, "dtype": "float32"}, {"M": 4, "N": 100, "K": 200})
    assert [p.name for p in func.params] == ["A", "B", "s", "C", "D"]
    assert func.outputs == (4, 3)
    a = np.arange(400, dtype=np.float32).reshape(4, 100)
    b = np.ones((4, 200), np.float32)[:, ::2][:, :100]
    b = np.ones((4, 200), np.float32)[:, :100]
    d, c = tile.run(func, a, b, 2.0)
    np.testing.assert_array_equal(c, a * 2 + 1)
    assert (d == 50).all()
    assert "assert" in func.script()
    small = f.trace({"block": 32, "dtype": "float32"}, {"M": 4, "N": 10, "K": 200})
    assert "assert" not in small.script()


def test_in_signature() -> None:
    func = EagerFunction(in_signature).trace({"block": 4, "scale": 2.0})
    assert [str(getattr(p, "dtype", "")) for p in func.params] == ["float32", "int32", "handle"]
    assert func.outputs == ()


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((1,) * 6, {}, "too many positional arguments"),
        ((1,), {"A": 2}, "argument `A` twice"),
    ],
)
def test_wrong_calls(args: tuple[Any, ...], kwargs: dict[str, Any], text: str) -> None:
    with pytest.raises(ArgumentTypeError, match=text):
        EagerFunction(scaled).split(args, kwargs)


def test_unknown_keywords_are_refused_with_the_nearest_name() -> None:
    f = EagerFunction(scaled)
    plan = f.plan({"block": 32, "dtype": "float32"})
    with pytest.raises(ArgumentTypeError, match=r"did you mean 'block'\?"):
        f.check_keywords(plan, {"blok": 3})
    f.check_keywords(plan, {"M": 3})


def test_missing_compile_time_argument() -> None:
    def f(A: T.Tensor((8,), "float32"), block):
        with T.Kernel(1):
            T.clear(A)

    with pytest.raises(ArgumentTypeError, match="needs the compile-time argument `block`"):
        EagerFunction(f).split((1,), {})


def test_bare_tensor_takes_shape_and_dtype_from_the_argument() -> None:
    def f(A: T.Tensor, B: T.Tensor):
        with T.Kernel(1, threads=1):
            for i in T.serial(A.shape[0]):
                B[i] = A[i]

    e = EagerFunction(f)
    assert e.bare_names == ("A", "B")
    a, b = np.zeros(5, np.float16), np.zeros(5, np.float32)
    func = e.trace({}, {}, {"A": a, "B": b})
    assert "A: T.Tensor((5,), 'float16')" in func.script()


def lazy(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            T.clear(A)

    return main


def calls_a_factory(n):
    return lazy(n)


def only_annotated(A):
    A: T.Tensor((4,), "float32")
    for i in T.serial(4):
        A[i] = i


@pytest.mark.parametrize(
    ("fn", "mode"),
    [
        (scaled, "eager"), (in_signature, "eager"), (only_annotated, "eager"), (lazy, "lazy"),
        (calls_a_factory, "lazy"),
    ],
)  # fmt: skip
def test_mode(fn: Any, mode: str) -> None:
    assert detect_mode(fn) == mode


def not_returned():
    C = T.empty((4,), "float32")
    with T.Kernel(1):
        T.clear(C)


def returned_input(A):
    A: T.Tensor((4,), "float32")
    with T.Kernel(1):
        T.clear(A)
    return A


def unbound_const(A):
    N = T.const("N")
    A: T.Tensor((N * 2,), "float32")
    with T.Kernel(1):
        T.clear(A)


def unknown_size(A):
    m = T.dynamic("m")
    A: T.Tensor((4,), "float32")
    with T.Kernel(m):
        T.clear(A)


@pytest.mark.parametrize(
    ("fn", "text"),
    [
        (not_returned, "`C` was made by T.empty but is not returned"),
        (returned_input, "only tensors made by T.empty can be returned"),
        (unbound_const, "T.const `N` is not a dimension"),
        (unknown_size, "`m` is used where it does not exist"),
    ],
)
def test_refused(fn: Any, text: str) -> None:
    e = EagerFunction(fn)
    with pytest.raises(LanguageError, match=text) as caught:
        e.trace({}, e.plan({}).values([None], {}))
    assert caught.value.help
    assert caught.value.span is not None


def test_phase_one_does_not_need_the_body() -> None:
    def f(A, steps=2):
        N = T.const("N")
        A: T.Tensor((N,), "float32")
        table = [0] * N  # needs a number: only phase 2 has one
        with T.Kernel(1, threads=1):
            for i in T.serial(len(table)):
                A[i] = steps

    e = EagerFunction(f)
    assert e.plan({"steps": 2}).names == ("N",)
    a = np.zeros(6, np.float32)
    tile.run(e.trace({"steps": 2}, {"N": 6}), a)
    assert (a == 2).all()


def test_globals_and_methods_of_the_session_do_not_leak() -> None:
    first = EagerFunction(only_annotated).trace({})
    second = EagerFunction(only_annotated).trace({})
    assert first.params[0] is not second.params[0]
    assert first.script() == second.script()
    assert N_GLOBAL == 4


def test_positional_only_parameters_are_passed_by_position() -> None:
    def f(A: T.Tensor((8,), "float32"), s, /, *rest, t=1, **named):
        with T.Kernel(1, threads=1):
            for i in T.serial(8):
                A[i] = s + t + len(rest) + len(named)

    e = EagerFunction(f)
    assert e.split((None, 2), {"t": 3, "N": 4}) == ({"s": 2, "t": 3}, [None], {"N": 4})
    a = np.zeros(8, np.float32)
    tile.run(e.trace({"s": 2, "t": 3}), a)
    assert (a == 5).all()
    with pytest.raises(ArgumentTypeError, match="expected at most 3, got 4"):
        e.split((None, 2, 3, 4), {})
