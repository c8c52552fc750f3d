// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Describes NVIDIA's libraries that this program uses, for --version and bug reports, or names the
// program that uses them.

#pragma once

#include <string>

#include "absl/status/status.h"

namespace zeroth {

// Returns lines such as
//   CUDA          cuBLASLt 13.1.0 in /venv/lib/python3.11/site-packages/nvidia/cu13/lib
//                 NCCL 2.28.9 in /venv/lib/python3.11/site-packages/nvidia/nccl/lib
//                 cuDNN not found: libcudnn.so.9: cannot open shared object file
//                 driver for CUDA 13.0 in /usr/lib/x86_64-linux-gnu
// or nothing in a program for CPUs, and in the emulation. Loads the libraries that a run loads when
// it needs them, and the driver, but looks for no GPU.
std::string GpuLibraries();

// Adds to NotFound, as of a device that is not linked in, which program has the devices and back
// ends for GPUs. Returns any other status as it is.
absl::Status WithBuildHint(const absl::Status& status);

}  // namespace zeroth
