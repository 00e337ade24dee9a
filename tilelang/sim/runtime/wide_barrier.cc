// SPDX-License-Identifier: Apache-2.0
// Barriers of several blocks (PTX ISA, barrier.cluster; cooperative grids), and what a block of a
// cluster does in the shared memory of its peers.
#include "group.h"
#include "launch.h"
#include "text.h"

namespace sim {

void WideBarrier::arrive(Fiber& fiber, bool orders, int line) {
  if (arrived_++ == 0) line_ = line;
  fiber.wide_phase = phase_;
  if (orders) fiber.block->release(fiber, arriving_[fiber.block->slot]);
  fiber.block->group.stir();
}

void WideBarrier::returned(const Fiber& fiber) {
  if (fiber.wide_phase == phase_) ++gone_;
}

void WideBarrier::settle(unsigned expected) {
  if (arrived_ == 0 || arrived_ - gone_ != expected) return;
  PastSum sum;
  for (auto& [slot, views] : arriving_) sum.add(past_of(views.take(), slot));
  past_ = sum.take();
  arriving_.clear();
  completed_.clear();
  arrived_ = gone_ = 0;
  ++phase_;
  std::vector<Fiber*> waiting = std::move(waiting_);
  waiting_.clear();
  for (Fiber* fiber : waiting) fiber->block->scheduler.ready(fiber);
}

void WideBarrier::wait(Fiber& fiber, unsigned expected, const char* what, int line) {
  Block& block = *fiber.block;
  settle(expected);
  if (fiber.wide_phase == phase_) {
    waiting_.push_back(&fiber);
    block.wait(fiber, what, kNoDetail, line);
  }
  if (!block.check) return;
  auto found = completed_.find(block.slot);
  if (found == completed_.end()) {
    ViewSum view;
    view.add(past_, block.slot);
    found = completed_.emplace(block.slot, view.take()).first;
  }
  block.joiner.join(fiber.view, found->second);
}

namespace {

void check_cluster(Fiber& self, const char* what, int line) {
  if (self.block->launch.cluster_blocks > 1) return;
  self.block->fail(self, "barrier",
                   format("thread %u: %s%s in a kernel that was launched without a cluster",
                          self.id, what, site_text(at_line(line)).c_str()));
}

Block& peer_at(Fiber& self, unsigned rank, const char* what, int line) {
  Block& block = *self.block;
  if (rank >= block.launch.cluster_blocks)
    block.fail(self, "out_of_bounds",
               format("thread %u: %s%s of block %u of a cluster of %u", self.id, what,
                      site_text(at_line(line)).c_str(), rank, block.launch.cluster_blocks));
  return block.group.peer(block, rank);
}

}  // namespace
}  // namespace sim

using namespace sim;

extern "C" {

// A barrier of all threads of a cooperative grid.
void tlsim_sync_grid(int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  WideBarrier& grid = block.group.grid;
  if (!block.launch.cooperative)
    block.fail(self, "barrier",
               format("thread %u is at sync_grid%s in a kernel that was not launched cooperatively",
                      self.id, site_text(at_line(line)).c_str()));
  if (grid.busy() && grid.line() != line)
    block.fail(self, "divergence",
               format("thread %u is at sync_grid%s while others wait at sync_grid%s: all threads "
                      "of the grid must reach the same one",
                      self.id, site_text(at_line(line)).c_str(),
                      site_text(at_line(grid.line())).c_str()));
  block.count_event(at_line(line), kBarrierSite);
  grid.arrive(self, true, line);
  grid.wait(self, block.group.grid_threads(), "sync_grid", line);
}

unsigned tlsim_cluster_rank() { return current->block->rank; }

void tlsim_cluster_arrive(int orders, int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  check_cluster(self, "cluster_arrive", line);
  if (self.cluster_arrived)
    block.fail(self, "barrier",
               format("thread %u: cluster_arrive%s again before a cluster_wait", self.id,
                      site_text(at_line(line)).c_str()));
  self.cluster_arrived = true;
  WideBarrier& barrier = block.group.cluster_barrier(block);
  barrier.arrive(self, orders != 0, line);
  barrier.settle(block.group.cluster_threads(block));
}

void tlsim_cluster_wait(int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  check_cluster(self, "cluster_wait", line);
  if (!self.cluster_arrived)
    block.fail(self, "barrier",
               format("thread %u: cluster_wait%s without a cluster_arrive", self.id,
                      site_text(at_line(line)).c_str()));
  block.count_event(at_line(line), kBarrierSite);
  block.group.cluster_barrier(block).wait(self, block.group.cluster_threads(block), "cluster_wait",
                                          line);
  self.cluster_arrived = false;
}

// The same place in the shared memory of another block of the cluster (PTX ISA, mapa).
void* tlsim_map_shared(const void* p, unsigned rank, int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  check_cluster(self, "map_shared", line);
  Block& peer = peer_at(self, rank, "map_shared", line);
  return reinterpret_cast<void*>(peer.shared_base + block.shared_offset(p));
}

void tlsim_mbar_arrive_remote(void* bar, unsigned rank, int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  Block& peer = peer_at(self, rank, "mbar_arrive_remote", line);
  peer.mbarrier_arrive(self, reinterpret_cast<void*>(peer.shared_base + block.shared_offset(bar)),
                       "mbar_arrive_remote", line);
}
}
