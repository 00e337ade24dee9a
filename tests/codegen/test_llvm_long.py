# SPDX-License-Identifier: Apache-2.0
"""Long programs: compilers take quadratic time in straight-line code, so ours is cut."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.codegen import llvm_support
from tests.codegen.llvm_support import build, make
from tilelang.ir import Buffer, Builder, Kernel, session


def long_kernel(count: int) -> Kernel:
    x, y = Buffer("x", (1 << 13,), "float32"), Buffer("y", (1 << 13,), "float32")
    w = Builder()
    for i in range(count):
        w.store(y, (i,), x[i] * 2.0 + y[i + 1])
    return make("f", [x, y], w.finish())


def cpu_seconds() -> float:
    """Of this process and its compilers: other load on the machine does not count."""
    return sum(os.times()[:4])


@pytest.mark.parametrize(("backend", "count"), [("llvm", 1500), ("c", 400)])
def test_linear_time(backend: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm_support, "backend", backend)
    seconds = []
    for n in (count, 3 * count):
        with session():
            start = cpu_seconds()
            run = build(long_kernel(n))
            seconds.append(cpu_seconds() - start)
    data, out = np.arange(1 << 13, dtype=np.float32), np.ones(1 << 13, np.float32)
    run(data, out)
    assert (out[: 3 * count] == data[: 3 * count] * 2 + 1).all()
    assert seconds[1] < 7 * seconds[0]
