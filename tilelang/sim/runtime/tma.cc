// SPDX-License-Identifier: Apache-2.0
// The tensor memory accelerator: boxes of a global tensor to and from shared memory (PTX ISA,
// cp.async.bulk.tensor).
//
// What an operation reads and writes is checked when it is issued; the bytes move at the latest
// moment that is allowed: a load's when somebody waits for its barrier, a store's when its group is
// waited for.
#include <string.h>

#include "atomic.h"
#include "group.h"
#include "launch.h"
#include "swizzle.h"
#include "text.h"

namespace sim {

namespace {

// Calls row(offset from the box's start in shared memory, global address or null if the row is
// outside, first valid byte, end of the valid bytes) for each innermost row of the box.
template <class F>
void for_each_row(const TmaOperation& op, F row) {
  const TlsimTensorMap& map = op.map;
  const size_t element = map.element_bytes, row_bytes = map.box[0] * element;
  uint32_t at[5] = {};
  const int64_t first = std::max<int64_t>(0, -static_cast<int64_t>(op.coords[0]));
  const int64_t end =
      std::min<int64_t>(map.box[0], static_cast<int64_t>(map.dims[0]) - op.coords[0]);
  for (size_t offset = 0;; offset += row_bytes) {
    bool inside = first < end;
    int64_t address = static_cast<int64_t>(op.coords[0]) * static_cast<int64_t>(element);
    for (int d = 1; d < map.rank; ++d) {
      const int64_t c = static_cast<int64_t>(op.coords[d]) + at[d];
      inside = inside && c >= 0 && c < static_cast<int64_t>(map.dims[d]);
      address += c * static_cast<int64_t>(map.strides[d - 1]);
    }
    row(offset, inside ? map.base + address : nullptr, static_cast<size_t>(first) * element,
        static_cast<size_t>(end) * element);
    int d = 1;
    while (d < map.rank && ++at[d] == map.box[d]) at[d++] = 0;
    if (d >= map.rank) return;
  }
}

size_t box_bytes(const TlsimTensorMap& map) {
  size_t bytes = map.element_bytes;
  for (int d = 0; d < map.rank; ++d) bytes *= map.box[d];
  return bytes;
}

// Moves the bytes [lo, hi) of a box's row at `shared`; those before and behind are outside.
void store_piece(Block& block, const TmaOperation& op, unsigned char* global,
                 const unsigned char* shared, size_t bytes) {
  if (op.kind == TmaKind::kReduce) {
    const auto type = static_cast<TlsimType>(op.map.type);
    unsigned char old[8];
    for (size_t i = 0; i < bytes; i += op.map.element_bytes)
      update_atomically(global + i, shared + i, old, TLSIM_ATOMIC_ADD, type);
    return;
  }
  if (block.leaves_footprint())
    block.note(*op.issuer, reinterpret_cast<uintptr_t>(global), bytes,
               memcmp(global, shared, bytes) ? Use::kStore : Use::kSilentStore, op.site);
  memcpy(global, shared, bytes);
}

// What cuTensorMapEncodeTiled and the instruction demand (CUDA driver API, tensor map object).
void check_form(Block& block, Fiber& fiber, const TmaOperation& op, int rank, const char* what) {
  const TlsimTensorMap& map = op.map;
  const size_t row_bytes = map.box[0] * map.element_bytes;
  const char* wrong = nullptr;
  if (map.rank != rank)
    wrong = "the number of coordinates is not the rank of the descriptor";
  else if (!block.is_shared(op.shared))
    wrong = "the address is not in shared memory";
  else if (block.shared_offset(op.shared) % 128)
    wrong = "the shared address is not a multiple of 128";
  else if (row_bytes % 16)
    wrong = "the inner extent of the box is not a multiple of 16 bytes";
  else if (map.swizzle && row_bytes > map.swizzle)
    wrong = "the inner extent of the box is wider than the swizzle";
  else if (reinterpret_cast<uintptr_t>(map.base) % 16)
    wrong = "the tensor's address is not a multiple of 16";
  for (int d = 0; d < map.rank && !wrong; ++d) {
    if (map.dims[d] == 0) wrong = "the tensor is empty and has no descriptor";
    if (map.box[d] == 0 || map.box[d] > 256) wrong = "an extent of the box is not 1 to 256";
    if (d > 0 && map.strides[d - 1] % 16)
      wrong = "a stride of the tensor is not a multiple of 16 bytes";
  }
  if (wrong)
    fiber.block->fail(fiber, "tma",
               format("thread %u: %s%s: %s", fiber.id, what, site_text(op.site).c_str(), wrong));
}

Actor unit_actor(const Block& block, Fiber& fiber, const TmaOperation& op) {
  Actor actor{op.agent,
              op.tick,
              &fiber.view,
              op.site,
              block.agent_of(fiber),
              fiber.copy_agent,
              fiber.copies_seen};
  actor.async_proxy = true;
  return actor;
}

void check_memory(Block& block, Fiber& fiber, const TmaOperation& op) {
  Actor actor = unit_actor(block, fiber, op);
  block.access(fiber, op.shared, box_bytes(op.map), !op.stores(), actor);
  for_each_row(op, [&](size_t, unsigned char* global, size_t first, size_t end) {
    if (!global) return;
    Actor generic =
        actor;  // tensors in global memory are written before the launch, or by ordered TMA stores
    generic.async_proxy = false;
    generic.atomic = op.kind == TmaKind::kReduce;
    block.check_global(fiber, reinterpret_cast<uintptr_t>(global + first), end - first,
                       op.stores(), generic);
  });
}

void count_box(Block& block, const TmaOperation& op) {
  block.count_event(op.site, op.stores() ? kTmaStoreSite : kTmaLoadSite, box_bytes(op.map));
  if (!block.count_traffic) return;
  for_each_row(op, [&](size_t, unsigned char* global, size_t first, size_t end) {
    if (global)
      block.launch.touch(block.launch.place(reinterpret_cast<uintptr_t>(global + first)),
                         end - first, op.stores());
  });
}

}  // namespace

void Block::move(const TmaOperation& op) {
  if (op.kind == TmaKind::kCopy) {
    memcpy(op.shared, op.from, op.bytes);
    return;
  }
  const size_t row_bytes = op.map.box[0] * op.map.element_bytes,
               start = shared_offset(op.shared);
  auto* arena = reinterpret_cast<unsigned char*>(shared_base);
  for_each_row(op, [&](size_t offset, unsigned char* global, size_t first, size_t end) {
    for (size_t b = 0; b < row_bytes; b += 16) {
      unsigned char* shared = arena + swizzled(start + offset + b, op.map.swizzle);
      const size_t lo = global ? std::max(b, first) : b + 16,
                   hi = global ? std::min(b + 16, end) : b;
      if (op.stores()) {
        if (lo < hi) store_piece(*this, op, global + lo, shared + (lo - b), hi - lo);
      } else {
        if (hi - lo != 16) memset(shared, 0, 16);
        if (lo < hi) memcpy(shared + (lo - b), global + lo, hi - lo);
      }
    }
  });
}

// An agent for a TMA operation; taken again once the operation has happened.
Agent Block::take_unit(bool store, unsigned owner, Tick& tick) {
  for (TmaUnit& unit : tma_units) {
    if (unit.busy || unit.store != store) continue;
    unit.busy = true;
    tick = ++unit.tick;
    units[local_of(unit.agent) - thread_count()].owner = owner;
    return unit.agent;
  }
  const Agent agent =
      new_agent(store ? "the TMA store of thread" : "the TMA load of thread", owner);
  tma_units.push_back({agent, 1, true, store});
  tick = 1;
  return agent;
}

void Block::give_back_unit(Agent agent) {
  for (TmaUnit& unit : tma_units)
    if (unit.agent == agent) unit.busy = false;
}

void Block::tma_load_arrives(Fiber& fiber, const TmaOperation& op) {
  move(op);
  MBarrier& barrier = mbarriers[op.barrier];
  barrier.bytes -= static_cast<int64_t>(op.bytes);
  if (check) {
    ClockSum done;
    done.add(local_of(op.agent), op.tick);
    ViewSum& arriving = barrier.arriving;
    if (slot_of(op.agent) == slot)
      arriving.seen.add(local_of(op.agent), op.tick);
    else
      arriving.others.add(slot_of(op.agent), done.take(), Clock());
    op.issuer->block->give_back_unit(op.agent);
  }
  mbarrier_settle(fiber, barrier, op.site);
}

bool Block::tma_advance(Fiber& fiber, uint64_t barrier) {
  for (size_t i = 0; i < tma_queue.size(); ++i) {
    if (tma_queue[i].barrier != barrier) continue;
    const TmaOperation op = tma_queue[i];
    tma_queue.erase(tma_queue.begin() + static_cast<long>(i));
    tma_load_arrives(fiber, op);
    return true;
  }
  return false;
}

// After the last thread has returned: shared memory goes away under what has not been waited for.
void Block::tma_finish() {
  if (!tma_queue.empty()) {
    const TmaOperation& op = tma_queue.front();
    report(
        "missing_wait",
        format(
            "the block ends while the TMA load of thread %u%s may still be writing shared memory: "
            "nothing has waited for it",
            op.issuer->id, site_text(op.site).c_str()));
    return;
  }
  for (auto& [thread, groups] : stores) {
    if (groups.open.empty() && groups.committed.empty()) continue;
    const TmaOperation& op =
        groups.open.empty() ? groups.committed.front().front() : groups.open.front();
    report("missing_wait",
           format("the block ends while the TMA store of thread %u%s may still be reading shared "
                  "memory: %s",
                  thread, site_text(op.site).c_str(),
                  groups.open.empty() ? "a tma_store_wait is missing"
                                      : "it was never committed with tma_store_commit"));
    return;
  }
}

}  // namespace sim

