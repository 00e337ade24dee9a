# SPDX-License-Identifier: Apache-2.0
"""Every example at its small sizes, in its styles, checked against numpy, on the CPU and the
simulated GPUs; compiled for the real ones; large and ragged on the CPU and on a GPU."""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tilelang.errors import ArgumentValueError

FOLDER = Path(__file__).parents[2] / "examples"
DTYPES: dict[str, tuple[str, ...]] = {
    "elementwise_add": ("float32", "bfloat16"),
    "softmax": ("float32", "bfloat16"),
    "rms_norm": ("float32", "bfloat16"),
    "layer_norm": ("float32", "bfloat16"),
    "matmul": ("float32", "float16", "bfloat16"),
    "matmul_dynamic": ("float32", "float16"),
    "batched_matmul": ("float32", "float16"),
    "split_k": ("float32", "float16"),
    "int8_matmul": ("int8",),
    "dequant_matmul": ("float16",),
    "conv2d": ("float32", "float16"),
    "flash_attention": ("float16",),
    "gqa_attention": ("float16",),
    "flash_decoding": ("float16",),
    "linear_attention": ("float16",),
    "topk": ("float32", "bfloat16"),
    "cumsum": ("float32", "bfloat16"),
    "histogram": ("int32", "int8"),
}
SIMULATED = ("cuda-sim -arch=sm_80", "cuda-sim -arch=sm_90a")
TARGETS = ("llvm", "c", *SIMULATED)
# The simulator checks every access of every thread: these take it more than a few seconds.
LARGE = {("matmul", 77, "float32"), ("matmul_dynamic", 77, "float32")}

# Large and ragged: no extent divides a tile, no row of 16-bit elements starts at 16 bytes. The
# simulator is too slow for them; what it runs above takes the same paths.
RAGGED: dict[str, list[tuple[Any, ...]]] = {
    "elementwise_add": [((1 << 24) + 3,)],
    "softmax": [(4095, 4097)],
    "rms_norm": [(4095, 4097)],
    "layer_norm": [(1023, 2049)],
    "matmul": [(4095, 4097, 1001)],
    "matmul_dynamic": [(4095, 4097, 1001)],
    "batched_matmul": [(5, 511, 257, 1001, ta, not ta) for ta in (False, True)],
    "split_k": [(63, 130, 40001)],
    "int8_matmul": [(1023, 511, 1001)],
    "dequant_matmul": [(63, 1027, 1022)],
    "conv2d": [(3, 55, 57, 19, 33, 3, 2, 1), (1, 29, 31, 64, 65, 5, 1, 2)],
    "flash_attention": [(1, 4095, 3, 128)],
    "gqa_attention": [(1, 1027, 6, 2, 128, True)],
    "flash_decoding": [(2, 9001, 12, 3, 128)],
    "linear_attention": [(1, 1027, 3, 96, 72)],
    "topk": [(1027, 251, 9)],
    "cumsum": [(255, 4097, False), (255, 4097, True)],
    "histogram": [((1 << 20) + 3, 1000)],
}


def example(name: str) -> Any:
    """The module of an example, which imports its neighbour `harness`."""
    sys.path.insert(0, str(FOLDER))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


def styles(name: str) -> tuple[dict[str, str], ...]:
    """What selects each style of an example that has both."""
    both = "style" in inspect.signature(example(name).run).parameters
    return tuple({"style": s} for s in example("harness").STYLES) if both else ({},)


def arguments(name: str, shapes: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What `run` takes before the target: a shape, an option, a dtype."""
    options: tuple[tuple[bool, ...], ...] = ((),)
    if name == "flash_attention":
        options = ((False,), (True,))
    return [(*s, *o, dtype) for s in shapes for o in options for dtype in DTYPES[name]]


def runs(targets: tuple[str, ...], ragged: bool) -> list[Any]:
    """(example, arguments of its `run`, target, style), the expensive ones marked slow."""
    out = []
    for name in DTYPES:
        shapes = example(name).SHAPES + (RAGGED[name] if ragged else [])
        for args in arguments(name, shapes):
            for target in targets:
                for n, style in enumerate(styles(name)):
                    marks = [pytest.mark.slow] if slow(name, args, target, n) else []
                    words = [name, "x".join(map(str, args)), *style.values(), target.split("=")[-1]]
                    out.append(
                        pytest.param(name, args, target, style, id="-".join(words), marks=marks)
                    )
    return out


def slow(name: str, args: tuple[Any, ...], target: str, style: int) -> bool:
    """Does it take long, or say little that other runs do not say?

    `llvm` runs everything. Elsewhere the second style runs with the first dtype, on two shapes."""
    if target in SIMULATED and (name, args[0], args[-1]) in LARGE:
        return True
    if target == "llvm" or style == 0:
        return False
    first_two = any(args[: len(s)] == s for s in example(name).SHAPES[:2])
    return not first_two or args[-1] != DTYPES[name][0]


@pytest.mark.parametrize(("name", "args", "target", "style"), runs(TARGETS, ragged=False))
def test_example(name: str, args: tuple[Any, ...], target: str, style: dict[str, str]) -> None:
    result = example(name).run(*args, target, **style)
    assert result.ok, result.line()


def test_every_example_is_tested() -> None:
    programs = {p.stem for p in FOLDER.glob("*.py")} - {"harness", "demo"}
    assert programs == set(DTYPES) == set(RAGGED)


@pytest.mark.parametrize("name", [n for n in DTYPES if n != "flash_attention"])
def test_large_and_ragged_on_the_cpu(name: str) -> None:
    for args in arguments(name, RAGGED[name])[:: len(DTYPES[name])]:
        for style in styles(name):
            result = example(name).run(*args, "llvm", **style)
            assert result.ok, result.line()


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("name", DTYPES)
def test_compiles_for_a_gpu(name: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVRTC compiles before the call is refused: its arrays are on the CPU."""
    pytest.importorskip("nvidia.cu13")
    program = example(name)
    monkeypatch.setattr(example("harness"), "on_gpu", lambda target: False)
    args = arguments(name, program.SHAPES)[0]
    for style in styles(name):
        with pytest.raises(ArgumentValueError, match="expected a tensor on a CUDA device"):
            program.run(*args, f"cuda -arch={arch}", **style)


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "args", "target", "style"), runs(("cuda",), ragged=True))
def test_on_the_gpu(name: str, args: tuple[Any, ...], target: str, style: dict[str, str]) -> None:
    result = example(name).run(*args, target, **style)
    assert result.ok, result.line()
