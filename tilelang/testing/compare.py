# SPDX-License-Identifier: Apache-2.0
"""Result before = result after: what every pass must keep.

In: a function before a pass and what the pass made of it, at whatever stages, and inputs. Out:
nothing, or an AssertionError that says where the two results differ first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilelang.interp import thread
from tilelang.ir import Buffer, HostProgram, PrimFunc

__all__ = ["assert_close", "check_same", "random_inputs"]


def check_same(
    before: PrimFunc | HostProgram,
    after: PrimFunc | HostProgram,
    *inputs: Any,
    rtol: float = 1e-5,
    atol: float = 1e-5,
) -> None:
    """Runs both with the interpreter; every output, and every input that may be written, agrees."""
    first, second = _copies(inputs), _copies(inputs)
    a, b = thread.run(before, *first), thread.run(after, *second)
    for n, (x, y) in enumerate(zip([*a, *first], [*b, *second], strict=True)):
        if isinstance(x, np.ndarray):
            name = f"output {n}" if n < len(a) else f"input {n - len(a)}"
            assert_close(y, x, rtol, atol, f"{after.name}, {name}")


def assert_close(got: Any, want: Any, rtol: float, atol: float, what: str) -> None:
    """Element by element, NaN equal to NaN; any dtype."""
    g, w = np.asarray(got, np.float64), np.asarray(want, np.float64)
    np.testing.assert_allclose(g, w, rtol=rtol, atol=atol, equal_nan=True, err_msg=what)


def random_inputs(
    func: PrimFunc | HostProgram, shapes: Sequence[tuple[int, ...]], seed: int = 0
) -> list[Any]:
    """Inputs for the tensor parameters: small integers, or normal numbers for a float dtype."""
    rng = np.random.default_rng(seed)
    buffers = [
        p for i, p in enumerate(func.params) if isinstance(p, Buffer) and i not in func.outputs
    ]
    return [random_array(rng, shape, b.dtype) for b, shape in zip(buffers, shapes, strict=True)]


def random_array(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Values that every dtype can hold."""
    target = dtype.as_numpy()
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(target)
    if dtype.is_int:
        low = -(1 << min(dtype.bits - 1, 6)) if dtype.kind == "int" else 0
        return rng.integers(low, 1 << min(dtype.bits - 1, 6), shape).astype(target)
    return rng.standard_normal(shape).astype(target)


def _copies(inputs: Sequence[Any]) -> list[Any]:
    return [x.copy(order="K") if isinstance(x, np.ndarray) else x for x in inputs]
