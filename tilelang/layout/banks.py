# SPDX-License-Identifier: Apache-2.0
"""Counting shared-memory bank conflicts of an access."""

from __future__ import annotations

from typing import Any

import numpy as np

BANKS = 32
BANK_BYTES = 4
WARP = 32


def bank_conflicts(layout: Any, access: Any, elem_bytes: int, vector: int = 1) -> int:
    """Extra wavefronts, summed over the access: 0 means conflict-free.

    access: a fragment (every warp reads or writes its registers in runs of `vector`), or an integer
    array of addresses in elements with one row of 32 lanes per instruction (`layout` is then not
    looked at). Lanes that move 8 or 16 bytes are served in halves or quarters of a warp.
    """
    lanes = access if isinstance(access, np.ndarray) else _addresses(layout, access, vector)
    group = max(1, min(WARP, WARP * BANK_BYTES // max(BANK_BYTES, elem_bytes * vector)))
    return sum(
        _wavefronts(part, elem_bytes, vector) - 1
        for row in lanes.reshape(-1, lanes.shape[-1])
        for start in range(0, len(row), group)
        if len(part := row[start : start + group][row[start : start + group] >= 0])
    )


def _addresses(layout: Any, fragment: Any, vector: int) -> np.ndarray[Any, Any]:
    """First address of each lane's vector, by warp and vector; -1: the lane holds nothing."""
    threads = np.arange(-(-fragment.threads // WARP) * WARP)
    live = threads < fragment.threads
    t, r = np.meshgrid(
        np.minimum(threads, fragment.threads - 1),
        np.arange(0, fragment.regs, vector),
        indexing="ij",
    )
    valid = np.broadcast_to(np.asarray(fragment.valid_at(t, r)), t.shape) & live[:, None]
    coords = [
        np.minimum(x, s - 1) for x, s in zip(fragment.coords_at(t, r), fragment.shape, strict=True)
    ]
    found = np.where(valid, np.broadcast_to(layout.address_at(coords), t.shape), -1)
    return np.asarray(found.reshape(-1, WARP, found.shape[1]).swapaxes(1, 2).reshape(-1, WARP))


def _wavefronts(addresses: np.ndarray[Any, Any], elem_bytes: int, vector: int) -> int:
    """Different words in the busiest bank; equal words are broadcast."""
    first = addresses.astype(np.int64) * elem_bytes
    width = max(1, elem_bytes * vector)
    words = np.unique((first[:, None] + np.arange(0, width, min(width, BANK_BYTES))) // BANK_BYTES)
    return int(np.bincount(words % BANKS, minlength=BANKS).max())
