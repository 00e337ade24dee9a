// SPDX-License-Identifier: Apache-2.0
#include "watchdog.h"

#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include <algorithm>
#include <chrono>

#include "block.h"
#include "launch.h"
#include "text.h"

namespace sim {

namespace {

constexpr int kSignal = SIGURG;  // ignored unless somebody asks for it, and nobody does
constexpr std::chrono::milliseconds kRepeat(20);

uintptr_t interrupted_at(const ucontext_t& state) {
#if defined(__x86_64__)
  return static_cast<uintptr_t>(state.uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return state.uc_mcontext.pc;
#else
  (void)state;
  return 0;
#endif
}

void on_signal(int, siginfo_t*, void* state) {
  Fiber* fiber = current;
  if (!fiber) return;
  Launch& launch = fiber->block->launch;
  const uintptr_t at = interrupted_at(*static_cast<ucontext_t*>(state));
  if (!out_of_time(launch) || at - launch.code_begin >= launch.code_end - launch.code_begin) return;
  Block& block = *fiber->block;
  if (block.polls != block.polls_at_signal) {  // it polls, and says so itself at its next look
    block.polls_at_signal = block.polls;
    return;
  }
  const Site site = static_cast<Site>(at + 1 - launch.code_begin);  // sites are return addresses
  block.fail(*fiber, "timeout",
             format("thread %u still runs after %.1f s%s", fiber->id, launch.time_limit,
                    site_text(site).c_str()));
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_signal;
    action.sa_flags =
        SA_SIGINFO | SA_NODEFER | SA_RESTART;  // the handler may leave by a switch of stacks
    sigaction(kSignal, &action, nullptr);
  });
}

}  // namespace

Watchdog::Watchdog(Launch& launch) : launch_(launch) {
  if (launch.deadline <= 0) return;
  install_handler();
  thread_ = std::thread([this] { run(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::watch(pthread_t thread) {
  std::lock_guard<std::mutex> guard(mutex_);
  threads_.push_back(thread);
}

void Watchdog::forget(pthread_t thread) {
  std::lock_guard<std::mutex> guard(mutex_);
  threads_.erase(std::find(threads_.begin(), threads_.end(), thread));
}

void Watchdog::run() {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto rest = std::chrono::duration<double>(launch_.deadline - now());
  if (changed_.wait_for(lock, rest, [this] { return ends_; })) return;
  while (!ends_) {
    for (pthread_t thread : threads_) pthread_kill(thread, kSignal);
    changed_.wait_for(lock, kRepeat, [this] { return ends_; });
  }
}

}  // namespace sim
