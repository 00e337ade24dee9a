// SPDX-License-Identifier: Apache-2.0
// Warpgroup matrix instructions (PTX ISA, wgmma): queued when issued, computed when waited for.
//
// Until then the accumulators on the threads' stacks keep their old values, and reading them, or
// changing an operand, is a fault. Shared operands count as read from the issue to the wait.
#include <string.h>

#include "block.h"
#include "number.h"
#include "swizzle.h"
#include "text.h"

namespace sim {

namespace {

constexpr int kRows = 64, kMaxN = 256, kMaxK = 32, kThreads = 128;

// A shared-memory operand of an instruction: `rows` of M or N by 32 bytes of K, in pieces of 16
// bytes. K-major: piece (row, half of K). M/N-major: piece (k, group of eight rows).
struct Operand {
  size_t start, leading, stride;
  int swizzle;  // bytes
  int rows;
  bool rows_inside;  // M/N-major

  Operand(uint64_t descriptor, int rows, bool transposed) : rows(rows), rows_inside(transposed) {
    static constexpr int kSwizzle[] = {0, 128, 64, 32};
    start = (descriptor & 0x3fff) << 4;
    leading = (descriptor >> 16 & 0x3fff) << 4;
    stride = (descriptor >> 32 & 0x3fff) << 4;
    swizzle = kSwizzle[descriptor >> 62];
  }

  int pieces() const { return rows * 2; }

