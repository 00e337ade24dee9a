// SPDX-License-Identifier: Apache-2.0
// Stops kernels that never end, even in a loop that calls nothing.
#pragma once
#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace sim {

struct Launch;

// After the launch's deadline, interrupts its host threads by a signal until all have noticed: the
// handler fails the block if it finds the thread in the kernel's code, where no lock is held.
class Watchdog {
 public:
  explicit Watchdog(Launch& launch);
  ~Watchdog();
  void watch(pthread_t thread);
  void forget(pthread_t thread);

 private:
  void run();
  Launch& launch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<pthread_t> threads_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace sim
