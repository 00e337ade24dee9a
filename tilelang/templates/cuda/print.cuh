// SPDX-License-Identifier: Apache-2.0
// Formatted output of a kernel: CUDA C++ Programming Guide, formatted output.
#pragma once
#include <tl/core.h>

namespace tl {

// What printf can take: narrow floats are shown as double, other types as they are.
template <class T> TL_DEV auto printable(T x) {
  if constexpr (is_narrow_float<T>) return (double)(float)x;
  else return x;
}

template <class... Args> TL_DEV void print(const char* format, Args... args) { printf(format, printable(args)...); }

}  // namespace tl
