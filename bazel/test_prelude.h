// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Like prelude.h, for tests.

#include "gtest/gtest.h"

#include "zeroth/prelude.h"
