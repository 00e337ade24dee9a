# SPDX-License-Identifier: Apache-2.0
"""What a call may be given, and the text for what it may not: the same on every backend.

Each refusal is asked for twice: by a kernel that was never called, and by one whose quick way is
known already."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentTypeError, ArgumentValueError

torch = pytest.importorskip("torch")
A3 = np.ones(3, np.float32)
BACKENDS = ("tvm_ffi", "ctypes", "cython", "torch")
n, w = T.dynamic("n w")
INT32 = "[TL0911] {K}: parameter k: expected a value of int32 (-2147483648 to 2147483647)"
CONTIGUOUS = (
    "\n   = help: pass x.contiguous() (numpy.ascontiguousarray), or declare T.StridedTensor"
)


@T.prim_func
def scale(
    A: T.Tensor((n, 4), "float32"), s: T.float32, k: T.int32, B: T.Tensor((n, 4), "float32")
):  # fmt: skip
    with T.Kernel(n, threads=32) as bx:
        for j in T.Parallel(4):
            B[bx, j] = A[bx, j] * s + k


@T.prim_func
def row(A: T.StridedTensor((n, 4), (w, 1), "float32"), B: T.Tensor((n, 4), "float32")):
    with T.Kernel(n, threads=32) as bx:
        for j in T.Parallel(4):
            B[bx, j] = A[bx, j]


def compiled(backend: str, func: Any = scale, out_idx: Any = None) -> Any:
    return tilelang.compile(func, out_idx=out_idx, target="llvm", execution_backend=backend)


class NoExport:
    shape = (3, 4)

    def __dlpack__(self, **_: object) -> Any:
        raise BufferError("this memory is not for you")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Hostile:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"no {name} here")


def ones(*shape: int) -> Any:
    return np.ones(shape or (3, 4), np.float32)


def gone() -> Any:
    tensor = torch.ones(3, 4)
    return weakref.proxy(tensor)


def emptied() -> Any:
    tensor = torch.ones(3, 4)
    tensor.untyped_storage().resize_(0)
    return tensor


def read_only() -> Any:
    array = ones()
    array.flags.writeable = False
    return array


def from_numpy(x: Any) -> Any:
    return torch.from_numpy(x)


def kind(text: str) -> str:
    return f"[TL0902] kernel scale: parameter {{p}}: expected a tensor, got {text}"


def dtype(text: str) -> str:
    return f"[TL0904] kernel scale: parameter {{p}}: expected dtype float32, got {text}"


def place(text: str) -> str:
    return (
        f"[TL0995] kernel scale: parameter {{p}}: {text}: the tensor is not contiguous{CONTIGUOUS}"
    )


# What is passed -> the whole text. {p} is the parameter.
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "None": (lambda: None, kind("None")),
    "int": (lambda: 7, kind("int")),
    "float": (lambda: 1.5, kind("float")),
    "string": (lambda: "x", kind("a string")),
    "list": (lambda: [[1.0] * 4] * 3, kind("an object of type list")),
    "number of numpy": (lambda: np.float32(1), kind("an object of type float32")),
    "class": (lambda: torch.Tensor, kind("an object of type _TensorMeta")),
    "memoryview": (lambda: memoryview(ones()), kind("an object of type memoryview")),
    "no export": (
        NoExport,
        kind("an object of type NoExport that gives no memory: this memory is not for you"),
    ),
    "hostile": (
        Hostile, kind("an object of type Hostile that gives no memory: no __dlpack__ here")
    ),
    "dead reference": (gone, kind("a weak reference to an object that is gone")),
    "freed storage": (emptied, "[TL0909] kernel scale: parameter {p}: the data pointer is NULL"),
    "sparse": (
        lambda: torch.ones(3, 4).to_sparse(),
        "[TL0923] kernel scale: parameter {p}: expected a tensor of dense memory, got layout"
        " torch.sparse_coo\n   = help: pass x.to_dense()",
    ),
    "float64": (lambda: torch.ones(3, 4).double(), dtype("float64")),
    "float64 of numpy": (lambda: ones().astype("f8"), dtype("float64")),
    "bfloat16": (lambda: torch.ones(3, 4).bfloat16(), dtype("bfloat16")),
    "bfloat16 of numpy": (lambda: ones().astype(ml_dtypes.bfloat16), dtype("bfloat16")),
    "complex": (lambda: torch.ones(3, 4).to(torch.complex64), dtype("complex64")),
    "objects": (lambda: np.full((3, 4), None), dtype("object")),
    "strings": (lambda: np.full((3, 4), "x"), dtype("str32")),
    "rank 1": (
        lambda: torch.ones(4), "[TL0903] kernel scale: parameter {p}: expected 2 dimensions, got 1"
    ),
    "rank 0": (
        lambda: np.array(1, "f4"),
        "[TL0903] kernel scale: parameter {p}: expected 2 dimensions, got 0",
    ),
    "rank 3": (
        lambda: ones(1, 3, 4), "[TL0903] kernel scale: parameter {p}: expected 2 dimensions, got 3"
    ),
    "width": (
        lambda: torch.ones(3, 5),
        "[TL0905] kernel scale: parameter {p}: shape[1]: expected 4, got 5",
    ),
    "no width": (
        lambda: ones(3, 0), "[TL0905] kernel scale: parameter {p}: shape[1]: expected 4, got 0"
    ),
    "transposed": (lambda: torch.ones(4, 3).T, place("stride[1]: expected 1, got 3")),
    "transposed of numpy": (lambda: ones(4, 3).T, place("stride[1]: expected 1, got 3")),
    "every second": (lambda: torch.ones(3, 8)[:, ::2], place("stride[1]: expected 1, got 2")),
    "backwards": (lambda: ones()[:, ::-1], place("stride[1]: expected 1, got -1")),
    "columns of a wider one": (lambda: ones(3, 8)[:, :4], place("stride[0]: expected 4, got 8")),
    "expanded": (lambda: torch.ones(4).expand(3, 4), place("stride[0]: expected 4, got 0")),
}  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", REFUSED)
def test_refusals(backend: str, case: str) -> None:
    make, text = REFUSED[case]
    with_output, in_place = compiled(backend, out_idx=-1), compiled(backend)
    for warm in (None, torch.ones(3, 4), ones()):
        if warm is not None:
            with_output(warm, 1.0, 1)
            in_place(warm, 1.0, 1, warm)
        for parameter, call in (
            ("A", lambda x: with_output(x, 1.0, 1)),
            ("A", lambda x: in_place(x, 1.0, 1, ones())),
            ("B", lambda x: in_place(ones(), 1.0, 1, x)),
            ("B", lambda x: with_output(ones(), 1.0, 1, x)),
            ("B", lambda x: in_place(torch.ones(3, 4), 1.0, k=1, B=x)),
        ):
            with pytest.raises((ArgumentTypeError, ArgumentValueError)) as caught:
                call(make())
            assert str(caught.value) == text.format(p=parameter)


@pytest.mark.parametrize("backend", ["tvm_ffi", "ctypes", "cython"])
def test_tensors_without_data(backend: str) -> None:
    """On backend torch a call with them gives such tensors: that is what tracing is."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    kernel = compiled(backend, out_idx=-1)
    with FakeTensorMode():
        fake = torch.ones(3, 4)
    for warm in (False, True):
        if warm:
            kernel(torch.ones(3, 4), 1.0, 1)
        for x in (fake, torch.ones(3, 4, device="meta")):
            with pytest.raises(ArgumentValueError) as caught:
                kernel(x, 1.0, 1)
            assert str(caught.value) == (
                "[TL0919] kernel scale: parameter A: a meta or fake tensor has no data"
            )


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"s": None}, "[TL0910] {K}: parameter s: expected a float, got None"),
        ({"s": "x"}, "[TL0910] {K}: parameter s: expected a float, got a string"),
        ({"s": A3}, "[TL0910] {K}: parameter s: expected a float, got an object of type ndarray"),
        ({"k": 1.5}, "[TL0910] {K}: parameter k: expected an int, got float"),
        ({"k": None}, "[TL0910] {K}: parameter k: expected an int, got None"),
        ({"k": 2**31}, f"{INT32}, got 2147483648"),
        ({"k": 10**30}, f"{INT32}, got {10**30}"),
        ({"a": ones()}, "[TL0973] {K}: there is no parameter a\n   = help: did you mean 'A'?"),
        (
            {"zzz": 1},
            "[TL0973] {K}: there is no parameter zzz\n   = help: the parameters are A, s, k",
        ),
    ],
)  # fmt: skip
def test_numbers_and_names(backend: str, change: dict[str, Any], text: str) -> None:
    kernel, text = compiled(backend, out_idx=-1), text.replace("{K}", "kernel scale")
    named: dict[str, Any] = {"A": torch.ones(3, 4), "s": 1.0, "k": 1}
    for _ in range(2):
        with pytest.raises((ArgumentTypeError, ArgumentValueError)) as caught:
            kernel(**named | change)
        assert str(caught.value) == text
        kernel(**named)
    if "A" in {**named, **change} and set(change) <= {"s", "k"}:
        with pytest.raises((ArgumentTypeError, ArgumentValueError)) as caught:
            kernel(*(named | change).values())
        assert str(caught.value) == text


