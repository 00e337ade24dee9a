# SPDX-License-Identifier: Apache-2.0
"""Import paths and spellings of older programs."""

from __future__ import annotations

import importlib
import logging
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tilelang
from tilelang.errors import LanguageError

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("tilelang.math", ["next_power_of_2", "cdiv"]),
        ("tilelang.utils.target", ["determine_target"]),
        ("tilelang.utils.tensor", ["torch_assert_close", "is_float8_dtype", "map_torch_type"]),
        ("tilelang.utils", ["map_torch_type", "set_log_level"]),
        ("tilelang.cache", ["clear_cache", "cached"]),
        ("tilelang.testing", ["main"]),
        ("tilelang.contrib.nvcc", ["get_target_compute_version", "have_tma"]),
        ("tilelang.carver.arch.driver", ["get_num_sms"]),
        ("tilelang.backend.target", ["determine_target"]),
        ("tilelang.cuda.intrinsics", ["make_mma_swizzle_layout", "get_swizzle_layout"]),
        ("tilelang.tvm.target", ["Target"]),
        ("tilelang.tvm.error", ["InternalError", "TVMError"]),
        ("tilelang.env", ["env", "TILELANG_CACHE_DIR"]),
        ("tilelang.tools", ["plot_layout"]),
        ("tilelang", ["register_cuda_postproc", "register_c_postproc", "autotune", "autotuner"]),
        ("tilelang.layout", ["make_swizzled_layout", "Layout", "Fragment"]),
        ("tilelang.language.fp8", ["determine_fp8_type"]),
    ],
)
def test_import_paths(module: str, names: list[str]) -> None:
    found = importlib.import_module(module)
    assert [n for n in names if not hasattr(found, n)] == []


def test_utils_still_is_the_file() -> None:
    from tilelang.utils import ceildiv

    assert ceildiv(7, 2) == 4


def test_target_context() -> None:
    with tilelang.tvm.target.Target("llvm") as target:
        assert tilelang.target.Target.current() == target


def test_nvcc() -> None:
    from tilelang.contrib import nvcc

    assert nvcc.get_target_compute_version("cuda -arch=sm_90a") == "9.0"
    assert nvcc.parse_compute_version("8.9") == (8, 9)
    assert nvcc.get_target_arch("9.0") == "90a"
    assert nvcc.have_tma("cuda -arch=sm_90a")
    assert not nvcc.have_tma("cuda -arch=sm_80")


def test_jit_is_the_decorator_whatever_was_imported_first() -> None:
    code = (
        "import tilelang.jit.impl, tilelang; assert callable(tilelang.jit), tilelang.jit\n"
        "from tilelang import jit; assert jit is tilelang.jit\n"
        "from tilelang.jit import JITImpl\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=ROOT)


def test_unknown_names() -> None:
    with pytest.raises(AttributeError, match="did you mean 'compile'"):
        tilelang.compil
    assert not hasattr(tilelang, "qqq")


def test_torch_assert_close() -> None:
    torch = pytest.importorskip("torch")
    from tilelang.utils.tensor import torch_assert_close

    a = torch.arange(1000, dtype=torch.float32)
    b = a.clone()
    b[3] += 1
    torch_assert_close(a, b, max_mismatched_ratio=0.01)
    with pytest.raises(AssertionError, match=r"1 of 1000 elements differ .* the first at \(3,\)"):
        torch_assert_close(a, b, max_mismatched_ratio=0)
    with pytest.raises(AssertionError, match="dtype"):
        torch_assert_close(a, b.double())


@pytest.mark.parametrize(
    ("module", "name", "help"),
    [
        ("tilelang.carver", "MatmulTemplate", "tilelang.autotune"),
        ("tilelang.carver.arch", "CUDA", "get_num_sms"),
        ("tilelang.language", "reduce_any", "T.any_of"),
    ],
)
def test_a_missing_name_says_what_to_do_instead(module: str, name: str, help: str) -> None:
    found = getattr(importlib.import_module(module), name)
    with pytest.raises(LanguageError, match=f"{name} is not supported") as caught:
        found(configs=[])
    assert help in str(caught.value)


def test_log_level(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("tilelang")
    monkeypatch.setattr(logger, "level", logger.level)
    tilelang.set_log_level("error")
    assert logger.level == logging.ERROR


def test_map_torch_type() -> None:
    torch = pytest.importorskip("torch")
    from tilelang.utils import map_torch_type

    assert map_torch_type("float16") is torch.float16
    assert map_torch_type("float8_e4m3") is torch.float8_e4m3fn


def test_random_seed() -> None:
    torch = pytest.importorskip("torch")
    import tilelang.testing

    def numbers() -> tuple[object, ...]:
        tilelang.testing.set_random_seed(3)
        return random.random(), float(np.random.rand()), float(torch.rand(1))

    assert numbers() == numbers()


def test_main_runs_the_tests_of_its_file(tmp_path: Path) -> None:
    file = tmp_path / "test_own.py"
    text = "import tilelang.testing\ndef test_it(): pass\nif __name__ == '__main__':\n"
    file.write_text(text + "    tilelang.testing.main()\n")
    run = (
        f"import runpy, sys; sys.argv = ['', '-q']; runpy.run_path({str(file)!r}, None, '__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", run], capture_output=True, text=True, timeout=60, check=False,
        cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done
    assert "1 passed" in done.stdout


def test_a_smooth_mma_layout_is_row_major() -> None:
    from tilelang.cuda.intrinsics import make_mma_swizzle_layout
    from tilelang.layout import Layout

    assert make_mma_swizzle_layout((8, 64), is_smooth=True) == Layout.row_major((8, 64))
    assert make_mma_swizzle_layout((8, 64)) != Layout.row_major((8, 64))


def test_shared_memory_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilelang.carver.arch import driver
    from tilelang.target import detect

    devices = (detect.Device(80, 108), detect.Device(75, 40))
    monkeypatch.setattr(driver, "cuda_devices", lambda: devices)
    sizes = [driver.get_max_dynamic_shared_size_bytes(n) for n in range(2)]
    assert sizes == [163 * 1024, 64 * 1024]
    assert driver.get_num_sms(1) == 40
