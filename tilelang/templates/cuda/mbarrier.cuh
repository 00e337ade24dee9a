// SPDX-License-Identifier: Apache-2.0
// Barriers in shared memory with a phase and a count of bytes: PTX ISA, mbarrier (sm_90). A barrier
// is one 64-bit word.
#pragma once
#include <tl/core.h>

namespace tl {

TL_DEV void mbar_init(u64* bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
}

TL_DEV void mbar_arrive(u64* bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}

// Arrives once this thread's cp.async so far have written; counts as one of the expected arrivals
// (PTX ISA, cp.async.mbarrier.arrive.noinc; sm_80).
TL_DEV void cp_async_mbar_arrive(u64* bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(shared_address(bar)) : "memory");
}

// Arrives, and makes the phase wait for `bytes` more of asynchronous copies.
TL_DEV void mbar_expect_tx(u64* bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}

// Makes the phase wait for `bytes` more, without arriving.
TL_DEV void mbar_announce(u64* bar, u32 bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
}

TL_DEV bool mbar_try_wait(u64* bar, u32 parity) {
  u32 done;
  asm volatile("{.reg .pred P; mbarrier.try_wait.parity.shared::cta.b64 P, [%1], %2; selp.u32 %0, 1, 0, P;}"
               : "=r"(done) : "r"(shared_address(bar)), "r"(parity) : "memory");
  return done != 0;
}

// Until the phase of this parity has completed. A fresh barrier counts as having completed the
// phase of parity 1. TL_SPIN_LIMIT (nanoseconds) turns a hang into a trap.
TL_DEV void mbar_wait(u64* bar, u32 parity) {
#ifdef TL_SPIN_LIMIT
  u64 start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  while (!mbar_try_wait(bar, parity)) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - start > (u64)TL_SPIN_LIMIT) __trap();
  }
#else
  asm volatile("{.reg .pred P; WAIT: mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1; @P bra DONE; bra WAIT; DONE: }" ::"r"(shared_address(bar)), "r"(parity) : "memory");
#endif
}

// Between mbar_init and the barrier after which others use it: PTX ISA, fence.mbarrier_init.
TL_DEV void fence_mbar_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// Ordinary writes of shared memory before reads of the async proxy (TMA stores, wgmma): PTX ISA,
// fence.proxy.async. Every thread that wrote executes it, then a barrier.
TL_DEV void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

}  // namespace tl
