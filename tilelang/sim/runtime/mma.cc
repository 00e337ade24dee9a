// SPDX-License-Identifier: Apache-2.0
// Warp matrix instructions: mma.sync, ldmatrix, stmatrix (PTX ISA, warp-level matrix instructions).
//
// In all fragments g = lane / 4 and q = lane % 4. A register of 4 bytes holds 4 / e elements along
// k.
//   A (m x k): register r is row g + 8 (r & 1), k = q * 4 / e + (r >> 1) * k / 2
//   B (k x n): register r is column g, k = q * 4 / e + r * k / 2
//   C (m x n): elements 0, 1 are row g, columns 2 q and 2 q + 1; elements 2, 3 the same of row g +
//   8
#include "collective.h"
#include "number.h"
#include "text.h"

namespace sim {

namespace {

constexpr int kM = 16, kN = 8, kDepth = 32;

// The operands of all lanes as matrices of raw elements; B transposed, so that rows lie along k.
template <class Element>
void gather(const Collective& collective, int k, Element (*a)[kDepth], Element (*b)[kDepth]) {
  constexpr int kPer = 4 / sizeof(Element);
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, q = lane % 4;
    const auto* a_regs = static_cast<const unsigned char*>(collective.lane[lane].in);
    const auto* b_regs = static_cast<const unsigned char*>(collective.lane[lane].more);
    for (int r = 0; r < 4; ++r)
      memcpy(&a[g + 8 * (r & 1)][q * kPer + (r >> 1) * k / 2], a_regs + 4 * r, 4);
    for (int r = 0; r < 2; ++r) memcpy(&b[g][q * kPer + r * k / 2], b_regs + 4 * r, 4);
  }
}

template <class Value>
void move_accumulators(Collective& collective, Value (*c)[kN], bool to_lanes) {
  for (int lane = 0; lane < 32; ++lane) {
    auto* regs = static_cast<Value*>(collective.lane[lane].out);
    for (int i = 0; i < 4; i += 2) {
      Value* place = &c[lane / 4 + 4 * i][lane % 4 * 2];
      if (to_lanes)
        memcpy(regs + i, place, 2 * sizeof(Value));
      else
        memcpy(place, regs + i, 2 * sizeof(Value));
    }
  }
}

// Raw: an integer of the operands' size, or float.
template <class Raw>
void gather_floats(Collective& collective, const TlsimMma& shape, float (*a)[kDepth],
                   float (*b)[kDepth]) {
  Raw raw_a[kM][kDepth], raw_b[kN][kDepth];
  gather(collective, shape.k, raw_a, raw_b);
  for (int i = 0; i < kM; ++i) to_float(raw_a[i], a[i], shape.k, shape.operand);
  for (int i = 0; i < kN; ++i) to_float(raw_b[i], b[i], shape.k, shape.operand);
}

void multiply_floats(Collective& collective, const TlsimMma& shape) {
  alignas(32) float a[kM][kDepth], b[kN][kDepth], by_k[kDepth][kN], c[kM][kN];
  switch (element_bytes(shape.operand)) {
    case 1: gather_floats<uint8_t>(collective, shape, a, b); break;
    case 2: gather_floats<uint16_t>(collective, shape, a, b); break;
    default: gather_floats<float>(collective, shape, a, b);
  }
  for (int n = 0; n < kN; ++n)
    for (int k = 0; k < shape.k; ++k) by_k[k][n] = b[n][k];
  uint16_t narrow[kM][kN];
  if (shape.accumulator == TLSIM_F16) {
    move_accumulators(collective, narrow, false);
    for (int i = 0; i < kM; ++i) to_float(narrow[i], c[i], kN, TLSIM_F16);
  } else {
    move_accumulators(collective, c, false);
  }
  for (int i = 0; i < kM; ++i) {
    float8 sum = load8(c[i]);
    for (int k = 0; k < shape.k; ++k) sum += splat8(a[i][k]) * load8(by_k[k]);
    store8(c[i], sum);
  }
  if (shape.accumulator == TLSIM_F16) {
    for (int i = 0; i < kM; ++i)
      for (int n = 0; n < kN; ++n) narrow[i][n] = tlsim_f32_to_f16(c[i][n]);
    move_accumulators(collective, narrow, true);
  } else {
    move_accumulators(collective, c, true);
  }
}

template <class Element>
void multiply_bytes(Collective& collective, const TlsimMma& shape) {
  Element a[kM][kDepth], b[kN][kDepth];
  uint32_t c[kM][kN];  // wraps
  gather(collective, shape.k, a, b);
  move_accumulators(collective, c, false);
  for (int i = 0; i < kM; ++i)
    for (int n = 0; n < kN; ++n)
      for (int k = 0; k < shape.k; ++k)
        c[i][n] += static_cast<uint32_t>(int{a[i][k]} * int{b[n][k]});
  move_accumulators(collective, c, true);
}

// m8n8k4: A is (row g, k q), B is (k q, column g), C is (row g, columns 2 q and 2 q + 1).
void multiply_doubles(Collective& collective) {
  double a[8][4], b[4][8];
  for (int lane = 0; lane < 32; ++lane) {
    memcpy(&a[lane / 4][lane % 4], collective.lane[lane].in, 8);
    memcpy(&b[lane % 4][lane / 4], collective.lane[lane].more, 8);
  }
  for (int lane = 0; lane < 32; ++lane) {
    auto* c = static_cast<double*>(collective.lane[lane].out);
    for (int i = 0; i < 2; ++i)
      for (int k = 0; k < 4; ++k)
        c[i] = __builtin_fma(a[lane / 4][k], b[k][lane % 4 * 2 + i], c[i]);
  }
}

void check_full(Block& block, const Collective& collective, unsigned warp) {
  if (collective.arrived == ~0u) return;
  block.fail(*current, "divergence",
             format("%s%s needs all 32 lanes of warp %u", op_name(collective.op),
                    site_text(at_line(collective.line)).c_str(), warp));
}

void multiply(Block& block, Collective& collective, unsigned warp) {
  check_full(block, collective, warp);
  const TlsimMma& shape = *reinterpret_cast<const TlsimMma*>(collective.lane[0].value);
  ++block.counters.mma;
  const uint64_t flops = 2ull * static_cast<uint64_t>(shape.m * shape.n * shape.k);
  add_flops(block.counters, shape.operand, flops);
  block.count_event(at_line(collective.line), kMmaSite, flops);
  switch (shape.operand) {
    case TLSIM_F64: return multiply_doubles(collective);
    case TLSIM_S8: return multiply_bytes<int8_t>(collective, shape);
    case TLSIM_U8: return multiply_bytes<uint8_t>(collective, shape);
    default: return multiply_floats(collective, shape);
  }
}

// ---- matrix loads and stores: matrix i has its row r at the address of lane 8 i + r; lane l holds
// elements 2 (l % 4) and the next of row l / 4, or of column l / 4 if transposed.

int matrices(const Collective& collective) {
  return static_cast<int>(collective.lane[0].value >> 1);
}
bool transposed(const Collective& collective) { return collective.lane[0].value & 1; }

// Rows in different banks take one pass of the 128-byte wide memory; equal addresses are one
// access.
void count_conflicts(Block& block, const Collective& collective, bool writes) {
  SiteTraffic& traffic = block.traffic(at_line(collective.line), 2u | writes);
  ++traffic.requests;
  for (int i = 0; i < matrices(collective); ++i) {
    int rows_of_bank[8] = {}, passes = 1;
    for (int r = 0; r < 8; ++r) {
      const uintptr_t address = reinterpret_cast<uintptr_t>(collective.lane[8 * i + r].in);
      bool repeated = false;
      for (int s = 0; s < r; ++s)
        repeated = repeated || collective.lane[8 * i + s].in == collective.lane[8 * i + r].in;
      if (!repeated) passes = std::max(passes, ++rows_of_bank[address / 16 % 8]);
    }
    traffic.units += static_cast<uint64_t>(passes);
    ++traffic.ideal;
    traffic.bytes += 128;
  }
}

void load_matrices(Block& block, Collective& collective, unsigned warp) {
  check_full(block, collective, warp);
  ++block.counters.ldmatrix;
  count_conflicts(block, collective, false);
  for (int i = 0; i < matrices(collective); ++i) {
    uint16_t matrix[8][8];
    for (int r = 0; r < 8; ++r) memcpy(matrix[r], collective.lane[8 * i + r].in, 16);
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, q = lane % 4 * 2;
      const bool t = transposed(collective);
      const uint16_t pair[2] = {t ? matrix[q][g] : matrix[g][q],
                                t ? matrix[q + 1][g] : matrix[g][q + 1]};
      memcpy(static_cast<unsigned char*>(collective.lane[lane].out) + 4 * i, pair, 4);
    }
  }
}

