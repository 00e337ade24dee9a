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


@pytest.mark.gpu
@pytest.mark.parametrize("name", NAMES)
def test_on_the_gpu(name: str) -> None:
    module = example(name)
    for shape in module.SHAPES:
        more = (True,) if name == "flash_attention" else ()
        result = module.run(*shape, *more, DTYPES[name][-1], "cuda")
        assert result.ok, result.line()
