# SPDX-License-Identifier: Apache-2.0
"""Programs that are refused by what surrounds the compiler: other compilers, libraries, the
simulator, the interpreter, checks of our own. `monkeypatch` and `tmp_path` are pytest's."""

FUNC = """
import numpy as np
import tilelang
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((4, 8), "float32"), n: T.int32, B: T.Tensor((4, 8), "float32")):
    with T.Kernel(1, threads=32):
        for i, j in T.Parallel(4, 8):
            B[i, j] = A[i, j] * n

a, b = np.zeros((4, 8), "float32"), np.zeros((4, 8), "float32")
"""
EXTERN = """
import tilelang
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=1):
        A[0] = T.call_extern("float32", "no_such_function", A[1])
"""
BROKEN = """
import tilelang
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((4,), "float32")):
    T.import_source("int broken( {")
    with T.Kernel(1, threads=1):
        A[0] = 1
"""
NVRTC = "from tilelang.config import Options\nfrom tilelang.runtime import nvrtc\n"
SLOW_NVCC = """
import os
from tilelang.config import Options
from tilelang.runtime import nvcc
tool = tmp_path / "nvcc"
tool.write_text("#!/bin/sh\\nsleep 9\\n")
tool.chmod(0o755)
monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
monkeypatch.delenv("CUDA_HOME", raising=False)
monkeypatch.setenv("TILELANG_COMPILE_TIMEOUT_SECONDS", "0.1")
"""
NO_TOOLS = """
monkeypatch.setenv("PATH", str(tmp_path))
monkeypatch.delenv("CUDA_HOME", raising=False)
"""
SIM = """
import numpy as np
from tilelang.sim import module
from tilelang.sim.module import SimModule
checks = SimModule.__new__(SimModule)
checks.kernels = {"main_kernel": None}
"""
BY_HAND = (
    FUNC
    + '''
from dataclasses import replace
from tilelang.ir import Alloc, Buffer, Launch, Store, Var, const, seq

def with_first(statement):
    """`main` with a statement before its own ones."""
    s = main.body
    body = seq(statement, s.body)
    launch = Launch(s.grid, s.threads, s.block_vars, s.thread_vars, body, s.annotations, s.span)
    return replace(main, body=launch)

'''
)
PLOT = "import tilelang.language as T\nfrom tilelang.tools import plot\n"
READ = """
import tilelang
from tilelang.language.reader import read_func
"""


def text_of_function(body: str) -> str:
    """A function that no program writes (the front end refuses it first), from IR text."""
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    text = (
        "@T.prim_func\ndef main(A: T.Tensor((4, 8), 'float32')):\n"
        "    with T.launch((1,), threads=(32, 1, 1)) as (bx, tx, ty, tz):\n" + lines
    )
    return READ + f'tilelang.lower(read_func("""{text}"""), target="llvm")\n'


