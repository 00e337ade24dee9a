// SPDX-License-Identifier: Apache-2.0
// The 8-bit floating-point types: e4m3fn (no infinity, NaN is all ones), e5m2, and e8m0fnu, which is
// an exponent alone: the powers of two from 2^-127 on, and NaN.
//
// Conversions round to nearest even and do not saturate: what is too large becomes NaN in e4m3fn
// and infinity in e5m2. The hardware's conversion (cvt.rn.satfinite, sm_89) saturates, so it cannot
// be used; integer arithmetic does the same on every architecture.
#pragma once
#include <tl/types.h>

namespace tl {

// Bits of |x| rounded to a format with `mantissa` bits and the exponent bias `bias`; infinities and
// overflow are left as the bits that follow the largest finite value.
template <int mantissa, int bias> TL_DEV u32 round_magnitude(float x) {
  constexpr int shift = 23 - mantissa;
  constexpr u32 smallest_normal = (u32)(127 + 1 - bias) << 23;
  const u32 a = __float_as_uint(x) & 0x7fffffff;
  if (a < smallest_normal) {
    // Adding a number whose last place is the format's subnormal step rounds x to that step.
    constexpr u32 step = (u32)(127 + 1 - bias + shift) << 23;
    return __float_as_uint(__fadd_rn(__uint_as_float(a), __uint_as_float(step))) - step;
  }
  return (a - ((u32)(127 - bias) << 23) + ((1u << (shift - 1)) - 1) + ((a >> shift) & 1)) >> shift;
}

struct fp8_e4m3_t {
  u8 bits;
  fp8_e4m3_t() = default;
  TL_DEV explicit fp8_e4m3_t(float x) {
    const u32 magnitude = round_magnitude<3, 7>(x);
    bits = (u8)((magnitude > 0x7e ? 0x7f : magnitude) | ((__float_as_uint(x) >> 24) & 0x80));
  }
  template <class T> TL_DEV explicit fp8_e4m3_t(T x) : fp8_e4m3_t((float)x) {}
  TL_DEV explicit operator float() const {
    // The bits of a half with the same mantissa, whose exponent counts from 8 lower.
    half_t h;
    h.bits = (u16)((bits & 0x80) << 8 | (bits & 0x7f) << 7);
    return (bits & 0x7f) == 0x7f ? __uint_as_float(0x7fc00000) : (float)h * 256.0f;
  }
};

struct fp8_e5m2_t {
  u8 bits;
  fp8_e5m2_t() = default;
  TL_DEV explicit fp8_e5m2_t(float x) {
    const u32 magnitude = x != x ? 0x7e : round_magnitude<2, 15>(x);
    bits = (u8)((x == x && magnitude > 0x7c ? 0x7c : magnitude) | ((__float_as_uint(x) >> 24) & 0x80));
  }
  template <class T> TL_DEV explicit fp8_e5m2_t(T x) : fp8_e5m2_t((float)x) {}
  TL_DEV explicit operator float() const {
    half_t h;
    h.bits = (u16)(bits << 8);
    return (float)h;
  }
};

struct fp8_e8m0_t {
  u8 bits;
  fp8_e8m0_t() = default;
  // The nearest power of two, ties up; what is not positive and finite is NaN.
  TL_DEV explicit fp8_e8m0_t(float x) {
    const u32 word = __float_as_uint(x), exponent = word >> 23;
    // 2^-127 is subnormal in float, where its leading bit is in the mantissa: it is no tie.
    const bool up = (word & 0x7fffff) + (exponent != 0) > 0x400000;
    bits = (int)word <= 0 || word >= 0x7f800000 ? 0xff : (u8)(exponent + up);
  }
  template <class T> TL_DEV explicit fp8_e8m0_t(T x) : fp8_e8m0_t((float)x) {}
  TL_DEV explicit operator float() const {
    return __uint_as_float(bits == 0xff ? 0x7fc00000 : bits == 0 ? 0x00400000 : (u32)bits << 23);
  }
};

template <> constexpr bool is_narrow_float<fp8_e4m3_t> = true;
template <> constexpr bool is_narrow_float<fp8_e5m2_t> = true;
template <> constexpr bool is_narrow_float<fp8_e8m0_t> = true;

#define TL_FP8_OP(T, op) \
  TL_DEV T operator op(T a, T b) { return T((float)a op (float)b); }
#define TL_FP8_OPS(T)                                                                         \
  TL_FP8_OP(T, +) TL_FP8_OP(T, -) TL_FP8_OP(T, *) TL_FP8_OP(T, /) TL_COMPARES(T)
TL_FP8_OPS(fp8_e4m3_t)
TL_FP8_OPS(fp8_e5m2_t)
TL_FP8_OPS(fp8_e8m0_t)
TL_DEV fp8_e4m3_t operator-(fp8_e4m3_t a) {
  a.bits ^= 0x80;
  return a;
}
TL_DEV fp8_e5m2_t operator-(fp8_e5m2_t a) {
  a.bits ^= 0x80;
  return a;
}
TL_DEV fp8_e8m0_t operator-(fp8_e8m0_t a) { return fp8_e8m0_t(-(float)a); }
#undef TL_FP8_OP
#undef TL_FP8_OPS

}  // namespace tl

using tl::fp8_e4m3_t;
using tl::fp8_e5m2_t;
using tl::fp8_e8m0_t;
