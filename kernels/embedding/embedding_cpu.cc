// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/cpu/cpu_kernels.h"
#include "zeroth/kernels/cpu/parallel.h"
#include "zeroth/kernels/embedding/embedding.h"
#include "zeroth/kernels/matrix.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/embedding/embedding_cpu.cc"
#include "hwy/foreach_target.h"
// Must come after foreach_target.h.
#include "hwy/highway.h"

#include "zeroth/kernels/cpu/element-inl.h"

HWY_BEFORE_NAMESPACE();
namespace zeroth::cpu {
namespace HWY_NAMESPACE {

// An ordered list of rows. The next row follows from a table, or lies at a fixed distance.
struct RowChain {
  const int32_t* next = nullptr;  // for every row, -1 for none; null for a fixed distance
  int64_t step = 0;
  int64_t count = 0;  // number of all rows

  // Returns the row after `row`, or -1.
  int64_t Next(int64_t row) const {
    if (next != nullptr) return next[row];
    return row + step < count ? row + step : -1;
  }
};

// out[row] = table[token] + positions[position] for rows [begin, end).
void AddRows(const EmbeddingCall& call, int64_t begin, int64_t end) {
  WithElementType(call.dtype, [&]<typename T>(T) HWY_ATTR {
    for (int64_t row = begin; row < end; ++row) {
      T* const out = static_cast<T*>(call.out) + row * call.dim;
      const T* const position = static_cast<const T*>(call.positions) + row % call.seq * call.dim;
      if (call.tokens[row] == call.vocab) {  // in another part of the vocabulary
        std::copy_n(position, call.dim, out);
        continue;
      }
      Transform(
          static_cast<size_t>(call.dim), out,
          [](auto, auto x, auto y) HWY_ATTR { return hn::Add(x, y); },
          static_cast<const T*>(call.table) + call.tokens[row] * call.dim, position);
    }
  });
}

// Columns that are summed at a time, in fp32 whatever the gradient's type.
constexpr int64_t kSumColumns = 256;

// to[columns] (+)= the sum of the rows of `chain`, in order. `from` is row 0 of dout.
template <typename T, typename G>
HWY_INLINE void AddChain(const RowChain& chain, int64_t first, int64_t dim, size_t columns,
                         const T* from, bool accumulate, G* to) {
  const auto add = [](auto, auto sum, auto x) HWY_ATTR { return hn::Add(sum, x); };
  if (accumulate && chain.Next(first) < 0) {  // most tokens of a batch occur once
    Transform(columns, to, add, to, from + first * dim);
    return;
  }
  float sums[kSumColumns];
  if (accumulate) {
    Convert(columns, sums, to);
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

// Columns [begin, end) of gradient[row] (+)= the sum of dout over the chain that begins at `first`.
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

// Computes columns [begin, end) of the gradients of all tokens. `next` links the places of a token,
// beginning with `heads[token]`.
void TokenGradients(const EmbeddingBackwardCall& call, const int32_t* heads, const int32_t* next,
                    int64_t begin, int64_t end) {
  const int64_t places = call.batch * call.seq;
  const RowChain chain{next, 0, places};
  WithElementTypes(call.dtype, call.grad_dtype, [&]<typename T, typename G>(T, G) HWY_ATTR {
    for (int64_t place = 0; place < places; ++place) {
      const int32_t token = call.tokens[place];
      if (token < call.rows && heads[token] == place) {
        GradientRow<T, G>(call, chain, place, token, begin, end);
      }
    }
  });
}

// Computes the gradients of positions [begin, end).
void PositionGradients(const PositionBackwardCall& call, int64_t begin, int64_t end) {
  const RowChain chain{nullptr, call.seq, call.batch * call.seq};
  WithElementTypes(call.dtype, call.grad_dtype, [&]<typename T, typename G>(T, G) HWY_ATTR {
    for (int64_t s = begin; s < end; ++s) {
      GradientRow<T, G>(call, chain, s, s, 0, call.dim);
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace zeroth::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace zeroth::cpu {
namespace {

HWY_EXPORT(AddRows);
HWY_EXPORT(TokenGradients);
HWY_EXPORT(PositionGradients);

// Links the places of every token. `heads[token]` is the first one, or -1.
void LinkPlaces(int64_t count, int64_t vocab, const int32_t* tokens, int32_t* heads,
                int32_t* next) {
  std::fill_n(heads, vocab, -1);
  for (int64_t place = count - 1; place >= 0; --place) {
    if (tokens[place] == vocab) continue;  // in another part of the vocabulary
    next[place] = heads[tokens[place]];
    heads[tokens[place]] = static_cast<int32_t>(place);
  }
}

// Sets the rows of the gradient from `first` on to zero, in parallel.
void ClearRows(const RowGradients& call, int64_t first) {
  const int64_t before = first * call.dim;
  ParallelFor(call.rows * call.dim - before, kElementGrain,
              [&](int64_t, int64_t begin, int64_t end) {
                std::memset(Advance(call.gradient, before + begin, call.grad_dtype), 0,
                            static_cast<size_t>(end - begin) * SizeOf(call.grad_dtype));
              });
}

absl::Status CheckTokens(const char* op, int64_t batch, int64_t seq, int64_t vocab, bool part,
                         const int32_t* tokens) {
  for (int64_t i = 0; i < batch * seq; ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab + (part ? 1 : 0)) continue;
    return InvalidArgument(op, ": tokens[", i / seq, ", ", i % seq, "] is ", tokens[i],
                           ", expected a value in [0, ", vocab,
                           "), the rows of the embedding table");
  }
  return absl::OkStatus();
}

absl::Status Embedding(const EmbeddingCall& call, CpuKernels&) {
  ZEROTH_RETURN_IF_ERROR(
      CheckTokens("Embedding", call.batch, call.seq, call.vocab, call.part, call.tokens));
  const auto add_rows = HWY_DYNAMIC_DISPATCH(AddRows);
  const size_t row_bytes = static_cast<size_t>(call.dim) * SizeOf(call.dtype);
  return ForRows(call.batch * call.seq, call.dim, [&](int64_t begin, int64_t end) {
    if (call.positions != nullptr) return add_rows(call, begin, end);
    for (int64_t i = begin; i < end; ++i) {
      void* const to = Advance(call.out, i * call.dim, call.dtype);
      if (call.tokens[i] == call.vocab) {
        std::memset(to, 0, row_bytes);
      } else {
        std::memcpy(to, Advance(call.table, call.tokens[i] * call.dim, call.dtype), row_bytes);
      }
    }
  });
}
const OnCpu<Embedding> embedding;

absl::Status EmbeddingBackward(const EmbeddingBackwardCall& call, CpuKernels& kernels) {
  ZEROTH_RETURN_IF_ERROR(
      CheckTokens("EmbeddingBackward", call.batch, call.seq, call.rows, call.part, call.tokens));
  const int64_t places = call.batch * call.seq;
  ZEROTH_ASSIGN_OR_RETURN(
      void* memory,
      kernels.workspace().Reserve(static_cast<size_t>(call.rows + places) * sizeof(int32_t)));
  int32_t* heads = static_cast<int32_t*>(memory);
  int32_t* next = heads + call.rows;
  LinkPlaces(places, call.rows, call.tokens, heads, next);
  if (!call.accumulate) ClearRows(call, 0);
  // Divides the work by columns. Every thread walks all tokens in order, so that no two threads add
  // to one element even if tokens repeat.
  constexpr int64_t kColumnsOfACacheLine = 32;
  const int64_t threads = omp_get_max_threads();
  const int64_t columns =
      std::max<int64_t>(1, (call.dim / threads + kColumnsOfACacheLine - 1) / kColumnsOfACacheLine) *
      kColumnsOfACacheLine;
  const auto gradients = HWY_DYNAMIC_DISPATCH(TokenGradients);
  ParallelFor(call.dim, columns, [&](int64_t, int64_t begin, int64_t end) {
    gradients(call, heads, next, begin, end);
  });
  return absl::OkStatus();
}
const OnCpu<EmbeddingBackward> embedding_backward;

absl::Status PositionBackward(const PositionBackwardCall& call, CpuKernels&) {
  // An empty batch has no first row.
  const int64_t written = call.batch > 0 ? call.seq : 0;
  if (!call.accumulate) ClearRows(call, written);
  return ForRows(written, call.dim * call.batch, call, HWY_DYNAMIC_DISPATCH(PositionGradients));
}
const OnCpu<PositionBackward> position_backward;

}  // namespace
}  // namespace zeroth::cpu
#endif  // HWY_ONCE
