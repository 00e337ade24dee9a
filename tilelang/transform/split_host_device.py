# SPDX-License-Identifier: Apache-2.0
"""FLAT → DEVICE: cuts a function into kernels and the program that launches them.

In: a function whose body is Launches (and scalar `Bind`s, workspaces, asserts) or, on a CPU, plain
statements. Out: a `HostProgram`; statements outside every Launch become a kernel of one thread.

    n: T.int32 = M * 2                                  HostProgram f
    with T.launch((n // 64, 1, 1), …) as (bx, tx):  →     f_kernel<<<(M * 2 // 64, 1, 1)>>>(A, M)
        A[bx] = …
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tilelang.errors import InternalError, LanguageError
from tilelang.ir import (
    Alloc,
    Assert,
    Assume,
    Bind,
    Buffer,
    Call,
    Expr,
    HostProgram,
    Kernel,
    Launch,
    Load,
    PrimFunc,
    Stmt,
    TensorMap,
    Var,
    const,
    flatten,
    free_vars,
    logical_not,
    select,
    seq,
    substitute,
    walk,
)
from tilelang.ir.dtype import INT32

from .manager import PassContext
from .summary import Summary, summary


def run(func: PrimFunc, ctx: PassContext) -> HostProgram:
    split = _Split(func, ctx)
    split.statements(flatten(func.body))
    attrs = {k: v for k, v in func.attrs.items() if k != "stage"}
    if split.asserts:
        attrs["asserts"] = tuple(split.asserts)
    return HostProgram(
        func.name, func.params, func.outputs, tuple(split.kernels), tuple(split.temporaries), attrs
    )


class _Split:
    def __init__(self, func: PrimFunc, ctx: PassContext) -> None:
        self.func = func
        self.ctx = ctx
        self.values: dict[Var, Expr] = {}
        self.kernels: list[Kernel] = []
        self.temporaries: list[Buffer] = []
        self.asserts: list[tuple[Expr, str]] = []
        self.plain: list[Stmt] = []
        self.version: Launch | None = None
        self.count = 0

    def statements(self, stmts: list[Stmt]) -> None:
        for s in stmts if any(type(s) is Launch for s in stmts) else []:
            self.statement(s)
        if not self.kernels:
            self.plain = [s for s in stmts if not self.workspace(s)]
        self.flush()

    def workspace(self, s: Stmt) -> bool:
        if (
            type(s) is Alloc
            and s.buffer.is_global
            and s.buffer.view_of is None
            and s.buffer.data is None
        ):
            self.temporaries.append(s.buffer)
            return True
        return False

    def statement(self, s: Any) -> None:
        t = type(s)
        if t is Launch:
            self.flush()
            self.launch(s)
        elif t is Bind and not any(type(x) in (Load, Call) for x in walk(s.value)):
            self.values[s.var] = substitute(s.value, self.values)
        elif t is Assert and not any(type(x) is Load for x in walk(s.cond)):
            self.asserts.append((substitute(s.cond, self.values), s.message))
        elif t is not Assume and not self.workspace(s):
            self.plain.append(s)

    def flush(self) -> None:
        """Statements between launches: a kernel of one block of one thread."""
        if self.plain:
            one = const(1)
            none = Launch((one, one, one), (1, 1, 1), (), (), seq(self.plain))
            self.plain = []
            self.kernels.append(self.kernel(none))
            self.count += 1

    def launch(self, s: Launch) -> None:
        """A kernel, or two of which every call runs one (see `add_versions`)."""
        if "when" in s.annotations:
            self.version = s
            return
        other = self.version
        self.version = None
        kernel = self.kernel(s)
        version = None if other is None else self.kernel(other)
        self.count += 1
        if other is None or version is None or _same(kernel, version):
            self.kernels.append(kernel)
            return
        when = other.annotations["when"]
        version = replace(version, name=f"{kernel.name}_aligned")
        self.kernels += [_only(version, when), _only(kernel, logical_not(when))]
        self.ctx.note(f"{version.name} runs where {when}, {kernel.name} elsewhere")

    def kernel(self, launch: Launch) -> Kernel:
        n = self.count
        name = f"{self.func.name}_kernel" + (f"_{n}" if n else "")
        body = substitute(launch.body, self.values)
        grid = [substitute(g, self.values) for g in launch.grid]
        grid += [const(1)] * (3 - len(grid))
        blocks = _three(launch.block_vars, "bx", "by", "bz")
        threads = _three(launch.thread_vars, "tx", "ty", "tz")
        maps = tuple(launch.annotations.get("tensor_maps", ()))
        found = summary(body)
        args = self.arguments(found, maps, {*blocks, *threads}, launch, grid)
        return Kernel(
            name,
            args,
            body,
            (grid[0], grid[1], grid[2]),
            launch.threads if self.ctx.target.is_cuda else (1, 1, 1),
            blocks,
            threads,
            int(launch.annotations.get("dynamic_smem", 0)),
            self.attributes(launch, found),
        )

    def arguments(
        self,
        found: Summary,
        maps: tuple[TensorMap, ...],
        own: set[Var],
        launch: Launch,
        grid: list[Expr],
    ) -> tuple[Buffer | Var | TensorMap, ...]:
        """Tensors and scalars in parameter order, workspaces, descriptors, symbols of shapes.

        A CPU kernel also needs the symbols of its grid: it finds its block by the linear index."""
        described = {m.var for m in maps}
        buffers = {b for b in found.roots if b.is_global}
        inside = [
            *found.free,
            *(v for e in grid if self.ctx.target.is_cpu for v in free_vars(e)),
            *(v for b in buffers if b.data is not None for v in free_vars(b.data)),
        ]
        needed = {v: None for v in inside if v not in own | described | found.bound}
        order = [*self.func.params, *self.temporaries, *maps, *self.func.symbols]
        wanted = {*needed, *(b for b in buffers if b.data is None), *maps}
        args = {x: None for x in order if x in wanted}
        for x in needed:
            if x not in args:
                raise LanguageError(
                    f"undefined variable {x.name!r} in kernel {self.func.name!r}",
                    code="TL0190",
                    span=launch.span,
                    help="a dynamic size must be part of a parameter's shape, or be a parameter",
                )
        missing = [b.name for b in buffers if b.data is None and b not in args]
        if missing:
            raise InternalError(
                f"{', '.join(sorted(missing))}: no parameters of {self.func.name}, no workspaces",
                span=launch.span,
            )
        return tuple(args)

    def attributes(self, launch: Launch, found: Summary) -> dict[str, Any]:
        """target, launch_bounds (threads, blocks per SM or None), restrict and readonly buffers,
        and the launch's own annotations (cluster_dims, prelude, …)."""
        x, y, z = launch.threads
        aliased = set(launch.annotations.get("no_restrict", ()))
        roots = found.roots
        params = (*self.func.params, *self.temporaries)
        ordered = [b for b in params if isinstance(b, Buffer) and b in roots]
        keep = self.ctx.options.noalias
        out = {k: v for k, v in launch.annotations.items() if k not in _CONSUMED}
        out["target"] = self.ctx.target
        out["launch_bounds"] = (x * y * z, launch.annotations.get("min_blocks"))
        out["restrict"] = tuple(b for b in ordered if keep and b not in aliased)
        out["readonly"] = tuple(b for b in ordered if b not in found.written)
        out["bulk_stored"] = _bulk_stored(found, launch.annotations.get("tensor_maps", ()))
        return out


