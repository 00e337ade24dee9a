// SPDX-License-Identifier: Apache-2.0
#include "fiber.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

namespace sim {

#ifdef TLSIM_UCONTEXT

void prepare(Context& context, unsigned char* base, size_t size, void (*entry)()) {
  getcontext(&context.state);
  context.state.uc_stack.ss_sp = base;
  context.state.uc_stack.ss_size = size;
  context.state.uc_link = nullptr;
  makecontext(&context.state, entry, 0);
}

void switch_context(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

#else

extern "C" void tlsim_switch(void** from, void* to);

#if defined(__x86_64__)
// System V ABI: rbx, rbp, r12-r15 are callee-saved. `entry` is reached by the final ret.
constexpr int kSavedWords = 6;
asm(R"(
.text
.globl tlsim_switch
.hidden tlsim_switch
.type tlsim_switch, @function
tlsim_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size tlsim_switch, .-tlsim_switch
)");
#else
// AAPCS64: x19-x30 and d8-d15 are callee-saved; x30 holds where to go on.
constexpr int kSavedWords = 20;
asm(R"(
.text
.globl tlsim_switch
.hidden tlsim_switch
.type tlsim_switch, %function
tlsim_switch:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size tlsim_switch, .-tlsim_switch
)");
#endif

void prepare(Context& context, unsigned char* base, size_t size, void (*entry)()) {
  void** top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(base + size) & ~uintptr_t{63});
#if defined(__x86_64__)
  *--top =
      nullptr;  // the return address of entry: it never returns, and the ABI wants rsp % 16 == 8
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedWords; ++i) *--top = nullptr;
#else
  for (int i = 0; i < kSavedWords; ++i) *--top = nullptr;
  top[11] = reinterpret_cast<void*>(entry);  // x30
#endif
  context.stack_pointer = top;
}

void switch_context(Context& from, Context& to) {
  tlsim_switch(&from.stack_pointer, to.stack_pointer);
}

#endif

// A guarded page splits a mapping in two, and Linux allows a process 65530 of them.
static constexpr long kMostGuards = 1 << 14;
static std::atomic<long> guards{0};

Stacks::~Stacks() { release(); }

void Stacks::release() {
  if (memory_) munmap(memory_, count_ * kSize);
  guards -= guarded_;
  memory_ = nullptr;
  guarded_ = 0;
}

void Stacks::reserve(unsigned count) {
  if (count <= count_) return;
  release();
  void* memory = mmap(nullptr, count * kSize, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    perror("tilelang simulator: no memory for thread stacks");
    abort();
  }
  memory_ = static_cast<unsigned char*>(memory);
  count_ = count;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (unsigned i = 0; i < count && guards < kMostGuards; ++i, ++guards, ++guarded_)
    mprotect(base(i), page, PROT_NONE);  // an overflow faults here
}

}  // namespace sim
