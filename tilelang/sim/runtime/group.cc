// SPDX-License-Identifier: Apache-2.0
#include "group.h"

#include "launch.h"
#include "text.h"

namespace sim {

namespace {

constexpr uint64_t kResidentThreads = 1 << 15;  // of blocks that need not all be there at once

}  // namespace

Group::Group(Launch& launch) : launch(launch), count_(launch.group_blocks) {
  const unsigned threads = launch.block.x * launch.block.y * launch.block.z;
  const bool all = launch.cooperative || launch.cluster_blocks > 1;
  const uint64_t resident = all ? count_ : std::max<uint64_t>(1, kResidentThreads / threads);
  for (uint64_t i = 0; i < std::min(count_, resident); ++i)
    blocks_.push_back(std::make_unique<Block>(*this));
}

// Blocks of a cluster are neighbours in every dimension (CUDA C++ Programming Guide, clusters).
TlsimDim3 Group::index_of(uint64_t ordinal) const {
  const TlsimDim3 size = launch.cluster, grid = launch.grid;
  const uint64_t cluster = (first_ + ordinal) / launch.cluster_blocks;
  const auto rank = static_cast<unsigned>((first_ + ordinal) % launch.cluster_blocks);
  const uint64_t columns = grid.x / size.x, rows = grid.y / size.y;
  return {static_cast<unsigned>(cluster % columns) * size.x + rank % size.x,
          static_cast<unsigned>(cluster / columns % rows) * size.y + rank / size.x % size.y,
          static_cast<unsigned>(cluster / columns / rows) * size.z + rank / size.x / size.y};
}

std::string Group::block_name(unsigned slot) const {
  const TlsimDim3 index = index_of(slot);
  return format("block (%u, %u, %u)", index.x, index.y, index.z);
}

bool Group::run(uint64_t first) {
  first_ = first;
  ended = 0;
  quiet_ = 0;
  if (launch.check) shadow.reset(0);
  footprint.clear();
  released_.clear();
  grid = WideBarrier{};
  clusters_.assign(count_ / launch.cluster_blocks, {});
  uint64_t next = 0;
  const auto start = [&](Block& block) {
    block.start(index_of(next), static_cast<unsigned>(next),
                static_cast<unsigned>(next % launch.cluster_blocks));
    ++next;
  };
  for (auto& block : blocks_) start(*block);
  while (true) {
    scheduler.run();
    bool more = false;
    for (auto& block : blocks_) {
      if (!block->failed && block->ended && !block->finished) block->finish();
      if (block->failed) return finish(block.get());
      if (!block->finished || next == count_) continue;
      start(*block);
      more = true;
    }
    if (!more && scheduler.idle()) break;
  }
  if (ended == count_) return finish(nullptr);
  Block* stuck = nullptr;
  for (auto& block : blocks_)
    if (!block->ended && (!stuck || !block->uninitialised.empty())) stuck = block.get();
  describe_deadlock(*stuck);
  return finish(stuck);
}

// Keeps what is said about the block that failed, if one did.
bool Group::finish(Block* failed) {
  if (failed) error = failed->error, error_kind = failed->error_kind;
  for (auto& block : blocks_) block->drop_threads();
  released_.clear();
  return !failed;
}

void Group::block_ended(Block& block) {
  block.ended = true;
  ++ended;
  stir();
  // Another block takes its place.
  if (ended + blocks_.size() <= count_) scheduler.leave();
}

void Group::describe_deadlock(Block& reporter) {
  if (!reporter.uninitialised.empty())
    return reporter.report("uninitialised", reporter.uninitialised);
  std::string text = "deadlock: no thread can go on";
  size_t shown = 0, more = 0;
  for (const auto& block : blocks_) {
    if (block->ended) continue;
    for (const Block::Waiters& w : block->waiters()) {
      if (shown == kMostWaiters) {
        ++more;
        continue;
      }
      ++shown;
      text += w.first == w.last ? format("\n  thread %u", w.first)
                                : format("\n  threads %u to %u", w.first, w.last);
      if (!alone()) text += " of " + block_name(block->slot);
      text += (w.first == w.last ? " waits at " : " wait at ") + w.what;
    }
  }
  if (more) text += format("\n  and %zu more groups", more);
  reporter.report("deadlock", text);
}

Block* Group::block_of_shared(const void* p) const {
  for (const auto& block : blocks_)
    if (block->is_shared(p)) return block.get();
  return nullptr;
}

Block& Group::peer(const Block& block, unsigned rank) {
  return *blocks_[block.slot - block.rank + rank];
}

unsigned Group::cluster_threads(const Block& block) {
  unsigned threads = 0;
  for (unsigned rank = 0; rank < launch.cluster_blocks; ++rank) threads += peer(block, rank).alive;
  return threads;
}

unsigned Group::grid_threads() const {
  if (ended) return ~0u;
  unsigned threads = 0;
  for (const auto& block : blocks_) threads += block->alive;
  return threads;
}

void Group::thread_ended(Fiber& fiber) {
  if (grid.busy()) grid.settle(grid_threads());
  if (launch.cluster_blocks == 1) return;
  WideBarrier& barrier = cluster_barrier(*fiber.block);
  if (fiber.cluster_arrived) barrier.returned(fiber);
  barrier.settle(cluster_threads(*fiber.block));
}

// ---- order by atomics (PTX ISA, memory consistency model): a fence before an atomic write, and
// one after the read that sees it, or the value of an update after it, order what surrounds them.

void Group::atomic_read(Fiber& fiber, const void* p) {
  if (!launch.check || released_.empty()) return;
  const auto found = released_.find(reinterpret_cast<uintptr_t>(p));
  if (found == released_.end()) return;
  fiber.acquirable = fiber.block->joiner.join(fiber.acquirable, found->second);
}

void Group::atomic_write(Fiber& fiber, const void* p, bool updates) {
  stir();
  if (!launch.check || (fiber.released.empty() && released_.empty())) return;
  Past& past = released_[reinterpret_cast<uintptr_t>(p)];
  // An update continues what earlier writes released; a plain store ends it.
  past = updates ? fiber.block->joiner.join(past, fiber.released) : fiber.released;
}

void Group::collect() {
  for (auto& block : blocks_) block->collect();
}

}  // namespace sim

using namespace sim;

extern "C" {

// order: 0 acquire, 1 release, 2 both, 3 sequentially consistent.
void tlsim_fence(int order, int) {
  Fiber& self = *current;
  Block& block = *self.block;
  block.group.stir();
  if (!block.check) return;
  if (order != 1) block.joiner.join(self.view, self.acquirable, block.slot);
  if (order != 0) self.released = block.release(self);
}
}
