// SPDX-License-Identifier: Apache-2.0
// Running one block: its fibers, its end, and what is said when something is wrong.
#include "block.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "group.h"
#include "launch.h"
#include "text.h"

namespace sim {

thread_local Fiber* current __attribute__((tls_model("initial-exec"))) = nullptr;

// ---- scheduler

void Scheduler::ready(Fiber* fiber) {
  fiber->next_ready = nullptr;
  (head_ ? tail_->next_ready : head_) = fiber;
  tail_ = fiber;
}

Fiber* Scheduler::pop() {
  Fiber* fiber = head_;
  if (fiber) head_ = fiber->next_ready;
  return fiber;
}

void Scheduler::run() {
  if (Fiber* fiber = pop()) {
    current = fiber;
    switch_context(main_, fiber->context);
  }
  current = nullptr;
}

void Scheduler::suspend() {
  Fiber* self = current;
  if (self->doubt.place) self->block->settle(*self);
  Fiber* next = pop();
  if (next == self) return;
  current = next;
  switch_context(self->context, next ? next->context : main_);
}

void Scheduler::yield() {
  ready(current);
  suspend();
}

void Scheduler::abandon() {
  head_ = nullptr;
  switch_context(current->context, main_);
}

void Scheduler::leave() { switch_context(current->context, main_); }

// ---- block

// Bytes around the arena that belong to nothing else, so that a stray access is seen as one of
// shared memory.
constexpr size_t kMargin = 64 << 10;
constexpr size_t kAlignment = 1024;  // of dynamic shared memory: what a 128-byte swizzle needs

Block::Block(Group& group)
    : group(group), launch(group.launch), scheduler(group.scheduler) {
  const unsigned count = launch.block.x * launch.block.y * launch.block.z;
  check = launch.check;
  count_traffic = launch.count_traffic;
  threads.resize(count);
  stacks.reserve(count);
  warps.resize((count + 31) / 32);
  warpgroups.resize((count + 127) / 128);
  shared_memory.reset(
      new unsigned char[launch.shared_bytes + kStaticShared + 2 * kMargin + kAlignment]);
  const uintptr_t begin = reinterpret_cast<uintptr_t>(shared_memory.get()) + kMargin;
  shared_base = (begin + kAlignment - 1) / kAlignment * kAlignment;
}

void Block::prepare_threads() {
  const TlsimDim3 shape = launch.block;
  for (unsigned i = 0; i < thread_count(); ++i) {
    Fiber& f = threads[i];
    f.block = this;
    f.index = {i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y};
    f.id = i;
    f.lane = i % 32;
    f.warp = i / 32;
    f.done = false;
    f.tick = 1;
    f.view = View{};
    f.waits_for = nullptr;
    f.waits_on = nullptr;
    f.doubt.place = nullptr;
    f.copy_agent = 0;
    f.copy_tick = 1;
    f.copies_seen = 0;
    f.released = f.acquirable = Past();
    f.cluster_arrived = false;
    f.open_copies.clear();
    f.copy_groups.clear();
    f.in_flight.clear();
    f.operands.clear();
    f.wgmmas = 0;
    f.wgmma_groups = 0;
    f.needs_wgmma_fence = true;
    unsigned char* base = stacks.base(i);
    f.stack = reinterpret_cast<uintptr_t>(base);
    // Stacks start at different cache sets: neighbours run the same code at the same depth.
    prepare(f.context, base, Stacks::kSize - (i % 61) * 192, thread_main);
    scheduler.ready(&f);
  }
}

void Block::start(TlsimDim3 block_index, unsigned block_slot, unsigned block_rank) {
  index = block_index;
  slot = block_slot;
  rank = block_rank;
  error.clear();
  uninitialised.clear();
  failed = ended = finished = false;
  alive = thread_count();
  units.clear();
  static_shared.clear();
  shared_bytes = launch.shared_bytes;
  for (size_t w = 0; w < warps.size(); ++w) {
    const unsigned lanes = std::min(32u, thread_count() - static_cast<unsigned>(w) * 32);
    warps[w].alive = lanes == 32 ? ~0u : (1u << lanes) - 1;
    warps[w].open.clear();
  }
  for (Barrier& barrier : barriers) barrier = Barrier{};
  mbarriers.clear();
  copy_arrivals.clear();
  tma_queue.clear();
  tma_units.clear();
  stores.clear();
  for (Warpgroup& group : warpgroups) group = Warpgroup{};
  joiner.clear();
  // All bits set is a NaN in every floating-point type: data that nobody wrote shows in the result.
  memset(reinterpret_cast<void*>(shared_base), 0xFF, shared_bytes);
  if (check) shadow.reset(shared_bytes);
  counters.threads += thread_count();
  prepare_threads();
}

void Block::finish() {
  finished = true;
  if (!uninitialised.empty()) report("uninitialised", uninitialised);
  if (!failed) tma_finish();
  if (count_traffic) close_groups();
}

void Block::drop_threads() {
  for (Fiber& f : threads) {
    f.view = View{};
    f.released = f.acquirable = Past();
  }
  joiner.clear();
}

void Block::thread_main() {
  Fiber& self = *current;
  Block& block = *self.block;
  block.launch.entry(block.launch.args);
  if (self.doubt.place) block.settle(self);
  self.done = true;
  --block.alive;
  block.warps[self.warp].alive &= ~(1u << self.lane);
  block.warp_exit(self);
  block.barrier_exit(self);
  block.group.thread_ended(self);
  if (block.alive == 0) block.group.block_ended(block);
  block.scheduler.suspend();
  __builtin_unreachable();
}

void Block::wait(Fiber& fiber, const char* what, uint64_t detail, int line) {
  fiber.waits_for = what;
  fiber.wait_detail = detail;
  fiber.wait_site = at_line(line);
  scheduler.suspend();
  fiber.waits_for = nullptr;
}

void Block::wake(std::vector<Fiber*>& waiting) {
  for (Fiber* fiber : waiting) scheduler.ready(fiber);
  waiting.clear();
}

void Block::release(Fiber& fiber, ViewSum& into) {
  if (!check) return;
  into.add(fiber.view);
  into.seen.add(fiber.id, fiber.tick++);
  if (fiber.copies_seen) into.seen.add(local_of(fiber.copy_agent), fiber.copies_seen);
}

Past Block::release(Fiber& fiber) {
  ViewSum sum;
  release(fiber, sum);
  return past_of(sum.take(), slot);
}

// ---- agents and reports

Agent Block::new_agent(const char* what, unsigned owner) {
  units.push_back({what, owner});
  const size_t local = thread_count() + units.size() - 1;
  if (local >= kLocalAgents) fail(*current, "unsupported", "too many asynchronous units at once");
  return slot << kLocalBits | static_cast<Agent>(local);
}

std::string Block::name_of(Agent agent) const {
  const unsigned local = local_of(agent);
  if (slot_of(agent) != slot)
    return format(local < thread_count() ? "thread %u of " : "unit %u of ", local) +
           group.block_name(slot_of(agent));
  if (local < thread_count()) return format("thread %u", local);
  const AgentInfo& unit = units[local - thread_count()];
  return format("%s %u", unit.what, unit.owner);
}

void Block::report(const char* kind, const std::string& text) {
  failed = true;
  error_kind = kind;
  error = text + format(" [block (%u, %u, %u)]", index.x, index.y, index.z);
}

void Block::fail(const Fiber&, const char* kind, const std::string& text) {
  const bool explains = !strcmp(kind, "race") || !strcmp(kind, "missing_wait");
  if (!uninitialised.empty() && !explains) {
    report("uninitialised", uninitialised);
    scheduler.abandon();
  }
  report(kind, text);
  scheduler.abandon();
  __builtin_unreachable();
}

void Block::conflict(Fiber& fiber, const Actor& actor, const Conflict& found, bool writes,
                     const std::string& place) {
  const std::string who = name_of(actor.agent), other = name_of(found.other);
  const std::string here = site_text(actor.site), there = site_text(found.site);
  if (found.fault == Fault::kUninitialised) {
    // Goes on: a write that comes later and is unordered explains more than this does.
    if (uninitialised.empty())
      uninitialised = format("%s reads %s%s, which nothing has written", who.c_str(), place.c_str(),
                             here.c_str());
    return;
  }
  if (found.fault == Fault::kNoProxyFence)
    fail(
        fiber, "missing_fence",
        format(
            "%s reads %s%s through the async proxy; %s wrote it%s through the generic proxy and no "
            "fence_proxy_async came between",
            who.c_str(), place.c_str(), here.c_str(), other.c_str(), there.c_str()));
  const bool after_read = found.fault == Fault::kWriteAfterRead;
  if (is_unit(found.other))
    fail(fiber, "missing_wait",
         format("%s %s %s%s, but %s%s may still be %s it: nothing waits for that in between",
                who.c_str(), writes ? "writes" : "reads", place.c_str(), here.c_str(),
                other.c_str(), there.c_str(), after_read ? "reading" : "writing"));
  const std::string race =
      format("data race on %s: %s %s it%s, and %s %s it%s, with nothing that orders the two",
             place.c_str(), who.c_str(), writes ? "writes" : "reads", here.c_str(), other.c_str(),
             after_read ? "read" : "wrote", there.c_str());
  if (!fiber.doubt.place) fail(fiber, "race", race);
  fiber.doubt.verdict = race;
}

// Runs of threads that wait for the same thing.
std::vector<Block::Waiters> Block::waiters() const {
  std::vector<Waiters> out;
  for (const Fiber& fiber : threads) {
    if (fiber.done || !fiber.waits_for) continue;
    std::string what = fiber.waits_for;
    if (fiber.wait_detail != kNoDetail) what += format(" %" PRIu64, fiber.wait_detail);
    what += site_text(fiber.wait_site);
    if (const MBarrier* barrier = fiber.waits_on)
      what += format(" (phase %u lacks %u arrivals and %lld bytes)", barrier->phase,
                     barrier->pending, static_cast<long long>(barrier->bytes));
    if (!out.empty() && out.back().what == what)
      out.back().last = fiber.id;
    else
      out.push_back({what, fiber.id, fiber.id});
  }
  return out;
}

void* Block::place_static(const char* name, size_t bytes, size_t alignment) {
  auto [entry, added] = static_shared.try_emplace(name, 0);
  if (added) {
    const size_t before = shared_bytes;
    entry->second = (shared_bytes + alignment - 1) / alignment * alignment;
    shared_bytes = entry->second + bytes;
    if (shared_bytes > launch.shared_bytes + kStaticShared)
      fail(*current, "shared_memory", "static shared arrays exceed 48 KiB");
    memset(reinterpret_cast<void*>(shared_base + before), 0xFF, shared_bytes - before);
    if (check) shadow.grow(shared_bytes);
  }
  return reinterpret_cast<void*>(shared_base + entry->second);
}

}  // namespace sim

