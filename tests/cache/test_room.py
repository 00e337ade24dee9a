# SPDX-License-Identifier: Apache-2.0
"""The size limit of the cache: what goes, what stays, and who may be looking meanwhile."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import tilelang
import tilelang.language as T
from tilelang.cache import clear_memory, room
from tilelang.cache.room import Entry, entries, keep_limit, remove_entry
from tilelang.cache.store import cache_root, clear_disk
from tilelang.config import env
from tilelang.errors import OptionError


@pytest.fixture(autouse=True)
def nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_seen", {})
    clear_memory()


def make(by: float) -> Any:
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(8):
                B[i] = A[i] * by

    return tilelang.compile(main, out_idx=-1, target="llvm")


def fake(cache: Path, name: str, size: int, age: float, version: str = "0.1") -> Path:
    """An entry of so many bytes, used so many seconds ago."""
    folder = cache / version / "linux" / "kernels" / name
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_bytes(b"x" * size)
    os.utime(folder / "manifest.json", (time.time() - age,) * 2)
    return folder


def names(cache: Path) -> list[str]:
    return sorted(e.folder.name for e in entries(cache))


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    for name, age in (("new", 1), ("old", 300), ("middle", 20), ("older", 500)):
        fake(tmp_path, name, 100, age)
    keep_limit(tmp_path, 100, 390)
    assert names(tmp_path) == ["middle", "new", "old"]
    keep_limit(tmp_path, 100, 120)
    assert names(tmp_path) == ["new"]


def test_within_the_limit_nothing_goes(tmp_path: Path) -> None:
    fake(tmp_path, "a", 100, 1)
    fake(tmp_path, "b", 100, 1)
    keep_limit(tmp_path, 100, 200)
    assert names(tmp_path) == ["a", "b"]


def test_a_tenth_is_freed(tmp_path: Path) -> None:
    for n in range(20):
        fake(tmp_path, f"{n:02}", 100, 100 - n)
    keep_limit(tmp_path, 100, 1950)
    assert names(tmp_path) == [f"{n:02}" for n in range(3, 20)]


def test_entries_of_other_versions_count_and_go(tmp_path: Path) -> None:
    fake(tmp_path, "old", 100, 50, version="0.0")
    fake(tmp_path, "new", 100, 5)
    keep_limit(tmp_path, 100, 150)
    assert names(tmp_path) == ["new"]


def simulated(cache: Path, name: str, size: int, age: float) -> Path:
    """A library of the simulator."""
    path = cache / "sim" / f"{name}.so"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_what_the_simulator_compiled_counts_and_goes(tmp_path: Path) -> None:
    old = simulated(tmp_path, "old", 100, 500)
    new = simulated(tmp_path, "new", 100, 5)
    fake(tmp_path, "kernel", 100, 50)
    keep_limit(tmp_path, 100, 250)
    assert names(tmp_path) == ["kernel", "new.so"]
    keep_limit(tmp_path, 100, 120)
    assert names(tmp_path) == ["new.so"]
    assert not old.exists()
    assert new.exists()


def test_clearing_removes_what_the_simulator_compiled(tmp_path: Path) -> None:
    make(1.0)
    library = simulated(env.TILELANG_CACHE_DIR, "a", 10, 5)
    other = fake(env.TILELANG_CACHE_DIR, "kernel", 100, 50, version="other")
    assert clear_disk() == 1
    assert not library.exists()
    assert other.exists()


def test_what_other_processes_write_is_seen_after_a_sixteenth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []

    def looking(cache: Path) -> Any:
        looked.append(cache)
        return iter(())

    monkeypatch.setattr(room, "entries", looking)
    for _ in range(64):
        keep_limit(tmp_path, 10, 1600)
    assert len(looked) == 1 + 63 // 10


def test_a_hit_counts_as_use(monkeypatch: pytest.MonkeyPatch) -> None:
    make(1.0)
    (first,) = entries(env.TILELANG_CACHE_DIR)
    make(2.0)
    for e in entries(env.TILELANG_CACHE_DIR):
        age = 1000 if e.folder == first.folder else 2000  # the first one would go first
        os.utime(e.folder / "manifest.json", (age, age))
    clear_memory()
    make(1.0)
    monkeypatch.setattr(room, "_seen", {})
    monkeypatch.setenv("TILELANG_CACHE_SIZE", str(int(2.5 * first.size)))
    make(3.0)
    kept = {e.folder for e in entries(env.TILELANG_CACHE_DIR)}
    assert first.folder in kept
    assert len(kept) == 2


def test_a_kernel_larger_than_the_cache_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    make(1.0)
    monkeypatch.setenv("TILELANG_CACHE_SIZE", "100")
    make(2.0)
    assert len(list((cache_root() / "kernels").iterdir())) == 1


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", None),
        ("100", 100),
        ("2k", 2048),
        ("500M", 500 << 20),
        ("4GiB", 4 << 30),
        ("", 4 << 30),
    ],
)
def test_sizes(monkeypatch: pytest.MonkeyPatch, text: str, size: int | None) -> None:
    monkeypatch.setenv("TILELANG_CACHE_SIZE", text)
    assert size == env.TILELANG_CACHE_SIZE


def test_sizes_that_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("much", "-1", "4X", "1.5G", "G"):
        monkeypatch.setenv("TILELANG_CACHE_SIZE", text)
        with pytest.raises(OptionError, match="a size such as 500M or 4G"):
            _ = env.TILELANG_CACHE_SIZE


def test_two_that_remove_the_same_entries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look before either removes: the second finds nothing left to do, and removes no more."""
    for n in range(8):
        fake(tmp_path, str(n), 100, 100 - n)
    both = threading.Barrier(2)

    def looking(cache: Path) -> list[Entry]:
        found = list(entries(cache))
        both.wait(30)
        return found

    monkeypatch.setattr(room, "entries", looking)
    monkeypatch.setattr(room, "_guard", contextlib.nullcontext())  # as in two processes
    threads = [threading.Thread(target=keep_limit, args=(tmp_path, 0, 500)) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert names(tmp_path) == ["4", "5", "6", "7"]
    assert not list(tmp_path.glob("*/*/.staging/*"))


def test_an_entry_that_is_gone_is_no_error(tmp_path: Path) -> None:
    folder = fake(tmp_path, "a", 10, 1)
    assert remove_entry(folder)
    assert not remove_entry(folder)


def test_what_dead_processes_left_is_removed(tmp_path: Path) -> None:
    fake(tmp_path, "a", 100, 50)
    fake(tmp_path, "b", 100, 5)
    staging = tmp_path / "0.1" / "linux" / ".staging"
    for name, age in (("dead", 7200), ("alive", 10)):
        (staging / name).mkdir(parents=True)
        (staging / name / "part").write_text("x")
        os.utime(staging / name, (time.time() - age,) * 2)
    keep_limit(tmp_path, 0, 150)
    assert [p.name for p in staging.iterdir()] == ["alive"]
