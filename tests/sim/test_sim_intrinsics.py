# SPDX-License-Identifier: Apache-2.0
"""Every row of the intrinsic table has its function in the simulator's headers."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from tilelang.codegen.cuda import cuda_source
from tilelang.config import Options
from tilelang.ir import INTRINSICS, session
from tilelang.sim import build


def rows_in_kernels() -> ModuleType:
    """The test that compiles every row for the GPU, whose kernels are used here too."""
    path = Path(__file__).parents[1] / "codegen" / "test_cuda_intrinsics.py"
    spec = importlib.util.spec_from_file_location("cuda_intrinsic_rows", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_row_builds() -> None:
    rows = rows_in_kernels()
    with session():
        kernels = list(rows.kernels(rows.plain_rows(90), 90))
        build(cuda_source(kernels, 90, Options()), kernels)
        wgmma = rows.wgmma_kernel([n for n in INTRINSICS if n.startswith("wgmma_m64")])
        build(cuda_source([wgmma], 90, Options()), [wgmma])


@pytest.mark.parametrize("header", sorted({row.header for row in INTRINSICS.values()}))
def test_every_header_is_there(header: str) -> None:
    folder = Path(__file__).parents[2] / "tilelang" / "sim" / "include" / "tl"
    assert (folder / f"{header}.h").is_file()
