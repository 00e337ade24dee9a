// SPDX-License-Identifier: Apache-2.0
// Shared-memory swizzles of TMA and wgmma: the 16-byte chunk of an address is exchanged by an XOR
// with higher address bits (PTX ISA, tensor swizzling modes). `bytes`: 0, 32, 64 or 128.
#pragma once
#include <stddef.h>

namespace sim {

inline size_t swizzled(size_t address, int bytes) {
  const size_t mask = bytes == 128 ? 7 : bytes == 64 ? 3 : bytes == 32 ? 1 : 0;
  return address ^ ((address >> 7 & mask) << 4);
}

}  // namespace sim
