// SPDX-License-Identifier: Apache-2.0
// The 16-bit floating-point types, and the few type traits that the other headers need.
//
// A value is its bit pattern. Arithmetic gives the correctly rounded result of the type: float has
// more than 2p + 2 bits for p = 11 (half_t) and p = 8 (bfloat16_t), so computing in float and
// rounding once more to nearest even cannot differ from rounding the exact result.
#pragma once

#define TL_DEV __device__ __forceinline__

namespace tl {

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;

struct half_t {
  u16 bits;
  half_t() = default;
  template <class T> TL_DEV explicit half_t(T x) : half_t((float)x) {}
#ifdef __CUDACC__
  // cvt.rn.f16.f32: PTX ISA, cvt.
  TL_DEV explicit half_t(float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x)); }
  TL_DEV explicit operator float() const {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
  }
#else  // the simulator
  TL_DEV explicit half_t(float x) : bits(tlsim_f32_to_f16(x)) {}
  TL_DEV explicit operator float() const { return tlsim_f16_to_f32(bits); }
#endif
};

struct bfloat16_t {
  u16 bits;
  bfloat16_t() = default;
  TL_DEV explicit bfloat16_t(float x) {
#if __CUDA_ARCH__ >= 800  // cvt.rn.bf16.f32 needs sm_80: PTX ISA, cvt
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
    u32 b = __float_as_uint(x);
    bits = x != x ? 0x7fff : (u16)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
#endif
  }
  template <class T> TL_DEV explicit bfloat16_t(T x) : bfloat16_t((float)x) {}
  TL_DEV explicit operator float() const { return __uint_as_float((u32)bits << 16); }
};

// add, sub, mul and fma of .f16 need sm_53, fma.rn.bf16 sm_80: PTX ISA, half precision
// floating-point instructions. The .rn keeps ptxas from contracting a multiply and an add.
#ifdef __CUDACC__
#define TL_F16_OP(op, name)                                                                  \
  TL_DEV half_t operator op(half_t a, half_t b) {                                            \
    half_t r;                                                                                \
    asm(name ".rn.f16 %0, %1, %2;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits));               \
    return r;                                                                                \
  }
#else
#define TL_F16_OP(op, name) \
  TL_DEV half_t operator op(half_t a, half_t b) { return half_t((float)a op (float)b); }
#endif
TL_F16_OP(+, "add")
TL_F16_OP(-, "sub")
TL_F16_OP(*, "mul")
#undef TL_F16_OP
TL_DEV half_t operator/(half_t a, half_t b) { return half_t((float)a / (float)b); }
TL_DEV half_t operator-(half_t a) {
  a.bits ^= 0x8000;
  return a;
}

// __fadd_rn and its like are never contracted: a product must be rounded before it is added.
TL_DEV bfloat16_t operator+(bfloat16_t a, bfloat16_t b) { return bfloat16_t(__fadd_rn((float)a, (float)b)); }
TL_DEV bfloat16_t operator-(bfloat16_t a, bfloat16_t b) { return bfloat16_t(__fsub_rn((float)a, (float)b)); }
TL_DEV bfloat16_t operator*(bfloat16_t a, bfloat16_t b) { return bfloat16_t(__fmul_rn((float)a, (float)b)); }
TL_DEV bfloat16_t operator/(bfloat16_t a, bfloat16_t b) { return bfloat16_t((float)a / (float)b); }
TL_DEV bfloat16_t operator-(bfloat16_t a) {
  a.bits ^= 0x8000;
  return a;
}

#define TL_COMPARE(T, op) \
  TL_DEV bool operator op(T a, T b) { return (float)a op (float)b; }
#define TL_COMPARES(T) \
  TL_COMPARE(T, ==) TL_COMPARE(T, !=) TL_COMPARE(T, <) TL_COMPARE(T, <=) TL_COMPARE(T, >) TL_COMPARE(T, >=)
TL_COMPARES(half_t)
TL_COMPARES(bfloat16_t)

// ---- traits ---------------------------------------------------------------------------------

template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;
template <bool B, class A, class C> struct conditional { using type = A; };
template <class A, class C> struct conditional<false, A, C> { using type = C; };

// Floating-point types that are computed in float (fp8.h adds its own).
template <class T> constexpr bool is_narrow_float = same<T, half_t> || same<T, bfloat16_t>;
template <class T> constexpr bool is_float = same<T, float> || same<T, double> || is_narrow_float<T>;
template <class T> constexpr bool is_signed_int =
    same<T, signed char> || same<T, char> || same<T, short> || same<T, int> || same<T, long> || same<T, long long>;
template <class T> constexpr bool is_unsigned_int = same<T, unsigned char> || same<T, unsigned short> ||
    same<T, unsigned int> || same<T, unsigned long> || same<T, unsigned long long>;
template <class T> constexpr bool is_int = is_signed_int<T> || is_unsigned_int<T>;

// The type in which a value is computed.
template <class T> using wide_t = typename conditional<is_narrow_float<T>, float, T>::type;

// Two floats rounded to nearest even and packed, `lo` in the low half (PTX ISA, cvt: d = {a, b}).
TL_DEV u32 pack(half_t, float lo, float hi) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
#else
  return (u32)half_t(lo).bits | ((u32)half_t(hi).bits << 16);
#endif
}
TL_DEV u32 pack(bfloat16_t, float lo, float hi) {
#if __CUDA_ARCH__ >= 800
  u32 r;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
  return r;
#else
  return (u32)bfloat16_t(lo).bits | ((u32)bfloat16_t(hi).bits << 16);
#endif
}

}  // namespace tl

using tl::bfloat16_t;
using tl::half_t;
