# SPDX-License-Identifier: Apache-2.0
"""Imports go down the layers only.

The table is the one of docs/architecture.md.  Imports under TYPE_CHECKING and inside functions
count too: an upward reference is an upward reference.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tilelang"


@dataclass(frozen=True)
class Row:
    """Packages that may import the rows up to `below`, and not each other."""

    packages: frozenset[str]
    below: int


LAYERS = {
    9: Row(frozenset({"autotuner", "tools", "testing", "compat"}), 8),
    8: Row(frozenset({"jit", "cache"}), 7),
    7: Row(frozenset({"engine", "profiler", "show"}), 6),
    6: Row(frozenset({"codegen", "sim", "runtime"}), 2),
    5: Row(frozenset({"language", "transform", "interp"}), 4),
    4: Row(frozenset({"tileop"}), 3),
    3: Row(frozenset({"layout"}), 2),
    2: Row(frozenset({"arith", "target"}), 1),
    1: Row(frozenset({"ir"}), 0),
    0: Row(frozenset({"errors", "config", "utils"}), -1),
}
# The package's own front page: it names what users import, so nothing below may need it.
ROOT_MODULES = frozenset({"__init__", "__main__"})
# The exceptions to "packages of one row do not import each other": options raise errors; a kernel
# is looked up in the cache before it is compiled; a command runs the fuzzer.
WITHIN_A_ROW = frozenset(
    {("config", "errors"), ("jit", "cache"), ("cache", "jit"), ("tools", "testing")}
)
# Large or optional: imported on first use, so that `import tilelang` stays fast and needs none.
LAZY = frozenset({"cuda", "cupy", "llvmlite", "matplotlib", "torch", "tvm_ffi"})

ROW_OF = {package: number for number, row in LAYERS.items() for package in row.packages}


@dataclass(frozen=True)
class Import:
    """One imported module, as an absolute dotted name, and where it is imported."""

    source: str
    target: str
    place: str
    at_module_level: bool

    @property
    def target_package(self) -> str:
        """The first component below tilelang, empty for tilelang itself or another library."""
        parts = self.target.split(".")
        return parts[1] if parts[0] == "tilelang" and len(parts) > 1 else ""


def _module_level(tree: ast.Module) -> set[ast.stmt]:
    """Imports that run when the module is imported: not in a function, not for types only."""
    found: set[ast.stmt] = set()
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.add(node)
        pending.extend(ast.iter_child_nodes(node))
    return found


def _targets(node: ast.Import | ast.ImportFrom, module: tuple[str, ...]) -> list[str]:
    """Absolute names.  `from tilelang import x` and `from .. import x` count as `tilelang.x`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = list(module[: -node.level]) if node.level else []
    base += node.module.split(".") if node.module else []
    if base == ["tilelang"]:
        return [f"tilelang.{alias.name}" for alias in node.names]
    return [".".join(base)]


def imports_of(path: Path, root: Path = PACKAGE) -> Iterator[Import]:
    """Every import in a file of the package at `root`."""
    relative = path.relative_to(root).with_suffix("").parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    eager = _module_level(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            place = f"{'/'.join(relative)}.py:{node.lineno}"
            for target in _targets(node, ("tilelang", *relative)):
                yield Import(relative[0], target, place, node in eager)


def fault_of(item: Import) -> str | None:
    """Why an import is not allowed, or None."""
    if item.source in ROOT_MODULES:
        return None
    row = ROW_OF.get(item.source)
    if row is None:
        return f"{item.place}: {item.source} has no row in the layer table"
    library = item.target.split(".")[0]
    if library != "tilelang":
        if row == 0 and library not in sys.stdlib_module_names:
            return f"{item.place}: layer 0 imports {library}, which is not in the standard library"
        return None
    target = item.target_package
    if target == item.source or (item.source, target) in WITHIN_A_ROW:
        return None
    if target not in ROW_OF:
        return f"{item.place}: imports {item.target}, which has no row in the layer table"
    if ROW_OF[target] > LAYERS[row].below:
        return f"{item.place}: {item.source} (row {row}) imports {target} (row {ROW_OF[target]})"
    return None


def all_imports() -> list[Import]:
    return [item for path in sorted(PACKAGE.rglob("*.py")) for item in imports_of(path)]


def test_imports_go_down_only() -> None:
    assert [fault for fault in map(fault_of, all_imports()) if fault] == []


def test_heavy_libraries_are_imported_on_first_use() -> None:
    eager = [
        f"{item.place}: {item.target}"
        for item in all_imports()
        if item.at_module_level and item.target.split(".")[0] in LAZY
    ]
    assert eager == []


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("ir/a.py", "from ..errors import Span", None),
        ("ir/a.py", "from .node import node", None),
        ("ir/a.py", "import numpy", None),
        ("config.py", "from .errors import OptionError", None),
        ("__init__.py", "from .jit import jit", None),
        ("tools/a.py", "def f():\n    from tilelang import jit", None),
        ("ir/a.py", "from ..arith import prove", "ir (row 1) imports arith (row 2)"),
        ("arith/a.py", "from ..target.cuda import x", "arith (row 2) imports target (row 2)"),
        ("codegen/a.py", "from tilelang.layout import x", "codegen (row 6) imports layout (row 3)"),
        ("runtime/a.py", "def f():\n    from .. import interp", "runtime (row 6) imports interp"),
        ("ir/sub/a.py", "from ...jit.x import y", "ir (row 1) imports jit (row 8)"),
        ("errors.py", "import numpy", "not in the standard library"),
        ("ir/a.py", "import tilelang", "has no row"),
        ("other.py", "import os", "other has no row"),
    ],
)
def test_the_check_itself(tmp_path: Path, file: str, text: str, fault: str | None) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    (item,) = imports_of(path, tmp_path)
    found = fault_of(item)
    assert found is None if fault is None else fault in (found or "")


def test_only_imports_that_run_at_import_are_eager(tmp_path: Path) -> None:
    path = tmp_path / "jit.py"
    path.write_text(
        "import torch\n"
        "if TYPE_CHECKING:\n    import cupy\n"
        "def f():\n    import llvmlite\n"
        "try:\n    import cuda\nexcept ImportError:\n    pass\n"
    )
    eager = {item.target for item in imports_of(path, tmp_path) if item.at_module_level}
    assert eager == {"torch", "cuda"}
