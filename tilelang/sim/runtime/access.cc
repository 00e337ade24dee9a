// SPDX-License-Identifier: Apache-2.0
// Every load and store of a kernel comes through here.
//
// Kernels are compiled with -fsanitize=thread, which calls __tsan_read4(p) before a load of 4
// bytes, and so on. The functions of that interface are ours; the sanitizer's own library is not
// linked.
#include <string.h>

#include "group.h"
#include "launch.h"
#include "text.h"

namespace sim {

namespace {

constexpr size_t kNearby =
    64 << 10;  // how far outside the arena an access still counts as one of shared memory

// What stands for a store that changes nothing: like a read, it must come before the next change.
Actor remembered(Actor actor) {
  actor.remembered = true;
  return actor;
}

std::string range_place(const GlobalRange& range, uintptr_t address) {
  return format("%s%+lld", range.name.c_str(), static_cast<long long>(address - range.begin));
}

}  // namespace

void Block::check_shared(Fiber& fiber, size_t offset, size_t bytes, bool writes, const Actor& actor,
                         bool plain_store) {
  if (offset + bytes > shared_bytes || offset > shared_bytes)
    fail(
        fiber, "out_of_bounds",
        format("%s %s %zu bytes at shared%+lld, outside the %zu bytes of shared memory%s",
               name_of(actor.agent).c_str(), writes ? "writes" : "reads", bytes,
               static_cast<long long>(offset), launch.shared_bytes, site_text(actor.site).c_str()));
  const Conflict found = shadow.shared(offset, bytes, writes, actor);
  if (found.fault == Fault::kNone) return;
  const bool doubtful = plain_store && doubt(fiber, actor, found,
                                             reinterpret_cast<void*>(shared_base + offset), bytes);
  if (doubtful) shadow.shared(offset, bytes, false, remembered(actor));
  conflict(fiber, actor, found, writes, format("shared+%zu", offset + found.byte));
}

// Tensors that the program itself has allocated: what a thread reads must have been written.
void Block::check_defined(const GlobalRange& range, uintptr_t address, size_t bytes, bool writes,
                          const Actor& actor) {
  unsigned char* defined = range.defined + (address - range.begin);
  if (writes) {
    memset(defined, 1, bytes);
  } else if (memchr(defined, 0, bytes) && uninitialised.empty() && !is_unit(actor.agent)) {
    uninitialised =
        format("%s reads %s%s, which nothing has written", name_of(actor.agent).c_str(),
               range_place(range, address).c_str(), site_text(actor.site).c_str());
  }
}

void Block::check_global(Fiber& fiber, uintptr_t address, size_t bytes, bool writes,
                         const Actor& actor, bool plain_store) {
  const GlobalRange* nearest = nullptr;
  uintptr_t distance = ~uintptr_t{0};
  for (const GlobalRange& range : launch.ranges) {
    if (address - range.begin < range.bytes && address + bytes <= range.begin + range.bytes) {
      if (!range.writable) {
        if (writes)
          fail(fiber, "read_only",
               format("%s writes %s, an argument that the kernel must not change%s",
                      name_of(actor.agent).c_str(), range_place(range, address).c_str(),
                      site_text(actor.site).c_str()));
        return;  // nobody writes it: nothing to race with
      }
      if (range.defined) check_defined(range, address, bytes, writes, actor);
      const Conflict found = group.shadow.global(address, bytes, writes, actor);
      if (leaves_footprint()) {
        const Use use = !writes ? Use::kRead : Use::kStore;
        if (actor.atomic)
          note(fiber, address, bytes, Use::kAtomic, actor.site);
        else if (plain_store && bytes <= sizeof fiber.doubt.before)
          remember(fiber, reinterpret_cast<void*>(address), bytes, actor.site);
        else if (!writes || plain_store)
          note(fiber, address, bytes, use, actor.site);
      }
      if (found.fault == Fault::kNone) return;
      const bool doubtful =
          plain_store && doubt(fiber, actor, found, reinterpret_cast<void*>(address), bytes);
      if (doubtful) group.shadow.global(address, bytes, false, remembered(actor));
      conflict(fiber, actor, found, writes, range_place(range, address + found.byte));
      return;
    }
    const uintptr_t end = range.begin + range.bytes;  // an access may begin inside and end outside
    const uintptr_t away = address < range.begin ? range.begin - address
                           : address < end       ? 0
                                                 : address - end;
    if (away < distance) distance = away, nearest = &range;
  }
  if (!writes && address - launch.code_begin < launch.code_end - launch.code_begin)
    return;  // a constant table
  std::string where = format("address 0x%llx", static_cast<unsigned long long>(address));
  if (nearest && distance < (64 << 20))
    where = range_place(*nearest, address) +
            format(", outside the %zu bytes of %s", nearest->bytes, nearest->name.c_str());
  fail(fiber, "out_of_bounds",
       format("%s %s %zu bytes at %s%s", name_of(actor.agent).c_str(), writes ? "writes" : "reads",
              bytes, where.c_str(), site_text(actor.site).c_str()));
}

bool Block::doubt(Fiber& fiber, const Actor& actor, const Conflict& found, const void* p,
                  size_t bytes) {
  const bool unordered =
      found.fault == Fault::kWriteAfterWrite || found.fault == Fault::kWriteAfterRead;
  if (!unordered || actor.atomic || is_unit(found.other) || bytes > sizeof fiber.doubt.before)
    return false;
  const bool noted = fiber.doubt.noted && fiber.doubt.place == p;
  remember(fiber, p, bytes, actor.site);
  fiber.doubt.noted = noted;
  return true;
}

// Keeps what a store is about to replace.
void Block::remember(Fiber& fiber, const void* p, size_t bytes, Site site) {
  fiber.doubt.place = static_cast<const unsigned char*>(p);
  fiber.doubt.bytes = bytes;
  fiber.doubt.site = site;
  fiber.doubt.noted = true;
  memcpy(fiber.doubt.before, p, bytes);
}

void Block::settle(Fiber& fiber) {
  StoreInDoubt& doubt = fiber.doubt;
  const unsigned char* place = doubt.place;
  doubt.place = nullptr;
  const bool changes = memcmp(place, doubt.before, doubt.bytes) != 0;
  if (changes && !doubt.verdict.empty()) fail(fiber, "race", doubt.verdict);
  doubt.verdict.clear();
  if (!doubt.noted) return;
  doubt.noted = false;
  for (size_t i = 0; i < doubt.bytes;) {  // runs of bytes that the store changed, or did not
    const bool changed = place[i] != doubt.before[i];
    size_t end = changes ? i + 1 : doubt.bytes;
    while (end < doubt.bytes && (place[end] != doubt.before[end]) == changed) ++end;
    note(fiber, reinterpret_cast<uintptr_t>(place + i), end - i,
         changed ? Use::kStore : Use::kSilentStore, doubt.site);
    i = end;
  }
}

bool Block::leaves_footprint() const { return launch.groups > 1; }

void Block::note(const Fiber& fiber, uintptr_t address, size_t bytes, Use use, Site site) {
  const unsigned linear = index.x + launch.grid.x * (index.y + launch.grid.y * index.z);
  group.footprint.note(address, bytes, use, {site, fiber.id, linear});
}

void Block::access(Fiber& fiber, const void* p, size_t bytes, bool writes, const Actor& actor,
                   bool plain_store) {
  const size_t offset = shared_offset(p);
  if (offset < shared_bytes || offset + kNearby < kNearby || offset < shared_bytes + kNearby)
    check_shared(fiber, offset, bytes, writes, actor, plain_store);
  else if (Block* peer = launch.cluster_blocks > 1 ? group.block_of_shared(p) : nullptr)
    check_peer(fiber, *peer, p, bytes, writes, actor);
  else
    check_global(fiber, reinterpret_cast<uintptr_t>(p), bytes, writes, actor, plain_store);
}

// An access of the shared memory of another block of the cluster.
void Block::check_peer(Fiber& fiber, Block& peer, const void* p, size_t bytes, bool writes,
                       const Actor& actor) {
  const size_t offset = peer.shared_offset(p);
  const std::string place = format("shared+%zu of ", offset) + group.block_name(peer.slot);
  if (peer.ended)
    fail(fiber, "out_of_bounds",
         format("%s %s %s%s, which has ended: a cluster_wait must keep it alive",
                name_of(actor.agent).c_str(), writes ? "writes" : "reads", place.c_str(),
                site_text(actor.site).c_str()));
  const Conflict found = peer.shadow.shared(offset, bytes, writes, actor);
  if (found.fault != Fault::kNone) conflict(fiber, actor, found, writes, place);
}

// Registers of wgmmas: touched while one is unfinished, or changed before the next.
static void check_registers(Fiber& fiber, uintptr_t address, size_t bytes, bool writes, Site site) {
  if (writes)
    for (const StackRange& range : fiber.operands)
      if (address < range.end && address + bytes > range.begin) fiber.needs_wgmma_fence = true;
  for (const StackRange& range : fiber.in_flight) {
    if (address + bytes <= range.begin || address >= range.end || (!writes && !range.written))
      continue;
    fiber.block->fail(
        fiber, "missing_wait",
        format(
            "thread %u %s a register%s that the unfinished wgmma%s %s: wgmma_wait must come first",
            fiber.id, writes ? "changes" : "reads", site_text(site).c_str(),
            site_text(range.site).c_str(), range.written ? "writes" : "reads"));
  }
}

static inline void on_access(const void* p, size_t bytes, bool writes, const void* code,
                             size_t alignment = 1) {
  Fiber* fiber = current;
  if (!fiber) return;
  Block& block = *fiber->block;
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  if (!block.check && !block.count_traffic) return;
  if (__builtin_expect(fiber->doubt.place != nullptr, 0)) block.settle(*fiber);
  const Site site =
      static_cast<Site>(reinterpret_cast<uintptr_t>(code) - block.launch.code_begin) & ~kLineSite;
  if (address - fiber->stack < Stacks::kSize) {
    if (__builtin_expect(!fiber->operands.empty(), 0))
      check_registers(*fiber, address, bytes, writes, site);
    return;
  }
  ++block.counters.accesses;
  if (writes) block.group.stir();
  if (block.count_traffic) block.count_access(*fiber, p, bytes, writes, site);
  if (!block.check) return;
  if (__builtin_expect((address & (alignment - 1)) != 0, 0))
    block.fail(
        *fiber, "misaligned",
        format("thread %u %s %zu bytes at an address that is not a multiple of %zu%s", fiber->id,
               writes ? "writes" : "reads", bytes, alignment, site_text(site).c_str()));
  block.access(*fiber, p, bytes, writes, block.actor_of(*fiber, site), writes);
}

// A volatile access is how kernels wait for each other: it does not race, and others must run.
static void on_volatile(const void* p, size_t bytes, bool writes, const void* code) {
  Fiber* fiber = current;
  if (!fiber) return;
  Block& block = *fiber->block;
  const uintptr_t address = reinterpret_cast<uintptr_t>(p);
  if (address - fiber->stack < Stacks::kSize) return;
  const Site site =
      static_cast<Site>(reinterpret_cast<uintptr_t>(code) - block.launch.code_begin) & ~kLineSite;
  if (block.check) {
    Actor actor = block.actor_of(*fiber, site);
    actor.atomic = true;
    block.access(*fiber, p, bytes, writes, actor);
  }
  if (writes) return block.group.atomic_write(*fiber, p, false);
  block.poll(*fiber, site);
  block.group.atomic_read(*fiber, p);
}

void Block::poll(Fiber& fiber, Site site) {
  if (++polls % kPollsPerLook == 0 && out_of_time(launch))
    fail(fiber, "timeout",
         format("thread %u still polls memory after %.1f s", fiber.id, launch.time_limit));
  fiber.waits_for = "a look at memory that nobody changes";
  fiber.wait_detail = kNoDetail;
  fiber.wait_site = site;
  if (group.still()) {
    group.describe_deadlock(*this);
    scheduler.abandon();
  }
  scheduler.yield();
  fiber.waits_for = nullptr;
}

}  // namespace sim

