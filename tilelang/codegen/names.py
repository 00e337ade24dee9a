# SPDX-License-Identifier: Apache-2.0
"""Names of a generated function: those of the source, made legal and unique.

In: variables and buffers (identities with a wished name). Out: C identifiers, the same in every
process, because they are numbered in the order in which they are first asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["CUDA_RESERVED", "C_RESERVED", "Names", "legal_name", "words"]


def words(text: str) -> frozenset[str]:
    """The names in a text, separated by blanks."""
    return frozenset(text.split())


# Keywords of C and C++17 (ISO C++17 table 5, alternative tokens included), and names that any
# header may define as a macro.
C_RESERVED = words(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t
    char32_t class compl const const_cast constexpr continue decltype default delete do
    double dynamic_cast else enum explicit export extern false float for friend goto if
    inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq
    private protected public register reinterpret_cast restrict return short signed sizeof
    static static_assert static_cast struct switch template this thread_local throw true try
    typedef typeid typename union unsigned using virtual void volatile wchar_t while xor
    xor_eq main errno NULL stdin stdout stderr INFINITY
    NAN EOF M_PI M_E HUGE_VAL BUFSIZ assert I linux unix
    """
)
# What CUDA C++ and our own headers add to the global namespace.
CUDA_RESERVED = C_RESERVED | words(
    """
    tl threadIdx blockIdx blockDim gridDim warpSize buf_dyn_shmem half_t bfloat16_t
    fp8_e4m3_t fp8_e5m2_t fp8_e4m3fnuz_t fp8_e5m2fnuz_t fp8_e8m0_t fp4_e2m1_t
    fp4_e2m1_unpacked_t printf min max abs dim3 uint3 char2 int2 int4 float2 float4 half2
    memcpy memset malloc free clock j0 j1 jn y0 y1 yn norm exp log pow sin cos tan sqrt
    floor ceil round trunc erf gamma
    """
)


def legal_name(name: str) -> str:
    """`name` as an identifier: other characters become `_`, and the implementation's reserved
    spellings (a leading underscore, a double one) are avoided."""
    out = re.sub(r"[^0-9A-Za-z_]", "_", name)
    out = re.sub(r"__+", "_", out).lstrip("_")
    if not out:
        return "v"
    return f"v{out}" if out[0].isdigit() else out


class Names:
    """Gives each thing one name; a wished name that is taken gets the next free number."""

    def __init__(self, reserved: Iterable[str] = C_RESERVED) -> None:
        self._taken = set(reserved)
        self._of: dict[Any, str] = {}
        self._next: dict[str, int] = {}

    def __contains__(self, thing: object) -> bool:
        return thing in self._of

    def fresh(self, wish: str) -> str:
        """A name that nothing has yet."""
        base = legal_name(wish)
        name, n = base, self._next.get(base, 0)
        while name in self._taken:
            n += 1
            name = f"{base}_{n}"
        self._next[base] = n
        self._taken.add(name)
        return name

    def of(self, thing: Any) -> str:
        """The name of a `Var` or `Buffer`, given on first use."""
        name = self._of.get(thing)
        if name is None:
            name = self._of[thing] = self.fresh(thing.name)
        return name
