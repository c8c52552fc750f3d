// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Describes what this program was built with, for --version and bug reports.

#pragma once

#include <string>

namespace zeroth {

// Returns lines such as
//   compiler      GCC 12.2.0
//   libraries     Abseil 20220623, Highway 1.0.3, oneDNN 2.7.2
//   instructions  AVX3, AVX2, EMU128; this processor runs AVX2
// Instructions are Highway's names of the sets that the kernels are compiled for, and of the set in
// use here. oneDNN chooses its own.
std::string BuiltWith();

}  // namespace zeroth
