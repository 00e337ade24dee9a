# SPDX-License-Identifier: Apache-2.0
"""The benchmarks that need no GPU: the CPU matmul, compile time, calls, import time.

Each measurement runs in a process of its own (`python benchmarks/cpu.py NAME`) that prints one JSON
object, so that nothing is warm that should be cold. `bars()` runs them all.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
REPEATS = 5
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "TILELANG_CPU_THREADS": "1"}
# The first two make OpenBLAS another library than the one that users have.
# Python's own cache of bytecode is what an installed package has; without it, imports compile.
UNSET = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "TILELANG_VERIFY", "PYTHONDONTWRITEBYTECODE")
CPU = ("llvm", "c")
CUDA = ("cuda -arch=sm_80", "cuda -arch=sm_90a")
Clock = Callable[[], float]


@dataclass
class Bar:
    """A figure and the limit that it must keep. `lower`: smaller is better."""

    name: str
    value: float
    unit: str
    limit: float
    lower: bool = True
    note: str = ""

    @property
    def ok(self) -> bool:
        return self.value <= self.limit if self.lower else self.value >= self.limit

    def line(self) -> str:
        sign = "<=" if self.lower else ">="
        verdict = "ok  " if self.ok else "MISS"
        bound = f"{sign} {self.limit:g}"
        return f"{verdict} {self.name:<46} {self.value:9.3f} {self.unit:<10} {bound:<9} {self.note}"

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "ok": self.ok}


def fresh(name: str, *args: str, **env: str) -> dict[str, Any]:
    """What measurement `name` prints in a new process with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        keep = {k: v for k, v in os.environ.items() if k not in UNSET}
        path = os.pathsep.join(filter(None, (str(ROOT), keep.get("PYTHONPATH", ""))))
        keep |= {"PYTHONPATH": path, "TILELANG_CACHE_DIR": cache, **env}
        command = [sys.executable, str(HERE / "cpu.py"), name, *args]
        done = subprocess.run(command, env=keep, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def repeated(name: str, *args: str, **env: str) -> dict[str, float]:
    """The median of each figure over new processes, after one that leaves bytecode behind."""
    runs = [fresh(name, *args, **env) for _ in range(REPEATS + 1)][1:]
    return {key: statistics.median(r[key] for r in runs) for key in runs[0]}


# ------------------------------------------------------------------------------ in the new process


def examples() -> tuple[Any, Any]:
    """The programs that are measured: those of the examples."""
    sys.path.insert(0, str(ROOT / "examples"))
    import flash_attention
    import matmul

    return matmul, flash_attention


def times(f: Callable[[], Any], budget: float, clock: Clock = time.perf_counter) -> list[float]:
    """Seconds of calls within a budget, after a warm-up."""
    f()
    out: list[float] = []
    end = time.perf_counter() + budget
    while len(out) < 5 or time.perf_counter() < end:
        start = clock()
        f()
        out.append(clock() - start)
    return out


def lower_times(target: str) -> dict[str, float]:
    """Milliseconds of lower(), warm: the passes are imported, nothing else is kept. By the clock,
    and of the processor, which other load on the machine disturbs less."""
    from tilelang.engine import lower
    from tilelang.target import Target

    matmul, attention = examples()
    with Target(target):
        programs = {
            "matmul": matmul.matmul.get_tir(
                1024, 1024, 1024, "float16", **matmul.blocks(target, "float16")
            ),
            "attention": attention.attention.get_tir(1, 1024, 8, 64),
        }
    out = {}
    for name, program in programs.items():
        for suffix, clock in (("", time.perf_counter), (" cpu", time.process_time)):
            found = times(lambda p=program: lower(p, target), 1.0, clock)
            out[name + suffix] = 1e3 * statistics.median(found)
    return out


def visits(target: str) -> dict[str, float]:
    """Visits per input node; what twice the program costs."""
    sys.path.insert(0, str(ROOT / "tests" / "engine"))
    import test_visits as t

    one, two = (t.count_visits(t.steps(n), target) for n in (8, 16))
    return {
        "matmul": t.count_visits(t.matmul(), target).per_node,
        "attention": t.count_visits(t.attention(), target).per_node,
        "doubled": two.visits / one.visits,
    }


def cold_compile(target: str) -> dict[str, float]:
    """Seconds from the call of the factory, after the import, to a result (or to host code and
    cubin where there is no GPU)."""
    import numpy as np

    import tilelang
    from tilelang.target import Target
    from tilelang.target.detect import cuda_devices

    matmul, _ = examples()
    on_cpu = target in CPU
    dtype = "float32" if on_cpu else "float16"
    n = 256
    args: list[Any] = [np.zeros(s, dtype) for s in ((n, n), (n, n), n)]
    arch = 0 if on_cpu else Target(target).arch
    device = arch in {d.arch for d in cuda_devices()}  # a cubin runs on its own architecture only
    if device:
        import torch

        args = [torch.from_numpy(x).cuda() for x in args]
        torch.cuda.synchronize()
    blocks = matmul.blocks(target, dtype)
    with Target(target):
        start, busy = time.perf_counter(), time.process_time()
        if on_cpu or device:
            out = matmul.matmul(n, n, n, dtype, **blocks)(*args)
            if device:
                out.cpu()
        else:
            program = matmul.matmul.get_tir(n, n, n, dtype, **blocks)
            tilelang.lower(program, target, None, False, True, True)
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - busy}


