// SPDX-License-Identifier: Apache-2.0
// One kernel launch: what all its blocks share.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../include/tlsim/api.h"
#include "footprint.h"
#include "report.h"

namespace sim {

using Bits = std::unique_ptr<std::atomic<uint64_t>[]>;

struct GlobalRange {  // memory that the kernel may access
  uintptr_t begin;
  size_t bytes;
  std::string name;
  bool writable;
  // A byte for each: has it a value? null: all have. Kept between the launches of a program.
  unsigned char* defined;
  Bits touched[2];  // sectors that were read, and written; if traffic is counted
};

constexpr unsigned kRangeShift = 48;  // user addresses are smaller
constexpr size_t kSectorBytes = 32;  // the unit in which DRAM and L2 move data

using Entry = void (*)(void* const* args);

struct Launch {
  Entry entry = nullptr;
  void* const* args = nullptr;
  TlsimDim3 grid{}, block{};
  size_t shared_bytes = 0;
  TlsimDim3 cluster{1, 1, 1};
  bool cooperative = false;
  // Blocks of a cluster; blocks that run together, and how many such groups there are.
  unsigned cluster_blocks = 1;
  uint64_t group_blocks = 1, groups = 1;
  bool check = true;
  bool count_traffic = false;  // of ordinary loads and stores, by site
  double time_limit = 0;       // seconds for the whole launch; 0: none
  std::vector<GlobalRange> ranges;
  uintptr_t code_begin = 0, code_end = 0;  // the loaded kernel: its constants may be read

  std::atomic<uint64_t> next_group{0};
  std::atomic<bool> stop{false};
  double deadline = 0;
  std::mutex mutex;  // guards what follows
  std::string error, error_kind;
  Counters total{};
  TrafficTable sites;
  Footprint footprint;  // of the groups that have ended

  // Where an address is in the ranges: a number of the range above its offset there.
  uintptr_t place(uintptr_t address) const;
  // Notes that the sectors of these bytes have been used.
  void touch(uintptr_t place, size_t bytes, bool writes);
  volatile uint64_t* progress = nullptr;  // blocks that have ended
};

double now();  // seconds
inline bool out_of_time(const Launch& launch) {
  return launch.deadline > 0 && now() > launch.deadline;
}

}  // namespace sim
