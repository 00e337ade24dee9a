# SPDX-License-Identifier: Apache-2.0
"""LowerDeviceStorageAccessInfo: a GPU's memories become memory of the block that a CPU runs.

    s = alloc((32,), "float32", scope="shared.dyn")   →   s = alloc((32,), "float32", scope="local")

On a CPU one thread runs a block, with all of its memory to itself: there is no shared memory apart,
no bank, and no other thread that could write between two reads. What the scope said (that other
threads see it) and where a GPU would place it are gone, and the printer may keep it in registers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir import Alloc, Buffer, Kernel, Scope, substitute, walk
from tilelang.target import Target

_OF_A_GPU = (Scope.SHARED, Scope.SHARED_STATIC, Scope.FRAGMENT, Scope.REDUCER)


def run(func: Any, target_host: Target) -> Any:
    if not isinstance(func, Kernel):
        return func
    allocated = [n.buffer for n in walk(func.body) if type(n) is Alloc]
    # Views come after what they are views of.
    plain: dict[Buffer, Buffer] = {}
    for b in allocated:
        base = plain.get(b.view_of, b.view_of) if b.view_of is not None else None
        if b.scope in _OF_A_GPU or base is not b.view_of:
            plain[b] = Buffer(
                b.name, b.shape, b.dtype, Scope.LOCAL, b.strides, base, b.span, b.data
            )
    return replace(func, body=substitute(func.body, plain)) if plain else func
