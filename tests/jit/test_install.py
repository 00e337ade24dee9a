# SPDX-License-Identifier: Apache-2.0
"""A folder that two distributions share is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilelang.errors import ToolchainError
from tilelang.jit import install


def test_alone(tmp_path: Path) -> None:
    (tmp_path / "tilelang_py-0.1.0.dist-info").mkdir()
    assert install.other_distribution(tmp_path / "tilelang") is None


def test_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tilelang-0.1.9.dist-info").mkdir()
    package = tmp_path / "tilelang"
    assert install.other_distribution(package) == "tilelang 0.1.9"
    monkeypatch.setattr(install, "__file__", str(package / "jit" / "install.py"))
    with pytest.raises(ToolchainError, match=r"TL0870(.|\n)*pip uninstall -y") as caught:
        install.check_installation.__wrapped__()
    assert "tilelang 0.1.9 and tilelang-py are both installed" in caught.value.message