  size_t piece(int i) const {
    size_t address = start;
    if (!rows_inside) {
      const size_t row = static_cast<size_t>(i) / 2, half = static_cast<size_t>(i) % 2;
      if (swizzle)
        address += row / 8 * stride + row % 8 * static_cast<size_t>(swizzle) + half * 16;
      else
        address += row / 8 * stride + row % 8 * 16 + half * leading;
    } else {
      const size_t groups = static_cast<size_t>(rows) / 8;
      const size_t k = static_cast<size_t>(i) / groups, group = static_cast<size_t>(i) % groups;
      if (swizzle) {
        const size_t per = static_cast<size_t>(swizzle) / 16;  // groups side by side in one atom
        address += group / per * leading + group % per * 16 + k / 8 * stride +
                   k % 8 * static_cast<size_t>(swizzle);
      } else {
        address += group * stride + k / 8 * leading + k % 8 * 16;
      }
    }
    return swizzled(address, swizzle);
  }
};

Operand operand_a(const WgmmaOperation& op) { return Operand(op.desc_a, kRows, op.shape.trans_a); }
Operand operand_b(const WgmmaOperation& op) {
  return Operand(op.desc_b, op.shape.n, op.shape.trans_b);
}

void check_operand(Block& block, Fiber& fiber, const Operand& operand, const char* name,
                   const Actor& actor) {
  for (int i = 0; i < operand.pieces(); ++i) {
    const size_t offset = operand.piece(i);
    if (offset + 16 > block.shared_bytes)
      block.fail(fiber, "out_of_bounds",
                 format("the descriptor of operand %s of wgmma%s reaches shared+%zu, outside of "
                        "shared memory",
                        name, site_text(actor.site).c_str(), offset));
    block.check_shared(fiber, offset, 16, false, actor);
  }
}

// Elements of a shared operand as matrix[row][k] with `row_step` and `k_step` between them.
template <class Element>
void fetch(const Block& block, const Operand& operand, Element* matrix, size_t row_step,
           size_t k_step) {
  constexpr int kPer = 16 / sizeof(Element);
  const auto* arena = reinterpret_cast<const unsigned char*>(block.shared_base);
  const int groups = operand.rows / 8;
  for (int i = 0; i < operand.pieces(); ++i) {
    Element piece[kPer];
    memcpy(piece, arena + operand.piece(i), 16);
    const int row = operand.rows_inside ? i % groups * 8 : i / 2,
              k = operand.rows_inside ? i / groups : i % 2 * kPer;
    Element* to = matrix + static_cast<size_t>(row) * row_step + static_cast<size_t>(k) * k_step;
    const size_t step = operand.rows_inside ? row_step : k_step;
    for (int e = 0; e < kPer; ++e) to[static_cast<size_t>(e) * step] = piece[e];
  }
}

// Operand A from registers: register r of a thread is row g + 8 (r & 1) of its warp's 16 rows, and
// k = q * 4 / e + (r >> 1) * 16 / e, as in mma.sync.
template <class Element>
void fetch_registers(const WgmmaOperation& op, Element (*matrix)[kMaxK]) {
  constexpr int kPer = 4 / sizeof(Element);
  for (int t = 0; t < kThreads; ++t)
    for (int r = 0; r < 4; ++r) {
      const int row = t / 32 * 16 + t % 32 / 4 + 8 * (r & 1),
                k = t % 4 * kPer + (r >> 1) * 4 * kPer;
      memcpy(&matrix[row][k], static_cast<const unsigned char*>(op.a[t]) + 4 * r, 4);
    }
}

// Accumulator d[4 j + i] of a thread: row g + 8 (i >> 1) of its warp's 16 rows, column 8 j + 2 q +
// (i & 1).
template <class Value>
void move_accumulators(const WgmmaOperation& op, Value (*c)[kMaxN], bool to_threads) {
  for (int t = 0; t < kThreads; ++t) {
    auto* d = static_cast<Value*>(op.d[t]);
    for (int h = 0; h < 2; ++h) {
      Value* row = c[t / 32 * 16 + t % 32 / 4 + 8 * h] + t % 4 * 2;
      for (int j = 0; j < op.shape.n / 8; ++j) {
        if (to_threads)
          memcpy(d + 4 * j + 2 * h, row + 8 * j, 2 * sizeof(Value));
        else
          memcpy(row + 8 * j, d + 4 * j + 2 * h, 2 * sizeof(Value));
      }
    }
  }
}

// Scratch matrices of one host thread.
struct Scratch {
  alignas(32) float a[kRows][kMaxK], b[kMaxK][kMaxN], c[kRows][kMaxN];
  uint32_t integers[kRows][kMaxN];
  uint16_t halves[kRows][kMaxN];
  unsigned char raw_a[kRows * kMaxK * 4], raw_b[kMaxN * kMaxK * 4];
};

template <class Element>
void fetch_floats(const Block& block, const WgmmaOperation& op, Scratch& s) {
  auto* raw_a = reinterpret_cast<Element(*)[kMaxK]>(s.raw_a);
  auto* raw_b = reinterpret_cast<Element(*)[kMaxN]>(s.raw_b);
  if (op.a[0])
    fetch_registers(op, raw_a);
  else
    fetch(block, operand_a(op), raw_a[0], kMaxK, 1);
  fetch(block, operand_b(op), raw_b[0], 1, kMaxN);
  for (int i = 0; i < kRows; ++i) to_float(raw_a[i], s.a[i], op.shape.k, op.shape.operand);
  for (int k = 0; k < op.shape.k; ++k) to_float(raw_b[k], s.b[k], op.shape.n, op.shape.operand);
}

void multiply_floats(const Block& block, const WgmmaOperation& op, Scratch& s) {
  const int n = op.shape.n;
  switch (element_bytes(op.shape.operand)) {
    case 1: fetch_floats<uint8_t>(block, op, s); break;
    case 2: fetch_floats<uint16_t>(block, op, s); break;
    default: fetch_floats<float>(block, op, s);
  }
  for (int i = 0; i < kRows; i += 4)
    for (int j = 0; j < n; j += 8) {
      float8 sum[4];
      for (int x = 0; x < 4; ++x) sum[x] = load8(&s.c[i + x][j]);
      for (int k = 0; k < op.shape.k; ++k) {
        const float8 b = load8(&s.b[k][j]);
        for (int x = 0; x < 4; ++x) sum[x] += splat8(s.a[i + x][k]) * b;
      }
      for (int x = 0; x < 4; ++x) store8(&s.c[i + x][j], sum[x]);
    }
}

template <class Element>
void multiply_bytes(const Block& block, const WgmmaOperation& op, Scratch& s) {
  auto* a = reinterpret_cast<Element(*)[kMaxK]>(s.raw_a);
  auto* b = reinterpret_cast<Element(*)[kMaxN]>(s.raw_b);
  if (op.a[0])
    fetch_registers(op, a);
  else
    fetch(block, operand_a(op), a[0], kMaxK, 1);
  fetch(block, operand_b(op), b[0], 1, kMaxN);
  for (int i = 0; i < kRows; ++i)
    for (int k = 0; k < op.shape.k; ++k)
      for (int j = 0; j < op.shape.n; ++j)
        s.integers[i][j] += static_cast<uint32_t>(int{a[i][k]} * int{b[k][j]});
}

// Accumulators of an operation into (or out of) the scratch matrix that is summed in.
void exchange(const WgmmaOperation& op, Scratch& s, bool to_threads) {
  switch (op.shape.accumulator) {
    case TLSIM_F32: return move_accumulators(op, s.c, to_threads);
    case TLSIM_F16:
      if (!to_threads) move_accumulators(op, s.halves, false);
      for (int i = 0; i < kRows; ++i)
        for (int j = 0; j < op.shape.n; ++j) {
          if (to_threads)
            s.halves[i][j] = tlsim_f32_to_f16(s.c[i][j]);
          else
            s.c[i][j] = tlsim_f16_to_f32(s.halves[i][j]);
        }
      if (to_threads) move_accumulators(op, s.halves, true);
      return;
    default: return move_accumulators(op, s.integers, to_threads);
  }
}

bool same_accumulators(const WgmmaOperation& a, const WgmmaOperation& b) {
  return a.shape.n == b.shape.n && a.shape.accumulator == b.shape.accumulator &&
         a.shape.accumulator != TLSIM_F16 && memcmp(a.d, b.d, sizeof a.d) == 0;
}

// Computes the first `count` operations. Runs that add to the same registers stay in the scratch
// matrix.
void execute(Block& block, Warpgroup& group, unsigned count) {
  static thread_local Scratch* scratch =
      new Scratch;  // too large for a fiber's stack; one per host thread
  Scratch& s = *scratch;
  for (unsigned i = 0; i < count; ++i) {
    const WgmmaOperation& op = group.operations[i];
    const bool continues = i > 0 && same_accumulators(group.operations[i - 1], op);
    if (!op.scale_d) {
      memset(s.c, 0, sizeof s.c);
      memset(s.integers, 0, sizeof s.integers);
    } else if (!continues) {
      exchange(op, s, false);
    }
    if (op.shape.operand == TLSIM_S8)
      multiply_bytes<int8_t>(block, op, s);
    else if (op.shape.operand == TLSIM_U8)
      multiply_bytes<uint8_t>(block, op, s);
    else
      multiply_floats(block, op, s);
    if (i + 1 == count || !same_accumulators(op, group.operations[i + 1])) exchange(op, s, true);
    ++block.counters.wgmma;
    const uint64_t flops = 2ull * kRows * static_cast<uint64_t>(op.shape.n * op.shape.k);
    add_flops(block.counters, op.shape.operand, flops);
    block.counters.wgmma_shared_bytes +=
        32ull * static_cast<uint64_t>(op.shape.n + (op.a[0] ? 0 : kRows));
    block.count_event(at_line(op.line), kWgmmaSite, flops);
  }
  group.operations.erase(group.operations.begin(), group.operations.begin() + count);
  group.first += count;
}

// Puts a range into a list, or replaces the same range of an earlier operation.
void put(std::vector<StackRange>& ranges, const StackRange& added) {
  for (StackRange& range : ranges)
    if (range.begin == added.begin && range.end == added.end && range.written == added.written) {
      range = added;
      return;
    }
  ranges.push_back(added);
}

void mark_in_flight(Fiber& fiber, const void* registers, size_t bytes, bool written,
                    const WgmmaOperation& op, unsigned index) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(registers);
  if (begin - fiber.stack >= Stacks::kSize) return;
  const StackRange range = {begin, begin + bytes, at_line(op.line), written, index};
  put(fiber.in_flight, range);
  put(fiber.operands, range);
}

Warpgroup& warpgroup_of(const Fiber& fiber) { return fiber.block->warpgroups[fiber.id / kThreads]; }

}  // namespace
}  // namespace sim

