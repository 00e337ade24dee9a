# SPDX-License-Identifier: Apache-2.0
"""Each unit of the simulated GPU against numpy: warp exchange, matrices, copies, atomics."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilelang.ir import DType
from tilelang.sim import tensor_map

BF16 = ml_dtypes.bfloat16
LANES = np.arange(32)
G, Q = LANES // 4, LANES % 4  # how fragments are indexed (PTX ISA, matrix fragments)


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


# ---------------------------------------------------------------------------------------- shuffles


@pytest.mark.parametrize("width", [32, 8])
@pytest.mark.parametrize("mode", ["idx", "xor", "up", "down"])
@pytest.mark.parametrize("ctype", ["int", "double"])
def test_shuffles(sim: Any, mode: str, width: int, ctype: str) -> None:
    source = sim.kernel(
        f"{ctype}* A", f"A[threadIdx.x] = tl::shfl_{mode}(A[threadIdx.x], 3, {width});", "warp"
    )
    a = np.arange(100, 132).astype("i4" if ctype == "int" else "f8")
    before = a.copy()
    sim.run(source, a)
    first = LANES // width * width
    from_lane = {"idx": first + 3, "xor": LANES ^ 3, "up": LANES - 3, "down": LANES + 3}[mode]
    inside = (from_lane >= first) & (from_lane < first + width)
    np.testing.assert_array_equal(a, before[np.where(inside, from_lane, LANES)])


def test_elect_and_uniform(sim: Any) -> None:
    body = "A[threadIdx.x] = tl::elect_one() * 100 + tl::warp_uniform((int)threadIdx.x);"
    a = np.zeros(64, np.int32)
    sim.run(sim.kernel("int* A", body, "warp"), a, block=(64,))
    assert list(a) == [100, *[0] * 31, 132, *[32] * 31]


# ---------------------------------------------------------------------- fragments of mma.sync


def fragment_a(a: Any, per: int) -> Any:
    """Registers of A: lane x register x elements of a register."""
    k = a.shape[1]
    rows = G[:, None] + 8 * (np.arange(4) % 2)
    first = Q[:, None] * per + np.arange(4) // 2 * (k // 2)
    return a[rows[:, :, None], first[:, :, None] + np.arange(per)]


def fragment_b(b: Any, per: int) -> Any:
    first = Q[:, None] * per + np.arange(2) * (b.shape[0] // 2)
    return b[first[:, :, None] + np.arange(per), G[:, None, None]]


def fragment_c(c: Any) -> Any:
    rows, columns = G[:, None] + np.array([0, 0, 8, 8]), Q[:, None] * 2 + np.array([0, 1, 0, 1])
    return c[rows, columns]


MMA = [
    ("m16n8k16_f16_f32", "half_t", "float", np.float16, np.float32, 16),
    ("m16n8k16_f16_f16", "half_t", "half_t", np.float16, np.float16, 16),
    ("m16n8k16_bf16_f32", "bfloat16_t", "float", BF16, np.float32, 16),
    ("m16n8k8_tf32_f32", "float", "float", np.float32, np.float32, 8),
    ("m16n8k32_s8_s32", "signed char", "int", np.int8, np.int32, 32),
    ("m16n8k32_u8_s32", "unsigned char", "int", np.uint8, np.int32, 32),
]


@pytest.mark.parametrize(
    ("name", "ab", "c", "ab_type", "c_type", "k"), MMA, ids=[m[0] for m in MMA]
)
def test_mma(sim: Any, name: str, ab: str, c: str, ab_type: Any, c_type: Any, k: int) -> None:
    per = 4 // np.dtype(ab_type).itemsize
    low = 0 if ab_type == np.uint8 else -9
    wide = np.int64 if c == "int" else np.float64
    a, b = (rng().integers(low, 10, s).astype(ab_type) for s in ((16, k), (k, 8)))
    acc = rng().integers(-9, 10, (16, 8)).astype(c_type)
    source = sim.kernel(
        f"const {ab}* A, const {ab}* B, {c}* C",
        f"""  const int t = (int)threadIdx.x;
  __align__(16) {ab} a[{4 * per}], b[{2 * per}];
  __align__(16) {c} c[4];
  for (int i = 0; i < {4 * per}; ++i) a[i] = A[t * {4 * per} + i];
  for (int i = 0; i < {2 * per}; ++i) b[i] = B[t * {2 * per} + i];
  for (int i = 0; i < 4; ++i) c[i] = C[t * 4 + i];
  tl::mma_{name}(c, a, b);
  for (int i = 0; i < 4; ++i) C[t * 4 + i] = c[i];""",
        "mma",
    )
    registers = np.ascontiguousarray(fragment_c(acc))
    sim.run(
        source,
        *(np.ascontiguousarray(f) for f in (fragment_a(a, per), fragment_b(b, per))),
        registers,
    )
    want = acc.astype(wide) + a.astype(wide) @ b.astype(wide)
    np.testing.assert_array_equal(registers.astype(wide), fragment_c(want))


def test_tf32_ignores_the_low_bits(sim: Any) -> None:
    body = """  float a[4] = {1.0009765625f, 0, 0, 0}, b[2] = {1.0f, 0}, c[4] = {0, 0, 0, 0};
  a[0] = tl::reinterpret<float>(tl::reinterpret<unsigned>(a[0]) | 0x1fffu);
  if (threadIdx.x > 0) a[0] = 0.0f;
  tl::mma_m16n8k8_tf32_f32(c, a, b);
  if (threadIdx.x == 0) A[0] = c[0];"""
    a = np.zeros(1, np.float32)
    sim.run(sim.kernel("float* A", body, "mma"), a)
    assert a[0] == 1.0009765625


def test_mma_f64(sim: Any) -> None:
    a, b, c = (rng().standard_normal(s) for s in ((8, 4), (4, 8), (8, 8)))
    body = """  const int t = (int)threadIdx.x;
  double c[2] = {C[2 * t], C[2 * t + 1]};
  tl::mma_m8n8k4_f64_f64(c, &A[t], &B[t]);
  C[2 * t] = c[0];
  C[2 * t + 1] = c[1];"""
    source = sim.kernel("const double* A, const double* B, double* C", body, "mma")
    columns = Q[:, None] * 2 + np.arange(2)
    registers = np.ascontiguousarray(c[G[:, None], columns])
    sim.run(source, np.ascontiguousarray(a[G, Q]), np.ascontiguousarray(b[Q, G]), registers)
    np.testing.assert_allclose(registers, (c + a @ b)[G[:, None], columns], rtol=1e-14)


@pytest.mark.parametrize("num", [1, 2, 4])
@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_and_stmatrix(sim: Any, num: int, trans: bool) -> None:
    flag = "true" if trans else "false"
    body = f"""  unsigned short* s = (unsigned short*)buf_dyn_shmem;
  const int t = (int)threadIdx.x;
  for (int i = t; i < {64 * num}; i += 32) s[i] = A[i];
  tl::sync_threads();
  unsigned r[4];
  tl::ldmatrix<{num}, {flag}>(r, &s[t % {8 * num} * 8]);
  for (int i = 0; i < {num}; ++i) B[t * {num} + i] = r[i];
  tl::stmatrix<{num}, {flag}>(&s[256 + t % {8 * num} * 8], r);
  tl::sync_warp();
  for (int i = t; i < {64 * num}; i += 32) C[i] = s[256 + i];"""
    source = sim.kernel("unsigned short* A, unsigned* B, unsigned short* C", body, "ldmatrix")
    a = np.arange(64 * num, dtype=np.uint16)
    b, c = np.zeros((32, num), np.uint32), np.zeros_like(a)
    sim.run(source, a, b, c, smem=1024)
    matrices = a.reshape(num, 8, 8).astype(np.uint32)
    if trans:
        matrices = matrices.swapaxes(1, 2)
    pairs = matrices[:, G, 2 * Q] | matrices[:, G, 2 * Q + 1] << 16
    np.testing.assert_array_equal(b, pairs.T)
    np.testing.assert_array_equal(c, a)


def test_bank_conflicts_are_counted(sim: Any) -> None:
    body = """  const int t = (int)threadIdx.x;
  for (int i = t; i < 1024; i += 32) ((int*)buf_dyn_shmem)[i] = i;
  tl::sync_threads();
  unsigned r[4];
  tl::ldmatrix<4, false>(r, buf_dyn_shmem + t * 128);
  A[t] = r[0];"""
    report = sim.run(
        sim.kernel("unsigned* A", body, "ldmatrix"), np.zeros(32, np.uint32), smem=4096
    )
    site = next(s for s in report.sites if s.memory == "shared" and not s.writes and s.bytes == 512)
    assert (site.units, site.ideal) == (32, 4)  # all rows of a matrix in the same banks
    assert "ideal 4" in str(report)


# ------------------------------------------------------------------------------------------ copies


@pytest.mark.parametrize("size", [4, 8, 16])
def test_cp_async_fills_with_zeros(sim: Any, size: int) -> None:
    n = size // 4
    body = f"""  int* s = (int*)buf_dyn_shmem;
  const int t = (int)threadIdx.x;
  tl::cp_async<{size}>(&s[t * {n}], &A[t * {n}], t % 3 != 0);
  tl::cp_async_commit();
  tl::cp_async_wait<0>();
  for (int i = 0; i < {n}; ++i) B[t * {n} + i] = s[t * {n} + i];"""
    a, b = np.arange(1, 32 * n + 1, dtype=np.int32), np.zeros(32 * n, np.int32)
    sim.run(sim.kernel("const int* A, int* B", body, "cp_async"), a, b, smem=512)
    want = a.reshape(32, n) * (LANES % 3 != 0)[:, None]
    np.testing.assert_array_equal(b.reshape(32, n), want)


def swizzle(chunks: Any, width: int) -> Any:
    """Rows x chunks of 16 bytes of a box, as it lies in shared memory."""
    rows = np.arange(chunks.shape[0])
    mask, shift = {128: (7, 0), 64: (3, 1), 32: (1, 2), 0: (0, 0)}[width]
    order = np.arange(chunks.shape[1])[None, :] ^ ((rows >> shift & mask)[:, None])
    out = np.empty_like(chunks)
    out[rows[:, None], order] = chunks
    return out


TMA_BODY = """  const int t = (int)threadIdx.x;
  unsigned long long* bar = (unsigned long long*)(buf_dyn_shmem + 16384);
  if (t == 0) {
    tl::mbar_init(bar, 1);
    tl::fence_mbar_init();
    tl::mbar_expect_tx(bar, BYTES);
    tl::tma_load(buf_dyn_shmem, in, bar, COORDS);
  }
  tl::sync_threads();
  tl::mbar_wait(bar, 0);
  for (int i = t; i < BYTES / 2; i += 32) B[i] = ((short*)buf_dyn_shmem)[i];
  for (int i = t; i < BYTES / 2; i += 32) ((short*)buf_dyn_shmem)[i] += 1000;
  tl::fence_proxy_async();
  tl::sync_threads();
  if (t == 0) {
    tl::tma_store(out, buf_dyn_shmem, COORDS);
    tl::tma_store_commit();
    tl::tma_store_wait<0>();
  }"""
TMA = [
    ((200,), (64,), (100,), 0),
    ((200,), (64,), (160,), 128),
    ((24, 40), (16, 16), (10, -4), 0),
    ((24, 40), (16, 16), (20, 32), 32),
    ((24, 40), (16, 32), (-3, 16), 64),
    ((70, 72), (32, 64), (50, 16), 128),
    ((5, 9, 40), (3, 4, 16), (-1, 7, 32), 32),
    ((3, 4, 5, 16), (2, 2, 3, 16), (2, 3, -1, 8), 0),
    ((3, 2, 4, 5, 24), (2, 2, 2, 3, 8), (1, 0, 3, 3, 16), 0),
]


@pytest.mark.parametrize(("shape", "box", "at", "width"), TMA)
def test_tma(sim: Any, shape: Any, box: Any, at: Any, width: int) -> None:
    """Boxes over the edges: zeros come in, nothing outside is written."""
    rank, size = len(shape), int(np.prod(box)) * 2
    body = TMA_BODY.replace("BYTES", str(size)).replace("COORDS", ", ".join(map(str, at[::-1])))
    source = sim.kernel(
        "const __grid_constant__ tl::TensorMap in, const __grid_constant__ tl::TensorMap out, "
        "short* B",
        body, "tma mbarrier",
    )  # fmt: skip
    a = rng().integers(1, 900, shape).astype(np.int16)
    out, seen = np.full(shape, -7, np.int16), np.zeros(size // 2, np.int16)
    maps = [
        (
            tensor_map(
                x.ctypes.data,
                DType("int16"),
                shape[::-1],
                list(x.strides[::-1][1:]),
                box[::-1],
                width,
            ),
            x,
        )
        for x in (a, out)
    ]
    sim.run(source, *maps, seen, smem=16384 + 8)
    padded = np.zeros([n + 2 * max(box) for n in shape], np.int16)
    inside = tuple(slice(max(box), max(box) + n) for n in shape)
    padded[inside] = a
    want = padded[
        tuple(slice(max(box) + c, max(box) + c + b) for c, b in zip(at, box, strict=True))
    ]
    got = swizzle(seen.reshape(-1, box[-1] * 2 // 16, 8), width)  # the XOR is its own inverse
    np.testing.assert_array_equal(got.reshape(box), want)
    hit = np.zeros(shape, bool)
    hit[tuple(slice(max(0, c), max(0, c + b)) for c, b in zip(at, box, strict=True))] = True
    np.testing.assert_array_equal(out, np.where(hit, a + 1000, -7))
    assert rank == len(at)


# ------------------------------------------------------------------------------------------- wgmma

WIDTHS = {0: 16, 1: 128, 2: 64, 3: 32}  # descriptor's swizzle field -> bytes of a box's row


def staged(matrix: Any, k_major: bool, mode: int) -> tuple[Any, int, int, int, int]:
    """A matrix (M or N) x K of 16-bit elements as TMA leaves it in shared memory, box after box.

    Returns the bytes, LBO, SBO, and the address steps of k-steps inside a box and between boxes."""
    tile = matrix if k_major else matrix.T  # rows x inner
    width = WIDTHS[mode] // 2
    boxes = [tile[:, i : i + width] for i in range(0, tile.shape[1], width)]
    rows = [np.ascontiguousarray(b).reshape(len(b), -1, 8) for b in boxes]
    data = np.concatenate([swizzle(r, 0 if mode == 0 else 2 * width).reshape(-1) for r in rows])
    box_bytes = tile.shape[0] * width * 2
    if k_major:
        return (
            (data, box_bytes, 128, 2 * box_bytes, 0)
            if mode == 0
            else (data, 16, 16 * width, 32, box_bytes)
        )
    atom = 16 * width
    return (data, 128, box_bytes, 256, 0) if mode == 0 else (data, box_bytes, atom, 2 * atom, 0)


def wgmma_case(
    sim: Any, n: int, a_k: bool, b_k: bool, mode_a: int, mode_b: int, dtype: str, acc: str = "f32"
) -> None:
    k, element = 64, {"f16": np.float16, "bf16": BF16}[dtype]
    a = rng().integers(-4, 5, (64, k)).astype(element)
    b = rng().integers(-4, 5, (n, k)).astype(element)
    sa, lbo_a, sbo_a, step_a, box_a = staged(a, a_k, mode_a)
    sb, lbo_b, sbo_b, step_b, box_b = staged(b, b_k, mode_b)

    def offset(step: int, box: int, mode: int) -> str:
        per = WIDTHS[mode] // 32 if box else 0  # k-steps in a box
        return f"(kk % {per} * {step} + kk / {per} * {box})" if per else f"kk * {step}"

    ctype = {"f32": "float", "f16": "half_t"}[acc]
    body = f"""  const int t = (int)threadIdx.x;
  unsigned short* s = (unsigned short*)buf_dyn_shmem;
  unsigned short* sb = (unsigned short*)(buf_dyn_shmem + 8192);
  for (int i = t; i < {len(sa)}; i += 128) s[i] = A[i];
  for (int i = t; i < {len(sb)}; i += 128) sb[i] = B[i];
  tl::fence_proxy_async();
  tl::sync_threads();
  __align__(16) {ctype} d[{n // 2}];
  for (int i = 0; i < {n // 2}; ++i) d[i] = ({ctype})1.0f;
  const unsigned long long da = tl::wgmma_desc(s, {lbo_a}, {sbo_a}, {mode_a});
  const unsigned long long db = tl::wgmma_desc(sb, {lbo_b}, {sbo_b}, {mode_b});
  tl::wgmma_fence();
  for (int kk = 0; kk < 4; ++kk)
    tl::wgmma_m64n{n}k16_{dtype}_{acc}_ss<{int(not a_k)}, {int(not b_k)}>(
        d, da + (({offset(step_a, box_a, mode_a)}) >> 4),
        db + (({offset(step_b, box_b, mode_b)}) >> 4), 1);
  tl::wgmma_commit();
  tl::wgmma_wait<0>();
  for (int j = 0; j < {n // 8}; ++j)
    for (int i = 0; i < 4; ++i) {{
      const int row = t / 32 * 16 + t % 32 / 4 + 8 * (i >> 1), column = 8 * j + t % 4 * 2 + (i & 1);
      C[row * {n} + column] = d[4 * j + i];
    }}"""
    source = sim.kernel(
        f"const unsigned short* A, const unsigned short* B, {ctype}* C", body, "wgmma mbarrier"
    )
    c = np.zeros((64, n), np.float32 if acc == "f32" else np.float16)
    sim.run(
        source, sa.view(np.uint16), sb.view(np.uint16), c, block=(128,), smem=8192 + len(sb) * 2
    )
    np.testing.assert_array_equal(c, 1 + a.astype(np.float32) @ b.astype(np.float32).T)


@pytest.mark.parametrize("mode", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("a_k", "b_k"), [(True, True), (True, False), (False, True), (False, False)]
)
def test_wgmma_of_all_layouts(sim: Any, a_k: bool, b_k: bool, mode: int) -> None:
    wgmma_case(sim, 64, a_k, b_k, mode, mode, "f16")


@pytest.mark.parametrize("n", [8, 24, 136, 256])
def test_wgmma_of_all_widths(sim: Any, n: int) -> None:
    wgmma_case(sim, n, True, True, 1, 3, "bf16")


def test_wgmma_with_half_accumulators(sim: Any) -> None:
    wgmma_case(sim, 32, True, False, 2, 3, "f16", "f16")


def test_wgmma_with_a_in_registers(sim: Any) -> None:
    a = rng().integers(-4, 5, (64, 16)).astype(np.float16)
    b = rng().integers(-4, 5, (16, 16)).astype(np.float16)  # N x K
    body = """  const int t = (int)threadIdx.x;
  half_t* s = (half_t*)buf_dyn_shmem;
  for (int i = t; i < 256; i += 128)
    s[i / 16 * 16 + ((i % 16 / 8) ^ (i / 64 & 1)) * 8 + i % 8] = B[i];
  tl::fence_proxy_async();
  tl::sync_threads();
  __align__(16) half_t a[8];
  for (int i = 0; i < 8; ++i)
    a[i] = A[(t / 32 * 16 + t % 32 / 4 + 8 * (i / 2 % 2)) * 16 + t % 4 * 2 + i / 4 * 8 + i % 2];
  float d[8];
  tl::wgmma_fence();
  tl::wgmma_m64n16k16_f16_f32_rs<0, 0>(d, a, tl::wgmma_desc(s, 16, 256, 3), 0);
  tl::wgmma_commit();
  CHANGE
  tl::wgmma_wait<0>();
  const int row = t / 32 * 16 + t % 32 / 4, column = t % 4 * 2;
  for (int i = 0; i < 8; ++i)
    C[(row + 8 * (i / 2 % 2)) * 16 + i / 4 * 8 + column + i % 2] = d[i];"""
    source = sim.kernel("const half_t* A, const half_t* B, float* C", body, "wgmma mbarrier")
    c = np.zeros((64, 16), np.float32)
    options = {"block": (128,), "smem": 512}
    sim.run(source.replace("CHANGE", ""), a, b, c, **options)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)
    changed = source.replace("CHANGE", "a[2] = half_t(1.0f);")
    assert "changes a register" in sim.fault("missing_wait", changed, a, b, c, **options).message
    again = source.replace(
        "CHANGE",
        """tl::wgmma_wait<0>();
  d[3] += 1.0f;
  tl::wgmma_m64n16k16_f16_f32_rs<0, 0>(d, a, tl::wgmma_desc(s, 16, 256, 3), 1);
  tl::wgmma_commit();""",
    )
    assert "wgmma_fence" in sim.fault("missing_fence", again, a, b, c, **options).message
    fenced = again.replace("d[3] += 1.0f;", "d[3] += 1.0f; tl::wgmma_fence();")
    sim.run(fenced, a, b, c, **options)
    late = source.replace("CHANGE", "").replace("tl::fence_proxy_async();", "")
    sim.fault("missing_fence", late, a, b, c, **options)


# ----------------------------------------------------------------------------------- atomics, types

ATOMIC = {
    "int": "i4",
    "unsigned": "u4",
    "float": "f4",
    "double": "f8",
    "long long": "i8",
    "half_t": "f2",
    "bfloat16_t": BF16,
}


@pytest.mark.parametrize("ctype", ATOMIC)
def test_atomics(sim: Any, ctype: str) -> None:
    body = """  const int t = (int)threadIdx.x;
  tl::atomic_add(&A[0], t);
  tl::atomic_max(&A[1], t);
  tl::atomic_min(&A[2], t + 2);"""
    a = np.array([1, 3, 100], ATOMIC[ctype])
    sim.run(sim.kernel(f"{ctype}* A", body, "atomic"), a, block=(16,), grid=(2,), host_threads=2)
    assert [float(x) for x in a] == [1 + 2 * 120, 15, 2]


def test_conversions_of_all_halves(sim: Any) -> None:
    body = """  const int i = (int)(blockIdx.x * 256 + threadIdx.x);
  B[i] = (float)A[i];
  C[i] = tl::cast<half_t>(B[i] * 1.0005f);"""
    a = np.arange(65536, dtype=np.uint16).view(np.float16)
    b, c = np.zeros(65536, np.float32), np.zeros(65536, np.float16)
    sim.run(sim.kernel("half_t* A, float* B, half_t* C", body), a, b, c, grid=(256,), block=(256,))
    np.testing.assert_array_equal(b, a.astype(np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        want = (a.astype(np.float32) * np.float32(1.0005)).astype(np.float16)
    np.testing.assert_array_equal(c, want)


def test_static_shared_arrays(sim: Any) -> None:
    body = """  __shared__ __align__(16) int s[32];
  __shared__ float f[4];
  const int t = (int)threadIdx.x;
  s[t] = t;
  if (t < 4) f[t] = 0.5f;
  tl::sync_threads();
  A[t] = s[31 - t] + (int)(f[t & 3] * 2.0f);"""
    a = np.zeros(32, np.int32)
    sim.run(sim.kernel("int* A", body), a)
    assert list(a) == list(range(32, 0, -1))


def test_print(sim: Any, capfd: Any) -> None:
    sim.run(
        sim.kernel(
            "int* A", 'if (threadIdx.x == 3) tl::print("%d %.1f\\n", 7, half_t(2.5f));', "print"
        ),
        np.zeros(1, np.int32),
    )
    assert capfd.readouterr().out == "7 2.5\n"


def test_traffic_is_counted_by_site(sim: Any) -> None:
    body = """  int* s = (int*)buf_dyn_shmem;
  const int t = (int)threadIdx.x;
  s[t * 2] = A[t];
  s[t * 2 + 1] = A[t * 8];
  tl::sync_threads();
  tl::store_vec(&B[t * 4], tl::load_vec<int, 4>(&s[t % 16 * 4]));"""
    source = sim.kernel("const int* A, int* B", body)
    a, b = np.zeros((2, 264), np.int32)[:, 4:260]  # an allocation of the GPU begins at a sector
    report = sim.run(source, a, b, smem=256, traffic=True)
    seen = {(s.line, s.memory, s.writes): (s.units, s.ideal) for s in report.sites if s.memory}
    assert seen == {
        (7, "shared", True): (2, 1),  # a stride of two words: two lanes in a bank
        (7, "global", False): (4, 4),
        (8, "shared", True): (2, 1),
        (8, "global", False): (32, 4),  # a sector for each lane
        (10, "shared", False): (4, 4),  # 16 bytes a lane: four passes, no conflict
        (10, "global", True): (16, 16),
    }
    assert '"efficiency": 0.125' in report.to_json()
