// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "zeroth/core/base/dtype.h"
#include "zeroth/kernels/delta_net/delta_net.h"
#include "zeroth/kernels/delta_net/testing/delta_net_reference.h"
#include "zeroth/kernels/delta_net/testing/transformers_reference.h"
#include "zeroth/kernels/testing/kernels_suite.h"
#include "zeroth/kernels/testing/rounding.h"

namespace zeroth {
namespace {

std::vector<float> ToFloats(const std::vector<double>& values) {
  return std::vector<float>(values.begin(), values.end());
}

double SumOfProducts(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

// Returns the central differences of the sum of out * dout at `x`, which `out` reads.
template <typename Out>
std::vector<double> Differences(std::vector<double>& x, const std::vector<double>& dout,
                                const Out& out) {
  constexpr double kStep = 1e-5;
  const auto loss = [&] { return SumOfProducts(out(), dout); };
  std::vector<double> gradient;
  for (double& value : x) {
    const double at = value;
    value = at + kStep;
    const double above = loss();
    value = at - kStep;
    gradient.push_back((above - loss()) / (2 * kStep));
    value = at;
  }
  return gradient;
}

// Returns tokens [begin, end) of every sequence of `all` [batch, seq, width].
std::vector<double> Piece(const std::vector<double>& all, const Shape& shape, int64_t begin,
                          int64_t end) {
  std::vector<double> piece;
  for (int64_t sequence = 0; sequence < shape.dim(0); ++sequence) {
    const auto first = all.begin() + sequence * shape.dim(1) * shape.dim(2);
    piece.insert(piece.end(), first + begin * shape.dim(2), first + end * shape.dim(2));
  }
  return piece;
}

}  // namespace

class DeltaNetSuite : public KernelsSuite {
 protected:
  // Compares `gradient`, of the sum of out * dout with respect to `x`, with finite differences
  // along a random direction. `out` reads `x`. Only elements [begin, end) of each row of `stride`
  // elements are tested.
  template <typename Out>
  void ExpectSlope(const std::vector<float>& gradient, std::vector<double>& x, int64_t stride,
                   int64_t begin, int64_t end, const std::vector<double>& dout, const Out& out,
                   const char* what) {
    constexpr double kStep = 1e-5;
    ASSERT_EQ(gradient.size(), x.size()) << what;
    std::vector<double> direction = ToDouble(RandomNormal(static_cast<int64_t>(x.size())));
    double slope = 0;
    double squares = 0;
    for (size_t at = 0; at < x.size(); ++at) {
      const int64_t column = static_cast<int64_t>(at) % stride;
      if (column < begin || column >= end) direction[at] = 0;
      slope += direction[at] * gradient[at];
      squares += direction[at] * direction[at] * gradient[at] * gradient[at];
    }
    const std::vector<double> kept = x;
    const auto loss = [&](double step) {
      for (size_t at = 0; at < x.size(); ++at) x[at] = kept[at] + step * direction[at];
      return SumOfProducts(out(), dout);
    };
    const double above = loss(kStep);
    const double expected = (above - loss(-kStep)) / (2 * kStep);
    x = kept;
    EXPECT_NEAR(slope, expected, 1e-5 * std::sqrt(squares)) << what << ", " << begin;
  }

  struct RuleResult {
    std::vector<float> out, dqkv, dgates, dlog_decay, ddt_bias;
  };

