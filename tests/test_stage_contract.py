# SPDX-License-Identifier: Apache-2.0
"""What the stages promise each other, one test per sentence of the contract.

`jit` -> `JITImpl` -> `compile` -> `cached` -> `JITKernel` -> `lower` -> `host_codegen`. The host
passes have tests of their own in `tests/engine/test_host_passes.py`.
"""

from __future__ import annotations

import inspect
import io
import sys
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang as tl
import tilelang.language as T
from tilelang.config import Options
from tilelang.engine import lower as lower_function
from tilelang.errors import ArgumentTypeError, CompatWarning
from tilelang.ir import IRModule, PrimFunc
from tilelang.jit import JITImpl, JITKernel
from tilelang.jit import compiler as compiler_module
from tilelang.jit import kernel as kernel_module
from tilelang.jit.adapter import ADAPTERS
from tilelang.language.entry import PrimFuncCreater
from tilelang.target import Target
from tilelang.transform import PassContext

lower_module = sys.modules["tilelang.engine.lower"]
LLVM, SIM = Target("llvm"), Target("cuda-sim -arch=sm_80")
HOPPER = Target("cuda -arch=sm_90a")
FIELDS = (
    "func", "out_idx", "execution_backend", "target", "target_host", "verbose", "pass_configs",
    "debug_root_path", "compile_flags", "func_source", "signature", "lazy_jit",
)  # fmt: skip


def scale(n: int = 8, by: float = 2.0) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1):
            for i in T.Parallel(n):
                B[i] = A[i] * by

    return main


def bare_func(A: tl.tensor, B: tl.tensor):
    with T.Kernel(1):
        for i in T.Parallel(A.shape[0]):
            B[i] = A[i] * 2.0


def numbers(n: int = 8, dtype: Any = np.float32) -> Any:
    return np.arange(n).astype(dtype)


# ------------------------------------------------------------------------------------ jit, JITImpl


def test_the_signature_of_jit() -> None:
    parameters = inspect.signature(tilelang.jit).parameters
    assert list(parameters) == [
        "func", "out_idx", "execution_backend", "target", "target_host", "verbose", "pass_configs",
        "debug_root_path", "compile_flags",
    ]  # fmt: skip
    assert all(p.default is None for p in parameters.values())
    func, *others = parameters.values()
    assert func.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    assert {p.kind for p in others} == {inspect.Parameter.KEYWORD_ONLY}


@pytest.mark.parametrize("func", [scale, scale(), PrimFuncCreater(bare_func)])
def test_jit_is_put_above_a_function_a_primfunc_or_a_creator(func: Any) -> None:
    for impl in (tilelang.jit(func), tilelang.jit()(func), tilelang.jit(target="llvm")(func)):
        assert isinstance(impl, JITImpl)
        assert impl.func is func
        assert all(hasattr(impl, name) for name in FIELDS)


def test_a_jitimpl_keeps_what_it_was_given() -> None:
    given = {
        "out_idx": [-1], "execution_backend": "ctypes", "target": "llvm", "target_host": "llvm",
        "verbose": True, "pass_configs": {"tl.enable_fast_math": True}, "debug_root_path": "out",
        "compile_flags": ["-DX"],
    }  # fmt: skip
    impl = tilelang.jit(**given)(scale)
    assert {name: getattr(impl, name) for name in given} == given
    assert impl.func is scale
    assert impl.func_source == inspect.getsource(scale)
    assert impl.signature == inspect.signature(scale)


def test_the_source_and_signature_of_a_creator_are_those_of_its_function() -> None:
    creator = PrimFuncCreater(bare_func)
    assert creator.orig_func is bare_func
    impl = tilelang.jit(creator)
    assert impl.func_source == inspect.getsource(bare_func)
    assert impl.signature == inspect.signature(bare_func)


def test_the_source_and_signature_of_a_primfunc_are_its_text_and_parameters() -> None:
    func = scale()
    impl = tilelang.jit(func)
    assert impl.func_source == func.script()
    assert list(impl.signature.parameters) == ["A", "B"]


def test_lazy_jit_is_false_from_jit_and_true_from_lazy_jit() -> None:
    assert tilelang.jit(scale).lazy_jit is False
    assert tilelang.lazy_jit(scale).lazy_jit is True
    assert tilelang.lazy_jit(scale).mode == "lazy"


# ------------------------------------------------------------------------------------ calling


