// SPDX-License-Identifier: Apache-2.0
// Barriers of a block: the sixteen of PTX's bar.* (0 is sync_threads), and sync_warp.
#include "group.h"
#include "text.h"

namespace sim {

namespace {

void complete(Block& block, Barrier& barrier) {
  const View view = barrier.views.take();
  for (Fiber* fiber : barrier.waiting)
    if (block.check) {
      // Everybody's past is in the sum, the waiter's own included.
      fiber->view.seen = view.seen;
      fiber->view.others = view.others;
      block.joiner.join(fiber->view, View{{}, view.fenced, {}});
    }
  block.group.stir();
  block.wake(barrier.waiting);
  barrier.arrived = barrier.expected = 0;
}

void arrive(Block& block, Fiber& self, Barrier& barrier, unsigned expected, bool waits,
            const char* what, int id, int line) {
  if (barrier.arrived == 0) {
    barrier.expected = expected;
    barrier.line = line;
  }
  if (id == 0) barrier.expected = block.alive;  // threads may have returned since the first came
  block.release(self, barrier.views);
  ++barrier.arrived;
  if (waits) barrier.waiting.push_back(&self);
  if (barrier.arrived == barrier.expected) {
    complete(block, barrier);  // makes this fiber ready too
    if (waits) block.scheduler.suspend();
  } else if (waits) {
    block.wait(self, what, id ? static_cast<uint64_t>(id) : kNoDetail, line);
  }
}

}  // namespace

// Threads that have returned no longer count.
void Block::barrier_exit(Fiber&) {
  Barrier& barrier = barriers[0];
  if (barrier.arrived && barrier.arrived == alive) complete(*this, barrier);
}

}  // namespace sim

using namespace sim;

extern "C" {

void tlsim_sync_threads(int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  Barrier& barrier = block.barriers[0];
  if (barrier.arrived && barrier.line != line)
    block.fail(self, "divergence",
               format("thread %u is at sync_threads%s while others wait at sync_threads%s: all "
                      "threads of the block "
                      "must reach the same one",
                      self.id, site_text(at_line(line)).c_str(),
                      site_text(at_line(barrier.line)).c_str()));
  if (barrier.arrived == 0) {
    ++block.counters.barriers;
    block.count_event(at_line(line), kBarrierSite);
  }
  arrive(block, self, barrier, block.alive, true, "sync_threads", 0, line);
}

void tlsim_named_barrier(int id, int count, int waits, int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  const char* what = waits ? "named_barrier_sync" : "named_barrier_arrive";
  if (id < 0 || id > 15 || count <= 0 || count % 32 ||
      count > static_cast<int>((block.thread_count() + 31) / 32 * 32))
    block.fail(
        self, "barrier",
        format("%s(%d, %d)%s: the id must be 0 to 15, and the count a multiple of 32 up to the "
               "size of the block",
               what, id, count, site_text(at_line(line)).c_str()));
  Barrier& barrier = block.barriers[id];
  if (barrier.arrived && barrier.expected != static_cast<unsigned>(count))
    block.fail(self, "barrier",
               format("named barrier %d is used with count %d%s, but others came with count %u%s",
                      id, count, site_text(at_line(line)).c_str(), barrier.expected,
                      site_text(at_line(barrier.line)).c_str()));
  if (barrier.arrived == 0) {
    ++block.counters.named_barriers;
    block.count_event(at_line(line), kBarrierSite);
  }
  arrive(block, self, barrier, static_cast<unsigned>(count), waits != 0, what, id, line);
}
}
