// SPDX-License-Identifier: Apache-2.0
// One kernel launch: what all its blocks share.
#pragma once
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "../include/tlsim/api.h"
#include "report.h"

namespace sim {

struct GlobalRange {  // memory that the kernel may access
  uintptr_t begin;
  size_t bytes;
  std::string name;
  bool writable;
};

using Entry = void (*)(void* const* args);

struct Launch {
  Entry entry = nullptr;
  void* const* args = nullptr;
  TlsimDim3 grid{}, block{};
  size_t shared_bytes = 0;
  bool check = true;
  bool count_traffic = false;  // of ordinary loads and stores, by site
  double time_limit = 0;       // seconds for the whole launch; 0: none
  std::vector<GlobalRange> ranges;
  uintptr_t code_begin = 0, code_end = 0;  // the loaded kernel: its constants may be read

  std::atomic<uint64_t> next_block{0};
  std::atomic<bool> stop{false};
  double deadline = 0;
  std::mutex mutex;  // guards what follows
  std::string error, error_kind;
  Counters total{};
  TrafficTable sites;
};

double now();  // seconds
inline bool out_of_time(const Launch& launch) {
  return launch.deadline > 0 && now() > launch.deadline;
}

}  // namespace sim
