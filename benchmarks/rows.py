# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of everything on a CPU that is no matmul: rows, attention, mathematics.

Programs as users write them, on tensors of torch, one thread. Each is timed in turn with what torch
and numpy have for it, in the same process; all of them write to memory that is there already, if
they can. The figure is how many times faster we are than the best of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import row_programs as programs

from tilelang.target import Target

ROUNDS, BUDGET = 8, 0.2  # seconds per contestant and round
# name -> at least that many times the best of torch and numpy
LIMITS = {
    "add": 0.9, "softmax": 0.9, "rms_norm": 0.9, "attention": 1.0, "layer_norm": 0.5,
    "layer_norm_backward": 0.5, "gelu": 0.5, "exp": 0.5, "exp64": 0.5, "transpose": 0.5,
    "cumsum": 0.5, "histogram": 0.5, "dequant_int4": 0.5,
}  # fmt: skip
Call = Callable[[], Any]
# Our call, those of the others, and our largest error.
Case = tuple[Call, dict[str, Call], Callable[[], float]]


def _error(got: Any, want: Any) -> float:
    return float((got.double() - want.double()).abs().max())


def _add(torch: Any) -> Case:
    n = 1 << 24
    a, b, c = torch.randn(n), torch.randn(n), torch.empty(n)
    d = torch.empty(n)
    kernel = programs.add(n)
    others: dict[str, Call] = {
        "numpy": lambda: np.add(a.numpy(), b.numpy(), out=d.numpy()),
        "torch": lambda: torch.add(a, b, out=d),
    }
    return lambda: kernel(a, b, c), others, lambda: _error(c, a + b)


def _softmax(torch: Any) -> Case:
    x = torch.randn(4096, 4096)
    y, z = torch.empty_like(x), torch.empty_like(x)
    kernel = programs.softmax(*x.shape)

    def numpy() -> Any:
        e = np.exp(np.subtract(x.numpy(), x.numpy().max(1, keepdims=True), out=z.numpy()))
        return np.divide(e, e.sum(1, keepdims=True), out=e)

    others: dict[str, Call] = {"numpy": numpy, "torch": lambda: torch.softmax(x, 1, out=z)}
    return lambda: kernel(x, y), others, lambda: _error(y, torch.softmax(x, 1))


def _rms_norm(torch: Any) -> Case:
    x, w = torch.randn(4096, 4096), torch.randn(4096)
    y, z = torch.empty_like(x), torch.empty_like(x)
    kernel = programs.rms_norm(*x.shape)
    norm = torch.nn.functional.rms_norm

    def numpy() -> Any:
        a = x.numpy()
        scale = 1 / np.sqrt(np.einsum("ij,ij->i", a, a) / a.shape[1] + 1e-6)
        np.multiply(a, scale[:, None], out=z.numpy())
        return np.multiply(z.numpy(), w.numpy(), out=z.numpy())

    others: dict[str, Call] = {"numpy": numpy, "torch": lambda: norm(x, (4096,), w, 1e-6)}
    return lambda: kernel(x, w, y), others, lambda: _error(y, norm(x, (4096,), w, 1e-6))


def _attention(torch: Any) -> Case:
    q, k, v = (torch.randn(8, 1024, 64) for _ in range(3))
    o = torch.empty_like(q)
    kernel = programs.attention(*q.shape)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    batch = [t[None] for t in (q, k, v)]
    others: dict[str, Call] = {"torch": lambda: sdpa(*batch)}
    return lambda: kernel(q, k, v, o), others, lambda: _error(o, sdpa(*batch)[0])


def _layer_norm(torch: Any) -> Case:
    x, w, b = torch.randn(2048, 2048), torch.randn(2048), torch.randn(2048)
    y = torch.empty_like(x)
    kernel = programs.layer_norm(*x.shape)
    norm: Call = lambda: torch.nn.functional.layer_norm(x, (2048,), w, b)  # noqa: E731
    return lambda: kernel(x, w, b, y), {"torch": norm}, lambda: _error(y, norm())


def _layer_norm_backward(torch: Any) -> Case:
    x, dy, w = torch.randn(2048, 2048), torch.randn(2048, 2048), torch.randn(2048)
    _, mean, scale = torch.native_layer_norm(x, (2048,), w, w, 1e-5)
    outs = [torch.empty_like(t) for t in (x, w, w)]
    kernel = programs.layer_norm_backward(*x.shape)
    args = (dy, x, (2048,), mean, scale, w, w, [True] * 3)
    back: Call = lambda: torch.ops.aten.native_layer_norm_backward(*args)  # noqa: E731
    ours: Call = lambda: kernel(x, dy, w, mean[:, 0], scale[:, 0], *outs)  # noqa: E731
    return ours, {"torch": back}, lambda: _error(outs[0], back()[0])


