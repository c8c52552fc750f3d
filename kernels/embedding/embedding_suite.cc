// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <utility>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/embedding/embedding.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth::testing {

class EmbeddingSuite : public KernelsSuite {
 protected:
  // Uniform on [0, vocab).
  std::vector<int32_t> RandomTokens(int64_t count, int64_t vocab);
};

std::vector<int32_t> EmbeddingSuite::RandomTokens(int64_t count, int64_t vocab) {
  std::vector<int32_t> tokens;
  for (int64_t t = 0; t < count; ++t)
    tokens.push_back(static_cast<int32_t>(RandomSize(0, vocab - 1)));
  return tokens;
}

TEST_P(EmbeddingSuite, ForwardPicksRowsAndAddsPositions) {
  for (int i = 0; i < 60; ++i) {
    const DType dtype = kElementTypes[i % 3];
    const int64_t batch = RandomSize(0, 4);
    const int64_t seq = RandomSize(0, 9);
    const int64_t vocab = RandomSize(1, 20);
    const int64_t dim = RandomSize(0, 50);
    const int64_t max_seq = seq + RandomSize(0, 3);
    const std::vector<int32_t> tokens = RandomTokens(batch * seq, vocab);
    const std::vector<float> table = RoundTo(dtype, RandomNormal(vocab * dim));
    const std::vector<float> positions = RoundTo(dtype, RandomNormal(max_seq * dim));
    for (const bool with_positions : {false, true}) {
      std::vector<float> expected;
      for (int64_t t = 0; t < batch * seq; ++t) {
        for (int64_t c = 0; c < dim; ++c) {
          const float value = table[tokens[t] * dim + c];
          expected.push_back(with_positions ? value + positions[(t % seq) * dim + c] : value);
        }
      }
      const Tensor out = Unwritten({batch, seq, dim}, dtype);
      const Tensor added = with_positions ? Upload({max_seq, dim}, positions, dtype) : Tensor();
      ASSERT_TRUE(kernels::Embedding(kernels(), UploadTokens({batch, seq}, tokens),
                                     Upload({vocab, dim}, table, dtype), added, out)
                      .ok());
      EXPECT_EQ(Download(out), RoundTo(dtype, expected));
    }
  }
}

// If a table is divided into two parts, their results add up to the result of the whole table.
TEST_P(EmbeddingSuite, PartsOfATableAddUp) {
  constexpr int64_t kVocab = 11, kFirst = 6, kDim = 7, kBatch = 2, kSeq = 9;
  for (const DType dtype : kElementTypes) {
    const std::vector<int32_t> tokens = RandomTokens(kBatch * kSeq, kVocab);
    const std::vector<float> table = RoundTo(dtype, RandomNormal(kVocab * kDim));
    const std::vector<float> positions = RoundTo(dtype, RandomNormal(kSeq * kDim));
    const std::vector<float> dout = RoundTo(dtype, RandomNormal(kBatch * kSeq * kDim));
    std::vector<float> sum(static_cast<size_t>(kBatch * kSeq * kDim));
    std::vector<float> gradient;
    for (const int64_t first : {int64_t{0}, kFirst}) {
      const int64_t rows = first == 0 ? kFirst : kVocab - kFirst;
      std::vector<int32_t> local;
      for (const int32_t token : tokens) {
        const bool is_here = token >= first && token < first + rows;
        local.push_back(static_cast<int32_t>(is_here ? token - first : rows));
      }
      const auto begin = table.begin() + first * kDim;
      const Tensor part = Upload({rows, kDim}, {begin, begin + rows * kDim}, dtype);
      const Tensor added = first == 0 ? Upload({kSeq, kDim}, positions, dtype) : Tensor();
      const Tensor ids = UploadTokens({kBatch, kSeq}, local);
      const Tensor out = Unwritten({kBatch, kSeq, kDim}, dtype);
      ASSERT_TRUE(kernels::Embedding(kernels(), ids, part, added, out, /*part=*/true).ok());
      const std::vector<float> values = Download(out);
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
      const Tensor dtable = Unwritten({rows, kDim}, dtype);
      ASSERT_TRUE(kernels::EmbeddingBackward(kernels(), ids,
                                             Upload({kBatch, kSeq, kDim}, dout, dtype), dtable,
                                             /*accumulate=*/false, /*part=*/true)
                      .ok());
      const std::vector<float> rows_of_part = Download(dtable);
      gradient.insert(gradient.end(), rows_of_part.begin(), rows_of_part.end());
    }
    std::vector<float> expected;
    std::vector<float> expected_gradient(table.size());
    for (int64_t t = 0; t < kBatch * kSeq; ++t) {
      for (int64_t c = 0; c < kDim; ++c) {
        expected.push_back(table[tokens[t] * kDim + c] + positions[t % kSeq * kDim + c]);
        expected_gradient[tokens[t] * kDim + c] += dout[t * kDim + c];
      }
    }
    EXPECT_EQ(RoundTo(dtype, sum), RoundTo(dtype, expected));
    EXPECT_EQ(gradient, RoundTo(dtype, expected_gradient));
  }
}

