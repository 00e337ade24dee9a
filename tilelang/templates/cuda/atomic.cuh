// SPDX-License-Identifier: Apache-2.0
// Relaxed atomic updates of global or shared memory; each gives the old value.
#pragma once
#include <tl/core.h>

namespace tl {

// The unsigned integer of a size.
template <int bytes> using word_of = typename conditional<bytes == 1, u8, typename conditional<bytes == 2, u16,
    typename conditional<bytes == 4, u32, u64>::type>::type>::type;

// Replaces *p by f(*p) with compare-and-swap on the value's own word: atom.cas has .b16, .b32 and
// .b64 (PTX ISA, atom), 8-bit values go through the 32-bit word around them.
template <class T, class F> TL_DEV T atomic_update(T* p, F f) {
  static_assert(sizeof(T) == 1 || sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8, "no atomic of this size");
  if constexpr (sizeof(T) == 1) {
    u32* word = (u32*)((u64)p & ~3ull);
    const int shift = (int)((u64)p & 3) * 8;
    u32 seen = *(volatile u32*)word, expected;
    T old;
    do {
      expected = seen;
      old = reinterpret<T>((u8)(expected >> shift));
      u32 next = (expected & ~(0xffu << shift)) | ((u32)reinterpret<u8>((T)f(old)) << shift);
      seen = atomicCAS(word, expected, next);
    } while (seen != expected);
    return old;
  } else {
    using word_t = word_of<sizeof(T)>;
    word_t seen = *(volatile word_t*)p, expected;
    do {
      expected = seen;
      word_t next = reinterpret<word_t>((T)f(reinterpret<T>(expected)));
      seen = atomicCAS((word_t*)p, expected, next);
    } while (seen != expected);
    return reinterpret<T>(seen);
  }
}

template <class T, class V> TL_DEV T atomic_add(T* p, V value) {
  T x = cast<T>(value);
  if constexpr (same<T, int> || same<T, u32> || same<T, u64> || same<T, float> || same<T, double>) {
    return atomicAdd(p, x);
  } else if constexpr (same<T, long long>) {
    return (T)atomicAdd((u64*)p, (u64)x);
  } else if constexpr (same<T, half_t>) {  // PTX ISA, atom: .noftz.f16 needs sm_70, .bf16 sm_90
    half_t old;
    asm volatile("atom.add.noftz.f16 %0, [%1], %2;" : "=h"(old.bits) : "l"(p), "h"(x.bits) : "memory");
    return old;
#if __CUDA_ARCH__ >= 900
  } else if constexpr (same<T, bfloat16_t>) {
    bfloat16_t old;
    asm volatile("atom.add.noftz.bf16 %0, [%1], %2;" : "=h"(old.bits) : "l"(p), "h"(x.bits) : "memory");
    return old;
#endif
  } else {
    return atomic_update(p, [=](T old) { return (T)(old + x); });
  }
}

template <class T, class V> TL_DEV T atomic_max(T* p, V value) {
  T x = cast<T>(value);
  if constexpr (same<T, int> || same<T, u32> || same<T, long long> || same<T, u64>) return atomicMax(p, x);
  else return atomic_update(p, [=](T old) { return max(old, x); });
}

template <class T, class V> TL_DEV T atomic_min(T* p, V value) {
  T x = cast<T>(value);
  if constexpr (same<T, int> || same<T, u32> || same<T, long long> || same<T, u64>) return atomicMin(p, x);
  else return atomic_update(p, [=](T old) { return min(old, x); });
}

template <class T, class V> TL_DEV T atomic_or(T* p, V value) {
  T x = cast<T>(value);
  if constexpr (sizeof(T) == 4) return (T)atomicOr((u32*)p, (u32)x);
  else if constexpr (sizeof(T) == 8) return (T)atomicOr((u64*)p, (u64)x);
  else return atomic_update(p, [=](T old) { return (T)(old | x); });
}

// A volatile access of a naturally aligned element is one relaxed access of the whole device (PTX
// ISA, memory consistency model: volatile is relaxed with system scope).
template <class T> TL_DEV T atomic_load(T* p) {
  const word_of<sizeof(T)> word = *(volatile word_of<sizeof(T)>*)p;
  return reinterpret<T>(word);
}
template <class T> TL_DEV void atomic_store(T* p, T value) {
  *(volatile word_of<sizeof(T)>*)p = reinterpret<word_of<sizeof(T)>>(value);
}

// PTX ISA, fence: .acq_rel is what acquire and release need, .sc orders all of them.
template <int order> TL_DEV void memory_fence() {
  if constexpr (order == 3) asm volatile("fence.sc.gpu;" ::: "memory");
  else asm volatile("fence.acq_rel.gpu;" ::: "memory");
}

// Lane by lane: a vector of updates is not one atomic update.
#define TL_ATOMIC_LANES(name)                                                                 \
  template <class T, int N> TL_DEV vec<T, N> name(T* p, const vec<T, N>& x) {                 \
    vec<T, N> old;                                                                            \
    _Pragma("unroll") for (int i = 0; i < N; ++i) old.v[i] = name(p + i, x.v[i]);             \
    return old;                                                                               \
  }
TL_ATOMIC_LANES(atomic_add) TL_ATOMIC_LANES(atomic_max) TL_ATOMIC_LANES(atomic_min)
#undef TL_ATOMIC_LANES

}  // namespace tl