_CONSUMED = {
    "tensor_maps",
    "dynamic_smem",
    "layouts",
    "safe_values",
    "no_restrict",
    "swizzle",
    "when",
    "producer_registers",
    "consumer_registers",
    "reallocate_registers",
}


def _same(a: Kernel, b: Kernel) -> bool:
    """Is it the same code (but for the names)?"""
    return a.dynamic_smem == b.dynamic_smem and str(a.body) == str(b.body)


def _only(k: Kernel, when: Expr) -> Kernel:
    """The kernel, with an empty grid (which is not launched) unless `when` holds."""
    x, y, z = k.grid
    return replace(k, grid=(select(when, x, const(0, x.dtype)), y, z))


def _three(given: Iterable[Var], *names: str) -> tuple[Var, Var, Var]:
    """Block or thread variables, completed to three."""
    out = list(given)
    out += [Var(name, INT32) for name in names[len(out) :]]
    return out[0], out[1], out[2]


def _bulk_stored(found: Summary, maps: Iterable[TensorMap]) -> tuple[Buffer, ...]:
    """Tensors that the TMA unit writes: the kernel has no pointer to them, only a descriptor."""
    used = {x.args[0] for x in found.calls.get("tma_store", ())}
    return tuple(m.buffer for m in maps if m.var in used)
