// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/testing/attention_suite.h"

namespace zeroth {
namespace {

INSTANTIATE_TEST_SUITE_P(Cuda, AttentionSuite, testing::Values("cuda"));

}  // namespace
}  // namespace zeroth
