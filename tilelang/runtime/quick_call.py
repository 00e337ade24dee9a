# SPDX-License-Identifier: Apache-2.0
"""A Python function made for one program and torch tensors, or numpy arrays: the quick way through
ctypes.

In: a `CallSpec` and the kernels as ctypes functions. Out: a function of all parameters. Its text is
generated from the spec, so that a call is a few comparisons and one foreign call:

    def call(A, B, s):
        try:
            if A.__class__ is Tensor and A.dtype is float32 and B.__class__ is Tensor and ...:
                (d0, d1) = A.shape
                if d1 == 64 and A.is_contiguous() and A.is_cpu and (a := A.data_ptr()) and ...:
                    n = d0 * 1 * 1
                    if n > 0 and (message := kernel0(a, b, s, 0, n)): failed(message)
                    return
        except ReferenceError: pass
        return slow(A, B, s)

What the comparisons do not let through (empty tensors, too, whose address may be NULL) goes to
`slow`, which does it or says what is wrong.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tilelang.ir import DType

from .launch import CallSpec, ParamSpec, Size
from .named import by_position

__all__ = [
    "NUMPY",
    "TORCH",
    "Framework",
    "from_the_second",
    "quick_call",
    "quick_first",
    "quick_outputs",
]

_SIMPLE = {"+": "+", "-": "-", "*": "*", "==": "==", "<": "<", "<=": "<=", ">": ">", ">=": ">="}


class _TooHard(Exception):
    """The spec has something that only the slow way does."""


class Framework(NamedTuple):
    """How the generated text asks its tensors. {p} is the tensor; place: the module and the name of
    the class; tests: those of memory on the CPU, one element after the other."""

    place: tuple[str, str]
    rank: str
    tests: tuple[str, ...]
    written: tuple[str, ...]
    address: str
    empty: str

    @property
    def tensor_class(self) -> type | None:
        """The class, if the program has imported it."""
        module, name = self.place
        found: type | None = getattr(sys.modules.get(module), name, None)
        return found

    def dtype(self, name: str) -> Any:
        return DType(name).as_torch() if self is TORCH else DType(name).as_numpy()


TORCH = Framework(
    ("torch", "Tensor"), "{p}.dim()", ("{p}.is_contiguous()", "{p}.is_cpu"), (), "{p}.data_ptr()",
    "empty({sizes}, dtype={dtype}, device={p}.device)",
)  # fmt: skip
NUMPY = Framework(
    ("numpy", "ndarray"), "{p}.ndim", ("{p}.flags.c_contiguous",), ("{p}.flags.writeable",),
    '{p}.__array_interface__["data"][0]', "empty(({sizes},), {dtype})",
)  # fmt: skip


def quick_first(
    spec: CallSpec, kernels: Sequence[Callable[..., Any]], launcher: Callable[..., None]
) -> Callable[..., None]:
    """Calls the function made for a framework's tensors, from their second call on; the launcher
    until then, and for all else."""
    return from_the_second(
        spec, range(len(spec.params)), launcher, lambda f: quick_call(f, spec, kernels, launcher)
    )


def from_the_second(
    spec: CallSpec,
    taken: Sequence[int],
    slow: Callable[..., Any],
    make: Callable[[Framework], Callable[..., Any]],
) -> Callable[..., Any]:
    """`slow`, and for tensors of torch and numpy, from the second call with them on, what `make`
    gives for their framework. taken: the parameters that are passed."""
    count = len(taken)
    first = next((n for n, i in enumerate(taken) if spec.params[i].kind == "tensor"), -1)
    made: dict[type, Callable[..., Any]] = {}

    def call(*args: Any, **named: Any) -> Any:
        if named:
            args = by_position(spec, args, named)
        if len(args) != count or first < 0:
            return slow(*args)
        kind = type(args[first])
        quick = made.get(kind)
        if quick is not None:
            return quick(*args)
        result = slow(*args)
        framework = next((f for f in (TORCH, NUMPY) if f.tensor_class is kind), None)
        if framework is not None:
            made[kind] = make(framework)
        return result

    call.__name__ = call.__qualname__ = spec.name
    return call


def quick_call(
    framework: Framework,
    spec: CallSpec,
    kernels: Sequence[Callable[..., Any]],
    slow: Callable[..., None],
) -> Callable[..., None]:
    """The function of all parameters; `slow` itself for a program that is not simple enough."""

    def failed(message: bytes) -> None:
        raise spec.failed(message.decode())

    names: dict[str, Any] = {"Tensor": framework.tensor_class, "slow": slow, "failed": failed}
    try:
        lines = _Writer(framework, spec, names).lines()
    except _TooHard:
        return slow
    for n, kernel in enumerate(kernels):
        names[f"kernel{n}"] = kernel
    exec("\n".join(lines), names)
    made: Callable[..., None] = names["call"]
    return made


def quick_outputs(
    framework: Framework, spec: CallSpec, run: Callable[..., Any], slow: Callable[..., Any]
) -> Callable[..., Any]:
    """A function of the inputs that allocates the outputs, runs, and gives them; for tensors of
    other frameworks it is `slow`. `run` takes all parameters and checks them:

        def call(i0, i1):
            try:
                made = i0.__class__ is Tensor
                if made:
                    o0 = empty(i0.shape[0], 64, dtype=dtype0, device=i0.device)
            except Exception: made = False  # of an object of any class
            if not made: return slow(i0, i1)
            run(i0, i1, o0)
            return o0
    """
    module, _ = framework.place
    names: dict[str, Any] = {
        "Tensor": framework.tensor_class, "slow": slow, "run": run,
        "empty": sys.modules[module].empty,
    }  # fmt: skip
    try:
        lines = _output_lines(framework, spec, names)
    except _TooHard:
        return slow
    exec("\n".join(lines), names)
    made: Callable[..., Any] = names["call"]
    return made


def _output_lines(framework: Framework, spec: CallSpec, names: dict[str, Any]) -> list[str]:
    if spec.first_tensor < 0 or not spec.outputs:
        raise _TooHard
    writer = _Writer(framework, spec, names)
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
        names[f"dtype{n}"] = framework.dtype(p.dtype)
        sizes = ", ".join(writer.size(s) for s in p.shape)
        like = f"i{spec.first_tensor}"
        makes.append(f"o{n} = {framework.empty.format(sizes=sizes, dtype=f'dtype{n}', p=like)}")
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

    def __init__(self, framework: Framework, spec: CallSpec, names: dict[str, Any]) -> None:
        self.framework = framework
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
        run = [line for n in range(len(spec.kernels)) for line in self.launch(n)]
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
            self.names[f"dtype{i}"] = self.framework.dtype(p.dtype)
            same = f"p{i}.__class__ is Tensor and p{i}.dtype is dtype{i}"
            unpacked = any(isinstance(s, str) for s in p.shape)  # else the whole shape is compared
            rank = self.framework.rank.format(p=f"p{i}")
            return f"{same} and {rank} == {len(p.shape)}" if unpacked else same
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
        asked = self.framework
        written = asked.written if i in self.spec.written else ()
        tests = [t.format(p=f"p{i}") for t in (*asked.tests, *written)]
        tests.append(f"(a{i} := {asked.address.format(p=f'p{i}')})")
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

    def launch(self, n: int) -> list[str]:
        kernel = self.spec.kernels[n]
        args = [
            f"a{which}" if kind == "param" else self.symbols[which]
            for kind, which, *_ in kernel.args
        ]
        count = " * ".join(f"max({self.size(g)}, 0)" for g in kernel.grid if g != 1) or "1"
        call = f"kernel{n}({', '.join([*args, '0', 'n'])})"
        return [f"n = {count}", f"if n > 0 and (message := {call}): failed(message)"]

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
