# SPDX-License-Identifier: Apache-2.0
"""language.md §3.4: which Python a kernel may be written in, and what it means."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileError


def run(func: Any, *args: Any) -> Any:
    return tilelang.compile(func, target="llvm")(*args)


def iota(*shape: int, dtype: str = "float32") -> Any:
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def ints(body: Callable[..., None], n: int = 5, count: int = 8) -> list[int]:
    """What `body`, a macro over A: (count,) int32 and n, leaves in A (0, 1, 2, … before)."""
    traced = T.macro(body)

    @T.prim_func
    def main(A: T.Tensor((count,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            traced(A, n)

    a = np.arange(count, dtype=np.int32)
    run(main, a, n)
    return a.tolist()


# --------------------------------------------------------------------------------------- supported


def test_assignments() -> None:
    def body(A, n):
        a, b = A[1], A[2]
        a, b = b, a
        A[0] = a * 10 + b
        x = y = n
        A[1] = x + y
        (p, q), r = (n, 1), 2
        A[2], A[3] = p, q + r
        first, *rest = [n, 2, 3]
        A[4] = rest[0] + rest[1] + first
        A[5] += 1
        z: T.float32 = 0
        A[6] = z
        A[7], A[0] = A[0], A[7]

    assert ints(body) == [7, 10, 5, 3, 10, 6, 0, 21]


def test_augmented_operators() -> None:
    def body(A, n):
        A[0] += n
        A[1] -= n
        A[2] *= n
        A[3] //= 2
        A[4] %= 3
        A[5] <<= 1
        A[6] >>= 1
        A[7] ^= 1

    assert ints(body) == [5, -4, 10, 1, 1, 10, 3, 6]


def test_compile_time_branches_trace_only_what_is_taken() -> None:
    def body(A, n):
        kind = "x"
        if kind == "x":
            A[0] = 1
        elif kind == "y":
            A[0] = undefined_name  # noqa: F821
        else:
            raise AssertionError
        value = 2 if kind == "y" else 3
        A[1] = value
        if None:
            A[2] = 9
        if [1]:
            A[3] = 9

    assert ints(body)[:4] == [1, 3, 2, 9]


def test_run_time_branches() -> None:
    def body(A, n):
        if n > 3:
            A[0] = 1
        elif n > 1:
            A[0] = 2
        else:
            A[0] = 3
        A[1] = 7 if n > 3 else 8
        A[2] = (n > 3) and (n < 5)
        A[3] = n > 3 or n < 0
        A[4] = not n > 3
        A[5] = 1 < n < 6
        if n:
            A[6] = 1
        if n - 5:
            A[7] = 1

    for n in (0, 2, 4, 5):
        want = [1 if n > 3 else 2 if n > 1 else 3, 7 if n > 3 else 8, 3 < n < 5, n > 3, not n > 3]
        want += [1 < n < 6, 1 if n else 6, 1 if n - 5 else 7]
        assert ints(body, n) == [int(w) for w in want]


def test_float_conditions_mean_not_zero() -> None:
    @T.prim_func
    def main(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(2):
                if A[i]:
                    A[i + 2] = 1

    a = np.array([0, 0.5, 9, 9], np.float32)
    run(main, a)
    assert a.tolist() == [0, 0.5, 9, 1]


def test_loops_over_python_iterables() -> None:
    def body(A, n):
        for i in [0, 2]:
            A[i] = n
        for i, v in enumerate((7, 8)):
            A[i + 3] = v
        for a, b in zip([5, 6], [1, 2], strict=True):
            A[a] = b
        for k in {"7": 1}:
            A[int(k)] = 9

    assert ints(body) == [5, 1, 5, 7, 8, 1, 2, 9]


def test_python_loops_with_break_continue_and_else() -> None:
    def body(A, n):
        for i in [0, 1, 2, 3]:
            if i == 1:
                continue
            if i == 3:
                break
            A[i] = 9
        for i in [4]:
            A[i] = 1
        else:
            A[5] = 1

    assert ints(body) == [9, 1, 9, 3, 1, 1, 6, 7]


def test_for_else_of_a_run_time_loop_is_refused() -> None:
    def body(A, n):
        for i in T.serial(n):
            A[i] = 0
        else:
            A[5] = 1

    with pytest.raises(TileError, match="else"):
        ints(body)


def test_while() -> None:
    def body(A, n):
        i = T.alloc_var("int32", init=0)
        while i < n:
            A[i] = 0
            i += 2
        k = 0
        while k < 2:
            A[7 - k] = -1
            k += 1

    assert ints(body) == [0, 1, 0, 3, 0, 5, -1, -1]


def test_an_infinite_while() -> None:
    def body(A, n):
        while True:
            A[0] = 1

    with pytest.raises(TileError, match="never ends"):
        ints(body)


def test_any_context_manager_runs_while_tracing() -> None:
    events = []

    @contextlib.contextmanager
    def note(what):
        events.append(f"enter {what}")
        yield what
        events.append(f"exit {what}")

    def body(A, n):
        with note("a") as name, contextlib.suppress(KeyError):
            A[0] = len(name)

    assert ints(body)[0] == 1
    assert events == ["enter a", "exit a"]


def test_comprehensions_lambdas_texts_and_calls() -> None:
    def helper(x, scale=2):
        return x * scale + 1

    def body(A, n):
        values = [helper(n, k) for k in range(3)]
        A[0] = values[0] + values[1] + values[2]
        table = {k: n + k for k in ("a", "b") if k != "a"} if False else {"b": n}
        A[1] = table["b"]
        double = lambda v: v * 2  # noqa: E731
        A[2] = double(n)
        name = f"value{2 + 1}"
        A[3] = int(name[-1])
        A[4] = sum([n, n, 1])
        A[5] = len({1, 2})
        A[6] = (lambda a, b=3: a - b)(n)
        A[7] = max(3, 4) + abs(-2)

    assert ints(body) == [18, 5, 10, 3, 11, 2, 2, 6]


def test_try_imports_walrus_match_and_global_names() -> None:
    def body(A, n):
        try:
            import no_such_module_anywhere as m  # noqa: F401

            A[0] = 1
        except ImportError:
            A[0] = 2
        import math

        A[1] = math.floor(2.5)
        if (k := 3) > 2:
            A[2] = k
        match k:
            case 1:
                A[3] = 1
            case 3 | 4:
                A[3] = 7
            case _:
                A[3] = 9
        try:
            A[4] = {}["x"]
        except KeyError:
            A[4] = 11
        finally:
            A[5] = 12
        pass
        """a text alone is nothing"""
        ...
        del k

    assert ints(body)[:6] == [2, 2, 3, 7, 11, 12]


def test_walrus_of_a_run_time_value() -> None:
    def body(A, n):
        if (x := A[3] + n) > 7:
            A[0] = x
        A[1] = (y := n * 2) + y

    assert ints(body)[:2] == [8, 20]


def test_expression_statements() -> None:
    def body(A, n):
        n + 1
        "text"
        None
        print
        T.evaluate(n)
        T.sync_threads()
        A[0] = 1

    assert ints(body)[0] == 1


def test_plain_helpers_build_expressions() -> None:
    def offset(base, i, j, stride=2):
        return base + i * stride + j

    def body(A, n):
        for i in T.serial(2):
            A[offset(0, i, 1)] = offset(n, i, 0)

    assert ints(body)[:4] == [0, 5, 2, 7]


def test_a_nested_plain_function() -> None:
    def body(A, n):
        def twice(x):
            return x * 2

        A[0] = twice(n)

    assert ints(body)[0] == 10


def _attribute(A, n):
    A.name = "x"


def _whole(A, n):
    A += 1


def _generator(A, n):
    yield A[0]


def _step(A, n):
    T.fill(A[0:4:2], 0)


def _count(A, n):
    A[0, 1] = 1


def _buffer_condition(A, n):
    if A:
        A[0] = 1


def _division(A, n):
    A[0] = n / 2


def _negation(A, n):
    A[0] = not A


def _loop(A, n):
    for i in n:
        A[i] = 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (_attribute, RuntimeError), (_whole, RuntimeError), (_generator, RuntimeError),
        (_step, RuntimeError), (_count, IndexError), (_buffer_condition, TypeError),
        (_division, TypeError), (_negation, TypeError), (_loop, RuntimeError),
    ],
)  # fmt: skip
def test_what_is_not_supported_says_so(body: Any, kind: Any) -> None:
    with pytest.raises(kind) as caught:
        ints(body)
    error = caught.value
    assert error.code != "TL0207" or kind is TypeError
    assert isinstance(error, TileError)
    assert error.span is not None
    assert error.span.file == __file__
    assert error.span.function == body.__name__
    assert error.help


# ------------------------------------------------------------------------------------- name binding


def test_python_values_stay_python() -> None:
    def body(A, n):
        i, f, s, t, d = 3, 2.5, "x", (1, 2), T.float16
        i = i + 1
        s = s + "y"
        B = A
        assert (i, f, s, t[1], d) == (4, 2.5, "xy", 2, "float16")
        B[0] = i
        B = None
        assert B is None

    assert ints(body)[0] == 4


def test_expressions_are_snapshots() -> None:
    def body(A, n):
        x = A[1] + n
        A[1] = 100
        A[0] = x
        x = x + 1
        A[2] = x
        load = A[3]
        A[3] = 0
        A[4] = load

    assert ints(body)[:5] == [6, 100, 7, 0, 3]


def test_mutable_scalars() -> None:
    def body(A, n):
        v = T.alloc_var("int32", init=1)
        for i in T.serial(4):
            v += i
            if i == 2:
                v = v * 10
        A[0] = v
        w = T.alloc_local((1,), "int32")
        w[0] = v + 1
        A[1] = w[0]

    assert ints(body)[:2] == [43, 44]


def test_the_trap_of_a_python_counter() -> None:
    def body(A, n):
        x = 0
        for i in T.serial(4):
            x += 1
        A[0] = x

    with pytest.raises(TileError, match="`x`") as caught:
        ints(body)
    assert "alloc_var" in caught.value.help
    assert caught.value.span is not None
    assert caught.value.span.line == body.__code__.co_firstlineno + 3


def test_a_name_assigned_in_a_branch_and_read_after_it() -> None:
    def body(A, n):
        x = n
        if n > 3:
            x = n + 1
        A[0] = x

    with pytest.raises(TileError, match="`x`") as caught:
        ints(body)
    assert caught.value.span is not None
    assert caught.value.span.line == body.__code__.co_firstlineno + 3
    assert "alloc_var" in caught.value.help


def test_names_of_a_branch_that_are_not_read_after_it() -> None:
    def body(A, n):
        for i in T.serial(4):
            x = i + n
            if x > 6:
                x = x * 2
                A[i] = x

    assert ints(body)[:4] == [0, 1, 14, 16]


def test_pure_expressions_before_the_kernel_stay_symbolic() -> None:
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m,), "float32"), B: T.Tensor((m,), "float32")):
        half = m // 2
        W = T.alloc_global((half, 2), "float32")
        with T.Kernel(half, threads=1) as i:
            W[i, 0] = A[i]
            W[i, 1] = A[i + half]
        with T.Kernel(half, threads=1) as i:
            B[i] = W[i, 1]
            B[i + half] = W[i, 0]

    a, b = iota(6), np.zeros(6, np.float32)
    run(main, a, b)
    assert b.tolist() == [3, 4, 5, 0, 1, 2]


# ---------------------------------------------------------------------------------------- indexing


def test_negative_constants_wrap() -> None:
    def body(A, n):
        A[-1] = A[-2] + 10

    assert ints(body)[7] == 16


def test_a_negative_index_of_run_time_is_outside() -> None:
    def body(A, n):
        A[0] = A[n - 10]
        A[n - 10] = 99

    assert ints(body) == [0, 1, 2, 3, 4, 5, 6, 7]


def test_slices_are_regions() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((4, 8), "float32"), n: T.int32):
        with T.Kernel(1, threads=32):
            T.copy(A[0:2, :], B[2:4, :])
            T.copy(A[n, 0:4], B[0, 4:8])
            T.fill(B[1, :], 5)
            T.fill(B[0, 0:n], 6)

    a, b = iota(4, 8), np.zeros((4, 8), np.float32)
    run(main, a, b, 3)
    assert b.tolist() == [[6, 6, 6, 0, 24, 25, 26, 27], [5] * 8, *a[:2].tolist()]


def test_a_short_index_is_refused_where_a_tile_is_meant() -> None:
    with pytest.raises(IndexError, match="1 index"):

        @T.prim_func
        def main(A: T.Tensor((4, 8), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                T.copy(A[0], B)


# ------------------------------------------------------------------------------------------ macros


def test_arguments_of_macros_are_evaluated_once() -> None:
    def body(A, n):
        @T.macro
        def store(x):
            A[0] = x
            A[1] = x

        store(A[0] + 1)

    assert ints(body)[:2] == [1, 1]


def test_a_macro_inside_a_condition() -> None:
    def body(A, n):
        @T.macro
        def bump():
            A[0] = A[0] + 1
            return n

        if n > 3 and bump() > 2:
            A[1] = 5

    with pytest.raises(TileError, match="effect"):
        ints(body)


# -------------------------------------------------------------------------------------- exceptions


def test_an_exception_of_the_users_own_code() -> None:
    class MyError(Exception):
        pass

    def helper():
        raise MyError("mine")

    def body(A, n):
        helper()

    with pytest.raises(MyError, match="mine") as caught:
        ints(body)
    assert isinstance(caught.value, TileError)
    assert isinstance(caught.value.__cause__, MyError)
    assert caught.value.span.function == "body"


def test_recursion_of_a_plain_function() -> None:
    def forever(x):
        return forever(x + 1)

    def body(A, n):
        A[0] = forever(n)

    with pytest.raises(RecursionError):
        ints(body)


def test_recursion_of_the_kernel_itself() -> None:
    @tilelang.jit(target="llvm")
    def f(A):
        A: T.Tensor((4,), "float32")
        with T.Kernel(1):
            T.clear(A)
            f(A)

    with pytest.raises((TileError, TypeError, RecursionError)):
        f(iota(4))
    a = iota(4)
    eager = tilelang.jit(target="llvm")(_clears)
    eager(a)
    assert not a.any()


def _clears(A):
    A: T.Tensor((4,), "float32")
    with T.Kernel(1):
        T.clear(A)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["llvm", "cuda -arch=sm_80"])
def test_ten_thousand_statements_compile_in_linear_time(target: str) -> None:
    import time

    def seconds(count: int) -> float:
        body = "".join(f"        A[{i % 64}] = A[{i * 7 % 64}] + n\n" for i in range(count))
        text = (
            "import tilelang.language as T\n\n@T.prim_func\n"
            "def main(A: T.Tensor((64,), 'int32'), n: T.int32):\n"
            "    with T.Kernel(1, threads=1):\n" + body
        )
        scope: dict[str, Any] = {}
        file = f"<{count} statements>"
        start = time.process_time()
        exec(compile(T.remember_source(text, file), file, "exec"), scope)
        tilelang.lower(scope["main"], target=target)
        return time.process_time() - start

    seconds(100)
    assert seconds(10_000) < 10 * seconds(2_500) + 1  # quadratic would be 16