using namespace sim;

namespace {

// Queues an operation that ends at a barrier of `peer`; `examine` checks what it touches.
template <class F>
void enqueue(Block& block, Block& peer, TmaOperation& op, void* bar, const char* what, F examine) {
  Fiber& self = *op.issuer;
  const int line = static_cast<int>(op.site & ~kLineSite);
  MBarrier& barrier = peer.mbarrier_at(self, bar, what, line);
  op.barrier = peer.shared_offset(bar);
  if (block.check) {
    if (!barrier.visible)
      block.fail(self, "missing_fence",
                 format("thread %u: %s%s signals the mbarrier at shared+%zu, whose initialisation "
                        "no fence_mbar_init has made visible to it",
                        self.id, what, site_text(op.site).c_str(), peer.shared_offset(bar)));
    op.agent = block.take_unit(false, self.id, op.tick);
    examine();
  }
  peer.tma_queue.push_back(op);
  block.group.stir();
  if (!barrier.waiting.empty()) peer.tma_advance(self, op.barrier);  // somebody waits already
}

void load_into(Block& block, Block& peer, void* dst, const TlsimTensorMap* map, void* bar,
               const int* coords, int rank, int line, const char* what) {
  Fiber& self = *current;
  TmaOperation op{};
  op.map = *map;
  op.shared = static_cast<unsigned char*>(dst);
  op.bytes = box_bytes(op.map);
  op.issuer = &self;
  op.site = at_line(line);
  memcpy(op.coords, coords, sizeof(int) * static_cast<size_t>(rank));
  check_form(peer, self, op, rank, what);
  ++block.counters.tma_loads;
  count_box(block, op);
  block.counters.tma_bytes += op.bytes;
  enqueue(block, peer, op, bar, what, [&] { check_memory(block, self, op); });
}

void store_from(TmaKind kind, const TlsimTensorMap* map, const void* src, const int* coords,
                int rank, int line, const char* what) {
  Fiber& self = *current;
  Block& block = *self.block;
  TmaOperation op{};
  op.kind = kind;
  op.map = *map;
  op.shared = static_cast<unsigned char*>(const_cast<void*>(src));
  op.bytes = box_bytes(op.map);
  op.issuer = &self;
  op.site = at_line(line);
  memcpy(op.coords, coords, sizeof(int) * static_cast<size_t>(rank));
  check_form(block, self, op, rank, what);
  if (block.check) {
    op.agent = block.take_unit(true, self.id, op.tick);
    check_memory(block, self, op);
  }
  ++block.counters.tma_stores;
  count_box(block, op);
  block.counters.tma_bytes += op.bytes;
  block.stores[self.id].open.push_back(op);
}

}  // namespace

