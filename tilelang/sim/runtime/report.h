// SPDX-License-Identifier: Apache-2.0
// What a launch counts. The Python side prints it (`sim/report.py`).
#pragma once
#include <stdint.h>

#include <unordered_map>

namespace sim {

struct Counters {
  uint64_t threads, accesses, barriers, named_barriers, warp_syncs, shuffles;
  uint64_t ldmatrix, stmatrix, mma, wgmma, cp_async, cp_async_bytes;
  uint64_t tma_loads, tma_stores, tma_bytes, mbarrier_waits, atomics;
  uint64_t flops;  // of matrix instructions
};

// Traffic of one access site of the kernel.
struct SiteTraffic {
  uint64_t requests;  // warp instructions
  uint64_t bytes;     // that the lanes asked for
  uint64_t units;     // shared: wavefronts; global: 32-byte sectors
  uint64_t ideal;     // the least number of units for these bytes
};
// Key: site << 2 | shared << 1 | writes.
using TrafficTable = std::unordered_map<uint64_t, SiteTraffic>;

}  // namespace sim