def par_compile(target: str) -> dict[str, float]:
    """Seconds of 42 light kernels, one after another and by `par_compile`, and processor seconds of
    both (what one process burns, and what it and its workers burn)."""
    from dataclasses import replace

    import tilelang
    from tilelang.cache import clear_cache
    from tilelang.testing.kernels import ZOO

    def busy() -> float:
        return sum(os.times()[:4])

    # The cache would take the second of two equal programs for the first one.
    funcs = [replace(make(), name=f"{name}_{n}") for name, make in ZOO.items() for n in (0, 1)]
    assert len(funcs) == 42
    tilelang.compile(ZOO["add"](), target=target)  # compilers are loaded
    start, used = time.perf_counter(), busy()
    for func in funcs:
        tilelang.compile(func, target=target)
    middle, used_middle = time.perf_counter(), busy()
    clear_cache()
    again = time.perf_counter()
    tilelang.par_compile(funcs, target=target)
    end = time.perf_counter()
    return {
        "serial": middle - start, "serial cpu": used_middle - used, "together": end - again,
        "together cpu": busy() - used_middle,
    }  # fmt: skip


def disk_hit(target: str) -> dict[str, float]:
    """Milliseconds until a kernel is ready that another process compiled: with everything imported
    before (ours and the packages of others), and from the first `import tilelang` on."""
    command = [sys.executable, str(HERE / "cpu.py")]
    for name in ("first_use", "disk_hit_imported", "disk_hit_imported", "disk_hit_bare"):
        done = subprocess.run([*command, name, target], capture_output=True, text=True, check=True)
        if name == "disk_hit_imported":
            imported = json.loads(done.stdout)
    return {**imported, **json.loads(done.stdout)}


def first_use(target: str) -> dict[str, float]:
    """Compiles the matmul of the zoo, or takes it from the cache on disk."""
    start, busy = time.perf_counter(), time.process_time()
    import tilelang
    from tilelang.testing.kernels import matmul

    kernel = tilelang.compile(matmul(), target=target)
    return {
        "ms": 1e3 * (time.perf_counter() - start),
        "cpu": 1e3 * (time.process_time() - busy),
        "lowered": float(bool(kernel.artifact.timings)),
    }


def disk_hit_imported(target: str) -> dict[str, float]:
    """A hit where a kernel of a few statements was taken from the cache before."""
    import tilelang
    from tilelang.testing.kernels import add, matmul

    func = matmul()
    with tempfile.TemporaryDirectory() as other:
        tilelang.env.TILELANG_CACHE_DIR = Path(other)
        tilelang.compile(add(), target=target)
        del tilelang.env.TILELANG_CACHE_DIR
    from tilelang.cache import key
    from tilelang.runtime import cc

    for remembered in (key.sources_hash, key.tool_versions, cc._version):
        remembered.cache_clear()
    start, busy = time.perf_counter(), time.process_time()
    kernel = tilelang.compile(func, target=target)
    end, used = time.perf_counter(), time.process_time()
    assert not kernel.artifact.timings
    return {"hit": 1e3 * (end - start), "hit cpu": 1e3 * (used - busy)}


def disk_hit_bare(target: str) -> dict[str, float]:
    """A hit in a process that has imported nothing."""
    found = first_use(target)
    assert not found["lowered"]
    return {"bare": found["ms"], "bare cpu": found["cpu"]}


def call_overhead() -> dict[str, float]:
    """Microseconds per call on the CPU: see launch.py."""
    from launch import cpu_costs

    return cpu_costs()


def import_time() -> dict[str, float]:
    """Milliseconds of importing us, of numpy after that, and up to the first CPU result."""
    start, busy = time.perf_counter(), time.process_time()
    import tilelang.language as T  # noqa: F401

    imported = time.perf_counter()
    import numpy as np

    with_numpy = time.perf_counter()
    from launch import small

    from tilelang.target import Target

    with Target("llvm"):
        small()(*(np.zeros(64, np.float32) for _ in range(4)))
    end = time.perf_counter()
    return {
        "import": 1e3 * (imported - start),
        "numpy": 1e3 * (with_numpy - imported),
        "first": 1e3 * (end - start),
        "first cpu": 1e3 * (time.process_time() - busy),
        "torch": float("torch" in sys.modules),
    }


