// SPDX-License-Identifier: Apache-2.0
// Counts what ordinary loads and stores cost: bank conflicts of shared memory, sectors of global.
//
// Lanes run one after the other here, so the n-th time that a lane passes an access belongs with
// the n-th time of the other lanes: on the GPU these are one instruction of the warp.
#include <algorithm>

#include "block.h"
#include "launch.h"

namespace sim {

namespace {

constexpr size_t kBankBytes = 4, kBanks = 32;

// Distinct pieces of `unit` bytes that the lanes [first, end) touch, sorted.
unsigned distinct(const LaneGroup& group, unsigned first, unsigned end, size_t unit,
                  uintptr_t* out) {
  unsigned count = 0;
  for (unsigned lane = first; lane < end; ++lane) {
    if (!(group.lanes >> lane & 1)) continue;
    const uintptr_t begin = group.address[lane] / unit,
                    last = (group.address[lane] + group.bytes - 1) / unit;
    for (uintptr_t piece = begin; piece <= last; ++piece) out[count++] = piece;
  }
  if (!std::is_sorted(out, out + count)) std::sort(out, out + count);
  return static_cast<unsigned>(std::unique(out, out + count) - out);
}

// Up to 128 bytes of different banks go in one pass; wide accesses are split by groups of lanes
// (CUDA C++ Best Practices Guide, shared memory and memory banks).
void add_shared(const LaneGroup& group, SiteTraffic& traffic) {
  const unsigned together = group.bytes <= 4 ? 32 : group.bytes <= 8 ? 16 : 8;
  uintptr_t words[32 * 8];
  for (unsigned first = 0; first < 32; first += together) {
    const unsigned count = distinct(group, first, first + together, kBankBytes, words);
    unsigned per_bank[kBanks] = {}, passes = 0;
    for (unsigned i = 0; i < count; ++i) passes = std::max(passes, ++per_bank[words[i] % kBanks]);
    traffic.units += passes;
    traffic.ideal += (count + kBanks - 1) / kBanks;
  }
}

void add_global(Launch& launch, const LaneGroup& group, SiteTraffic& traffic) {
  uintptr_t pieces[32 * 32];
  const unsigned sectors = distinct(group, 0, 32, kSectorBytes, pieces);
  traffic.units += sectors;
  for (unsigned i = 0; i < sectors; ++i)
    launch.touch(pieces[i] * kSectorBytes, kSectorBytes, group.writes);
  const unsigned bytes = distinct(group, 0, 32, 1, pieces);
  traffic.ideal += (bytes + kSectorBytes - 1) / kSectorBytes;
}

}  // namespace

// Allocations begin at a sector, wherever the host has put them.
uintptr_t Launch::place(uintptr_t address) const {
  for (size_t i = 0; i < ranges.size(); ++i)
    if (address - ranges[i].begin < ranges[i].bytes)
      return (i + 1) << kRangeShift | (address - ranges[i].begin);
  return address;
}

void Launch::touch(uintptr_t place, size_t bytes, bool writes) {
  const size_t index = place >> kRangeShift;
  if (index == 0 || index > ranges.size()) return;
  const uintptr_t first = place & ((uintptr_t{1} << kRangeShift) - 1);
  for (uintptr_t s = first / kSectorBytes; s <= (first + bytes - 1) / kSectorBytes; ++s)
    ranges[index - 1].touched[writes][s / 64].fetch_or(1ull << s % 64, std::memory_order_relaxed);
}

void Block::close_group(Site site, const LaneGroup& group) {
  SiteTraffic& into = traffic(site, group.shared << 1 | group.writes);
  ++into.requests;
  into.bytes +=
      static_cast<uint64_t>(group.bytes) * static_cast<uint64_t>(__builtin_popcount(group.lanes));
  if (group.shared)
    add_shared(group, into);
  else
    add_global(launch, group, into);
}

void Block::count_access(Fiber& fiber, const void* p, size_t bytes, bool writes, Site site) {
  if (bytes == 0 || bytes > 32) return;
  Warp& warp = warps[fiber.warp];
  // A site may both read and write (an atomic update, an inlined copy).
  const uint64_t key = static_cast<uint64_t>(site) << 1 | static_cast<uint64_t>(writes);
  auto& [known, place] = warp.latest[(key ^ key >> 6) % std::size(warp.latest)];
  if (known != key || !place) known = key, place = &warp.groups[key];
  SiteGroups& groups = *place;
  const uint32_t turn = groups.passed[fiber.lane]++ - groups.closed;
  while (groups.open.size() <= turn) groups.open.push_back(LaneGroup{});
  LaneGroup& group = groups.open[turn];
  group.shared = is_shared(p);
  group.writes = writes;
  group.bytes = static_cast<uint8_t>(bytes);
  group.lanes |= 1u << fiber.lane;
  group.address[fiber.lane] = group.shared ? reinterpret_cast<uintptr_t>(p)
                                           : launch.place(reinterpret_cast<uintptr_t>(p));
  while (!groups.open.empty() && (groups.open.front().lanes & warp.alive) == warp.alive) {
    close_group(site, groups.open.front());
    groups.open.pop_front();
    ++groups.closed;
  }
}

void Block::close_groups() {
  for (Warp& warp : warps) {
    for (auto& [key, groups] : warp.groups)
      for (const LaneGroup& group : groups.open) close_group(static_cast<Site>(key >> 1), group);
    warp.groups.clear();
    for (auto& entry : warp.latest) entry = {};
  }
}

}  // namespace sim
