# SPDX-License-Identifier: Apache-2.0
"""Backend torch: the kernel as a registered custom operator.

In: an artifact. Out: `torch.ops.tilelang.<name>`, with a schema that says what is written, a fake
implementation for tracing, and `register_autograd`. It works under `torch.compile(fullgraph=True)`
and in CUDA graphs. A call with numpy arrays is launched without the operator."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilelang.errors import TileError, ToolchainError
from tilelang.ir import DType
from tilelang.runtime.dlpack import is_numpy
from tilelang.runtime.launch import CallSpec, ParamSpec, Size
from tilelang.runtime.named import by_position
from tilelang.runtime.python_launch import CudaDevice, PythonLauncher
from tilelang.runtime.quick_call import TORCH, quick_first, quick_outputs

from .base import BaseKernelAdapter, with_outputs
from .native import native_function, native_module

__all__ = ["TorchKernelAdapter"]

Evaluate = Callable[[Size, Mapping[str, Any]], Any]
_lock = threading.Lock()
_libraries: list[Any] = []  # a library's operators live as long as it does


class TorchKernelAdapter(BaseKernelAdapter):
    """Calls the operator. `op` is the operator itself."""

    name = "torch"
    traceable = True

    def make_func(self) -> Callable[..., Any]:
        try:
            import torch  # this backend's own need
        except ImportError as error:
            raise ToolchainError(
                "execution backend torch needs torch, which cannot be imported",
                code="TL0861",
                notes=[str(error)],
                help="pip install torch, or choose another execution backend",
            ) from error
        self.launch = self._launcher()
        self.op: Any = _register(torch, self.spec, self.launch, self.device_kernel_source)
        op, spec, launch = self.op, self.spec, self.launch
        num_params, has_outputs = len(spec.params), bool(spec.outputs)
        # Arrays, and what the checks refuse, need no operator.
        of_numpy = with_outputs(spec, launch, self.target.is_cuda)
        is_compiling = torch.compiler.is_compiling

        def call(*args: Any, **named: Any) -> Any:
            if named:
                args = by_position(spec, args, named)
            if is_compiling():
                result = op(*args)
                return list(result) if isinstance(result, tuple) else result
            if any(map(is_numpy, args)):
                return of_numpy(*args)
            if has_outputs and len(args) == num_params:
                launch(*args)
                return None
            if len(args) != len(spec.inputs):
                spec.bind(args, partial=True)  # says how many are expected
            try:
                result = op(*args)
            except TileError:
                raise
            except Exception:  # the dispatcher takes no other classes than those of its schema
                return of_numpy(*args)
            return list(result) if isinstance(result, tuple) else result

        return call

    def _launcher(self) -> Callable[..., None]:
        """All parameters, no results: the generated function, or what calls through ctypes."""
        slow: Callable[..., None]
        if self.target.is_cuda:
            slow = PythonLauncher(self.spec, CudaDevice(self.binary().binary or b""))
        else:
            from .ctypes import CpuDevice

            device = CpuDevice(self.binary(), self.spec)
            launcher = PythonLauncher(self.spec, device)
            slow = quick_first(self.spec, device.functions, launcher)
        if self.target.kind != "c" and importlib.util.find_spec("llvmlite") is not None:
            module = native_module(self.rt_mod, self.host_mod, self.module, self.target)
            if module is not None:
                self.rt_mod = module
                return native_function(module, self.spec, slow, self.target)
        return slow

    def register_autograd(
        self, backward: Callable[..., Any], setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Gives the operator a derivative; see `torch.library.register_autograd`."""
        import torch

        torch.library.register_autograd(self.op, backward, setup_context=setup_context)


def _register(
    torch: Any, spec: CallSpec, launch: Callable[..., None], source: str
) -> Callable[..., Any]:
    """The operator of this program; two kernels with equal code and calls share its name."""
    text = json.dumps(spec.as_json()) + source
    name = f"{spec.name}_{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    with _lock:
        if not hasattr(torch.ops.tilelang, name):
            library = torch.library.Library("tilelang", "FRAGMENT")
            _libraries.append(library)
            library.define(f"{name}{_schema(spec)}", tags=(torch.Tag.pt2_compliant_tag,))
            key = "CompositeExplicitAutograd"
            library.impl(name, _implementation(torch, spec, launch), key)
            torch.library.register_fake(f"tilelang::{name}", _fake(torch, spec), lib=library)
        found: Callable[..., Any] = getattr(torch.ops.tilelang, name).default
    return found


