# SPDX-License-Identifier: Apache-2.0
"""Tuning: which configurations are tried, what wins, what is remembered, what is left out."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.autotuner import AutoTuner, get_autotune_inputs, set_autotune_inputs
from tilelang.errors import ArgumentTypeError, ArgumentValueError, TuningError

QUICK = {"warmup": 1, "rep": 2}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))


def program(n: int, block: int, work: int = 1, add: float = 1.0) -> Any:
    """out = x + add, `work` times over."""

    @T.prim_func
    def main(x: T.Tensor((n,), "float32"), out: T.Tensor((n,), "float32")):
        with T.Kernel(n // block) as bx:
            for _ in T.serial(work):
                for i in T.Parallel(block):
                    out[bx * block + i] = T.exp(x[bx * block + i])
            for i in T.Parallel(block):
                out[bx * block + i] = x[bx * block + i] + add

    return main


def lazy(configs: Any, **settings: Any) -> Any:
    @tilelang.autotune(configs=configs, **{**QUICK, **settings})
    @tilelang.jit(out_idx=-1, target="llvm")
    def f(n: int, block: int = 8, work: int = 1, add: float = 1.0) -> Any:
        return program(n, block, work, add)

    return f


def test_the_fastest_of_right_ones_wins() -> None:
    """The slow one does a thousand times the work; the wrong one is fast and adds 2."""
    configs = [{"work": 2000, "add": 1.0}, {"work": 1, "add": 1.0}, {"work": 0, "add": 2.0}]
    f = lazy(configs, ref_prog=lambda x: x + 1)
    kernel = f(64)
    assert kernel.config == {"work": 1, "add": 1.0}
    assert kernel.latency > 0
    assert kernel.ref_latency > 0
    assert f(64) is kernel
    assert f(128) is not kernel
    x = np.ones(64, "float32")
    assert (kernel(x) == 2).all()


def test_nothing_left_open_is_not_tuned() -> None:
    f = lazy([{"block": 8}, {"block": 16}])
    assert f(64, block=32).config is None
    assert f(64, 32).config is None
    assert f.tune(64, block=32) is None


def test_configurations_of_the_arguments() -> None:
    seen = []

    def configs(n: int) -> list[dict[str, Any]]:
        seen.append(n)
        return [{"block": n}, {"block": n // 2}]

    assert lazy(configs)(64).config["block"] in (64, 32)
    assert seen == [64]
    assert lazy(configs)(64, block=4).config is None


def test_settings_of_the_compiler_are_tried_too() -> None:
    f = lazy([{"block": 8, "pass_configs": {"tl.disable_safe_memory_legalize": True}}])
    assert f(64).pass_configs == {"tl.disable_safe_memory_legalize": True}


def test_an_eager_function_is_tuned_on_its_call() -> None:
    @tilelang.autotune(configs=[{"block": 16}, {"block": 64}], **QUICK)
    @tilelang.jit(target="llvm")
    def double(x, block: int = 8):
        n = T.const("n")
        x: T.Tensor((n,), "float32")
        out = T.empty((n,), "float32")
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i in T.Parallel(block):
                out[bx * block + i] = x[bx * block + i] * 2
        return out

    x = np.arange(100, dtype="float32")
    assert (double(x) == 2 * x).all()
    assert double.tune(x).config in ({"block": 16}, {"block": 64})
    assert (double(x, block=8) == 2 * x).all()


def test_an_eager_call_is_tuned_on_copies() -> None:
    @tilelang.autotune(configs=[{"block": 4}, {"block": 8}], **QUICK)
    @tilelang.jit(target="llvm")
    def count(x, block: int = 8):
        n = T.const("n")
        x: T.Tensor((n,), "float32")
        with T.Kernel(T.ceildiv(n, block)) as bx:
            for i in T.Parallel(block):
                x[bx * block + i] += 1

    x = np.zeros(16, "float32")
    count(x)
    assert (x == 1).all()


def test_inputs_of_the_program() -> None:
    seen: list[Any] = []

    def reference(x: Any) -> Any:
        seen.append(x.copy())
        return x + 1

    mine = np.full(64, 7, "float32")
    assert get_autotune_inputs() is None
    with set_autotune_inputs(mine):
        lazy([{"block": 8}], ref_prog=reference)(64)
    assert (seen[0] == 7).all()
    seen.clear()
    supply = lambda params: [np.full(params[0].shape, 3, "float32")]  # noqa: E731
    lazy([{"block": 16}], ref_prog=reference, supply_prog=supply)(64)
    assert (seen[0] == 3).all()


def test_a_result_is_remembered_across_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another process would find: the stored configuration, not timed again."""
    configs = [{"block": 8}, {"block": 16}]
    first = lazy(configs)(64)
    monkeypatch.setattr("tilelang.autotuner.trial.Trials.run", lambda *_: 1 / 0)
    assert lazy(configs)(64).config == first.config
    monkeypatch.setenv("TILELANG_AUTO_TUNING_DISABLE_CACHE", "1")
    with pytest.raises(TuningError):
        lazy(configs)(64)


