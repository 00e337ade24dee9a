// SPDX-License-Identifier: Apache-2.0
// Matrix multiply-accumulate of one warp.
#pragma once
#include <tl/core.h>

namespace tl {

#define TLSIM_MMA(rows, columns, depth, ab, AB, c, C)                                            \
  TLSIM_FN void mma_m##rows##n##columns##k##depth##_##ab##_##c(void* c_regs, const void* a_regs, \
                                                               const void* b_regs, TLSIM_LINE) { \
    static constexpr TlsimMma shape = {rows, columns, depth, TLSIM_##AB, TLSIM_##C};             \
    tlsim_mma(&shape, c_regs, a_regs, b_regs, line);                                             \
  }
TLSIM_MMA(16, 8, 16, f16, F16, f32, F32)
TLSIM_MMA(16, 8, 16, f16, F16, f16, F16)
TLSIM_MMA(16, 8, 16, bf16, BF16, f32, F32)
TLSIM_MMA(16, 8, 8, tf32, TF32, f32, F32)
TLSIM_MMA(16, 8, 32, s8, S8, s32, S32)
TLSIM_MMA(16, 8, 32, u8, U8, s32, S32)
TLSIM_MMA(16, 8, 32, e4m3, E4M3, f32, F32)
TLSIM_MMA(16, 8, 32, e5m2, E5M2, f32, F32)
TLSIM_MMA(8, 8, 4, f64, F64, f64, F64)
#undef TLSIM_MMA

}  // namespace tl
