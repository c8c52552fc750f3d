// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/coded_moments.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/core/base/check.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/adamw/moment_codes_scalar.h"

namespace zeroth {
namespace {

template <class Code>
void EncodeBlocks(absl::Span<const float> values, absl::Span<uint8_t> codes,
                  absl::Span<float> scales) {
  constexpr auto kBlock = static_cast<size_t>(kMomentBlock);
  for (size_t block = 0; block * kBlock < values.size(); ++block) {
    const absl::Span<const float> part = values.subspan(block * kBlock, kBlock);
    scales[block] = MomentScaleOf<Code>(part);
    for (size_t i = 0; i < part.size(); ++i) {
      codes[block * kBlock + i] = EncodeMoment<Code>(part[i], scales[block]);
    }
  }
}

}  // namespace

std::string ScaleStateOf(absl::string_view state) { return absl::StrCat(state, "_scale"); }

bool HasCodedMoments(const CheckpointReader& reader, absl::string_view parameter,
                     absl::string_view state) {
  const CheckpointTensor* const codes = reader.Find(parameter, state);
  const CheckpointTensor* const scales = reader.Find(parameter, ScaleStateOf(state));
  return codes != nullptr && codes->dtype == SafetensorsDType::kU8 && codes->block == 1 &&
         scales != nullptr && scales->dtype == SafetensorsDType::kF32 &&
         scales->block == kMomentBlock;
}

absl::Status ReadCodedMoments(CheckpointReader& reader, absl::string_view parameter,
                              absl::string_view state, StateCoding coding, int64_t begin,
                              absl::Span<float> out) {
  ZEROTH_CHECK(coding != StateCoding::kNone);
  if (out.empty()) return absl::OkStatus();
  const auto end = begin + static_cast<int64_t>(out.size());
  const int64_t first = begin / kMomentBlock;
  std::vector<uint8_t> codes(out.size());
  std::vector<float> scales(static_cast<size_t>((end + kMomentBlock - 1) / kMomentBlock - first));
  ZEROTH_RETURN_IF_ERROR(reader.ReadBytes(parameter, state, begin, absl::MakeSpan(codes)));
  ZEROTH_RETURN_IF_ERROR(
      reader.Read(parameter, ScaleStateOf(state), first, absl::MakeSpan(scales)));
  for (size_t i = 0; i < out.size(); ++i) {
    const float scale =
        scales[static_cast<size_t>((begin + static_cast<int64_t>(i)) / kMomentBlock - first)];
    out[i] = coding == StateCoding::kFirstMoment ? DecodeMoment<FirstMomentCode>(codes[i], scale)
                                                 : DecodeMoment<SecondMomentCode>(codes[i], scale);
  }
  return absl::OkStatus();
}

void EncodeMoments(StateCoding coding, absl::Span<const float> values, absl::Span<uint8_t> codes,
                   absl::Span<float> scales) {
  ZEROTH_CHECK(coding != StateCoding::kNone && codes.size() == values.size());
  if (coding == StateCoding::kFirstMoment) {
    EncodeBlocks<FirstMomentCode>(values, codes, scales);
  } else {
    EncodeBlocks<SecondMomentCode>(values, codes, scales);
  }
}

}  // namespace zeroth
