# SPDX-License-Identifier: Apache-2.0
"""Artifacts on disk.

In: a key and an artifact. Out: a directory of plain files, or the artifact read back.

    $TILELANG_CACHE_DIR/<version>/<platform>/kernels/<key>/
        manifest.json        name, length and sha256 of every other file, and what they are
        params.json          parameters, the call as data, notes
        key.json             what the key is the hash of, by name
        device_kernel.*      source of the kernels; .cubin, .o or .so where they have a binary of
                             their own
        host_kernel.*        source of the packed entry, and its binary

The directory is ours alone (0700, owner checked). An entry is written elsewhere and renamed, so it
is whole or absent; it is renamed again before it is removed. Nothing in it is executed by reading
it; a file whose hash is wrong makes the entry worthless, and the kernel is compiled again. A disk
that is full or read-only costs only time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilelang.config import env
from tilelang.engine import CompiledArtifact, DeviceModule, HostModule, KernelParam
from tilelang.errors import CacheError
from tilelang.runtime.launch import CallSpec
from tilelang.target import Target

from .room import MANIFEST, SIMULATED, STAGING, entries, keep_limit, mark_used, remove_entry

__all__ = [
    "KEY",
    "cache_root",
    "clear_disk",
    "kernel_folder",
    "load_artifact",
    "remember",
    "remembered",
    "save_artifact",
]

logger = logging.getLogger("tilelang")
_SOURCE_SUFFIX = {"cuda": ".cu", "cuda-sim": ".cu", "llvm": ".ll", "c": ".c"}
_BINARY_SUFFIX = {"cuda": ".cubin", "cuda-sim": ".so", "llvm": ".o", "c": ".so"}
_PARAMS = "params.json"
KEY = "key.json"


def cache_root() -> Path:
    """The directory for this version of us and this platform."""
    version = str(sys.modules[__name__.partition(".")[0]].__version__)
    return env.TILELANG_CACHE_DIR / version / f"{sys.platform}-{platform.machine()}"


def kernel_folder(key: str) -> Path:
    return cache_root() / "kernels" / key


def _private(folder: Path) -> Path:
    """Makes the directory, and refuses one that others may write."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if sys.platform != "win32":
        status = folder.stat()
        if status.st_uid != os.getuid():
            raise CacheError(
                f"the kernel cache {folder} belongs to another user",
                code="TL1001",
                help="set TILELANG_CACHE_DIR to a directory of your own",
            )
        if stat.S_IMODE(status.st_mode) & 0o077:
            folder.chmod(0o700)
    return folder


def _usable(folder: Path) -> bool:
    """May the files below `folder` be trusted?"""
    if sys.platform == "win32":
        return True
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and not stat.S_IMODE(status.st_mode) & 0o022


