// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/embedding.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "zeroth/kernels/cpu/elementwise.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

void AddRow(size_t n, const float* a, const float* b, float* out) {
  Transform(
      n, out, [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); }, a, b);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(AddRow);

absl::Status CheckTokens(const char* op, int64_t batch, int64_t seq, int64_t vocab,
                         const int32_t* tokens) {
  for (int64_t i = 0; i < batch * seq; ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab) continue;
    return absl::InvalidArgumentError(absl::StrCat(op, ": tokens[", i / seq, ", ", i % seq, "] is ",
                                                   tokens[i], ", expected a value in [0, ", vocab,
                                                   "), the rows of the embedding table"));
  }
  return absl::OkStatus();
}

void Embedding(int64_t batch, int64_t seq, int64_t dim, const int32_t* tokens, const float* table,
               const float* positions, float* out) {
  const size_t width = static_cast<size_t>(dim);
  ParallelFor(batch * seq, RowGrain(dim), [=](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float* row = table + tokens[i] * dim;
      if (positions == nullptr) {
        std::memcpy(out + i * dim, row, width * sizeof(float));
      } else {
        HWY_DYNAMIC_DISPATCH(AddRow)(width, row, positions + (i % seq) * dim, out + i * dim);
      }
    }
  });
}

void EmbeddingBackward(int64_t count, int64_t vocab, int64_t dim, const int32_t* tokens,
                       const float* dout, bool accumulate, float* dtable) {
  if (!accumulate) FillZero(vocab * dim, dtable);
  // Cut by columns: every thread walks all tokens in order, so that no two meet in one element,
  // whatever repeats.
  constexpr int64_t kCacheLine = 16;
  const int64_t threads = omp_get_max_threads();
  const int64_t columns =
      std::max<int64_t>(1, (dim / threads + kCacheLine - 1) / kCacheLine) * kCacheLine;
  ParallelFor(dim, columns, [=](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < count; ++i) {
      float* row = dtable + tokens[i] * dim + begin;
      HWY_DYNAMIC_DISPATCH(AddRow)
      (static_cast<size_t>(end - begin), row, dout + i * dim + begin, row);
    }
  });
}

void PositionBackward(int64_t batch, int64_t seq, int64_t dim, int64_t max_seq, const float* dout,
                      bool accumulate, float* dpositions) {
  const size_t width = static_cast<size_t>(dim);
  ParallelFor(seq, RowGrain(dim * batch), [=](int64_t, int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) {
      float* row = dpositions + s * dim;
      if (!accumulate) std::memset(row, 0, width * sizeof(float));
      for (int64_t b = 0; b < batch; ++b) {
        HWY_DYNAMIC_DISPATCH(AddRow)(width, row, dout + (b * seq + s) * dim, row);
      }
    }
  });
  if (!accumulate) FillZero((max_seq - seq) * dim, dpositions + seq * dim);
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
