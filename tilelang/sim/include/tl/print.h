// SPDX-License-Identifier: Apache-2.0
// Formatted output of a kernel.
#pragma once
#include <tl/core.h>

namespace tl {

template <class T>
TLSIM_FN auto printable(T x) {
  if constexpr (is_narrow_float<T>)
    return (double)(float)x;
  else
    return x;
}

template <class... Args>
TLSIM_FN void print(const char* format, Args... args) {
  tlsim_print(format, printable(args)...);
}

}  // namespace tl
