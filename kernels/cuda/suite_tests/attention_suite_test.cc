// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/testing/attention_suite.h"

#include <string>

namespace zeroth {
namespace {

INSTANTIATE_TEST_SUITE_P(Cuda, AttentionSuite, testing::Values("cuda", "cuda/flash"),
                         [](const testing::TestParamInfo<std::string>& instance) {
                           return instance.param == "cuda" ? "Auto" : "Flash";
                         });

}  // namespace
}  // namespace zeroth
