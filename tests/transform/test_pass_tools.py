# SPDX-License-Identifier: Apache-2.0
"""One PIPELINE: every pass of it can be dumped, timed, stopped at and blamed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.config import Options
from tilelang.errors import OptionError
from tilelang.ir import PrimFunc, Rewriter, Store
from tilelang.target import Target
from tilelang.testing.bisect import first_wrong_pass
from tilelang.transform import PIPELINE, PassContext

TARGETS = ("llvm", "cuda -arch=sm_80", "cuda -arch=sm_90a")


def small() -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((16, 20), "float32"), B: T.Tensor((16, 20), "float32")):
        with T.Kernel(2, threads=32) as bx:
            S = T.alloc_shared((8, 16), "float32")
            F = T.alloc_fragment((8, 16), "float32")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[bx * 8, k * 16], S)
                T.copy(S, F)
                for i, j in T.Parallel(8, 16):
                    F[i, j] = F[i, j] * 2 + 1
                T.copy(F, B[bx * 8, k * 16])

    return main


def names(target: str) -> list[str]:
    context = PassContext(Target(target))
    return [p.name for p in PIPELINE if p.when(context)]


def test_names_are_unique_and_every_pass_runs_somewhere() -> None:
    every = [p.name for p in PIPELINE]
    assert len(set(every)) == len(every)
    assert {n for t in TARGETS for n in names(t)} == set(every)


@pytest.mark.parametrize("target", TARGETS)
def test_every_pass_is_dumped(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DUMP", ",".join(f"after:{n}" for n in names(target)))
    monkeypatch.setenv("TILELANG_DUMP_DIR", str(tmp_path))
    tilelang.lower(small(), target=target)
    dumped = {p.name.split(".")[2] for p in tmp_path.glob("main.*.py")}
    assert dumped == set(names(target))
    assert all(p.read_text() for p in tmp_path.glob("main.*.py"))


@pytest.mark.parametrize("target", TARGETS)
def test_every_pass_is_timed(target: str) -> None:
    assert set(names(target)) <= set(tilelang.lower(small(), target=target).timings)


@pytest.mark.parametrize("name", [p.name for p in PIPELINE])
def test_compilation_stops_after_any_pass(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = next(t for t in TARGETS if name in names(t))
    monkeypatch.setenv("TILELANG_STOP_AFTER", name)
    monkeypatch.setenv("TILELANG_DUMP_DIR", str(tmp_path))
    with pytest.raises(OptionError, match=f"stopped after {name}"):
        tilelang.lower(small(), target=target)
    assert [p.name.split(".")[2] for p in tmp_path.glob("main.*.py")] == [name]


class _Doubled(Rewriter):
    def visit_Store(self, s: Store) -> Any:
        return Store(s.buffer, s.indices, s.value * 2, s.span)


def _doubles(func: Any, context: PassContext) -> Any:
    return replace(func, body=_Doubled().visit(func.body))


@pytest.mark.parametrize("target", TARGETS)
def test_the_pass_at_fault_is_found(target: str) -> None:
    a, b = np.arange(320, dtype=np.float32).reshape(16, 20), np.zeros((16, 20), np.float32)
    assert first_wrong_pass(small(), a, b, target=target) is None
    assert not b.any()
    for name in ("check_kernel", "guard_bounds", "flatten_buffers"):
        run = next(p.run for p in PIPELINE if p.name == name)
        broken = [
            replace(p, run=lambda f, c, run=run: _doubles(run(f, c), c)) if p.name == name else p
            for p in PIPELINE
        ]
        assert first_wrong_pass(small(), a, b, target=target, passes=broken) == name


@pytest.mark.parametrize(("dtype", "accum"), [("int8", "int32"), ("float32", "float32")])
def test_products_of_every_width_are_interpreted(dtype: str, accum: str) -> None:
    """What ldmatrix brings are 32 bits, however many elements these are."""

    @T.prim_func
    def main(
        A: T.Tensor((32, 32), dtype), B: T.Tensor((32, 32), dtype), C: T.Tensor((32, 32), accum)
    ):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((32, 32), dtype)
            b = T.alloc_shared((32, 32), dtype)
            c = T.alloc_fragment((32, 32), accum)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b = (rng.integers(-3, 4, (32, 32)).astype(dtype) for _ in range(2))
    options = Options(allow_tf32=True)
    target = "cuda -arch=sm_80"
    kernel = tilelang.compile(main, target=target, pass_configs={"tl.allow_tf32": True})
    assert "ldmatrix" in kernel.get_kernel_source()
    out = np.zeros((32, 32), accum)
    assert first_wrong_pass(main, a, b, out, target=target, options=options) is None
