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
  uint64_t flops;  // of matrix instructions, and of those the ones that are not of 16-bit floats:
  uint64_t flops_tf32, flops_narrow, flops_double;
  uint64_t wgmma_shared_bytes;  // of operands
};

// What a site does. The first four are accesses: bit 0 writes, bit 1 shared memory.
enum SiteKind : unsigned {
  kGlobalRead,
  kGlobalWrite,
  kSharedRead,
  kSharedWrite,
  kMmaSite,
  kWgmmaSite,
  kBarrierSite,
  kMbarrierSite,
  kAtomicSite,
  kTmaLoadSite,
  kTmaStoreSite,
  kShuffleSite,
};

// Traffic of one site of the kernel.
struct SiteTraffic {
  uint64_t requests;  // warp instructions of accesses, else how often a thread or unit did it
  uint64_t bytes;     // that the lanes asked for
  uint64_t units;     // shared: wavefronts; global: 32-byte sectors
  uint64_t ideal;     // the least number of units for these bytes
};
// Key: site << 4 | kind.
using TrafficTable = std::unordered_map<uint64_t, SiteTraffic>;

}  // namespace sim
