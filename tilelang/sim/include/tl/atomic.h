// SPDX-License-Identifier: Apache-2.0
// Relaxed atomic updates; each gives the old value.
#pragma once
#include <tl/core.h>

namespace tl {

#define TLSIM_ATOMIC(name, op)                                        \
  template <class T, class V>                                         \
  TLSIM_FN T name(T* p, V value, TLSIM_LINE) {                        \
    const T x = cast<T>(value);                                       \
    T old;                                                            \
    tlsim_atomic(p, &x, &old, op, sim_type<T>, line);                 \
    return old;                                                       \
  }                                                                   \
  template <class T, int N>                                           \
  TLSIM_FN vec<T, N> name(T* p, const vec<T, N>& x, TLSIM_LINE) {     \
    vec<T, N> old;                                                    \
    for (int i = 0; i < N; ++i) old.v[i] = name(p + i, x.v[i], line); \
    return old;                                                       \
  }
TLSIM_ATOMIC(atomic_add, TLSIM_ATOMIC_ADD)
TLSIM_ATOMIC(atomic_max, TLSIM_ATOMIC_MAX)
TLSIM_ATOMIC(atomic_min, TLSIM_ATOMIC_MIN)
TLSIM_ATOMIC(atomic_or, TLSIM_ATOMIC_OR)
#undef TLSIM_ATOMIC

template <class T>
TLSIM_FN T atomic_load(T* p, TLSIM_LINE) {
  T old = {};
  tlsim_atomic(p, &old, &old, TLSIM_ATOMIC_LOAD, sim_type<T>, line);
  return old;
}
template <class T>
TLSIM_FN void atomic_store(T* p, T value, TLSIM_LINE) {
  T old;
  tlsim_atomic(p, &value, &old, TLSIM_ATOMIC_STORE, sim_type<T>, line);
}
template <int order>
TLSIM_FN void memory_fence(TLSIM_LINE) {
  tlsim_fence(order, line);
}

}  // namespace tl
