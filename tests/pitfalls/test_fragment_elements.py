# SPDX-License-Identifier: Apache-2.0
"""Single elements of fragments, outside of `T.Parallel`: whoever needs the value gets it, whichever
thread's register it is in."""

from __future__ import annotations

import numpy as np

import tilelang.language as T
from tests.pitfalls.support import ON, launch


@ON
def test_a_sum_that_every_thread_uses(t: str) -> None:
    @T.prim_func
    def main(X: T.Tensor((100,), "float32"), Y: T.Tensor((100,), "float32")):
        with T.Kernel(1, threads=96):
            x = T.alloc_fragment((100,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X, x)
            T.reduce_sum(x, total)
            mean = total[0] / 100
            for i in T.Parallel(100):
                Y[i] = x[i] - mean

    x = np.arange(100, dtype=np.float32)
    y = np.zeros_like(x)
    launch(main, t, x, y)
    assert (y == x - 49.5).all()


@ON
def test_one_element_of_many(t: str) -> None:
    """Bound to a name, kept in a variable, as a condition, as a bound of a loop."""

    @T.prim_func
    def main(X: T.Tensor((300,), "int32"), Y: T.Tensor((6, 300), "int32"), N: T.int32):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((300,), "int32")
            v = T.alloc_var("int32")
            T.copy(X, x)
            name = x[77]
            v = x[N]
            for i in T.Parallel(300):
                Y[0, i] = name
                Y[1, i] = v
            if x[5] > 4:
                for i in T.Parallel(300):
                    Y[2, i] = 1
            if x[200] > 200:
                for i in T.Parallel(300):
                    Y[3, i] = 1
            for j in range(x[2]):
                for i in T.Parallel(300):
                    Y[4, i] += 1 + j
            Y[5, x[9]] = x[8]

    x = np.arange(300, dtype=np.int32)
    y = np.zeros((6, 300), np.int32)
    launch(main, t, x, y, 291)
    assert (y[0] == 77).all()
    assert (y[1] == 291).all()
    assert (y[2] == 1).all()
    assert (y[3] == 0).all()
    assert (y[4] == 3).all()
    assert y[5, 9] == 8
    assert y[5].sum() == 8


@ON
def test_an_element_of_one_fragment_into_another(t: str) -> None:
    @T.prim_func
    def main(
        X: T.Tensor((256,), "int32"), Y: T.Tensor((256,), "int32"), O: T.Tensor((2,), "int32")
    ):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((256,), "int32")
            y = T.alloc_fragment((16, 16), "int32")
            last = T.alloc_fragment((1,), "int32")
            T.copy(X, x)
            T.clear(y)
            for i in range(16):
                y[i, 15 - i] = x[i * 3 + 1] + x[255 - i]
            x[3] = x[200]
            O[0] = x[3] * 1000 + x[100]
            T.reduce_max(x, last)
            O[1] = last[0]
            for i, j in T.Parallel(16, 16):
                Y[i * 16 + j] = y[i, j]

    x = np.arange(256, dtype=np.int32)
    y, o = np.full(256, -7, np.int32), np.full(2, -7, np.int32)
    launch(main, t, x, y, o)
    want = np.zeros((16, 16), np.int32)
    for i in range(16):
        want[i, 15 - i] = i * 3 + 1 + 255 - i
    assert (y.reshape(16, 16) == want).all()
    assert list(o) == [200100, 255]


@ON
def test_atomics_with_an_element(t: str) -> None:
    """Added once, not once for each thread; the place and the value in different registers."""

    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=128):
            x = T.alloc_fragment((64,), "int32")
            total = T.alloc_fragment((1,), "int32")
            T.copy(X, x)
            T.reduce_sum(x, total)
            T.atomic_add(C[0], total[0])
            T.atomic_add(C[x[7]], x[33])

    x = np.arange(64, dtype=np.int32)
    c = np.zeros(64, np.int32)
    launch(main, t, x, c)
    assert c[0] == 2 * x.sum()
    assert c[7] == 66
    assert c.sum() == c[0] + c[7]


@ON
def test_elements_that_all_threads_hold_decide(t: str) -> None:
    """A reduction's result as a condition and as bounds of loops whose bodies need barriers."""

    @T.prim_func
    def main(X: T.Tensor((300,), "int32"), O: T.Tensor((4, 300), "int32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((300,), "int32")
            top = T.alloc_fragment((1,), "int32")
            s = T.alloc_shared((300,), "int32")
            T.copy(X, x)
            T.reduce_max(x, top)
            assert top[0] > 0
            if top[0] > 5:
                T.copy(x, s)
                for i in T.Parallel(300):
                    O[0, i] = s[299 - i]
            n = top[0] - 296
            for k in range(n):
                for i in T.Parallel(300):
                    s[i] = i + k
                for i in T.Parallel(300):
                    O[1, i] = s[299 - i]
            for k in range(top[0] - 296):
                T.fill(s, k)
                T.copy(s, O[2, :])
            while top[0] > 290:
                for i in T.Parallel(300):
                    s[i] = i * top[0]
                for i in T.Parallel(300):
                    O[3, i] = s[299 - i]
                top[0] -= 1

    x, o = np.arange(300, dtype=np.int32), np.full((4, 300), -7, np.int32)
    launch(main, t, x, o)
    back = x[::-1]
    assert (o == [back, back + 2, 0 * back + 2, back * 291]).all()


@ON
def test_elements_where_threads_part(t: str) -> None:
    """A condition that only some threads meet; a loop whose end an element decides."""

    @T.prim_func
    def main(X: T.Tensor((300,), "int32"), O: T.Tensor((2, 128), "int32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((300,), "int32")
            v = T.alloc_var("int32", -1)
            T.copy(X, x)
            tx = T.get_thread_binding()
            if tx < 40:
                v = x[77]
                if v > 3:
                    v += x[tx]
            O[0, tx] = v
            while x[200] < 210:
                for i in T.Parallel(300):
                    x[i] = x[i] + 3
            v = x[130]
            O[1, tx] = v

    x, o = np.arange(300, dtype=np.int32), np.full((2, 128), -7, np.int32)
    launch(main, t, x, o)
    tx = np.arange(128)
    assert (o[0] == np.where(tx < 40, 77 + tx, -1)).all()
    assert (o[1] == 130 + 12).all()
