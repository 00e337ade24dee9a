# SPDX-License-Identifier: Apache-2.0
"""The kernel cache among processes, and on disks that do not cooperate, for real."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tilelang
from tilelang.cache.store import cache_root

ROOT = Path(tilelang.__file__).parents[1]

PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import numpy as np
import tilelang
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1):
        for i in T.Parallel(8):
            B[i] = A[i] * 2.0

def check():
    kernel = tilelang.compile(main, out_idx=-1, target="llvm")
    assert (kernel(np.ones(8, np.float32)) == 2).all()
    print("lowered" if kernel.artifact.timings else "from disk")
"""


def start(
    tmp_path: Path, text: str, name: str = "program.py", **options: object
) -> subprocess.Popen:
    path = tmp_path / name
    path.write_text(PROGRAM + text)
    return subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        **options,
    )  # fmt: skip


def ran(process: subprocess.Popen, code: int = 0) -> tuple[str, str]:
    """What it printed."""
    out, err = process.communicate(timeout=200)
    assert process.returncode == code, err
    return out.strip(), err


def kernels() -> list[Path]:
    folder = cache_root() / "kernels"
    return list(folder.iterdir()) if folder.is_dir() else []


def test_two_processes_at_once(tmp_path: Path) -> None:
    for process in [start(tmp_path, "check()") for _ in range(2)]:
        ran(process)
    assert len(kernels()) == 1
    assert ran(start(tmp_path, "check()"))[0] == "from disk"


def test_a_process_that_finds_the_entry_made_meanwhile(tmp_path: Path) -> None:
    """Both lower; the second to publish finds an entry, which is as good."""
    late = """
from tilelang.cache import store
publish = store._publish
def late(place, entry):
    import shutil
    shutil.copytree(place, entry)
    publish(place, entry)
store._publish = late
check()
"""
    out, err = ran(start(tmp_path, late))
    assert (out, err) == ("lowered", "")
    assert ran(start(tmp_path, "check()"))[0] == "from disk"


def test_a_writer_that_is_killed_leaves_no_entry(tmp_path: Path) -> None:
    torn = """
import os
from pathlib import Path
write = Path.write_bytes
def dying(path, data):
    write(path, data[: len(data) // 2])
    if path.name.startswith("host_kernel"):
        os._exit(9)
Path.write_bytes = dying
check()
"""
    ran(start(tmp_path, torn), code=9)
    assert kernels() == []
    assert ran(start(tmp_path, "check()"))[0] == "lowered"
    assert ran(start(tmp_path, "check()"))[0] == "from disk"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
def test_a_disk_that_is_full_in_the_middle_of_a_file(tmp_path: Path) -> None:
    full = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
check()
"""
    out, err = ran(start(tmp_path, full))
    assert out == "lowered"
    assert "the kernel is not cached: " in err
    assert kernels() == []
    assert not list((cache_root() / ".staging").iterdir())
    assert ran(start(tmp_path, "check()"))[0] == "lowered"


NOBODY = 65534


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
@pytest.mark.parametrize("filled", [True, False])
def test_a_read_only_directory(tmp_path: Path, filled: bool) -> None:
    """It is read from, and not written to. root may write anywhere: it becomes nobody."""
    if filled:
        ran(start(tmp_path, "check()"))
    else:
        (cache_root() / "kernels").mkdir(parents=True)
        for folder in (cache_root(), cache_root() / "kernels"):
            folder.chmod(0o700)
    is_root = os.getuid() == 0
    folders = [p for p in (tmp_path, *tmp_path.rglob("*")) if p.is_dir()]
    try:
        for p in [*folders, *(f for f in tmp_path.rglob("*") if f.is_file())]:
            if is_root:
                os.chown(p, NOBODY, NOBODY)
        become = f"import os; os.setgid({NOBODY}); os.setuid({NOBODY})\n" if is_root else ""
        for p in folders:
            p.chmod(0o500)
        for parent in tmp_path.parents if is_root else ():
            if parent.name.startswith(("pytest-", "popen-")):  # nobody has to get through
                parent.chmod(0o755)
        # What root's home holds must be loaded before.
        program = (
            "import os\nfrom tilelang.cache import key\n"
            "tilelang.disable_cache(); check(); tilelang.enable_cache()\n"
            f"key.sources_hash(); key.tool_versions(tilelang.tvm.target.Target('llvm'))\n"
            f"{become}check()"
        )
        path = tmp_path.parent / f"{tmp_path.name}.py"
        path.write_text(PROGRAM + program)
        process = subprocess.Popen(
            [sys.executable, "-B", str(path)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        out, err = ran(process)
        assert out.split("\n") == ["lowered", "from disk" if filled else "lowered"]
        assert ("not cached" in err) == (not filled)
    finally:
        for p in folders:
            p.chmod(0o700)


def test_an_entry_removed_while_it_is_read(tmp_path: Path) -> None:
    """Another process makes room at the wrong moment: a miss, and no word about damage."""
    ran(start(tmp_path, "check()"))
    gone = """
from tilelang.cache import store
from tilelang.cache.room import remove_entry
read = store._read_entry
def late(entry):
    remove_entry(entry)
    return read(entry)
store._read_entry = late
check()
"""
    assert ran(start(tmp_path, gone)) == ("lowered", "")


def test_processes_that_keep_a_small_limit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = """
def scaled(by):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i] * by
    return tilelang.compile(main, out_idx=-1, target="llvm")

for n in range(8):
    assert scaled(float(n + len(sys.argv)))(np.ones(8, np.float32))[0] == n + len(sys.argv)
"""
    ran(start(tmp_path, "check()"))
    (first,) = kernels()
    size = sum(f.stat().st_size for f in first.iterdir())
    monkeypatch.setenv("TILELANG_CACHE_SIZE", str(4 * size))
    for process in [start(tmp_path, many, f"p{n}.py") for n in range(2)]:
        assert ran(process)[1] == ""
    total = sum(f.stat().st_size for folder in kernels() for f in folder.iterdir())
    assert 0 < total <= 5 * size  # the limit, and what one process wrote as the other looked
