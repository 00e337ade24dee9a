// SPDX-License-Identifier: Apache-2.0
// The types of the device headers, on the host.
#pragma once
#include <tlsim/builtins.h>

#include "types.cuh"
