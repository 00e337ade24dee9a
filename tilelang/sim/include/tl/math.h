// SPDX-License-Identifier: Apache-2.0
// Mathematics, shared with the device headers.
#pragma once
#include <tl/core.h>

#include "math.cuh"
