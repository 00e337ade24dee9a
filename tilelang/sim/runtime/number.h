// SPDX-License-Identifier: Apache-2.0
// Rows of elements to and from float.
#pragma once
#include <stdint.h>
#include <string.h>
#if defined(__F16C__)
#include <immintrin.h>
#endif

#include "../include/tlsim/api.h"
#include "../include/tlsim/float16.h"
#include "report.h"

namespace sim {

typedef float float8 __attribute__((vector_size(32)));

inline float8 load8(const float* p) {
  float8 r;
  memcpy(&r, p, sizeof r);
  return r;
}
inline void store8(float* p, float8 x) { memcpy(p, &x, sizeof x); }
inline float8 splat8(float x) { return float8{x, x, x, x, x, x, x, x}; }

inline int element_bytes(TlsimType type) {
  switch (type) {
    case TLSIM_S8:
    case TLSIM_U8:
    case TLSIM_E4M3:
    case TLSIM_E5M2: return 1;
    case TLSIM_S16:
    case TLSIM_U16:
    case TLSIM_F16:
    case TLSIM_BF16: return 2;
    case TLSIM_S64:
    case TLSIM_U64:
    case TLSIM_F64: return 8;
    default: return 4;
  }
}

// Tensor cores have a rate for each width of operands.
inline void add_flops(Counters& counters, TlsimType operand, uint64_t flops) {
  counters.flops += flops;
  if (operand == TLSIM_TF32) counters.flops_tf32 += flops;
  if (operand == TLSIM_F64) counters.flops_double += flops;
  if (element_bytes(operand) == 1) counters.flops_narrow += flops;
}

inline bool is_integer(TlsimType type) { return type <= TLSIM_U64; }

// OCP 8-bit floats. e4m3: no infinities, one NaN; e5m2: as IEEE.
inline float e4m3_to_f32(uint8_t x) {
  const int exponent = x >> 3 & 15, fraction = x & 7;
  if (exponent == 15 && fraction == 7) return tlsim_bf16_to_f32(0x7fff);
  const float scale = exponent ? static_cast<float>(8 + fraction) : static_cast<float>(fraction);
  const float value = scale * __builtin_ldexpf(1.0f, (exponent ? exponent : 1) - 10);
  return x & 0x80 ? -value : value;
}
inline float e5m2_to_f32(uint8_t x) { return tlsim_f16_to_f32(static_cast<uint16_t>(x << 8)); }

// `count` elements, a multiple of 8.
inline void to_float(const void* from, float* to, int count, TlsimType type) {
  const auto* h = static_cast<const uint16_t*>(from);
  const auto* b = static_cast<const uint8_t*>(from);
  switch (type) {
    case TLSIM_F16:
#if defined(__F16C__)
      for (int i = 0; i < count; i += 8)
        _mm256_storeu_ps(to + i,
                         _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(h + i))));
#else
      for (int i = 0; i < count; ++i) to[i] = tlsim_f16_to_f32(h[i]);
#endif
      break;
    case TLSIM_BF16:
      for (int i = 0; i < count; ++i) to[i] = tlsim_bf16_to_f32(h[i]);
      break;
    case TLSIM_E4M3:
      for (int i = 0; i < count; ++i) to[i] = e4m3_to_f32(b[i]);
      break;
    case TLSIM_E5M2:
      for (int i = 0; i < count; ++i) to[i] = e5m2_to_f32(b[i]);
      break;
    case TLSIM_TF32:  // the hardware ignores the low 13 bits of the fraction
      for (int i = 0; i < count; ++i) {
        uint32_t bits;
        memcpy(&bits, static_cast<const float*>(from) + i, 4);
        bits &= 0xffffe000;
        memcpy(to + i, &bits, 4);
      }
      break;
    default: memcpy(to, from, static_cast<size_t>(count) * 4);
  }
}

}  // namespace sim
