// SPDX-License-Identifier: Apache-2.0
// The 8-bit floating-point types, shared with the device headers.
#pragma once
#include <tl/types.h>

#include "fp8.cuh"