  // Runs the rule forward, and backward if `dout` is not empty.
  RuleResult Run(const DeltaNetShape& shape, const std::vector<int32_t>& starts,
                 const reference::DeltaRuleInputs& inputs, const std::vector<double>& dout,
                 DType dtype = DType::kFloat32) {
    GatedDeltaRuleArgs args;
    args.shape = shape;
    const int64_t values = shape.value_heads * shape.value_dim;
    args.qkv = Upload({shape.batch, shape.seq, shape.packed_dim()}, ToFloats(inputs.qkv), dtype);
    args.gates =
        Upload({shape.batch, shape.seq, 2 * shape.value_heads}, ToFloats(inputs.gates), dtype);
    args.log_decay = Upload({shape.value_heads}, ToFloats(inputs.log_decay), dtype);
    args.dt_bias = Upload({shape.value_heads}, ToFloats(inputs.dt_bias), dtype);
    if (!starts.empty()) args.starts = UploadTokens({shape.batch, shape.seq}, starts);
    args.out = Unwritten({shape.batch, shape.seq, values}, dtype);
    if (!dout.empty()) {
      args.states = Unwritten(
          {shape.batch, shape.value_heads, shape.chunks(), shape.key_dim, shape.value_dim});
    }
    RuleResult result;
    const absl::Status forward = WhenDone(kernels::GatedDeltaRule(kernels(), args));
    EXPECT_TRUE(forward.ok()) << forward;
    result.out = Download(args.out);
    if (dout.empty()) return result;
    GatedDeltaRuleBackwardArgs back;
    back.shape = shape;
    back.dout = Upload(args.out.shape(), ToFloats(dout), dtype);
    back.qkv = args.qkv;
    back.gates = args.gates;
    back.log_decay = args.log_decay;
    back.dt_bias = args.dt_bias;
    back.starts = args.starts;
    back.states = args.states;
    back.dqkv = Unwritten(args.qkv.shape(), dtype);
    back.dgates = Unwritten(args.gates.shape(), dtype);
    back.dlog_decay = Unwritten({shape.value_heads});
    back.ddt_bias = Upload({shape.value_heads}, RandomNormal(shape.value_heads));
    const std::vector<float> earlier = Download(back.ddt_bias);
    back.accumulate_ddt_bias = true;
    const absl::Status backward = WhenDone(kernels::GatedDeltaRuleBackward(kernels(), back));
    EXPECT_TRUE(backward.ok()) << backward;
    result.dqkv = Download(back.dqkv);
    result.dgates = Download(back.dgates);
    result.dlog_decay = Download(back.dlog_decay);
    result.ddt_bias = Download(back.ddt_bias);
    for (size_t i = 0; i < earlier.size(); ++i) result.ddt_bias[i] -= earlier[i];
    return result;
  }

  std::vector<double> Draw(int64_t count, DType dtype = DType::kFloat32, float stddev = 1.0f) {
    return ToDouble(RoundTo(dtype, RandomNormal(count, stddev)));
  }
  reference::DeltaRuleInputs DrawInputs(const DeltaNetShape& shape, DType dtype) {
    const int64_t rows = shape.batch * shape.seq;
    reference::DeltaRuleInputs inputs;
    inputs.qkv = Draw(rows * shape.packed_dim(), dtype);
    inputs.gates = Draw(rows * 2 * shape.value_heads, dtype);
    // Some states last for a few tokens, others for hundreds.
    inputs.log_decay = Draw(shape.value_heads, dtype, 2.0f);
    for (double& value : inputs.log_decay) value = RoundTo(dtype, {float(value - 3)})[0];
    inputs.dt_bias = Draw(shape.value_heads, dtype);
    return inputs;
  }
  // Returns where the pieces of a sequence end; some are empty, the first one at times, and others
  // have one token.
  std::vector<int64_t> DrawPieces(int64_t seq) {
    std::vector<int64_t> ends;
    if (seq == 0 || RandomSize(0, 2) == 0) ends.push_back(0);
    if (ends.empty()) ends.push_back(RandomSize(1, seq));
    while (ends.back() < seq) {
      ends.push_back(std::min(seq, ends.back() + RandomSize(0, RandomSize(1, seq))));
    }
    return ends;
  }
  // Returns the starts of documents of random lengths.
  std::vector<int32_t> DrawStarts(int64_t batch, int64_t seq) {
    std::vector<int32_t> starts;
    for (int64_t row = 0; row < batch * seq; ++row) {
      const auto place = static_cast<int32_t>(row % seq);
      starts.push_back(place == 0 || RandomSize(0, 9) == 0 ? place : starts.back());
    }
    return starts;
  }

