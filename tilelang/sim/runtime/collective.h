// SPDX-License-Identifier: Apache-2.0
// How the lanes of a warp meet.
#pragma once
#include <string.h>

#include "block.h"

namespace sim {

enum CollectiveOp : int {
  kSyncWarp,
  kShuffle,
  kElect = kShuffle + 4,
  kLdmatrix,
  kStmatrix,
  kMma,
  kBallot,
  kMatch,
};
const char* op_name(int op);

// Blocks until all living lanes of `mask` have called with the same op and line; the last one runs
// `compute` on their operands first.
void meet(Fiber& self, unsigned mask, int op, int line, const LaneOperand& operand,
          void (*compute)(Block&, Collective&, unsigned warp));

// Ends a collective that everybody has reached; `self`, if it took part, is running already.
void complete(Block& block, unsigned warp, Collective& collective, const Fiber* self);

}  // namespace sim
