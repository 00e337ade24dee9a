# SPDX-License-Identifier: Apache-2.0
"""Whatever changes Python's state in a run-time loop or branch is refused, at its line.

Each case is the body of a kernel over `A: (16,) int32`; the line that the error must name ends in
`#!`.
"""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import LanguageError
from tilelang.language import remember_source

HEAD = """
import contextlib
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((16,), "int32")):
    with T.Kernel(1, threads=32):
"""
BRANCH = "x = 1\nif A[0] > 100:\n"
NAMES = {
    "for": BRANCH + "    for x in [5, 6]: #!\n        A[2] = x\nA[1] = x",
    "for_nested": BRANCH + "    for y, (z, x) in [(1, (2, 3))]: #!\n        A[2] = y + z\nA[1] = x",
    "walrus": BRANCH + "    (x := 7) #!\nA[1] = x",
    "walrus_in_list": BRANCH + "    y = [(x := i) for i in (1, 2)] #!\nA[1] = x",
    "with": BRANCH + "    with contextlib.nullcontext(2) as x: #!\n        pass\nA[1] = x",
    "match": BRANCH + "    match 2: #!\n        case x:\n            pass\nA[1] = x",
    "match_star": BRANCH + "    match (2,): #!\n        case [*x]:\n            pass\nA[1] = x[0]",
    "def": "def x(): return 1\nif A[0] > 1:\n    def x(): return 2 #!\nA[1] = x()",
    "class": BRANCH + "    class x: #!\n        pass\nA[1] = x",
    "import": BRANCH + "    import math as x #!\nA[1] = x",
    "except": BRANCH
    + "    try: #!\n        pass\n    except ValueError as x:\n        pass\nA[1] = x",
    "del": BRANCH + "    del x #!\nA[1] = x",
}
OBJECTS = {
    "item": "l = [0]\nfor i in T.serial(8):\n    l[0] = i #!\n    A[i] = l[0]",
    "item_updated": "l = [0]\nfor i in T.serial(8):\n    l[0] += 1 #!\n    A[i] = l[0]",
    "item_in_branch": "l = {}\nif A[0] > 100:\n    l['a'] = 2 #!",
    "append": "l = []\nfor i in range(8):\n    l.append(i) #!",
    "set": "s = set()\nif A[0] > 100:\n    s.add(1) #!\nA[7] = len(s)",
    "whole": "l = []\nk = l\nfor i in T.serial(8):\n    l += [i] #!\nA[0] = len(k)",
    "deleted": "l = [0]\nif A[0] > 100:\n    del l[0] #!\nA[7] = len(l)",
    "made_one_loop_further_out": "for i in T.serial(4):\n    l = []\n    if A[i] > 0:\n"
    "        l.append(i) #!\n    A[i] = len(l)",
    "aliased": "l = [0]\nfor i in T.serial(8):\n    k = l\n    k[0] = i #!",
}


def program(body: str) -> str:
    text = HEAD + "".join(f"        {line}\n" for line in body.split("\n"))
    remember_source(text, "user.py")
    return text


def refused(body: str, code: str) -> LanguageError:
    text = program(body)
    with pytest.raises(LanguageError) as caught:
        exec(compile(text, "user.py", "exec"), {"__name__": "user"})
    error = caught.value
    marked = next(n for n, line in enumerate(text.split("\n"), 1) if line.endswith("#!"))
    assert error.span is not None
    assert (error.code, error.span.line) == (code, marked), str(error)
    return error


@pytest.mark.parametrize("case", NAMES)
def test_names(case: str) -> None:
    assert "is read after it" in str(refused(NAMES[case], "TL0176"))


@pytest.mark.parametrize("case", OBJECTS)
def test_objects(case: str) -> None:
    assert "T.alloc_var" in str(refused(OBJECTS[case], "TL0173"))


def test_walrus_in_the_condition_of_a_while() -> None:
    refused("while (n := 1) < A[0]: #!\n    A[1] = n", "TL0111")


def test_while_tracing_everything_is_allowed() -> None:
    @T.prim_func
    def main(A: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=32):
            made, seen = [], set()
            for x in [5, 6]:
                made.append(x)  # noqa: PERF402
            if len(made) == 2:
                made[0] += 1
                seen.add(x)
                del made[1]
            A[0] = made[0] + (y := 2) + y + len(seen)
            for i in T.serial(1, 4):
                parts, table = [], {"k": [0]}
                for x in [1, 2]:
                    parts.append(x * i)  # noqa: PERF401
                table["k"][0] = parts[1]
                if (z := i * 2) > 2:
                    A[i] = sum(parts) + (w := z) + table["k"][0] + w - z
            n = T.alloc_var("int32")
            n = 0
            counters = [n]
            for i in T.serial(4):
                counters[0] += i
            A[15] = n

    a = np.zeros(16, np.int32)
    tilelang.compile(main, target="llvm")(a)
    assert a.tolist() == [11, 0, 14, 21, *[0] * 11, 6]
