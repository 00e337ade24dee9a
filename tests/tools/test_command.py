# SPDX-License-Identifier: Apache-2.0
"""`python -m tilelang`, in-process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilelang.tools import tables
from tilelang.tools.command import main

ROOT = Path(__file__).parents[2]
PROGRAM = """
import numpy as np, tilelang, tilelang.language as T

@tilelang.jit(target="llvm", out_idx=[-1])
def double(n):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * 2
    return main

assert (double(5)(np.ones(5, np.float32)) == 2).all()
"""


def test_generated_pages_are_current() -> None:
    folder = ROOT / "docs" / "generated"
    stored = {p.name: p.read_text(encoding="utf-8") for p in folder.glob("*.md")}
    stale = [name for name, text in tables.pages().items() if stored.get(name) != text]
    assert stale == [], "run `make golden` (or `python -m tilelang docs`)"
    assert set(stored) == set(tables.pages())


def test_docs_are_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", str(tmp_path), "--check"]) == 1
    assert "ops.md" in capsys.readouterr().err
    assert main(["docs", str(tmp_path)]) == 0
    assert main(["docs", str(tmp_path), "--check"]) == 0


def test_env_says_what_a_report_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env"]) == 0
    out = capsys.readouterr().out
    names = ["tilelang", "python", "numpy", "NVRTC", "CUDA driver", "target auto", "kernel cache"]
    assert [n for n in names if f"\n{n} " not in f"\n{out}"] == []


def test_passes_are_listed_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["passes"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names[0] == "check_kernel"
    assert names[-1] == "split_host_device"


def test_time_and_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from tilelang.cache import enable_cache

    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    try:
        assert main(["time", str(program)]) == 0
    finally:
        enable_cache()
    out = capsys.readouterr().out
    assert "main for llvm" in out
    assert "flatten_buffers" in out
    assert main(["cache", "ls"]) == 0
    assert capsys.readouterr().out.startswith("0 bytes in ")  # a timed run leaves nothing behind


def test_cache_entries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile_program(tmp_path), {"__name__": "program"})
    assert main(["cache", "ls"]) == 0
    out = capsys.readouterr().out
    assert "main for llvm" in out
    assert "at most 4,294,967,296: TILELANG_CACHE_SIZE" in out
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out == "removed 1 kernels\n"
    assert main(["cache", "ls"]) == 0
    assert capsys.readouterr().out.startswith("0 bytes in ")


def explained(capsys: pytest.CaptureFixture[str], *keys: str) -> str:
    assert main(["cache", "explain", *keys]) == 0
    return capsys.readouterr().out


def test_cache_explain(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilelang.cache import clear_memory
    from tilelang.cache.store import cache_root
    from tilelang.tools import disk

    clear_memory()
    exec(compile_program(tmp_path), {"__name__": "program"})
    (entry,) = (cache_root() / "kernels").iterdir()
    text = explained(capsys, entry.name[:8])
    assert "main for llvm" in text
    assert "found by a compilation of this program" in text
    assert "execution backend: tvm_ffi" in text
    assert "def main(" in text
    with monkeypatch.context() as patch:
        patch.setattr(disk, "sources_hash", lambda: "others")
        shown = explained(capsys, entry.name)
        assert "never found again: tilelang's own sources have changed" in shown
    with monkeypatch.context() as patch:
        patch.setattr(disk, "tool_versions", lambda target: "another compiler")
        assert "the tools are others now: another compiler" in explained(capsys, entry.name)
    (entry / "key.json").write_text("{}")
    assert "damaged: it will be compiled again" in explained(capsys, entry.name)


def test_cache_explains_what_tells_two_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tilelang.cache import clear_memory
    from tilelang.cache.store import cache_root

    clear_memory()
    exec(compile_program(tmp_path), {"__name__": "program"})
    text = PROGRAM.replace("* 2", "* 3").replace("== 2", "== 3")
    path = tmp_path / "other.py"
    path.write_text(text)
    exec(compile(text, str(path), "exec"), {"__name__": "program"})
    keys = [p.name for p in (cache_root() / "kernels").iterdir()]
    shown = explained(capsys, *keys)
    assert "program differs:" in shown
    assert "options differs" not in shown
    (cache_root() / "kernels" / keys[0] / "key.json").write_text("{")
    assert f"damaged: {keys[0][:12]}" in explained(capsys, *keys)


def test_cache_explain_needs_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["explain"], ["explain", "a", "b", "c"], ["ls", "a"]):
        assert main(["cache", *arguments]) == 1
        assert "explain KEY [KEY]" in capsys.readouterr().err
    assert main(["cache", "explain", "nothing"]) == 1
    assert "0 kernels have a key that begins with 'nothing'" in capsys.readouterr().err


def compile_program(folder: Path) -> object:
    """Code whose source can be found again, as capturing a kernel needs."""
    path = folder / "program.py"
    path.write_text(PROGRAM)
    return compile(PROGRAM, str(path), "exec")


def test_a_program_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["time", str(tmp_path / "none.py")]) == 1
    assert "there is no file" in capsys.readouterr().err
