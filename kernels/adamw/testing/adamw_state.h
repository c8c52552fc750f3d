// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/kernels.h"
#include "zeroth/kernels/testing/kernels_suite.h"

namespace zeroth::testing {

// The types of one call of AdamW.
struct AdamWTypes {
  DType param = DType::kFloat32;
  DType grad = DType::kFloat32;
  DType moment = DType::kFloat32;

  std::string ToString() const;
};

// Returns every combination that AdamW supports.
std::vector<AdamWTypes> AllAdamWTypes();

// The operands of one call, on the host.
struct AdamWState {
  std::vector<float> param;
  std::vector<float> grad;
  std::vector<float> m;  // with 8-bit moments, the decoded codes
  std::vector<float> v;
  std::vector<uint8_t> m_codes;  // only with 8-bit moments, as are the three below
  std::vector<uint8_t> v_codes;
  std::vector<float> m_scales;
  std::vector<float> v_scales;

  int64_t count() const { return static_cast<int64_t>(param.size()); }
};

// Encodes the moments as 8-bit codes and scales, each element by its own draws, and replaces the
// moments with the decoded values.
void EncodeMoments(AdamWState& state, const std::vector<uint16_t>& m_draws,
                   const std::vector<uint16_t>& v_draws);

// Compares bits, also those of NaNs.
void ExpectSameBits(const AdamWState& a, const AdamWState& b);

// The fixture of AdamW's suites, for any types.
class AdamWStateSuite : public KernelsSuite {
 protected:
  // Uploads the state, and returns `scalars` with its tensors.
  AdamWArgs UploadState(const AdamWTypes& types, const AdamWState& state, AdamWArgs scalars);
  AdamWState DownloadState(const AdamWArgs& args);
  // Returns the state after one call.
  AdamWState Step(const AdamWTypes& types, const AdamWState& state, const AdamWArgs& scalars);

  // Returns values that the types can hold, whose sizes differ by orders of magnitude inside a
  // block.
  AdamWState RandomState(const AdamWTypes& types, int64_t count);
  // Returns scalars for a random place, parameter and step.
  AdamWArgs RandomScalars(const AdamWTypes& types, bool may_start_odd);
};

}  // namespace zeroth::testing
