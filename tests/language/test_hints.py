# SPDX-License-Identifier: Apache-2.0
"""No option is silently ignored: it is followed, refused, or said to have no effect, once."""

from __future__ import annotations

import ast
import warnings
from pathlib import Path

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import CompatWarning, LanguageError, LayoutError, OptionError, TileError
from tilelang.ir import PrimFunc, Role, walk
from tilelang.language import hints, remember_source

HEAD = """
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((16, 16), "float32"), B: T.Tensor((16,), "float32")):
    with T.Kernel(1, threads=256) as bx:
        S = T.alloc_shared((16, 16), "float32")
        F = T.alloc_fragment((16, 16), "float32")
        R = T.alloc_fragment((16,), "float32")
        bar = T.alloc_barrier(1)
        tx = T.get_thread_binding()
"""

WITHOUT_EFFECT = {
    "T.copy(A, S, coalesced_width=4)": "T.copy: coalesced_width",
    "T.copy(A, S, eviction_policy='evict_first')": "T.copy: eviction_policy='evict_first'",
    "T.copy(A, S, prefer_instruction='tma')": "T.copy: prefer_instruction='tma'",
    "T.async_copy(A, S, coalesced_width=4)": "T.async_copy: coalesced_width",
    "T.tma_copy(A, S, barrier=bar, eviction_policy='evict_last')": "T.tma_copy: eviction_policy",
    "T.copy(A, S, annotations={'coalesced_width': 4})": "T.copy: coalesced_width",
    "T.copy(A, S, annotations={'speed': 4})": "T.copy: annotation 'speed'",
    "T.gemm(S, S, F, annotations={'speed': 4})": "T.gemm: annotation 'speed'",
    "for i in T.serial(4, annotations={'x': 1}):\n    B[i] = 0": "T.serial: annotation 'x'",
    "for i in T.Parallel(16, annotations={'prefer_async': True}):\n    B[i] = 0": (
        "T.Parallel: prefer_async"
    ),
    "T.gemm(S, S, F, wg_wait=-1)": "T.gemm: wg_wait",
    "for i in T.Parallel(16, coalesced_width=4):\n    B[i] = 0": "T.Parallel: coalesced_width",
    "for i in T.Parallel(16, prefer_async=True):\n    S[i, 0] = B[i]": "T.Parallel: prefer_async",
    "T.reduce_sum(F, R, batch=2)": "T.reduce_sum: batch",
    "r = T.alloc_reducer((16,), 'float32')\nT.clear(r)\nT.finalize_reducer(r, batch=4)": (
        "T.finalize_reducer: batch"
    ),
    "T.atomic_add(B[0], 1.0, annotations={'x': 1})": "T.atomic_add: annotation 'x'",
    "T.annotate_l2_hit_ratio({A: 0.5})": "T.annotate_l2_hit_ratio",
    "T.set_max_nreg(240, 1)": "T.set_max_nreg outside of T.ws",
    "if tx < 128:\n    T.dec_max_nreg(24)": "T.dec_max_nreg outside of T.ws",
}

REFUSED: dict[str, tuple[type[TileError], str]] = {
    "T.copy(A, S, coalesced_width=0)": (OptionError, "coalesced_width must be"),
    "T.copy(A, S, eviction_policy='always')": (OptionError, "eviction_policy"),
    "T.tma_copy(A, S, barrier=bar, eviction_policy='always')": (OptionError, "eviction_policy"),
    "T.reduce_sum(F, R, batch=0)": (OptionError, "batch must be"),
    "x = T.any_sync(tx > 3, 0xFF)": (OptionError, "T.any_sync: only the full mask"),
    "x = T.all_sync(tx > 3, mask=1)": (OptionError, "T.all_sync: only the full mask"),
    "x = T.ballot_sync(tx > 3, mask=1)": (OptionError, "T.ballot_sync: only the full mask"),
    "T.annotate_producer_reg_dealloc(25)": (OptionError, "a multiple of 8 from 24 to 256"),
    "T.annotate_consumer_reg_alloc(264)": (OptionError, "a multiple of 8 from 24 to 256"),
    "T.set_max_nreg(16, 0)": (OptionError, "a multiple of 8 from 24 to 256"),
    "with T.ws(0):\n    T.inc_max_nreg(240)\n    T.dec_max_nreg(24)": (OptionError, "already"),
    "p = T.access_ptr(A, 'x')": (OptionError, "access_type"),
    "p = T.access_ptr(A[1, 2], ignore_last_ndim=-1)": (OptionError, "ignore_last_ndim must be"),
    "T.annotate_layout({S: lambda i, j: i * 16 + j})\n"
    "T.annotate_layout({S: lambda i, j: j * 16 + i})": (LayoutError, "another layout already"),
}


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_SAID", set())


