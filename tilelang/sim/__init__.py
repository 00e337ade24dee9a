# SPDX-License-Identifier: Apache-2.0
"""The simulated GPU: generated CUDA text, compiled by the host's C++ compiler and run with a fiber
per CUDA thread, every access checked.

`build` compiles a text, `SimModule.launch` runs a kernel of it and returns a `SimReport`,
`run_program` runs a whole `ir.HostProgram` on numpy or torch CPU tensors.
"""

from .build import build
from .device import run_program, tensor_map
from .module import SimModule
from .report import SimReport
from .session import Session, session, use_session

__all__ = [
    "Session", "SimModule", "SimReport", "build", "run_program", "session", "tensor_map",
    "use_session",
]  # fmt: skip
