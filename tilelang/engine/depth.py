# SPDX-License-Identifier: Apache-2.0
"""Room for deep expressions: a sum of a thousand terms is a thousand levels deep.

In: a function that is being compiled. Out: Python's recursion limit raised while it is, and a word
to the user where even that is too little. A frame of Python costs no stack of the machine (since
Python 3.11), and what C code there is between takes under a kilobyte per level: `LIMIT` levels fit
the smallest stacks that threads have.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tilelang.errors import LanguageError

__all__ = ["LIMIT", "deep_expressions"]

LIMIT = 6000


@dataclass
class _Raised:
    """How many compilations want the limit raised, and what it was before the first of them: it is
    one for the whole process."""

    users: int = 0
    before: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


_raised = _Raised()


@contextmanager
def deep_expressions(name: str) -> Iterator[None]:
    """While the kernel `name` is compiled."""
    with _raised.lock:
        if _raised.users == 0:
            _raised.before = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_raised.before, LIMIT))
        _raised.users += 1
    try:
        yield
    except RecursionError:
        raise LanguageError(
            f"an expression of {name} is nested too deeply",
            code="TL0197",
            help="give parts of it names: s = a + b; s = s + c",
        ) from None
    finally:
        with _raised.lock:
            _raised.users -= 1
            if _raised.users == 0:
                sys.setrecursionlimit(_raised.before)
