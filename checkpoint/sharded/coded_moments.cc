// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/coded_moments.h"

#include <cstddef>
#include <vector>

#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/safetensors_format.h"
#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/state_tensor.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/adamw/moment_codes.h"

namespace zeroth {
namespace {

// Encodes `values`, rounding to nearest, with a scale for every kMomentBlock of them.
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

absl::Status ReadCodedMoments(CheckpointReader& reader, const std::string& parameter,
                              const ShardState& state, int64_t begin, absl::Span<float> out) {
  const auto end = begin + static_cast<int64_t>(out.size());
  const int64_t first = begin / kMomentBlock;
  std::vector<uint8_t> codes(out.size());
  std::vector<float> scales(static_cast<size_t>((end + kMomentBlock - 1) / kMomentBlock - first));
  ZEROTH_RETURN_IF_ERROR(reader.ReadBytes(parameter, state.name, begin, absl::MakeSpan(codes)));
  ZEROTH_RETURN_IF_ERROR(
      reader.Read(parameter, ScaleStateOf(state.name), first, absl::MakeSpan(scales)));
  const bool is_first = state.coding == StateCoding::kFirstMoment;
  for (size_t i = 0; i < out.size(); ++i) {
    const float scale =
        scales[static_cast<size_t>((begin + static_cast<int64_t>(i)) / kMomentBlock - first)];
    out[i] = is_first ? DecodeMoment<FirstMomentCode>(codes[i], scale)
                      : DecodeMoment<SecondMomentCode>(codes[i], scale);
  }
  return absl::OkStatus();
}

absl::Status CopyEncodedMoments(absl::Span<const float> values, const ShardState& codes_state,
                                const ShardState& scales_state, int64_t begin) {
  Device& device = codes_state.unit->device();
  const auto count = static_cast<int64_t>(values.size());
  const int64_t blocks = (count + kMomentBlock - 1) / kMomentBlock;
  std::vector<uint8_t> codes(values.size());
  std::vector<float> scales(static_cast<size_t>(blocks));
  const auto encode = codes_state.coding == StateCoding::kFirstMoment
                          ? &EncodeBlocks<FirstMomentCode>
                          : &EncodeBlocks<SecondMomentCode>;
  encode(values, absl::MakeSpan(codes), absl::MakeSpan(scales));
  ZEROTH_RETURN_IF_ERROR(CopyStateFromHost(device, codes.data(), codes_state.shard, begin, count));
  return CopyStateFromHost(device, scales.data(), scales_state.shard, begin / kMomentBlock, blocks);
}

}  // namespace zeroth
