# SPDX-License-Identifier: Apache-2.0
"""A first look: compiles, runs and checks a matmul and an attention on what this machine has.

In: nothing (`make demo` sets everything up). Out: a table, every row checked against numpy in
float64, and what could not be shown here.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import flash_attention
import harness
import matmul
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tilelang
from tilelang.errors import TileError
from tilelang.target import Target
from tilelang.target.detect import cuda_devices

ATTENTION = (1, 256, 4, 64)
SIMULATED = "cuda-sim -arch=sm_80"
PEER = "torch" if harness.have_torch() else "numpy"
LOOK_INSIDE = """
Error: relative to numpy in float64. {peer}: the plain product or attention.
Programs: examples/matmul.py, examples/flash_attention.py. To look inside:
    kernel = matmul(256, 256, 256)
    kernel.show("ir")               the program as the compiler read it
    kernel.get_kernel_source()      the generated CUDA C++ or LLVM IR
    kernel.show("why")              what was chosen where, and why
    kernel.verify(a, b, bias)       the result against the program's meaning
What this machine has: python -m tilelang env
"""

Row = tuple[str, ...]
Case = tuple[str, Callable[[], Row]]


def matmul_row(target: str, dtype: str, n: int) -> Row:
    """relu(A · B + bias)."""
    inputs = [harness.tensor(s, dtype, target, i) for i, s in enumerate(((n, n), (n, n), (n,)))]

    def make() -> Any:
        return matmul.matmul(n, n, n, dtype, **matmul.blocks(target, dtype))

    def reference(a: Any, b: Any, bias: Any) -> Any:
        return np.maximum(a @ b + bias, 0)

    def product(a: Any, b: Any, bias: Any) -> Any:
        return a @ b

    return row(target, f"matmul {n}³", dtype, make, inputs, reference, product, product)


def attention_row(target: str) -> Row:
    """softmax(Q · Kᵀ) · V."""
    inputs = [harness.tensor(ATTENTION, "float16", target, i) for i in range(3)]
    name = "attention " + "x".join(map(str, ATTENTION[1:]))

    def make() -> Any:
        return flash_attention.attention(*ATTENTION)

    def reference(*tensors: Any) -> Any:
        return flash_attention.reference(*tensors, False)

    return row(target, name, "float16", make, inputs, reference, sdpa, reference)


def sdpa(*tensors: Any) -> Any:
    import torch

    return torch.nn.functional.scaled_dot_product_attention(*(t.transpose(1, 2) for t in tensors))


def row(
    target: str,
    name: str,
    dtype: str,
    make: Callable[[], Any],
    inputs: Sequence[Any],
    reference: Callable[..., Any],
    by_torch: Callable[..., Any],
    by_numpy: Callable[..., Any],
) -> Row:
    """Compiles, checks, and (except in the simulator) times one kernel beside its peer."""
    start = time.perf_counter()
    with Target(target):
        kernel = make()
    compiled = f"{time.perf_counter() - start:.2f} s"
    want = reference(*(harness.numpy64(t) for t in inputs))
    error = harness.relative_error(kernel(*inputs), want)
    ours = peers = "-"
    if target != SIMULATED:
        ours = milliseconds(lambda: kernel(*inputs), target)
        peers = peer_time(target, inputs, by_torch, by_numpy)
    verdict = "[green]ok[/]" if error <= harness.TOLERANCE[dtype] else "[red]WRONG[/]"
    return (
        target.split()[0],
        f"{name} {dtype.replace('float', 'fp')}",
        compiled,
        ours,
        peers,
        f"{error:.0e} {verdict}",
    )


def milliseconds(call: Callable[[], Any], target: str) -> str:
    return f"{1e3 * harness.timed(call, target):.2f} ms"


def peer_time(
    target: str, inputs: Sequence[Any], by_torch: Callable[..., Any], by_numpy: Callable[..., Any]
) -> str:
    """Of torch on the same inputs, or of numpy in float32 where there is no torch."""
    if PEER == "numpy":
        arrays = [np.asarray(t, np.float32) for t in inputs]
        return milliseconds(lambda: by_numpy(*arrays), target)
    import torch

    tensors = [torch.as_tensor(t) for t in inputs]
    return milliseconds(lambda: by_torch(*tensors), target)


def cases(notes: list[str]) -> list[Case]:
    """(target, what to do) for this machine; `notes` says what is left out."""

    def on(target: str, n: int) -> list[Case]:
        return [
            (target, lambda: matmul_row(target, "float32", n)),
            (target, lambda: matmul_row(target, "float16", n)),
            (target, lambda: attention_row(target)),
        ]

    out = on("llvm", 512)
    if not cuda_devices():
        notes.append("GPU: there is no CUDA device.")
    elif PEER == "numpy":
        notes.append("GPU: there is one; to put tensors there the demo needs torch (pip install).")
    else:
        out += on("cuda", 2048)
    if any(shutil.which(c) for c in ("g++", "clang++", "c++")):
        # Small: every access of every thread is checked.
        out.append((SIMULATED, lambda: matmul_row(SIMULATED, "float16", 128)))
    else:
        notes.append("Simulated GPU: needs a C++ compiler (g++ or clang++) on the path.")
    return out


def main() -> int:
    tilelang.disable_cache()  # so that the compile times are compile times
    console = Console()
    notes: list[str] = []
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("target", "kernel", "compile", "run", PEER, "error"):
        side = "left" if column in ("target", "kernel") else "right"
        table.add_column(column, justify=side, no_wrap=True)
    failed = False
    for target, make in cases(notes):
        with console.status(f"{target} …"):
            try:
                found = make()
            except TileError as error:
                found = (target, "[red]did not work[/]", "", "", "", "")
                notes.append(f"{target}: {error.message}")
        failed |= "[red]" in "".join(found)
        table.add_row(*found)
    console.print(table)
    print("\n".join(notes))
    print(LOOK_INSIDE.format(peer=PEER))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
