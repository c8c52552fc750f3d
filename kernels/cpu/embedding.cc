// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/cpu/embedding.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/by_element_type.h"
#include "zeroth/kernels/cpu/elementwise.h"
#include "zeroth/kernels/cpu/parallel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/row_chain.h"
#include "zeroth/kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// out = table[token] + positions[position].
template <typename T>
HWY_INLINE void AddRow(int64_t dim, const void* table, int64_t token, const void* positions,
                       int64_t position, void* out, int64_t row) {
  Transform(
      static_cast<size_t>(dim), static_cast<T*>(out) + row * dim,
      [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); },
      static_cast<const T*>(table) + token * dim,
      static_cast<const T*>(positions) + position * dim);
}

// Columns of a sum of several rows are added up here, in fp32 whatever the gradient is.
constexpr int64_t kSumColumns = 256;

// to[columns] (+)= sum of the rows of `chain` in order. `from` is row 0 of dout.
template <typename T, typename G>
HWY_INLINE void AddChain(const RowChain& chain, int64_t first, int64_t dim, size_t columns,
                         const T* from, bool accumulate, G* to) {
  const auto add = [](auto, auto sum, auto x) HWY_ATTR { return hn::Add(sum, x); };
  if (accumulate && chain.Next(first) < 0) {  // most tokens of a batch, most often
    Transform(columns, to, add, to, from + first * dim);
    return;
  }
  float sums[kSumColumns];
  if (accumulate) {
    Transform(
        columns, sums, [](auto, auto x) HWY_ATTR { return x; }, to);
  } else {
    std::fill_n(sums, columns, 0.0f);
  }
  int64_t place = first;
  for (int64_t next = chain.Next(place); next >= 0; next = chain.Next(place)) {
    Transform(columns, sums, add, sums, from + place * dim);
    place = next;
  }
  Transform(columns, to, add, sums, from + place * dim);
}

// Columns [begin, end) of gradient[row] (+)= sum of dout over the chain that begins at `first`.
template <typename T, typename G>
HWY_INLINE void GradientRow(const RowGradients& rows, const RowChain& chain, int64_t first,
                            int64_t row, int64_t begin, int64_t end) {
  G* to = static_cast<G*>(rows.gradient) + row * rows.dim;
  const T* from = static_cast<const T*>(rows.dout);
  for (int64_t column = begin; column < end; column += kSumColumns) {
    const size_t columns = static_cast<size_t>(std::min(kSumColumns, end - column));
    AddChain(chain, first, rows.dim, columns, from + column, rows.accumulate, to + column);
  }
}

