// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/calls.h"

namespace zeroth {
namespace {

uint8_t* CodesOrNull(const Tensor& codes) {
  return codes.defined() ? codes.data<uint8_t>() : nullptr;
}

}  // namespace

std::vector<SquaresCall> CallsOf(absl::Span<const Tensor> xs) {
  std::vector<SquaresCall> calls;
  calls.reserve(xs.size());
  for (const Tensor& x : xs) calls.push_back({x.numel(), x.dtype(), x.raw_data()});
  return calls;
}

CastFp8Call CallOf(const CastFp8Args& args) {
  CastFp8Call call;
  call.rows = args.values.rows;
  call.cols = args.values.cols;
  call.stride = args.values.stride;
  call.dtype = args.values.tensor.dtype();
  call.values = args.values.raw_data();
  call.format = args.format;
  call.codes = CodesOrNull(args.codes);
  call.codes_transposed = CodesOrNull(args.codes_transposed);
  call.scale = args.scale.data<float>();
  return call;
}

}  // namespace zeroth