  // Computes a convolution of `whole` [batch, seq, channels] in pieces, each from the final state
  // of the one before. Expects y and the states of the definition, and the bits of a single call.
  void ExpectConvolutionResumes(DType dtype, const Shape& whole, int64_t width,
                                bool has_initial_state, const std::vector<int64_t>& ends) {
    const int64_t batch = whole.dim(0);
    const int64_t channels = whole.dim(2);
    const int64_t kept = width - 1;
    // The state's inputs, and those of the pieces.
    const Shape padded{batch, kept + whole.dim(1), channels};
    std::vector<double> x = Draw(padded.numel(), dtype);
    for (size_t at = 0; at < x.size() && !has_initial_state; ++at) {
      if (static_cast<int64_t>(at) / channels % padded.dim(1) < kept) x[at] = 0;
    }
    const std::vector<double> weight = Draw(channels * width, dtype);
    const std::vector<double> expected =
        reference::ShortConvolution(batch, padded.dim(1), channels, width, {}, x, weight);
    ShortConvolutionArgs args;
    args.weight = Upload({channels, 1, width}, ToFloats(weight), dtype);
    if (has_initial_state) {
      args.initial_state =
          Upload({batch, kept, channels}, ToFloats(Piece(x, padded, 0, kept)), dtype);
    }
    const auto run = [&](int64_t begin, int64_t end) {
      const Shape shape{batch, end - begin, channels};
      args.x = Upload(shape, ToFloats(Piece(x, padded, kept + begin, kept + end)), dtype);
      args.y = Unwritten(shape, dtype);
      args.final_state = Unwritten({batch, kept, channels}, dtype);
      const absl::Status status = WhenDone(kernels::ShortConvolution(kernels(), args));
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(ToDouble(Download(args.final_state)), Piece(x, padded, end, kept + end));
    };
    run(0, whole.dim(1));
    const std::vector<double> together = ToDouble(Download(args.y));
    int64_t begin = 0;
    for (const int64_t end : ends) {
      run(begin, end);
      ExpectCloseIn(dtype, Download(args.y), Piece(expected, padded, kept + begin, kept + end),
                    2e-6, 1e-7, "y");
      EXPECT_EQ(ToDouble(Download(args.y)), Piece(together, whole, begin, end));
      args.initial_state = args.final_state;
      begin = end;
    }
  }

