// SPDX-License-Identifier: Apache-2.0
// Warp collectives: every lane leaves its operands, the last one computes for all.
//
// Only sync_warp orders memory accesses (PTX ISA, bar.warp.sync). A shuffle or a matrix load does
// not, though the lanes meet in it.
#include "collective.h"
#include "text.h"

namespace sim {

const char* op_name(int op) {
  static const char* const kNames[] = {"sync_warp", "shfl_idx", "shfl_xor", "shfl_up", "shfl_down",
                                       "elect_one", "ldmatrix", "stmatrix", "mma",       "ballot",
                                       "match_any"};
  return kNames[op];
}

namespace {

Collective& find_or_open(Fiber& self, Warp& warp, unsigned mask, int op, int line) {
  Block& block = *self.block;
  for (auto& open : warp.open) {
    if (!(open->mask & mask & warp.alive)) continue;
    if (open->mask == mask && open->op == op && open->line == line) return *open;
    block.fail(self, "divergence",
               format("lane %u of warp %u is at %s%s while other lanes wait at %s%s: all lanes of "
                      "the mask must "
                      "reach the same one",
                      self.lane, self.warp, op_name(op), site_text(at_line(line)).c_str(),
                      op_name(open->op), site_text(at_line(open->line)).c_str()));
  }
  warp.open.push_back(warp.spare ? std::move(warp.spare) : std::make_unique<Collective>());
  Collective& added = *warp.open.back();
  added.mask = mask;
  added.arrived = 0;
  added.op = op;
  added.line = line;
  return added;
}

void finish_sync(Block& block, Warp& warp, unsigned warp_index, Collective& collective) {
  (void)warp;
  if (collective.op != kSyncWarp || !block.check) return;
  const View view = collective.views.take();
  for (unsigned lane = 0; lane < 32; ++lane)
    if (collective.arrived >> lane & 1) {
      Fiber& fiber = block.threads[warp_index * 32 + lane];
      fiber.view.seen = view.seen;
      fiber.view.others = view.others;
      block.joiner.join(fiber.view, View{{}, view.fenced, {}});
    }
}

}  // namespace

void meet(Fiber& self, unsigned mask, int op, int line, const LaneOperand& operand,
          void (*compute)(Block&, Collective&, unsigned)) {
  Block& block = *self.block;
  Warp& warp = block.warps[self.warp];
  mask &= warp.alive;  // lanes that have returned are not waited for
  if (!(mask >> self.lane & 1))
    block.fail(self, "divergence",
               format("lane %u calls %s%s with a mask that leaves it out", self.lane, op_name(op),
                      site_text(at_line(line)).c_str()));
  Collective& collective = find_or_open(self, warp, mask, op, line);
  collective.arrived |= 1u << self.lane;
  collective.lane[self.lane] = operand;
  collective.compute = compute;
  if (op == kSyncWarp) block.release(self, collective.views);
  if (collective.arrived != mask) {
    block.wait(self, op_name(op), kNoDetail, line);
    return;
  }
  complete(block, self.warp, collective, &self);
}

void complete(Block& block, unsigned warp_index, Collective& collective, const Fiber* self) {
  Warp& warp = block.warps[warp_index];
  if (collective.compute) collective.compute(block, collective, warp_index);
  finish_sync(block, warp, warp_index, collective);
  for (unsigned lane = 0; lane < 32; ++lane) {
    Fiber* fiber = &block.threads[std::min(warp_index * 32 + lane, block.thread_count() - 1)];
    if (collective.arrived >> lane & 1 && fiber != self) block.scheduler.ready(fiber);
  }
  for (size_t i = 0; i < warp.open.size(); ++i)
    if (warp.open[i].get() == &collective) {
      warp.spare = std::move(warp.open[i]);
      warp.open.erase(warp.open.begin() + static_cast<long>(i));
      break;
    }
}

// The others may have been waiting for a lane that returns instead.
void Block::warp_exit(Fiber& fiber) {
  Warp& warp = warps[fiber.warp];
  for (size_t i = 0; i < warp.open.size();) {
    Collective& open = *warp.open[i];
    open.mask &= warp.alive;
    if (open.mask && open.arrived == open.mask)
      complete(*this, fiber.warp, open, nullptr);
    else
      ++i;
  }
}

// ---- shuffles

namespace {

// PTX ISA, shfl.sync: the segment of `width` lanes is kept; a source outside of it, or a lane that
// does not take part, leaves the value as it is.
void shuffle(Block&, Collective& collective, unsigned) {
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(collective.arrived >> lane & 1)) continue;
    const LaneOperand& operand = collective.lane[lane];
    const int width = static_cast<int>(operand.value >> 32),
              delta = static_cast<int>(static_cast<uint32_t>(operand.value));
    const int self = static_cast<int>(lane), first = self & -width, last = first + width - 1;
    int source = self;
    switch (collective.op - kShuffle) {
      case TLSIM_SHFL_IDX: source = first + (delta & (width - 1)); break;
      case TLSIM_SHFL_XOR: source = self ^ delta; break;
      case TLSIM_SHFL_UP: source = self - delta; break;
      default: source = self + delta;
    }
    const bool inside =
        source >= (collective.op - kShuffle == TLSIM_SHFL_UP ? first : 0) && source <= last;
    const unsigned from =
        inside && collective.arrived >> source & 1 ? static_cast<unsigned>(source) : lane;
    memcpy(operand.out, collective.lane[from].in, 8);
  }
}