def cpu_gemm(which: str) -> dict[str, float]:
    """See `gemm`."""
    import gemm

    return gemm.cpu_gemm("llvm", which)


def cpu_row(name: str) -> dict[str, float]:
    """See `rows`."""
    import rows

    return rows.cpu_row("llvm", name)


def simulated(arch: str) -> dict[str, float]:
    """See `simulator`."""
    import simulator

    return simulator.simulated(arch)


def proofs() -> dict[str, float]:
    """Microseconds of each proof that index arithmetic asks for: the best of many."""
    from tests.arith.test_proofs import PROOFS
    from tilelang.arith import Facts
    from tilelang.ir import session

    best: dict[str, float] = {}
    for _ in range(300):
        for proof in PROOFS:
            with session():
                facts = Facts()
                claim = proof(facts)
                start = time.perf_counter()
                facts.prove(claim)
                took = 1e6 * (time.perf_counter() - start)
            best[proof.__name__] = min(took, best.get(proof.__name__, took))
    return best


MEASUREMENTS: dict[str, Callable[..., dict[str, float]]] = {
    f.__name__: f
    for f in (
        cpu_gemm,
        cpu_row,
        lower_times,
        visits,
        proofs,
        cold_compile,
        par_compile,
        disk_hit,
        first_use,
        disk_hit_imported,
        disk_hit_bare,
        call_overhead,
        import_time,
        simulated,
    )
}

# ------------------------------------------------------------------------------ all of them


def bars() -> list[Bar]:
    """Every bar that this machine can measure; printed as they come."""
    sys.path.insert(0, str(ROOT))
    import gemm
    import rows
    import simulator
    from launch import CPU_BARS, kept

    from tilelang.target.detect import cuda_devices

    out: list[Bar] = []

    def add(*args: Any, **kw: Any) -> None:
        out.append(Bar(*args, **kw))
        print(out[-1].line(), flush=True)

    gemm.bars(add, lambda which: fresh("cpu_gemm", which, **ONE_THREAD))
    rows.bars(add, lambda name: fresh("cpu_row", name, **ONE_THREAD))
    simulator.bars(add, lambda arch: fresh("simulated", arch))
    for target in ("llvm", *CUDA):
        t = fresh("lower_times", target)
        for name, limit in (("matmul", 60), ("attention", 200)):
            note = f"processor {t[name + ' cpu']:.0f} ms"
            add(f"lower({name}) {target}", t[name], "ms", limit, note=note)
    for target in ("llvm", *CUDA):
        v = fresh("visits", target)
        for name in ("matmul", "attention"):
            add(f"visits per node, {name}, {target}", v[name], "visits", 60)
        add(f"twice the program, {target}", v["doubled"], "x visits", 2.0)
    for name, us in fresh("proofs").items():
        add(f"proof: {name.replace('_', ' ')}", us, "us", 150)
    # A machine with a GPU has a faster processor, and NVRTC is most of that time.
    hopper = 0.7 if cuda_devices() else 1.6
    for target, limit in zip((*CPU, *CUDA), (0.15, 0.35, 1.2, hopper), strict=True):
        t = repeated("cold_compile", target)
        note = f"processor {t['cpu']:.2f} s"
        add(f"cold compile of the matmul, {target}", t["seconds"], "s", limit, note=note)
    for target in ("llvm", CUDA[-1]):
        p = fresh("par_compile", target)
        note = (
            f"one by one {p['serial']:.1f} s; processor {p['together cpu']:.1f} s, one by one"
            f" {p['serial cpu']:.1f} s"
        )
        add(f"par_compile of 42 light kernels, {target}", p["together"], "s", 12, note=note)
    for target in ("llvm", "c", CUDA[-1]):
        h = repeated("disk_hit", target)
        note = f"processor {h['hit cpu']:.0f} ms; with all imports {h['bare cpu']:.0f} ms"
        add(f"disk-cache hit in a new process, {target}", h["hit"], "ms", 30, note=note)
    c = repeated("call_overhead")
    beside = ("tvm-ffi no-op, 4 tensors", "torch.add(a, b, out=c)", "torch.empty")
    note = ", ".join(f"{name} {c[name]:.2f} us" for name in beside)
    for what, us, limit in kept(c, CPU_BARS):
        add(f"call on CPU: {what}", us, "us", limit, note=note)
    i = repeated("import_time")
    note = f"numpy alone: {i['numpy']:.0f} ms" + ("; torch was imported" if i["torch"] else "")
    add("import tilelang, tilelang.language", i["import"], "ms", 150, note=note)
    note = f"processor {i['first cpu']:.0f} ms"
    add("import and first CPU compile", i["first"], "ms", 700, note=note)
    return out


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    print(json.dumps(MEASUREMENTS[sys.argv[1]](*sys.argv[2:])))
