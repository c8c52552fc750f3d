// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/nn/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Top-k, then top-p: keeps the `keep` largest weights, then the fewest largest of these whose sum
// reaches `share` of theirs; zeroes the rest. Among equal weights, the first token is kept first.
void FilterTopKTopP(size_t keep, double share, std::vector<double>& weights) {
  std::vector<size_t> order(weights.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return weights[a] > weights[b]; });
  double total = 0;
  for (size_t i = 0; i < keep; ++i) total += weights[order[i]];
  size_t kept = 0;
  for (double sum = 0; kept < keep && (kept == 0 || sum < share * total); ++kept) {
    sum += weights[order[kept]];
  }
  for (size_t i = kept; i < order.size(); ++i) weights[order[i]] = 0;
}

absl::Status CheckPrompt(absl::Span<const int32_t> prompt, int64_t vocab_size) {
  if (prompt.empty()) {
    return absl::InvalidArgumentError("the prompt has no token, expected at least one");
  }
  for (const int32_t id : prompt) {
    if (id >= 0 && id < vocab_size) continue;
    return InvalidArgument("the prompt has token ", id, ", but the model's vocabulary ends at ",
                           vocab_size - 1);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateGenerate(const GenerateOptions& generate) {
  if (generate.max_tokens < 0) {
    return InvalidArgument("max_tokens is ", generate.max_tokens, ", expected at least 0");
  }
  const SamplingOptions& options = generate.sampling;
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    return InvalidArgument("temperature is ", options.temperature,
                           ", expected a finite number of at least 0");
  }
  if (options.top_k < 0) {
    return InvalidArgument("top_k is ", options.top_k, ", expected at least 0, which is all");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return InvalidArgument("top_p is ", options.top_p, ", expected more than 0 and at most 1");
  }
  return absl::OkStatus();
}

int32_t PickToken(absl::Span<const float> logits, const SamplingOptions& options, double uniform) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  const int32_t likeliest = static_cast<int32_t>(largest - logits.begin());
  if (options.temperature <= 0) return likeliest;
  std::vector<double> weights(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] = std::exp((static_cast<double>(logits[i]) - static_cast<double>(*largest)) /
                          options.temperature);
  }
  const size_t keep = options.top_k == 0
                          ? weights.size()
                          : std::min(weights.size(), static_cast<size_t>(options.top_k));
  if (keep < weights.size() || options.top_p < 1) FilterTopKTopP(keep, options.top_p, weights);
  double rest = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < weights.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return static_cast<int32_t>(i);
  }
  return likeliest;  // rounding has left `rest` at 0 or above
}

absl::StatusOr<std::vector<int32_t>> Generate(const LanguageModel& model,
                                              absl::Span<const int32_t> prompt,
                                              const GenerateOptions& options, LogitsFunction logits,
                                              TokenSink sink) {
  ZEROTH_RETURN_IF_ERROR(ValidateGenerate(options));
  ZEROTH_RETURN_IF_ERROR(CheckPrompt(prompt, model.vocab_size()));
  const auto context = static_cast<size_t>(model.max_seq_len());
  std::optional<KeyValueCache> cache;
  if (model.SupportsCache() && prompt.size() <= context) {
    const auto length = static_cast<int64_t>(prompt.size());
    cache.emplace(length + std::min(model.max_seq_len() - length, options.max_tokens));
  }
  const CounterRng rng(options.seed, "sample");
  std::vector<int32_t> ids(prompt.begin(), prompt.end());
  for (int64_t i = 0; i < options.max_tokens; ++i) {
    // The window moves, so every token gets a new position, and the cached keys are stale.
    if (ids.size() > context) cache.reset();
    const int64_t valid = model.CacheValidUpTo();
    if (valid > 0 && cache.has_value() && cache->size() <= valid &&
        static_cast<int64_t>(ids.size()) > valid) {
      cache.emplace(cache->capacity());
    }
    const size_t begin = cache.has_value() ? static_cast<size_t>(cache->size())
                                           : ids.size() - std::min(ids.size(), context);
    const absl::Span<const int32_t> window = absl::MakeConstSpan(ids).subspan(begin);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor last,
                            logits(window, static_cast<int64_t>(window.size()) - 1,
                                   cache.has_value() ? &*cache : nullptr));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, last.ToHost<float>());
    const absl::Span<const float> known(
        values.data(), options.vocab_size == 0
                           ? values.size()
                           : std::min(values.size(), static_cast<size_t>(options.vocab_size)));
    const int32_t next = PickToken(known, options.sampling, rng.Uniform(static_cast<uint64_t>(i)));
    if (std::ranges::count(options.stop_tokens, next) > 0) break;
    ids.push_back(next);
    ZEROTH_RETURN_IF_ERROR(sink(next));
  }
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(prompt.size()));
  return ids;
}

}  // namespace zeroth