  // The same for the rule. in_place: the initial states of pieces become their final states.
  void ExpectRuleResumes(DType dtype, const DeltaNetShape& shape, bool has_initial_state,
                         bool in_place, const std::vector<int64_t>& ends) {
    const reference::DeltaRuleInputs inputs = DrawInputs(shape, dtype);
    const Shape state{shape.batch, shape.value_heads, shape.key_dim, shape.value_dim};
    std::vector<double> initial(static_cast<size_t>(state.numel()), 0.0);
    GatedDeltaRuleArgs args;
    args.log_decay = Upload({shape.value_heads}, ToFloats(inputs.log_decay), dtype);
    args.dt_bias = Upload({shape.value_heads}, ToFloats(inputs.dt_bias), dtype);
    if (has_initial_state) {
      initial = Draw(state.numel());
      args.initial_state = Upload(state, ToFloats(initial));
    }
    const Shape qkv{shape.batch, shape.seq, shape.packed_dim()};
    const Shape gates{shape.batch, shape.seq, 2 * shape.value_heads};
    const Shape out{shape.batch, shape.seq, shape.value_heads * shape.value_dim};
    const auto run = [&](int64_t begin, int64_t end) {
      args.shape = shape;
      args.shape.seq = end - begin;
      args.qkv =
          Upload(qkv.With(1, end - begin), ToFloats(Piece(inputs.qkv, qkv, begin, end)), dtype);
      args.gates = Upload(gates.With(1, end - begin),
                          ToFloats(Piece(inputs.gates, gates, begin, end)), dtype);
      args.out = Unwritten(out.With(1, end - begin), dtype);
      const absl::Status status = WhenDone(kernels::GatedDeltaRule(kernels(), args));
      ASSERT_TRUE(status.ok()) << status;
    };
    args.final_state = Unwritten(state);
    run(0, shape.seq);
    const std::vector<double> together = ToDouble(Download(args.out));
    const std::vector<float> last_state = Download(args.final_state);
    int64_t begin = 0;
    for (const int64_t end : ends) {
      if (!in_place || !args.initial_state.defined()) {
        args.final_state = Unwritten(state);
      } else {
        args.final_state = args.initial_state;
      }
      run(begin, end);
      // The reference recomputes the prefix [0, end): it ends in the expected state, and its last
      // outputs are the piece's.
      DeltaNetShape prefix = shape;
      prefix.seq = end;
      reference::DeltaRuleInputs so_far = inputs;
      so_far.qkv = Piece(inputs.qkv, qkv, 0, end);
      so_far.gates = Piece(inputs.gates, gates, 0, end);
      std::vector<double> expected_state = initial;
      const std::vector<double> expected =
          reference::GatedDeltaRule(prefix, {}, so_far, &expected_state);
      ExpectCloseIn(dtype, Download(args.out), Piece(expected, out.With(1, end), begin, end), 1e-5,
                    1e-6, "out");
      ExpectClose(Download(args.final_state), expected_state, 1e-5, 1e-6, "final_state");
      EXPECT_EQ(ToDouble(Download(args.out)), Piece(together, out, begin, end));
      args.initial_state = args.final_state;
      begin = end;
    }
    EXPECT_EQ(Download(args.initial_state), last_state);
  }
};

TEST_P(DeltaNetSuite, TheConvolutionIsThatOfTransformers) {
  const reference::TransformersDeltaNet& expected = reference::FromTransformers();
  const int64_t channels = expected.shape.packed_dim();
  const Shape shape{1, expected.shape.seq, channels};
  ShortConvolutionArgs args;
  args.x = Upload(shape, ToFloats(expected.x));
  args.weight = Upload({channels, 1, 4}, ToFloats(expected.weight));
  args.starts = UploadTokens({1, expected.shape.seq}, expected.starts);
  args.y = Unwritten(shape);
  ASSERT_TRUE(kernels::ShortConvolution(kernels(), args).ok());
  ExpectClose(Download(args.y), expected.y, 1e-6, 0, "y");
  ShortConvolutionBackwardArgs back{
      Upload(shape, ToFloats(expected.dy)), args.x, args.weight, args.starts, Unwritten(shape),
      Unwritten(args.weight.shape())};
  ASSERT_TRUE(kernels::ShortConvolutionBackward(kernels(), back).ok());
  ExpectClose(Download(back.dx), expected.dx, 1e-6, 0, "dx");
  ExpectClose(Download(back.dweight), expected.dweight, 1e-6, 0, "dweight");
}

TEST_P(DeltaNetSuite, TheRuleIsThatOfTransformers) {
  const reference::TransformersDeltaNet& expected = reference::FromTransformers();
  const RuleResult result =
      Run(expected.shape, expected.starts,
          {expected.qkv, expected.gates, expected.log_decay, expected.dt_bias}, expected.dout);
  ExpectClose(result.out, expected.out, 1e-6, 0, "out");
  ExpectClose(result.dqkv, expected.dqkv, 2e-6, 0, "dqkv");
  ExpectClose(result.dgates, expected.dgates, 2e-6, 0, "dgates");
  ExpectClose(result.dlog_decay, expected.dlog_decay, 2e-6, 0, "dlog_decay");
  ExpectClose(result.ddt_bias, expected.ddt_bias, 2e-6, 0, "ddt_bias");
}

TEST_P(DeltaNetSuite, ConvolutionsOfOddShapes) {
  for (int i = 0; i < 24; ++i) {
    const DType dtype = kElementTypes[i % 3];
    const int64_t batch = RandomSize(i == 0 ? 0 : 1, 3);
    // The channels of several tasks, and the rows of several sums.
    const bool is_large = i % 6 == 0;
    const int64_t seq = is_large ? RandomSize(65, 80) : RandomSize(i == 3 ? 0 : 1, 20);
    const int64_t channels = is_large ? RandomSize(257, 300) : RandomSize(1, 20);
    const int64_t width = RandomSize(1, kMostTaps);
    const std::vector<int32_t> starts = i % 4 < 2 ? std::vector<int32_t>() : DrawStarts(batch, seq);
    const Shape shape{batch, seq, channels};
    std::vector<double> x = Draw(shape.numel(), dtype);
    std::vector<double> weight = Draw(channels * width, dtype);
    const std::vector<double> dy = Draw(shape.numel(), dtype);
    ShortConvolutionArgs args;
    args.x = Upload(shape, ToFloats(x), dtype);
    args.weight = Upload({channels, 1, width}, ToFloats(weight), dtype);
    if (!starts.empty()) args.starts = UploadTokens({batch, seq}, starts);
    args.y = Unwritten(shape, dtype);
    ASSERT_TRUE(kernels::ShortConvolution(kernels(), args).ok());
    const auto y = [&] {
      return reference::ShortConvolution(batch, seq, channels, width, starts, x, weight);
    };
    ExpectCloseIn(dtype, Download(args.y), y(), 2e-6, 1e-7, "y");
    ShortConvolutionBackwardArgs back{Upload(shape, ToFloats(dy), dtype),
                                      args.x,
                                      args.weight,
                                      args.starts,
                                      Unwritten(shape, dtype),
                                      Upload({channels, 1, width}, ToFloats(weight)),
                                      /*accumulate_dweight=*/true};
    ASSERT_TRUE(kernels::ShortConvolutionBackward(kernels(), back).ok());
    std::vector<float> dweight = Download(back.dweight);
    for (size_t at = 0; at < dweight.size(); ++at) dweight[at] -= static_cast<float>(weight[at]);
    if (is_large) {  // differences of all elements take too long
      ASSERT_EQ(dtype, DType::kFloat32);
      const std::vector<float> dx = Download(back.dx);
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>(0, 256), {256, channels}}) {
        ExpectSlope(dx, x, channels, begin, end, dy, y, "dx");
        ExpectSlope(dweight, weight, channels * width, begin * width, end * width, dy, y,
                    "dweight");
      }
    } else {
      ExpectCloseIn(dtype, Download(back.dx), Differences(x, dy, y), 5e-6, 1e-6, "dx");
      ExpectClose(dweight, Differences(weight, dy, y), 5e-6, 2e-6, "dweight");
    }
    back.dweight = Tensor();
    ASSERT_TRUE(kernels::ShortConvolutionBackward(kernels(), back).ok());
  }
}