TOOLCHAINS = {
    "TL0801": NVRTC + "nvrtc.compile_cubin('int x = ;', 'sm_80', Options(), {})\n",
    "TL0802": NVRTC + "nvrtc.nvrtc()._check(5, 'nvrtcCompileProgram')\n",
    "TL0803": NVRTC + "monkeypatch.setattr(nvrtc, 'find_libraries', lambda: iter(()))\n"
    "nvrtc._choose.__wrapped__(None)\n",
    "TL0804": NVRTC + "nvrtc._choose.__wrapped__((1, 0))\n",
    "TL0805": NO_TOOLS + "from tilelang.runtime import nvcc\nnvcc.find_nvcc()\n",
    "TL0806": SLOW_NVCC + "nvcc.compile_cubin('', 'sm_80', Options(), {})\n",
    "TL0807": NVRTC
    + "nvrtc.compile_cubin('', 'sm_80', Options(compile_flags=('--nonsense',)), {})\n",
    "TL0835": NO_TOOLS
    + "tool = tmp_path / 'nvdisasm'\ntool.write_text('#!/bin/sh\\necho no such arch >&2\\nexit 1\\n')\n"
    "tool.chmod(0o755)\nfrom tilelang.runtime import sass\nsass.disassemble(b'')\n",
    "TL0836": NO_TOOLS + "from tilelang.runtime import sass\nsass.disassemble(b'')\n",
    "TL0840": "import platform\nmonkeypatch.setattr(platform, 'system', lambda: 'Plan9')\n"
    "monkeypatch.setattr(platform, 'machine', lambda: 'vax')\n"
    "from tilelang.sim import toolchain\ntoolchain.host_compiler.__wrapped__()\n",
    "TL0841": NO_TOOLS
    + "from tilelang.sim import toolchain\ntoolchain.host_compiler.__wrapped__()\n",
    "TL0842": "monkeypatch.setenv('TILELANG_COMPILE_TIMEOUT_SECONDS', '0.001')\n"
    "from tilelang.sim import toolchain\n"
    "slow = toolchain.Compiler('/bin/sh', 'sh')\n"
    "monkeypatch.setattr(toolchain, 'host_compiler', lambda: slow)\n"
    "toolchain.run_compiler(['-c', 'sleep 9'])\n",
    "TL0843": BROKEN + "tilelang.compile(main, target='cuda-sim -arch=sm_80')\n",
    "TL0850": "import sys\nfrom tilelang.runtime import llvm_jit\n"
    "monkeypatch.setitem(sys.modules, 'llvmlite.binding', None)\n"
    "llvm_jit._binding.__wrapped__()\n",
    "TL0851": "from tilelang.runtime import llvm_jit\n"
    "code = 'define void @f() {\\n  ret void\\n}\\n'\n"
    "llvm_jit.load(code, ['g'])\n",
    "TL0852": EXTERN + "tilelang.compile(main, target='llvm')\n",
    "TL0853": NO_TOOLS + "from tilelang.runtime import cc\ncc._find.__wrapped__('')\n",
    "TL0854": BROKEN
    + "tool = tmp_path / 'slow-cc'\ntool.write_text('#!/bin/sh\\ncase $1 in --version) ;; *) sleep 9 ;; esac\\n')\n"
    "tool.chmod(0o755)\nmonkeypatch.setenv('CC', str(tool))\n"
    "monkeypatch.setenv('TILELANG_COMPILE_TIMEOUT_SECONDS', '0.1')\n"
    "tilelang.compile(main, target='c')\n",
    "TL0855": BROKEN + "tilelang.compile(main, target='c')\n",
    "TL0856": EXTERN + "tilelang.compile(main, target='c')\n",
    "TL0857": "from tilelang.runtime import cc\ncc._find.__wrapped__('no-such-compiler')\n",
    "TL0860": "import sys\nfrom tilelang.runtime import tvm_ffi\n"
    "monkeypatch.setitem(sys.modules, 'tvm_ffi', None)\ntvm_ffi.tvm_ffi.__wrapped__()\n",
    "TL0861": FUNC + "import sys\nmonkeypatch.setitem(sys.modules, 'torch', None)\n"
    "tilelang.compile(main, target='llvm', execution_backend='torch')\n",
    "TL0862": "from tilelang.errors import ToolchainError\nfrom tilelang.jit.adapter import launcher\n"
    "def missing():\n    raise ToolchainError('there is no gcc')\n"
    "monkeypatch.setattr(launcher, 'compiler_version', missing)\nlauncher._built('')\n",
}

