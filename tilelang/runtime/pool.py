# SPDX-License-Identifier: Apache-2.0
"""Threads that run the blocks of CPU kernels.

In: the address of a module's `tl_pool`, the two words that generated kernels read: a pointer to the
cell with the address of `parallel`, or null (run all blocks on the calling thread), and how many
threads to use. `parallel(task, args, begin, end, work, threads)` calls `task(args, b, e)` on parts
of [begin, end) on the caller and up to `threads - 1` others; it returns null, or the message of the
first block that failed, as a loop over the blocks would. `work` of a block says how long a part
must be to be worth a thread.

It is native code, compiled by LLVM when a kernel is large enough (meanwhile kernels of a few
milliseconds run on their thread): a Python thread would wait for the interpreter's lock,
milliseconds where other threads compute. There is one pool in a
process; who finds it busy (another thread's kernel, or a kernel called by a kernel) runs its blocks
itself. After a fork the child finds another process id in the pool and makes its own. The threads
are detached and sleep in a condition variable, so they never hold up the end of the process.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import threading

from tilelang.target.cpu import cpu_threads

__all__ = ["STATE", "attach", "wait"]

STATE = "tl_pool"
_PART = 10_000  # work (codegen.work) that a thread should find in a part: some microseconds
_WORTH_WAITING = 50_000_000  # work of a kernel that had better wait for `parallel`: > 10 ms
_KIND = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
    ctypes.c_int64, ctypes.c_int64,
)  # fmt: skip
_TASK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

# %pool: 0 pid, 4 busy, 8 threads made, 12 threads at work, 16 threads wanted, 24 job, 64 mutex,
# 192 condition "work", 320 condition "done" (128 bytes each: more than any system's). All but pid
# and busy are used under the mutex; threads made, by who holds busy.
# %job: 0 task, 8 args, 16 end, 24 step, 32 next, 40 message, 48 the block it is of.
_TEXT = """
@current = internal global ptr null
declare ptr @malloc(i64)
declare void @free(ptr)
declare i32 @getpid()
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(ptr)
declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @pthread_cond_broadcast(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal ptr @pool_of_process() {
entry:
  %pid = call i32 @getpid()
  %old = load atomic ptr, ptr @current acquire, align 8
  %none = icmp eq ptr %old, null
  br i1 %none, label %make, label %look
look:
  %owner = load i32, ptr %old
  %ours = icmp eq i32 %owner, %pid
  br i1 %ours, label %found, label %make
found:
  ret ptr %old
make:
  %new = call ptr @malloc(i64 448)
  %starved = icmp eq ptr %new, null
  br i1 %starved, label %nothing, label %fill
nothing:
  ret ptr null
fill:
  call void @llvm.memset.p0.i64(ptr %new, i8 0, i64 448, i1 false)
  store i32 %pid, ptr %new
  %mutex = getelementptr i8, ptr %new, i64 64
  %work = getelementptr i8, ptr %new, i64 192
  %done = getelementptr i8, ptr %new, i64 320
  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %work, ptr null)
  call i32 @pthread_cond_init(ptr %done, ptr null)
  %swapped = cmpxchg ptr @current, ptr %old, ptr %new acq_rel acquire
  %won = extractvalue { ptr, i1 } %swapped, 1
  br i1 %won, label %mine, label %theirs
mine:
  ret ptr %new
theirs:
  call void @free(ptr %new)
  %other = extractvalue { ptr, i1 } %swapped, 0
  ret ptr %other
}