TEST_P(EmbeddingSuite, BackwardAddsRepeatedTokensAndWritesAllRows) {
  for (int i = 0; i < 60; ++i) {
    const auto [dtype, grad_dtype] = kTypePairs[i % 7];
    const int64_t batch = RandomSize(0, 4);
    const int64_t seq = RandomSize(0, 30);
    const int64_t vocab = RandomSize(1, 20);
    const int64_t dim = RandomSize(0, i % 7 == 0 ? 700 : 50);
    const std::vector<int32_t> tokens = RandomTokens(batch * seq, vocab);
    const std::vector<float> dout = RoundTo(dtype, RandomNormal(batch * seq * dim));
    const std::vector<float> before = RoundTo(grad_dtype, RandomNormal(vocab * dim));
    for (const bool accumulate : {false, true}) {
      std::vector<float> expected = accumulate ? before : std::vector<float>(before.size());
      // Adds in the order of the places, in float; rounded at the end.
      for (int64_t t = 0; t < batch * seq; ++t) {
        for (int64_t c = 0; c < dim; ++c) expected[tokens[t] * dim + c] += dout[t * dim + c];
      }
      const Tensor dtable = accumulate ? Upload({vocab, dim}, before, grad_dtype)
                                       : Unwritten({vocab, dim}, grad_dtype);
      ASSERT_TRUE(kernels::EmbeddingBackward(kernels(), UploadTokens({batch, seq}, tokens),
                                             Upload({batch, seq, dim}, dout, dtype), dtable,
                                             accumulate)
                      .ok());
      if (GetParam().rfind("cpu", 0) == 0) {
        EXPECT_EQ(Download(dtable), RoundTo(grad_dtype, expected));
      } else {  // another order may round to a neighbour
        const double rounding = grad_dtype == DType::kFloat32   ? 1e-6
                                : grad_dtype == DType::kFloat16 ? 1e-3
                                                                : 8e-3;
        ExpectClose(Download(dtable), ToDouble(RoundTo(grad_dtype, expected)), rounding, 0,
                    "dtable");
      }
    }
  }
}

// A sum kept in bf16 would stay at 256, where adding one no longer shows.
TEST_P(EmbeddingSuite, ManyRepetitionsAreRoundedOnce) {
  constexpr int64_t kCount = 1000;
  const Tensor tokens = UploadTokens({1, kCount}, std::vector<int32_t>(kCount, 1));
  const Tensor dout = Upload({1, kCount, 1}, std::vector<float>(kCount, 1.0f), DType::kBFloat16);
  const Tensor dtable = Unwritten({2, 1}, DType::kBFloat16);
  ASSERT_TRUE(kernels::EmbeddingBackward(kernels(), tokens, dout, dtable, false).ok());
  EXPECT_EQ(Download(dtable), (std::vector<float>{0.0f, 1000.0f}));
}

// Whole numbers, whose sums are exact in any order.
TEST_P(EmbeddingSuite, BackwardSortsManyPlacesOfALargeVocabulary) {
  constexpr int64_t kDim = 2;
  for (const auto& [count, vocab] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 1}, {255, 256}, {1024, 257}, {1025, 13}, {20'000, 50'304}}) {
    const std::vector<int32_t> tokens = RandomTokens(count, vocab);
    std::vector<float> dout(static_cast<size_t>(count * kDim));
    std::vector<float> expected(static_cast<size_t>(vocab * kDim));
    for (int64_t i = 0; i < count * kDim; ++i) {
      dout[i] = static_cast<float>(i % 251);
      expected[tokens[i / kDim] * kDim + i % kDim] += dout[i];
    }
    const Tensor dtable = Unwritten({vocab, kDim});
    ASSERT_TRUE(kernels::EmbeddingBackward(kernels(), UploadTokens({1, count}, tokens),
                                           Upload({1, count, kDim}, dout), dtable, false)
                    .ok());
    EXPECT_EQ(Download(dtable), expected) << count << " places, " << vocab << " tokens";
  }
}

