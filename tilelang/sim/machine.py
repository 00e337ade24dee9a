# SPDX-License-Identifier: Apache-2.0
"""How fast the units of a GPU are, for the ideal time of a simulated kernel.

In: an architecture. Out: a row of rates. Sources: NVIDIA A100, A10, L40S and H200 data sheets (for
DRAM, clock, tensor peaks); A100 whitepaper (L2: 5120 bytes a cycle); CUDA C++ Programming Guide,
"Compute Capabilities" (128 bytes of shared memory and four warp instructions a cycle and
multiprocessor). NVIDIA publishes no L2 rate of later parts: the A100's per multiprocessor is used.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["MACHINES", "Machine", "machine_of"]


class Machine(NamedTuple):
    """name: the part. clock: cycles a second at boost. dram: bytes a second. The rest is a cycle
    and multiprocessor: L2 bytes, and FLOP of tensor cores for operands of 16 bits, TF32, 8 bits and
    float64."""

    name: str
    arch: int
    sms: int
    clock: float
    dram: float
    l2: float
    flops: int
    flops_tf32: int
    flops_narrow: int
    flops_double: int


SHARED_BYTES_PER_CYCLE = 128
ISSUES_PER_CYCLE = 4

# Tensor rates: the data sheet's dense peak over clock and multiprocessors.
MACHINES = (
    Machine("A100", 80, 108, 1.41e9, 2.039e12, 5120 / 108, 2048, 1024, 4096, 128),
    Machine("A10", 86, 72, 1.695e9, 0.6e12, 5120 / 108, 1024, 512, 2048, 4),
    Machine("L40S", 89, 142, 2.52e9, 0.864e12, 5120 / 108, 1024, 512, 2048, 4),
    Machine("H200", 90, 132, 1.83e9, 4.8e12, 5120 / 108, 4096, 2048, 8192, 256),
)


def machine_of(arch: int) -> Machine:
    """The newest part that is not newer than the architecture; the oldest for older ones."""
    fitting = [m for m in MACHINES if m.arch <= arch]
    return fitting[-1] if fitting else MACHINES[0]
