// SPDX-License-Identifier: Apache-2.0
// mbarriers: phases, arrivals, announced bytes (PTX ISA, mbarrier). And the fences around them.
//
// The state is kept beside shared memory, keyed by the barrier's place in it.
#include "group.h"
#include "text.h"

namespace sim {

MBarrier& Block::mbarrier_at(Fiber& fiber, void* bar, const char* what, int line) {
  const Site site = at_line(line);
  Block& own = *fiber.block;  // the barrier may be another block's
  if (!is_shared(bar) || reinterpret_cast<uintptr_t>(bar) % 8)
    own.fail(fiber, "misaligned",
         format("thread %u: %s%s needs an address in shared memory that is a multiple of 8",
                fiber.id, what, site_text(site).c_str()));
  auto found = mbarriers.find(shared_offset(bar));
  if (found == mbarriers.end())
    own.fail(fiber, "uninitialised",
         format("thread %u: %s%s of the mbarrier at shared+%zu, which nothing has initialised",
                fiber.id, what, site_text(site).c_str(), shared_offset(bar)));
  if (check) {  // the init must have happened before
    Actor actor = own.actor_of(fiber, site);
    actor.atomic = true;
    own.access(fiber, bar, 8, false, actor);
  }
  return found->second;
}

void Block::mbarrier_settle(Fiber& fiber, MBarrier& barrier, Site site) {
  if (barrier.pending != 0) return;
  if (barrier.bytes < 0)
    fiber.block->fail(
        fiber, "byte_count",
        format(
            "%lld bytes more than mbar_expect_tx announced have arrived at an mbarrier; the last%s",
            static_cast<long long>(-barrier.bytes), site_text(site).c_str()));
  if (barrier.bytes > 0) return;
  ++barrier.phase;
  barrier.pending = barrier.count;
  barrier.completed = barrier.arriving.take();
  group.stir();
  wake(barrier.waiting);
}

void Block::mbarrier_arrive(Fiber& fiber, void* bar, const char* what, int line) {
  MBarrier& barrier = mbarrier_at(fiber, bar, what, line);
  if (barrier.pending == 0)
    fiber.block->fail(
        fiber, "barrier",
        format("thread %u: %s%s comes after all %u arrivals of the phase, while bytes are missing",
               fiber.id, what, site_text(at_line(line)).c_str(), barrier.count));
  if (fiber.block == this)
    release(fiber, barrier.arriving);
  else if (check)
    barrier.arriving.add(fiber.block->release(fiber), slot);
  --barrier.pending;
  mbarrier_settle(fiber, barrier, at_line(line));
}

}  // namespace sim

using namespace sim;

extern "C" {

void tlsim_mbar_init(void* bar, unsigned count, int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  if (!block.is_shared(bar) || reinterpret_cast<uintptr_t>(bar) % 8 || count == 0)
    block.fail(
        self, "barrier",
        format(
            "thread %u: mbar_init%s needs a place in shared memory that is a multiple of 8, and a "
            "count of at least 1",
            self.id, site_text(at_line(line)).c_str()));
  if (block.check)
    block.check_shared(self, block.shared_offset(bar), 8, true,
                       block.actor_of(self, at_line(line)));
  MBarrier& barrier = block.mbarriers[block.shared_offset(bar)];
  barrier = MBarrier{};
  barrier.count = barrier.pending = count;
  barrier.initialiser = self.id;
}

void tlsim_mbar_arrive(void* bar, int line) {
  current->block->mbarrier_arrive(*current, bar, "mbar_arrive", line);
}

void tlsim_mbar_expect_tx(void* bar, unsigned bytes, int line) {
  Fiber& self = *current;
  self.block->mbarrier_at(self, bar, "mbar_expect_tx", line).bytes += bytes;
  self.block->mbarrier_arrive(self, bar, "mbar_expect_tx", line);
}

void tlsim_mbar_announce(void* bar, unsigned bytes, int line) {
  Fiber& self = *current;
  self.block->mbarrier_at(self, bar, "mbar_announce", line).bytes += bytes;
}

void tlsim_mbar_wait(void* bar, unsigned parity, int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  MBarrier& barrier = block.mbarrier_at(self, bar, "mbar_wait", line);
  ++block.counters.mbarrier_waits;
  block.count_event(at_line(line), kMbarrierSite);
  if (parity > 1)
    block.fail(self, "barrier",
               format("thread %u: mbar_wait%s for parity %u: it can be 0 or 1", self.id,
                      site_text(at_line(line)).c_str(), parity));
  const uint64_t offset = block.shared_offset(bar);
  while ((barrier.phase & 1) == parity) {
    // Copies towards this barrier happen now: the latest moment that does not keep anybody waiting.
    if (block.tma_advance(self, offset) || block.copies_advance(offset)) continue;
    barrier.waiting.push_back(&self);
    self.waits_on = &barrier;
    block.wait(self, "mbar_wait for parity", parity, line);
    self.waits_on = nullptr;
  }
  if (block.check) block.joiner.join(self.view, barrier.completed);
}

void tlsim_fence_mbar_init(int) {
  Fiber& self = *current;
  for (auto& [offset, barrier] : self.block->mbarriers)
    if (barrier.initialiser == self.id) barrier.visible = true;
}

void tlsim_fence_proxy_async(int line) {
  Fiber& self = *current;
  tlsim_fence_mbar_init(line);
  if (!self.block->check) return;
  ViewSum past;
  self.block->release(self, past);
  View all = past.take();
  Joiner& joiner = self.block->joiner;
  self.view.fenced = joiner.join(self.view.fenced, all.seen);
  if (all.others.empty()) return;
  PastSum fenced;  // what the thread has seen of other blocks is covered too
  for (const Past::Entry& e : all.others.entries()) fenced.add(e.slot, e.seen, e.seen);
  self.view.others = joiner.join(self.view.others, fenced.take());
}
}
