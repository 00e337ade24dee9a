# SPDX-License-Identifier: Apache-2.0
"""What every test gets: fixed seeds, a cache of its own, IR checked after every pass.

Tests marked `gpu` are skipped where there is no CUDA device, and the summary says how many.
"""

from __future__ import annotations

import ctypes
import random
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest

SEED = 42

# The same examples in every run: a property test that fails must fail again.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.load_profile("repeatable")

_COUNT_DEVICES = """
import ctypes
cuda, count = ctypes.CDLL({library!r}), ctypes.c_int()
ok = cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0
print(count.value if ok else 0)
"""


def _why_no_gpu() -> str | None:
    """None where there is a CUDA device.

    A process that has initialised CUDA cannot fork safely, and some tests fork: the driver is
    asked in a process of its own.
    """
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        ctypes.CDLL(library)
    except OSError:
        return f"no CUDA driver ({library} is not there)"
    command = [sys.executable, "-c", _COUNT_DEVICES.format(library=library)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return None if answer.stdout.strip() not in ("", "0") else "a CUDA driver, but no device"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the golden files with what the code gives now; review the diff",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    reason = _why_no_gpu() if gpu_items else None
    if reason:
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason=f"gpu: {reason}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2] for report in reports if isinstance(report.longrepr, tuple)]
    missing = [reason for reason in reasons if reason.startswith("Skipped: gpu: ")]
    if missing:
        terminalreporter.section("GPU tests did NOT run")
        reason = missing[0].removeprefix("Skipped: gpu: ")
        terminalreporter.line(f"{len(missing)} skipped: {reason}")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(autouse=True)
def seeds() -> None:
    """Seed the generators that are loaded, without loading any that the test does not use."""
    random.seed(SEED)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(SEED)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(SEED)


@pytest.fixture(autouse=True)
def cache_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty kernel cache, so that no test sees what another one compiled."""
    directory = tmp_path / "tilelang-cache"
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(directory))
    return directory


@pytest.fixture(autouse=True)
def sim_dir(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator's own library takes seconds to build and holds no kernels: kept between
    runs."""
    if request.config.cache is not None:
        monkeypatch.setenv("TILELANG_SIM_DIR", str(request.config.cache.mkdir("tilelang-sim")))


@pytest.fixture(autouse=True)
def verify_ir(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the IR after every pass: too slow for users, the point of tests."""
    monkeypatch.setenv("TILELANG_VERIFY", "1")
