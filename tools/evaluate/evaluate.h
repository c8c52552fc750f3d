// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// What a model knows of a text, in the numbers that others publish.

#ifndef ZEROTH_TOOLS_EVALUATE_EVALUATE_H_
#define ZEROTH_TOOLS_EVALUATE_EVALUATE_H_

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

// The sum of -log p of the tokens from `from` on, each given all those before it.
using LikelihoodFunction =
    absl::FunctionRef<absl::StatusOr<double>(absl::Span<const int32_t> tokens, int64_t from)>;

struct WindowOptions {
  int64_t length = 0;  // tokens of a window; at most the model's positions
  int64_t stride = 0;  // tokens from one window's beginning to the next one's; at most `length`
};

struct Perplexity {
  double mean = 0;  // of -log p over the tokens that were predicted; perplexity is e to this
  int64_t tokens = 0;
  int64_t windows = 0;
};

// By windows that overlap, as "Perplexity of fixed-length models" in transformers' documentation
// has them: each window predicts the tokens that none before it has, all but the first of the data
// (with stride = length, of each window). Every predicted token weighs the same. Rows of data are
// sequences of their own. InvalidArgument for options out of range and for data of which nothing
// can be predicted.
absl::StatusOr<Perplexity> MeasurePerplexity(const TokenSource& data, const WindowOptions& options,
                                             LikelihoodFunction likelihood);

struct Question {
  std::string context;
  std::vector<std::string> endings;
  size_t label = 0;  // of the right ending
};

// JSON lines as HellaSwag has them: "ctx", "endings" and "label", a number or its digits; other
// keys make no difference. The first `limit` of them; 0: all. InvalidArgument names the line.
absl::StatusOr<std::vector<Question>> ReadQuestions(const std::string& path, int64_t limit);

struct ChoiceScores {
  double accuracy = 0;             // the likeliest ending is the right one
  double normalized_accuracy = 0;  // the likeliest for its length in characters is
  int64_t questions = 0;

  // Of one of the two: the standard error, sqrt(p (1 - p) / (n - 1)).
  double StandardError(double accuracy) const;
};

// As lm-evaluation-harness scores multiple choice (acc and acc_norm): an ending follows the context
// and a space, its score is the log-likelihood of its tokens, and acc_norm divides that by the
// ending's characters. The first of equal scores counts. What does not fit into `max_length`
// positions is cut on the left; InvalidArgument for an ending that alone does not.
absl::StatusOr<ChoiceScores> MeasureChoices(const std::vector<Question>& questions,
                                            const Tokenizer& tokenizer, int64_t max_length,
                                            LikelihoodFunction likelihood);

}  // namespace zeroth

#endif  // ZEROTH_TOOLS_EVALUATE_EVALUATE_H_
