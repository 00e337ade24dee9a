# SPDX-License-Identifier: Apache-2.0
"""`T.Kernel`, and what it binds: block and thread indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.errors import LanguageError, OptionError
from tilelang.ir import Const, Expr, Launch, Var, as_expr, const, const_int, seq

from .loops import integer
from .trace import LaunchInfo, Region, Trace, current, kernel_trace
from .values import plain

_AXES = "xyz"
DEFAULT_THREADS = 128


class KernelFrame:
    """The context manager behind `with T.Kernel(...) as (bx, by)`."""

    def __init__(self, blocks: tuple[Any, ...], threads: Any, annotations: dict[str, Any]) -> None:
        self.blocks = blocks
        self.threads = threads
        self.annotations = annotations
        self.names: Sequence[str] = ()
        self.structured = False
        self._region = Region("kernel")
        self._trace: Trace | None = None

    def __enter__(self) -> Any:
        t = self._trace = current("T.Kernel")
        if t.symbolic:
            t.emit(seq())
        if t.launch is not None or t.runtime_region() is not None:
            raise t.error(
                "T.Kernel cannot be inside another T.Kernel, a loop or a branch that is decided "
                "at run time",
                "TL0179",
                "open it at the top level of the function",
                LanguageError,
            )
        self._region.span = t.span()
        grid = tuple(integer(t, b, "T.Kernel: a block extent") for b in self.blocks) or (const(1),)
        if len(grid) > 3:
            raise t.error(
                f"T.Kernel takes up to 3 block extents, got {len(grid)}",
                "TL0579",
                "merge some of them",
                OptionError,
            )
        negative = [e for e in grid if type(e) is Const and e.value < 0]
        if negative:
            raise t.error(
                f"T.Kernel: a block extent must not be negative, got {negative[0]}",
                "TL0598",
                "use a positive number of blocks",
                OptionError,
            )
        names = (
            list(self.names)
            if len(self.names) == len(grid)
            else [f"b{a}" for a in _AXES[: len(grid)]]
        )
        block_vars = tuple(Var(n) for n in names)
        thread_vars = tuple(Var(f"t{a}") for a in _AXES)
        t.launch = LaunchInfo(
            block_vars,
            grid,
            thread_vars,
            _threads(t, self.threads),
            {**t.next_launch, **self.annotations},
            t.blocks[-1],
        )
        t.enter(self._region)
        t.blocks[-1].extend(t.deferred)
        return block_vars[0] if len(block_vars) == 1 and not self.structured else list(block_vars)

    def __exit__(self, kind: Any, *_: object) -> None:
        t, info = self._trace, None if self._trace is None else self._trace.launch
        if kind is not None or t is None or info is None:
            return
        body = t.leave(self._region)
        source = t.attrs.get("import_source", "") + (info.annotations.get("prelude") or "")
        if source:
            info.annotations["prelude"] = source
        t.launch = None
        t.emit(
            Launch(
                info.grid,
                info.threads,
                info.block_vars,
                info.thread_vars,
                body,
                info.annotations,
                self._region.span,
            )
        )


def _cluster(dims: Any) -> tuple[int, int, int]:
    """Blocks of a cluster along x, y and z."""
    items = list(dims) if isinstance(dims, (tuple, list)) else [dims]
    counts = [const_int(plain(i)) for i in items]
    if not 1 <= len(counts) <= 3 or any(n is None or n < 1 for n in counts):
        raise current("T.Kernel").error(
            f"T.Kernel: cluster_dims must be 1 to 3 numbers >= 1, got {dims!r}",
            "TL0556",
            "e.g. cluster_dims=2, two blocks along x",
            OptionError,
        )
    x, y, z = ([n for n in counts if n is not None] + [1, 1])[:3]
    return (x, y, z)


def _threads(t: Trace, threads: Any) -> tuple[int, int, int]:
    if threads is None:
        return (DEFAULT_THREADS, 1, 1)
    items = list(threads) if isinstance(threads, (tuple, list)) else [threads]
    if not 1 <= len(items) <= 3:
        raise t.error(
            f"T.Kernel: threads takes 1 to 3 extents, got {len(items)}",
            "TL0584",
            "e.g. threads=128",
            OptionError,
        )
    counts = [const_int(plain(i)) for i in items]
    for item, n in zip(items, counts, strict=True):
        if isinstance(plain(item), (float, str)):
            raise t.error(
                f"T.Kernel: threads must be an int or up to three of them, got {item!r}",
                "TL0599",
                "e.g. threads=128",
                OptionError,
            )
        if n is None:
            raise t.error(
                f"T.Kernel: threads must be known at compile time, got {item}",
                "TL0512",
                "use a Python number",
                OptionError,
            )
        if n <= 0:
            raise t.error(
                f"threads must be positive, got {n}", "TL0513", "e.g. threads=128", OptionError
            )
    x, y, z = ([n for n in counts if n is not None] + [1, 1])[:3]
    return (x, y, z)


def Kernel(
    *blocks: Any,
    threads: Any = None,
    prelude: str | None = None,
    is_cpu: bool = False,
    cluster_dims: Any = None,
) -> KernelFrame:
    """Opens a launch grid of up to 3 extents: `with T.Kernel(gx, gy, threads=128) as (bx, by):`.

    threads: per block, an int or up to three extents (default 128). prelude: source text put before
    the kernel. is_cpu: accepted for older programs; the target decides. cluster_dims: thread-block
    cluster (sm_90).
    """
    annotations: dict[str, Any] = {}
    if prelude:
        annotations["prelude"] = prelude
    if cluster_dims is not None:
        annotations["cluster_dims"] = _cluster(cluster_dims)
    return KernelFrame(blocks, 1 if is_cpu and threads is None else threads, annotations)


def get_thread_binding(dim: int = 0) -> Var:
    """threadIdx.x, .y or .z of the enclosing kernel."""
    return kernel_trace("T.get_thread_binding")[1].thread_vars[dim]


def get_thread_bindings() -> list[Var]:
    return list(kernel_trace("T.get_thread_bindings")[1].thread_vars)


def get_thread_extent(dim: int = 0) -> int:
    return kernel_trace("T.get_thread_extent")[1].threads[dim]


def get_thread_extents() -> list[int]:
    return list(kernel_trace("T.get_thread_extents")[1].threads)


def get_block_binding(dim: int = 0) -> Var:
    """blockIdx.x, .y or .z of the enclosing kernel."""
    return kernel_trace("T.get_block_binding")[1].block_vars[dim]


def get_block_bindings() -> list[Var]:
    return list(kernel_trace("T.get_block_bindings")[1].block_vars)


def get_block_extent(dim: int = 0) -> Expr:
    return kernel_trace("T.get_block_extent")[1].grid[dim]


def get_block_extents() -> list[Expr]:
    return list(kernel_trace("T.get_block_extents")[1].grid)


def thread_binding(start: Any, stop: Any = None, thread: str = "threadIdx.x") -> Var:
    """The existing index variable named by `thread`, as a value or as the target of a `for`."""
    t, launch = kernel_trace("T.thread_binding")
    kind, _, axis = str(thread).partition(".")
    table = {
        "threadIdx": (launch.thread_vars, launch.threads),
        "blockIdx": (launch.block_vars, launch.grid),
    }
    if kind not in table or axis not in _AXES:
        raise t.error(
            f"T.thread_binding: unknown binding {thread!r}",
            "TL0514",
            "e.g. thread='threadIdx.x'",
            OptionError,
        )
    variables, extents = table[kind]
    at = _AXES.index(axis)
    lo, hi = (0, start) if stop is None else (start, stop)
    have = const_int(extents[at]) if at < len(variables) else None
    want = const_int(plain(hi))
    if have is None or want is None or const_int(plain(lo)) != 0 or have != want:
        raise t.error(
            f"T.thread_binding({lo}, {hi}, {thread!r}) is not the kernel's own range of {thread}",
            "TL0515",
            f"use T.thread_binding(0, {have}, {thread!r}), or set threads= of T.Kernel",
            OptionError,
        )
    return variables[at]


__all__ = [
    "Kernel",
    "as_expr",
    "get_block_binding",
    "get_block_bindings",
    "get_block_extent",
    "get_block_extents",
    "get_thread_binding",
    "get_thread_bindings",
    "get_thread_extent",
    "get_thread_extents",
    "thread_binding",
]
