// SPDX-License-Identifier: Apache-2.0
// What every generated kernel uses: short vectors, conversions, integer division, barriers.
#pragma once
#include <tl/types.h>

namespace tl {

// ---- short vectors --------------------------------------------------------------------------

__host__ __device__ constexpr int vector_alignment(int bytes) {
  int power = bytes & -bytes;
  return power < 16 ? power : 16;
}

// N elements side by side. An access of the whole vector is one instruction of up to 16 bytes, for
// which its address must be a multiple of the alignment (PTX ISA, addresses as operands).
template <class T, int N> struct alignas(vector_alignment(sizeof(T) * N)) vec {
  T v[N];
  TL_DEV T& operator[](int i) { return v[i]; }
  TL_DEV const T& operator[](int i) const { return v[i]; }
};

// The same bits as another type of the same size.
template <class To, class From> TL_DEV To reinterpret(const From& x) {
  static_assert(sizeof(To) == sizeof(From), "reinterpret needs types of one size");
  To r;
  memcpy(&r, &x, sizeof(To));
  return r;
}

template <int N, class T> TL_DEV vec<T, N> broadcast(T x) {
  vec<T, N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r.v[i] = x;
  return r;
}

template <int N, class T> TL_DEV vec<T, N> ramp(T base, T stride) {
  vec<T, N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r.v[i] = (T)(base + (T)i * stride);
  return r;
}

template <class T, class... Rest> TL_DEV vec<T, 1 + sizeof...(Rest)> make_vector(T first, Rest... rest) {
  return {{first, rest...}};
}

template <class T, int N> TL_DEV T extract_lane(const vec<T, N>& x, int i) { return x.v[i]; }

// Integers wrap, so they are computed as unsigned ones that C does not promote to int.
template <class T> using modular_t = typename conditional<same<T, int> || same<T, u16>, u32,
    typename conditional<same<T, long long>, u64, T>::type>::type;

#define TL_VEC_BINARY(op, C)                                                                  \
  template <class T, int N> TL_DEV vec<T, N> operator op(const vec<T, N>& a, const vec<T, N>& b) { \
    vec<T, N> r;                                                                              \
    _Pragma("unroll") for (int i = 0; i < N; ++i) r.v[i] = (T)((C)a.v[i] op (C)b.v[i]);       \
    return r;                                                                                 \
  }
TL_VEC_BINARY(+, modular_t<T>) TL_VEC_BINARY(-, modular_t<T>) TL_VEC_BINARY(*, modular_t<T>)
TL_VEC_BINARY(/, T) TL_VEC_BINARY(%, T) TL_VEC_BINARY(&, T) TL_VEC_BINARY(|, T) TL_VEC_BINARY(^, T)
TL_VEC_BINARY(<<, T) TL_VEC_BINARY(>>, T)
#undef TL_VEC_BINARY

#define TL_VEC_COMPARE(op)                                                                    \
  template <class T, int N> TL_DEV vec<bool, N> operator op(const vec<T, N>& a, const vec<T, N>& b) { \
    vec<bool, N> r;                                                                           \
    _Pragma("unroll") for (int i = 0; i < N; ++i) r.v[i] = a.v[i] op b.v[i];                  \
    return r;                                                                                 \
  }
TL_VEC_COMPARE(==) TL_VEC_COMPARE(!=) TL_VEC_COMPARE(<) TL_VEC_COMPARE(<=) TL_VEC_COMPARE(>) TL_VEC_COMPARE(>=)
TL_VEC_COMPARE(&&) TL_VEC_COMPARE(||)
#undef TL_VEC_COMPARE

#define TL_VEC_UNARY(op)                                                                      \
  template <class T, int N> TL_DEV vec<T, N> operator op(const vec<T, N>& a) {                \
    vec<T, N> r;                                                                              \
    _Pragma("unroll") for (int i = 0; i < N; ++i) r.v[i] = (T)(op a.v[i]);                    \
    return r;                                                                                 \
  }
TL_VEC_UNARY(-) TL_VEC_UNARY(~) TL_VEC_UNARY(!)
#undef TL_VEC_UNARY

template <class T, int N> TL_DEV vec<T, N> select(const vec<bool, N>& c, const vec<T, N>& a, const vec<T, N>& b) {
  vec<T, N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r.v[i] = c.v[i] ? a.v[i] : b.v[i];
  return r;
}

// f(a), f(a, b) for vectors, lane by lane, of a function that takes scalars.
#define TL_LANES_1(f)                                                                         \
  template <class T, int N> TL_DEV vec<decltype(f(T())), N> f(const vec<T, N>& a) {           \
    vec<decltype(f(T())), N> r;                                                               \
    _Pragma("unroll") for (int i = 0; i < N; ++i) r.v[i] = f(a.v[i]);                         \
    return r;                                                                                 \
  }
#define TL_LANES_2(f)                                                                         \
  template <class T, int N> TL_DEV vec<T, N> f(const vec<T, N>& a, const vec<T, N>& b) {      \
    vec<T, N> r;                                                                              \
    _Pragma("unroll") for (int i = 0; i < N; ++i) r.v[i] = f(a.v[i], b.v[i]);                 \
    return r;                                                                                 \
  }

// ---- vector accesses ------------------------------------------------------------------------

// One machine word of each size: a struct of words is loaded and stored by one instruction.
template <int bytes> struct raw;
template <> struct raw<1> { u8 x; };
template <> struct raw<2> { u16 x; };
template <> struct raw<4> { u32 x; };
#ifdef __CUDACC__
template <> struct alignas(8) raw<8> { u32 x, y; };
template <> struct alignas(16) raw<16> { u32 x, y, z, w; };
#else  // one access for the simulator to see
template <> struct raw<8> { u64 x; };
template <> struct raw<16> { unsigned __int128 x; };
#endif

template <class T, int N> TL_DEV vec<T, N> load_vec(const T* p) {
  constexpr int word = vector_alignment(sizeof(T) * N), count = sizeof(T) * N / word;
  vec<raw<word>, count> r;
#pragma unroll
  for (int i = 0; i < count; ++i) r.v[i] = ((const raw<word>*)p)[i];
  return reinterpret<vec<T, N>>(r);
}

template <class T, int N> TL_DEV void store_vec(T* p, const vec<T, N>& x) {
  constexpr int word = vector_alignment(sizeof(T) * N), count = sizeof(T) * N / word;
  auto r = reinterpret<vec<raw<word>, count>>(x);
#pragma unroll
  for (int i = 0; i < count; ++i) ((raw<word>*)p)[i] = r.v[i];
}

template <class T, int N, class I> TL_DEV vec<T, N> load_strided(const T* p, I stride) {
  vec<T, N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r.v[i] = p[i * stride];
  return r;
}

template <class T, int N, class I> TL_DEV void store_strided(T* p, I stride, const vec<T, N>& x) {
#pragma unroll
  for (int i = 0; i < N; ++i) p[i * stride] = x.v[i];
}

template <class T, int N, class I> TL_DEV vec<T, N> load_indexed(const T* p, const vec<I, N>& index) {
  vec<T, N> r;
#pragma unroll
  for (int i = 0; i < N; ++i) r.v[i] = p[index.v[i]];
  return r;
}

template <class T, int N, class I> TL_DEV void store_indexed(T* p, const vec<I, N>& index, const vec<T, N>& x) {
#pragma unroll
  for (int i = 0; i < N; ++i) p[index.v[i]] = x.v[i];
}

// ---- conversions ----------------------------------------------------------------------------

// Truncates and saturates; NaN gives 0. cvt.rzi does so except for NaN with a 64-bit operand (PTX
// ISA, cvt), and it has no 8- and 16-bit results to saturate to.
template <class To, class From> TL_DEV To float_to_int(From x) {
  if constexpr (sizeof(To) < 4) {
    if constexpr (is_signed_int<To>) {
      constexpr int hi = (1 << (8 * sizeof(To) - 1)) - 1, lo = -hi - 1;
      int wide = float_to_int<int>(x);
      return (To)(wide < lo ? lo : wide > hi ? hi : wide);
    } else {
      constexpr u32 hi = (1u << (8 * sizeof(To))) - 1;
      u32 wide = float_to_int<u32>(x);
      return (To)(wide > hi ? hi : wide);
    }
  } else if constexpr (sizeof(To) == 4 && is_signed_int<To>) {
    if constexpr (sizeof(From) == 4) return __float2int_rz(x);
    else return x != x ? 0 : __double2int_rz(x);
  } else if constexpr (sizeof(To) == 4) {
    if constexpr (sizeof(From) == 4) return __float2uint_rz(x);
    else return x != x ? 0 : __double2uint_rz(x);
  } else if constexpr (is_signed_int<To>) {
    if constexpr (sizeof(From) == 4) return x != x ? 0 : __float2ll_rz(x);
    else return x != x ? 0 : __double2ll_rz(x);
  } else {
    if constexpr (sizeof(From) == 4) return x != x ? 0 : __float2ull_rz(x);
    else return x != x ? 0 : __double2ull_rz(x);
  }
}

// Value conversion of a scalar: to nearest even, integers wrap, floats truncate to integers.
template <class To, class From> TL_DEV To cast(From x) {
  if constexpr (same<To, From>) return x;
  else if constexpr (same<To, bool>) return (wide_t<From>)x != 0;
  else if constexpr (is_int<To> && is_float<From>) return float_to_int<To>((wide_t<From>)x);
  else if constexpr (is_narrow_float<To>) return To((float)(wide_t<From>)x);
  else return (To)(wide_t<From>)x;
}

template <class To, class From, int N> TL_DEV vec<To, N> cast(const vec<From, N>& x) {
  vec<To, N> r;
  if constexpr ((same<To, half_t> || same<To, bfloat16_t>) && N % 2 == 0) {
    vec<u32, N / 2> packed;
#pragma unroll
    for (int i = 0; i < N / 2; ++i) packed.v[i] = pack(To(), cast<float>(x.v[2 * i]), cast<float>(x.v[2 * i + 1]));
    return reinterpret<vec<To, N>>(packed);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) r.v[i] = cast<To>(x.v[i]);
    return r;
  }
}

