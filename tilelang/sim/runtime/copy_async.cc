// SPDX-License-Identifier: Apache-2.0
// cp.async: copies that happen at the wait, the latest moment at which they may (PTX ISA,
// cp.async).
#include <string.h>

#include "block.h"
#include "text.h"

namespace sim {

namespace {

void make_copy(const CopyAsync& copy) {
  if (copy.pred)
    memcpy(copy.dst, copy.src, static_cast<size_t>(copy.bytes));
  else
    memset(copy.dst, 0, static_cast<size_t>(copy.bytes));
}

}  // namespace

bool Block::copies_advance(uint64_t barrier) {
  for (size_t i = 0; i < copy_arrivals.size(); ++i) {
    if (copy_arrivals[i].barrier != barrier) continue;
    CopyArrival arrival = std::move(copy_arrivals[i]);
    copy_arrivals.erase(copy_arrivals.begin() + static_cast<long>(i));
    for (const CopyAsync& copy : arrival.copies) make_copy(copy);
    Fiber& fiber = *arrival.fiber;
    MBarrier& at = mbarriers[barrier];
    if (at.pending == 0)
      fail(*current, "barrier",
           format("thread %u: cp_async_mbar_arrive%s comes after all %u arrivals of the phase",
                  fiber.id, site_text(arrival.site).c_str(), at.count));
    if (check && fiber.copy_agent) at.arriving.seen.add(local_of(fiber.copy_agent), arrival.tick);
    --at.pending;
    mbarrier_settle(*current, at, arrival.site);
    return true;
  }
  return false;
}

}  // namespace sim

using namespace sim;

extern "C" {

void tlsim_cp_async(void* dst, const void* src, int bytes, int pred, int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  const Site site = at_line(line);
  const uintptr_t misaligned =
      (reinterpret_cast<uintptr_t>(dst) | (pred ? reinterpret_cast<uintptr_t>(src) : 0)) &
      static_cast<uintptr_t>(bytes - 1);
  if (misaligned)
    block.fail(
        self, "misaligned",
        format("thread %u: cp_async of %d bytes%s needs both addresses to be multiples of %d",
               self.id, bytes, site_text(site).c_str(), bytes));
  if (!block.is_shared(dst))
    block.fail(self, "out_of_bounds",
               format("thread %u: the destination of cp_async%s is not in shared memory", self.id,
                      site_text(site).c_str()));
  if (block.check) {
    if (!self.copy_agent) self.copy_agent = block.new_agent("the cp_async of thread", self.id);
    const Actor actor{self.copy_agent,      self.copy_tick,  &self.view,      site,
                      block.agent_of(self), self.copy_agent, self.copies_seen};
    block.access(self, dst, static_cast<size_t>(bytes), true, actor);
    if (pred) block.access(self, src, static_cast<size_t>(bytes), false, actor);
  }
  if (block.count_traffic) {
    block.count_access(self, dst, static_cast<size_t>(bytes), true, site);
    if (pred) block.count_access(self, src, static_cast<size_t>(bytes), false, site);
  }
  ++block.counters.cp_async;
  block.counters.cp_async_bytes += static_cast<uint64_t>(bytes);
  self.open_copies.push_back(
      {static_cast<unsigned char*>(dst), static_cast<const unsigned char*>(src), bytes, pred != 0});
}

void tlsim_cp_async_commit(int) {
  Fiber& self = *current;
  self.copy_groups.push_back(std::move(self.open_copies));
  self.open_copies.clear();
  ++self.copy_tick;
}

// All copies of the thread that have not happened go with the arrival; their groups stay.
void tlsim_cp_async_mbar_arrive(void* bar, int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  MBarrier& barrier = block.mbarrier_at(self, bar, "cp_async_mbar_arrive", line);
  CopyArrival arrival{&self, block.shared_offset(bar), at_line(line), self.copy_tick, {}};
  self.copy_groups.push_back(std::move(self.open_copies));
  for (std::vector<CopyAsync>& group : self.copy_groups) {
    arrival.copies.insert(arrival.copies.end(), group.begin(), group.end());
    group.clear();
  }
  self.open_copies = std::move(self.copy_groups.back());
  self.copy_groups.pop_back();
  block.copy_arrivals.push_back(std::move(arrival));
  if (!barrier.waiting.empty()) block.copies_advance(block.shared_offset(bar));
}

void tlsim_cp_async_wait(int pending, int) {
  Fiber& self = *current;
  while (self.copy_groups.size() > static_cast<size_t>(pending)) {
    for (const CopyAsync& copy : self.copy_groups.front()) make_copy(copy);
    self.copy_groups.pop_front();
    self.copies_seen = self.copy_tick - 1 - static_cast<Tick>(self.copy_groups.size());
  }
}
}
