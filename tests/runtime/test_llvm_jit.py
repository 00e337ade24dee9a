# SPDX-License-Identifier: Apache-2.0
"""Object code: plain data, loaded as often as wished, from any thread; wrong IR raises."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
import threading

import pytest

from tilelang.errors import InternalError, TargetError, ToolchainError
from tilelang.runtime.llvm_jit import assembly, compile_module, cpu_key, load, optimized_ir

ADD = """
declare float @sinf(float)
define i32 @add(i32 %a, i32 %b) {
  %c = add i32 %a, %b
  ret i32 %c
}
define float @sine(float %x) {
  %y = call float @sinf(float %x)
  ret float %y
}
"""


def test_object_code_is_data() -> None:
    code = compile_module(ADD)
    assert isinstance(code, bytes)
    first, second = load(code, ["add", "sine"]), load(code, ["add"])
    for module in (first, second):
        assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(module.address("add"))(
            2, 3
        )
    sine = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_float)(first.address("sine"))
    assert sine(1.0) == pytest.approx(0.841471)
    with pytest.raises(InternalError, match="sine"):
        second.address("sine")


def test_wrong_ir_raises_and_shows_the_line() -> None:
    with pytest.raises(InternalError, match=r"%c = add i32 %a, %x"):
        compile_module(ADD.replace("%a, %b\n  ret", "%a, %x\n  ret"))
    broken = "define i32 @f() {\nentry:\n  br label %next\nnext:\n  %a = add i32 %b, 1\n"
    broken += "  %b = add i32 %a, 1\n  ret i32 %b\n}\n"
    with pytest.raises(InternalError, match="dominate"):
        compile_module(broken)


def test_missing_symbols_are_named_or_given() -> None:
    text = (
        "declare i32 @outside()\ndefine i32 @f() {\n  %a = call i32 @outside()\n  ret i32 %a\n}\n"
    )
    with pytest.raises(ToolchainError, match="outside") as caught:
        load(compile_module(text), ["f"])
    assert caught.value.code == "TL0852"
    callback = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 77)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    module = load(compile_module(text), ["f"], {"outside": address})
    assert ctypes.CFUNCTYPE(ctypes.c_int)(module.address("f"))() == 77


def test_threads() -> None:
    results: list[int] = []

    def work(n: int) -> None:
        text = f"define i32 @f{n}() {{\n  ret i32 {n}\n}}\n"
        module = load(compile_module(text), [f"f{n}"])
        results.append(ctypes.CFUNCTYPE(ctypes.c_int)(module.address(f"f{n}"))())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == list(range(8))


def test_text_forms_and_key() -> None:
    assert "define i32 @add" in optimized_ir(ADD)
    assert "add:" in assembly(ADD)
    assert cpu_key() == cpu_key("native")
    assert cpu_key("x86-64") != cpu_key()


def test_llvmlite_is_imported_on_first_use() -> None:
    code = "import sys, tilelang.runtime.llvm_jit; assert 'llvmlite' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("cpu", "features", "message"),
    [
        ("znver33", "", "did you mean 'znver3"),
        ("abc", "", "knows no CPU 'abc'"),
        ("", "+avxx2", "did you mean 'avx2'"),
        ("pentium", "", "cannot compile for -mcpu=pentium"),
    ],
)
def test_names_that_llvm_does_not_know(cpu: str, features: str, message: str) -> None:
    """LLVM itself only prints a warning, or ends the process."""
    if platform.machine() != "x86_64":
        pytest.skip("these are names of x86 processors")
    with pytest.raises(TargetError, match=message):
        compile_module(ADD, cpu, features)
    assert compile_module(ADD, "haswell", "-avx2")


CROWDED = r'''
import ctypes, math, mmap
import tilelang.runtime.llvm_jit as jit

IR = """
@table = private unnamed_addr constant [4 x double] [double 1.5, double 2.5, double 3.5, double 4.5]
@state = global i64 0
declare ptr @memset(ptr, i32, i64)
declare double @cos(double)
define double @f(i64 %i) {
  %p = getelementptr [4 x double], ptr @table, i64 0, i64 %i
  %x = load double, ptr %p
  store i64 %i, ptr @state
  %q = alloca i64
  %r = call ptr @memset(ptr %q, i32 0, i64 8)
  %y = call double @cos(double %x)
  ret double %y
}
"""
MB, GB, NO_RESERVE = 1 << 20, 1 << 30, 0x4000
FLAGS = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE
take = ctypes.CDLL(None).mmap
take.restype = ctypes.c_void_p
take.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
kept = []
for n in range(60):
    kept.append(jit.load(IR, ["f", "state"]))
    at = kept[-1].address("f")
    assert abs(at - kept[-1].address("state")) < MB, "code and data lie apart"
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(at)
    assert abs(f(n % 4) - math.cos(1.5 + n % 4)) < 1e-12
    for _ in range(2):
        take(None, 3 * GB, 0, FLAGS, -1, 0)
    for k in range(-7, 8):
        if k:
            take(at // 4096 * 4096 + k * MB, MB - 4096, 0, FLAGS, -1, 0)
print("ok")
'''


@pytest.mark.skipif(sys.platform != "linux", reason="takes memory in Linux's way")
def test_a_crowded_address_space() -> None:
    """A driver takes ranges of addresses, so that pieces of code and data come to lie far apart."""
    command = [sys.executable, "-c", CROWDED]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    assert done.stdout == "ok\n", done.stderr