CALLS = {
    "TL0817": (
        "import numpy as np\nimport tilelang\nimport tilelang.language as T\n\n"
        "@tilelang.jit(target='llvm')\ndef add(A):\n    A: T.Tensor((8,), 'float32')\n"
        "    with T.Kernel(1, threads=1):\n"
        "        T.device_assert(A[0] > 0, 'A must be positive')\n\n"
        "add(np.zeros(8, 'float32'))\n"
    ),
    "TL0906": (
        "import numpy as np\nimport tilelang\nimport tilelang.language as T\n\n"
        "@T.prim_func\ndef main(A: T.StridedTensor((4, 8), (16, 1), 'float32')):\n"
        "    with T.Kernel(1):\n        T.clear(A)\n\n"
        "tilelang.compile(main, target='llvm')(np.zeros((4, 8), 'float32'))\n"
    ),
    "TL0907": FUNC + "kernel = tilelang.compile(main, target='llvm', execution_backend='ctypes')\n"
    "kernel.adapter.spec.bind([a, 1, b], device_type=2)\n",
    "TL0908": FUNC.replace("(4, 8)", "(64, 64)").replace("Parallel(4, 8)", "Parallel(64, 64)")
    + "spec = tilelang.lower(main, target='cuda -arch=sm_80').call\n"
    "memory = np.zeros(64 * 64 + 8, 'float32')\n"
    "first = -memory.ctypes.data // 4 % 4 + 1  # one element after a multiple of 16 bytes\n"
    "odd = memory[first : first + 64 * 64].reshape(64, 64)\n"
    "spec.bind([odd, 1, b], device_type=1)\n",
    "TL0912": (
        "import numpy as np\nimport tilelang\nimport tilelang.language as T\n\n"
        "m, s = T.dynamic('m s')\n\n"
        "@T.prim_func\ndef main(A: T.StridedTensor((m,), (s,), 'float32')):\n"
        "    with T.Kernel(1, threads=1):\n        A[0] = m\n\n"
        "huge = np.lib.stride_tricks.as_strided(np.zeros(1, 'float32'), (2**33,), (0,))\n"
        "tilelang.compile(main, target='llvm')(huge)\n"
    ),
    "TL0914": READ
    + "text = '''\n@T.prim_func\ndef main(A: T.Tensor((4,), 'float32'), n: T.int32):\n"
    "    assert n > 3, 'n must be above 3'\n"
    "    with T.launch((n,), threads=(1, 1, 1)) as (bx, tx, ty, tz):\n"
    "        A[0] = T.float32(1.0)\n'''\n"
    "spec = tilelang.lower(read_func(text), target='cuda -arch=sm_80').call\n"
    "import numpy as np\nspec.bind([np.zeros(4, 'float32'), 1], device_type=1)\n",
    "TL0985": "from tilelang.autotuner.tuner import as_configs\nas_configs([64])\n",
    "TL0987": "from tilelang.autotuner.tuner import as_configs\nas_configs([])\n",
    "TL0988": "import tilelang\nimport tilelang.language as T\n\n"
    "@tilelang.autotune(configs=[{'blok': 4}])\n@tilelang.jit(target='llvm')\n"
    "def factory(block=4):\n    @T.prim_func\n    def main(A: T.Tensor((4,), 'float32')):\n"
    "        with T.Kernel(1):\n            T.fill(A, block)\n\n    return main\n\nfactory()\n",
    "TL1401": "import tilelang\nimport tilelang.language as T\n\n"
    "tilelang.disable_cache()\n"
    "@tilelang.autotune(configs=[{'block': 4}])\n@tilelang.jit(target='llvm')\n"
    "def factory(block=4):\n    @T.prim_func\n    def main(A: T.Tensor((4,), 'float32')):\n"
    "        with T.Kernel(1):\n            T.alloc_shared((0.5,), 'int8')\n\n    return main\n\n"
    "try:\n    factory()\nfinally:\n    tilelang.enable_cache()\n",
    "TL0871": PLOT + "import sys\nmonkeypatch.setitem(sys.modules, 'matplotlib', None)\n"
    "plot._figure(None, None, 'layout', None)\n",
    "TL0949": PLOT + "plot._cells(3, 'input')\n",
    "TL0956": PLOT + "plot.plot_layout(T.Layout((4,), lambda i: i), view='above')\n",
    "TL0957": PLOT + "plot.plot_layout(T.Layout((4,), lambda i: i), grid_shape=(3, 3))\n",
    "TL0958": PLOT + "plot._formats('gif')\n",
    "TL0999": "import tilelang\nimport tilelang.language as T\n\nm = T.dynamic('m')\n\n"
    "@T.prim_func\ndef main(A: T.Tensor((m,), 'float32')):\n"
    "    with T.Kernel(m, threads=1) as i:\n        pass\n\n"
    "tilelang.lower(main, target='llvm').call.bind([None], device_type=1)\n",
    "TL0959": "import tilelang\ntilelang.par_compile([], num_workers=0)\n",
    "TL0516": "import argparse\nfrom tilelang.tools.command import _cache\n_cache(argparse.Namespace(action='explain', keys=[]))\n",
    "TL0517": "from tilelang.tools.disk import _find\n_find('no key begins so')\n",
    "TL0980": "from pathlib import Path\nfrom tilelang.tools.script import check_script\n"
    "check_script(Path('missing.py'))\n",
    "TL0982": FUNC + "kernel = tilelang.compile(main, out_idx=-1, target='llvm')\n"
    "profiler = kernel.get_profiler()\n"
    "profiler.get_inputs = lambda: [a, 1]\n"
    "results = iter(range(9))\n"
    "profiler.kernel = lambda *args: a + next(results)\nprofiler.assert_consistent()\n",
    "TL0983": FUNC
    + "tilelang.compile(main, out_idx=-1, target='llvm').get_profiler().get_inputs()\n",
    "TL0984": FUNC + "profiler = tilelang.compile(main, out_idx=-1, target='llvm').get_profiler()\n"
    "profiler.assert_allclose(lambda *args: a[0], [a, 1])\n",
    "TL0986": FUNC + "profiler = tilelang.compile(main, out_idx=-1, target='llvm').get_profiler()\n"
    "profiler.assert_allclose(lambda *args: [a, a], [a, 1])\n",
    "TL1001": "import os\nfrom tilelang.cache import store\n"
    "monkeypatch.setattr(os, 'getuid', lambda: 12345)\nstore._private(tmp_path)\n",
    "TL1020": "import os\nfrom tilelang.sim import toolchain\n"
    "monkeypatch.setattr(os, 'getuid', lambda: 12345)\ntoolchain._make_private(tmp_path)\n",
}

