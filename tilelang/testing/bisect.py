# SPDX-License-Identifier: Apache-2.0
"""Which pass makes a program wrong: the interpreter runs what each of them gives.

In: a function and inputs. Out: the name of the first pass after which the results are others, or
None. It needs no GPU and no compiler: what the passes make of a kernel for any target is run as it
stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.config import Options
from tilelang.ir import PrimFunc, own_copy, session
from tilelang.target import Target, determine_target
from tilelang.transform import PIPELINE, Pass, PassContext, run_passes

from .compare import check_same

__all__ = ["first_wrong_pass"]


def first_wrong_pass(
    func: PrimFunc,
    *inputs: Any,
    target: Any = None,
    options: Options | None = None,
    rtol: float = 1e-3,
    atol: float = 1e-3,
    passes: Sequence[Pass] = PIPELINE,
) -> str | None:
    """inputs: numpy arrays and numbers; they are left as they are. target: default, the current
    one."""
    where = determine_target(target, return_object=True)
    wrong: list[str] = []

    def check(name: str, after: Any) -> None:
        if not wrong:
            try:
                check_same(func, after, *inputs, rtol=rtol, atol=atol)
            except Exception:  # another result, or one that cannot be run at all
                wrong.append(name)

    with session():
        context = PassContext(Target(str(where)), options or Options())
        run_passes(own_copy(func), context, passes, check)
    return wrong[0] if wrong else None
