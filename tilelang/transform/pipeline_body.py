# SPDX-License-Identifier: Apache-2.0
"""The body of a pipelined loop, brought into the shape that the pipeliners work on.

In: its statements. Out: `continue` as branches, pure bindings substituted, and the copies that may
run ahead taken out with their conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.ir import (
    Alloc,
    Bind,
    Continue,
    Expr,
    For,
    If,
    Stmt,
    TileStmt,
    expr_effects,
    flatten,
    logical_and,
    logical_not,
    seq,
    substitute,
)

from .pipeline_legality import may_run_ahead
from .scope import is_pure

__all__ = ["inline_binds", "normalize", "split_producers", "unwrapped"]


def normalize(stmts: Sequence[Stmt]) -> list[Stmt]:
    """`continue` becomes a branch around the rest of the body, so that copies can be taken out of
    it."""
    out: list[Stmt] = []
    for n, s in enumerate(stmts):
        if type(s) is If:
            then, orelse = flatten(s.then), flatten(s.orelse)
            if then and type(then[-1]) is Continue:
                rest = normalize([*orelse, *stmts[n + 1 :]])
                if then[:-1]:
                    out.append(If(s.cond, seq(then[:-1]), seq(rest) if rest else None, s.span))
                elif rest:
                    out.append(If(logical_not(s.cond), seq(rest), None, s.span))
                return out
        out.append(s)
    return out


def inline_binds(stmts: list[Stmt]) -> list[Stmt]:
    """Pure bindings of the loop body are substituted into what follows (a copy that runs ahead
    needs its own value of them). A binding that reads memory stays."""
    out: list[Stmt] = []
    mapping: dict[Any, Any] = {}
    for s in stmts:
        if mapping:
            s = substitute(s, mapping)
        if type(s) is Bind and not expr_effects(s.value).accesses and is_pure(s.value):
            mapping[s.var] = s.value
        elif type(s) is If:
            out.append(If(s.cond, seq(inline_binds(flatten(s.then))), s.orelse, s.span))
        else:
            out.append(s)
    return out


def split_producers(
    loop: For, body: list[Stmt], launch: Stmt
) -> tuple[list[Stmt], list[Stmt], list[Stmt]]:
    """(allocations, copies that may run ahead, the rest in order). A copy under `if`s is taken out
    with its conditions; the branch stays for what remains in it."""
    allocs: list[Stmt] = [x for x in body if type(x) is Alloc]
    producers: list[Stmt] = []

    def take(stmts: list[Stmt], guards: list[Expr]) -> list[Stmt]:
        rest: list[Stmt] = []
        for x in stmts:
            if type(x) is If and x.orelse is None:
                inner = take(flatten(x.then), [*guards, x.cond])
                if inner:
                    rest.append(If(x.cond, seq(inner), None, x.span))
                continue
            guarded = _guarded(x, guards)
            if type(x) is TileStmt and may_run_ahead(loop, guarded, body, launch, x):
                producers.append(guarded)
            else:
                rest.append(x)
        return rest

    return allocs, producers, take([x for x in body if type(x) is not Alloc], [])


def unwrapped(s: Stmt) -> Stmt:
    """The statement inside its conditions."""
    while type(s) is If and s.orelse is None:
        s = s.then
    return s


def _guarded(s: Stmt, guards: list[Expr]) -> Stmt:
    if not guards:
        return s
    cond = guards[0]
    for g in guards[1:]:
        cond = logical_and(cond, g)
    return If(cond, s, None, s.span)
