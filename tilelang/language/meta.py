# SPDX-License-Identifier: Apache-2.0
"""Which methods of a `T.meta_class` have statements that must be captured."""

from __future__ import annotations

import ast

_TRACED = (ast.For, ast.While, ast.If, ast.AugAssign, ast.BoolOp)


def needs_tracing(method: ast.FunctionDef) -> bool:
    """Does the method have a statement that means something else in a kernel than in Python?"""
    for n in ast.walk(method):
        if isinstance(n, ast.Assign) and any(
            isinstance(t, (ast.Subscript, ast.Attribute)) for t in n.targets
        ):
            return True
        if isinstance(n, _TRACED) and n is not method:
            return True
    return False
