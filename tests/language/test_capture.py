# SPDX-License-Identifier: Apache-2.0
"""Where the source of a kernel may come from, and what its annotations may be."""

import linecache
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path
from typing import Any

import pytest

import tilelang.language as T
from tilelang.errors import LanguageError, TypeMismatchError
from tilelang.language import remember_source
from tilelang.language.entry import PrimFuncCreater, prim_func

ROOT = Path(__file__).parents[2]
PROGRAM = """
import tilelang.language as T

def factory(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=1):
            for i in T.serial(n):
                A[i] = i
    return main
"""


def test_exec_with_remembered_source() -> None:
    scope: dict[str, Any] = {}
    exec(compile(remember_source(PROGRAM, "<my program>"), "<my program>", "exec"), scope)
    func = scope["factory"](3)
    assert func.body.span.file == "<my program>"
    assert func.body.span.line == 7


def test_exec_of_a_text() -> None:
    text = PROGRAM + "\nmain = factory(3)\n"
    scope: dict[str, Any] = {}
    exec(text, scope)
    assert scope["main"].name == "main"
    assert scope["main"].body.span.line == 7


def test_exec_of_a_literal() -> None:
    scope: dict[str, Any] = {}
    exec(
        "import tilelang.language as T\n"
        "@T.prim_func\n"
        "def main(A: T.Tensor((3,), 'float32')):\n"
        "    with T.Kernel(1):\n"
        "        T.clear(A)\n",
        scope,
    )
    assert scope["main"].name == "main"


def test_exec_of_a_jit_factory_called_later() -> None:
    text = PROGRAM.replace("def factory", "import tilelang\n@tilelang.jit\ndef factory")
    scope: dict[str, Any] = {}
    exec(text, scope)
    del text
    assert scope["factory"].get_tir(5).name == "main"


def test_what_was_typed() -> None:
    from tilelang.language.prompt import statement_around

    lines = ["x = 1", "@a", "@b", "def f():", "    def g():", "", "        pass", "f()"]
    assert statement_around(lines, 4) == "\n".join(lines[1:7]) + "\n"


def test_interactive_prompt(tmp_path: Path) -> None:
    import os
    import pty
    import select
    import time

    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        os.execv(sys.executable, [sys.executable, "-i", "-q"])
    lines = [*PROGRAM.strip().split("\n"), "", "print('name', factory(4).name, 'end')", "exit()"]
    out, deadline = "", time.monotonic() + 60
    for line in lines:
        os.write(fd, (line + "\n").encode())
        time.sleep(0.02)
    while time.monotonic() < deadline and "name main end" not in out:
        if not select.select([fd], [], [], 1)[0]:
            continue
        try:
            out += os.read(fd, 4096).decode()
        except OSError:
            break
    os.close(fd)
    os.waitpid(pid, 0)
    assert "name main end" in out, out


def test_exec_without_source() -> None:
    scope: dict[str, Any] = {}
    exec(compile(PROGRAM, "<unknown>", "exec"), scope)
    with pytest.raises(LanguageError, match="the source of `main` cannot be found") as caught:
        scope["factory"](3)
    assert "remember_source" in caught.value.help


def test_notebook_cell() -> None:
    name = "<ipython-input-7-abc>"
    linecache.cache[name] = (len(PROGRAM), None, PROGRAM.splitlines(keepends=True), name)
    scope: dict[str, Any] = {}
    exec(compile(PROGRAM, name, "exec"), scope)
    assert scope["factory"](2).name == "main"


def test_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = tmp_path / "programs.zip"
    with zipfile.ZipFile(archive, "w") as z:
        z.writestr("zipped_program.py", PROGRAM)
    monkeypatch.syspath_prepend(str(archive))
    import zipped_program

    assert zipped_program.factory(4).name == "main"


def test_other_encodings_and_unicode_columns(tmp_path: Path) -> None:
    path = tmp_path / "unicode_program.py"
    text = PROGRAM.replace("A[i] = i", '"ünïcödé"; A[i] = i + undefined')
    path.write_text(text, encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "unicode_program"}
    exec(compile(text, str(path), "exec"), scope)
    with pytest.raises(NameError, match="undefined"):
        scope["factory"](3)


def test_future_annotations_see_the_enclosing_function() -> None:
    program = "from __future__ import annotations\n" + PROGRAM
    scope: dict[str, Any] = {}
    exec(compile(remember_source(program, "<future>"), "<future>", "exec"), scope)
    assert "T.Tensor((5,), 'float32')" in scope["factory"](5).script()


