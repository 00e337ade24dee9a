# SPDX-License-Identifier: Apache-2.0
"""THE intrinsic table: every operation a `Call` may name, its effect, and where its code lives.

A row is a name, what it does to memory, the device header that defines `tl::name`, and the lowest
CUDA architecture that has it. Pointer arguments are `address_of(Load)` calls; `pointers` says which
arguments are pointers and how they are used. `tl::name(args…)` in the device headers and the
simulator takes the arguments in the order given in `doc`; an argument written `<n>` there is a
compile-time constant, printed as a template argument.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True)
class Intrinsic:
    """effect: pure, memory (through `pointers` only), barrier (whole block), sync (orders
    something: never moved, never dropped), opaque (may touch anything). template: how many of the
    leading arguments are template arguments. collective: all lanes of the warp must call it
    together. per_thread: threads that pass the same arguments may get different results."""

    name: str
    doc: str
    effect: str = "pure"
    pointers: Mapping[int, str] = field(default_factory=dict)
    unit: str = "generic"
    header: str = "core"
    arch: int = 0
    template: int = 0
    collective: bool = False
    per_thread: bool = False


_UNARY_MATH = [
    "exp",
    "exp2",
    "exp10",
    "log",
    "log2",
    "log10",
    "log1p",
    "sqrt",
    "rsqrt",
    "sigmoid",
    "tanh",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "asin",
    "acos",
    "atan",
    "erf",
    "floor",
    "ceil",
    "trunc",
    "round",
    "nearbyint",
    "abs",
]
_FAST_MATH = [
    "fast_exp",
    "fast_exp2",
    "fast_exp10",
    "fast_log",
    "fast_log2",
    "fast_log10",
    "fast_sin",
    "fast_cos",
    "fast_tan",
    "fast_rcp",
]
_PREDICATES = ["isnan", "isinf", "isfinite"]


def _pure(names: Iterable[str], doc: str, header: str = "math") -> list[Intrinsic]:
    return [Intrinsic(n, doc.replace("NAME", n), header=header) for n in names]


def _shuffle(name: str, operand: str) -> Intrinsic:
    return Intrinsic(
        name,
        f"{name}(v, {operand}, width)",
        effect="sync",
        collective=True,
        header="warp",
        per_thread=True,
    )


def _atomic(name: str, doc: str) -> Intrinsic:
    return Intrinsic(name, doc, "memory", {0: "atomic"}, header="atomic", per_thread=True)


_SCALAR = [
    *_pure(_UNARY_MATH, "NAME(x): elementwise, in the dtype of x"),
    *_pure(_FAST_MATH, "NAME(x): the approximate hardware form, float32"),
    *_pure(_PREDICATES, "NAME(x) -> bool"),
    *_pure(["pow", "fmod", "copysign", "atan2"], "NAME(x, y)"),
    *_pure(["max_nan", "min_nan"], "NAME(x, y): as Max/Min, but a NaN operand gives NaN"),
    *_pure(["fma"], "fma(a, b, c): a * b + c rounded once"),
    *_pure(["popcount", "clz"], "NAME(x) -> int32", "core"),
    Intrinsic("reinterpret", "reinterpret(x): the same bits as the call's dtype"),
    Intrinsic("make_vector", "make_vector(x0, x1, …): lanes of a short vector"),
    Intrinsic("extract_lane", "extract_lane(v, i): one lane of a short vector"),
    Intrinsic("reduce_lanes_add", "reduce_lanes_add(v): horizontal sum of a short vector"),
    Intrinsic("reduce_lanes_max", "reduce_lanes_max(v): horizontal maximum of a short vector"),
    Intrinsic("address_of", "address_of(Load): a pointer to the element"),
    Intrinsic(
        "call_extern",
        "call_extern(name, args…): a user function",
        effect="opaque",
        per_thread=True,
    ),
    Intrinsic("print", "print(format, args…)", effect="sync", header="print"),
    Intrinsic("trap", "trap(): stop the kernel with an error", effect="sync"),
]

_THREADS = [
    Intrinsic("sync_threads", "sync_threads(): barrier of the whole block", effect="barrier"),
    Intrinsic(
        "sync_grid",
        "sync_grid(): barrier of all threads of a cooperative launch",
        effect="barrier",
        header="grid",
        arch=70,
    ),
    Intrinsic("named_barrier_sync", "named_barrier_sync(id, count): count threads", effect="sync"),
    Intrinsic("named_barrier_arrive", "named_barrier_arrive(id, count)", effect="sync"),
    Intrinsic("sync_warp", "sync_warp(mask)", effect="sync", collective=True),
    _shuffle("shfl_idx", "lane"),
    _shuffle("shfl_xor", "mask"),
    _shuffle("shfl_up", "delta"),
    _shuffle("shfl_down", "delta"),
    Intrinsic(
        "ballot",
        "ballot(predicate) -> uint32: one bit per lane",
        effect="sync",
        collective=True,
        header="warp",
    ),
    Intrinsic(
        "match_any",
        "match_any(v) -> uint32: the lanes that have the same v, of 4 or 8 bytes",
        effect="sync",
        collective=True,
        header="warp",
        per_thread=True,
    ),
    Intrinsic(
        "warp_uniform",
        "warp_uniform(x): x of lane 0, known to be uniform",
        effect="sync",
        collective=True,
        header="warp",
    ),
    Intrinsic(
        "elect_one",
        "elect_one() -> bool: true in one lane of a converged warp",
        effect="sync",
        collective=True,
        arch=90,
        header="warp",
        per_thread=True,
    ),
]

_MEMORY = [
    _atomic("atomic_add", "atomic_add(ptr, v): relaxed; returns the old value"),
    _atomic("atomic_max", "atomic_max(ptr, v)"),
    _atomic("atomic_min", "atomic_min(ptr, v)"),
    _atomic("atomic_or", "atomic_or(ptr, v): of integers"),
    _atomic("atomic_load", "atomic_load(ptr): relaxed"),
    _atomic("atomic_store", "atomic_store(ptr, v): relaxed"),
    Intrinsic(
        "memory_fence",
        "memory_fence<order>(): 0 acquire, 1 release, 2 both, 3 sequentially consistent",
        effect="sync",
        header="atomic",
        template=1,
    ),
    Intrinsic(
        "cp_async",
        "cp_async<bytes>(dst_shared, src_global, pred): zero-fills when pred is false; bytes 4, 8, "
        "16",
        "memory",
        {1: "write", 2: "read"},
        "cp_async",
        "cp_async",
        80,
        1,
    ),
    Intrinsic("cp_async_commit", "cp_async_commit()", "sync", header="cp_async", arch=80),
    Intrinsic(
        "cp_async_wait",
        "cp_async_wait<n>(): at most n groups pending",
        "sync",
        header="cp_async",
        arch=80,
        template=1,
    ),
    Intrinsic(
        "ldmatrix",
        "ldmatrix<num, trans>(dst_regs, src_shared_row): num 8x8 b16 matrices (1, 2, 4)",
        "memory",
        {2: "write", 3: "read"},
        header="ldmatrix",
        arch=75,
        template=2,
        collective=True,
    ),
    Intrinsic(
        "stmatrix",
        "stmatrix<num, trans>(dst_shared_row, src_regs)",
        "memory",
        {2: "write", 3: "read"},
        header="ldmatrix",
        arch=90,
        template=2,
        collective=True,
    ),
]

_ASYNC = [
    Intrinsic(
        "mbar_init", "mbar_init(bar, count)", "memory", {0: "rw"}, header="mbarrier", arch=90
    ),
    Intrinsic("mbar_arrive", "mbar_arrive(bar)", "sync", {0: "rw"}, header="mbarrier", arch=90),
    Intrinsic(
        "mbar_expect_tx",
        "mbar_expect_tx(bar, bytes): arrives and announces bytes",
        "sync",
        {0: "rw"},
        header="mbarrier",
        arch=90,
    ),
    Intrinsic(
        "mbar_announce",
        "mbar_announce(bar, bytes): announces bytes, does not arrive",
        "sync",
        {0: "rw"},
        header="mbarrier",
        arch=90,
    ),
    Intrinsic(
        "mbar_wait",
        "mbar_wait(bar, parity): until the phase of this parity has completed",
        "sync",
        {0: "rw"},
        header="mbarrier",
        arch=90,
    ),
    Intrinsic(
        "fence_mbar_init",
        "fence_mbar_init(): after mbar_init, before others use it",
        "sync",
        header="mbarrier",
        arch=90,
    ),
    Intrinsic(
        "fence_proxy_async",
        "fence_proxy_async(): generic shared writes -> async proxy reads",
        "sync",
        header="mbarrier",
        arch=90,
    ),
    Intrinsic("prefetch_tensormap", "prefetch_tensormap(desc)", "sync", header="tma", arch=90),
    Intrinsic(
        "tma_load",
        "tma_load(dst_shared, desc, bar, c0, c1, …): innermost coordinate first",
        "memory",
        {0: "write", 2: "rw"},
        "tma",
        "tma",
        90,
    ),
    Intrinsic(
        "tma_store",
        "tma_store(desc, src_shared, c0, c1, …)",
        "memory",
        {1: "read"},
        "tma",
        "tma",
        90,
    ),
    Intrinsic("tma_store_commit", "tma_store_commit()", "sync", header="tma", arch=90),
    Intrinsic(
        "tma_store_wait",
        "tma_store_wait<n>(): at most n store groups still read shared memory",
        "sync",
        header="tma",
        arch=90,
        template=1,
    ),
    Intrinsic("setmaxnreg_inc", "setmaxnreg_inc<n>()", "sync", header="wgmma", arch=90, template=1),
    Intrinsic("setmaxnreg_dec", "setmaxnreg_dec<n>()", "sync", header="wgmma", arch=90, template=1),
    Intrinsic(
        "wgmma_fence",
        "wgmma_fence(): before the first wgmma and after register writes to its operands",
        "sync",
        header="wgmma",
        arch=90,
    ),
    Intrinsic("wgmma_commit", "wgmma_commit()", "sync", header="wgmma", arch=90),
    Intrinsic(
        "wgmma_wait",
        "wgmma_wait<n>(): at most n groups pending",
        "sync",
        header="wgmma",
        arch=90,
        template=1,
    ),
    Intrinsic(
        "reg_fence",
        "reg_fence<n>(regs): pins reads of n 32-bit registers after the preceding wait",
        "sync",
        {1: "rw"},
        header="wgmma",
        arch=90,
        template=1,
    ),
    Intrinsic(
        "wgmma_desc",
        "wgmma_desc(ptr, lbo_bytes, sbo_bytes, swizzle) -> uint64: shared-memory matrix descriptor;"
        " "
        "swizzle 0 none, 1 128B, 2 64B, 3 32B; + (bytes >> 4) moves it",
        unit="wgmma",
        header="wgmma",
        arch=90,
    ),
]

_CLUSTER = [
    Intrinsic(
        "block_rank_in_cluster", "block_rank_in_cluster() -> int32", header="cluster", arch=90
    ),
    *(
        Intrinsic(name, f"{name}(): {text}", effect, header="cluster", arch=90)
        for name, effect, text in (
            ("cluster_arrive", "sync", "releases what the thread has done so far"),
            ("cluster_arrive_relaxed", "sync", "orders nothing"),
            ("cluster_wait", "sync", "until all threads of the cluster have arrived"),
            ("cluster_sync", "barrier", "arrives and waits"),
        )
    ),
    Intrinsic(
        "cluster_load", "cluster_load(ptr, rank): the element at the place of ptr in block rank",
        "memory", {0: "read"}, header="cluster", arch=90, per_thread=True,
    ),
    Intrinsic(
        "cluster_store", "cluster_store(ptr, v, rank): to the place of ptr in block rank",
        "memory", {0: "write"}, header="cluster", arch=90,
    ),
    Intrinsic(
        "copy_cluster",
        "copy_cluster(dst_shared, src_shared, bytes, bar, rank): to the place of dst in block "
        "rank, whose bar gets the bytes",
        "memory", {0: "write", 1: "read", 3: "rw"}, "tma", "cluster", 90,
    ),
    Intrinsic(
        "mbar_arrive_remote", "mbar_arrive_remote(bar, rank): at the same barrier of block rank",
        "sync", {0: "rw"}, header="cluster", arch=90,
    ),
    Intrinsic(
        "mbar_wait_cluster",
        "mbar_wait_cluster(bar, parity): mbar_wait, and what other blocks did before they arrived",
        "sync", {0: "rw"}, header="cluster", arch=90,
    ),
    Intrinsic(
        "tma_load_multicast",
        "tma_load_multicast(dst_shared, desc, bar, mask, c0, c1, …): into every block of the mask",
        "memory", {0: "write", 2: "rw"}, "tma", "tma", 90,
    ),
    Intrinsic(
        "tma_reduce_add", "tma_reduce_add(desc, src_shared, c0, c1, …): adds to the tensor",
        "memory", {1: "read"}, "tma", "tma", 90,
    ),
    Intrinsic(
        "cp_async_mbar_arrive",
        "cp_async_mbar_arrive(bar): arrives once this thread's cp.async so far have written",
        "sync", {0: "rw"}, header="mbarrier", arch=80,
    ),
]  # fmt: skip

MMA_SHAPES = (
    # m, n, k, operand dtype, accumulator dtype, minimum architecture (PTX ISA, mma.sync)
    (16, 8, 16, "f16", "f32", 80),
    (16, 8, 16, "f16", "f16", 80),
    (16, 8, 16, "bf16", "f32", 80),
    (16, 8, 8, "tf32", "f32", 80),
    (16, 8, 32, "s8", "s32", 80),
    (16, 8, 32, "u8", "s32", 80),
    (16, 8, 32, "e4m3", "f32", 89),
    (16, 8, 32, "e5m2", "f32", 89),
    (8, 8, 4, "f64", "f64", 80),
)
_MMA = [
    Intrinsic(
        f"mma_m{m}n{n}k{k}_{ab}_{c}",
        f"mma_m{m}n{n}k{k}_{ab}_{c}(c_regs, a_regs, b_regs): c += a · b, A row, B col",
        "memory",
        {0: "rw", 1: "read", 2: "read"},
        header="mma",
        arch=arch,
        collective=True,
    )
    for m, n, k, ab, c, arch in MMA_SHAPES
]

WGMMA_TYPES = (
    # operand, K, accumulator (PTX ISA, wgmma.mma_async)
    ("f16", 16, "f32"),
    ("f16", 16, "f16"),
    ("bf16", 16, "f32"),
    ("tf32", 8, "f32"),
    ("s8", 32, "s32"),
    ("u8", 32, "s32"),
    ("e4m3", 32, "f32"),
    ("e5m2", 32, "f32"),
)
_WGMMA = [
    Intrinsic(
        f"wgmma_m64n{n}k{k}_{ab}_{c}_{form}",
        f"wgmma_m64n{n}k{k}_{ab}_{c}_{form}<trans_a, trans_b>(d_regs, a, desc_b, scale_d): "
        + ("a is a descriptor" if form == "ss" else "a is 4 registers; trans_a must be 0"),
        "memory",
        {2: "rw"} if form == "ss" else {2: "rw", 3: "read"},
        "wgmma",
        "wgmma",
        90,
        2,
        True,
    )
    for ab, k, c in WGMMA_TYPES
    for n in range(8, 257, 8)
    if c != "s32" or n <= 24 or n % 16 == 0
    for form in ("ss", "rs")
]

TABLE: dict[str, Intrinsic] = {
    r.name: r for r in (*_SCALAR, *_THREADS, *_MEMORY, *_ASYNC, *_CLUSTER, *_MMA, *_WGMMA)
}
