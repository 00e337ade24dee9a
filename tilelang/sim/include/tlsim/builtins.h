// SPDX-License-Identifier: Apache-2.0
// CUDA's language extensions and device functions, as far as generated code and the shared device
// headers use them, for a host compiler.
#pragma once
#include <stdint.h>
#include <string.h>

#include <tlsim/api.h>
#include <tlsim/float16.h>

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define threadIdx (tlsim_thread_idx())
#define blockIdx (tlsim_block_idx())
#define blockDim (tlsim_block_dim())
#define gridDim (tlsim_grid_dim())

#define TLSIM_UNCHECKED __attribute__((no_sanitize("thread")))
// <math.h> means all of <cmath> in C++, a quarter of the time to compile a kernel: declared here.
#define TLSIM_MATH(name) \
  float name##f(float);  \
  double name(double);
#define TLSIM_MATH_2(name)     \
  float name##f(float, float); \
  double name(double, double);
// clang-format off
extern "C" {
TLSIM_MATH(exp) TLSIM_MATH(exp2) TLSIM_MATH(exp10) TLSIM_MATH(expm1) TLSIM_MATH(log)
TLSIM_MATH(log2) TLSIM_MATH(log10) TLSIM_MATH(log1p) TLSIM_MATH(sqrt) TLSIM_MATH(cbrt)
TLSIM_MATH(sin) TLSIM_MATH(cos) TLSIM_MATH(tan) TLSIM_MATH(asin) TLSIM_MATH(acos) TLSIM_MATH(atan)
TLSIM_MATH(sinh) TLSIM_MATH(cosh) TLSIM_MATH(tanh) TLSIM_MATH(asinh) TLSIM_MATH(acosh)
TLSIM_MATH(atanh) TLSIM_MATH(erf) TLSIM_MATH(erfc) TLSIM_MATH(floor) TLSIM_MATH(ceil)
TLSIM_MATH(trunc) TLSIM_MATH(round) TLSIM_MATH(rint) TLSIM_MATH(nearbyint) TLSIM_MATH(fabs)
TLSIM_MATH_2(pow) TLSIM_MATH_2(fmod) TLSIM_MATH_2(copysign) TLSIM_MATH_2(atan2)
TLSIM_MATH_2(fmin) TLSIM_MATH_2(fmax)
float fmaf(float, float, float);
double fma(double, double, double);
}
// clang-format on

#define TLSIM_FN inline __attribute__((always_inline))

// ---- bits

template <class To, class From>
TLSIM_FN To tlsim_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "the same bits need the same size");
  To r;
  memcpy(&r, &x, sizeof r);
  return r;
}
TLSIM_FN float __int_as_float(int x) { return tlsim_bits<float>(x); }
TLSIM_FN float __uint_as_float(unsigned x) { return tlsim_bits<float>(x); }
TLSIM_FN int __float_as_int(float x) { return tlsim_bits<int>(x); }
TLSIM_FN unsigned __float_as_uint(float x) { return tlsim_bits<unsigned>(x); }
TLSIM_FN long long __double_as_longlong(double x) { return tlsim_bits<long long>(x); }
TLSIM_FN double __longlong_as_double(long long x) { return tlsim_bits<double>(x); }
TLSIM_FN int __popc(unsigned x) { return __builtin_popcount(x); }
TLSIM_FN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
TLSIM_FN int __clz(int x) { return x ? __builtin_clz(static_cast<unsigned>(x)) : 32; }
TLSIM_FN int __clzll(long long x) {
  return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64;
}

// ---- conversions: truncate and saturate, NaN gives 0 (CUDA Math API, type casting intrinsics)

template <class To, class From>
TLSIM_FN To tlsim_truncate(From x, To lo, To hi) {
  if (x != x) return 0;
  if (x <= static_cast<From>(lo)) return lo;
  return x >= static_cast<From>(hi) ? hi : static_cast<To>(x);
}
template <class From>
TLSIM_FN int tlsim_to_int(From x) {
  return tlsim_truncate<int>(x, INT32_MIN, INT32_MAX);
}
template <class From>
TLSIM_FN unsigned tlsim_to_uint(From x) {
  return tlsim_truncate<unsigned>(x, 0, UINT32_MAX);
}
template <class From>
TLSIM_FN long long tlsim_to_ll(From x) {
  return tlsim_truncate<long long>(x, INT64_MIN, INT64_MAX);
}
template <class From>
TLSIM_FN unsigned long long tlsim_to_ull(From x) {
  return tlsim_truncate<unsigned long long>(x, 0, UINT64_MAX);
}
TLSIM_FN int __float2int_rz(float x) { return tlsim_to_int(x); }
TLSIM_FN unsigned __float2uint_rz(float x) { return tlsim_to_uint(x); }
TLSIM_FN long long __float2ll_rz(float x) { return tlsim_to_ll(x); }
TLSIM_FN unsigned long long __float2ull_rz(float x) { return tlsim_to_ull(x); }
TLSIM_FN int __double2int_rz(double x) { return tlsim_to_int(x); }
TLSIM_FN unsigned __double2uint_rz(double x) { return tlsim_to_uint(x); }
TLSIM_FN long long __double2ll_rz(double x) { return tlsim_to_ll(x); }
TLSIM_FN unsigned long long __double2ull_rz(double x) { return tlsim_to_ull(x); }

// ---- arithmetic and mathematics that C does not have

TLSIM_FN float __fadd_rn(float a, float b) { return a + b; }
TLSIM_FN float __fsub_rn(float a, float b) { return a - b; }
TLSIM_FN float __fmul_rn(float a, float b) { return a * b; }
TLSIM_FN float rsqrtf(float x) { return static_cast<float>(1.0 / ::sqrt(static_cast<double>(x))); }
TLSIM_FN double rsqrt(double x) { return 1.0 / ::sqrt(x); }
TLSIM_FN float __sinf(float x) { return sinf(x); }
TLSIM_FN float __cosf(float x) { return cosf(x); }

// ---- calling a kernel with an array of pointers to its arguments

namespace tlsim {
template <int... I>
struct Indices {};
template <int N, int... I>
struct CountTo : CountTo<N - 1, N - 1, I...> {};
template <int... I>
struct CountTo<0, I...> {
  using type = Indices<I...>;
};

// An argument; its place need not be aligned as the type is.
template <class A>
TLSIM_UNCHECKED inline A argument(const void* place) {
  A value;
  __builtin_memcpy(&value, place, sizeof value);
  return value;
}
template <class... A, int... I>
TLSIM_UNCHECKED inline void call(void (*kernel)(A...), void* const* args, Indices<I...>) {
  kernel(argument<A>(args[I])...);
}
template <class... A>
TLSIM_UNCHECKED inline void call(void (*kernel)(A...), void* const* args) {
  call(kernel, args, typename CountTo<sizeof...(A)>::type());
}
}  // namespace tlsim
