// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/testing/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace zeroth::reference {
namespace {

// One query head of one sequence: the addresses of its vectors, and the softmax of one row.
struct Head {
  Head(const AttentionShape& shape, int64_t batch, int64_t head, const std::vector<int32_t>& starts,
       const std::vector<double>& sinks)
      : dim(shape.head_dim),
        window(shape.window),
        document(starts.empty() ? nullptr : &starts[batch * shape.seq]),
        packed(shape.packed_dim()),
        out_stride(shape.heads * shape.head_dim),
        first_token(batch * shape.seq),
        query_column(head * shape.head_dim),
        key_column((shape.heads + head / (shape.heads / shape.kv_heads)) * shape.head_dim),
        value_column(key_column + shape.kv_heads * shape.head_dim),
        scale(shape.scale > 0 ? static_cast<double>(shape.scale)
                              : 1.0 / std::sqrt(static_cast<double>(shape.head_dim))),
        cap(static_cast<double>(shape.cap)),
        sink(sinks.empty() ? -std::numeric_limits<double>::infinity()
                           : sinks[static_cast<size_t>(head)]) {}

  int64_t Query(int64_t t) const { return (first_token + t) * packed + query_column; }
  int64_t Key(int64_t t) const { return (first_token + t) * packed + key_column; }
  int64_t Value(int64_t t) const { return (first_token + t) * packed + value_column; }
  int64_t Out(int64_t t) const { return (first_token + t) * out_stride + query_column; }

  // Returns true if query t sees key u <= t.
  bool Sees(int64_t t, int64_t u) const {
    const bool in_window = window == 0 || t - u < window;
    return in_window && (document == nullptr || document[t] == document[u]);
  }

  // Returns the score of key u for query t before the cap.
  double Score(const std::vector<double>& qkv, int64_t t, int64_t u) const {
    double score = 0.0;
    for (int64_t i = 0; i < dim; ++i) score += qkv[Query(t) + i] * qkv[Key(u) + i];
    return score * scale;
  }
  // Returns the slope of the cap at that score: 1 / cosh^2.
  double Slope(const std::vector<double>& qkv, int64_t t, int64_t u) const {
    if (cap == 0) return 1.0;
    const double cosh = std::cosh(Score(qkv, t, u) / cap);
    return 1.0 / (cosh * cosh);
  }

  // Returns the probabilities of keys 0 … t for query t, and the log of the sum of exponentials,
  // including the sink's.
  std::vector<double> Row(const std::vector<double>& qkv, int64_t t, double& lse) const {
    std::vector<double> p(static_cast<size_t>(t + 1));
    for (int64_t u = 0; u <= t; ++u) {
      const double score = Score(qkv, t, u);
      p[u] = !Sees(t, u) ? -std::numeric_limits<double>::infinity()
             : cap > 0   ? cap * std::tanh(score / cap)
                         : score;
    }
    const double max = std::max(sink, *std::max_element(p.begin(), p.end()));
    double sum = std::exp(sink - max);
    for (double& x : p) sum += x = std::exp(x - max);
    for (double& x : p) x /= sum;
    lse = max + std::log(sum);
    return p;
  }

  int64_t dim;
  int64_t window;
  const int32_t* document;  // of this sequence; tokens of one document have one number
  int64_t packed;
  int64_t out_stride;
  int64_t first_token;
  int64_t query_column;
  int64_t key_column;
  int64_t value_column;
  double scale;
  double cap;
  double sink;
};

// Returns the gradient of the row's sink, whose probability multiplies no value.
double BackwardRow(const Head& at, int64_t t, const std::vector<double>& dout,
                   const std::vector<double>& qkv, std::vector<double>& dqkv) {
  double lse = 0.0;
  const std::vector<double> p = at.Row(qkv, t, lse);
  std::vector<double> dp(p.size());
  double mean = 0.0;
  for (int64_t u = 0; u <= t; ++u) {
    for (int64_t i = 0; i < at.dim; ++i) {
      dp[u] += dout[at.Out(t) + i] * qkv[at.Value(u) + i];
      dqkv[at.Value(u) + i] += p[u] * dout[at.Out(t) + i];
    }
    mean += p[u] * dp[u];
  }
  for (int64_t u = 0; u <= t; ++u) {
    const double dscore = p[u] * (dp[u] - mean) * at.Slope(qkv, t, u) * at.scale;
    for (int64_t i = 0; i < at.dim; ++i) {
      dqkv[at.Query(t) + i] += dscore * qkv[at.Key(u) + i];
      dqkv[at.Key(u) + i] += dscore * qkv[at.Query(t) + i];
    }
  }
  return std::exp(at.sink - lse) * -mean;
}

}  // namespace

AttentionOutput Attention(const AttentionShape& shape, const std::vector<double>& qkv,
                          const std::vector<int32_t>& starts, const std::vector<double>& sinks) {
  AttentionOutput result;
  result.out.resize(static_cast<size_t>(shape.batch * shape.seq * shape.heads * shape.head_dim));
  result.lse.resize(static_cast<size_t>(shape.batch * shape.heads * shape.seq));
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      const Head at(shape, batch, head, starts, sinks);
      for (int64_t t = 0; t < shape.seq; ++t) {
        const std::vector<double> p =
            at.Row(qkv, t, result.lse[(batch * shape.heads + head) * shape.seq + t]);
        for (int64_t u = 0; u <= t; ++u) {
          for (int64_t i = 0; i < at.dim; ++i)
            result.out[at.Out(t) + i] += p[u] * qkv[at.Value(u) + i];
        }
      }
    }
  }
  return result;
}

std::vector<double> AttentionBackward(const AttentionShape& shape, const std::vector<double>& dout,
                                      const std::vector<double>& qkv,
                                      const std::vector<int32_t>& starts,
                                      const std::vector<double>& sinks,
                                      std::vector<double>* dsinks) {
  std::vector<double> dqkv(qkv.size());
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      const Head at(shape, batch, head, starts, sinks);
      for (int64_t t = 0; t < shape.seq; ++t) {
        const double dsink = BackwardRow(at, t, dout, qkv, dqkv);
        if (dsinks != nullptr) (*dsinks)[static_cast<size_t>(head)] += dsink;
      }
    }
  }
  return dqkv;
}

}  // namespace zeroth::reference
