# SPDX-License-Identifier: Apache-2.0
"""Mistakes that Python or the kernel would pass over in silence, and those that Python reports.

Each case is the body of a kernel over `A: (16,) float32` and `n: int32`; its last line is the one
that the error must name.
"""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import (
    ArgumentTypeError,
    BoundsError,
    LanguageError,
    OptionError,
    TargetError,
    TileError,
    TypeMismatchError,
)
from tilelang.language import remember_source

HEAD = """
import numpy as np
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((16,), "float32"), n: T.int32):
    with T.Kernel(1, threads=32):
"""
INT8 = "s = T.alloc_shared((4,), 'int8')\n"
VALUES = {
    "float_index": ("A[2.7] = 1.0", TypeMismatchError, "must be an integer, got 2.7"),
    "float_index_read": ("A[0] = A[A[1]]", TypeMismatchError, "an index of buffer A"),
    "float_slice": ("T.fill(A[0:1.5], 0)", TypeMismatchError, "must be an integer"),
    "text_index": ("A['a'] = 1.0", TypeMismatchError, "must be an integer, got 'a'"),
    "outside": ("A[20] = 1", BoundsError, "index 20 in dimension 0 of extent 16"),
    "outside_below": ("A[-17] = 1", BoundsError, "index -1 in dimension 0"),
    "outside_in_loop": ("for i in T.serial(n):\n    A[16] += i", BoundsError, "index 16"),
    "fill_range": (INT8 + "T.fill(s, 300)", TypeMismatchError, "300 does not fit int8"),
    "store_range": ("x = T.alloc_var('int32')\nx = 2**40", TypeMismatchError, "does not fit int32"),
    "huge": ("A[0] = 2**2000", TypeMismatchError, "too large"),
    "fill_text": ("T.fill(A, 'a')", TypeMismatchError, "is the text 'a'"),
    "atomic_text": ("T.atomic_add(A[0], 'a')", TypeMismatchError, "is the text 'a'"),
    "invert": ("A[0] = ~A[1]", TypeMismatchError, "`~` needs an integer"),
    "bitwise_not": ("A[0] = T.bitwise_not(A[1])", TypeMismatchError, "bitwise_not of a float32"),
}


PYTHON = {
    "zip": ("for i, j in zip(T.serial(4), range(4)): A[i] = j", TypeError, "`for` statement"),
    "enumerate": ("for j, i in enumerate(T.serial(4)): A[i] = j", TypeError, "`for` statement"),
    "comprehension": ("x = [A[i] for i in T.serial(4)]", TypeError, "`for` statement"),
    "nested_store": ("def g(x):\n    A[0] = x\ng(1.0)", TypeError, "@T.macro"),
    "nested_loop": ("def g(x):\n    for i in T.serial(4): A[i] = x\ng(1)", TypeError, "@T.macro"),
    "len": ("A[0] = len(A)", TypeError, "A.shape[0]"),
    "call": ("A[0] = A(1)", TypeError, "A[i]"),
    "matmul": ("A[0] = A[1] @ A[2]", TypeError, "T.gemm"),
    "numpy": ("A[0] = np.sin(A[1])", TypeError, "T.sin"),
    "numpy_index": ("v = np.arange(4)\nA[0] = v[n]", IndexError, "as a tensor"),
    "undefined": ("A[0] = zz", NameError, "name 'zz' is not defined"),
    "rebound_module": ("A[0] = T.min(1, 2) + y; y = 1", UnboundLocalError, "assign it first"),
    "raise": ("raise ValueError('no such size')", ValueError, "no such size"),
    "zero": ("A[1 // 0] = 1", ZeroDivisionError, "by zero"),
    "del": ("del A[0]", LanguageError, "store a value instead"),
    "attribute": ("A.foo = 1", LanguageError, "attribute `foo`"),
    "too_few": ("T.copy(A)", TypeMismatchError, "missing 1 required"),
    "too_few_scalars": ("A[0] = T.pow(A[1])", TypeMismatchError, "missing 1 required"),
    "barrier": ("T.sync_threads('a')", TypeMismatchError, "barrier_id must be an integer"),
}


def refused(body: str, error: type[Exception], text: str) -> TileError:
    program = HEAD + "".join(f"        {line}\n" for line in body.split("\n"))
    remember_source(program, "user.py")
    with pytest.raises(error) as caught:
        exec(compile(program, "user.py", "exec"), {"__name__": "user"})
    found = caught.value
    assert isinstance(found, TileError)
    assert found.span is not None
    lines = [s.line for s in (found.span, *found.span.callers())]
    assert len(program.rstrip().split("\n")) in lines or "@T.macro" in text, str(found)
    assert text in str(found)
    assert found.help
    return found


@pytest.mark.parametrize("case", VALUES)
def test_values(case: str) -> None:
    refused(*VALUES[case])


@pytest.mark.parametrize("case", PYTHON)
def test_errors_of_python(case: str) -> None:
    error = refused(*PYTHON[case])
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (type(error), str(error))


def test_errors_of_a_class_of_the_user() -> None:
    class NoDefault(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(f"{a} and {b}")

    def fail() -> None:
        raise NoDefault(1, 2)

    with pytest.raises(LanguageError, match="NoDefault: 1 and 2") as caught:

        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                fail()

    assert isinstance(caught.value, NoDefault)
    assert isinstance(caught.value.__cause__, NoDefault)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_named_barriers_on_a_cpu() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            T.named_barrier_arrive(1, 32)

    with pytest.raises(TargetError, match="named_barrier_arrive") as caught:
        tilelang.compile(main, target="llvm")
    assert caught.value.span is not None


@pytest.mark.parametrize(
    ("launch", "text"),
    [
        ("-1", "must not be negative, got -1"),
        ("1, threads=1.5", "threads must be an int"),
        ("1, threads='a'", "threads must be an int"),
    ],
)
def test_launches(launch: str, text: str) -> None:
    program = HEAD.replace("1, threads=32", launch) + "        A[0] = 1"
    remember_source(program, "user.py")
    with pytest.raises(OptionError, match=text):
        exec(compile(program, "user.py", "exec"), {"__name__": "user"})


def test_patterns_of_bits_and_stores_that_may_not_run() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "uint8"), B: T.Tensor((4,), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            T.fill(A, -1)
            B[-1] = 0x80000000
            if n > 4:
                B[4] = 1
            B[n] = 7

    a, b = np.zeros(4, np.uint8), np.zeros(4, np.int32)
    tilelang.compile(main, target="llvm")(a, b, 2)
    assert a.tolist() == [255] * 4
    assert b.tolist() == [0, 0, 7, -(2**31)]


def test_async() -> None:
    with pytest.raises(LanguageError, match="`async def` is not part of the kernel language"):

        @T.prim_func
        async def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1, threads=32):
                A[0] = 1


def test_too_few_arguments_of_an_eager_call() -> None:
    @tilelang.jit(target="llvm")
    def add(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    with pytest.raises(ArgumentTypeError, match="`add` needs the argument `B`"):
        add(np.zeros(4, np.float32))
