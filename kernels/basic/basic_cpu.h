// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_BASIC_BASIC_CPU_H_
#define ZEROTH_KERNELS_BASIC_BASIC_CPU_H_

#include "zeroth/kernels/basic/basic.h"

namespace zeroth::cpu {

// On the calling thread's team; an element's result depends neither on the team nor on its place.
void Basic(const BasicCall& call);

}  // namespace zeroth::cpu

#endif  // ZEROTH_KERNELS_BASIC_BASIC_CPU_H_
