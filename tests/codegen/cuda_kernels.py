# SPDX-License-Identifier: Apache-2.0
"""DEVICE-stage kernels written by hand: what the passes should hand to the code generator.

`matmul_mma` is the cp.async + ldmatrix + mma.sync shape of sm_80, `matmul_wgmma` the TMA + wgmma
shape of sm_90a; both compute C = A[M, K] · B[K, N] in float16 with float32 accumulators.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import (
    Buffer,
    Builder,
    DType,
    Expr,
    Kernel,
    Load,
    Ramp,
    TensorMap,
    Var,
    address_of,
    call,
    cast,
    const,
)

BM, BN, BK, STAGES, WARP_TILE = 128, 128, 32, 3, 64


def indices() -> tuple[tuple[Var, Var, Var], tuple[Var, Var, Var]]:
    return (Var("bx"), Var("by"), Var("bz")), (Var("tx"), Var("ty"), Var("tz"))


def ceil(a: Any, b: int) -> Expr:
    return (a + (b - 1)) // b


def add_kernel() -> Kernel:
    """C[i] = A[i] + B[i] in float32, one element a thread, any n."""
    n = Var("n")
    a, b, c = (Buffer(name, [n], "float32") for name in "ABC")
    blocks, threads = indices()
    k = Builder()
    i = k.bind("i", blocks[0] * 256 + threads[0])
    with k.if_(i < n):
        k.store(c, (i,), a[i] + b[i])
    one = const(1)
    return Kernel(
        "add_kernel",
        (a, b, c, n),
        k.finish(),
        (ceil(n, 256), one, one),
        (256, 1, 1),
        blocks,
        threads,
    )


def vector_kernel() -> Kernel:
    """B[i] = 2 * A[i] in float16 with float32 arithmetic, eight elements a thread."""
    a, b = Buffer("A", [4096], "float16"), Buffer("B", [4096], "float16")
    blocks, threads = indices()
    k = Builder()
    at = Ramp((blocks[0] * 128 + threads[0]) * 8, const(1), 8)
    wide = k.bind("wide", cast(Load(a, (at,)), "float32x8"))
    k.store(b, (at,), cast(wide * 2.0, "float16x8"))
    one = const(1)
    return Kernel("scale", (a, b), k.finish(), (const(4), one, one), (128, 1, 1), blocks, threads)


def a_chunk(row: Expr, chunk: Expr) -> Expr:
    """Element offset of a 16-byte chunk of a 64-byte row, swizzled over 8 rows."""
    return (row * 4 + (chunk ^ ((row // 2) % 4))) * 8


def b_chunk(row: Expr, chunk: Expr) -> Expr:
    """The same for rows of 256 bytes."""
    return (row * 16 + (chunk ^ (row % 8))) * 8


class MatmulMma:
    """The pieces of `matmul_mma`: 128 threads, 2 x 2 warps of 64 x 64."""

    def __init__(self) -> None:
        self.m, self.n, self.k = Var("M"), Var("N"), Var("K")
        self.a = Buffer("A", [self.m * self.k], "float16")
        self.b = Buffer("B", [self.k * self.n], "float16")
        self.c = Buffer("C", [self.m * self.n], "float16")
        self.blocks, self.threads = indices()
        self.o = Builder()
        self.a_shared = self.o.alloc(
            "A_shared", [STAGES * BM * BK], "float16", "shared.dyn", offset=0
        )
        self.b_offset = STAGES * BM * BK * 2
        self.b_shared = self.o.alloc(
            "B_shared", [STAGES * BK * BN], "float16", "shared.dyn", offset=self.b_offset
        )
        self.acc = self.o.alloc("C_local", [4 * 8 * 4], "float32")
        self.a_frag = self.o.alloc("A_frag", [4 * 8], "float16")
        self.b_frag = self.o.alloc("B_frag", [4 * 8], "float16")

    def load_stage(self, stage: Expr, block: Expr) -> None:
        o, tx = self.o, self.threads[0]
        bx, by, _ = self.blocks
        with o.for_("i", BM * BK // 8 // 128, kind="unroll") as i:
            row, chunk = tx // 4 + i * 32, tx % 4
            gm, gk = by * BM + row, block * BK + chunk * 8
            o.call(
                "cp_async",
                const(16),
                address_of(self.a_shared, stage * (BM * BK) + a_chunk(row, chunk)),
                address_of(self.a, cast(gm, "int64") * self.k + gk),
                (gm < self.m) & (gk < self.k),
            )
        with o.for_("i", BK * BN // 8 // 128, kind="unroll") as i:
            row, chunk = tx // 16 + i * 8, tx % 16
            gk, gn = block * BK + row, bx * BN + chunk * 8
            o.call(
                "cp_async",
                const(16),
                address_of(self.b_shared, stage * (BK * BN) + b_chunk(row, chunk)),
                address_of(self.b, cast(gk, "int64") * self.n + gn),
                (gk < self.k) & (gn < self.n),
            )

    def multiply_stage(self, stage: Expr, warp_m: Expr, warp_n: Expr, lane: Expr) -> None:
        o = self.o
        with o.for_("k", BK // 16, kind="unroll") as k:
            with o.for_("i", 4, kind="unroll") as i:
                row, chunk = warp_m * WARP_TILE + i * 16 + lane % 16, k * 2 + lane // 16
                o.call(
                    "ldmatrix",
                    const(4),
                    const(False),
                    address_of(self.a_frag, i * 8),
                    address_of(self.a_shared, stage * (BM * BK) + a_chunk(row, chunk)),
                )
            with o.for_("j", 4, kind="unroll") as j:
                row, chunk = k * 16 + lane % 16, warp_n * 8 + j * 2 + lane // 16
                o.call(
                    "ldmatrix",
                    const(4),
                    const(True),
                    address_of(self.b_frag, j * 8),
                    address_of(self.b_shared, stage * (BK * BN) + b_chunk(row, chunk)),
                )
            with o.for_("i", 4, kind="unroll") as i, o.for_("j", 8, kind="unroll") as j:
                o.call(
                    "mma_m16n8k16_f16_f32",
                    address_of(self.acc, i * 32 + j * 4),
                    address_of(self.a_frag, i * 8),
                    address_of(self.b_frag, j * 4),
                )

    def store_result(self, warp_m: Expr, warp_n: Expr, lane: Expr) -> None:
        o = self.o
        bx, by, _ = self.blocks
        with (
            o.for_("i", 4, kind="unroll") as i,
            o.for_("j", 8, kind="unroll") as j,
            o.for_("h", 2, kind="unroll") as h,
        ):
            row = by * BM + warp_m * WARP_TILE + i * 16 + lane // 4 + h * 8
            col = bx * BN + warp_n * WARP_TILE + j * 8 + lane % 4 * 2
            with o.if_((row < self.m) & (col < self.n)):
                pair = Ramp(i * 32 + j * 4 + h * 2, const(1), 2)
                place = Ramp(cast(row, "int64") * self.n + col, const(1, "int64"), 2)
                o.store(self.c, (place,), Load(self.acc, (pair,)))

    def build(self) -> Kernel:
        o, tx = self.o, self.threads[0]
        lane, warp = (
            o.bind("lane", tx % 32),
            o.bind("warp", call("warp_uniform", [tx // 32], "int32")),
        )
        warp_m, warp_n = o.bind("warp_m", warp // 2), o.bind("warp_n", warp % 2)
        blocks = o.bind("blocks", ceil(self.k, BK))
        with o.for_("i", 128, kind="unroll") as i:
            o.store(self.acc, (i,), const(0.0))
        for stage in range(STAGES - 1):
            with o.if_(const(stage) < blocks):
                self.load_stage(const(stage), const(stage))
            o.call("cp_async_commit")
        with o.for_("ko", blocks) as ko:
            o.call("cp_async_wait", const(STAGES - 2))
            o.call("sync_threads")
            ahead = o.bind("ahead", ko + (STAGES - 1))
            with o.if_(ahead < blocks):
                self.load_stage(o.bind("slot", ahead % STAGES), ahead)
            o.call("cp_async_commit")
            self.multiply_stage(o.bind("stage", ko % STAGES), warp_m, warp_n, lane)
        self.store_result(warp_m, warp_n, lane)
        smem = self.b_offset + STAGES * BK * BN * 2
        args = (self.a, self.b, self.c, self.m, self.n, self.k)
        grid = (ceil(self.n, BN), ceil(self.m, BM), const(1))
        return Kernel(
            "matmul_kernel", args, o.finish(), grid, (128, 1, 1), self.blocks, self.threads, smem
        )


def matmul_mma() -> Kernel:
    return MatmulMma().build()


WG_BM, WG_BN, WG_BK, WG_STAGES = 128, 128, 64, 4
A_BYTES, B_BYTES = WG_BM * WG_BK * 2, WG_BK * WG_BN * 2
STORE_BYTES = 64 * 64 * 2


class MatmulWgmma:
    """The pieces of `matmul_wgmma`: two consumer warpgroups of 64 rows and one producer warp."""

    def __init__(self) -> None:
        self.m, self.n, self.k = Var("M"), Var("N"), Var("K")
        self.a = Buffer("A", [self.m, self.k], "float16")
        self.b = Buffer("B", [self.k, self.n], "float16")
        self.c = Buffer("C", [self.m, self.n], "float16")
        one = const(1)
        self.maps = (
            TensorMap(
                Var("A_desc", DType("handle")),
                self.a,
                (self.k, self.m),
                (one, self.k),
                (64, WG_BM),
                128,
            ),
            TensorMap(
                Var("B_desc", DType("handle")),
                self.b,
                (self.n, self.k),
                (one, self.n),
                (64, 64),
                128,
            ),
            TensorMap(
                Var("C_desc", DType("handle")),
                self.c,
                (self.n, self.m),
                (one, self.n),
                (64, 64),
                128,
            ),
        )
        self.blocks, self.threads = indices()
        o = self.o = Builder()
        at = WG_STAGES * A_BYTES
        self.a_shared = o.alloc("A_shared", [at // 2], "float16", "shared.dyn", offset=0)
        size = WG_STAGES * B_BYTES
        self.b_shared = o.alloc("B_shared", [size // 2], "float16", "shared.dyn", offset=at)
        at += size
        self.c_shared = o.alloc(
            "C_shared", [2 * STORE_BYTES // 2], "float16", "shared.dyn", offset=at
        )
        at += 2 * STORE_BYTES
        self.full = o.alloc("full", [WG_STAGES], "uint64", "shared.barrier", offset=at)
        self.empty = o.alloc(
            "empty", [WG_STAGES], "uint64", "shared.barrier", offset=at + 8 * WG_STAGES
        )
        self.smem = at + 16 * WG_STAGES

    def initialize(self) -> None:
        o = self.o
        with o.if_(self.threads[0].__eq__(0)):
            for desc in self.maps:
                o.call("prefetch_tensormap", desc.var)
            with o.for_("s", WG_STAGES, kind="unroll") as s:
                o.call("mbar_init", address_of(self.full, s), const(1))
                o.call("mbar_init", address_of(self.empty, s), const(2))
            o.call("fence_mbar_init")
        o.call("sync_threads")

    def produce(self, blocks: Expr) -> None:
        o = self.o
        bx, by, _ = self.blocks
        with o.if_(call("elect_one", [], "bool")), o.for_("ko", blocks) as ko:
            s, parity = o.bind("s", ko % WG_STAGES), o.bind("parity", ko // WG_STAGES % 2 ^ 1)
            o.call("mbar_wait", address_of(self.empty, s), parity)
            full = address_of(self.full, s)
            o.call("mbar_expect_tx", full, const(A_BYTES + B_BYTES))
            tile = address_of(self.a_shared, s * (A_BYTES // 2))
            o.call("tma_load", tile, self.maps[0].var, full, ko * WG_BK, by * WG_BM)
            with o.for_("j", WG_BN // 64, kind="unroll") as j:
                tile = address_of(self.b_shared, s * (B_BYTES // 2) + j * (64 * WG_BK))
                o.call("tma_load", tile, self.maps[1].var, full, bx * WG_BN + j * 64, ko * WG_BK)

    def consume(self, blocks: Expr, group: Expr) -> None:
        o, tx = self.o, self.threads[0]
        acc = o.alloc("C_local", [64], "float32")
        with o.for_("i", 64, kind="unroll") as i:
            o.store(acc, (i,), const(0.0))
        d = address_of(acc, 0)
        o.call("reg_fence", const(64), d)  # without it ptxas runs the wgmmas one by one (C7514)
        with o.for_("ko", blocks) as ko:
            s = o.bind("s", ko % WG_STAGES)
            o.call("mbar_wait", address_of(self.full, s), o.bind("parity", ko // WG_STAGES % 2))
            rows = address_of(self.a_shared, s * (A_BYTES // 2) + group * (64 * WG_BK))
            cols = address_of(self.b_shared, s * (B_BYTES // 2))
            box = const(64 * WG_BK * 2)  # bytes between 64-column boxes of B
            desc_a = o.bind(
                "desc_a", call("wgmma_desc", [rows, const(16), const(1024), const(1)], "uint64")
            )
            desc_b = o.bind(
                "desc_b", call("wgmma_desc", [cols, box, const(1024), const(1)], "uint64")
            )
            o.call("wgmma_fence")
            with o.for_("k", WG_BK // 16, kind="unroll") as k:
                step = cast(k, "uint64")
                o.call(
                    "wgmma_m64n128k16_f16_f32_ss",
                    const(0),
                    const(1),
                    d,
                    desc_a + step * (32 >> 4),
                    desc_b + step * (2048 >> 4),
                    const(1),
                )
            o.call("wgmma_commit")
            o.call("wgmma_wait", const(1))  # one group stays in flight: the slot before is free
            with o.if_((tx % 128).__eq__(0) & (ko > 0)):
                o.call("mbar_arrive", address_of(self.empty, (ko + (WG_STAGES - 1)) % WG_STAGES))
        o.call("wgmma_wait", const(0))
        o.call("reg_fence", const(64), d)
        self.store_result(acc, group)

    def store_result(self, acc: Buffer, group: Expr) -> None:
        o, tx = self.o, self.threads[0]
        bx, by, _ = self.blocks
        packed = o.alloc("packed", [8], "float16")
        row = o.bind("row", tx % 128 // 32 * 16 + tx % 16)
        tile = group * (STORE_BYTES // 2)
        with o.for_("j", WG_BN // 64, kind="unroll") as j:
            with o.if_((tx % 128).__eq__(0)):
                o.call("tma_store_wait", const(0))
            o.call("named_barrier_sync", group + 1, const(128))
            with o.for_("q", 4, kind="unroll") as q:
                values = Load(acc, (Ramp(j * 32 + q * 8, const(1), 8),))
                o.store(packed, (Ramp(const(0), const(1), 8),), values)
                chunk = (q * 2 + tx % 32 // 16) ^ (row % 8)
                place = address_of(self.c_shared, tile + row * 64 + chunk * 8)
                o.call("stmatrix", const(4), const(False), place, address_of(packed, 0))
            o.call("fence_proxy_async")
            o.call("named_barrier_sync", group + 1, const(128))
            with o.if_((tx % 128).__eq__(0)):
                source = address_of(self.c_shared, tile)
                o.call(
                    "tma_store",
                    self.maps[2].var,
                    source,
                    bx * WG_BN + j * 64,
                    by * WG_BM + group * 64,
                )
                o.call("tma_store_commit")
        with o.if_((tx % 128).__eq__(0)):
            o.call("tma_store_wait", const(0))

    def build(self) -> Kernel:
        o = self.o
        self.initialize()
        warp = o.bind("warp", call("warp_uniform", [self.threads[0] // 32], "int32"))
        blocks = o.bind("blocks", ceil(self.k, WG_BK))
        with o.if_(warp >= 8):
            self.produce(blocks)
        with o.else_():
            self.consume(blocks, o.bind("group", warp // 4))
        grid = (ceil(self.n, WG_BN), ceil(self.m, WG_BM), const(1))
        args = (*self.maps, self.m, self.n, self.k)
        return Kernel(
            "matmul_kernel",
            args,
            o.finish(),
            grid,
            (288, 1, 1),
            self.blocks,
            self.threads,
            self.smem,
        )


def matmul_wgmma() -> Kernel:
    return MatmulWgmma().build()
