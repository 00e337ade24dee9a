# SPDX-License-Identifier: Apache-2.0
"""The packed entry, in its LLVM and its C form, over kernels that only record that they ran."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tilelang.codegen.host import host_c, host_llvm
from tilelang.codegen.host_errors import HELP_SEPARATOR
from tilelang.config import Options
from tilelang.errors import ArgumentTypeError, ArgumentValueError, LanguageError
from tilelang.ir import (
    Buffer,
    DType,
    Expr,
    HostProgram,
    Kernel,
    Seq,
    Var,
    ceildiv,
    const,
    maximum,
    minimum,
    select,
    session,
    truncdiv,
    truncmod,
)
from tilelang.runtime import cc, llvm_jit
from tilelang.runtime import tvm_ffi as ffi
from tilelang.target import Target

LLVM = Target("llvm")
MAIN = "__tvm_ffi_f"
ONE = const(1)
# A kernel's arguments arrive as eight bytes each, then the range of blocks.
RECORD = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_int64] * 6)


def three(*names: str) -> tuple[Var, Var, Var]:
    a, b, c = (Var(n) for n in names)
    return a, b, c


def kernel(name: str, args: tuple[Any, ...], grid: tuple[Expr, ...]) -> Kernel:
    full = (*grid, ONE, ONE, ONE)[:3]
    return Kernel(name, args, Seq(()), full, (1, 1, 1), three("x", "y", "z"), three("u", "v", "w"))


class Entry:
    """An entry whose kernels are Python functions that record their arguments."""

    def __init__(self, form: str, program: HostProgram, answer: bytes | None = None) -> None:
        self.calls: list[tuple[str, tuple[int, ...]]] = []
        self.keep: list[Any] = []
        symbols = dict(ffi.symbols())
        ffi.tvm_ffi()
        for k in program.launches:
            recorder = self.recorder(k, answer)
            self.keep.append(recorder)
            symbols[k.name] = ctypes.cast(recorder, ctypes.c_void_p).value or 0
        if form == "llvm":
            code = llvm_jit.compile_module(host_llvm(program, LLVM))
            module = llvm_jit.load(code, [MAIN], symbols)
            address = module.address(MAIN)
        else:
            trampolines = "".join(self.trampoline(k, symbols[k.name]) for k in program.launches)
            module = cc.load_library(
                cc.compile_library([host_c(program, LLVM), trampolines], LLVM, Options())
            )
            address = ctypes.cast(getattr(module, MAIN), ctypes.c_void_p).value
        self.function = ffi.function_at(address, module)

    def recorder(self, k: Kernel, answer: bytes | None) -> Any:
        types = [ctypes.c_double if self.is_double(a) else ctypes.c_int64 for a in k.args]
        keep = ctypes.create_string_buffer(answer) if answer else None
        self.keep.append(keep)

        def run(*args: Any) -> int | None:
            self.calls.append((k.name, args))
            return None if keep is None else ctypes.addressof(keep)

        return ctypes.CFUNCTYPE(ctypes.c_void_p, *types, ctypes.c_int64, ctypes.c_int64)(run)

    @staticmethod
    def is_double(arg: Any) -> bool:
        return isinstance(arg, Var) and arg.dtype == "float64"

    def trampoline(self, k: Kernel, address: int) -> str:
        """C that defines the kernel by a jump to the recorder."""
        types = ["double" if self.is_double(a) else "long long" for a in k.args]
        types += ["long long", "long long"]
        params = ", ".join(f"{t} a{i}" for i, t in enumerate(types))
        names = ", ".join(f"a{i}" for i in range(len(types)))
        kind = f"char* (*)({', '.join(types)})"
        return f"char* {k.name}({params}) {{ return (({kind}){address}ull)({names}); }}\n"

    def __call__(self, *args: Any) -> Any:
        self.calls.clear()
        return self.function(*args)


Make = Callable[..., Entry]


@pytest.fixture(params=["llvm", "c"])
def make(request: pytest.FixtureRequest) -> Make:
    return lambda program, answer=None: Entry(request.param, program, answer)


def matmul_program() -> HostProgram:
    m, n, k = Var("M"), Var("N"), Var("K")
    a = Buffer("A", (m, k), "float32")
    b = Buffer("B", (k, n), "float32")
    c = Buffer("C", (m, n), "float32")
    run = kernel("f_kernel", (a, b, c, m64(m)), (ceildiv(n, 32), ceildiv(m, 16)))
    return HostProgram("f", (a, b, c), (), (run,))


def m64(v: Var) -> Var:
    """The recorders take eight bytes for every argument."""
    v.dtype = DType("int64")
    return v


def zeros(*shape: int, dtype: Any = np.float32) -> Any:
    return np.zeros(shape, dtype)


def test_launches_over_the_bound_sizes(make: Make) -> None:
    f = make(matmul_program())
    a, b, c = zeros(33, 5), zeros(5, 70), zeros(33, 70)
    assert f(a, b, c) is None
    addresses = (a.ctypes.data, b.ctypes.data, c.ctypes.data)
    assert f.calls == [("f_kernel", (*addresses, 33, 0, 3 * 3))]


def test_an_empty_grid_launches_nothing(make: Make) -> None:
    f = make(matmul_program())
    f(zeros(0, 5), zeros(5, 70), zeros(0, 70))
    assert f.calls == []


@pytest.mark.parametrize(
    ("args", "kind", "text"),
    [
        ((zeros(3, 5), zeros(5, 7)), ValueError, "expected 3 arguments (A, B, C), got 2"),
        ((1, zeros(5, 7), zeros(3, 7)), TypeError, "parameter A: expected a tensor, got int"),
        ((zeros(3, 5), None, zeros(3, 7)), TypeError, "parameter B: expected a tensor, got None"),
        ((zeros(3, 5), [1], zeros(3, 7)), TypeError, "expected a tensor, got a tuple or list"),
        (
            (zeros(3), zeros(5, 7), zeros(3, 7)),
            ValueError,
            "parameter A: expected 2 dimensions, got 1",
        ),
        (
            (zeros(3, 5, dtype=np.float16), zeros(5, 7), zeros(3, 7)),
            TypeError,
            "parameter A: expected dtype float32, got float16",
        ),
        (
            (zeros(3, 5), zeros(6, 7), zeros(3, 7)),
            ValueError,
            "parameter B: shape[0]: expected 5 (K, from A.shape[1]), got 6",
        ),
        (
            (zeros(3, 5), zeros(7, 5).T, zeros(3, 7)),
            ValueError,
            "parameter B: stride[1]: expected 1, got 5: the tensor is not contiguous",
        ),
        (
            (zeros(3, 10)[:, ::2], zeros(5, 7), zeros(3, 7)),
            ValueError,
            "parameter A: stride[1]: expected 1, got 2",
        ),
    ],
)
def test_refusals(make: Make, args: tuple[Any, ...], kind: type, text: str) -> None:
    f = make(matmul_program())
    with pytest.raises(kind) as caught:
        f(*args)
    assert isinstance(caught.value, (ArgumentTypeError, ArgumentValueError))
    assert text in str(caught.value)
    assert caught.value.message.startswith("kernel f: ")
    assert f.calls == []


def test_strides_of_dimensions_of_one_and_of_empty_tensors_mean_nothing(make: Make) -> None:
    f = make(matmul_program())
    row = np.lib.stride_tricks.as_strided(zeros(1, 5), (1, 5), (999, 4))
    f(row, zeros(5, 7), zeros(1, 7))
    f(zeros(3, 0), zeros(7, 0).T, zeros(3, 7))
    assert len(f.calls) == 1


def test_c_export_names_pythons_own_classes() -> None:
    text = host_c(matmul_program(), LLVM, for_export=True)
    assert '"ValueError"' in text
    assert "TL09" not in text
    assert "\\037" not in text


def test_the_help_line_arrives() -> None:
    f = Entry("llvm", matmul_program())
    with pytest.raises(ArgumentValueError) as caught:
        f(zeros(3, 5), zeros(7, 5).T, zeros(3, 7))
    assert "contiguous()" in (caught.value.help or "")
    assert HELP_SEPARATOR == ffi.HELP_SEPARATOR


# ------------------------------------------------------------------------------------ scalars


def scalar_program(dtype: str, as_argument: str = "int64") -> HostProgram:
    s = Var("s", DType(dtype))
    return HostProgram("f", (s,), (), (kernel("f_kernel", (s,), (ONE,)),))


@pytest.mark.parametrize(
    ("dtype", "given", "received"),
    [
        ("int64", 5, 5),
        ("int64", True, 1),
        ("int64", -(2**63), -(2**63)),
        ("uint64", 7, 7),
        ("float64", 2.5, 2.5),
        ("float64", 3, 3.0),
        ("float64", True, 1.0),
        ("handle", 4096, 4096),
        ("handle", None, 0),
    ],
)
def test_scalars(make: Make, dtype: str, given: Any, received: Any) -> None:
    f = make(scalar_program(dtype))
    f(given)
    assert f.calls == [("f_kernel", (received, 0, 1))]


@pytest.mark.parametrize(
    ("dtype", "given", "kind", "text"),
    [
        ("int32", 2.0, TypeError, "parameter s: expected an int, got float"),
        ("int32", zeros(1), TypeError, "expected an int, got a tensor"),
        ("int32", 2**31, ValueError, "(-2147483648 to 2147483647), got 2147483648"),
        ("uint8", -1, ValueError, "expected a value of uint8 (0 to 255), got -1"),
        ("float32", "x", TypeError, "expected a float, got a string"),
        ("bool", 1.5, TypeError, "expected a bool, got float"),
        ("handle", 1.5, TypeError, "expected an address"),
    ],
)
def test_scalar_refusals(make: Make, dtype: str, given: Any, kind: type, text: str) -> None:
    f = make(scalar_program(dtype))
    with pytest.raises(kind) as caught:
        f(given)
    assert text in str(caught.value)


def test_a_tensor_for_a_pointer_gives_its_address(make: Make) -> None:
    f = make(scalar_program("handle"))
    x = zeros(8)[2:]
    f(x)
    assert f.calls == [("f_kernel", (x.ctypes.data, 0, 1))]


def _received(dtype: str) -> Callable[[float], int]:
    """What a kernel with one scalar of a narrow dtype is given."""
    got: list[int] = []
    bits = DType(dtype).bits
    ctype = ctypes.c_uint16 if bits == 16 else ctypes.c_uint8

    def record(value: int, first: int, last: int) -> None:
        got.append(value)

    recorder = ctypes.CFUNCTYPE(ctypes.c_void_p, ctype, ctypes.c_int64, ctypes.c_int64)(record)
    ffi.tvm_ffi()
    symbols = {**ffi.symbols(), "f_kernel": ctypes.cast(recorder, ctypes.c_void_p).value or 0}
    code = llvm_jit.compile_module(host_llvm(scalar_program(dtype), LLVM))
    module = llvm_jit.load(code, [MAIN], symbols)
    function = ffi.function_at(module.address(MAIN), (module, recorder))

    def call(value: float) -> int:
        function(value)
        return got.pop()

    return call


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"])
def test_narrow_float_scalars_round_as_ml_dtypes(dtype: str) -> None:
    call = _received(dtype)
    to = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
    random = np.random.default_rng(0)
    values = [0.0, -0.0, 1.0, -1.5, 65504.0, 65520.0, 1e-8, 6e-8, 448.0, 464.0, 480.0, 1e30]
    values += [float("inf"), float("-inf"), 2.0**-24, 2.0**-25, 1.0 + 2.0**-11, 3.4e38]
    values += list(random.standard_normal(200) * 10.0 ** random.integers(-9, 6, 200))
    for v in values:
        with np.errstate(over="ignore"):
            want = int(np.array(v, np.float64).astype(to).view(f"u{to.itemsize}"))
        assert call(v) == want, v
    nan = np.array(call(float("nan")), f"u{to.itemsize}").view(to)
    assert np.isnan(nan.astype(np.float32))


# ------------------------------------------------------------------------------------ symbols


def test_expression_dimensions_are_checked(make: Make) -> None:
    n = Var("N", DType("int64"))
    a, b = Buffer("A", (n,), "float32"), Buffer("B", (ceildiv(n, 4) + 1,), "float32")
    f = make(HostProgram("f", (a, b), (), (kernel("f_kernel", (n,), (ONE,)),)))
    f(zeros(9), zeros(4))
    with pytest.raises(ValueError, match=r"B: shape\[0\]: expected 4 \(.*N from A.shape\[0\]\)"):
        f(zeros(9), zeros(5))


def test_an_expression_may_use_a_later_tensors_symbol(make: Make) -> None:
    n = Var("N", DType("int64"))
    a, b = Buffer("A", (n * 2,), "float32"), Buffer("B", (n,), "float32")
    f = make(HostProgram("f", (a, b), (), (kernel("f_kernel", (n,), (ONE,)),)))
    f(zeros(10), zeros(5))
    assert f.calls[0][1][0] == 5


def test_a_scalar_parameter_is_a_size(make: Make) -> None:
    n = Var("n", DType("int64"))
    a = Buffer("A", (n,), "float32")
    f = make(HostProgram("f", (n, a), (), (kernel("f_kernel", (n,), (ONE,)),)))
    f(3, zeros(3))
    with pytest.raises(ValueError, match=r"A: shape\[0\]: expected 4 \(n\), got 3"):
        f(4, zeros(3))


def test_a_size_that_the_inputs_do_not_give_is_refused_at_compile_time() -> None:
    n = Var("N", DType("int64"))
    a = Buffer("A", (4,), "float32")
    program = HostProgram("f", (a,), (), (kernel("f_kernel", (n,), (n,)),))
    with pytest.raises(LanguageError, match="the host cannot compute the variable `N`"):
        host_llvm(program, LLVM)


def test_a_dimension_that_does_not_fit_its_symbol(make: Make) -> None:
    n = Var("N", DType("int8"))
    a = Buffer("A", (n,), "float32")
    f = make(HostProgram("f", (a,), (), (kernel("f_kernel", (a,), (ONE,)),)))
    f(zeros(127))
    with pytest.raises(ValueError, match=r"N = 128 \(from A.shape\[0\]\) does not fit int8"):
        f(zeros(128))


def test_strided_tensors(make: Make) -> None:
    s = Var("S", DType("int64"))
    n = Var("N", DType("int64"))
    a = Buffer("A", (n, 4), "float32", strides=(s, 1))
    f = make(HostProgram("f", (a,), (), (kernel("f_kernel", (a, n, s), (ONE,)),)))
    x = zeros(6, 9)[:, 2:6]
    f(x)
    assert f.calls[0][1][:3] == (x.ctypes.data, 6, 9)
    with pytest.raises(ValueError, match=r"A: stride\[1\]: expected 1, got 2"):
        f(zeros(6, 9)[:, 0:8:2])


SIZES = [(7, 3), (-7, 3), (7, -3), (-7, -3), (6, 3), (-6, 3), (0, 5), (5, 0), (1, 1)]


def test_grid_arithmetic_is_that_of_python(make: Make) -> None:
    a, b = Var("a", DType("int64")), Var("b", DType("int64"))
    with session():
        cases: dict[str, tuple[Expr, Callable[[int, int], int]]] = {
            "floordiv": (a // b, lambda x, y: x // y if y else x),
            "floormod": (a % b, lambda x, y: x % y if y else 0),
            "truncdiv": (truncdiv(a, b), lambda x, y: int(x / y) if y else x),
            "truncmod": (truncmod(a, b), lambda x, y: x - y * int(x / y) if y else 0),
            "min": (minimum(a, b), min),
            "max": (maximum(a, b), max),
            "select": (select(a < b, a * 2, b - 1), lambda x, y: 2 * x if x < y else y - 1),
            "shift": ((a << 2) >> 1, lambda x, y: 2 * x),
            "bits": ((a & 5) | (b ^ 3), lambda x, y: (x & 5) | (y ^ 3)),
        }
        kernels = [kernel(f"f_{name}", (a,), (e + 1000,)) for name, (e, _) in cases.items()]
    f = make(HostProgram("f", (a, b), (), tuple(kernels)))
    for x, y in SIZES:
        f(x, y)
        got = {name: args[-1] - 1000 for name, args in f.calls}
        assert got == {f"f_{n}": meaning(x, y) for n, (_, meaning) in cases.items()}, (x, y)


# ------------------------------------------------------------------------------------ outputs


def output_program() -> HostProgram:
    n = Var("N", DType("int64"))
    a, c = Buffer("A", (n, 2), "float16"), Buffer("C", (2, n), "float32")
    return HostProgram("f", (a, c), (1,), (kernel("f_kernel", (a, c), (ONE,)),))


def test_the_output_is_allocated_by_torch_for_torch(make: Make) -> None:
    torch = pytest.importorskip("torch")
    f = make(output_program())
    out = f(torch.zeros(5, 2, dtype=torch.float16))
    assert isinstance(out, torch.Tensor)
    assert out.shape == (2, 5)
    assert out.dtype == torch.float32
    assert f.calls[0][1][1] == out.data_ptr()


def test_a_given_output_is_checked_and_nothing_is_returned(make: Make) -> None:
    f = make(output_program())
    a, c = zeros(5, 2, dtype=np.float16), zeros(2, 5)
    assert f(a, c) is None
    assert f.calls[0][1][:2] == (a.ctypes.data, c.ctypes.data)
    with pytest.raises(ValueError, match=r"C: shape\[1\]: expected 5 \(N, from A.shape\[0\]\)"):
        f(a, zeros(2, 4))


def test_several_outputs_are_given(make: Make) -> None:
    n = Var("N", DType("int64"))
    a, b, c = (Buffer(x, (n,), "float32") for x in "ABC")
    program = HostProgram("f", (a, b, c), (1, 2), (kernel("f_kernel", (a, b, c), (ONE,)),))
    f = make(program)
    f(zeros(3), zeros(3), zeros(3))
    with pytest.raises(ValueError, match="expected 3 arguments"):
        f(zeros(3))


def test_a_kernels_message_is_an_error(make: Make) -> None:
    f = make(output_program(), b"ran out of luck")
    with pytest.raises(RuntimeError, match="kernel f: ran out of luck"):
        f(zeros(5, 2, dtype=np.float16), zeros(2, 5))


def test_workspaces_and_assertions(make: Make) -> None:
    n = Var("N", DType("int64"))
    a, w = Buffer("A", (n,), "float32"), Buffer("W", (n, 8), "float64")
    with session():
        asserts = ((n % 2 == 0, "N must be even"),)
    program = HostProgram(
        "f", (a,), (), (kernel("f_kernel", (a, w), (n,)),), (w,), {"asserts": asserts}
    )
    f = make(program)
    f(zeros(4))
    assert f.calls[0][1][1] != 0
    assert f.calls[0][1][-1] == 4
    with pytest.raises(ValueError, match="assertion failed: N must be even"):
        f(zeros(3))


@pytest.mark.parametrize(
    ("dtype", "given"),
    [("bool", "int8"), ("bool", "uint8"), ("uint8", "bool"), ("tfloat32", "float32")],
)
def test_dtypes_that_differ_only_by_name(make: Make, dtype: str, given: str) -> None:
    a = Buffer("A", (4,), dtype)
    f = make(HostProgram("f", (a,), (), (kernel("f_kernel", (a,), (ONE,)),)))
    f(zeros(4, dtype=given))


def test_sub_byte_tensors_are_passed_as_bytes(make: Make) -> None:
    n = Var("N", DType("int64"))
    a = Buffer("A", (4, n), "int4")
    f = make(HostProgram("f", (a,), (), (kernel("f_kernel", (a, n), (ONE,)),)))
    f(zeros(4, 8, dtype=np.int8))
    assert f.calls[0][1][1] == 16


def test_the_texts_are_the_same_each_time() -> None:
    assert host_llvm(matmul_program(), LLVM) == host_llvm(matmul_program(), LLVM)
    assert host_c(matmul_program(), LLVM) == host_c(matmul_program(), LLVM)
