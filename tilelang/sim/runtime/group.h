// SPDX-License-Identifier: Apache-2.0
// Blocks that run together on one host thread: a single one, a cluster, or the whole grid where
// blocks wait for each other. What orders threads of different blocks is here.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "block.h"
#include "footprint.h"
#include "launch.h"

namespace sim {

// A barrier of the threads of several blocks: of a cluster, or of the grid.
class WideBarrier {
 public:
  // `orders`: what the thread has done so far happens before what follows the barrier.
  void arrive(Fiber& fiber, bool orders, int line);
  // Until the phase of the fiber's arrival has ended. `expected`: threads that have not returned.
  void wait(Fiber& fiber, unsigned expected, const char* what, int line);
  // Ends the phase if all have come. A thread that has come and returned counts for the phase.
  void settle(unsigned expected);
  void returned(const Fiber& fiber);
  bool busy() const { return arrived_ != 0; }
  int line() const { return line_; }

 private:
  unsigned arrived_ = 0, gone_ = 0, phase_ = 0;
  int line_ = 0;
  std::map<unsigned, ViewSum> arriving_;  // by slot
  Past past_;                             // of the last phase
  std::map<unsigned, View> completed_;    // the same as each block sees it
  std::vector<Fiber*> waiting_;
};

class Group {
 public:
  explicit Group(Launch& launch);

  // Runs the blocks from this linear index on to their ends. False if something is wrong (`error`).
  bool run(uint64_t first);
  uint64_t blocks() const { return count_; }
  void collect();  // adds what was counted to the launch; its mutex is held

  // ---- used by blocks and units
  Block* block_of_shared(const void* p) const;
  Block& peer(const Block& block, unsigned rank);  // of its cluster
  WideBarrier& cluster_barrier(const Block& block) {
    return clusters_[block.slot / launch.cluster_blocks];
  }
  unsigned cluster_threads(const Block& block);  // that have not returned
  unsigned grid_threads() const;                 // never reached once a block has ended
  void thread_ended(Fiber& fiber);
  std::string block_name(unsigned slot) const;
  bool alone() const { return count_ == 1; }
  // An atomic access by `fiber`: what it may learn from earlier ones there, and what later ones may
  // learn from it.
  void atomic_read(Fiber& fiber, const void* p);
  void atomic_write(Fiber& fiber, const void* p, bool updates);
  void block_ended(Block& block);
  // Somebody has changed something that others may poll.
  void stir() { quiet_ = 0; }
  // One more look at memory that has not changed. True if nobody is left to change it.
  bool still() { return ++quiet_ > kQuietPolls; }
  void describe_deadlock(Block& reporter);

  Launch& launch;
  Scheduler scheduler;
  Shadow shadow;  // of global memory
  Footprint footprint;
  WideBarrier grid;
  unsigned ended = 0;
  std::string error, error_kind;

 private:
  static constexpr uint64_t kQuietPolls = 1 << 20;
  TlsimDim3 index_of(uint64_t ordinal) const;
  bool finish(Block* failed);

  uint64_t count_, first_ = 0;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<WideBarrier> clusters_;
  std::unordered_map<uintptr_t, Past> released_;
  uint64_t quiet_ = 0;
};

}  // namespace sim
