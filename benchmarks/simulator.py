# SPDX-License-Identifier: Apache-2.0
"""The simulated GPU on a matmul of 512³ in float16: building the kernel, running it with checks,
and what the checks cost.

`simulated` measures in a process of its own (see `cpu.fresh`); `bars` says what it must keep.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

SIZE = 512
ROUNDS = 9
ARCHES = ("sm_80", "sm_90a")


def simulated(arch: str) -> dict[str, float]:
    """Seconds: of the simulator's own library (once per machine), of building the kernel, of a run
    with checks on all cores, and of the processor for a run with and without checks."""
    import numpy as np

    from tilelang.engine import lower
    from tilelang.sim import Session, build, run_program, use_session
    from tilelang.sim.library import runtime_library
    from tilelang.testing import kernels

    start = time.perf_counter()
    runtime_library()
    library = time.perf_counter()
    depth, threads = (64, 256) if arch == "sm_90a" else (32, 128)
    func = kernels.matmul(
        SIZE, SIZE, SIZE, 128, 128, depth, 3, "float16", "float32", "float32", threads, False, False
    )
    artifact = lower(func, f"cuda-sim -arch={arch}")
    program = artifact.host_mod[func.name]
    lowered = time.perf_counter()
    module = build(artifact.kernel_source, program.launches)
    built = time.perf_counter()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((SIZE, SIZE)).astype(np.float16) for _ in range(2)]
    out = np.zeros((SIZE, SIZE), np.float32)

    def best(clock: Callable[[], float], **options: Any) -> Callable[[], float]:
        def one() -> float:
            with use_session(Session(**options)):
                begin = clock()
                run_program(program, module, [*arrays, out])
                return clock() - begin

        return one

    measured = {
        "run": best(time.perf_counter),
        "checked cpu": best(time.process_time, host_threads=1),
        "plain cpu": best(time.process_time, host_threads=1, check=False),
    }
    found = {name: min(one() for _ in range(ROUNDS)) for name, one in measured.items()}
    want = arrays[0].astype(np.float32) @ arrays[1].astype(np.float32)
    assert np.allclose(out, want, rtol=1e-3, atol=1e-2)
    return {"library": library - start, "build": built - lowered, **found}


def bars(add: Callable[..., None], measure: Callable[[str], dict[str, float]]) -> None:
    for arch in ARCHES:
        t = measure(arch)
        name = f"simulated matmul 512³ fp16, {arch}"
        note = f"the simulator itself, once per machine: {t['library']:.1f} s"
        add(f"{name}: build", t["build"], "s", 1.0, note=note)
        add(f"{name}: run with checks", t["run"], "s", 0.5)
        note = f"processor {t['checked cpu']:.3f} s, without checks {t['plain cpu']:.3f} s"
        add(f"{name}: checks", t["checked cpu"] / t["plain cpu"], "x", 1.5, note=note)