@pytest.mark.parametrize("backend", BACKENDS)
def test_too_few_too_many_and_twice(backend: str) -> None:
    with_output, in_place, a = compiled(backend, out_idx=-1), compiled(backend), torch.ones(3, 4)
    in_place_text = "[TL0901] kernel scale: expected 4 arguments (A, s, k, B), got "
    with_output_text = "[TL0901] kernel scale: expected 3 arguments (A, s, k), got "
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: in_place(), in_place_text + "0"),
        (lambda: in_place(a, 1.0), in_place_text + "2"),
        (lambda: in_place(a, 1.0, B=a), in_place_text + "3"),
        (lambda: in_place(a, 1.0, 1, a, a), in_place_text + "5"),
        (lambda: with_output(a, 1.0), with_output_text + "2"),
        (lambda: with_output(k=1), with_output_text + "1"),
    ]  # fmt: skip
    for call, text in calls:
        for _ in range(2):
            with pytest.raises(ArgumentValueError) as caught:
                call()
            assert str(caught.value) == text
    with pytest.raises(TypeError, match="A"):
        in_place(a, 1.0, 1, a, A=a)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("of", [np.asarray, from_numpy], ids=["numpy", "torch"])
def test_what_may_be_passed(backend: str, of: Any, recwarn: pytest.WarningsRecorder) -> None:
    with_output, in_place = compiled(backend, out_idx=-1), compiled(backend)
    for rows in (3, 0, 1):
        a, b = np.arange(4 * rows, dtype="f4").reshape(rows, 4), np.empty((rows, 4), "f4")
        out = with_output(of(a), 2.0, 1)
        assert type(out) is type(of(a))
        np.testing.assert_array_equal(np.asarray(out), a * 2 + 1)
        assert in_place(of(a), 2, True, of(b)) is None
        np.testing.assert_array_equal(b, a * 2 + 1)
        assert with_output(of(a), B=of(b), k=np.int64(3), s=np.float64(2)) is None
        np.testing.assert_array_equal(b, a * 2 + 3)
        in_place(of(a), torch.tensor(2.0), torch.tensor(4), of(b))
        np.testing.assert_array_equal(b, a * 2 + 4)
    assert [str(w.message) for w in recwarn] == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_read_only_arrays(backend: str, recwarn: pytest.WarningsRecorder) -> None:
    """Refused exactly where the kernel writes them."""
    kernel, b = compiled(backend), np.zeros((3, 4), np.float32)
    for _ in range(2):
        kernel(read_only(), 2.0, np.int8(1), b)
        assert (b == 3).all()
        assert (compiled(backend, out_idx=-1)(read_only(), 2.0, 1) == 3).all()
        for call in (
            lambda: kernel(b, 2.0, 1, read_only()),
            lambda: kernel(torch.ones(3, 4), 2.0, 1, B=read_only()),
        ):
            with pytest.raises(ArgumentValueError) as caught:
                call()
            assert str(caught.value) == (
                "[TL0918] kernel scale: parameter B is written by the kernel, but the array is"
                " read-only\n   = help: pass a copy: x.copy()"
            )
    assert [str(w.message) for w in recwarn] == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_strided_tensors(backend: str) -> None:
    kernel = compiled(backend, row, out_idx=-1)
    a = np.arange(24, dtype="f4").reshape(3, 8)
    for x in (
        a[:, :4],
        a[::-1, 4:],
        a[:1],
        torch.from_numpy(a)[:, 2:6],
        torch.from_numpy(a)[:0, :4],
    ):
        x = x[:, :4]
        np.testing.assert_array_equal(np.asarray(kernel(x)), np.asarray(x))
    with pytest.raises(ArgumentValueError) as caught:
        kernel(a[:, ::2])
    assert str(caught.value) == "[TL0906] kernel row: parameter A: stride[1]: expected 1, got 2"


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_second_tensor_must_agree_with_the_first(backend: str) -> None:
    kernel = compiled(backend)
    for _ in range(2):
        with pytest.raises(ArgumentValueError) as caught:
            kernel(torch.ones(3, 4), 1.0, 1, torch.ones(2, 4))
        assert str(caught.value) == (
            "[TL0905] kernel scale: parameter B: shape[0]: expected 3 (n, from A.shape[0]), got 2"
        )
        kernel(torch.ones(3, 4), 1.0, 1, torch.ones(3, 4))