def test_a_call_looks_the_key_up_and_compiles_on_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    impl = tilelang.jit(scale, target="llvm")
    compiled: list[PrimFunc] = []
    original = compiler_module.compile

    def counting(func: PrimFunc, *args: Any, **kwargs: Any) -> Any:
        compiled.append(func)
        return original(func, *args, **kwargs)

    monkeypatch.setattr(compiler_module, "compile", counting)
    kernel = impl(8, by=3.0)
    key = impl.parse_cache_key(8, by=3.0)
    assert impl._kernel_cache == {key: kernel}
    assert impl(8, by=3.0) is kernel
    assert len(compiled) == 1
    assert impl(8, 4.0) is not kernel
    assert len(compiled) == len(impl._kernel_cache) == 2
    marker = object()
    impl._kernel_cache[key] = marker  # what the table holds is the answer
    assert impl(8, 3.0) is marker


def test_get_tir_of_a_creator_calls_it() -> None:
    impl = tilelang.jit(PrimFuncCreater(bare_func))
    func = impl.get_tir(numbers(), numbers())
    assert isinstance(func, PrimFunc)
    assert [tuple(map(int, map(str, p.shape))) for p in func.params] == [(8,), (8,)]


def test_get_tir_of_a_primfunc_is_itself() -> None:
    func = scale()
    assert tilelang.jit(func).get_tir() is func


def test_get_tir_of_a_callable_calls_it() -> None:
    func = scale()
    calls: list[tuple[Any, Any]] = []

    def factory(n, by=1):
        calls.append((n, by))
        return func

    assert tilelang.jit(factory).get_tir(3, by=5) is func
    assert calls == [(3, 5)]


@pytest.mark.parametrize("what", [5, "text", None.__class__()])
def test_get_tir_of_anything_else_is_refused(what: Any) -> None:
    impl = JITImpl(what)
    with pytest.raises(ValueError, match="Invalid function type: <class "):
        impl.get_tir()
    with pytest.raises(ValueError, match="Invalid function type: <class "):
        impl()


def test_a_result_that_is_no_primfunc_is_refused_by_name() -> None:
    def factory(n):
        return n

    with pytest.raises(ArgumentTypeError, match="factory must return a PrimFunc, got int"):
        tilelang.lazy_jit(factory)(8)


def test_par_compile_of_many_configs() -> None:
    impl = tilelang.jit(scale, out_idx=-1, target="llvm")
    configs: list[Any] = [{"n": 8, "by": float(k)} for k in range(4)] + [(8, 9.0)]
    kernels = impl.par_compile(configs, num_workers=2)
    for by, kernel in zip([0.0, 1.0, 2.0, 3.0, 9.0], kernels, strict=True):
        np.testing.assert_array_equal(kernel(numbers()), numbers() * by)
        assert impl(8, by) is kernel


def test_par_compile_ignores_configs_that_cannot_be_traced() -> None:
    impl = tilelang.jit(scale, out_idx=-1, target="llvm")
    configs: list[Any] = [{"n": 8}, {"n": -1}, {"m": 3}, {"n": 9}]
    kernels = impl.par_compile(configs, ignore_error=True)
    assert [k is None for k in kernels] == [False, True, True, False]
    with pytest.raises(ValueError, match="dimension -1 is negative"):
        impl.par_compile(configs[:2])


# ------------------------------------------------------------------------------------ bare tensors


@tl.jit(target="llvm")
@tl.prim_func
def doubled(A: tl.tensor, B: tl.tensor):
    with T.Kernel(1):
        for i in T.Parallel(A.shape[0]):
            B[i] = A[i] * 2


@tl.jit(target="llvm")
@tl.prim_func
def typed(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1):
        for i in T.Parallel(8):
            B[i] = A[i] * 2.0


@pytest.mark.parametrize(("n", "dtype"), [(8, "float32"), (5, "float32"), (5, "int32")])
def test_a_bare_tensor_takes_rank_dtype_and_shape_from_the_argument(n: int, dtype: str) -> None:
    a, b = numbers(n, dtype), numbers(n, dtype) * 0
    doubled(a, b)
    np.testing.assert_array_equal(b, a * 2)
    params = doubled.compile(a, b).params
    assert [(p.name, str(p.dtype), p.shape) for p in params] == [
        ("A", dtype, (n,)), ("B", dtype, (n,)),
    ]  # fmt: skip


def test_a_bare_tensor_enters_the_key() -> None:
    one, other = numbers(8), numbers(9)
    keys = [
        doubled.parse_cache_key(one, one),
        doubled.parse_cache_key(other, other),
        doubled.parse_cache_key(one.astype("int32"), one.astype("int32")),
        doubled.parse_cache_key(one.reshape(2, 4), one.reshape(2, 4)),
    ]
    assert len(set(keys)) == 4
    assert doubled.parse_cache_key(one + 1, one) == keys[0]  # not by content
    assert doubled.compile(one, one) is doubled.compile(one + 1, B=one)