// A CPU sums as exactly as over a short sequence, a GPU over pieces of 512 tokens in fp32.
TEST_P(DeltaNetSuite, TheGradientOfATapIsExactInALongSequence) {
  const Shape shape{1, 1 << 16, 1};
  const std::vector<float> ones(static_cast<size_t>(shape.numel()), 1.0f);
  const std::vector<float> tenths(ones.size(), 0.1f);
  ShortConvolutionBackwardArgs back{Upload(shape, tenths),     Upload(shape, ones),
                                    Upload({1, 1, 1}, {1.0f}), Tensor(),
                                    Unwritten(shape),          Unwritten({1, 1, 1})};
  ASSERT_TRUE(kernels::ShortConvolutionBackward(kernels(), back).ok());
  const double s = 1 / (1 + std::exp(-1.0));
  ExpectClose(Download(back.dweight), {static_cast<double>(0.1f) * (1 << 16) * s * (1 + 1 - s)},
              4e-6, 0, "dweight");
}

// Sequences of several chunks, with documents that end inside of them.
TEST_P(DeltaNetSuite, RulesOfOddShapes) {
  for (int i = 0; i < 9; ++i) {
    const DType dtype = kElementTypes[i % 3];
    DeltaNetShape shape;
    shape.batch = RandomSize(1, 2);
    shape.seq = i < 3 ? RandomSize(1, 6) : RandomSize(kDeltaChunk - 1, 2 * kDeltaChunk + 2);
    shape.key_heads = RandomSize(1, 2);
    shape.value_heads = shape.key_heads * RandomSize(1, 2);
    // A key of one element has next to no gradient: the difference of equal numbers.
    shape.key_dim = RandomSize(2, 5);
    shape.value_dim = RandomSize(1, 4);
    const std::vector<int32_t> starts =
        i % 2 == 0 ? std::vector<int32_t>() : DrawStarts(shape.batch, shape.seq);
    reference::DeltaRuleInputs inputs = DrawInputs(shape, dtype);
    const std::vector<double> dout =
        Draw(shape.batch * shape.seq * shape.value_heads * shape.value_dim, dtype);
    const RuleResult result = Run(shape, starts, inputs, dout, dtype);
    const auto out = [&] { return reference::GatedDeltaRule(shape, starts, inputs); };
    ExpectCloseIn(dtype, result.out, out(), 5e-6, 1e-6, "out");
    if (dtype == DType::kFloat16) continue;  // two types show what types change
    ExpectCloseIn(dtype, result.dqkv, Differences(inputs.qkv, dout, out), 2e-5, 1e-6, "dqkv");
    ExpectCloseIn(dtype, result.dgates, Differences(inputs.gates, dout, out), 2e-5, 1e-6, "dgates");
    ExpectClose(result.dlog_decay, Differences(inputs.log_decay, dout, out), 2e-5, 1e-5,
                "dlog_decay");
    ExpectClose(result.ddt_bias, Differences(inputs.dt_bias, dout, out), 2e-5, 1e-5, "ddt_bias");
  }
}