// ---- arithmetic -----------------------------------------------------------------------------

TL_DEV float inf() { return __int_as_float(0x7f800000); }
TL_DEV float nan() { return __int_as_float(0x7fc00000); }

// Division rounded towards zero, and its remainder, which takes the sign of a. Of integers, all
// targets agree where C defines nothing: by 0 both are 0, the least number by -1 is itself.
template <class T> TL_DEV T truncdiv(T a, T b) {
  if constexpr (same<T, double>) return ::trunc(a / b);
  else if constexpr (is_float<T>) return cast<T>(truncf(cast<float>(a) / cast<float>(b)));
  else if constexpr (is_unsigned_int<T>) return b == 0 ? (T)0 : (T)(a / (b == 0 ? (T)1 : b));
  else {
    T q = a / (b == 0 || b == -1 ? (T)1 : b);
    return b == 0 ? (T)0 : b == -1 ? (T)(0 - (u64)a) : q;
  }
}
template <class T> TL_DEV T truncmod(T a, T b) {
  if constexpr (same<T, double>) return ::fmod(a, b);
  else if constexpr (is_float<T>) return cast<T>(fmodf(cast<float>(a), cast<float>(b)));
  else if constexpr (is_unsigned_int<T>) return a % (b == 0 ? (T)1 : b);
  else return a % (b == 0 || b == -1 ? (T)1 : b);
}

