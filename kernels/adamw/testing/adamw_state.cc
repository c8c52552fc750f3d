// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/adamw/testing/adamw_state.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/adamw/adamw.h"
#include "zeroth/kernels/adamw/testing/low_precision_reference.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {
namespace {

using reference::EightBitCode;

constexpr DType kMomentTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kUInt8};

using Types = AdamWTypes;
using State = AdamWState;

// Encodes values as codes and scales, block by block, each element by its own draw.
void Encode(const EightBitCode& code, const std::vector<float>& values,
            const std::vector<uint16_t>& draws, std::vector<uint8_t>& codes,
            std::vector<float>& scales) {
  codes.clear();
  scales.clear();
  for (size_t begin = 0; begin < values.size(); begin += kMomentBlock) {
    const size_t end = std::min(values.size(), begin + static_cast<size_t>(kMomentBlock));
    const std::vector<float> block(values.begin() + static_cast<int64_t>(begin),
                                   values.begin() + static_cast<int64_t>(end));
    scales.push_back(code.Scale(block));
    for (size_t i = begin; i < end; ++i) {
      codes.push_back(code.Encode(values[i], scales.back(), draws[i]));
    }
  }
}

std::vector<float> Decode(const EightBitCode& code, const std::vector<uint8_t>& codes,
                          const std::vector<float>& scales) {
  std::vector<float> values;
  for (size_t i = 0; i < codes.size(); ++i) {
    values.push_back(code.Decode(codes[i], scales[i / static_cast<size_t>(kMomentBlock)]));
  }
  return values;
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(std::memcmp(&a[i], &b[i], sizeof(float)), 0)
        << what << ", element " << i << ": " << a[i] << " and " << b[i];
  }
}

}  // namespace

void EncodeMoments(State& state, const std::vector<uint16_t>& m_draws,
                   const std::vector<uint16_t>& v_draws) {
  Encode(EightBitCode::FirstMoment(), state.m, m_draws, state.m_codes, state.m_scales);
  Encode(EightBitCode::SecondMoment(), state.v, v_draws, state.v_codes, state.v_scales);
  state.m = Decode(EightBitCode::FirstMoment(), state.m_codes, state.m_scales);
  state.v = Decode(EightBitCode::SecondMoment(), state.v_codes, state.v_scales);
}

std::string AdamWTypes::ToString() const {
  return absl::StrCat(DTypeName(param), " parameters, ", DTypeName(grad), " gradients, ",
                      DTypeName(moment), " moments");
}

std::vector<AdamWTypes> AllAdamWTypes() {
  std::vector<Types> all;
  for (const DType param : {DType::kFloat32, DType::kBFloat16}) {
    for (const DType grad : kElementTypes) {
      for (const DType moment : kMomentTypes) all.push_back({param, grad, moment});
    }
  }
  return all;
}

void ExpectSameBits(const State& a, const State& b) {
  ExpectSameBits(a.param, b.param, "param");
  ExpectSameBits(a.m, b.m, "m");
  ExpectSameBits(a.v, b.v, "v");
  EXPECT_EQ(a.m_codes, b.m_codes);
  EXPECT_EQ(a.v_codes, b.v_codes);
  EXPECT_EQ(a.m_scales, b.m_scales);
  EXPECT_EQ(a.v_scales, b.v_scales);
}

AdamWArgs AdamWStateSuite::UploadState(const Types& types, const State& state, AdamWArgs scalars) {
  const Shape shape({state.count()});
  scalars.param = Upload(shape, state.param, types.param);
  scalars.grad = Upload(shape, state.grad, types.grad);
  if (types.moment != DType::kUInt8) {
    scalars.m = Upload(shape, state.m, types.moment);
    scalars.v = Upload(shape, state.v, types.moment);
    return scalars;
  }
  const auto upload_codes = [&](const std::vector<uint8_t>& codes) {
    return *Tensor::FromHost<uint8_t>(device(), shape, codes, MemoryCategory::kActivations);
  };
  const Shape blocks({static_cast<int64_t>(state.m_scales.size())});
  scalars.m = upload_codes(state.m_codes);
  scalars.v = upload_codes(state.v_codes);
  scalars.m_scale = Upload(blocks, state.m_scales);
  scalars.v_scale = Upload(blocks, state.v_scales);
  return scalars;
}

State AdamWStateSuite::DownloadState(const AdamWArgs& args) {
  State state;
  state.param = Download(args.param);
  state.grad = Download(args.grad);
  if (args.m.dtype() != DType::kUInt8) {
    state.m = Download(args.m);
    state.v = Download(args.v);
    return state;
  }
  state.m_codes = *args.m.ToHost<uint8_t>();
  state.v_codes = *args.v.ToHost<uint8_t>();
  state.m_scales = Download(args.m_scale);
  state.v_scales = Download(args.v_scale);
  state.m = Decode(EightBitCode::FirstMoment(), state.m_codes, state.m_scales);
  state.v = Decode(EightBitCode::SecondMoment(), state.v_codes, state.v_scales);
  return state;
}

State AdamWStateSuite::Step(const Types& types, const State& state, const AdamWArgs& scalars) {
  const AdamWArgs args = UploadState(types, state, scalars);
  const absl::Status status = WhenDone(kernels::AdamW(kernels(), args));
  EXPECT_TRUE(status.ok()) << status;
  return DownloadState(args);
}

State AdamWStateSuite::RandomState(const Types& types, int64_t count) {
  State state;
  const std::vector<float> orders = RandomNormal(count, 2.0f);
  state.param = RoundTo(types.param, RandomNormal(count, 0.02f));
  state.grad = RandomNormal(count, 1e-3f);
  state.m = RandomNormal(count, 1e-3f);
  state.v = RandomNormal(count, 1e-3f);
  for (size_t i = 0; i < orders.size(); ++i) {
    const float order = std::pow(10.0f, std::clamp(orders[i], -5.0f, 2.0f));
    state.grad[i] *= order;
    state.m[i] *= order;
    state.v[i] *= state.v[i] * order * order;
  }
  state.grad = RoundTo(types.grad, state.grad);
  if (types.moment == DType::kUInt8) {
    const std::vector<uint16_t> half(static_cast<size_t>(count), 0x8000);
    EncodeMoments(state, half, half);
  } else {
    state.m = RoundTo(types.moment, state.m);
    state.v = RoundTo(types.moment, state.v);
  }
  return state;
}

AdamWArgs AdamWStateSuite::RandomScalars(const Types& types, bool may_start_odd) {
  AdamWArgs args;
  args.beta2 = RandomSize(0, 1) == 0 ? 0.999 : 0.95;
  args.lr = 3e-3;
  args.weight_decay = 0.1;
  args.correction1 = 0.4;
  args.correction2 = 0.1;
  args.grad_scale = 0.37;
  args.seed = random()();
  args.step = RandomSize(1, int64_t{1} << 40);
  args.stream = random()();
  args.first_element = RandomSize(0, int64_t{1} << 35);
  if (!may_start_odd) args.first_element &= ~int64_t{1};
  if (types.moment == DType::kUInt8) args.first_element &= -kMomentBlock;
  return args;
}

}  // namespace zeroth::testing
