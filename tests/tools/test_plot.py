# SPDX-License-Identifier: Apache-2.0
"""Pictures of layouts."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tilelang.language as T
from tilelang.errors import ArgumentTypeError, ArgumentValueError, ToolchainError
from tilelang.layout import make_swizzled, mma_c
from tilelang.tools import plot_layout


@pytest.mark.parametrize("view", ["input", "output"])
@pytest.mark.parametrize(
    "layout",
    [
        make_swizzled((8, 64), 16),
        mma_c(16, 8, 1, 1),
        T.Layout((4, 6), lambda i, j: j * 4 + i),
        T.Fragment((4, 4), lambda i, j: (i * 4 + j, 0)),
    ],
    ids=["swizzled", "mma", "layout", "fragment"],
)
def test_files(layout: object, view: str, tmp_path: Path) -> None:
    files = plot_layout(layout, tmp_path / "new", "tile", formats="png,svg", view=view)
    assert files == [tmp_path / "new" / "tile.png", tmp_path / "new" / "tile.svg"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in files[1].read_bytes()


def test_what_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    transposed = T.Layout((2, 3), lambda i, j: j * 2 + i)
    plot_layout(transposed, tmp_path, formats="png", verbose=True)
    assert capsys.readouterr().out == "0  2  4\n1  3  5\n"
    plot_layout(mma_c(16, 8, 1, 1), tmp_path, formats="png", verbose=True)
    assert capsys.readouterr().out.startswith("T0\nR0  T0\nR1  T1\nR0")


def test_refused(tmp_path: Path) -> None:
    layout = T.Layout((2, 3), lambda i, j: i * 3 + j)
    with pytest.raises(ArgumentTypeError, match="draws layouts and fragments, got int"):
        plot_layout(3, tmp_path)  # type: ignore[arg-type]
    with pytest.raises(ArgumentValueError, match="formats must be among pdf, png, svg and all"):
        plot_layout(layout, tmp_path, formats="gif")
    with pytest.raises(ArgumentValueError, match="view must be 'input' or 'output', got 'top'"):
        plot_layout(layout, tmp_path, view="top")
    with pytest.raises(ArgumentValueError, match="6 elements do not make a picture of 2 x 2"):
        plot_layout(layout, tmp_path, grid_shape=(2, 2))
    with pytest.raises(ArgumentValueError, match="are too many to be read"):
        plot_layout(T.Layout((256, 256), lambda i, j: i * 256 + j), tmp_path)


def test_without_matplotlib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ToolchainError, match="needs matplotlib") as error:
        plot_layout(T.Layout((2, 3), lambda i, j: i * 3 + j), tmp_path)
    assert "pip install matplotlib" in str(error.value)