def test_a_bare_tensor_that_is_not_given_is_named() -> None:
    with pytest.raises(TypeError, match="parameter `B`: the shape is not known"):
        doubled(numbers())


def test_a_fully_typed_function_called_with_none_gives_the_kernel() -> None:
    assert isinstance(typed(), JITKernel)
    a, b = numbers(), numbers() * 0
    typed(a, b)
    np.testing.assert_array_equal(b, a * 2)
    b[:] = 0
    typed(A=a, B=b)
    np.testing.assert_array_equal(b, a * 2)


# ------------------------------------------------------------------------------------ compile


def test_compile_resolves_the_backend_and_asks_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[Any] = []

    def resolve(requested: Any, target: Any) -> str:
        order.append(("resolve", requested, target))
        return "ctypes"

    def cached(*args: Any, **kwargs: Any) -> str:
        order.append(args)
        return "a kernel"

    monkeypatch.setattr(compiler_module, "resolve_execution_backend", resolve)
    monkeypatch.setattr(compiler_module, "cached", cached)
    func, configs = scale(), {"tl.enable_fast_math": True}
    made = tilelang.compile(
        func, target="llvm", execution_backend="asked", verbose=True, pass_configs=configs,
        compile_flags=["-DX"],
    )  # fmt: skip
    assert made == "a kernel"
    assert order == [
        ("resolve", "asked", LLVM),
        (func, [], "ctypes", LLVM, LLVM, True, configs, ["-DX"]),
    ]


def test_the_signatures_of_compile_and_lower() -> None:
    assert list(inspect.signature(tilelang.compile).parameters) == [
        "func", "out_idx", "execution_backend", "target", "target_host", "verbose", "pass_configs",
        "compile_flags",
    ]  # fmt: skip
    assert list(inspect.signature(tilelang.par_compile).parameters) == [
        "funcs", "out_idx", "execution_backend", "target", "target_host", "verbose",
        "pass_configs", "compile_flags", "num_workers", "ignore_error",
    ]  # fmt: skip
    first = list(inspect.signature(tilelang.lower).parameters.values())[:6]
    assert {p.name: p.default for p in first} == {
        "func_or_mod": inspect.Parameter.empty, "target": "auto", "target_host": None,
        "runtime_only": False, "enable_host_codegen": False, "enable_device_compile": False,
    }  # fmt: skip


# ------------------------------------------------------------------------------------ par_compile


def test_par_compile_gives_results_in_order() -> None:
    kernels = tilelang.par_compile(
        [scale(by=float(k)) for k in range(6)], out_idx=-1, target="llvm", num_workers=3
    )
    for by, kernel in enumerate(kernels):
        np.testing.assert_array_equal(kernel(numbers()), numbers() * by)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_par_compile_shows_a_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stderr", stream)
        tilelang.par_compile([scale(by=1.5), scale(by=2.5)], target="llvm", num_workers=1)
        shown = stream.getvalue()
        assert ("1/2" in shown and "2/2" in shown) == stream.isatty()


def test_the_threads_of_par_compile_have_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[str] = []
    original = compiler_module.compile

    def noting(*args: Any, **kwargs: Any) -> Any:
        names.append(threading.current_thread().name)
        return original(*args, **kwargs)

    monkeypatch.setattr(compiler_module, "compile", noting)
    tilelang.par_compile([scale(by=float(k)) for k in range(3)], target="llvm", num_workers=2)
    assert len(names) == 3
    assert all(name.startswith("tl-par-comp") for name in names)
    assert not [t for t in threading.enumerate() if t.name.startswith("tl-par-comp")]


def test_a_failure_is_raised_or_with_ignore_error_becomes_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    funcs = [scale(), replace(scale(by=2.5), name="broken"), scale(by=3.0)]

    def failing(func: PrimFunc, *args: Any, **kwargs: Any) -> Any:
        if func.name == "broken":
            raise ArgumentTypeError("broken cannot be lowered", code="TL0967")
        return lower_function(func, *args, **kwargs)

    monkeypatch.setattr(kernel_module, "lower", failing)
    with pytest.raises(ArgumentTypeError, match="broken cannot be lowered"):
        tilelang.par_compile(funcs, target="llvm", num_workers=2)
    kernels = tilelang.par_compile(funcs, target="llvm", num_workers=2, ignore_error=True)
    assert [k is None for k in kernels] == [False, True, False]


# ------------------------------------------------------------------------------------ lower