// PTX ISA, vote.sync.ballot and match.sync.any: lanes that do not take part count as 0.
void vote(Block&, Collective& collective, unsigned) {
  const bool match = collective.op == kMatch;
  for (unsigned lane = 0; lane < 32; ++lane) {
    if (!(collective.arrived >> lane & 1)) continue;
    unsigned bits = 0;
    for (unsigned other = 0; other < 32; ++other)
      if (collective.arrived >> other & 1) {
        const uint64_t theirs = collective.lane[other].value;
        bits |= static_cast<unsigned>(match ? theirs == collective.lane[lane].value : theirs != 0)
                << other;
      }
    memcpy(collective.lane[lane].out, &bits, sizeof bits);
  }
}

}  // namespace
}  // namespace sim

using namespace sim;

extern "C" {

void tlsim_sync_warp(unsigned mask, int line) {
  Fiber& self = *current;
  ++self.block->counters.warp_syncs;
  meet(self, mask, kSyncWarp, line, {}, nullptr);
}

uint64_t tlsim_shuffle(uint64_t value, int mode, int operand, int width, int line) {
  Fiber& self = *current;
  if (width < 1 || width > 32 || (width & (width - 1)))
    self.block->fail(self, "divergence",
                     format("a shuffle of width %d%s: it must be a power of two up to 32", width,
                            site_text(at_line(line)).c_str()));
  uint64_t result = value;
  ++self.block->counters.shuffles;
  self.block->count_event(at_line(line), kShuffleSite, sizeof value);
  const uint64_t packed = static_cast<uint64_t>(width) << 32 | static_cast<uint32_t>(operand);
  meet(self, ~0u, kShuffle + mode, line, LaneOperand{&value, &result, nullptr, packed}, shuffle);
  return result;
}

unsigned tlsim_vote(uint64_t value, int match, int line) {
  Fiber& self = *current;
  unsigned result = 0;
  ++self.block->counters.shuffles;
  const LaneOperand operand{&value, &result, nullptr, value};
  meet(self, ~0u, match ? kMatch : kBallot, line, operand, vote);
  return result;
}

int tlsim_elect_one(int line) {
  Fiber& self = *current;
  int elected = 0;
  auto elect = [](Block&, Collective& collective, unsigned) {
    for (unsigned lane = 0; lane < 32; ++lane)
      if (collective.arrived >> lane & 1) {
        *static_cast<int*>(collective.lane[lane].out) = 1;
        return;
      }
  };
  meet(self, ~0u, kElect, line, LaneOperand{nullptr, &elected, nullptr, 0}, elect);
  return elected;
}
}
