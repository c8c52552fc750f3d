// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

namespace zeroth {

// Computes fp32 multiply-adds in registers for some milliseconds, on the calling thread, with the
// widest vectors that the kernels use. Returns the number of floating-point operations, two for
// each multiply-add of a lane. Divided by the seconds it took, this is the FMA peak: what a core
// would do if it never waited for memory. GEMMs stay below it. Thread-safe.
double MultiplyAdd();

}  // namespace zeroth