_SCALARS = {"int": "int", "uint": "int", "float": "float", "bool": "bool", "handle": "int"}


def _schema(spec: CallSpec) -> str:
    """`(Tensor A, Tensor(a1!) B, float s) -> Tensor`"""
    items = []
    for at, index in enumerate(spec.inputs):
        p = spec.params[index]
        kind = _SCALARS[DType(p.dtype).kind]
        if p.kind == "tensor":
            kind = f"Tensor(a{at}!)" if index in spec.written else "Tensor"
        items.append(f"{kind} {_argument(p, at)}")
    results = ["Tensor"] * len(spec.outputs)
    returns = results[0] if len(results) == 1 else f"({', '.join(results)})"
    return f"({', '.join(items)}) -> {returns}"


def _argument(p: ParamSpec, at: int) -> str:
    """A name that torch's schema language takes."""
    return f"{p.name}_{at}" if p.name.isidentifier() and p.name.isascii() else f"arg_{at}"


def _empty(torch: Any, spec: CallSpec, inputs: Sequence[Any], value: Evaluate) -> list[Any]:
    """The outputs, uninitialised; sizes may be symbolic."""
    symbols: dict[str, Any] = {}
    for at, index in enumerate(spec.inputs):
        if spec.params[index].kind == "scalar":
            symbols[spec.params[index].symbol] = inputs[at]
    for symbol, (_, at, kind, d) in spec.symbol_sources.items():
        x = inputs[at]
        symbols[symbol] = x.shape[d] if kind == "shape" else x.stride(d)
    first = spec.first_tensor
    device = inputs[first].device if first >= 0 else None
    made = []
    for o in spec.outputs:
        p = spec.params[o]
        shape = [value(s, symbols) for s in p.shape]
        dtype = DType(p.dtype)
        if dtype.bits < 8 and shape:
            shape[-1] = (shape[-1] * dtype.bits + 7) // 8
        made.append(torch.empty(shape, dtype=dtype.as_torch(), device=device))
    return made


def _symbolic(torch: Any) -> Evaluate:
    """`launch.evaluate` for sizes that are known only to a tracer."""
    import operator as o

    meaning = {
        "+": o.add, "-": o.sub, "*": o.mul, "//": o.floordiv, "%": o.mod, ":min": torch.sym_min,
        ":max": torch.sym_max, ":neg": o.neg,
    }  # fmt: skip

    def value(size: Size, symbols: Mapping[str, Any]) -> Any:
        if isinstance(size, int):
            return size
        if isinstance(size, str):
            return symbols[size]
        return meaning[size[0]](*(value(s, symbols) for s in size[1:]))

    return value


def _implementation(torch: Any, spec: CallSpec, launch: Callable[..., None]) -> Callable[..., Any]:
    from tilelang.runtime.launch import evaluate

    places = sorted(range(len(spec.outputs)), key=lambda i: spec.outputs[i])

    def run(*inputs: Any) -> Any:
        try:
            made = _empty(torch, spec, inputs, evaluate)
        except (AttributeError, IndexError):
            spec.bind(inputs, partial=True)  # says what is wrong
            raise
        everything = list(inputs)
        for i in places:
            everything.insert(spec.outputs[i], made[i])
        launch(*everything)
        return made[0] if len(made) == 1 else made or None

    return quick_outputs(TORCH, spec, launch, run) if spec.outputs else run


def _fake(torch: Any, spec: CallSpec) -> Callable[..., Any]:
    value = _symbolic(torch)

    def fake(*inputs: Any) -> Any:
        made = _empty(torch, spec, inputs, value)
        return made[0] if len(made) == 1 else tuple(made) if made else None

    return fake
