// SPDX-License-Identifier: Apache-2.0
// float16 and bfloat16 as bit patterns, to nearest even as the hardware's cvt.rn does.
#pragma once
#include <stdint.h>
#include <string.h>

// <immintrin.h> would take longer to read than all the rest of a kernel: the builtins behind it.
#if defined(__F16C__)
typedef float tlsim_v4sf __attribute__((vector_size(16)));
typedef short tlsim_v8hi __attribute__((vector_size(16)));
#endif

inline float tlsim_f16_to_f32(uint16_t h) {
#if defined(__F16C__)
  return __builtin_ia32_vcvtph2ps(tlsim_v8hi{static_cast<short>(h), 0, 0, 0, 0, 0, 0, 0})[0];
#else
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, exponent = h >> 10 & 31,
                 fraction = h & 0x3ff;
  uint32_t bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000 | fraction << 13;
  } else if (exponent) {
    bits = sign | (exponent + 112) << 23 | fraction << 13;
  } else {  // zero or subnormal: fraction * 2^-24
    const float small = static_cast<float>(fraction) * 5.9604644775390625e-8f;
    memcpy(&bits, &small, 4);
    bits |= sign;
  }
  float r;
  memcpy(&r, &bits, 4);
  return r;
#endif
}

inline uint16_t tlsim_f32_to_f16(float x) {
  if (x != x) return 0x7fff;  // the canonical NaN of cvt
#if defined(__F16C__)
  return static_cast<uint16_t>(__builtin_ia32_vcvtps2ph(tlsim_v4sf{x, 0, 0, 0}, 0)[0]);
#else
  uint32_t bits;
  memcpy(&bits, &x, 4);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits >= 0x477ff000) return sign | 0x7c00;  // rounds to 65536 or more
  if (bits < 0x38800000) {                       // below 2^-14: add 0.5 so that the unit is 2^-24
    float y;
    memcpy(&y, &bits, 4);
    y += 0.5f;
    memcpy(&bits, &y, 4);
    return static_cast<uint16_t>(sign | (bits - 0x3f000000));
  }
  bits += 0xc8000fff + (bits >> 13 & 1);  // rebias by -112 and round
  return static_cast<uint16_t>(sign | bits >> 13);
#endif
}

inline float tlsim_bf16_to_f32(uint16_t b) {
  const uint32_t bits = static_cast<uint32_t>(b) << 16;
  float r;
  memcpy(&r, &bits, 4);
  return r;
}

inline uint16_t tlsim_f32_to_bf16(float x) {
  if (x != x) return 0x7fff;
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
