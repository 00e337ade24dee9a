# SPDX-License-Identifier: Apache-2.0
"""Runs a function at any stage, a generator per thread.

In: a `PrimFunc` (TILE, LOOP or FLAT) or a `HostProgram` (DEVICE), and its inputs. Out: its outputs.
Meant for small shapes: a thread is Python code (see `program`), blocks run one after another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilelang.errors import ArgumentValueError
from tilelang.ir import (
    Buffer,
    Const,
    DType,
    Expr,
    HostProgram,
    PrimFunc,
    TensorMap,
    Var,
    free_vars,
)

from .block import Runtime
from .evaluate import evaluate
from .memory import Memory, Pointer, fresh
from .program import Program
from .tensormap import BoundMap
from .values import from_storage, namespace

__all__ = ["execute", "program_text", "run"]


def run(func: PrimFunc | HostProgram, *arguments: Any) -> list[Any]:
    """The outputs; arrays given for other parameters are changed in place."""
    return execute(func, arguments)


def execute(func: PrimFunc | HostProgram, arguments: Sequence[Any]) -> list[Any]:
    values = _bind(func, arguments)
    program = Program(_is_tile(func))
    text = _write(func, program)
    flat = isinstance(func, HostProgram) or func.attrs.get("stage") == "FLAT"
    known: dict[Any, Any] = {}
    for p, value in values.items():
        known[p] = Memory(p, value) if isinstance(p, Buffer) else value
        if flat and isinstance(p, Buffer):
            known[p] = _flat(known[p])
    scope: dict[str, Any] = {
        **namespace(),
        **program.constants,
        "Pointer": Pointer,
        "BoundMap": BoundMap,
    }
    exec(compile(text, f"<interpreted {func.name}>", "exec"), scope)
    with np.errstate(all="ignore"):
        scope["main"](Runtime(known, _is_tile(func)))
    return [values[func.params[i]] for i in func.outputs]


def _is_tile(func: PrimFunc | HostProgram) -> bool:
    return isinstance(func, PrimFunc) and func.attrs.get("stage", "TILE") == "TILE"


def program_text(func: PrimFunc | HostProgram) -> str:
    """The Python text that runs `func`."""
    return _write(func, Program(_is_tile(func)))


def _flat(memory: Memory) -> Memory:
    """A global buffer as FLAT accesses it: one offset into its storage."""
    return Memory(memory.buffer, memory.flat)


# --- binding arguments -------------------------------------------------------------------------


def _bind(func: PrimFunc | HostProgram, arguments: Sequence[Any]) -> dict[Any, Any]:
    """Parameter or symbol -> array or number; outputs are allocated, full of poison."""
    inputs = [p for i, p in enumerate(func.params) if i not in func.outputs]
    if len(arguments) != len(inputs):
        raise ArgumentValueError(
            f"{func.name} takes {len(inputs)} inputs, {len(arguments)} were given",
            code="TL0920",
            help="pass one argument for every parameter that is no output",
        )
    known: dict[Any, Any] = {}
    for p, value in zip(inputs, arguments, strict=True):
        known[p] = _array(p, value) if isinstance(p, Buffer) else _scalar(value, p.dtype)
    numbers = {p: v for p, v in known.items() if isinstance(p, Var)}
    for p in inputs:
        if isinstance(p, Buffer):
            _solve(p, known[p], numbers)
    for p in func.params:
        if p not in known and isinstance(p, Buffer):
            known[p] = fresh(p, tuple(int(evaluate(e, numbers)) for e in p.shape))
    known.update(numbers)
    return known


def _scalar(value: Any, dtype: DType) -> Any:
    """A scalar argument as the kernel gets it: rounded to the parameter's dtype."""
    number = value.item() if hasattr(value, "item") else value
    return from_storage(number, dtype)


def _array(buffer: Buffer, value: Any) -> Any:
    target = buffer.dtype.as_numpy()
    array = np.asarray(value)
    if (
        array.dtype != target
        and array.dtype.itemsize == target.itemsize
        and array.dtype.kind in "Vu"
    ):
        array = array.view(target)
    if array.dtype != target or array.ndim != buffer.ndim:
        raise ArgumentValueError(
            f"{buffer.name} is {buffer.dtype} with {buffer.ndim} dimensions, but was given "
            f"{array.dtype} with {array.ndim}",
            code="TL0921",
            help="pass an array of this dtype and rank",
        )
    return array


def _solve(buffer: Buffer, array: Any, numbers: dict[Var, Any]) -> None:
    """Binds symbols that stand alone in the shape or the strides, and checks the rest."""
    strides = [s // array.itemsize for s in array.strides]
    places = [*zip(buffer.shape, array.shape, strict=True)]
    places += zip(buffer.strides or (), strides, strict=False)
    for e, n in places:
        if isinstance(e, Var):
            numbers.setdefault(e, int(n))
    for dim, (e, n) in enumerate(zip(buffer.shape, array.shape, strict=True)):
        want = _known(e, numbers)
        if want is not None and want != n:
            raise ArgumentValueError(
                f"{buffer.name} has {n} elements in dimension {dim}, but must have {want}",
                code="TL0922",
                help="pass an array of this size",
            )


def _known(e: Expr, numbers: dict[Var, Any]) -> int | None:
    if type(e) is Const:
        return int(e.value)
    return int(evaluate(e, numbers)) if all(v in numbers for v in free_vars(e)) else None


# --- writing the program -----------------------------------------------------------------------


def _write(func: PrimFunc | HostProgram, program: Program) -> str:
    if isinstance(func, PrimFunc):
        return program.main(func.params, func.symbols, lambda: program.stmt(func.body))

    def launches() -> None:
        for b in func.temporaries:
            shape = program.tuple(b.shape)
            program.line(f"{program.define(b)} = rt.workspace({program.constant(b, 'b')}, {shape})")
        for k in func.launches:
            program.tensor_maps(a for a in k.args if isinstance(a, TensorMap))
            program.kernel(k)

    return program.main(func.params, func.symbols, launches)
