# SPDX-License-Identifier: Apache-2.0
"""A cubin as machine instructions to read, by the CUDA toolkit's disassembler.

In: the bytes of a cubin. Out: text. NVRTC has no disassembler, so this needs `nvdisasm` or
`cuobjdump`.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tilelang.config import env
from tilelang.errors import ToolchainError

__all__ = ["disassemble"]

_TOOLS = (("nvdisasm", ("-c",)), ("cuobjdump", ("-sass",)))


def disassemble(cubin: bytes) -> str:
    """SASS of all kernels of a cubin."""
    path = None if env.CUDA_HOME is None else str(Path(env.CUDA_HOME) / "bin")
    for name, flags in _TOOLS:
        tool = shutil.which(name) or (shutil.which(name, path=path) if path else None)
        if tool is not None:
            with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
                file.write(cubin)
                file.flush()
                command = [tool, *flags, file.name]
                done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                return done.stdout
            raise ToolchainError(
                f"{name} failed: {done.stderr.strip()}",
                code="TL0835",
                help="set CUDA_HOME to a toolkit that knows this architecture",
            )
    raise ToolchainError(
        "there is no disassembler: neither nvdisasm nor cuobjdump can be found",
        code="TL0836",
        help="install the CUDA toolkit, or set CUDA_HOME; kernel.show('ptx') needs neither",
    )