def test_a_result_that_was_not_checked_does_not_stand_for_a_checked_one() -> None:
    assert lazy([{"add": 2.0}])(64).config == {"add": 2.0}
    with pytest.raises(TuningError):
        lazy([{"add": 2.0}], ref_prog=lambda x: x + 1)(64)


def test_the_tuner_object(caplog: pytest.LogCaptureFixture) -> None:
    def f(block: int) -> Any:
        return program(64, block)

    tuner = AutoTuner.from_kernel(f, [{"block": 8}, {"block": 0}])
    tuner = tuner.set_compile_args(out_idx=[-1], target="llvm")
    with caplog.at_level(logging.WARNING, "tilelang"):
        found = tuner.set_profile_args(ref_prog=lambda x: x + 1).run(warmup=1, rep=2)
    assert found.config == {"block": 8}
    assert found.latency > 0
    assert found.ref_latency > 0
    assert found.libcode == found.kernel.get_kernel_source()
    assert found.func.name == "main"
    assert (found.kernel(np.zeros(64, "float32")) == 1).all()
    assert "did not compile" in caplog.text


def test_a_configuration_that_takes_too_long_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    held, trials = threading.Event(), 0

    def inputs(params: Any) -> Any:
        nonlocal trials
        trials += 1
        if trials == 1:
            held.wait(60)
        return [np.zeros(params[0].shape, "float32")]

    f = lazy([{"work": 2}, {"work": 1}], timeout=3, rep=1, warmup=1, supply_prog=inputs)
    kernel = f(64)
    held.set()
    assert kernel.config == {"work": 1}
    assert "takes longer than 3 s" in caplog.text


def test_what_cannot_be_tuned_says_why() -> None:
    with pytest.raises(RuntimeError, match="No configuration successfully compiled"):
        lazy([{"add": 2.0}], ref_prog=lambda x: x + 1)(64)
    with pytest.raises(ArgumentTypeError, match="has no parameter `blok`") as error:
        lazy([{"blok": 8}])(64)
    assert "did you mean 'block'?" in str(error.value)
    with pytest.raises(ArgumentValueError, match="there are no configurations"):
        lazy([])(64)
    with pytest.raises(ArgumentTypeError, match="must be a dict of keyword arguments, got int"):
        lazy([8])(64)


def test_configurations_of_an_iterator_serve_every_call() -> None:
    f = lazy({"block": b} for b in (8, 16))
    assert f(64).config["block"] in (8, 16)
    assert f(32).config["block"] in (8, 16)


@pytest.mark.parametrize("configs", [None, 3, lambda n: None])
def test_configurations_that_are_no_list_are_refused(configs: Any) -> None:
    with pytest.raises(ArgumentTypeError, match="a configuration must be a dict"):
        lazy(configs)(64)
