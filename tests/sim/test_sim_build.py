# SPDX-License-Identifier: Apache-2.0
"""Text for the host's compiler, builds, and whole programs on the simulated device."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang.language as T
from tilelang.config import Options
from tilelang.engine.lower import lower
from tilelang.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    CacheError,
    SimulatorError,
    ToolchainError,
)
from tilelang.ir import DType, HostProgram
from tilelang.sim import SimModule, build, run_program, tensor_map
from tilelang.sim.source import host_source
from tilelang.sim.toolchain import host_compiler

ADD = """#include <tl/core.h>

extern "C" __global__ void NAME(int* A) {
  A[threadIdx.x] += 1;
}
"""


def test_lines_keep_their_numbers() -> None:
    """All lines up to the next #line come from the one statement that it names."""
    text = 'a\n#line 7 "user.py"\nb\nc\n#line 3\nd\n'
    host = host_source(text, [], "kernel.cu")
    lines = host.text.split("\n")
    first = lines.index('#line 1 "kernel.cu"') + 1
    assert lines[first : first + 6] == ["a", "", "b", "c", "", "d"]
    assert host.user_lines == {
        3: ("user.py", 7), 4: ("user.py", 7), 6: ("user.py", 3), 7: ("user.py", 3),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["exp", "norm", "main", "copy", "k_1"])
def test_names_of_kernels_do_not_collide(sim: Any, name: str) -> None:
    a = np.zeros(32, np.int32)
    sim.run(ADD.replace("NAME", name), a, kernel=name)
    assert a.sum() == 32


def test_a_text_is_compiled_once(cache_dir: Path) -> None:
    build(ADD.replace("NAME", "once"), ["once"])
    (library,) = (cache_dir / "sim").glob("*.so")
    before = library.stat().st_ino  # a use touches the file, a build makes another
    build(ADD.replace("NAME", "once"), ["once"])
    assert library.stat().st_ino == before
    build(ADD.replace("NAME", "twice"), ["twice"])
    assert len(list((cache_dir / "sim").iterdir())) == 2  # and no scratch folder is left


@pytest.mark.parametrize("kept", [0, 64, 5000])
def test_a_damaged_library_is_built_anew(cache_dir: Path, kept: int) -> None:
    """The loader maps what is missing and touches it: the process would end."""
    build(ADD.replace("NAME", "damaged"), ["damaged"])
    (library,) = (cache_dir / "sim").glob("*.so")
    content = library.read_bytes()
    library.unlink()
    library.write_bytes(content[:kept])
    module = build(ADD.replace("NAME", "damaged"), ["damaged"])
    a = np.zeros(1, np.int32)
    module.launch(
        "damaged", (1,), (1,), 0, [ctypes.c_void_p(a.ctypes.data)], [(a.ctypes.data, 4, "A", True)]
    )
    assert a[0] == 1


def test_the_cache_is_private(cache_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build(ADD.replace("NAME", "private"), ["private"])
    assert (cache_dir / "sim").stat().st_mode & 0o077 == 0
    monkeypatch.setattr("os.getuid", lambda: 12345)
    with pytest.raises(CacheError, match="another user"):
        build(ADD.replace("NAME", "private"), ["private"])


def test_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    host_compiler.cache_clear()
    with pytest.raises(ToolchainError, match=r"neither g\+\+ nor clang\+\+"):
        host_compiler()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(ToolchainError, match="x86-64 and aarch64, not on"):
        host_compiler()
    monkeypatch.undo()
    host_compiler.cache_clear()


def test_text_that_does_not_compile() -> None:
    with pytest.raises(ToolchainError, match=r"kernel\.cu:4.*nonsense"):
        build(ADD.replace("NAME", "k").replace("A[threadIdx.x] += 1", "nonsense()"), ["k"])
    with pytest.raises(ToolchainError, match="not inline PTX"):
        build(
            ADD.replace("NAME", "k").replace(
                "A[threadIdx.x] += 1", 'asm("bar.sync %0;" :: "h"(A))'
            ),
            ["k"],
        )


def test_an_unknown_kernel(sim: Any) -> None:
    module = build(ADD.replace("NAME", "known"), ["known"])
    with pytest.raises(ArgumentValueError, match="there are known"):
        module.launch("unknown", (1,), (1,), 0, [])


def test_a_tensor_map_of_wrong_form() -> None:
    with pytest.raises(ArgumentValueError, match="1 to 5 dimensions"):
        tensor_map(0, DType("float16"), [1] * 6, [16] * 5, [1] * 6, 0)


# ---------------------------------------------------------------------------------------- programs


def lowered(func: Any) -> tuple[HostProgram, SimModule]:
    artifact = lower(func, "cuda-sim -arch=sm_80")
    program = artifact.host_mod[func.name]
    return program, build(artifact.kernel_source, program.launches)


def scale() -> Any:
    n = T.dynamic("n")

    @T.prim_func
    def scale(X: T.Tensor((n, 3), "float16"), s: T.float32, Y: T.Tensor((n, 3), "float16")):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            for i, j in T.Parallel(64, 3):
                Y[bx * 64 + i, j] = X[bx * 64 + i, j] * s

    return scale


@pytest.mark.parametrize("n", [1, 64, 201, 0])
def test_a_program_with_a_dynamic_size(n: int) -> None:
    program, module = lowered(scale())
    x, y = np.arange(3 * n).reshape(n, 3).astype(np.float16), np.zeros((n, 3), np.float16)
    outputs, reports = run_program(program, module, [x, 0.5, y])
    assert outputs == []
    assert len(reports) == (n > 0)
    np.testing.assert_array_equal(y, x * np.float16(0.5))


def test_a_program_on_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    program, module = lowered(scale())
    x, y = (
        torch.arange(30, dtype=torch.float16).reshape(10, 3),
        torch.zeros(10, 3, dtype=torch.float16),
    )
    run_program(program, module, [x, 2.0, y])
    assert torch.equal(y, x * 2)


def test_arguments_that_do_not_fit() -> None:
    program, module = lowered(scale())
    x = np.zeros((5, 3), np.float16)
    with pytest.raises(ArgumentTypeError, match="takes 3 arguments"):
        run_program(program, module, [x, x])
    with pytest.raises(ArgumentTypeError, match="an array of float16"):
        run_program(program, module, [x.astype(np.float32), 1.0, x])
    with pytest.raises(ArgumentValueError, match="2 dimensions"):
        run_program(program, module, [x[0], 1.0, x])
    with pytest.raises(ArgumentValueError, match="a size of n"):
        run_program(program, module, [x, 1.0, np.zeros((6, 3), np.float16)])


def test_the_users_line_of_a_generated_kernel() -> None:
    """A fault in a generated kernel is reported on the line of the Python program."""
    artifact = lower(scale(), "cuda-sim -arch=sm_80", options=Options(line_directives=True))
    program = artifact.host_mod["scale"]
    source = artifact.kernel_source.replace("] * ", "+ 4096] * ", 1)
    x = np.zeros((64, 3), np.float16)
    with pytest.raises(SimulatorError) as caught:
        run_program(program, build(source, program.launches), [x, 1.0, x.copy()])
    assert caught.value.kind == "out_of_bounds"
    assert caught.value.span is not None
    assert "Y[bx * 64 + i, j] = X[bx * 64 + i, j] * s" in str(caught.value)