// ---- what a kernel asks about itself

extern "C" {
TlsimDim3 tlsim_thread_idx() { return sim::current->index; }
TlsimDim3 tlsim_block_idx() { return sim::current->block->index; }
TlsimDim3 tlsim_block_dim() { return sim::current->block->launch.block; }
TlsimDim3 tlsim_grid_dim() { return sim::current->block->launch.grid; }
unsigned char* tlsim_shared() {
  return reinterpret_cast<unsigned char*>(sim::current->block->shared_base);
}

void* tlsim_static_shared(const char* name, size_t bytes, size_t alignment) {
  return sim::current->block->place_static(name, bytes, alignment);
}

void tlsim_trap(int line) {
  sim::Fiber& self = *sim::current;
  self.block->fail(self, "trap",
                   sim::format("thread %u trapped", self.id) + sim::site_text(sim::at_line(line)));
}

void tlsim_assert(const char* message, int line) {
  sim::Fiber& self = *sim::current;
  self.block->fail(self, "assert",
                   sim::format("thread %u: assertion failed: %s", self.id, message) +
                       sim::site_text(sim::at_line(line)));
}

void tlsim_print(const char* format, ...) {
  va_list args;
  va_start(args, format);
  vprintf(format, args);
  va_end(args);
  fflush(stdout);
}
}
