# SPDX-License-Identifier: Apache-2.0
"""`par_compile`: lowering in processes, whatever the program and wherever it is called from."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import threading
import warnings
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cache import clear_memory
from tilelang.engine import BACKENDS
from tilelang.engine.callback import register_cuda_postproc, unregister_postproc
from tilelang.errors import ArgumentValueError, ResourceError
from tilelang.ir import PrimFunc
from tilelang.jit import kernel as kernel_module
from tilelang.jit import pool as pool_module
from tilelang.jit.pool import LoweringPool, Worker
from tilelang.target import Target
from tilelang.testing.kernels import ZOO

ROOT = str(Path(tilelang.__file__).parents[1])


@pytest.fixture(autouse=True)
def two_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "processors", lambda: 2)
    clear_memory()


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> list[Worker]:
    """Those that are started."""
    started: list[Worker] = []

    class Noted(Worker):
        def __init__(self) -> None:
            super().__init__()
            started.append(self)

    monkeypatch.setattr(pool_module, "Worker", Noted)
    return started


@pytest.fixture
def lowered_here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that this process lowers."""
    names: list[str] = []
    original = kernel_module.lower

    def noting(func: PrimFunc, *args: Any, **kwargs: Any) -> Any:
        names.append(func.name)
        return original(func, *args, **kwargs)

    monkeypatch.setattr(kernel_module, "lower", noting)
    return names


def scale(by: float, n: int = 8) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(n):
                B[i] = A[i] * by

    return main


def scales(count: int = 4) -> list[PrimFunc]:
    return [scale(float(k)) for k in range(count)]


def check(kernels: list[Any]) -> None:
    x = np.arange(8, dtype=np.float32)
    for by, kernel in enumerate(kernels):
        np.testing.assert_array_equal(kernel(x), x * by)


def compiled(**kwargs: Any) -> list[Any]:
    return tilelang.par_compile(scales(), out_idx=-1, target="llvm", **kwargs)


def test_kernels_are_lowered_in_other_processes(
    workers: list[Worker], lowered_here: list[str]
) -> None:
    check(compiled())
    assert lowered_here == []
    assert 1 <= len(workers) <= 2
    assert [w.process.returncode for w in workers] == [0] * len(workers)


@pytest.mark.parametrize("target", ["llvm", "c", "cuda-sim -arch=sm_90a"])
def test_the_code_is_the_same_as_of_compile(target: str, lowered_here: list[str]) -> None:
    funcs = [ZOO[name]() for name in ("add", "matmul", "softmax", "two_kernels")]
    together = tilelang.par_compile(funcs, target=target)
    assert lowered_here == []
    tilelang.cache.clear_cache()
    for func, kernel in zip(funcs, together, strict=True):
        alone = tilelang.compile(func, target=target)
        assert kernel.get_kernel_source() == alone.get_kernel_source()
        assert kernel.get_host_source() == alone.get_host_source()
        assert kernel.params == alone.params
        assert kernel.artifact.call == alone.artifact.call
        assert list(kernel.artifact.notes) == list(alone.artifact.notes)
        assert kernel.show("time").count("ms") == alone.show("time").count("ms")


@pytest.mark.parametrize("backend", BACKENDS["llvm"].execution)
def test_for_every_execution_backend(backend: str, lowered_here: list[str]) -> None:
    check(compiled(execution_backend=backend))
    assert lowered_here == []


def test_what_is_in_the_cache_needs_no_process(workers: list[Worker]) -> None:
    first = compiled()
    del workers[:]
    assert all(a is b for a, b in zip(first, compiled(), strict=True))
    clear_memory()
    check(compiled())
    assert workers == []


def test_a_single_kernel_or_worker_needs_no_process(workers: list[Worker]) -> None:
    check(compiled(num_workers=1))
    check(tilelang.par_compile(scales(2), out_idx=-1, target="llvm"))
    assert workers == []


def test_num_workers_is_checked() -> None:
    for wrong in (0, -1, True):
        with pytest.raises(ArgumentValueError, match="num_workers must be 1 or more"):
            compiled(num_workers=wrong)


def test_what_cannot_be_pickled_is_lowered_here(lowered_here: list[str]) -> None:
    funcs = scales()
    funcs[1] = funcs[1].with_attr("mine", lambda: 0)
    check(tilelang.par_compile(funcs, out_idx=-1, target="llvm"))
    assert lowered_here == ["main"]


class Mine:
    """A class that no other process can import by this name."""


Mine.__module__ = "__main__"
Mine.__qualname__ = "Mine"


def test_what_cannot_be_read_back_is_lowered_here(
    monkeypatch: pytest.MonkeyPatch, lowered_here: list[str]
) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "Mine", Mine, raising=False)
    funcs = [f.with_attr("mine", Mine()) for f in scales()]
    check(tilelang.par_compile(funcs, out_idx=-1, target="llvm"))
    assert lowered_here == ["main"] * 4