def _elementwise(torch: Any, op: str, dtype: str, torch_op: Callable[..., Any]) -> Case:
    x = torch.randn(1 << 22, dtype=getattr(torch, dtype))
    y, z = torch.empty_like(x), torch.empty_like(x)
    kernel = programs.elementwise(x.numel(), op, dtype)
    others: dict[str, Call] = {"torch": lambda: torch_op(x)}
    if op == "exp":
        others = {
            "numpy": lambda: np.exp(x.numpy(), out=z.numpy()),
            "torch": lambda: torch.exp(x, out=z),
        }
    return lambda: kernel(x, y), others, lambda: _error(y, torch_op(x))


def _transpose(torch: Any) -> Case:
    x = torch.randn(2048, 2048)
    y, z = torch.empty_like(x), torch.empty_like(x)
    kernel = programs.transpose(*x.shape)
    others: dict[str, Call] = {
        "numpy": lambda: np.copyto(z.numpy(), x.numpy().T),
        "torch": lambda: z.copy_(x.T),
    }
    return lambda: kernel(x, y), others, lambda: _error(y, x.T)


def _cumsum(torch: Any) -> Case:
    x = torch.randn(2048, 2048)
    y, z = torch.empty_like(x), torch.empty_like(x)
    kernel = programs.cumsum(*x.shape)
    others: dict[str, Call] = {
        "numpy": lambda: np.cumsum(x.numpy(), 1, out=z.numpy()),
        "torch": lambda: torch.cumsum(x, 1, out=z),
    }
    return lambda: kernel(x, y), others, lambda: _error(y, x.double().cumsum(1))


def _histogram(torch: Any) -> Case:
    x = torch.randint(0, 256, (1 << 22,), dtype=torch.int32)
    counts = torch.zeros(256, dtype=torch.int32)
    kernel = programs.histogram(x.numel())
    others: dict[str, Call] = {
        "numpy": lambda: np.bincount(x.numpy(), minlength=256),
        "torch": lambda: torch.bincount(x, minlength=256),
    }

    def error() -> float:
        counts.zero_()
        kernel(x, counts)
        return _error(counts, torch.bincount(x, minlength=256))

    return lambda: kernel(x, counts), others, error


def _dequant_int4(torch: Any) -> Case:
    q = torch.randint(0, 256, (2048, 1024), dtype=torch.uint8)
    scale, y = torch.rand(2048, 16), torch.empty(2048, 2048)
    kernel = programs.dequant_int4(2048, 2048)

    def plain() -> Any:
        codes = torch.stack((q & 15, q >> 4), -1).view(2048, 16, 128).float()
        return ((codes - 8) * scale[:, :, None]).view(2048, 2048)

    return lambda: kernel(q, scale, y), {"torch": plain}, lambda: _error(y, plain())


def _cases(torch: Any) -> dict[str, Callable[[], Case]]:
    gelu = torch.nn.functional.gelu
    return {
        "add": lambda: _add(torch),
        "softmax": lambda: _softmax(torch),
        "rms_norm": lambda: _rms_norm(torch),
        "attention": lambda: _attention(torch),
        "layer_norm": lambda: _layer_norm(torch),
        "layer_norm_backward": lambda: _layer_norm_backward(torch),
        "gelu": lambda: _elementwise(torch, "gelu", "float32", gelu),
        "exp": lambda: _elementwise(torch, "exp", "float32", torch.exp),
        "exp64": lambda: _elementwise(torch, "exp", "float64", torch.exp),
        "transpose": lambda: _transpose(torch),
        "cumsum": lambda: _cumsum(torch),
        "histogram": lambda: _histogram(torch),
        "dequant_int4": lambda: _dequant_int4(torch),
    }


def cpu_row(target: str, name: str) -> dict[str, float]:
    """Processor seconds of each contestant, the least of many; our error."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    with Target(target):
        ours, others, error = _cases(torch)[name]()
        contestants = {"ours": ours, **others}
        ours()
    out = {"error": error()}
    found: dict[str, list[float]] = {key: [] for key in contestants}
    for _ in range(ROUNDS):
        for key, call in contestants.items():
            end = time.perf_counter() + BUDGET
            while not found[key] or time.perf_counter() < end:
                start = time.process_time()
                call()
                found[key].append(time.process_time() - start)
    return out | {key: min(seconds) for key, seconds in found.items()}


def bars(add: Callable[..., None], measure: Callable[[str], dict[str, float]]) -> None:
    """A row per program."""
    for name, limit in LIMITS.items():
        found = measure(name)
        error = found.pop("error")
        ours = found.pop("ours")
        best = min(found, key=lambda key: found[key])
        times = ", ".join(f"{key} {1e3 * seconds:.2f} ms" for key, seconds in found.items())
        note = f"ours {1e3 * ours:.2f} ms, {times}; error {error:.0e}"
        add(f"{name}, one thread", found[best] / ours, "x the best", limit, False, note)
