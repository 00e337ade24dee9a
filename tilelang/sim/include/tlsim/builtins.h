// SPDX-License-Identifier: Apache-2.0
// CUDA's language extensions and device functions, as far as generated code and the shared device
// headers use them, for a host compiler.
#pragma once
#include <math.h>
#include <stdint.h>
#include <stdio.h>
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
#define TLSIM_FN inline __attribute__((always_inline))

// ---- bits

template <class To, class From> TLSIM_FN To tlsim_bits(From x) {
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
TLSIM_FN int __clzll(long long x) { return x ? __builtin_clzll(static_cast<unsigned long long>(x)) : 64; }

// ---- conversions: truncate and saturate, NaN gives 0 (CUDA Math API, type casting intrinsics)

template <class To, class From> TLSIM_FN To tlsim_truncate(From x, To lo, To hi) {
  if (x != x) return 0;
  if (x <= static_cast<From>(lo)) return lo;
  return x >= static_cast<From>(hi) ? hi : static_cast<To>(x);
}
template <class From> TLSIM_FN int tlsim_to_int(From x) { return tlsim_truncate<int>(x, INT32_MIN, INT32_MAX); }
template <class From> TLSIM_FN unsigned tlsim_to_uint(From x) { return tlsim_truncate<unsigned>(x, 0, UINT32_MAX); }
template <class From> TLSIM_FN long long tlsim_to_ll(From x) { return tlsim_truncate<long long>(x, INT64_MIN, INT64_MAX); }
template <class From> TLSIM_FN unsigned long long tlsim_to_ull(From x) {
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
// C++ overloads these for float in the global namespace only if <math.h> says so.
#ifndef __USE_GNU
TLSIM_FN float exp10f(float x) { return powf(10.0f, x); }
TLSIM_FN double exp10(double x) { return ::pow(10.0, x); }
#endif

// ---- calling a kernel with an array of pointers to its arguments

namespace tlsim {
template <int... I> struct Indices {};
template <int N, int... I> struct CountTo : CountTo<N - 1, N - 1, I...> {};
template <int... I> struct CountTo<0, I...> { using type = Indices<I...>; };

// An argument; its place need not be aligned as the type is.
template <class A> TLSIM_UNCHECKED inline A argument(const void* place) {
  A value;
  __builtin_memcpy(&value, place, sizeof value);
  return value;
}
template <class... A, int... I>
TLSIM_UNCHECKED inline void call(void (*kernel)(A...), void* const* args, Indices<I...>) {
  kernel(argument<A>(args[I])...);
}
template <class... A> TLSIM_UNCHECKED inline void call(void (*kernel)(A...), void* const* args) {
  call(kernel, args, typename CountTo<sizeof...(A)>::type());
}
}  // namespace tlsim