// HWY_EXPORT takes the name of a function.
void AddRowF32(int64_t dim, const void* table, int64_t token, const void* positions,
               int64_t position, void* out, int64_t row) {
  AddRow<float>(dim, table, token, positions, position, out, row);
}
void AddRowBF16(int64_t dim, const void* table, int64_t token, const void* positions,
                int64_t position, void* out, int64_t row) {
  AddRow<BFloat16>(dim, table, token, positions, position, out, row);
}
void AddRowF16(int64_t dim, const void* table, int64_t token, const void* positions,
               int64_t position, void* out, int64_t row) {
  AddRow<Float16>(dim, table, token, positions, position, out, row);
}
void GradientRowF32F32(const RowGradients& rows, const RowChain& chain, int64_t first, int64_t row,
                       int64_t begin, int64_t end) {
  GradientRow<float, float>(rows, chain, first, row, begin, end);
}
void GradientRowF32BF16(const RowGradients& rows, const RowChain& chain, int64_t first, int64_t row,
                        int64_t begin, int64_t end) {
  GradientRow<float, BFloat16>(rows, chain, first, row, begin, end);
}
void GradientRowF32F16(const RowGradients& rows, const RowChain& chain, int64_t first, int64_t row,
                       int64_t begin, int64_t end) {
  GradientRow<float, Float16>(rows, chain, first, row, begin, end);
}
void GradientRowBF16F32(const RowGradients& rows, const RowChain& chain, int64_t first, int64_t row,
                        int64_t begin, int64_t end) {
  GradientRow<BFloat16, float>(rows, chain, first, row, begin, end);
}
void GradientRowF16F32(const RowGradients& rows, const RowChain& chain, int64_t first, int64_t row,
                       int64_t begin, int64_t end) {
  GradientRow<Float16, float>(rows, chain, first, row, begin, end);
}
void GradientRowBF16BF16(const RowGradients& rows, const RowChain& chain, int64_t first,
                         int64_t row, int64_t begin, int64_t end) {
  GradientRow<BFloat16, BFloat16>(rows, chain, first, row, begin, end);
}
void GradientRowF16F16(const RowGradients& rows, const RowChain& chain, int64_t first, int64_t row,
                       int64_t begin, int64_t end) {
  GradientRow<Float16, Float16>(rows, chain, first, row, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {

HWY_EXPORT(AddRowF32);
HWY_EXPORT(AddRowBF16);
HWY_EXPORT(AddRowF16);
HWY_EXPORT(GradientRowF32F32);
HWY_EXPORT(GradientRowF32BF16);
HWY_EXPORT(GradientRowF32F16);
HWY_EXPORT(GradientRowBF16F32);
HWY_EXPORT(GradientRowF16F32);
HWY_EXPORT(GradientRowBF16BF16);
HWY_EXPORT(GradientRowF16F16);

namespace {

using GradientRowFunction = void (*)(const RowGradients& rows, const RowChain& chain, int64_t first,
                                     int64_t row, int64_t begin, int64_t end);

GradientRowFunction FindGradientRow(const RowGradients& rows) {
  if (rows.dtype == DType::kBFloat16) {
    return rows.grad_dtype == DType::kBFloat16 ? HWY_DYNAMIC_DISPATCH(GradientRowBF16BF16)
                                               : HWY_DYNAMIC_DISPATCH(GradientRowBF16F32);
  }
  if (rows.dtype == DType::kFloat16) {
    return rows.grad_dtype == DType::kFloat16 ? HWY_DYNAMIC_DISPATCH(GradientRowF16F16)
                                              : HWY_DYNAMIC_DISPATCH(GradientRowF16F32);
  }
  return ByElementType(rows.grad_dtype, HWY_DYNAMIC_DISPATCH(GradientRowF32F32),
                       HWY_DYNAMIC_DISPATCH(GradientRowF32BF16),
                       HWY_DYNAMIC_DISPATCH(GradientRowF32F16));
}

// Links the places of every token: `heads[token]` is the first, or -1.
void LinkPlaces(int64_t count, int64_t vocab, const int32_t* tokens, int32_t* heads,
                int32_t* next) {
  std::fill_n(heads, vocab, -1);
  for (int64_t place = count - 1; place >= 0; --place) {
    next[place] = heads[tokens[place]];
    heads[tokens[place]] = static_cast<int32_t>(place);
  }
}

}  // namespace

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

void Embedding(int64_t batch, int64_t seq, int64_t dim, const int32_t* tokens, DType dtype,
               const void* table, const void* positions, void* out) {
  const auto add_row =
      ByElementType(dtype, HWY_DYNAMIC_DISPATCH(AddRowF32), HWY_DYNAMIC_DISPATCH(AddRowBF16),
                    HWY_DYNAMIC_DISPATCH(AddRowF16));
  const size_t row_bytes = static_cast<size_t>(dim) * SizeOf(dtype);
  ParallelFor(batch * seq, RowGrain(dim), [=](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (positions == nullptr) {
        std::memcpy(static_cast<char*>(out) + static_cast<size_t>(i) * row_bytes,
                    static_cast<const char*>(table) + static_cast<size_t>(tokens[i]) * row_bytes,
                    row_bytes);
      } else {
        add_row(dim, table, tokens[i], positions, i % seq, out, i);
      }
    }
  });
}

absl::Status EmbeddingBackward(int64_t count, int64_t vocab, const int32_t* tokens,
                               const RowGradients& rows, Workspace& workspace) {
  ZEROTH_ASSIGN_OR_RETURN(void* memory,
                          workspace.Reserve(static_cast<size_t>(vocab + count) * sizeof(int32_t)));
  int32_t* heads = static_cast<int32_t*>(memory);
  int32_t* next = heads + vocab;
  LinkPlaces(count, vocab, tokens, heads, next);
  if (!rows.accumulate) FillZero(vocab * rows.dim, rows.grad_dtype, rows.gradient);
  // Cut by columns: every thread walks all tokens in order, so that no two meet in one element,
  // whatever repeats.
  constexpr int64_t kColumnsOfACacheLine = 32;
  const int64_t threads = omp_get_max_threads();
  const int64_t columns =
      std::max<int64_t>(1, (rows.dim / threads + kColumnsOfACacheLine - 1) / kColumnsOfACacheLine) *
      kColumnsOfACacheLine;
  const RowChain chain{next, 0, count};
  const auto gradient_row = FindGradientRow(rows);
  ParallelFor(rows.dim, columns, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t place = 0; place < count; ++place) {
      if (heads[tokens[place]] == place)
        gradient_row(rows, chain, place, tokens[place], begin, end);
    }
  });
  return absl::OkStatus();
}

void PositionBackward(int64_t batch, int64_t seq, int64_t max_seq, const RowGradients& rows) {
  const int64_t dim = rows.dim;
  const RowChain chain{nullptr, seq, batch * seq};
  const auto gradient_row = FindGradientRow(rows);
  // An empty batch has no first row.
  const int64_t written = batch > 0 ? seq : 0;
  ParallelFor(written, RowGrain(dim * batch), [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t s = begin; s < end; ++s) gradient_row(rows, chain, s, s, 0, dim);
  });
  if (rows.accumulate) return;
  char* rest = static_cast<char*>(rows.gradient) +
               static_cast<size_t>(written * dim) * SizeOf(rows.grad_dtype);
  FillZero((max_seq - written) * dim, rows.grad_dtype, rest);
}

}  // namespace zeroth::cpu
#endif  // HWY_ONCE