// Division rounded towards minus infinity, and its remainder, which takes the sign of b. Of floats
// the remainder is exact, which a - b * floor(a / b) is not; narrow ones are computed as float.
template <class T> TL_DEV T floordiv(T a, T b) {
  if constexpr (same<T, double>) return ::floor(a / b);
  else if constexpr (is_float<T>) return cast<T>(floorf(cast<float>(a) / cast<float>(b)));
  else if constexpr (is_unsigned_int<T>) return truncdiv(a, b);
  else {
    T q = truncdiv(a, b), r = truncmod(a, b);
    return r != 0 && ((r ^ b) < 0) ? (T)(q - 1) : q;
  }
}
template <class T> TL_DEV T floormod(T a, T b) {
  if constexpr (is_narrow_float<T>) return cast<T>(floormod(cast<float>(a), cast<float>(b)));
  else if constexpr (is_float<T>) {
    T r = truncmod(a, b);
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
  } else if constexpr (is_unsigned_int<T>) return truncmod(a, b);
  else {
    T r = truncmod(a, b);
    return r != 0 && ((r ^ b) < 0) ? (T)(r + b) : r;
  }
}

// minNum and maxNum: a NaN operand is ignored (PTX ISA, min and max without .NaN).
template <class T> TL_DEV T min(T a, T b) {
  if constexpr (same<T, float>) return fminf(a, b);
  else if constexpr (same<T, double>) return fmin(a, b);
  else if constexpr (is_narrow_float<T>) return cast<T>(fminf((float)a, (float)b));
  else return b < a ? b : a;
}
template <class T> TL_DEV T max(T a, T b) {
  if constexpr (same<T, float>) return fmaxf(a, b);
  else if constexpr (same<T, double>) return fmax(a, b);
  else if constexpr (is_narrow_float<T>) return cast<T>(fmaxf((float)a, (float)b));
  else return a < b ? b : a;
}
TL_LANES_2(truncdiv) TL_LANES_2(truncmod) TL_LANES_2(floordiv) TL_LANES_2(floormod) TL_LANES_2(min) TL_LANES_2(max)

