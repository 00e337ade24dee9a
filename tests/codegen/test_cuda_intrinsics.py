# SPDX-License-Identifier: Apache-2.0
"""Every row of the intrinsic table compiles: for its lowest architecture and for sm_90a.

Rows are grouped into few kernels, because most of a compile is the compiler's start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tilelang.codegen.cuda import cuda_source
from tilelang.codegen.headers import device_headers
from tilelang.config import Options
from tilelang.errors import InternalError
from tilelang.ir import (
    INTRINSICS,
    Bind,
    Buffer,
    Builder,
    DType,
    Expr,
    Intrinsic,
    Kernel,
    Load,
    Ramp,
    StringImm,
    TensorMap,
    Var,
    address_of,
    call,
    cast,
    const,
    session,
)
from tilelang.ir.intrinsics import WGMMA_TYPES
from tilelang.runtime.nvrtc import compile_cubin

FAST = Options(fast_compile=True)
FLOATS = ("float16", "bfloat16", "float32", "float64")
UNARY = {
    name
    for name, row in INTRINSICS.items()
    if row.header == "math" and row.doc.startswith(f"{name}(x)")
} - {"reinterpret"}
VALUES = {
    "popcount",
    "clz",
    "reinterpret",
    "make_vector",
    "extract_lane",
    "address_of",
    "call_extern",
    "warp_uniform",
    "elect_one",
    "ballot",
    "match_any",
    "block_rank_in_cluster",
    "cluster_load",
}
NARROW_ONLY = {name for name in UNARY if name.startswith("fast_")}


class Bench:
    """A kernel under construction, with one buffer of each kind that an intrinsic may point to."""

    def __init__(self, name: str, arch: int) -> None:
        self.name, self.arch = name, arch
        self.b = Builder()
        self.out = {t: Buffer(f"out_{t}", [4096], t) for t in (*FLOATS, "int32", "bool")}
        self.src = {t: Buffer(f"src_{t}", [4096], t) for t in FLOATS}
        self.n = Var("n")
        self.desc = Var("desc", DType("handle"))
        self.tx = Var("tx")
        self.shared = self.b.alloc("tile", [4096], "float16", "shared.dyn", offset=0)
        self.bar = self.b.alloc("bar", [4], "uint64", "shared.barrier", offset=8192)
        self.regs = {t: self.b.alloc(f"r_{t}", [256], t) for t in ("float32", "float64")}
        self.words = self.b.alloc("words", [256], "uint32")
        with self.b.for_("i", 256, kind="unroll") as i:
            self.b.store(self.words, (i,), i + self.tx)
            for regs in self.regs.values():
                self.b.store(regs, (i,), cast(i + self.tx, regs.dtype))
        self.count = 0

    def keep(self, value: Expr) -> None:
        """Stores a result so that it is not dead."""
        lanes = value.dtype.lanes
        element = value.dtype.element
        if str(element) not in self.out:
            value, element = cast(value, "int32"), cast(value, "int32").dtype.element
        index: Expr = self.tx * 16 + self.count * 2048
        self.count = (self.count + 1) % 2
        if lanes > 1:
            index = Ramp(index, const(1), lanes)
        self.b.store(self.out[str(element)], (index,), value)

    def finish(self) -> Kernel:
        for regs in (*self.regs.values(), self.words):
            total = Var("total", regs.dtype)
            self.b.emit(Bind(total, regs[self.n]))
            self.keep(cast(total, "float64"))
        args = (*self.out.values(), *self.src.values(), self.n)
        if self.arch >= 90:
            buffer = self.src["float16"]
            args = (*args, TensorMap(self.desc, buffer, (const(64),), (const(1),), (64,), 0))
        one = const(1)
        unused = (Var("by"), Var("bz"), Var("ty"), Var("tz"))
        return Kernel(
            self.name,
            args,
            self.b.finish(),
            (one, one, one),
            (128, 1, 1),
            (Var("bx"), *unused[:2]),
            (self.tx, *unused[2:]),
            8192 + 64,
        )

    def load(self, dtype: str, lanes: int = 1) -> Expr:
        index: Expr = self.tx * 16
        return Load(self.src[dtype], (Ramp(index, const(1), lanes) if lanes > 1 else index,))


def use_math(k: Bench, name: str) -> None:
    dtypes = FLOATS[:3] if name in NARROW_ONLY else FLOATS
    for dtype in dtypes:
        for lanes in (1, 2) if dtype == "float16" else (1,):  # a vector is the same lane by lane
            x = k.load(dtype, lanes)
            result = f"bool{f'x{lanes}' if lanes > 1 else ''}" if name.startswith("is") else x.dtype
            if name in UNARY:
                args = [x]
            elif name == "fma":
                args = [x, x, x]
            elif name.startswith("reduce_lanes"):
                args, result = [k.load(dtype, 4)], x.dtype.element
            else:
                args = [x, x]
            k.keep(call(name, args, result))


def use_values(k: Bench, name: str) -> None:
    x = k.load("float32")
    wide = k.load("float32", 4)
    uses = {
        "popcount": [call(name, [k.tx], "int32"), call(name, [cast(k.tx, "uint8")], "int32")],
        "clz": [call(name, [k.tx], "int32"), call(name, [cast(k.tx, "int64")], "int32")],
        "reinterpret": [call(name, [x], "int32"), call(name, [wide], "int32x4")],
        "make_vector": [call(name, [x, x], "float32x2")],
        "extract_lane": [call(name, [wide, const(2)], "float32")],
        "address_of": [],
        "call_extern": [call(name, [StringImm("fabsf"), x], "float32")],
        "warp_uniform": [call(name, [k.tx], "int32")],
        "elect_one": [call(name, [], "bool")],
        "block_rank_in_cluster": [call(name, [], "int32")],
        "cluster_load": [call(name, [address_of(k.shared, k.tx), const(1)], k.shared.dtype)],
        "ballot": [call(name, [k.tx < 3], "uint32")],
        "match_any": [
            call(name, [k.tx], "uint32"),
            call(name, [cast(k.tx, "uint64")], "uint32"),
        ],
    }
    for value in uses[name]:
        k.keep(value)


def use_shuffle(k: Bench, name: str) -> None:
    for x in (k.load("float16"), k.load("float64"), k.load("float32", 2)):
        k.keep(call(name, [x, const(1), const(32)], x.dtype))


def use_atomic(k: Bench, name: str) -> None:
    for dtype in ("int32",) if name == "atomic_or" else (*FLOATS, "int32"):
        pointer = address_of(k.out[dtype], k.tx)
        value = cast(k.tx, dtype)
        if name == "atomic_load":
            k.keep(call(name, [pointer], dtype))
            continue
        k.b.call(name, pointer, value)
        if name != "atomic_store":
            k.keep(call(name, [pointer, value], dtype))


def use_effect(k: Bench, row: Intrinsic) -> None:
    """Intrinsics that stand as statements: their arguments by the names in the table's doc."""
    name = row.name
    tile = address_of(k.shared, k.tx * 8)
    glob = address_of(k.src["float16"], k.tx * 8)
    bar = address_of(k.bar, 1)
    word = address_of(k.words, 4)
    if name == "cp_async":
        for size in (4, 8, 16):
            k.b.call(name, const(size), tile, glob, k.tx < k.n)
    elif name in ("ldmatrix", "stmatrix"):
        for num in (1, 2, 4):
            for trans in (False, True):
                pair = (word, tile) if name == "ldmatrix" else (tile, word)
                k.b.call(name, const(num), const(trans), *pair)
    elif name.startswith(("tma_load", "tma_reduce")) or name == "tma_store":
        head = (tile, k.desc, bar) if name.startswith("tma_load") else (k.desc, tile)
        head = (*head, const(3)) if name == "tma_load_multicast" else head
        for rank in range(1, 6):
            k.b.call(name, *head, *[k.tx + i for i in range(rank)])
    elif name.startswith("mma_"):
        c = {"f32": k.regs["float32"], "f64": k.regs["float64"]}.get(name[-3:], k.words)
        ab = k.regs["float64"] if name.endswith("f64") else k.words
        k.b.call(name, address_of(c, 16), address_of(ab, 8), address_of(ab, 12))
    else:
        fixed = {
            "print": [StringImm("%f %d\n"), k.load("float16"), k.tx],
            "trap": [],
            "cluster_arrive": [],
            "cluster_arrive_relaxed": [],
            "cluster_wait": [],
            "cluster_sync": [],
            "cluster_store": [glob, cast(k.tx, "float16"), const(1)],
            "copy_cluster": [tile, tile, const(64), bar, const(1)],
            "mbar_arrive_remote": [bar, const(1)],
            "mbar_wait_cluster": [bar, k.tx & 1],
            "cp_async_mbar_arrive": [bar],
            "sync_threads": [],
            "sync_grid": [],
            "named_barrier_sync": [const(1), const(64)],
            "named_barrier_arrive": [const(2), const(64)],
            "sync_warp": [const(-1)],
            "cp_async_commit": [],
            "memory_fence": [const(3)],
            "cp_async_wait": [const(1)],
            "mbar_init": [bar, const(1)],
            "mbar_arrive": [bar],
            "mbar_expect_tx": [bar, const(64)],
            "mbar_announce": [bar, const(64)],
            "mbar_wait": [bar, k.tx & 1],
            "fence_mbar_init": [],
            "fence_proxy_async": [],
            "prefetch_tensormap": [k.desc],
            "tma_store_commit": [],
            "tma_store_wait": [const(0)],
            "setmaxnreg_inc": [const(240)],
            "setmaxnreg_dec": [const(40)],
            "wgmma_fence": [],
            "wgmma_commit": [],
            "wgmma_wait": [const(0)],
            "reg_fence": [const(4), address_of(k.regs["float32"], 0)],
        }
        if name == "trap":
            with k.b.if_(k.n < 0):
                k.b.call(name)
        else:
            k.b.call(name, *fixed[name])


