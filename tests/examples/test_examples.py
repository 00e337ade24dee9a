# SPDX-License-Identifier: Apache-2.0
"""Every example at its small sizes, checked against numpy, on the CPU and the simulated GPUs."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = ("elementwise_add", "softmax", "matmul", "matmul_dynamic", "flash_attention")
DTYPES: dict[str, tuple[str, ...]] = {
    "elementwise_add": ("float32", "bfloat16"),
    "softmax": ("float32", "bfloat16"),
    "matmul": ("float32", "float16", "bfloat16"),
    "matmul_dynamic": ("float32", "float16"),
    "flash_attention": ("float16",),
}
TARGETS = ("llvm", "cuda-sim -arch=sm_80", "cuda-sim -arch=sm_90a")
# The simulator checks every access of every thread: these take it more than a few seconds.
LARGE = {("matmul", 77, "float32"), ("matmul_dynamic", 77, "float32")}


def example(name: str) -> Any:
    """The module of an example, which imports its neighbour `harness`."""
    sys.path.insert(0, str(FOLDER))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


def runs() -> list[Any]:
    """(example, arguments of its `run`, target), the expensive ones marked slow."""
    out = []
    for name in NAMES:
        for shape in example(name).SHAPES:
            causal: tuple[tuple[bool, ...], ...] = (
                ((False,), (True,)) if name == "flash_attention" else ((),)
            )
            for target in TARGETS:
                for dtype in DTYPES[name]:
                    slow = target != "llvm" and (name, shape[0], dtype) in LARGE
                    marks = [pytest.mark.slow] if slow else []
                    for more in causal:
                        args = (*shape, *more, dtype)
                        label = f"{name}-{'x'.join(map(str, args))}-{target.split('=')[-1]}"
                        out.append(pytest.param(name, args, target, id=label, marks=marks))
    return out


@pytest.mark.parametrize(("name", "args", "target"), runs())
def test_example(name: str, args: tuple[Any, ...], target: str) -> None:
    result = example(name).run(*args, target)
    assert result.ok, result.line()


def test_every_example_is_tested() -> None:
    programs = {p.stem for p in FOLDER.glob("*.py")} - {"harness", "demo"}
    assert programs == set(NAMES)


# Large and ragged: no extent divides a tile, no row of 16-bit elements starts at 16 bytes. The
# simulator is too slow for them; what it runs above takes the same paths.
RAGGED = {
    "elementwise_add": [((1 << 24) + 3,)],
    "softmax": [(4095, 4097)],
    "matmul": [(4095, 4097, 1001)],
    "matmul_dynamic": [(4095, 4097, 1001)],
    "flash_attention": [(1, 4095, 3, 128)],
}


@pytest.mark.parametrize("name", [n for n in NAMES if n != "flash_attention"])
def test_large_and_ragged_on_the_cpu(name: str) -> None:
    for shape in RAGGED[name]:
        result = example(name).run(*shape, "float32", "llvm")
        assert result.ok, result.line()


def on_the_gpu() -> list[Any]:
    """(example, arguments of its `run`): every dtype, small shapes and large ragged ones."""
    return [
        pytest.param(name, (*shape, *more, dtype), id=f"{name}-{shape}{more}-{dtype}")
        for name in NAMES
        for shape in (*example(name).SHAPES, *RAGGED[name])
        for more in (((False,), (True,)) if name == "flash_attention" else ((),))
        for dtype in DTYPES[name]
    ]


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "args"), on_the_gpu())
def test_on_the_gpu(name: str, args: tuple[Any, ...]) -> None:
    result = example(name).run(*args, "cuda")
    assert result.ok, result.line()