// Across the lanes of a short vector.
template <class T, int N> TL_DEV T reduce_lanes_add(const vec<T, N>& x) {
  T r = x.v[0];
#pragma unroll
  for (int i = 1; i < N; ++i) r = (T)(r + x.v[i]);
  return r;
}
template <class T, int N> TL_DEV T reduce_lanes_max(const vec<T, N>& x) {
  T r = x.v[0];
#pragma unroll
  for (int i = 1; i < N; ++i) r = max(r, x.v[i]);
  return r;
}

template <class T> TL_DEV int popcount(T x) {
  if constexpr (sizeof(T) == 8) return __popcll((long long)x);
  else return __popc((int)x & (sizeof(T) == 1 ? 0xff : sizeof(T) == 2 ? 0xffff : -1));
}
template <class T> TL_DEV int clz(T x) {
  if constexpr (sizeof(T) == 8) return __clzll((long long)x);
  else return __clz((int)x & (sizeof(T) == 1 ? 0xff : sizeof(T) == 2 ? 0xffff : -1)) - (32 - 8 * (int)sizeof(T));
}

// ---- threads --------------------------------------------------------------------------------

#ifdef __CUDACC__  // the simulator has its own

TL_DEV void sync_threads() { __syncthreads(); }
TL_DEV void sync_warp(u32 mask = 0xffffffffu) { __syncwarp(mask); }

// PTX ISA, bar.sync and bar.arrive: barrier `id` (0 is sync_threads') completes when `count`
// threads, a multiple of the warp size, have come.
TL_DEV void named_barrier_sync(int id, int count) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(count) : "memory");
}
TL_DEV void named_barrier_arrive(int id, int count) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(count) : "memory");
}

TL_DEV void trap() { __trap(); }

// An address in the shared window (PTX ISA, cvta).
TL_DEV u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

#endif

}  // namespace tl