TEST_P(EmbeddingSuite, PositionBackwardAddsOverTheBatch) {
  for (int i = 0; i < 60; ++i) {
    const auto [dtype, grad_dtype] = kTypePairs[i % 7];
    const int64_t batch = RandomSize(0, 5);
    const int64_t seq = RandomSize(0, 9);
    const int64_t dim = RandomSize(0, 50);
    const int64_t max_seq = seq + RandomSize(0, 4);
    const std::vector<float> dout = RoundTo(dtype, RandomNormal(batch * seq * dim));
    const std::vector<float> before = RoundTo(grad_dtype, RandomNormal(max_seq * dim));
    for (const bool accumulate : {false, true}) {
      std::vector<float> expected = accumulate ? before : std::vector<float>(before.size());
      for (int64_t e = 0; e < batch * seq * dim; ++e) expected[e % (seq * dim)] += dout[e];
      const Tensor dpositions = accumulate ? Upload({max_seq, dim}, before, grad_dtype)
                                           : Unwritten({max_seq, dim}, grad_dtype);
      ASSERT_TRUE(kernels::PositionBackward(kernels(), Upload({batch, seq, dim}, dout, dtype),
                                            dpositions, accumulate)
                      .ok());
      EXPECT_EQ(Download(dpositions), RoundTo(grad_dtype, expected));
    }
  }
}

TEST_P(EmbeddingSuite, RefusesShapesThatDoNotFit) {
  const Tensor tokens = UploadTokens({1, 3}, {0, 1, 0});
  const Tensor table = Upload({2, 4}, std::vector<float>(8));
  const Tensor out = Unwritten({1, 3, 4});
  ExpectInvalid(
      kernels::Embedding(kernels(), tokens, table, Upload({2, 4}, std::vector<float>(8)), out),
      {"Embedding", "positions is [2, 4], expected [at least 3, 4]"});
  ExpectInvalid(kernels::Embedding(kernels(), tokens, table, Tensor(), table),
                {"Embedding", "out is [2, 4]", "[1, 3, 4]"});
  ExpectInvalid(kernels::Embedding(kernels(), tokens, table, Tensor(),
                                   Unwritten({1, 3, 4}, DType::kBFloat16)),
                {"Embedding", "out is bf16, expected fp32 as table"});
  ExpectInvalid(kernels::Embedding(kernels(), table, table, Tensor(), out),
                {"Embedding", "tokens is fp32, expected int32"});
  ExpectInvalid(kernels::EmbeddingBackward(kernels(), tokens, table, table, false),
                {"EmbeddingBackward", "dout"});
  ExpectInvalid(
      kernels::PositionBackward(kernels(), out, Upload({2, 4}, std::vector<float>(8)), false),
      {"PositionBackward", "dpositions is [2, 4]"});
}

TEST_P(EmbeddingSuite, RefusesATokenBelowZero) {
  ExpectInvalid(
      WhenDone(kernels::Embedding(kernels(), UploadTokens({2, 2}, {0, 1, -1, 0}),
                                  Upload({2, 1}, {1, 2}), Tensor(), Unwritten({2, 2, 1}))),
      {"Embedding", "tokens[1, 0] is -1", "[0, 2)"});
}

TEST_P(EmbeddingSuite, RefusesATokenBeyondTheTable) {
  ExpectInvalid(
      WhenDone(kernels::EmbeddingBackward(kernels(), UploadTokens({1, 3}, {0, 1, 2}),
                                          Unwritten({1, 3, 1}), Upload({2, 1}, {1, 2}), true)),
      {"EmbeddingBackward", "tokens[0, 2] is 2", "[0, 2)"});
}

INSTANTIATE_TEST_SUITE_P(Devices, EmbeddingSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth::testing
