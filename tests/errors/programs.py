# SPDX-License-Identifier: Apache-2.0
"""Whole programs that are refused: code -> text. `monkeypatch` and `tmp_path` are pytest's.

ELSEWHERE: codes that need a machine that is made up (a driver, a compiler, another user): the test
that does so.
"""

from .machine_programs import MACHINE_PROGRAMS

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
KERNEL = FUNC + 'kernel = tilelang.compile(main, target="llvm")\n'
EAGER = """
import numpy as np
import tilelang
import tilelang.language as T

@tilelang.jit(target="llvm")
def add(A, block=4):
    M = T.const("M")
    A: T.Tensor((M,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(block):
            A[i] = A[i] + 1

a = np.zeros(8, "float32")
"""


def jit(signature: str, body: str, call: str) -> str:
    """A program with one eager function."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return (
        "import numpy as np\nimport tilelang\nimport tilelang.language as T\n\n"
        f'@tilelang.jit(target="llvm")\ndef add({signature}):\n{lines}\n'
        f'a = np.zeros(8, "float32")\n{call}\n'
    )


def lowered(head: str, body: str, target: str, params: str = "") -> str:
    """A program with one function, lowered for a target."""
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    return (
        "import tilelang\nimport tilelang.language as T\n\n"
        f'@T.prim_func\ndef main(A: T.Tensor((16, 16), "float32"){params}):\n'
        f'    {head}\n{lines}\ntilelang.lower(main, target="{target}")\n'
    )


def script(text: str) -> str:
    return "import tilelang\nimport tilelang.language as T\n" + text


ONE = "with T.Kernel(1, threads=32):"
CLUSTER = "with T.Kernel(2, threads=32, cluster_dims=2):"
A_IS = 'A: T.Tensor((8,), "float32")\nwith T.Kernel(1, threads=32):\n    T.clear(A)'

LANGUAGE = {
    "TL0110": (
        "import tilelang.language as T\n"
        "scope = {'T': T}\n"
        "text = \"def f(A: T.Tensor((4,), 'float32')):\\n    pass\\n\"\n"
        "exec(compile(text, 'elsewhere.py', 'exec'), scope)\n"
        "del text\n"
        "T.prim_func(scope['f'])\n"
    ),
    "TL0113": script("T.copy(None, None)\n"),
    "TL0114": script(
        '@T.prim_func\ndef main(A: T.Tensor((4,), "float32")):\n    T.get_thread_binding()\n'
    ),
    "TL0118": script("T.prim_func(3)\n"),
    "TL0119": script(
        "@T.prim_func\ndef main(A: 'Unknown'):\n    with T.Kernel(1):\n        T.clear(A)\n"
    ),
    "TL0150": jit(
        "A",
        "N = T.const('N')\n" + A_IS.replace("(8,)", "(N,)"),
        "add._eager = add.initialize_jit_mode() and add._eager\nadd._eager.trace({}, {})",
    ),
    "TL0152": jit("A", A_IS + '\n    B = T.empty((4,), "float32")\nreturn B', "add(a)"),
    "TL0153": script(
        'n = T.dynamic("n")\n\n@T.prim_func\ndef main(A: T.Tensor((4,), "float32")):\n'
        "    with T.Kernel(n):\n        T.clear(A)\n"
    ),
    "TL0154": jit(
        "A",
        "if len(T.__all__) < 3:\n    A: T.Tensor((8,), 'float32')\nwith T.Kernel(1):\n    pass",
        "add(a)",
    ),
    "TL0155": jit("A", "N = T.const('N')\n" + A_IS.replace("T.clear(A)", "T.fill(A, N)"), "add(a)"),
    "TL0156": jit("A", A_IS + "\nreturn A", "add(a)"),
    "TL0157": jit("A", 'B = T.empty((8,), "float32")\n' + A_IS, "add(a)"),
    "TL0170": script("from tilelang.language.reader import read_func\nread_func('')\n"),
    "TL0171": script("from tilelang.language.reader import read_func\nread_func('import os')\n"),
    "TL0192": script("@T.prim_func\nasync def main():\n    pass\n"),
    "TL0198": "from tilelang.carver.arch import CDNA\nCDNA()\n",
    "TL0209": script("@T.prim_func\ndef main(A):\n    with T.Kernel(1):\n        T.clear(A)\n"),
    "TL0211": script(
        "\n@tilelang.prim_func\ndef main(A: T.Tensor):\n    with T.Kernel(1):\n        T.clear(A)\n\nmain()\n"
    ),
    "TL0402": script(
        '@T.prim_func\ndef main(A: T.Tensor((4,), "float32")):\n'
        '    S = T.alloc_shared((4,), "float32")\n'
    ),
    "TL0512": lowered("with T.Kernel(1, threads=n):", "T.clear(A)", "llvm", ", n: T.int32"),
    "TL0513": lowered("with T.Kernel(1, threads=0):", "T.clear(A)", "llvm"),
    "TL0564": lowered(ONE, "T.copy(A, A, coalesced_width=0)", "llvm"),
    "TL0566": lowered(
        "with T.Kernel(1, threads=256):",
        "with T.ws(0):\n    T.set_max_nreg(24, 0)\n    T.set_max_nreg(240, 1)\n    T.clear(A)",
        "llvm",
    ),
    "TL0579": lowered("with T.Kernel(1, 2, 3, 4):", "T.clear(A)", "llvm"),
    "TL0584": lowered("with T.Kernel(1, threads=(1, 2, 3, 4)):", "T.clear(A)", "llvm"),
    "TL0598": lowered("with T.Kernel(-1):", "T.clear(A)", "llvm"),
    "TL0599": lowered("with T.Kernel(1, threads=2.5):", "T.clear(A)", "llvm"),
    "TL0711": lowered("with T.Kernel(1, threads=4096):", "T.clear(A)", "cuda -arch=sm_80"),
    "TL0712": lowered("with T.Kernel(1, 70000):", "T.clear(A)", "cuda -arch=sm_80"),
    "TL0325": script(
        'n = T.dynamic("n")\n\n@T.prim_func\ndef main(A: T.Tensor((2 * n,), "float32")):\n'
        "    with T.Kernel(1):\n        T.clear(A)\n\ntilelang.lower(main, target='llvm')\n"
    ),
    "TL0222": lowered(
        ONE,
        'S = T.alloc_shared((16, 16), "int8")\nF = T.alloc_fragment((16, 16), "float32")\n'
        "T.gemm(S, S, F)",
        "cuda -arch=sm_80",
    ),
    "TL0567": lowered(
        "with T.Kernel(1, threads=256):",
        'S = T.alloc_shared((128, 64), "float16")\nW = T.alloc_shared((64, 64), "float16")\n'
        'F = T.alloc_fragment((128, 64), "float32")\n'
        "T.annotate_producer_reg_dealloc(240)\nT.annotate_consumer_reg_alloc(240)\nT.clear(F)\n"
        "for k in T.Pipelined(2, num_stages=2):\n"
        "    T.copy(H[0, k * 64], S)\n    T.copy(V[k * 64, 0], W)\n    T.gemm(S, W, F)\n"
        "T.copy(F, O)",
        "cuda -arch=sm_90a",
        ', H: T.Tensor((128, 128), "float16"), V: T.Tensor((128, 64), "float16"), '
        'O: T.Tensor((128, 64), "float32")',
    ),
    "TL1125": lowered(
        ONE,
        'F = T.alloc_fragment((16, 16), "float32")\nV = T.reshape(F, (256,))\n'
        "S = T.alloc_shared((16, 16), 'float16')\n"
        "T.gemm(S, S, F)\n"
        "T.annotate_layout({V: T.Fragment((256,), lambda i: (i % 32, i // 32))})\n"
        "T.copy(V[0:16], A[0, :])",
        "cuda -arch=sm_80",
    ),
    "TL0634": lowered(
        "with T.Kernel(1, threads=128):",
        'S = T.alloc_shared((16, 16), "float32")\nT.tma_copy(S, A)',
        "cuda -arch=sm_80",
    ),
    "TL1153": lowered(
        "with T.Kernel(1, threads=128):",
        'S = T.alloc_shared((16, 16), "float32")\nbar = T.alloc_barrier(128)\n'
        "T.annotate_layout({S: T.Layout((16, 16), lambda i, j: j * 16 + i)})\n"
        "T.tma_copy(A, S, barrier=bar[0])\nT.barrier_arrive(bar[0])\n"
        "T.barrier_wait(bar[0], 0)\nT.copy(S, A)",
        "cuda -arch=sm_90a",
    ),
    "TL0180": lowered(
        "with T.Kernel(T.popcount(n)):", "T.clear(A)", "llvm", ", n: T.int32"
    ).replace(
        'target="llvm")', 'target="llvm", enable_host_codegen=True, enable_device_compile=True)'
    ),
    "TL0182": lowered(
        ONE, "A[0, 0] = T.cast(e, 'float32')", "llvm", ", e: T.float8_e4m3fnuz"
    ).replace(
        'target="llvm")', 'target="llvm", enable_host_codegen=True, enable_device_compile=True)'
    ),
    "TL0270": lowered(ONE, "T.atomic_or(A[0, 0], 1)", "llvm"),
    "TL0271": lowered(ONE, "T.atomic_load(A)", "llvm"),
    "TL0272": lowered(ONE, "A[0, 0] = T.match_any_sync(p)", "llvm", ", p: T.ptr"),
    "TL0273": lowered(ONE, "A[0, 0] = T.__ffs(A[0, 0])", "llvm"),
    "TL0274": lowered(ONE, "A[0, 0] = T.asinh(p)", "llvm", ", p: T.ptr"),
    "TL0275": lowered(
        ONE,
        "A[0, 0] = T.nextafter(T.cast(A[0, 0], 'float8_e5m2'), T.cast(A[0, 1], 'float8_e5m2'))",
        "llvm",
    ),
    "TL0276": lowered(ONE, "A[0, 0] = T.ieee_frsqrt(T.float64(A[0, 0]))", "llvm"),
    "TL0621": lowered(
        ONE, "v = T.alloc_var('float8_e4m3fnuz')\nv = 1.0\nA[0, 0] = v", "cuda -arch=sm_80"
    ),
    "TL0640": lowered(
        ONE,
        "tx = T.get_thread_binding()\nv = T.alloc_var('int32', init=0)\nif tx < 9:\n"
        "    while v < tx:\n        v += T.shfl_xor(tx, 1)\nA[0, 0] = v",
        "llvm",
    ),
    "TL1123": lowered(
        ONE,
        'F = T.alloc_fragment((8,), "float32")\n'
        "T.annotate_layout({F: T.Fragment((8,), lambda i: ((i * i) % 32, i))})\n"
        "T.clear(F)\nT.copy(F, A[0, 0:8])",
        "cuda -arch=sm_80",
    ),
    "TL1124": lowered(
        ONE,
        'F = T.alloc_fragment((32,), "float32")\nV = T.view(F, (64,), "float16")\n'
        "T.clear(V)\nT.copy(F, A[0:2, :])",
        "cuda -arch=sm_80",
    ),
}

OPTIONS = {
    "TL0501": FUNC + 'tilelang.compile(main, pass_configs={"tl.enable_fast_math": "maybe"})\n',
    "TL0502": FUNC + 'tilelang.compile(main, pass_configs={"tl.enable_fast_math": True, '
    '"tl.disable_fast_math": True})\n',
    "TL0503": FUNC + 'tilelang.compile(main, pass_configs={"tl.disable_wgma": True})\n',
    "TL0504": "monkeypatch.setenv('TILELANG_VERIFY', 'perhaps')\n"
    "from tilelang.config import env\nenv.TILELANG_VERIFY\n",
    "TL0510": FUNC + 'tilelang.compile(main, execution_backend="nvrtc", target="llvm")\n',
    "TL0511": "from tilelang.engine import callback\nmonkeypatch.setattr(callback, '_hooks', {})\n"
    "hook = lambda code, target: code\n"
    "callback.register_c_postproc(hook)\ncallback.register_c_postproc(hook, override=False)\n",
    "TL0520": "from tilelang.profiler import do_bench\ndo_bench(print, return_mode='mode')\n",
    "TL0521": "from tilelang.profiler import do_bench\ndo_bench(print, backend='clock')\n",
    "TL0590": FUNC
    + "monkeypatch.setenv('TILELANG_STOP_AFTER', 'check_kernel')\nmonkeypatch.chdir(tmp_path)\n"
    "tilelang.lower(main, target='llvm')\n",
    "TL0591": FUNC + "monkeypatch.setenv('TILELANG_DUMP', 'after:check_kernl')\n"
    "tilelang.lower(main, target='llvm')\n",
    "TL0601": "from tilelang.target import Target\nTarget('cuda -arch=sm_42')\n",
    "TL0602": "from tilelang.target import Target\nTarget('llvm').cuda\n",
    "TL0603": FUNC + "tilelang.compile(main, target=3)\n",
    "TL0604": FUNC + "tilelang.compile(main, target='cuda arch')\n",
    "TL0605": FUNC + "tilelang.compile(main, target='vulkan')\n",
    "TL0606": FUNC + "tilelang.compile(main, target='cuda -speed=9')\n",
    "TL0607": FUNC + "tilelang.compile(main, target='llvm', target_host='cuda')\n",
    "TL0452": lowered(CLUSTER, "T.cluster_store(A[0, 0], 1, 1)", "cuda -arch=sm_90a"),
    "TL0453": lowered(CLUSTER, "T.copy_cluster(A, A, dst_block=1)", "cuda -arch=sm_90a"),
    "TL0556": lowered("with T.Kernel(2, cluster_dims=0):", "T.clear(A)", "cuda -arch=sm_90a"),
    "TL0557": lowered(
        CLUSTER,
        'S = T.alloc_shared((16, 16), "float32")\nbar = T.alloc_barrier(1)\n'
        "T.copy_cluster(S[0:4, :], S[4:8, :], dst_block=1, remote_barrier=bar[0])",
        "cuda -arch=sm_90a",
    ),
    "TL0558": lowered(ONE, "T.cluster_sync()", "cuda -arch=sm_90a"),
    "TL0559": lowered(CLUSTER, "T.copy_cluster(A, A)", "cuda -arch=sm_90a"),
    "TL0651": lowered(CLUSTER, "T.clear(A)", "cuda -arch=sm_80"),
    "TL0713": lowered("with T.Kernel(3, cluster_dims=2):", "T.clear(A)", "cuda -arch=sm_90a"),
    "TL0641": lowered(
        "with T.Kernel(n):", "T.clear(A)\nT.sync_grid()\nT.fill(A, 1)", "llvm", ", n: T.int32"
    ),
    "TL0610": FUNC
    + "from tilelang.engine.lower import host_codegen\nhost_codegen(tilelang.lower(main, target='llvm').host_mod, 'cuda')\n",
    "TL0611": FUNC
    + "from tilelang.engine.lower import host_codegen\nhost_codegen(tilelang.lower(main, target='llvm').host_mod, 'c')\n",
    "TL0608": "from tilelang.runtime.llvm_cpu import check_cpu\ncheck_cpu('i386', '')\n",
    "TL0609": "from tilelang.runtime.llvm_cpu import check_cpu\ncheck_cpu('x86-64-v9', '')\n",
    "TL0820": "from tilelang.codegen.headers import device_headers\n"
    "device_headers('#include <tl/nothing.h>')\n",
}

CALLS = {
    "TL0901": KERNEL + "kernel(a)\n",
    "TL0902": KERNEL + "kernel(3, 1, b)\n",
    "TL0903": KERNEL + "kernel(a[0], 1, b)\n",
    "TL0904": KERNEL + "kernel(a.astype('float64'), 1, b)\n",
    "TL0905": KERNEL + "kernel(a[:3], 1, b)\n",
    "TL0995": KERNEL + "kernel(np.zeros((8, 4), 'float32').T, 1, b)\n",
    "TL0910": KERNEL + "kernel(a, 'x', b)\n",
    "TL0911": KERNEL + "kernel(a, 2**40, b)\n",
    "TL0918": KERNEL + "b.flags.writeable = False\nkernel(a, 1, b)\n",
    "TL0919": KERNEL + "import torch\nkernel(torch.zeros(4, 8, device='meta'), 1, b)\n",
    "TL0923": KERNEL + "kernel(a.astype('>f4'), 1, b)\n",
    "TL0950": KERNEL + "kernel.show_source('device')\n",
    "TL0951": KERNEL + "kernel.show('layout')\n",
    "TL0952": KERNEL + "kernel.prim_func = None\nkernel.function()\n",
    "TL0953": KERNEL + "kernel.show('ptx')\n",
    "TL0954": KERNEL + "kernel.get_tuner_result()\n",
    "TL0955": FUNC
    + "tilelang.compile(main, target='cuda-sim -arch=sm_80').export_library(tmp_path / 'k.so')\n",
    "TL0960": "import tilelang\ntilelang.compile(print)\n",
    "TL0961": EAGER.replace("    A: T", '    B = T.empty((M,), "float32")\n    A: T').replace(
        "\na = ", "    return B\n\na = "
    )
    + "tilelang.compile(add.get_tir(a), out_idx=0)\n",
    "TL0962": FUNC + "tilelang.compile(main, out_idx='last')\n",
    "TL0963": FUNC + "tilelang.compile(main, out_idx=7)\n",
    "TL0964": FUNC + "tilelang.compile(main, out_idx=1)\n",
    "TL0965": FUNC + "tilelang.compile(main, out_idx=[2, -1])\n",
    "TL0966": jit("A", A_IS, "add(a)").replace("target=", "out_idx=0, target="),
    "TL0967": "import tilelang\nimport tilelang.language as T\n\n@tilelang.jit\ndef factory():\n"
    "    @T.prim_func\n    def main(A: T.Tensor((4,), 'float32')):\n        with T.Kernel(1):\n"
    "            T.clear(A)\n    return None\n\nfactory()\n",
    "TL0968": EAGER + "add(a, block=[4])\n",
    "TL0969": EAGER + "tilelang.compile(add)\n",
    "TL0970": KERNEL + "from tilelang.jit.verify import _compare\n"
    "_compare(main, 'B', a + 1, b, 0, 0)\n",
    "TL0971": FUNC + "kernel = tilelang.compile(main, target='llvm', execution_backend='ctypes')\n"
    "kernel(a, 1, b, n=3)\n",
    "TL0972": "import tilelang\ntilelang.jit(3)()\n",
    "TL0981": KERNEL + "kernel.get_profiler().manual_assert_close(print)\n",
    "TL0990": EAGER + "add.compile()\n",
    "TL0991": EAGER + "add(a, 4, 5)\n",
    "TL0992": EAGER + "add(a, A=a)\n",
    "TL0993": EAGER.replace("block=4", "block") + "add(a)\n",
    "TL0994": EAGER + "add(a, blok=4)\n",
    "TL0996": EAGER + "add(3.5)\n",
    "TL0997": "import tilelang\nimport tilelang.language as T\n\n@tilelang.jit(target='llvm')\n"
    "@T.prim_func\ndef main(A: T.Tensor):\n    with T.Kernel(1):\n        T.clear(A)\n\n"
    "import numpy as np\nmain(np.zeros(4, 'U3'))\n",
    "TL0998": jit(
        "A, B",
        "A: T.Tensor((8,), 'float32')\nB: T.Tensor((8,), 'float32')\nwith T.Kernel(1):\n    T.copy(A, B)",
        "add(a)",
    ),
}

PROGRAMS = {**LANGUAGE, **OPTIONS, **CALLS, **MACHINE_PROGRAMS}

ELSEWHERE = {
    "TL0197": "tests/engine/test_depth.py",
    "TL0810": "tests/runtime/test_cuda_driver.py",
    "TL0811": "tests/runtime/test_cuda_driver.py",
    "TL0812": "tests/runtime/test_cuda_driver.py",
    "TL0815": "tests/runtime/test_host_cuda.py",
    "TL0870": "tests/jit/test_install.py",
    "TL0913": "tests/runtime/test_host_cuda.py",
    "TL0916": "tests/runtime/test_host_cuda.py",
}
