// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "zeroth/kernels/basic/basic.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/basic/basic_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/activation/activation-inl.h"
#include "zeroth/kernels/cpu/element-inl.h"
#include "zeroth/kernels/cpu/soft_cap-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// Load and store one element, for code without vectors.
template <typename T>
HWY_INLINE float Load(const T* from) {
  const hn::CappedTag<float, 1> d;
  return hn::GetLane(LoadElements(d, from));
}
template <typename T>
HWY_INLINE void Store(float value, T* to) {
  const hn::CappedTag<float, 1> d;
  StoreElements(hn::Set(d, value), d, to);
}

// The addresses of a row's elements, from `column` on.
template <typename T>
struct Row {
  Row(const BasicCall& call, int64_t row, int64_t column)
      : a(static_cast<const T*>(call.a) + row * call.a_stride + column),
        b(static_cast<const T*>(call.b) + row * call.b_stride + column),
        out(static_cast<T*>(call.out) + row * call.out_stride + column) {}
  const T* a;
  const T* b;
  T* out;
};

// out[i] (+)= values[i].
template <typename In, typename Out>
HWY_INLINE void Put(bool accumulate, size_t count, const In* values, Out* out) {
  if (accumulate) {
    Transform(
        count, out, [](auto, auto before, auto v) HWY_ATTR { return hn::Add(before, v); },
        static_cast<const Out*>(out), values);
  } else {
    Convert(count, out, values);
  }
}

// Replaces a[i] with the operation's result for a[i] and b[i]. `element` is the index of a[0] in
// dropout's draws, counted from the matrix's first element. Works in fp32 whatever the element
// type, so that there is one instance of each operation.
void Apply(const BasicCall& call, int64_t element, size_t count, float* a, const float* b) {
  const float scalar = call.scalar;
  const auto map = [&](const auto& f) { Transform(count, a, f, static_cast<const float*>(a), b); };
  switch (call.op) {
    case BasicOp::kScale:
      return map([scalar](auto d, auto x, auto)
                     HWY_ATTR { return hn::Mul(hn::Set(d, scalar), x); });
    case BasicOp::kFill:
      return map([scalar](auto d, auto, auto) HWY_ATTR { return hn::Set(d, scalar); });
    case BasicOp::kMultiply:
      return map([](auto, auto x, auto y) HWY_ATTR { return hn::Mul(x, y); });
    case BasicOp::kRelu:
      return map([](auto d, auto x, auto) HWY_ATTR { return AtLeast(d, 0.0f, x); });
    case BasicOp::kReluBackward:
      return map([](auto d, auto x, auto y)
                     HWY_ATTR { return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), y); });
    case BasicOp::kSilu:
      return map([](auto d, auto x, auto) HWY_ATTR { return SiluOf(d, x); });
    case BasicOp::kSiluBackward:
      // With s = logistic(x): s (1 + x (1 - s)), which is 1 from -kSiluLowest up.
      return map([](auto d, auto x, auto y) HWY_ATTR {
        const auto v = AtLeast(d, kSiluLowest, AtMost(d, -kSiluLowest, x));
        auto s = v;
        auto complement = v;
        LogisticAndComplement(d, v, s, complement);
        return hn::Mul(y, hn::Mul(s, hn::MulAdd(v, complement, hn::Set(d, 1.0f))));
      });
    case BasicOp::kTanh:
      for (size_t i = 0; i < count; ++i) a[i] = std::tanh(a[i]);
      return;
    case BasicOp::kSoftCap:
      return map([scalar](auto d, auto x, auto) HWY_ATTR { return SoftCap(d, x, scalar); });
    case BasicOp::kTanhBackward:
      return map([](auto d, auto x, auto y)
                     HWY_ATTR { return hn::Mul(y, hn::NegMulAdd(x, x, hn::Set(d, 1.0f))); });
    case BasicOp::kSigmoid:
      return map([](auto d, auto x, auto) HWY_ATTR {
        return hn::IfThenElse(hn::IsNaN(x), x, TimesLogistic(d, hn::Set(d, 1.0f), x));
      });
    case BasicOp::kSigmoidBackward:
      return map([](auto d, auto x, auto y)
                     HWY_ATTR { return hn::Mul(y, hn::Mul(x, hn::Sub(hn::Set(d, 1.0f), x))); });
    case BasicOp::kDropout: {
      const uint32_t threshold = DropoutThreshold(scalar);
      const float kept = 1.0f / (1.0f - scalar);
      for (size_t i = 0; i < count; ++i) {
        const int64_t at = call.draws.first_element + element + static_cast<int64_t>(i);
        a[i] = DropsElement(call.draws, at, threshold) ? 0.0f : kept * a[i];
      }
      return;
    }
    default:
      return;
  }
}

