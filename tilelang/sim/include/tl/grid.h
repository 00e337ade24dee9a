// SPDX-License-Identifier: Apache-2.0
// A barrier of all blocks of a cooperative launch.
#pragma once
#include <tl/core.h>

namespace tl {

TLSIM_FN void sync_grid(TLSIM_LINE) { tlsim_sync_grid(line); }

}  // namespace tl