// Heads as wide as those of published models, and wider than the tiles of a device.
TEST_P(DeltaNetSuite, WideHeads) {
  for (const auto& [key_dim, value_dim] :
       {std::pair<int64_t, int64_t>(128, 128), {200, 40}, {256, 7}}) {
    const DeltaNetShape shape{1, 70, 1, 2, key_dim, value_dim};
    const reference::DeltaRuleInputs inputs = DrawInputs(shape, DType::kFloat32);
    const std::vector<double> dout = Draw(shape.seq * shape.value_heads * shape.value_dim);
    const RuleResult result = Run(shape, {}, inputs, dout);
    ExpectClose(result.out, reference::GatedDeltaRule(shape, {}, inputs), 1e-5, 0, "out");
    reference::DeltaRuleInputs moved = inputs;
    const auto out = [&] { return reference::GatedDeltaRule(shape, {}, moved); };
    const int64_t packed = shape.packed_dim();
    for (const auto& [begin, end] :
         {std::pair<int64_t, int64_t>(0, key_dim), {key_dim, 2 * key_dim}, {2 * key_dim, packed}}) {
      ExpectSlope(result.dqkv, moved.qkv, packed, begin, end, dout, out, "dqkv");
    }
    for (const int64_t gate : {0, 1}) {
      ExpectSlope(result.dgates, moved.gates, 2 * shape.value_heads, gate * shape.value_heads,
                  (gate + 1) * shape.value_heads, dout, out, "dgates");
    }
    ExpectSlope(result.dlog_decay, moved.log_decay, shape.value_heads, 0, shape.value_heads, dout,
                out, "dlog_decay");
    ExpectSlope(result.ddt_bias, moved.dt_bias, shape.value_heads, 0, shape.value_heads, dout, out,
                "ddt_bias");
  }
}

// With this many heads, a GPU computes backward a few sequences at a time.
TEST_P(DeltaNetSuite, ManyHeadsAreComputedAsInASequenceAlone) {
  const DeltaNetShape whole{2, 2, 128, 128, 2, 33};
  DeltaNetShape one = whole;
  one.batch = 1;
  const reference::DeltaRuleInputs inputs = DrawInputs(whole, DType::kFloat32);
  const int64_t values = whole.value_heads * whole.value_dim;
  const std::vector<double> dout = Draw(whole.batch * whole.seq * values);
  const RuleResult together = Run(whole, {}, inputs, dout);
  const auto of_sequence = [&](const auto& all, int64_t sequence) {
    const auto count = static_cast<std::ptrdiff_t>(all.size()) / whole.batch;
    return std::decay_t<decltype(all)>(all.begin() + sequence * count,
                                       all.begin() + (sequence + 1) * count);
  };
  for (int64_t sequence = 0; sequence < whole.batch; ++sequence) {
    const RuleResult alone =
        Run(one, {},
            {of_sequence(inputs.qkv, sequence), of_sequence(inputs.gates, sequence),
             inputs.log_decay, inputs.dt_bias},
            of_sequence(dout, sequence));
    EXPECT_EQ(of_sequence(together.dqkv, sequence), alone.dqkv) << sequence;
    EXPECT_EQ(of_sequence(together.dgates, sequence), alone.dgates) << sequence;
  }
}