INTERPRETERS = {
    "TL0920": FUNC + "from tilelang.interp import tile\ntile.run(main, a)\n",
    "TL0921": FUNC + "from tilelang.interp import tile\ntile.run(main, a[0], 1, b)\n",
    "TL0922": FUNC + "from tilelang.interp import tile\ntile.run(main, a[:3], 1, b)\n",
    "TL0930": SIM + "checks._check_launch('other', (1, 1, 1), (32, 1, 1), 0, (1, 1, 1))\n",
    "TL0931": SIM + "checks._check_launch('main_kernel', (1, 1, 1), (32, 64, 1), 0, (1, 1, 1))\n",
    "TL0932": SIM
    + "checks._check_launch('main_kernel', (1, 70000, 1), (32, 1, 1), 0, (1, 1, 1))\n",
    "TL0933": SIM
    + "checks._check_launch('main_kernel', (1, 1, 1), (32, 1, 1), 1 << 20, (1, 1, 1))\n",
    "TL0925": SIM + "checks._check_launch('main_kernel', (3, 1, 1), (32, 1, 1), 0, (2, 1, 1))\n",
    "TL0934": "from tilelang.ir import DType\nfrom tilelang.sim import tensor_map\n"
    "tensor_map(0, DType('float32'), (4, 4), (), (4, 4), 0)\n",
    "TL0935": FUNC + "run = __import__('tilelang.sim.device', fromlist=['_Run'])._Run\n"
    "program = tilelang.lower(main, target='cuda-sim -arch=sm_80').host_mod['main']\nrun(program, [a])\n",
    "TL0936": FUNC + "run = __import__('tilelang.sim.device', fromlist=['_Run'])._Run\n"
    "program = tilelang.lower(main, target='cuda-sim -arch=sm_80').host_mod['main']\nrun(program, [a[0], 1, b])\n",
    "TL0937": FUNC + "run = __import__('tilelang.sim.device', fromlist=['_Run'])._Run\n"
    "program = tilelang.lower(main, target='cuda-sim -arch=sm_80').host_mod['main']\nrun(program, [a[:3], 1, b])\n",
    "TL0938": FUNC + "run = __import__('tilelang.sim.device', fromlist=['_Run'])._Run\n"
    "program = tilelang.lower(main, target='cuda-sim -arch=sm_80').host_mod['main']\nrun(program, [a.astype('int8'), 1, b])\n",
    "TL1220": FUNC.replace(
        "        for i",
        "        S = T.alloc_shared((4, 8), 'float32')\n        T.copy(A, S[n, 0])\n        for i",
    )
    + "from tilelang.interp import tile\ntile.run(main, a, 3, b)\n",
    "TL1221": FUNC.replace(
        "        for i",
        "        S = T.alloc_shared((4, 8), 'float32')\n        S[n, 0] = 1\n        for i",
    )
    + "from tilelang.interp import tile\ntile.run(main, a, 9, b)\n",
    "TL1301": FUNC.replace(
        "        for i", "        A[0, 0] = T.get_thread_binding()\n        for i"
    )
    + "tilelang.compile(main, target='cuda-sim -arch=sm_80')(a, 1, b)\n",
}