extern "C" {

void tlsim_tma_load(void* dst, const TlsimTensorMap* map, void* bar, const int* coords, int rank,
                    int line) {
  Block& block = *current->block;
  load_into(block, block, dst, map, bar, coords, rank, line, "tma_load");
}

// The box arrives at the same place in each block of the mask, and at the same barrier there.
void tlsim_tma_load_multicast(void* dst, const TlsimTensorMap* map, void* bar, unsigned mask,
                              const int* coords, int rank, int line) {
  Block& block = *current->block;
  const unsigned blocks = block.launch.cluster_blocks;
  if (mask == 0 || blocks < 2 || mask >> blocks)
    block.fail(*current, "tma",
               format("thread %u: tma_load_multicast%s with mask 0x%x in a cluster of %u blocks",
                      current->id, site_text(at_line(line)).c_str(), mask, blocks));
  for (unsigned rank_of = 0; rank_of < blocks; ++rank_of) {
    if (!(mask >> rank_of & 1)) continue;
    Block& peer = block.group.peer(block, rank_of);
    load_into(block, peer, reinterpret_cast<void*>(peer.shared_base + block.shared_offset(dst)),
              map, reinterpret_cast<void*>(peer.shared_base + block.shared_offset(bar)), coords,
              rank, line, "tma_load_multicast");
  }
}

// PTX ISA, cp.async.bulk.shared::cluster.shared::cta: to the same place `dst` in block `rank`.
void tlsim_copy_cluster(void* dst, const void* src, unsigned bytes, void* bar, unsigned rank,
                        int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  if (rank >= block.launch.cluster_blocks || bytes % 16 ||
      (reinterpret_cast<uintptr_t>(dst) | reinterpret_cast<uintptr_t>(src)) % 16 ||
      !block.is_shared(dst) || !block.is_shared(src))
    block.fail(self, "tma",
               format("thread %u: copy_cluster%s of %u bytes to block %u of a cluster of %u: "
                      "places and size must be multiples of 16, in shared memory",
                      self.id, site_text(at_line(line)).c_str(), bytes, rank,
                      block.launch.cluster_blocks));
  Block& peer = block.group.peer(block, rank);
  TmaOperation op{};
  op.kind = TmaKind::kCopy;
  op.shared = reinterpret_cast<unsigned char*>(peer.shared_base + block.shared_offset(dst));
  op.from = static_cast<const unsigned char*>(src);
  op.bytes = bytes;
  op.issuer = &self;
  op.site = at_line(line);
  enqueue(block, peer, op, reinterpret_cast<void*>(peer.shared_base + block.shared_offset(bar)),
          "copy_cluster", [&] {
            const Actor actor = unit_actor(block, self, op);
            block.access(self, src, bytes, false, actor);
            block.access(self, op.shared, bytes, true, actor);
          });
}

void tlsim_tma_store(const TlsimTensorMap* map, const void* src, const int* coords, int rank,
                     int line) {
  store_from(TmaKind::kStore, map, src, coords, rank, line, "tma_store");
}

void tlsim_tma_reduce_add(const TlsimTensorMap* map, const void* src, const int* coords, int rank,
                          int line) {
  store_from(TmaKind::kReduce, map, src, coords, rank, line, "tma_reduce_add");
}

void tlsim_tma_store_commit(int) {
  auto& groups = current->block->stores[current->id];
  groups.committed.push_back(std::move(groups.open));
  groups.open.clear();
}

void tlsim_tma_store_wait(int pending, int) {
  Fiber& self = *current;
  Block& block = *self.block;
  auto& groups = block.stores[self.id];
  ClockSum done;
  while (groups.committed.size() > static_cast<size_t>(pending)) {
    for (const TmaOperation& op : groups.committed.front()) {
      block.move(op);
      if (!block.check) continue;
      done.add(local_of(op.agent), op.tick);
      block.give_back_unit(op.agent);
    }
    groups.committed.pop_front();
  }
  if (!done.empty()) self.view.seen = block.joiner.join(self.view.seen, done.take());
}
}