def use(k: Bench, row: Intrinsic) -> None:
    if row.name == "wgmma_desc":
        desc = call(
            row.name, [address_of(k.shared, 64), const(16), const(1024), const(1)], "uint64"
        )
        k.keep(cast(desc, "int32"))
    elif row.name in VALUES:
        use_values(k, row.name)
    elif row.header == "math" or row.name.startswith("reduce_lanes"):
        use_math(k, row.name)
    elif row.name.startswith("shfl"):
        use_shuffle(k, row.name)
    elif row.name.startswith("atomic"):
        use_atomic(k, row.name)
    else:
        use_effect(k, row)


def wgmma_kernel(names: Iterable[str]) -> Kernel:
    """All given wgmma rows, each on accumulators of its own."""
    k = Bench("wgmma_rows", 90)
    desc = k.b.bind(
        "desc",
        call("wgmma_desc", [address_of(k.shared, 0), const(16), const(1024), const(1)], "uint64"),
    )
    for name in names:
        d = k.b.alloc("d", [128], "float32")
        with k.b.for_("i", 128, kind="unroll") as i:
            k.b.store(d, (i,), const(0.0))
        k.b.call("wgmma_fence")
        half = name.endswith("_ss")
        a = desc if half else address_of(k.words, 0)
        k.b.call(name, const(0), const(1), address_of(d, 0), a, desc + const(2, "uint64"), const(1))
        k.b.call("wgmma_commit")
        k.b.call("wgmma_wait", const(0))
        k.keep(d[k.n])
    return k.finish()