// Not even NaN passes from one document to the next, or back.
TEST_P(DeltaNetSuite, DocumentsAreComputedAsSequencesAre) {
  const DeltaNetShape whole{1, 90, 1, 2, 5, 3};
  const reference::DeltaRuleInputs inputs = DrawInputs(whole, DType::kFloat32);
  const int64_t values = whole.value_heads * whole.value_dim;
  const std::vector<double> dout = Draw(whole.seq * values);
  constexpr int64_t kMiddle = 70;
  std::vector<int32_t> starts(static_cast<size_t>(whole.seq), 0);
  std::fill(starts.begin() + kMiddle, starts.end(), static_cast<int32_t>(kMiddle));
  DeltaNetShape last = whole;
  last.seq = whole.seq - kMiddle;
  const auto tail = [](const auto& all, int64_t from) {
    return std::decay_t<decltype(all)>(all.begin() + from, all.end());
  };
  const RuleResult alone =
      Run(last, {},
          {tail(inputs.qkv, kMiddle * whole.packed_dim()),
           tail(inputs.gates, kMiddle * 2 * whole.value_heads), inputs.log_decay, inputs.dt_bias},
          tail(dout, kMiddle * values));
  const RuleResult together = Run(whole, starts, inputs, dout);
  EXPECT_EQ(tail(together.out, kMiddle * values), alone.out);
  EXPECT_EQ(tail(together.dqkv, kMiddle * whole.packed_dim()), alone.dqkv);
  reference::DeltaRuleInputs broken = inputs;
  broken.qkv[0] = broken.qkv[12] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(tail(Run(whole, starts, broken, dout).out, kMiddle * values), alone.out);
  broken = inputs;
  broken.qkv[static_cast<size_t>(kMiddle * whole.packed_dim())] =
      std::numeric_limits<double>::quiet_NaN();
  const RuleResult after = Run(whole, starts, broken, dout);
  for (int64_t at = 0; at < kMiddle * whole.packed_dim(); ++at) {
    ASSERT_EQ(after.dqkv[static_cast<size_t>(at)], together.dqkv[static_cast<size_t>(at)]);
  }
}

TEST_P(DeltaNetSuite, ConvolutionsResumeFromAState) {
  for (int i = 0; i < 18; ++i) {
    const DType dtype = kElementTypes[i % 3];
    const int64_t channels = i % 6 == 0 ? RandomSize(257, 300) : RandomSize(1, 20);
    const int64_t seq = RandomSize(0, 20);
    ExpectConvolutionResumes(dtype, {RandomSize(1, 3), seq, channels}, RandomSize(1, kMostTaps),
                             i % 2 == 0, DrawPieces(seq));
  }
}

// First calls shorter and longer than the state, which then begins with zeros or not.
TEST_P(DeltaNetSuite, ConvolutionsBeginWithoutAState) {
  for (int64_t seq = 1; seq <= kMostTaps; ++seq) {
    ExpectConvolutionResumes(kElementTypes[seq % 3], {2, seq, 5}, kMostTaps,
                             /*has_initial_state=*/false, {seq});
  }
}

TEST_P(DeltaNetSuite, RulesResumeFromAState) {
  for (int i = 0; i < 12; ++i) {
    DeltaNetShape shape;
    shape.batch = RandomSize(1, 2);
    shape.seq = i == 0 ? 0 : RandomSize(1, i % 4 == 1 ? 2 * kDeltaChunk + 2 : 9);
    shape.key_heads = RandomSize(1, 2);
    shape.value_heads = shape.key_heads * RandomSize(1, 3);
    // Also keys with several rows per thread, and values with several blocks.
    shape.key_dim = i % 4 == 2 ? RandomSize(33, 140) : RandomSize(1, 9);
    shape.value_dim = i % 4 == 3 ? RandomSize(33, 70) : RandomSize(1, 9);
    // In each type with and without an initial state, in place and not.
    ExpectRuleResumes(kElementTypes[i % 3], shape, i % 2 == 0, i % 4 < 2, DrawPieces(shape.seq));
  }
}

TEST_P(DeltaNetSuite, RulesBeginWithoutAState) {
  for (int64_t seq = 1; seq <= kMostTaps; ++seq) {
    ExpectRuleResumes(kElementTypes[seq % 3], {2, seq, 2, 4, 3, 5}, /*has_initial_state=*/false,
                      /*in_place=*/false, {seq});
  }
}