define internal void @drain(ptr %pool, ptr %job) {
entry:
  %task = load ptr, ptr %job
  %args.at = getelementptr i8, ptr %job, i64 8
  %args = load ptr, ptr %args.at
  %end.at = getelementptr i8, ptr %job, i64 16
  %end = load i64, ptr %end.at
  %step.at = getelementptr i8, ptr %job, i64 24
  %step = load i64, ptr %step.at
  %next = getelementptr i8, ptr %job, i64 32
  br label %again
again:
  %first = atomicrmw add ptr %next, i64 %step monotonic
  %more = icmp slt i64 %first, %end
  br i1 %more, label %part, label %out
part:
  %stop = add i64 %first, %step
  %inside = icmp slt i64 %stop, %end
  %last = select i1 %inside, i64 %stop, i64 %end
  %message = call ptr %task(ptr %args, i64 %first, i64 %last)
  %fine = icmp eq ptr %message, null
  br i1 %fine, label %again, label %failed
failed:
  store atomic i64 %end, ptr %next monotonic, align 8
  %mutex = getelementptr i8, ptr %pool, i64 64
  call i32 @pthread_mutex_lock(ptr %mutex)
  %known.at = getelementptr i8, ptr %job, i64 40
  %block.at = getelementptr i8, ptr %job, i64 48
  %known = load ptr, ptr %known.at
  %block = load i64, ptr %block.at
  %unknown = icmp eq ptr %known, null
  %earlier = icmp slt i64 %first, %block
  %keep = or i1 %unknown, %earlier
  %kept = select i1 %keep, ptr %message, ptr %known
  %kept.block = select i1 %keep, i64 %first, i64 %block
  store ptr %kept, ptr %known.at
  store i64 %kept.block, ptr %block.at
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %out
out:
  ret void
}

define internal ptr @worker(ptr %pool) {
entry:
  %working = getelementptr i8, ptr %pool, i64 12
  %wanted = getelementptr i8, ptr %pool, i64 16
  %job.at = getelementptr i8, ptr %pool, i64 24
  %mutex = getelementptr i8, ptr %pool, i64 64
  %work = getelementptr i8, ptr %pool, i64 192
  %done = getelementptr i8, ptr %pool, i64 320
  call i32 @pthread_mutex_lock(ptr %mutex)
  br label %look
look:
  %count = load i32, ptr %wanted
  %idle = icmp sle i32 %count, 0
  br i1 %idle, label %sleep, label %join
sleep:
  call i32 @pthread_cond_wait(ptr %work, ptr %mutex)
  br label %look
join:
  %fewer = sub i32 %count, 1
  store i32 %fewer, ptr %wanted
  %at.work = load i32, ptr %working
  %one.more = add i32 %at.work, 1
  store i32 %one.more, ptr %working
  %job = load ptr, ptr %job.at
  call i32 @pthread_mutex_unlock(ptr %mutex)
  call void @drain(ptr %pool, ptr %job)
  call i32 @pthread_mutex_lock(ptr %mutex)
  %now = load i32, ptr %working
  %one.less = sub i32 %now, 1
  store i32 %one.less, ptr %working
  %last = icmp eq i32 %one.less, 0
  br i1 %last, label %tell, label %look
tell:
  call i32 @pthread_cond_signal(ptr %done)
  br label %look
}

define ptr @parallel(ptr %task, ptr %args, i64 %begin, i64 %end, i64 %cost, i64 %threads) {
entry:
  %job = alloca [56 x i8], align 8
  %thread = alloca ptr, align 8
  %pool = call ptr @pool_of_process()
  %no.pool = icmp eq ptr %pool, null
  br i1 %no.pool, label %alone, label %enter
enter:
  %busy = getelementptr i8, ptr %pool, i64 4
  %was.busy = atomicrmw xchg ptr %busy, i32 1 acquire
  %free = icmp eq i32 %was.busy, 0
  br i1 %free, label %plan, label %alone
alone:
  %all = call ptr %task(ptr %args, i64 %begin, i64 %end)
  ret ptr %all

plan:                               ; about four parts per thread, so that all end at one time
  %total = sub i64 %end, %begin
  %parts = mul i64 %threads, 4
  %total.up = add i64 %total, %parts
  %total.up.1 = sub i64 %total.up, 1
  %share = sdiv i64 %total.up.1, %parts
  %least.up = add i64 %cost, PART_LESS_1
  %least = sdiv i64 %least.up, %cost
  %short = icmp slt i64 %share, %least
  %step = select i1 %short, i64 %least, i64 %share
  %count.up = add i64 %total, %step
  %count.up.1 = sub i64 %count.up, 1
  %count = sdiv i64 %count.up.1, %step
  %few = icmp slt i64 %count, %threads
  %team = select i1 %few, i64 %count, i64 %threads
  %others = sub i64 %team, 1
  %helpers = trunc i64 %others to i32
  store ptr %task, ptr %job
  %args.at = getelementptr i8, ptr %job, i64 8
  store ptr %args, ptr %args.at
  %end.at = getelementptr i8, ptr %job, i64 16
  store i64 %end, ptr %end.at
  %step.at = getelementptr i8, ptr %job, i64 24
  store i64 %step, ptr %step.at
  %next.at = getelementptr i8, ptr %job, i64 32
  store i64 %begin, ptr %next.at
  %message.at = getelementptr i8, ptr %job, i64 40
  store ptr null, ptr %message.at
  %block.at = getelementptr i8, ptr %job, i64 48
  store i64 0, ptr %block.at
  %made = getelementptr i8, ptr %pool, i64 8
  %working = getelementptr i8, ptr %pool, i64 12
  %wanted = getelementptr i8, ptr %pool, i64 16
  %job.at = getelementptr i8, ptr %pool, i64 24
  %mutex = getelementptr i8, ptr %pool, i64 64
  %work = getelementptr i8, ptr %pool, i64 192
  %done = getelementptr i8, ptr %pool, i64 320
  br label %staff
staff:
  %have = load i32, ptr %made
  %enough = icmp sge i32 %have, %helpers
  br i1 %enough, label %publish, label %hire
hire:
  %error = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr %pool)
  %hired = icmp eq i32 %error, 0
  br i1 %hired, label %welcome, label %publish