def kernels(rows: Iterable[Intrinsic], arch: int) -> Iterator[Kernel]:
    """One kernel per header, so that a failure names it."""
    by_header: dict[str, list[Intrinsic]] = {}
    for row in rows:
        by_header.setdefault(row.header, []).append(row)
    for header, group in by_header.items():
        k = Bench(f"{header}_rows", arch)
        for row in group:
            use(k, row)
        yield k.finish()


def plain_rows(arch: int) -> list[Intrinsic]:
    return [r for r in INTRINSICS.values() if r.arch <= arch and not r.name.startswith("wgmma_m64")]


@pytest.mark.parametrize(("arch", "spelling"), [(75, "sm_75"), (80, "sm_80"), (90, "sm_90a")])
def test_every_row_compiles(arch: int, spelling: str) -> None:
    with session():
        source = cuda_source(list(kernels(plain_rows(arch), arch)), arch, FAST)
    compiled = compile_cubin(source, spelling, FAST, device_headers(source))
    assert len(compiled.usage) > 5


def test_rows_that_need_more_are_refused() -> None:
    with session():
        k = Bench("k", 80)
        use(k, INTRINSICS["mbar_arrive"])
        kernel = k.finish()
        with pytest.raises(InternalError, match="needs sm_90"):
            cuda_source([kernel], 80, FAST)


WGMMA = [name for name in INTRINSICS if name.startswith("wgmma_m64")]


def test_wgmma_rows_compile() -> None:
    """Every N that an encoding could get wrong: the ends, an odd multiple of 8, the common ones."""
    sizes = ("n8k", "n24k", "n64k", "n256k")
    names = [n for n in WGMMA if any(size in n for size in sizes)]
    with session():
        source = cuda_source([wgmma_kernel(names)], 90, FAST)
    headers = device_headers(source)
    assert headers["tl/wgmma.h"].count("wgmma.mma_async") == len(names)
    compile_cubin(source, "sm_90a", FAST, headers)


@pytest.mark.slow
@pytest.mark.parametrize(("operand", "accumulator"), [(ab, c) for ab, _, c in WGMMA_TYPES])
def test_all_wgmma_rows_compile(operand: str, accumulator: str) -> None:
    names = [n for n in WGMMA if f"_{operand}_{accumulator}_" in n]
    assert names
    with session():
        source = cuda_source([wgmma_kernel(names)], 90, FAST)
    compile_cubin(source, "sm_90a", FAST, device_headers(source))
