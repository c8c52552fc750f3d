// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/rope/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/operation.h"

namespace zeroth {
namespace {

// Returns the weight of the unscaled frequency in the blend with frequency / factor (Llama 3.1).
double Llama3Share(const RopeSpec& spec, double frequency) {
  const double turns = spec.original_context * frequency / (2.0 * std::numbers::pi);
  return std::clamp((turns - spec.low_freq_factor) / (spec.high_freq_factor - spec.low_freq_factor),
                    0.0, 1.0);
}

// Returns the index, as a real number, of the pair that makes `turns` rotations within the original
// context.
double PairThatTurns(const RopeSpec& spec, int64_t rotary_dim, double turns) {
  return static_cast<double>(rotary_dim) *
         std::log(spec.original_context / (turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(spec.theta));
}

double YarnShare(const RopeSpec& spec, int64_t rotary_dim, int64_t pair) {
  double low = PairThatTurns(spec, rotary_dim, spec.beta_fast);
  double high = PairThatTurns(spec, rotary_dim, spec.beta_slow);
  if (spec.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rotary_dim - 1));
  if (low == high) high += 0.001;  // as transformers and YaRN's own code do
  return 1.0 - std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
}

}  // namespace

std::vector<double> RopeFrequencies(const RopeSpec& spec, int64_t rotary_dim) {
  std::vector<double> frequencies;
  for (int64_t pair = 0; pair < rotary_dim / 2; ++pair) {
    const double own =
        std::pow(spec.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(rotary_dim));
    if (spec.type == RopeSpec::Type::kLongrope) {
      frequencies.push_back(own / spec.factors[static_cast<size_t>(pair)]);
      continue;
    }
    double share = 1.0;
    if (spec.type == RopeSpec::Type::kLinear) share = 0.0;
    if (spec.type == RopeSpec::Type::kLlama3) share = Llama3Share(spec, own);
    if (spec.type == RopeSpec::Type::kYarn) share = YarnShare(spec, rotary_dim, pair);
    frequencies.push_back(share * own + (1.0 - share) * own / spec.factor);
  }
  return frequencies;
}

namespace kernels {

absl::Status Rope(Kernels& kernels, const RopeArgs& args) {
  Operation op("Rope", kernels);
  const AttentionShape& shape = args.shape;
  if (!CheckAttentionShape(op, shape)) return op.status();
  const int64_t rotary_dim = args.spec.rotary_dim(shape.head_dim);
  op.Require(rotary_dim % 2 == 0 && rotary_dim > 0 && rotary_dim <= shape.head_dim, "shape",
             absl::StrCat("has head_dim ", shape.head_dim, ", of which ", rotary_dim,
                          " elements are rotated, expected an even number from 2 on"));
  if (args.spec.type == RopeSpec::Type::kLongrope) {
    for (const auto* factors : {&args.spec.factors, &args.spec.long_factors}) {
      op.Require(static_cast<int64_t>(factors->size()) == rotary_dim / 2, "factors",
                 absl::StrCat("are ", factors->size(), ", expected one for each of ",
                              rotary_dim / 2, " pairs"));
    }
  }
  const double theta = args.spec.theta;
  op.Require(theta > 0 && std::isfinite(theta), "theta",
             absl::StrCat("is ", theta, ", expected a positive number"));
  SharedType type;
  op.Rows("qkv", args.qkv, shape.batch * shape.seq, shape.packed_dim(), type);
  if (args.starts.defined()) {
    op.Exactly("starts", args.starts, {shape.batch, shape.seq}, DType::kInt32);
  }
  op.Require(args.first_position >= 0, "first_position",
             absl::StrCat("is ", args.first_position, ", expected at least 0"));
  if (!op.ok()) return op.status();
  RopeCall call{{shape.batch, shape.seq, shape.heads + shape.kv_heads, shape.head_dim, rotary_dim,
                 shape.packed_dim(), args.qkv.raw_data(), DataOrNull<int32_t>(args.starts),
                 args.first_position},
                args.qkv.dtype(),
                args.spec,
                args.inverse};
  const auto length = static_cast<double>(args.first_position + shape.seq);
  if (length > args.spec.original_context) call.spec.factors = args.spec.long_factors;
  return op.Run(call);
}

}  // namespace kernels
}  // namespace zeroth
