# SPDX-License-Identifier: Apache-2.0
"""Programs of single threads: private values, barriers, exchanges between lanes, branches and loops
around them, atomic updates.

In: choices. Out: the text of a kernel `program` that is legal CUDA, because whole warps come to
what their lanes do together and all threads to a barrier.
"""

from __future__ import annotations

from .choices import Choices

__all__ = ["thread_program"]

_KERNEL = """\
import tilelang.language as T


@T.prim_func
def program(
    A: T.Tensor((2, {n}), "int32"), O: T.Tensor((2, 2, {n}), "int32"), C: T.Tensor((1,), "int32")
):
    with T.Kernel(2, threads={n}) as bx:
        tx = T.get_thread_binding()
        S = T.alloc_shared(({n},), "int32")
        x = T.alloc_var("int32", init=0)
        y = T.alloc_var("int32", init=0)
        x = A[bx, tx]
        y = tx * 3
{body}
        O[0, bx, tx] = x
        O[1, bx, tx] = y
"""


def thread_program(choices: Choices) -> str:
    writer = _Writer(choices)
    writer.block(2, ["x", "y", "tx"], meet=2)
    return _KERNEL.format(n=writer.threads, body="\n".join(writer.lines))


class _Writer:
    """Statements by where they may stand. meet: 2 where all threads of the block are, 1 whole
    warps, 0 single threads."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.threads = choices.pick([32, 64, 80, 96])
        self.lines: list[str] = []
        self.count = 0

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def expr(self, names: list[str], depth: int = 3) -> str:
        kind = self.choices.number(9) if depth else 0
        if kind < 5:
            return self.choices.pick(names)
        if kind < 7:
            return str(self.choices.pick([0, 1, 2, 3, 4, 5, -1, -2, -3]))
        op = self.choices.pick("+-*^&")
        return f"({self.expr(names, depth - 1)} {op} {self.expr(names, depth - 1)})"

    def exchange(self, names: list[str]) -> str:
        e = self.expr(names)
        return self.choices.pick([
            f"T.shfl_up({e}, 1)", f"T.shfl_xor({e}, {self.choices.pick([1, 2, 16])})",
            f"T.shfl_sync({e}, {self.choices.number(31)})", f"T.warp_reduce_max({e})",
            f"T.cast(T.ballot_sync({e} > 1), 'int32')", f"T.cast(T.match_any_sync({e}), 'int32')",
        ])  # fmt: skip

    def condition(self, names: list[str], whole_warps: bool) -> str:
        warp = f"T.get_warp_idx() == {self.choices.number(2)}"
        if whole_warps:
            return warp
        thread = f"tx < {self.choices.between(1, self.threads)}"
        value = f"{self.choices.pick(names)} > {self.choices.between(-2, 3)}"
        return self.choices.pick([thread, value, "tx % 2 == 0", warp])

    def block(self, indent: int, names: list[str], meet: int) -> None:
        names, before = list(names), len(self.lines)
        self.choices.repeat(4, lambda: self.statement(indent, names, meet))
        if len(self.lines) == before:
            self.line(indent, "pass")

    def statement(self, indent: int, names: list[str], meet: int) -> None:
        kind = self.choices.pick(
            ["set", "new", "exchange", "barrier", "atomic", "branch", "branch", "loop"]
        )
        if kind == "new":
            names.append(self.name())
            self.line(indent, f"{names[-1]} = {self.expr(names[:-1])}")
        elif kind == "exchange" and meet:
            names.append(self.name())
            self.line(indent, f"{names[-1]} = {self.exchange(names[:-1])}")
        elif kind == "barrier" and meet == 2:
            self.barrier(indent, names)
        elif kind == "atomic":
            self.line(indent, f"T.atomic_add(C[0], {self.expr(names)})")
        elif kind == "branch" and indent < 5:
            self.branch(indent, names, meet)
        elif kind == "loop" and indent < 5:
            var = self.name()
            self.line(indent, f"for {var} in T.serial({self.choices.between(1, 3)}):")
            self.block(indent + 1, [*names, var], meet)
        else:
            self.line(indent, f"{self.choices.pick('xy')} = {self.expr(names)}")

    def barrier(self, indent: int, names: list[str]) -> None:
        n = self.threads
        self.line(indent, f"S[tx] = {self.expr(names)}")
        self.line(indent, "T.sync_threads()")
        self.line(indent, f"x = x + S[(tx + {self.choices.between(1, n - 1)}) % {n}]")
        self.line(indent, "T.sync_threads()")

    def branch(self, indent: int, names: list[str], meet: int) -> None:
        inner = min(meet, self.choices.number(1))
        self.line(indent, f"if {self.condition(names, inner == 1)}:")
        self.block(indent + 1, names, inner)
        if self.choices.flag():
            self.line(indent, "else:")
            self.block(indent + 1, names, inner)
