// SPDX-License-Identifier: Apache-2.0
// The arithmetic of atomic updates, on the host's memory and atomic there too.
#pragma once
#include "../include/tlsim/api.h"

namespace sim {

// *old = *p; *p = op(*p, *value). False if there is no such update of the type.
bool update_atomically(void* p, const void* value, void* old, int op, TlsimType type);

}  // namespace sim
