# SPDX-License-Identifier: Apache-2.0
"""A Python function made for one program: the quick way for torch tensors through ctypes.

In: a `CallSpec` and the kernels as ctypes functions. Out: a function of all parameters. Its text is
generated from the spec, so that a call is a few comparisons and one foreign call:

    def call(A, B, s):
        try:
            if A.__class__ is Tensor and A.dtype is float32 and B.__class__ is Tensor and ...:
                (d0, d1) = A.shape
                if d1 == 64 and A.is_contiguous() and A.is_cpu and (a := A.data_ptr()) and ...:
                    n = d0 * 1 * 1
                    if n > 0 and kernel0(a, b, s, 0, n): return slow(A, B, s)
                    return
        except ReferenceError: pass
        return slow(A, B, s)

What the comparisons do not let through (empty tensors, too, whose address may be NULL) goes to
`slow`, which does it or says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilelang.ir import DType

from .launch import CallSpec, ParamSpec, Size

__all__ = ["torch_call", "torch_outputs"]

_SIMPLE = {"+": "+", "-": "-", "*": "*", "==": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class _TooHard(Exception):
    """The spec has something that only the slow way does."""


def torch_call(
    spec: CallSpec, kernels: Sequence[Callable[..., Any]], slow: Callable[..., None]
) -> Callable[..., None]:
    """The function; `slow` itself for a program that is not simple enough."""
    import torch  # the caller has seen a torch tensor

    names: dict[str, Any] = {"Tensor": torch.Tensor, "slow": slow}
    try:
        lines = _Writer(spec, names).lines()
    except _TooHard:
        return slow
    for n, kernel in enumerate(kernels):
        names[f"kernel{n}"] = kernel
    exec("\n".join(lines), names)
    made: Callable[..., None] = names["call"]
    return made


def torch_outputs(
    spec: CallSpec, run: Callable[..., Any], slow: Callable[..., Any]
) -> Callable[..., Any]:
    """A function of the inputs that allocates the outputs, runs, and gives them; for other
    arguments than torch tensors it is `slow`. `run` takes all parameters and checks them:

        def call(i0, i1):
            try:
                if i0.__class__ is not Tensor: return slow(i0, i1)
                o0 = empty(i0.shape[0], 64, dtype=dtype0, device=i0.device)
            except Exception: return slow(i0, i1)  # of an object of any class
            run(i0, i1, o0)
            return o0
    """
    import torch  # the caller has seen a torch tensor

    names: dict[str, Any] = {"Tensor": torch.Tensor, "slow": slow, "run": run, "empty": torch.empty}
    try:
        lines = _output_lines(spec, names)
    except _TooHard:
        return slow
    exec("\n".join(lines), names)
    made: Callable[..., Any] = names["call"]
    return made


def _output_lines(spec: CallSpec, names: dict[str, Any]) -> list[str]:
    if spec.first_tensor < 0 or not spec.outputs:
        raise _TooHard
    writer = _Writer(spec, names)
    for at, index in enumerate(spec.inputs):
        if spec.params[index].kind == "scalar":
            writer.symbols[spec.params[index].symbol] = f"i{at}"
    for symbol, (_, at, kind, d) in spec.symbol_sources.items():
        if kind == "shape" and DType(spec.params[spec.inputs[at]].dtype).bits >= 8:
            writer.symbols[symbol] = f"i{at}.shape[{d}]"
    makes = []
    everything = {index: f"i{at}" for at, index in enumerate(spec.inputs)}
    for n, index in enumerate(spec.outputs):
        p = spec.params[index]
        if DType(p.dtype).bits < 8 or not p.shape:
            raise _TooHard
        names[f"dtype{n}"] = DType(p.dtype).as_torch()
        sizes = ", ".join(writer.size(s) for s in p.shape)
        makes.append(f"o{n} = empty({sizes}, dtype=dtype{n}, device=i{spec.first_tensor}.device)")
        everything[index] = f"o{n}"
    args = ", ".join(f"i{at}" for at in range(len(spec.inputs)))
    results = ", ".join(f"o{n}" for n in range(len(spec.outputs)))
    return [
        f"def call({args}):",
        "  try:",
        f"    made = i{spec.first_tensor}.__class__ is Tensor",
        "    if made:",
        *(f"      {m}" for m in makes),
        "  except Exception: made = False",
        f"  if not made: return slow({args})",
        f"  run({', '.join(everything[i] for i in range(len(spec.params)))})",
        f"  return {results if len(makes) == 1 else f'[{results}]'}",
    ]


class _Writer:
    """Writes the text. Every name in it is ours: parameters are p0, p1, … and symbols d0, d1, …."""

    def __init__(self, spec: CallSpec, names: dict[str, Any]) -> None:
        self.spec = spec
        self.names = names
        self.symbols: dict[str, str] = {}
        self.unpacked: list[str] = []

    def lines(self) -> list[str]:
        spec = self.spec
        if spec.workspaces or spec.asserts or any(k.maps for k in spec.kernels):
            raise _TooHard
        params = ", ".join(f"p{i}" for i in range(len(spec.params)))
        kinds = [self.kind(i, p) for i, p in enumerate(spec.params)]
        order = [*spec.inputs, *spec.outputs]
        shapes = [self.shape(i, spec.params[i]) for i in order if spec.params[i].kind == "tensor"]
        run = [line for n in range(len(spec.kernels)) for line in self.launch(n, params)]
        return [
            f"def call({params}):",
            "  try:",
            f"    if {' and '.join(kinds) or 'True'}:",
            *(f"      {u}" for u in self.unpacked),
            f"      if {' and '.join(shapes) or 'True'}:",
            *(f"        {r}" for r in run),
            "        return",
            "  except ReferenceError: pass",  # a proxy of a tensor that is gone
            f"  return slow({params})",
        ]

    def kind(self, i: int, p: ParamSpec) -> str:
        """Class, dtype and, for unpacking, the rank; for a scalar its range."""
        if p.kind == "tensor":
            if p.strides is not None or DType(p.dtype).bits < 8 or p.align > 1:
                raise _TooHard
            self.names[f"dtype{i}"] = DType(p.dtype).as_torch()
            same = f"p{i}.__class__ is Tensor and p{i}.dtype is dtype{i}"
            unpacked = any(isinstance(s, str) for s in p.shape)  # else the whole shape is compared
            return f"{same} and p{i}.dim() == {len(p.shape)}" if unpacked else same
        dtype = DType(p.dtype)
        if p.kind == "pointer" or (dtype.is_float and dtype.bits < 32):
            raise _TooHard
        self.symbols[p.symbol] = f"p{i}"
        if dtype.is_bool:
            return f"p{i}.__class__ is bool"
        if dtype.is_float:
            return f"(p{i}.__class__ is float or p{i}.__class__ is int)"
        low = -(2 ** (dtype.bits - 1)) if dtype.is_signed else 0
        return f"p{i}.__class__ is int and {low} <= p{i} < {low + 2**dtype.bits}"

    def shape(self, i: int, p: ParamSpec) -> str:
        """Extents, contiguity, device; the first tensor with a new symbol binds it."""
        tests = [f"p{i}.is_contiguous()", f"p{i}.is_cpu", f"(a{i} := p{i}.data_ptr())"]
        fresh = [s for s in p.shape if isinstance(s, str) and s not in self.symbols]
        if fresh:
            held = [f"x{i}_{d}" for d in range(len(p.shape))]
            self.unpacked.append(f"({', '.join(held)},) = p{i}.shape")
            for d, s in enumerate(p.shape):
                if isinstance(s, str) and s not in self.symbols:
                    self.symbols[s] = held[d]
                    tests.append(f"{held[d]} < {2 ** (self.spec.bits.get(s, 64) - 1)}")
                else:
                    tests.append(f"{held[d]} == {self.size(s)}")
        else:
            sizes = "".join(f"{self.size(s)}, " for s in p.shape)
            tests.append(f"p{i}.shape == ({sizes})")
        return " and ".join(tests)

    def launch(self, n: int, params: str) -> list[str]:
        kernel = self.spec.kernels[n]
        args = [
            f"a{which}" if kind == "param" else self.symbols[which]
            for kind, which, *_ in kernel.args
        ]
        count = " * ".join(f"max({self.size(g)}, 0)" for g in kernel.grid if g != 1) or "1"
        call = f"kernel{n}({', '.join([*args, '0', 'n'])})"
        return [f"n = {count}", f"if n > 0 and {call}: return slow({params})"]

    def size(self, s: Size) -> str:
        """A size as a Python expression."""
        if isinstance(s, int):
            return str(int(s))
        if isinstance(s, str):
            if s not in self.symbols:
                raise _TooHard
            return self.symbols[s]
        op, *operands = s
        texts = [self.size(x) for x in operands]
        if op in _SIMPLE:
            return f"({texts[0]} {_SIMPLE[op]} {texts[1]})"
        if op in ("//", "%") and isinstance(operands[1], int) and operands[1] != 0:
            return f"({texts[0]} {op} {texts[1]})"
        if op in (":min", ":max"):
            return f"{op[1:]}({', '.join(texts)})"
        raise _TooHard