// Computes `count` elements of one row, from `column` on.
template <typename T>
HWY_INLINE void ElementsOf(const BasicCall& call, int64_t at_row, int64_t column, int64_t count) {
  constexpr int64_t kAtOnce = 512;
  HWY_ALIGN float a[kAtOnce];
  HWY_ALIGN float b[kAtOnce];
  for (const int64_t end = column + count; column < end; column += kAtOnce) {
    const auto part = static_cast<size_t>(std::min(kAtOnce, end - column));
    const Row<T> row(call, at_row, column);
    Convert(part, a, row.a);
    if (call.b_dtype == call.dtype) {
      Convert(part, b, row.b);
    } else {
      Convert(part, b, static_cast<const float*>(call.b) + at_row * call.b_stride + column);
    }
    Apply(call, at_row * call.draws.row_elements + column, part, a, b);
    if (call.out_dtype == call.dtype) {
      Put(call.accumulate, part, a, row.out);
    } else {
      Put(call.accumulate, part, a,
          static_cast<float*>(call.out) + at_row * call.out_stride + column);
    }
  }
}

template <typename T>
HWY_INLINE void SoftmaxRow(const BasicCall& call, int64_t at_row) {
  const Row<T> row(call, at_row, 0);
  const auto count = static_cast<size_t>(call.cols);
  std::vector<float> values(count);
  if (call.op == BasicOp::kSoftmaxBackward) {
    const float dot = Dot(count, row.a, row.b);
    Transform(
        count, values.data(),
        [dot](auto d, auto a, auto b) HWY_ATTR { return hn::Mul(a, hn::Sub(b, hn::Set(d, dot))); },
        row.a, row.b);
    return Put(call.accumulate, count, values.data(), row.out);
  }
  const float largest = Largest(count, row.a);
  Transform(
      count, values.data(),
      [largest](auto d, auto a) HWY_ATTR { return Exp(d, hn::Sub(a, hn::Set(d, largest))); },
      row.a);
  const float inverse = 1.0f / Sum(count, values.data());
  for (float& value : values) value *= inverse;
  Put(call.accumulate, count, values.data(), row.out);
}

template <typename T>
HWY_INLINE void MeanRow(const BasicCall& call, int64_t at_row) {
  const bool backward = call.op == BasicOp::kMeanBackward;
  const int64_t first = backward ? at_row / call.group : at_row * call.group;
  const int64_t count = backward ? 1 : call.group;
  std::vector<double> sums(static_cast<size_t>(call.cols));
  for (int64_t i = first; i < first + count; ++i) {
    const T* from = static_cast<const T*>(call.a) + i * call.a_stride;
    for (int64_t c = 0; c < call.cols; ++c) sums[static_cast<size_t>(c)] += Load(from + c);
  }
  T* out = static_cast<T*>(call.out) + at_row * call.out_stride;
  for (int64_t c = 0; c < call.cols; ++c) {
    const double mean = sums[static_cast<size_t>(c)] / static_cast<double>(call.group);
    const float before = call.accumulate ? Load(out + c) : 0.0f;
    Store(before + static_cast<float>(mean), out + c);
  }
}

template <typename T>
HWY_INLINE void PieceOf(const BasicCall& call, int64_t row, int64_t column, int64_t count) {
  switch (call.op) {
    case BasicOp::kSoftmax:
    case BasicOp::kSoftmaxBackward:
      return SoftmaxRow<T>(call, row);
    case BasicOp::kMean:
    case BasicOp::kMeanBackward:
      return MeanRow<T>(call, row);
    default:
      return ElementsOf<T>(call, row, column, count);
  }
}

void Piece(const BasicCall& call, int64_t row, int64_t column, int64_t count) {
  WithElementType(call.dtype,
                  [&]<typename T>(T) HWY_ATTR { PieceOf<T>(call, row, column, count); });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(Piece);

// An element's result depends neither on the number of threads nor on its place.
absl::Status Basic(const BasicCall& call, CpuKernels&) {
  if (call.rows == 0 || call.cols == 0) return absl::OkStatus();
  const auto piece = HWY_DYNAMIC_DISPATCH(Piece);
  const bool by_element = call.op < BasicOp::kSoftmax;
  const bool one_piece = call.a_stride == call.cols && call.b_stride == call.cols &&
                         call.out_stride == call.cols && call.draws.row_elements == call.cols;
  if (by_element && one_piece) {  // the matrix is treated as one long row
    ParallelFor(call.rows * call.cols, kElementGrain,
                [&](int64_t, int64_t begin, int64_t end) { piece(call, 0, begin, end - begin); });
    return absl::OkStatus();
  }
  const int64_t read = call.op == BasicOp::kMean ? call.group : 1;
  ParallelFor(call.rows, RowGrain(read * call.cols), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) piece(call, row, 0, call.cols);
  });
  return absl::OkStatus();
}
const OnCpu<Basic> basic;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
