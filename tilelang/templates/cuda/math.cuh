// SPDX-License-Identifier: Apache-2.0
// Elementwise mathematics. Narrow floats are computed in float and rounded once; the accurate forms
// are CUDA's own device functions (CUDA C++ Programming Guide, mathematical functions), the fast_
// forms the approximations of the hardware.
#pragma once
#include <tl/core.h>

namespace tl {

// name(x) from the float function f32 and the double function f64.
#define TL_UNARY(name, f32, f64)                                                              \
  template <class T> TL_DEV T name(T x) {                                                     \
    if constexpr (same<T, double>) return f64(x);                                             \
    else return cast<T>(f32(cast<float>(x)));                                                 \
  }                                                                                           \
  TL_LANES_1(name)

#define TL_BINARY(name, f32, f64)                                                             \
  template <class T> TL_DEV T name(T x, T y) {                                                \
    if constexpr (same<T, double>) return f64(x, y);                                          \
    else return cast<T>(f32(cast<float>(x), cast<float>(y)));                                 \
  }                                                                                           \
  TL_LANES_2(name)

TL_DEV float sigmoid_f32(float x) { return 1.0f / (1.0f + expf(-x)); }
TL_DEV double sigmoid_f64(double x) { return 1.0 / (1.0 + ::exp(-x)); }

TL_UNARY(exp, expf, ::exp)
TL_UNARY(exp2, exp2f, ::exp2)
TL_UNARY(exp10, exp10f, ::exp10)
TL_UNARY(log, logf, ::log)
TL_UNARY(log2, log2f, ::log2)
TL_UNARY(log10, log10f, ::log10)
TL_UNARY(log1p, log1pf, ::log1p)
TL_UNARY(sqrt, sqrtf, ::sqrt)
TL_UNARY(rsqrt, rsqrtf, ::rsqrt)
TL_UNARY(sigmoid, sigmoid_f32, sigmoid_f64)
TL_UNARY(tanh, tanhf, ::tanh)
TL_UNARY(sin, sinf, ::sin)
TL_UNARY(cos, cosf, ::cos)
TL_UNARY(tan, tanf, ::tan)
TL_UNARY(sinh, sinhf, ::sinh)
TL_UNARY(cosh, coshf, ::cosh)
TL_UNARY(asin, asinf, ::asin)
TL_UNARY(acos, acosf, ::acos)
TL_UNARY(atan, atanf, ::atan)
TL_UNARY(erf, erff, ::erf)
TL_UNARY(floor, floorf, ::floor)
TL_UNARY(ceil, ceilf, ::ceil)
TL_UNARY(trunc, truncf, ::trunc)
TL_UNARY(round, roundf, ::round)
TL_UNARY(nearbyint, nearbyintf, ::nearbyint)
TL_BINARY(pow, powf, ::pow)
TL_BINARY(fmod, fmodf, ::fmod)
TL_BINARY(copysign, copysignf, ::copysign)
TL_BINARY(atan2, atan2f, ::atan2)
#undef TL_UNARY
#undef TL_BINARY

template <class T> TL_DEV T abs(T x) {
  if constexpr (same<T, double>) return ::fabs(x);
  else if constexpr (is_float<T>) return cast<T>(fabsf(cast<float>(x)));
  else if constexpr (is_unsigned_int<T>) return x;
  else return (T)(x < 0 ? -x : x);
}
TL_LANES_1(abs)

// ---- the approximations: PTX ISA, floating-point instructions with .approx --------------------

#define TL_FAST(name, expression)                                                             \
  template <class T> TL_DEV T name(T value) {                                                 \
    float x = cast<float>(value);                                                             \
    return cast<T>(expression);                                                               \
  }                                                                                           \
  TL_LANES_1(name)

#ifdef __CUDACC__
TL_DEV float ex2_approx(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
TL_DEV float lg2_approx(float x) {
  float r;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
TL_DEV float rcp_approx(float x) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}
#else  // the simulator: the accurate functions
TL_DEV float ex2_approx(float x) { return exp2f(x); }
TL_DEV float lg2_approx(float x) { return log2f(x); }
TL_DEV float rcp_approx(float x) { return 1.0f / x; }
#endif
TL_FAST(fast_exp, ex2_approx(x * 1.4426950408889634f))    // log2(e)
TL_FAST(fast_exp2, ex2_approx(x))
TL_FAST(fast_exp10, ex2_approx(x * 3.3219280948873623f))  // log2(10)
TL_FAST(fast_log, lg2_approx(x) * 0.6931471805599453f)    // ln(2)
TL_FAST(fast_log2, lg2_approx(x))
TL_FAST(fast_log10, lg2_approx(x) * 0.3010299956639812f)  // log10(2)
TL_FAST(fast_sin, __sinf(x))
TL_FAST(fast_cos, __cosf(x))
TL_FAST(fast_tan, __sinf(x) * rcp_approx(__cosf(x)))
TL_FAST(fast_rcp, rcp_approx(x))
#undef TL_FAST

// ---- predicates -------------------------------------------------------------------------------

// By bits, so that -use_fast_math cannot assume them away. Exponent all ones: infinity or NaN.
template <class T> TL_DEV bool isnan(T x) {
  if constexpr (same<T, double>) return ((u64)__double_as_longlong(x) << 1) > (0x7ffull << 53);
  else return (__float_as_uint(cast<float>(x)) << 1) > (0xffu << 24);
}
template <class T> TL_DEV bool isinf(T x) {
  if constexpr (same<T, double>) return ((u64)__double_as_longlong(x) << 1) == (0x7ffull << 53);
  else return (__float_as_uint(cast<float>(x)) << 1) == (0xffu << 24);
}
template <class T> TL_DEV bool isfinite(T x) {
  if constexpr (same<T, double>) return ((u64)__double_as_longlong(x) << 1) < (0x7ffull << 53);
  else return (__float_as_uint(cast<float>(x)) << 1) < (0xffu << 24);
}
TL_LANES_1(isnan) TL_LANES_1(isinf) TL_LANES_1(isfinite)

// As min and max, but a NaN operand gives NaN.
template <class T> TL_DEV T max_nan(T a, T b) {
  if constexpr (is_float<T>) return isnan(a) ? a : isnan(b) ? b : max(a, b);
  else return max(a, b);
}
template <class T> TL_DEV T min_nan(T a, T b) {
  if constexpr (is_float<T>) return isnan(a) ? a : isnan(b) ? b : min(a, b);
  else return min(a, b);
}
TL_LANES_2(max_nan) TL_LANES_2(min_nan)

// a * b + c rounded once. fma.rn.f16 and fma.rn.bf16: PTX ISA, half precision fma (sm_53, sm_80).
TL_DEV float fma(float a, float b, float c) { return fmaf(a, b, c); }
TL_DEV double fma(double a, double b, double c) { return ::fma(a, b, c); }
#ifdef __CUDACC__
TL_DEV half_t fma(half_t a, half_t b, half_t c) {
  half_t r;
  asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
  return r;
}
TL_DEV bfloat16_t fma(bfloat16_t a, bfloat16_t b, bfloat16_t c) {
#if __CUDA_ARCH__ >= 800
  bfloat16_t r;
  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(r.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
  return r;
#else
  // The product of two bf16 is exact in float, and double rounds their sum only once more.
  return bfloat16_t((float)((double)((float)a * (float)b) + (double)(float)c));
#endif
}
#else
// The product of two half_t or bfloat16_t is exact in double, and so is nearly every sum.
TL_DEV half_t fma(half_t a, half_t b, half_t c) { return half_t((float)((double)(float)a * (double)(float)b + (double)(float)c)); }
TL_DEV bfloat16_t fma(bfloat16_t a, bfloat16_t b, bfloat16_t c) {
  return bfloat16_t((float)((double)(float)a * (double)(float)b + (double)(float)c));
}
#endif
template <class T> TL_DEV T fma(T a, T b, T c) { return (T)(a * b + c); }
template <class T, int N> TL_DEV vec<T, N> fma(const vec<T, N>& a, const vec<T, N>& b, const vec<T, N>& c) {
  vec<T, N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r.v[i] = fma(a.v[i], b.v[i], c.v[i]);
  return r;
}

}  // namespace tl
