// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Measures perplexity, and accuracy on multiple choice and on preference pairs, as other frameworks
// do.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/data/token_source.h"
#include "zeroth/data/tokenizer.h"

namespace zeroth {

// Returns the sum of -log p of the tokens from index `from` on, each given all tokens before it.
using LikelihoodFunction =
    absl::FunctionRef<absl::StatusOr<double>(absl::Span<const int32_t> tokens, int64_t from)>;

struct WindowOptions {
  int64_t length = 0;  // tokens of a window; at most the model's positions
  int64_t stride = 0;  // tokens between the beginnings of two windows; at most `length`
};

struct Perplexity {
  double mean = 0;  // mean of -log p over the predicted tokens; perplexity is exp(mean)
  int64_t tokens = 0;
  int64_t windows = 0;
};

// Measures perplexity by overlapping windows, as "Perplexity of fixed-length models" in
// transformers' documentation. Each window predicts the tokens that no window before it has
// predicted. The first token of the data (with stride = length, of each window) is not predicted.
// Every predicted token has the same weight. Each row of the data is a sequence. InvalidArgument
// for options out of range, and for data in which no token can be predicted.
absl::StatusOr<Perplexity> MeasurePerplexity(const TokenSource& data, const WindowOptions& options,
                                             LikelihoodFunction likelihood);

struct Question {
  std::string context;
  std::vector<std::string> endings;
  size_t label = 0;  // index of the right ending
};

// Reads JSON lines in HellaSwag's format: "ctx", "endings" and "label", a number or a string of
// digits; other keys are ignored. Reads the first `limit` questions; 0: all. InvalidArgument names
// the line.
absl::StatusOr<std::vector<Question>> ReadQuestions(const std::string& path, int64_t limit);

struct ChoiceScores {
  double accuracy = 0;             // how often the likeliest ending is the right one
  double normalized_accuracy = 0;  // the same with likelihoods per character
  int64_t questions = 0;           // or pairs
  int64_t tokens = 0;              // that were scored: of endings, or of answers

  // Returns the standard error of either accuracy p, sqrt(p (1 - p) / (n - 1)).
  double StandardError(double accuracy) const;
};

// Scores multiple choice as lm-evaluation-harness does (acc and acc_norm). An ending follows the
// tokenizer's prefix, the context and a space. Its score is the log-likelihood of its tokens;
// acc_norm divides the score by the ending's characters. The first of equal scores counts. A
// context that does not fit into `max_length` positions is cut on the left. InvalidArgument for an
// ending that alone does not fit.
absl::StatusOr<ChoiceScores> MeasureChoices(const std::vector<Question>& questions,
                                            const Tokenizer& tokenizer, int64_t max_length,
                                            LikelihoodFunction likelihood);

// Measures how often the chosen answer of a preference pair is likelier than the rejected one:
// `accuracy` by the log-likelihood of its learned tokens, normalized_accuracy by the mean over
// them. `rows` come from EncodeConversations (data/chat/conversations.h) with pairs. Errors of the
// source.
absl::StatusOr<ChoiceScores> MeasurePairs(const TokenSource& rows, LikelihoodFunction likelihood);

}  // namespace zeroth