#define CODE __builtin_return_address(0)
#define TLSIM_ACCESS(n)                                                                    \
  void __tsan_read##n(void* p) { sim::on_access(p, n, false, CODE, n); }                   \
  void __tsan_write##n(void* p) { sim::on_access(p, n, true, CODE, n); }                   \
  void __tsan_unaligned_read##n(void* p) { sim::on_access(p, n, false, CODE); }            \
  void __tsan_unaligned_write##n(void* p) { sim::on_access(p, n, true, CODE); }            \
  void __tsan_volatile_read##n(void* p) { sim::on_volatile(p, n, false, CODE); }           \
  void __tsan_volatile_write##n(void* p) { sim::on_volatile(p, n, true, CODE); }           \
  void __tsan_unaligned_volatile_read##n(void* p) { sim::on_volatile(p, n, false, CODE); } \
  void __tsan_unaligned_volatile_write##n(void* p) { sim::on_volatile(p, n, true, CODE); }

extern "C" {
TLSIM_ACCESS(1)
TLSIM_ACCESS(2)
TLSIM_ACCESS(4)
TLSIM_ACCESS(8)
TLSIM_ACCESS(16)

void __tsan_read_range(void* p, size_t n) { sim::on_access(p, n, false, CODE); }
void __tsan_write_range(void* p, size_t n) { sim::on_access(p, n, true, CODE); }

void* __tsan_memcpy(void* dst, const void* src, size_t n) {
  sim::on_access(src, n, false, CODE);
  sim::on_access(dst, n, true, CODE);
  return memcpy(dst, src, n);
}
void* __tsan_memmove(void* dst, const void* src, size_t n) {
  sim::on_access(src, n, false, CODE);
  sim::on_access(dst, n, true, CODE);
  return memmove(dst, src, n);
}
void* __tsan_memset(void* dst, int value, size_t n) {
  sim::on_access(dst, n, true, CODE);
  return memset(dst, value, n);
}

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void*, void*) {}
void __tsan_vptr_read(void*) {}
}