@pytest.mark.parametrize(
    "program",
    [
        "raise SystemExit(3)",
        "import sys; sys.stdout.write('text')",
        # answers that it is ready, and dies of the first kernel
        "import sys, os; sys.path[:] = {path!r}\n"
        "from {package}.jit.worker import receive, send\n"
        "send(sys.stdout.buffer, b'ready'); receive(sys.stdin.buffer); os._exit(1)",
    ],
)
def test_workers_that_do_not_live(
    monkeypatch: pytest.MonkeyPatch, lowered_here: list[str], program: str
) -> None:
    monkeypatch.setattr(pool_module, "_PROGRAM", program)
    check(compiled())
    assert lowered_here == ["main"] * 4


@pytest.mark.parametrize("executable", ["", "/no/such/program"])
def test_an_interpreter_without_a_program(
    monkeypatch: pytest.MonkeyPatch, lowered_here: list[str], executable: str
) -> None:
    monkeypatch.setattr(sys, "executable", executable)
    check(compiled())
    assert lowered_here == ["main"] * 4


def test_a_hook_of_this_process_sees_the_source(lowered_here: list[str]) -> None:
    pytest.importorskip("nvidia.cu13")
    register_cuda_postproc(lambda code, target: f"// edited\n{code}")
    try:
        kernels = tilelang.par_compile(scales(), target="cuda -arch=sm_80")
    finally:
        unregister_postproc("cuda")
    assert all("// edited" in k.get_kernel_source() for k in kernels)
    assert len(lowered_here) == 4


def test_an_error_is_on_the_users_line() -> None:
    pytest.importorskip("nvidia.cu13")

    @T.prim_func
    def large(A: T.Tensor((1 << 17,), "float32")):
        with T.Kernel(1):
            s = T.alloc_shared((1 << 17,), "float32")
            T.copy(A, s)
            T.copy(s, A)

    with pytest.raises(ResourceError, match="shared memory") as caught:
        tilelang.par_compile([*scales(3), large], target="cuda -arch=sm_80")
    assert caught.value.span.file == __file__
    kernels = tilelang.par_compile(
        [large, *scales(3)], target="cuda -arch=sm_80", ignore_error=True
    )
    assert [k is None for k in kernels] == [True, False, False, False]


def test_warnings_come_through(monkeypatch: pytest.MonkeyPatch) -> None:
    program = pool_module._PROGRAM.replace(
        "main()",
        "import warnings\nfrom {package}.jit import worker\nfrom {package}.errors import"
        " PerformanceNote\nimport {package}.engine as engine\nlower = engine.lower\n"
        "def noisy(*a, **k):\n    warnings.warn('from afar', PerformanceNote)\n"
        "    print('not an answer')\n    return lower(*a, **k)\nengine.lower = noisy\nmain()",
    )
    monkeypatch.setattr(pool_module, "_PROGRAM", program)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check(compiled())
    assert {str(w.message) for w in caught} == {"from afar"}


def test_stopping_ends_what_is_being_done() -> None:
    with LoweringPool(2) as pool:
        worker = Worker()
        pool.workers.append(worker)
        pool.places.get()
        pool.places.put(worker)
        threading.Timer(0.2, pool.stop).start()
        worker.requests.write((1 << 20).to_bytes(8, "little"))  # a message that never ends
        with pytest.raises(CancelledError):
            pool.ask(b"")
    assert worker.process.returncode


PROGRAM = f"""
import sys
sys.path.insert(0, {ROOT!r})
import tilelang
import tilelang.language as T
from tilelang.jit import compiler, pool

compiler.processors = lambda: 2
started = []

class Noted(pool.Worker):
    def __init__(self):
        super().__init__()
        started.append(self.process)

pool.Worker = Noted

@tilelang.jit(target="llvm", out_idx=-1)
def scaled(by):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i] * by
    return main

kernels = scaled.par_compile([{{"by": float(k)}} for k in range(4)])
import numpy
print([float(k(numpy.ones(8, "float32"))[0]) for k in kernels], len(started) > 0,
      all(p.returncode == 0 for p in started), __name__)
"""


@pytest.mark.parametrize("way", ["file", "exec", "thread"])
def test_a_main_program_without_guard(way: str, tmp_path: Path) -> None:
    program = PROGRAM
    if way == "exec":
        program = f"exec({program!r}, {{'__name__': '__main__'}})"
    elif way == "thread":
        body = textwrap.indent(program, "    ")
        program = f"import threading\ndef run():\n{body}\nt = threading.Thread(target=run)\n"
        program += "t.start(); t.join()"
    path = tmp_path / "program.py"
    path.write_text(program)
    command = [sys.executable, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.stdout == "[0.0, 1.0, 2.0, 3.0] True True __main__\n", done.stderr


def test_a_pool_knows_the_target_of_its_thread() -> None:
    with Target("llvm"):
        assert {k.target for k in tilelang.par_compile(scales())} == {Target("llvm")}