welcome:
  %id = load ptr, ptr %thread
  call i32 @pthread_detach(ptr %id)
  %have.now = add i32 %have, 1
  store i32 %have.now, ptr %made
  br label %staff

publish:
  call i32 @pthread_mutex_lock(ptr %mutex)
  store ptr %job, ptr %job.at
  store i32 %helpers, ptr %wanted
  %single = icmp eq i32 %helpers, 1
  br i1 %single, label %wake.one, label %wake.all
wake.one:
  call i32 @pthread_cond_signal(ptr %work)
  br label %run
wake.all:
  call i32 @pthread_cond_broadcast(ptr %work)
  br label %run
run:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  call void @drain(ptr %pool, ptr %job)
  call i32 @pthread_mutex_lock(ptr %mutex)
  store i32 0, ptr %wanted
  store ptr null, ptr %job.at
  br label %check
check:
  %at.work = load i32, ptr %working
  %over = icmp eq i32 %at.work, 0
  br i1 %over, label %finish, label %wait
wait:
  call i32 @pthread_cond_wait(ptr %done, ptr %mutex)
  br label %check
finish:
  %message = load ptr, ptr %message.at
  call i32 @pthread_mutex_unlock(ptr %mutex)
  store atomic i32 0, ptr %busy release, align 4
  ret ptr %message
}
""".replace("PART_LESS_1", str(_PART - 1))


_lock = threading.Lock()
_builder: threading.Thread | None = None


def wait() -> None:
    """Returns when `parallel` is compiled."""
    with _lock:
        if _cell[0] == _first_address:
            from .llvm_jit import compile_module, load

            code = load(compile_module(_TEXT, opt=0), ["parallel"])
            # Threads sleep in this code until the process ends: it must never go away.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
            _cell[0] = code.address("parallel")


def _build(task: int, args: int, begin: int, end: int, work: int, threads: int) -> int | None:
    """The first large kernels come here, later ones to `parallel` itself."""
    global _builder
    message: int | None
    if (end - begin) * work >= _WORTH_WAITING:
        wait()
        message = _KIND(_cell[0])(task, args, begin, end, work, threads)
        return message
    if _builder is None:
        _builder = threading.Thread(target=wait, daemon=True)
        _builder.start()
    message = _TASK(task)(args, begin, end)
    return message


def _settle() -> None:
    """Before a fork: the child has no thread that would finish what was begun."""
    if _builder is not None:
        _builder.join()
    with _lock:
        pass


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_settle)


@functools.cache
def _has_llvm() -> bool:
    return importlib.util.find_spec("llvmlite") is not None


_first = _KIND(_build)
_first_address = ctypes.cast(_first, ctypes.c_void_p).value or 0
_cell = (ctypes.c_uint64 * 1)(_first_address)


def attach(state: int) -> None:
    """Lets a module's kernels use the pool; `state` is the address of its `tl_pool`. Where LLVM is
    missing (target `c` needs none) their blocks run on the calling thread."""
    threads = cpu_threads()
    if threads > 1 and os.name == "posix" and _has_llvm():
        words = (ctypes.c_uint64 * 2).from_address(state)
        words[0], words[1] = ctypes.addressof(_cell), threads