# What the front end refuses first; the passes do not trust it.
PASSES = {
    "TL0123": BY_HAND + "func = with_first(Store(main.params[2], (const(0), const(0)), Var('q')))\n"
    "tilelang.lower(func, target='llvm')\n",
    "TL0190": BY_HAND + "func = with_first(Store(main.params[2], (const(0), const(0)), Var('q')))\n"
    "monkeypatch.setenv('TILELANG_VERIFY', '0')\n"
    "with tilelang.transform.PassContext(config={'tl.disable_prelower_semantic_check': True}):\n"
    "    tilelang.lower(func, target='llvm')\n",
    "TL0326": BY_HAND
    + "func = with_first(Alloc(Buffer('S', (Var('q'),), 'float32', 'shared'), {}))\n"
    "tilelang.lower(func, target='llvm')\n",
    "TL0327": BY_HAND
    + "func = with_first(Alloc(Buffer('S', (main.params[1],), 'float32', 'shared'), {}))\n"
    "tilelang.lower(func, target='llvm')\n",
    "TL0424": BY_HAND + "S = Buffer('S', (4,), 'float32', 'shared')\n"
    "tilelang.lower(with_first(Store(S, (const(0),), const(1.0, 'float32'))), target='llvm')\n",
    "TL0974": FUNC + "from tilelang.jit.adapter.ctypes import CtypesKernelAdapter\n"
    "from tilelang.target import Target\n"
    "CtypesKernelAdapter([], [], Target('llvm'), main, None, None, None)\n",
    "TL0975": "from tilelang.jit.adapter.base import result_positions\nresult_positions([7], 3)\n",
    "TL0976": FUNC + "from tilelang.jit.adapter.tvm_ffi import TVMFFIKernelAdapter\n"
    "from tilelang.target import Target\n"
    "made = tilelang.lower(main, target='llvm', enable_host_codegen=True)\n"
    "made.rt_mod.entry = 'other'\n"
    "TVMFFIKernelAdapter(made.params, [], Target('llvm'), main, made.host_mod, made.device_mod, made.rt_mod)\n",
    "TL0977": FUNC + "kernel = tilelang.compile(main, target='llvm', execution_backend='cython')\n"
    "kernel(a, 1, b, skip_tensor_validation=3)\n",
    "TL0978": FUNC + "kernel = tilelang.compile(main, target='llvm', execution_backend='cython')\n"
    "kernel(a, 1, b, stream=3)\n",
    "TL0863": "from types import SimpleNamespace\nfrom tilelang.jit.adapter.cython import Launch\n"
    "spec = SimpleNamespace(kernels=[SimpleNamespace(name='main_kernel')])\n"
    "Launch._failed(SimpleNamespace(_spec=spec), 0, -1, '')\n",
    "TL0909": FUNC + "from tilelang.runtime import launch\n"
    "view_of = launch.view_of\n"
    "monkeypatch.setattr(launch, 'view_of', lambda x: view_of(x)._replace(address=0))\n"
    "tilelang.lower(main, target='llvm').call.bind([a, 1, b], device_type=1)\n",
    "TL0979": "from types import SimpleNamespace\nfrom tilelang.jit.adapter.cython import Launch\n"
    "on_cuda = SimpleNamespace(_on_cuda=True, _spec=SimpleNamespace(name='main'))\n"
    "Launch._handle(on_cuda, 'the first')\n",
    "TL0973": FUNC + "kernel = tilelang.compile(main, target='llvm', execution_backend='ctypes')\n"
    "kernel(a, 1, b, m=3)\n",
    "TL1222": "import numpy as np\nfrom tilelang.interp.memory import Memory, Pointer\n"
    "from tilelang.ir import Buffer, DType\n"
    "memory = Memory(Buffer('S', (4,), 'float32', 'shared'), np.zeros(4, 'float32'))\n"
    "Pointer(memory, (3,)).span(0, 2)\n",
    "TL0120": text_of_function(
        "for i in T.Parallel(4):\n    for k in T.Pipelined(8):\n        A[i, k] = T.float32(1.0)"
    ),
    "TL0121": text_of_function(
        "for i in T.Parallel(4):\n    for k in T.Parallel(8):\n        A[i, k] = T.float32(1.0)"
    ),
    "TL0122": text_of_function(
        "for i in T.Parallel(4):\n    T.fill(dst=A[0:4, 0:8], value=T.float32(1.0))"
    ),
    "TL9910": FUNC + "from tilelang.ir import Var\nfrom tilelang.ir.verify import verify\n"
    "import dataclasses\n"
    "verify(dataclasses.replace(main, params=()), 'TILE', after='a test')\n",
    "TL9920": "import tilelang.language as T\nfrom tilelang.language import ops\n"
    "def broken(*args, **named):\n    return {}['fault of ours']\n"
    "broken.__globals__['__name__'] = 'tilelang.language.ops'\n"
    "monkeypatch.setattr(ops, 'emit_op', broken)\n\n"
    "@T.prim_func\ndef main(A: T.Tensor((4,), 'float32')):\n    with T.Kernel(1):\n"
    "        T.clear(A)\n",
}

MACHINE_PROGRAMS = {**TOOLCHAINS, **CALLS, **INTERPRETERS, **PASSES}
