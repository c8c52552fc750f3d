// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/sampler.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "zeroth/core/base/philox.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

// Length of the valid UTF-8 sequence of two bytes or more at the start of `text`; 0 if there is
// none.
size_t MultibyteLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const size_t length = lead >= 0xF0 && lead <= 0xF4  ? 4
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                                                      : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool surrogate_or_beyond =
      (lead == 0xED && byte(1) > 0x9F) || (lead == 0xF4 && byte(1) > 0x8F);
  // U+0080 to U+009F are control characters, which a terminal would act on.
  const bool control = lead == 0xC2 && byte(1) < 0xA0;
  return overlong || surrogate_or_beyond || control ? 0 : length;
}

}  // namespace

int32_t PickToken(absl::Span<const float> logits, double temperature, double uniform) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  const int32_t likeliest = static_cast<int32_t>(largest - logits.begin());
  if (temperature <= 0) return likeliest;
  std::vector<double> weights(logits.size());
  double total = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    weights[i] =
        std::exp((static_cast<double>(logits[i]) - static_cast<double>(*largest)) / temperature);
    total += weights[i];
  }
  double rest = uniform * total;
  for (size_t i = 0; i < weights.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return static_cast<int32_t>(i);
  }
  return likeliest;  // rounding left a crumb
}

absl::StatusOr<std::string> Sample(Trainer& trainer, const Tokenizer& tokenizer,
                                   const SampleOptions& options) {
  const absl::Span<const int32_t> prefix = tokenizer.prefix();
  std::vector<int32_t> ids(prefix.begin(), prefix.end());
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> prompt, tokenizer.Encode(options.prompt));
  ids.insert(ids.end(), prompt.begin(), prompt.end());
  if (ids.empty()) ids.push_back(tokenizer.end_of_text());
  const size_t prompt_length = ids.size();
  const size_t context = static_cast<size_t>(trainer.model().max_seq_len());
  const size_t known =
      static_cast<size_t>(std::min<int64_t>(tokenizer.vocab_size(), trainer.model().vocab_size()));
  for (const int32_t id : ids) {
    if (id >= trainer.model().vocab_size()) {
      return absl::InvalidArgumentError(absl::StrCat("the prompt has token ", id,
                                                     ", but the model's vocabulary ends at ",
                                                     trainer.model().vocab_size() - 1));
    }
  }
  const CounterRng rng(options.seed, "sample");
  for (int64_t i = 0; i < options.tokens; ++i) {
    const size_t length = std::min(ids.size(), context);
    const absl::Span<const int32_t> window(ids.data() + ids.size() - length, length);
    ZEROTH_ASSIGN_OR_RETURN(const Tensor logits,
                            trainer.Logits(window, static_cast<int64_t>(length) - 1));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, logits.ToHost<float>());
    const int32_t next = PickToken(absl::MakeConstSpan(values).first(known), options.temperature,
                                   rng.Uniform(static_cast<uint64_t>(i)));
    if (next == tokenizer.end_of_text()) break;
    ids.push_back(next);
  }
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
  const absl::Span<const int32_t> continuation = absl::MakeConstSpan(ids).subspan(prompt_length);
  ZEROTH_ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(continuation));
  return absl::StrCat(options.prompt, text);
}

std::string Printable(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const unsigned char first = static_cast<unsigned char>(text[0]);
    const bool plain = (first >= 0x20 && first < 0x7F) || first == '\n' || first == '\t';
    const size_t length = plain ? 1 : MultibyteLength(text);
    if (length > 0) {
      out.append(text.data(), length);
    } else {
      absl::StrAppendFormat(&out, "\\x%02x", first);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace zeroth
