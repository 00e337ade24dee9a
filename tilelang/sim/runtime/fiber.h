// SPDX-License-Identifier: Apache-2.0
// Stacks and the switch between them: what a simulated CUDA thread runs on.
//
// A switch saves the callee-saved registers of the platform's C ABI on the old stack and restores
// them from the new one (about 5 ns). Other processors and compilers use ucontext (0.3 us).
#pragma once
#include <stddef.h>
#include <stdint.h>

#if !defined(__x86_64__) && !defined(__aarch64__)
#define TLSIM_UCONTEXT 1
#endif
#ifdef TLSIM_UCONTEXT
#include <ucontext.h>
#endif

namespace sim {

// A suspended flow of control.
struct Context {
#ifdef TLSIM_UCONTEXT
  ucontext_t state;
#else
  void* stack_pointer = nullptr;
#endif
};

// Makes `context` start at `entry` on the stack [base, base + size).
void prepare(Context& context, unsigned char* base, size_t size, void (*entry)());

// Suspends the caller in `from` and resumes `to`.
void switch_context(Context& from, Context& to);

// Stacks of equal size, committed only where touched, each with an inaccessible page below it as
// long as there are not too many of them in the process.
class Stacks {
 public:
  static constexpr size_t kSize = 256 << 10;

  ~Stacks();
  void reserve(unsigned count);
  unsigned char* base(unsigned index) const { return memory_ + index * kSize; }

 private:
  unsigned char* memory_ = nullptr;
  unsigned count_ = 0;
  long guarded_ = 0;

  void release();
};

}  // namespace sim