def remembered(name: str) -> Any:
    """A small JSON file of ours; None if there is none that can be trusted."""
    try:
        if _usable(cache_root()):
            return json.loads((cache_root() / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        pass
    return None


def remember(name: str, text: str) -> None:
    """Writes it, if that is possible."""
    try:
        _write_whole(_private(cache_root()) / name, text.encode())
    except (OSError, CacheError) as error:
        logger.debug("cannot write %s: %s", name, error)


def _write_whole(path: Path, content: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    os.replace(file.name, path)


def clear_disk() -> int:
    """Removes the kernels of this version and platform, and what the simulator has compiled; how
    many kernels there were."""
    kernels, simulated = cache_root() / "kernels", env.TILELANG_CACHE_DIR / SIMULATED
    removed = 0
    for entry in list(entries(env.TILELANG_CACHE_DIR)):
        place = entry.folder.parent
        if place in (kernels, simulated) and remove_entry(entry.folder):
            removed += place == kernels
    return removed


# ------------------------------------------------------------------------------------ writing


def save_artifact(
    key: str, artifact: CompiledArtifact, target: str, parts: Mapping[str, str]
) -> bool:
    """Stores an artifact; False if it is larger than the whole cache may be or (with a note in the
    log) if the disk does not let us."""
    files = {**_files_of(artifact), KEY: json.dumps(parts, indent=1).encode()}
    size, limit = sum(map(len, files.values())), env.TILELANG_CACHE_SIZE
    if limit is not None and size > limit:
        return False
    try:
        root = _private(cache_root())
        kernels, staging = root / "kernels", root / STAGING
        for folder in (kernels, staging):
            folder.mkdir(mode=0o700, exist_ok=True)
        place = Path(tempfile.mkdtemp(dir=staging))
        try:
            _write_entry(place, files, artifact, target)
            _publish(place, kernels / key)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    except (OSError, CacheError) as error:
        logger.warning("the kernel is not cached: %s", error)
        return False
    if limit is not None:
        keep_limit(env.TILELANG_CACHE_DIR, size, limit)
    return True


def _publish(place: Path, entry: Path) -> None:
    """Renames; what another process has put there meanwhile is as good, a damaged one is
    replaced."""
    try:
        os.rename(place, entry)
    except OSError:
        if _read_entry(entry) is None:
            remove_entry(entry)
            os.rename(place, entry)


def _write_entry(
    place: Path, files: Mapping[str, bytes], artifact: CompiledArtifact, target: str
) -> None:
    for name, content in files.items():
        (place / name).write_bytes(content)
    rows = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in files.items()
    }
    name = artifact.call.name if artifact.call else ""
    manifest = {"kernel": name, "target": target, "files": rows}
    (place / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _files_of(artifact: CompiledArtifact) -> dict[str, bytes]:
    device, host = artifact.codegen_mod, artifact.rt_mod
    assert device is not None
    assert artifact.call is not None
    facts: dict[str, Any] = {
        "params": [p.as_json() for p in artifact.params or ()],
        "call": artifact.call.as_json(),
        "notes": list(artifact.notes),
        "device": {"kind": device.kind, "arch": device.arch, "log": device.log},
    }
    files = {f"device_kernel{_SOURCE_SUFFIX[device.kind]}": device.source.encode()}
    if device.binary is not None:
        files[f"device_kernel{_BINARY_SUFFIX[device.kind]}"] = device.binary
    if host is not None:
        facts["host"] = {"form": host.form, "entry": host.entry}
        files[f"host_kernel{_SOURCE_SUFFIX[host.form]}"] = host.source.encode()
        if host.binary is not None:
            files[f"host_kernel{_BINARY_SUFFIX[host.form]}"] = host.binary
    files[_PARAMS] = json.dumps(facts).encode()
    return files


# ------------------------------------------------------------------------------------ reading


def load_artifact(key: str, target: Target, target_host: Target) -> CompiledArtifact | None:
    """The artifact of this key; None if there is none, or only a damaged one."""
    entry = kernel_folder(key)
    if not entry.is_dir() or not _usable(cache_root()):
        return None
    files = _read_entry(entry)
    if files is not None:
        try:
            artifact = _artifact_of(files, target, target_host)
            mark_used(entry)
            return artifact
        except (KeyError, TypeError, ValueError) as error:
            logger.debug("cache entry %s: %r", entry, error)
    if entry.is_dir():  # else another process has just removed it
        logger.warning("the cache entry %s is damaged; the kernel is compiled again", entry)
        remove_entry(entry)
    return None


def _read_entry(entry: Path) -> dict[str, bytes] | None:
    """All files of an entry, if all are there and as they were written."""
    try:
        rows = json.loads((entry / MANIFEST).read_text(encoding="utf-8"))["files"]
        files = {}
        for name, row in rows.items():
            content = (entry / Path(name).name).read_bytes()
            if hashlib.sha256(content).hexdigest() != row["sha256"]:
                return None
            files[name] = content
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return files


def _artifact_of(files: dict[str, bytes], target: Target, target_host: Target) -> CompiledArtifact:
    facts = json.loads(files[_PARAMS])
    row = facts["device"]
    kind = str(row["kind"])
    source = files[f"device_kernel{_SOURCE_SUFFIX[kind]}"].decode()
    binary = files.get(f"device_kernel{_BINARY_SUFFIX[kind]}")
    call = CallSpec.from_json(facts["call"])
    device = DeviceModule(kind, source, str(row["arch"]), binary, str(row["log"]), call)
    host = None
    if "host" in facts:
        form = str(facts["host"]["form"])
        text = files[f"host_kernel{_SOURCE_SUFFIX[form]}"].decode()
        host = HostModule(form, text, str(facts["host"]["entry"]))
        host.binary = files.get(f"host_kernel{_BINARY_SUFFIX[form]}")
        host.import_module(device)
    return CompiledArtifact(
        host, None, tuple(KernelParam.from_json(p) for p in facts["params"]), source, host, target,
        target_host, call, device, list(facts["notes"]),
    )  # fmt: skip