def test_annotations() -> None:
    def typed(
        A: lambda: T.Tensor((4,), "int8"), x: "T.float16", n: int, f: float, b: bool, p: T.ptr
    ):
        pass

    func = prim_func(typed)
    assert [str(p.dtype) for p in func.params] == [
        "int8", "float16", "int32", "float32", "bool", "handle",
    ]  # fmt: skip


def test_forms_of_tensor() -> None:
    m = T.dynamic("m", "int64")

    def forms(
        A: T.Tensor(8),
        B: T.Tensor[4, m],
        C: T.Tensor[(4, 5), "float16"],  # noqa: F821
        D: T.Tensor[4, 5, T.int8],
        E: T.StridedTensor((4, 5), (10, 2), "float16"),
        F: T.StridedTensor[(4,), (2,), "int32"],  # noqa: F821
        G: T.Buffer((3,), "float64"),
        H: T.Tensor[m],
    ):
        pass

    text = prim_func(forms).script()
    for part in (
        "m = T.dynamic('m', 'int64')",
        "A: T.Tensor((8,), 'float32')",
        "B: T.Tensor((4, m), 'float32')",
        "C: T.Tensor((4, 5), 'float16')",
        "D: T.Tensor((4, 5), 'int8')",
        "strides=(10, 2)",
        "strides=(2,)",
        "G: T.Tensor((3,), 'float64')",
        "H: T.Tensor((m,), 'float32')",
    ):
        assert part in text


def test_what_a_function_knows_of_itself() -> None:
    @T.prim_func
    def named(A: T.Tensor((4,), "float32"), n: T.int32):
        T.func_attr({"note": 1})
        with T.Kernel(1):
            T.clear(A)

    assert named.attrs["global_symbol"] == named.name == "named"
    assert named.attrs["note"] == 1
    assert [p.name for p in named.params] == ["A", "n"]
    assert list(named.buffer_map) == ["A"]
    assert named.with_attr("x", 2).attrs["x"] == 2
    assert "global_symbol" not in named.script()


def test_missing_annotation() -> None:
    with pytest.raises(TypeMismatchError, match="parameter `x` of `f` has no tensor"):

        @T.prim_func
        def f(A: T.Tensor((4,), "float32"), x):
            pass


def test_dynamic_names() -> None:
    a, b = T.dynamic("a, b")
    c = T.symbolic("c", "int64")
    assert (a.name, b.name, c.name, str(c.dtype)) == ("a", "b", "c", "int64")
    assert T.dyn["K"] is T.dyn["K"]
    with pytest.raises(LanguageError, match="not a name"):
        T.dynamic("1x")


def test_bare_tensor_makes_a_creator() -> None:
    import numpy as np

    import tilelang

    @tilelang.prim_func
    def k(A: tilelang.tensor, B: T.Tensor((3,), "int32")):
        with T.Kernel(1):
            T.clear(A)

    assert isinstance(k, PrimFuncCreater)
    assert k.orig_func.__name__ == "k"
    assert "A: T.Tensor((2, 5), 'float16')" in k(A=np.zeros((2, 5), np.float16)).script()


def test_class_scope_and_decorators() -> None:
    class Holder:
        @staticmethod
        @T.prim_func
        def main(A: T.Tensor((4,), "float32")):
            with T.Kernel(1):
                T.clear(A)

    assert Holder.main.name == "main"


def test_import_is_light() -> None:
    code = (
        "import sys, tilelang, tilelang.language\n"
        "print(sorted({'torch', 'llvmlite', 'tvm_ffi'} & set(sys.modules)))"
    )
    run = [sys.executable, "-c", code]
    out = subprocess.run(run, capture_output=True, text=True, check=True, timeout=60, cwd=ROOT)
    assert out.stdout.strip() == "[]"


def test_threads_trace_apart() -> None:
    from concurrent.futures import ThreadPoolExecutor

    scope: dict[str, Any] = {}
    exec(
        compile(remember_source(textwrap.dedent(PROGRAM), "<threads>"), "<threads>", "exec"), scope
    )
    with ThreadPoolExecutor(4) as pool:
        texts = set(pool.map(lambda _: scope["factory"](7).script(), range(16)))
    assert len(texts) == 1