m = T.dynamic("m")


@T.prim_func
def optional(
    Bias: T.Tensor((n, 4), "float32"), A: T.Tensor((n,), "float32"), D: T.Tensor((m,), "float16"),
    k: T.int32, C: T.Tensor((n,), "float32"),
):  # fmt: skip
    with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
        for i in T.Parallel(32):
            C[bx * 32 + i] = A[bx * 32 + i] + k


@T.prim_func
def sized(A: T.Tensor((n, m), "float32"), C: T.Tensor((n,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.serial(n):
            C[i] = T.cast(m, "float32")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("of", [np.asarray, from_numpy], ids=["numpy", "torch"])
def test_none_for_a_tensor_that_no_kernel_reads(backend: str, of: Any) -> None:
    with_output = compiled(backend, optional, out_idx=-1)
    in_place, size = compiled(backend, optional), compiled(backend, sized)
    a, c, half = np.arange(5, dtype="f4"), np.zeros(5, "f4"), np.zeros(3, "f2")
    for given in ((None, None), (None, of(half)), (of(np.ones((5, 4), "f4")), None)):
        out = with_output(given[0], of(a), given[1], 2)
        assert type(out) is type(of(a))
        np.testing.assert_array_equal(np.asarray(out), a + 2)
        assert in_place(given[0], of(a), given[1], 3, of(c)) is None
        np.testing.assert_array_equal(c, a + 3)
    with pytest.raises(ArgumentValueError, match=r"D: expected|D: shape|parameter D: "):
        in_place(None, of(a), of(half)[None], 3, of(c))
    with pytest.raises(ArgumentTypeError, match="parameter A: expected a tensor, got None"):
        in_place(None, None, None, 3, of(c))
    with pytest.raises(ArgumentValueError) as caught:
        size(None, of(c))
    assert str(caught.value) == (
        "[TL0999] kernel sized: the size m is known from none of A: one of them must be a tensor"
    )