def seen_by(monkeypatch: pytest.MonkeyPatch, name: str) -> list[tuple[Any, ...]]:
    """The arguments of every call of a function of `lower`'s module."""
    calls: list[tuple[Any, ...]] = []
    original = getattr(lower_module, name)

    def noting(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return original(*args, **kwargs)

    monkeypatch.setattr(lower_module, name, noting)
    return calls


def test_a_primfunc_becomes_a_module_under_its_global_symbol(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    modules = seen_by(monkeypatch, "PreLowerSemanticCheck")
    func = scale()
    lower_function(func, LLVM)
    lower_function(func.with_attr("global_symbol", "renamed"), LLVM)
    assert all(isinstance(mod, IRModule) for mod, *_ in modules)
    assert [list(mod.functions) for mod, *_ in modules] == [["main"], ["renamed"]]
    assert [next(iter(mod.functions.values())).name for mod, *_ in modules] == ["main", "renamed"]


def test_params_come_from_extrac_params_unless_runtime_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lower_module, "extrac_params", lambda func: ("taken", func.name))
    assert lower_function(scale(), LLVM).params == ("taken", "main")
    assert lower_function(scale(), LLVM, runtime_only=True).params is None
    assert lower_function(IRModule({"main": scale()}), LLVM).params is None


def test_a_target_of_text_is_determined_and_its_host_made_canonical(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    determined = seen_by(monkeypatch, "determine_target")
    canonical = seen_by(monkeypatch, "canon_target_host")
    artifact = lower_function(scale(), "cuda-sim -arch=sm_80", "c")
    assert determined == [("cuda-sim -arch=sm_80",)]
    assert canonical == [(SIM, "c")]
    assert (artifact.target, artifact.target_host) == (SIM, Target("c"))


@pytest.mark.parametrize("compiled", [True, False])
def test_the_device_is_compiled_on_request_only(
    monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    whole = seen_by(monkeypatch, "device_codegen")
    source_only = seen_by(monkeypatch, "device_codegen_without_compile")
    artifact = lower_function(scale(), LLVM, enable_device_compile=compiled)
    assert len(whole) == int(compiled)
    assert len(source_only) == 1  # the other one begins with it
    assert artifact.kernel_source == artifact.codegen_mod.inspect_source()


def test_host_code_imports_the_kernels_and_is_the_runtime_module() -> None:
    artifact = lower_function(scale(), LLVM, enable_host_codegen=True)
    assert artifact.host_mod.imported_modules == [artifact.codegen_mod]
    assert artifact.rt_mod is artifact.host_mod
    assert lower_function(scale(), LLVM).rt_mod is None


# ------------------------------------------------------------------------------------ JITKernel


@pytest.mark.parametrize(
    ("backend", "target"),
    [(b, {"sim": SIM, "nvrtc": HOPPER}.get(b, LLVM)) for b in ADAPTERS],
)
def test_both_flags_are_set_exactly_for_tvm_ffi(
    monkeypatch: pytest.MonkeyPatch, backend: str, target: Target
) -> None:
    if target is HOPPER:
        pytest.importorskip("nvidia.cu13")
    flags: list[tuple[Any, Any]] = []

    def noting(*args: Any, **kwargs: Any) -> Any:
        flags.append((kwargs["enable_host_codegen"], kwargs["enable_device_compile"]))
        return lower_function(*args, **kwargs)

    monkeypatch.setattr(kernel_module, "lower", noting)
    JITKernel(scale(), (), backend, target, LLVM)
    assert flags == [(backend == "tvm_ffi",) * 2]


def test_a_kernel_is_lowered_under_its_pass_context_and_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered: list[tuple[PassContext | None, Target | None]] = []

    def noting(*args: Any, **kwargs: Any) -> Any:
        entered.append((PassContext.current(), Target.current()))
        return lower_function(*args, **kwargs)

    monkeypatch.setattr(kernel_module, "lower", noting)
    configs = {"tl.enable_fast_math": True}
    JITKernel(scale(), (), "ctypes", LLVM, LLVM, pass_configs=configs)
    ((context, target),) = entered
    assert context is not None
    assert (context.opt_level, context.config) == (3, configs)
    assert context.options == Options(fast_math=True)
    assert target == LLVM
    assert PassContext.current() is None
    assert Target.current() is None


def test_lower_follows_the_pass_context_that_is_entered() -> None:
    with PassContext(opt_level=3, config={"tirx.noalias": False}):
        assert "__restrict__" not in lower_function(scale(), SIM).kernel_source
    assert "__restrict__" in lower_function(scale(), SIM).kernel_source
    with pytest.warns(CompatWarning, match="opt_level=1 is accepted but has no effect"):
        PassContext(opt_level=1)
