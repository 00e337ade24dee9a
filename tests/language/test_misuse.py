# SPDX-License-Identifier: Apache-2.0
"""Any `T.` function called with anything works, or gives a typed error with a place and help."""

from __future__ import annotations

import random
from typing import Any

import pytest

import tilelang.language as T
from tilelang.errors import InternalError, TileError

NOT_CALLED = {
    "prim_func", "macro", "inline", "meta_class", "remember_source", "dtypes", "fp8", "Macro",
    "PrimFuncCreater", "ptr", "handle", "dtype", "dyn", "GemmWarpPolicy", "Ref", "Var",
    "Tensor", "StridedTensor", "Buffer", "FragmentBuffer", "LocalBuffer", "SharedBuffer", "tensor",
    "Layout", "Fragment",
}  # fmt: skip
NAMES = sorted(n for n in T.__all__ if n not in NOT_CALLED and callable(getattr(T, n)))
KEYWORDS = (
    "dim",
    "clear",
    "num_stages",
    "threads",
    "dtype",
    "scope",
    "step",
    "init",
    "msg",
    "mask",
)


def values(A: Any, S: Any, F: Any, L: Any, v: Any, n: Any, tx: Any) -> list[Any]:
    places = [A, S, F, L, v, A[0, 0], A[0:4, :], S[1, 2], F[0:2, 0:2]]
    numbers = [n, tx, n + 1, n > 2, n * 1.5, 0, 1, -1, 3, 2.5, True, -7, 1 << 40, float("nan")]
    texts = ["float16", "row", "text", b"bytes", T.float32, T.int8, T.ptr]
    others = [None, (4, 4), (n,), [], {}, {A: 0}, object(), len, T.float16x2(1, 2), T.serial(4)]
    return [*places, *numbers, *texts, *others, T.Parallel(2, 2)]


def attempt(name: str, seed: int) -> None:
    rng = random.Random(f"{name}{seed}")

    @T.prim_func
    def main(A: T.Tensor((8, 8), "float32"), n: T.int32):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding()
            S = T.alloc_shared((8, 8), "float16")
            F = T.alloc_fragment((8, 8), "float32")
            L = T.alloc_local((8,), "int32")
            v = T.alloc_var("int32", init=bx)
            pool = values(A, S, F, L, v, n, tx)
            args = [rng.choice(pool) for _ in range(rng.randrange(5))]
            more = {k: rng.choice(pool) for k in rng.sample(KEYWORDS, rng.choice([0, 0, 1]))}
            result = getattr(T, name)(*args, **more)
            L[0] = result if isinstance(result, int) else 0


def error_of(name: str, seed: int) -> Exception | None:
    try:
        attempt(name, seed)
    except (TileError, TypeError) as error:
        return error
    return None


@pytest.mark.parametrize("name", NAMES)
def test_any_call(name: str) -> None:
    for seed in range(20):
        error = error_of(name, seed)
        if isinstance(error, TileError):
            assert not isinstance(error, InternalError), error
            assert error.span is not None, error
            assert error.help, error
            assert error.span.file == __file__, error
        elif error is not None:  # Python's own: a call that does not fit the signature
            assert name.strip("_") in str(error) or "argument" in str(error), error