void store_matrices(Block& block, Collective& collective, unsigned warp) {
  check_full(block, collective, warp);
  ++block.counters.stmatrix;
  count_conflicts(block, collective, true);
  for (int i = 0; i < matrices(collective); ++i) {
    uint16_t matrix[8][8];
    for (int lane = 0; lane < 32; ++lane) {
      const int g = lane / 4, q = lane % 4 * 2;
      uint16_t pair[2];
      memcpy(pair, static_cast<const unsigned char*>(collective.lane[lane].more) + 4 * i, 4);
      for (int j = 0; j < 2; ++j)
        (transposed(collective) ? matrix[q + j][g] : matrix[g][q + j]) = pair[j];
    }
    for (int r = 0; r < 8; ++r)
      memcpy(const_cast<void*>(collective.lane[8 * i + r].in), matrix[r], 16);
  }
}

void move_matrices(const void* row, LaneOperand operand, int count, int trans, bool writes,
                   int line) {
  Fiber& self = *current;
  Block& block = *self.block;
  const char* name = writes ? "stmatrix" : "ldmatrix";
  if (self.lane < 8u * static_cast<unsigned>(count)) {  // the other lanes' addresses are not used
    if (reinterpret_cast<uintptr_t>(row) % 16)
      block.fail(self, "misaligned",
                 format("thread %u: the row of %s%s is not at a multiple of 16 bytes", self.id,
                        name, site_text(at_line(line)).c_str()));
    if (!block.is_shared(row))
      block.fail(self, "out_of_bounds",
                 format("thread %u: the row of %s%s is not in shared memory", self.id, name,
                        site_text(at_line(line)).c_str()));
    if (block.check) block.access(self, row, 16, writes, block.actor_of(self, at_line(line)));
  }
  operand.in = row;
  operand.value = static_cast<uint64_t>(count) << 1 | static_cast<uint64_t>(trans != 0);
  meet(self, ~0u, writes ? kStmatrix : kLdmatrix, line, operand,
       writes ? store_matrices : load_matrices);
}

}  // namespace
}  // namespace sim

using namespace sim;

extern "C" {

void tlsim_mma(const TlsimMma* shape, void* c, const void* a, const void* b, int line) {
  meet(*current, ~0u, kMma, line, LaneOperand{a, c, b, reinterpret_cast<uint64_t>(shape)},
       multiply);
}

void tlsim_ldmatrix(void* dst, const void* row, int count, int trans, int line) {
  move_matrices(row, LaneOperand{nullptr, dst, nullptr, 0}, count, trans, false, line);
}

void tlsim_stmatrix(void* row, const void* src, int count, int trans, int line) {
  move_matrices(row, LaneOperand{nullptr, nullptr, src, 0}, count, trans, true, line);
}
}
