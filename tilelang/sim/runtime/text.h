// SPDX-License-Identifier: Apache-2.0
// Text of reports. A site is written as {line:N} or {code:OFFSET}; the Python side, which knows
// the source, replaces it by a line of the kernel.
#pragma once
#include <stdarg.h>
#include <stdio.h>

#include <string>

#include "shadow.h"

namespace sim {

__attribute__((format(printf, 1, 2))) inline std::string format(const char* pattern, ...) {
  char text[512];
  va_list args;
  va_start(args, pattern);
  vsnprintf(text, sizeof text, pattern, args);
  va_end(args);
  return text;
}

inline std::string site_text(Site site) {
  if (site & kLineSite) return format(" {line:%u}", site & ~kLineSite);
  return format(" {code:%x}", site);
}

}  // namespace sim
