# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for names of older programs that do not exist here: they can be imported, and using one
says what to do instead."""

from __future__ import annotations

from typing import Any, NoReturn

from tilelang.errors import LanguageError

__all__ = ["Refused"]


class Refused:
    """`name`: how programs write it. help: what to do instead."""

    def __init__(self, name: str, help: str) -> None:
        self.__name__ = name
        self._help = help

    def _refuse(self) -> NoReturn:
        raise LanguageError(f"{self.__name__} is not supported", code="TL0198", help=self._help)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return f"<{self.__name__}: not supported>"