def program(body: str) -> tuple[str, str]:
    text = HEAD + "".join(f"        {line}\n" for line in body.split("\n"))
    file = "hints_program.py"
    remember_source(text, file)
    return text, file


def trace(body: str) -> PrimFunc:
    text, file = program(body)
    names: dict[str, PrimFunc] = {"__name__": "user"}  # type: ignore[dict-item]
    exec(compile(text, file, "exec"), names)
    return names["main"]


def trace_twice(body: str) -> None:
    trace(body)
    trace(body)


@pytest.mark.parametrize("body", WITHOUT_EFFECT)
def test_without_effect(body: str) -> None:
    with pytest.warns(CompatWarning) as record:
        trace_twice(body)
    (only,) = record
    assert WITHOUT_EFFECT[body] in str(only.message)
    assert only.filename == "hints_program.py"


@pytest.mark.parametrize("body", REFUSED)
def test_refused(body: str) -> None:
    error, words = REFUSED[body]
    with pytest.raises(error, match=words) as caught:
        trace(body)
    assert caught.value.help


@pytest.mark.parametrize(
    "body",
    [
        "T.copy(A, S, eviction_policy='evict_normal')",
        "T.copy(A, S, prefer_instruction='sync')",
        "T.copy(A, S, annotations={'disable_tma': True, 'prefer_instruction': 'cp_async'})",
        "T.gemm(S, S, F, wg_wait=0)",
        "for i in T.unroll(4, annotations={'unroll_factor': 2}):\n    B[i] = 0",
        "T.reduce_sum(F, R, batch=1)",
        "for i in T.Parallel(16, prefer_async=False):\n    B[i] = 0",
        "x = T.any_sync(tx > 3, 0xFFFFFFFF)",
        "with T.ws(0):\n    T.set_max_nreg(240, 1)",
        "T.annotate_layout({S: lambda i, j: i * 16 + j})\n"
        "T.annotate_layout({S: lambda i, j: j * 16 + i}, allow_reannotation=True)",
    ],
)
def test_what_is_followed_needs_no_warning(body: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trace(body)


def test_registers_of_a_role() -> None:
    func = trace("with T.ws(0):\n    T.set_max_nreg(240, 1)\nwith T.ws(1):\n    T.dec_max_nreg(24)")
    roles = [x for x in walk(func.body) if type(x) is Role]
    assert [r.annotations["registers"] for r in roles] == [240, -24]


def test_decorators() -> None:
    with pytest.raises(LanguageError, match="hygienic"):
        T.macro(hygienic=False)(test_decorators)
    with pytest.raises(LanguageError, match="eager_jit"):
        T.prim_func(eager_jit=True)
    with pytest.warns(CompatWarning) as record:
        T.prim_func(private=True, check_well_formed=False)
    assert len(record) == 2


def test_an_access_pointer_without_its_last_index() -> None:
    @T.prim_func
    def main(A: T.Tensor((4, 4), "float32")):
        with T.Kernel(1, threads=1):
            T.import_source("__device__ void put(float* p, float x) { *p = x; }")
            T.call_extern("handle", "put", T.access_ptr(A[1, 2], "w", ignore_last_ndim=1), 5.0)
            T.call_extern("handle", "put", T.access_ptr(A[2, 3], "w"), 7.0)

    a = np.zeros((4, 4), np.float32)
    tilelang.compile(main, target="cuda-sim -arch=sm_80")(a)
    assert [tuple(map(int, at)) for at in np.argwhere(a)] == [(1, 0), (2, 3)]


def test_every_parameter_is_read() -> None:
    """A parameter that no statement of its function names is ignored silently."""
    ignored = set()
    for path in Path(hints.__file__).parent.glob("*.py"):
        for f in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(f, ast.FunctionDef) and not f.name.startswith("_"):
                args = [*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs, f.args.vararg]
                names = {x.id for part in f.body for x in ast.walk(part) if isinstance(x, ast.Name)}
                ignored |= {(f.name, a.arg) for a in args if a and a.arg not in names}
    # of the callee it is assumed that it touches the whole buffer
    assert ignored == {("access_ptr", "extents"), ("access_ptr", "extent")}
