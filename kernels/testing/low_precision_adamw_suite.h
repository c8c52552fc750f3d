// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_KERNELS_TESTING_LOW_PRECISION_ADAMW_SUITE_H_
#define ZEROTH_KERNELS_TESTING_LOW_PRECISION_ADAMW_SUITE_H_

#include "zeroth/kernels/testing/adamw_state.h"

namespace zeroth::testing {

class LowPrecisionAdamWSuite : public AdamWStateSuite {};

}  // namespace zeroth::testing

#endif  // ZEROTH_KERNELS_TESTING_LOW_PRECISION_ADAMW_SUITE_H_
