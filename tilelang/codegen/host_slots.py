# SPDX-License-Identifier: Apache-2.0
"""CPU kernels behind one signature, for a launcher that knows them only at run time.

In: names of kernels and the types of their parameters. Out: for each, as LLVM IR or as C,

    const char* <kernel>_slots(const int64_t* slots, int64_t block_begin, int64_t block_end)

which reads every argument from a slot of eight bytes and calls the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .host import defined_functions
from .host_c import CWriter
from .host_llvm import LlvmWriter
from .host_writer import Externs, Value

if TYPE_CHECKING:
    from .host_writer import HostWriter

__all__ = ["slots_c", "slots_llvm", "slots_name"]

_SLOT_BYTES = 8


def slots_name(kernel: str) -> str:
    return f"{kernel}_slots"


def slots_llvm(kernels: Mapping[str, Sequence[str]], module: str) -> str:
    """LLVM IR, after the module of the kernels."""
    w = LlvmWriter()
    w.declared.update(defined_functions(module))
    _emit(w, kernels)
    return f"{module}\n{w.finish()}"


def slots_c(kernels: Mapping[str, Sequence[str]]) -> str:
    """A translation unit of C."""
    w = CWriter()
    _emit(w, kernels)
    return w.finish()


def _emit(w: HostWriter, kernels: Mapping[str, Sequence[str]]) -> None:
    for name, types in kernels.items():
        w.extern(name, Externs("ptr", (*types, "i64", "i64")))
        params = [("slots", "ptr"), ("block_begin", "i64"), ("block_end", "i64")]
        with w.function(slots_name(name), params, returns="ptr", export=True) as given:
            slots, begin, end = given
            values = [_value(w, slots, _SLOT_BYTES * n, type) for n, type in enumerate(types)]
            w.ret(w.call(name, [*values, begin, end]))


def _value(w: HostWriter, slots: Value, offset: int, type: str) -> Value:
    if type == "i1":
        return w.compare("ne", w.load("i8", slots, offset), w.number(0, "i8"))
    return w.load(type, slots, offset)
