// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The common base of tests of machine code (cuda_code_test).

#pragma once

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "zeroth/core/device/cuda/testing/cubin.h"

namespace zeroth::cuda {

// The sizes of all devices from compute capability 8.0 to 10.3.
inline constexpr int kRegistersOfMultiprocessor = 65536;
inline constexpr int kThreadsOfMultiprocessor = 2048;
inline constexpr int kStaticSharedLimit = 48 << 10;

// The number of blocks of `threads` for which an SM has registers and threads. A warp gets
// registers in portions of eight per lane.
int BlocksByRegisters(const KernelCode& kernel, int threads);

// True if the kernel's name is `pattern`, in which `*` stands for anything: "Rotate<8, *>".
bool Matches(const KernelCode& kernel, const std::string& pattern);

class ResourceUsageTest : public testing::Test {
 protected:
  // Reads the files that CUBINS names. Skips the test if it cannot read code of these devices.
  void SetUp() override;

  // Calls check(kernel) for all kernels that match `pattern`. Fails if none matches on a device for
  // which other kernels are compiled.
  template <typename Check>
  void ForEach(const std::string& pattern, const Check& check) {
    for (const Cubin& cubin : cubins_) {
      for (const KernelCode& kernel : cubin.kernels) {
        if (!Matches(kernel, pattern)) continue;
        SCOPED_TRACE(Describe(cubin, kernel));
        check(kernel);
      }
    }
    ExpectEverywhere(pattern);
  }

  // Expects local memory, such as for spills, only in kernels that match one of `local`, and double
  // precision only in those that match one of `doubles`. Expects all kernels to be able to run:
  // registers and shared arrays of a block must be within the limits.
  void CheckAll(const std::vector<std::string>& local, const std::vector<std::string>& doubles);

  const std::vector<Cubin>& cubins() const { return cubins_; }

 private:
  static std::string Describe(const Cubin& cubin, const KernelCode& kernel);
  void ExpectEverywhere(const std::string& pattern) const;

  std::vector<Cubin> cubins_;
};

}  // namespace zeroth::cuda
