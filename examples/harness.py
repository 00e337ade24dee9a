# SPDX-License-Identifier: Apache-2.0
"""What the examples share: a target, inputs, a check against numpy, a timing, a table row.

Inputs are torch tensors where torch is installed (on the GPU for a CUDA target), else numpy arrays.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tilelang

TOLERANCE = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2, "int8": 0.0, "int32": 0.0}
"""Relative error allowed by the rounding of outputs (a few units of the last place)."""

STYLES = ("lazy", "eager")


@dataclass
class Result:
    """One row: error relative to the reference, seconds per call of ours and of the baseline."""

    name: str
    error: float
    ok: bool
    compile_s: float
    ours_s: float | None = None
    baseline_s: float | None = None
    baseline: str = ""

    def line(self) -> str:
        verdict = "ok  " if self.ok else "FAIL"
        text = f"{verdict} {self.name:<44} error {self.error:8.1e}  compile {self.compile_s:6.3f} s"
        if self.ours_s is not None:
            text += f"  run {self.ours_s * 1e3:9.3f} ms"
        if self.baseline_s is not None:
            text += f"  {self.baseline} {self.baseline_s * 1e3:9.3f} ms"
        return text


def parser(doc: str | None) -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument(
        "--target", default="auto", help="auto, cuda, llvm, cuda-sim, 'cuda -arch=sm_80', …"
    )
    p.add_argument("--bench", action="store_true", help="time it beside its baseline")
    return p


def on_gpu(target: str) -> bool:
    resolved = tilelang.target.Target(tilelang.target.determine_target(target))
    return resolved.is_cuda and not resolved.is_sim


def tensor(shape: Sequence[int], dtype: str, target: str, seed: int = 0, scale: float = 1.0) -> Any:
    """Normal random numbers, the same on every target."""
    x = (np.random.default_rng(seed).standard_normal(tuple(shape)) * scale).astype(
        numpy_dtype(dtype)
    )
    if not on_gpu(target):
        return x
    import torch

    return torch.from_numpy(x.astype(np.float32)).to(device="cuda", dtype=getattr(torch, dtype))


def integers(
    shape: Sequence[int], low: int, high: int, dtype: str, target: str, seed: int = 0
) -> Any:
    """Integers low <= x < high, the same on every target."""
    x = np.random.default_rng(seed).integers(low, high, tuple(shape)).astype(dtype)
    if not on_gpu(target):
        return x
    import torch

    return torch.from_numpy(x).cuda()


def numpy_dtype(dtype: str) -> Any:
    return np.dtype(getattr(ml_dtypes, dtype, None) or dtype)


def numpy64(x: Any) -> np.ndarray[Any, Any]:
    """A tensor's values in float64."""
    if isinstance(x, np.ndarray):
        return x.astype(np.float64)
    return x.detach().double().cpu().numpy()  # type: ignore[no-any-return]


def relative_error(got: Any, want: Any) -> float:
    """Norm of the difference over the norm of the reference, the worst of several outputs; of
    nothing it is 0."""
    if isinstance(want, tuple):
        return max(map(relative_error, got, want))
    g = numpy64(got)
    if want.size == 0:
        return 0.0
    return float(np.linalg.norm(g - want) / max(float(np.linalg.norm(want)), 1e-30))


def timed(f: Callable[[], Any], target: str) -> float:
    """Seconds per call: the median of calls within about half a second, after a warm-up."""
    sync = _synchronizer(target)
    f()
    sync()
    samples: list[float] = []
    deadline = time.perf_counter() + 0.5
    while len(samples) < 5 or (time.perf_counter() < deadline and len(samples) < 200):
        start = time.perf_counter()
        f()
        sync()
        samples.append(time.perf_counter() - start)
    return float(np.median(samples))


def _synchronizer(target: str) -> Callable[[], None]:
    if not on_gpu(target):
        return lambda: None
    import torch

    return torch.cuda.synchronize


def case(
    name: str,
    make: Callable[[], Any],
    inputs: Sequence[Any],
    reference: Callable[..., Any],
    dtype: str,
    target: str,
    baseline: tuple[str, Callable[[], Any]] | None = None,
) -> Result:
    """Compiles, runs and checks one kernel; times it if there is a baseline.

    `make()` returns the callable. `reference` takes the inputs in float64 and gives one array, or
    a tuple of them for a kernel of several outputs."""
    with tilelang.target.Target(tilelang.target.determine_target(target)):
        start = time.perf_counter()
        kernel = make()
        seconds = time.perf_counter() - start
        out = kernel(*inputs)
        error = relative_error(out, reference(*[numpy64(x) for x in inputs]))
        result = Result(name, error, error <= TOLERANCE[dtype], seconds)
        if baseline is not None:
            result.ours_s = timed(lambda: kernel(*inputs), target)
            result.baseline, result.baseline_s = baseline[0], timed(baseline[1], target)
    return result


def main(doc: str | None, run: Callable[..., Result], dtypes: Sequence[str], **shapes: Any) -> int:
    """The command line of an example with both styles: every dtype of `shapes["small"]`, or with
    `--bench` of `shapes["cpu"]` or `shapes["gpu"]`."""
    args = parser(doc).parse_args()
    key = "small" if not args.bench else "gpu" if on_gpu(args.target) else "cpu"
    return report(
        [
            run(*shape, dtype, args.target, args.bench, style)
            for dtype in dtypes
            for shape in shapes[key]
            for style in STYLES
        ]
    )


def report(results: Sequence[Result]) -> int:
    """Prints the rows; the exit code says whether all are right."""
    for r in results:
        print(r.line())
    return 0 if all(r.ok for r in results) else 1


def torch_tensor(x: Any) -> Any:
    """The same values as a torch tensor, on the device where they are."""
    import torch

    if not isinstance(x, np.ndarray):
        return x
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def have_torch() -> bool:
    return importlib.util.find_spec("torch") is not None