using namespace sim;

extern "C" {

uint64_t tlsim_wgmma_desc(const void* p, unsigned lbo, unsigned sbo, int swizzle) {
  Fiber& self = *current;
  const uint64_t address = self.block->shared_offset(p);
  return (address & 0x3ffff) >> 4 | static_cast<uint64_t>(lbo >> 4) << 16 |
         static_cast<uint64_t>(sbo >> 4) << 32 | static_cast<uint64_t>(swizzle) << 62;
}

void tlsim_wgmma(const TlsimWgmma* shape, void* d, const void* a, uint64_t desc_a, uint64_t desc_b,
                 int scale_d, int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  Warpgroup& group = warpgroup_of(self);
  const unsigned index = self.wgmmas++, lane = self.id % kThreads;
  if (block.check && self.needs_wgmma_fence)
    block.fail(
        self, "missing_fence",
        format("thread %u: wgmma%s without a wgmma_fence since its registers were last written",
               self.id, site_text(at_line(line)).c_str()));
  if (index - group.first >= group.operations.size()) {
    group.operations.emplace_back();
    WgmmaOperation& added = group.operations.back();
    added.shape = *shape;
    added.desc_a = desc_a;
    added.desc_b = desc_b;
    added.scale_d = scale_d;
    added.line = line;
    added.lanes = 0;
    if (!group.agent && block.check)
      group.agent = block.new_agent("the wgmma of warpgroup", self.id / kThreads);
  }
  WgmmaOperation& op = group.operations[index - group.first];
  if (op.line != line || op.desc_a != desc_a || op.desc_b != desc_b || op.scale_d != scale_d)
    block.fail(
        self, "divergence",
        format("thread %u: wgmma%s differs from that of other threads of the warpgroup%s: line, "
               "descriptors and scale_d must be the same",
               self.id, site_text(at_line(line)).c_str(), site_text(at_line(op.line)).c_str()));
  op.d[lane] = d;
  op.a[lane] = a;
  ++op.lanes;
  if (!block.check) return;
  const size_t bytes =
      static_cast<size_t>(shape->n) / 2 * static_cast<size_t>(element_bytes(shape->accumulator));
  mark_in_flight(self, d, bytes, true, op, index);
  if (a) mark_in_flight(self, a, 16, false, op, index);
  if (op.lanes > 1 && self.view.seen.same(op.checked.seen) &&
      self.view.fenced.same(op.checked.fenced))
    return;
  op.checked = self.view;
  Actor actor{group.agent,          self.wgmma_groups + 1, &self.view,      at_line(line),
              block.agent_of(self), self.copy_agent,       self.copies_seen};
  actor.async_proxy = true;
  if (!a) check_operand(block, self, operand_a(op), "A", actor);
  check_operand(block, self, operand_b(op), "B", actor);
}

void tlsim_wgmma_fence(int) { current->needs_wgmma_fence = false; }

void tlsim_wgmma_commit(int) {
  Fiber& self = *current;
  Warpgroup& group = warpgroup_of(self);
  if (++self.wgmma_groups <= group.tick) return;  // another thread was here first
  group.tick = self.wgmma_groups;
  group.groups.push_back(self.wgmmas);
}

void tlsim_wgmma_wait(int pending, int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  Warpgroup& group = warpgroup_of(self);
  group.waiting.push_back(&self);
  if (group.waiting.size() < kThreads) {
    block.wait(self, "wgmma_wait", static_cast<uint64_t>(pending), line);
  } else {
    unsigned end = group.first;
    while (group.groups.size() > static_cast<size_t>(pending)) {
      end = group.groups.front();
      group.groups.pop_front();
    }
    for (unsigned i = 0; i < end - group.first; ++i)
      if (group.operations[i].lanes != kThreads)
        block.fail(self, "divergence",
                   format("wgmma%s was issued by %u of the 128 threads of the warpgroup",
                          site_text(at_line(group.operations[i].line)).c_str(),
                          group.operations[i].lanes));
    execute(block, group, end - group.first);
    if (block.check) {
      ClockSum done;
      done.add(local_of(group.agent), group.tick - static_cast<Tick>(group.groups.size()));
      group.done = done.take();
    }
    block.wake(group.waiting);
    block.scheduler.suspend();
  }
  if (!block.check || !group.agent) return;
  self.view.seen = block.joiner.join(self.view.seen, group.done);
  for (size_t i = 0; i < self.in_flight.size();)
    if (self.in_flight[i].operation < group.first) {
      self.in_flight[i] = self.in_flight.back();
      self.in_flight.pop_back();
    } else {
      ++i;
    }
}
}
