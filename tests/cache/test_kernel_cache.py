# SPDX-License-Identifier: Apache-2.0
"""The kernel cache: hits, keys, damage, privacy, disks that do not cooperate."""

from __future__ import annotations

import json
import logging
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cache import clear_memory
from tilelang.cache.key import cache_key, sources_hash
from tilelang.cache.store import cache_root, kernel_folder, load_artifact
from tilelang.config import Options
from tilelang.engine import lower
from tilelang.engine.callback import register_cuda_postproc, unregister_postproc
from tilelang.errors import OptionError
from tilelang.ir import PrimFunc
from tilelang.jit import kernel as kernel_module
from tilelang.target import Target
from tilelang.target.detect import Device

LLVM = Target("llvm")


def scale(n: int, by: float = 2.0, name: str = "A") -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(n):
                B[i] = A[i] * by

    return main


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that are lowered, in order; the memory cache starts empty."""
    clear_memory()
    names: list[str] = []

    def counting(func: Any, *args: Any, **kwargs: Any) -> Any:
        names.append(func.name)
        return lower(func, *args, **kwargs)

    monkeypatch.setattr(kernel_module, "lower", counting)
    return names


def make(n: int = 8, by: float = 2.0, **kwargs: Any) -> Any:
    return tilelang.compile(scale(n, by), out_idx=-1, target="llvm", **kwargs)


def works(kernel: Any, n: int = 8, by: float = 2.0) -> None:
    x = np.arange(n, dtype=np.float32)
    np.testing.assert_array_equal(kernel(x), x * by)


def test_memory_then_disk(compiled: list[str]) -> None:
    first = make()
    assert make() is first
    clear_memory()
    second = make()
    assert second is not first
    assert compiled == ["main"]
    works(second)
    assert second.get_kernel_source() == first.get_kernel_source()
    assert second.get_host_source() == first.get_host_source()
    assert second.params == first.params
    with pytest.raises(ValueError, match="expected 1 dimensions, got 2"):
        second(np.zeros((8, 1), np.float32))


@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes"])
def test_every_backend_comes_back_from_disk(compiled: list[str], backend: str) -> None:
    make(execution_backend=backend)
    clear_memory()
    works(make(execution_backend=backend))
    assert compiled == ["main"]


def test_different_things_are_compiled_apart(compiled: list[str]) -> None:
    make()
    make(9)
    make(by=3.0)
    make(pass_configs={"tl.enable_fast_math": True})
    make(compile_flags="-DX")
    make(execution_backend="ctypes")
    tilelang.compile(scale(8), target="llvm")
    assert len(compiled) == 7


def key_of(func: PrimFunc, **changes: Any) -> str | None:
    values: dict[str, Any] = {
        "out_idx": [1], "execution_backend": "tvm_ffi", "target": LLVM, "target_host": LLVM,
        "options": Options(),
    }  # fmt: skip
    values.update(changes)
    return cache_key(func, **values)


def test_the_key_depends_on_nothing_else() -> None:
    assert key_of(scale(8)) == key_of(scale(8))


def test_the_key_depends_on_everything() -> None:
    keys = [
        key_of(scale(8)),
        key_of(scale(9)),
        key_of(scale(8), out_idx=[]),
        key_of(scale(8), execution_backend="ctypes"),
        key_of(scale(8), target=Target("llvm -mcpu=x86-64-v3")),
        key_of(scale(8), target_host=Target("c")),
        key_of(scale(8), options=Options(fast_math=True)),
        key_of(scale(8).with_attr("import_source", "int f();")),
    ]
    assert len(set(keys)) == len(keys)


def turned(how: Callable[[Any, Any], Any]) -> PrimFunc:
    """A shared tile whose layout is no sum of digits."""

    @T.prim_func
    def main(A: T.Tensor((16, 24), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16, 24), "float32")
            T.annotate_layout({s: how})
            T.copy(A, s)

    return main


def held(how: Callable[[Any, Any], Any]) -> PrimFunc:
    """The same for a fragment."""

    @T.prim_func
    def main(A: T.Tensor((16, 24), "float32")):
        with T.Kernel(1, threads=32):
            f = T.alloc_fragment((16, 24), "float32")
            T.annotate_layout(
                {f: T.Fragment((16, 24), forward_thread_fn=how, forward_index_fn=lambda i, j: j)}
            )
            T.copy(A, f)

    return main


@pytest.mark.parametrize(
    ("make", "one", "other"),
    [
        (turned, lambda i, j: i * 24 + (j + i) % 24, lambda i, j: i * 24 + (j + 5 * i) % 24),
        (held, lambda i, j: (i + j) % 16, lambda i, j: (i + 3 * j) % 16),
    ],
)
def test_layouts_that_are_tables_are_part_of_the_key(make: Any, one: Any, other: Any) -> None:
    """Their text does not tell them apart."""
    assert make(one).script() == make(other).script()
    assert "T.opaque" in make(one).script()
    keys = [key_of(make(how), target=Target("cuda-sim")) for how in (one, one, other)]
    assert keys[0] == keys[1]
    assert keys[0] is not None
    assert keys[0] != keys[2]


def test_what_the_text_does_not_tell_is_never_cached() -> None:
    assert key_of(scale(8).with_attr("mine", object())) is None


def test_the_multiprocessors_of_a_persistent_grid_are_part_of_the_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def keys(num_sms: int) -> list[str | None]:
        devices = (Device(90, num_sms), Device(80, num_sms))
        monkeypatch.setattr("tilelang.target.cuda_devices", lambda: devices)
        names = ("cuda -arch=sm_90a", "cuda -arch=sm_80", "cuda-sim -arch=sm_90a")
        return [key_of(scale(8), target=Target(name)) for name in names]

    many, few = keys(132), keys(114)
    assert many[0] != few[0]
    assert many[1:] == few[1:]


def test_a_hook_that_edits_the_source_is_never_cached() -> None:
    target = Target("cuda-sim")
    register_cuda_postproc(lambda code, target: code)
    try:
        assert key_of(scale(8), target=target) is None
    finally:
        unregister_postproc("cuda")


def test_switches(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    tilelang.disable_cache()
    try:
        assert not tilelang.is_cache_enabled()
        make()
        make()
    finally:
        tilelang.enable_cache()
    assert not cache_root().joinpath("kernels").exists()
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    make()
    assert len(compiled) == 3


def entry() -> Path:
    (folder,) = (cache_root() / "kernels").iterdir()
    return folder


def test_layout_and_privacy(cache_dir: Path) -> None:
    make()
    folder = entry()
    names = sorted(p.name for p in folder.iterdir())
    assert names == [
        "device_kernel.ll", "host_kernel.ll", "host_kernel.o", "key.json", "manifest.json",
        "params.json",
    ]  # fmt: skip
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest["files"]) == set(names) - {"manifest.json"}
    assert manifest["kernel"] == "main"
    assert folder.is_relative_to(cache_dir / tilelang.__version__)
    for private in (cache_root(), folder.parent):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
    assert list((cache_root() / ".staging").iterdir()) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "host_kernel.o").write_bytes(b"garbage"),
        lambda f: (f / "host_kernel.o").unlink(),
        lambda f: (f / "manifest.json").write_text("{"),
        lambda f: (f / "manifest.json").write_text('{"files": {}}'),
        lambda f: (f / "manifest.json").write_text('{"files": 3}'),
        lambda f: (f / "params.json").write_text("[]"),
        lambda f: (f / "device_kernel.ll").write_text(""),
        lambda f: [p.unlink() for p in f.iterdir()],
    ],
)
def test_a_damaged_entry_is_compiled_again(
    compiled: list[str], caplog: pytest.LogCaptureFixture, damage: Any
) -> None:
    make()
    damage(entry())
    clear_memory()
    with caplog.at_level(logging.WARNING, "tilelang"):
        works(make())
    assert compiled == ["main", "main"]
    assert "damaged" in caplog.text
    clear_memory()
    works(make())
    assert len(compiled) == 2


def test_an_entry_that_others_may_write_is_not_used(compiled: list[str]) -> None:
    make()
    cache_root().chmod(0o777)
    clear_memory()
    works(make())
    assert len(compiled) == 2
    assert stat.S_IMODE(cache_root().stat().st_mode) == 0o700


@pytest.mark.parametrize("failing", ["mkdtemp", "rename"])
def test_a_full_disk_costs_only_time(
    compiled: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    failing: str,
) -> None:
    def full(*args: Any, **kwargs: Any) -> Any:
        raise OSError(28, "No space left on device")

    from tilelang.cache import store

    monkeypatch.setattr(store.tempfile if failing == "mkdtemp" else store.os, failing, full)
    works(make())
    assert "not cached" in caplog.text


def test_a_folder_that_cannot_be_made(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "file" / "cache"))
    works(make())


def test_another_users_folder_is_refused(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make()
    owner = os.getuid() + 1
    monkeypatch.setattr(os, "getuid", lambda: owner)
    clear_memory()
    works(make())
    assert len(compiled) == 2


def test_threads_compile_a_kernel_once(compiled: list[str]) -> None:
    func = scale(8)
    kernels: list[Any] = []

    def work() -> None:
        kernels.append(tilelang.compile(func, out_idx=-1, target="llvm"))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert compiled == ["main"]
    assert all(k is kernels[0] for k in kernels)


def test_sources_hash_is_remembered_by_their_times() -> None:
    sources_hash.cache_clear()
    first = sources_hash()
    remembered = json.loads((cache_root() / "sources.json").read_text())
    assert remembered["hash"] == first
    sources_hash.cache_clear()
    try:
        assert sources_hash() == first
        (cache_root() / "sources.json").write_text('{"stamp": "old", "hash": "wrong"}')
        sources_hash.cache_clear()
        assert sources_hash() == first
    finally:
        sources_hash.cache_clear()


def test_reading_needs_a_whole_key() -> None:
    assert load_artifact("0" * 64, LLVM, LLVM) is None
    assert kernel_folder("abc").name == "abc"


def test_what_is_observed_is_compiled_anew(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make()
    for variable, value, text in (
        ("TILELANG_DUMP", "after:guard_bounds", "guard_bounds.py"),
        ("TILELANG_TIME", "1", "passes of main"),
    ):
        monkeypatch.setenv(variable, value)
        make()
        assert text in capsys.readouterr().err
        monkeypatch.delenv(variable)
    assert compiled == ["main"] * 3
    monkeypatch.setenv("TILELANG_DUMP", "after:no_such_pass")
    with pytest.raises(OptionError, match="no_such_pass"):
        make()


def test_show_says_why_there_is_nothing() -> None:
    assert "lower" in make().show("time")
    clear_memory()
    assert "comes from the cache" in make().show("time")
    assert "no choices were recorded" in make().show("why")


def test_clear_cache(compiled: list[str]) -> None:
    make()
    tilelang.cache.clear_cache()
    make()
    assert compiled == ["main"] * 2