TEST_P(DeltaNetSuite, RefusesWhatDoesNotFit) {
  ShortConvolutionArgs convolution;
  convolution.x = Unwritten({1, 2, 6});
  convolution.y = Unwritten({1, 2, 6});
  convolution.weight = Unwritten({6, 1, 9});
  ExpectInvalid(kernels::ShortConvolution(kernels(), convolution),
                {"ShortConvolution", "weight is [6, 1, 9]", "[6, 1, 1 to 8]"});
  convolution.weight = Unwritten({6, 1, 4});
  convolution.y = Unwritten({1, 2, 5});
  ExpectInvalid(kernels::ShortConvolution(kernels(), convolution), {"y is [1, 2, 5]", "[2, 6]"});
  convolution.y = Unwritten({1, 2, 6});
  convolution.final_state = Unwritten({1, 4, 6});
  ExpectInvalid(kernels::ShortConvolution(kernels(), convolution),
                {"final_state is [1, 4, 6]", "[1, 3, 6]"});
  convolution.final_state = Unwritten({1, 3, 6}, DType::kBFloat16);
  ExpectInvalid(kernels::ShortConvolution(kernels(), convolution), {"final_state is bf16"});
  convolution.final_state = Unwritten({1, 3, 6});
  convolution.starts = UploadTokens({1, 2}, {0, 0});
  ExpectInvalid(kernels::ShortConvolution(kernels(), convolution),
                {"starts is given together with final_state"});
  convolution.initial_state = Unwritten({1, 3, 6});
  ExpectInvalid(kernels::ShortConvolution(kernels(), convolution),
                {"starts is given together with initial_state"});
  convolution.starts = {};
  convolution.initial_state = Unwritten({1, 3, 6}, DType::kBFloat16);
  ExpectInvalid(kernels::ShortConvolution(kernels(), convolution), {"initial_state is bf16"});
  convolution.initial_state = convolution.final_state;
  ExpectInvalid(kernels::ShortConvolution(kernels(), convolution),
                {"final_state aliases initial_state"});
  GatedDeltaRuleArgs args;
  args.shape = {1, 2, 2, 3, 4, 5};
  ExpectInvalid(kernels::GatedDeltaRule(kernels(), args),
                {"GatedDeltaRule", "3 value_heads and 2 key_heads"});
  args.shape = {1, 2, 1, 2, 257, 5};
  ExpectInvalid(kernels::GatedDeltaRule(kernels(), args), {"257", "at most 256"});
  args.shape = {1, 2, 1, 2, 4, 5};
  args.qkv = Unwritten({1, 2, 17});
  ExpectInvalid(kernels::GatedDeltaRule(kernels(), args), {"qkv is [1, 2, 17]", "[2, 18]"});
  args.qkv = Unwritten({1, 2, 18});
  args.gates = Unwritten({1, 2, 4});
  args.log_decay = Unwritten({2});
  args.dt_bias = Unwritten({2});
  args.out = Unwritten({1, 2, 10});
  args.states = Unwritten({1, 2, 2, 4, 5});
  ExpectInvalid(kernels::GatedDeltaRule(kernels(), args),
                {"states is [1, 2, 2, 4, 5]", "[1, 2, 1, 4, 5]"});
  args.states = Unwritten({1, 2, 1, 4, 5});
  args.initial_state = Unwritten({1, 2, 5, 4});
  ExpectInvalid(kernels::GatedDeltaRule(kernels(), args),
                {"initial_state is [1, 2, 5, 4]", "[1, 2, 4, 5]"});
  args.initial_state = Unwritten({1, 2, 4, 5}, DType::kBFloat16);
  ExpectInvalid(kernels::GatedDeltaRule(kernels(), args), {"initial_state is bf16"});
  args.initial_state = Unwritten({1, 2, 4, 5});
  ExpectInvalid(kernels::GatedDeltaRule(kernels(), args),
                {"states is given together with initial_state"});
  args.starts = UploadTokens({1, 2}, {0, 0});
  ExpectInvalid(kernels::GatedDeltaRule(kernels(), args),
                {"starts is given together with initial_state"});
  args.initial_state = {};
  args.final_state = Unwritten({1, 2, 4, 5});
  ExpectInvalid(kernels::GatedDeltaRule(kernels(), args),
                {"starts is given together with final_state"});
}

INSTANTIATE_TEST_SUITE_P(Devices, DeltaNetSuite, ::testing::ValuesIn(TestedDevices()));

}  // namespace zeroth
