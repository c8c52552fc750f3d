// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/evaluate/evaluate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/unicode.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/documents.h"
#include "zeroth/train/text_generation.h"

namespace zeroth {
namespace {

// Measures tokens [begin, end) of the data as one sequence.
absl::Status MeasureSequence(const TokenSource& data, int64_t begin, int64_t end,
                             const WindowOptions& options, LikelihoodFunction likelihood,
                             double& sum, Perplexity& result) {
  int64_t predicted = begin + 1;  // tokens before this index are predicted; the first is given
  for (int64_t start = begin;; start += options.stride) {
    const int64_t stop = std::min(start + options.length, end);
    // The first token of a window has nothing before it.
    const int64_t from = std::max(predicted, start + 1);
    if (from < stop) {
      std::vector<int32_t> tokens(static_cast<size_t>(stop - start));
      ZEROTH_RETURN_IF_ERROR(data.Read(start, absl::MakeSpan(tokens)));
      ZEROTH_ASSIGN_OR_RETURN(const double part, likelihood(tokens, from - start));
      sum += part;
      result.tokens += stop - from;
      ++result.windows;
    }
    predicted = stop;
    if (stop == end) return absl::OkStatus();
  }
}

int64_t Characters(absl::string_view text) {
  int64_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(DecodeUtf8(text).length);
  return count;
}

absl::StatusOr<Question> ParseQuestion(const JsonRecord& record) {
  const nlohmann::ordered_json& json = record.json;
  const auto wrong = [&](absl::string_view what) {
    return InvalidArgument(record.where, ": ", what);
  };
  if (!json.is_object() || !json.contains("ctx") || !json["ctx"].is_string()) {
    return wrong("expected an object with \"ctx\", a string");
  }
  Question question;
  question.context = json["ctx"].get<std::string>();
  const auto endings = json.find("endings");
  if (endings == json.end() || !endings->is_array()) {
    return wrong("expected \"endings\", a list of strings");
  }
  for (const nlohmann::ordered_json& ending : *endings) {
    if (!ending.is_string() || ending.get_ref<const std::string&>().empty()) {
      return wrong(
          "an ending is empty or not a string; expected a text, by whose length scores are "
          "divided");
    }
    question.endings.push_back(ending.get<std::string>());
  }
  const nlohmann::ordered_json label = json.value("label", nlohmann::ordered_json());
  int64_t number = -1;
  if (label.is_number_integer()) {
    number = label.get<int64_t>();
  } else if (label.is_string() && !absl::SimpleAtoi(label.get<std::string>(), &number)) {
    number = -1;
  }
  if (number < 0 || number >= static_cast<int64_t>(question.endings.size())) {
    return wrong(absl::StrCat("\"label\" is ", label.dump(), ", expected the number of one of ",
                              question.endings.size(), " endings, from 0"));
  }
  question.label = static_cast<size_t>(number);
  return question;
}

// The likelihood of an ending, or of the learned tokens of an answer.
struct AnswerScore {
  double sum = 0;  // of -log p
  int64_t tokens = 0;

  double mean() const { return sum / static_cast<double>(std::max<int64_t>(1, tokens)); }
};

absl::StatusOr<AnswerScore> ScoreEnding(const Tokenizer& tokenizer, const std::string& context,
                                        const std::string& ending, int64_t max_length,
                                        LikelihoodFunction likelihood) {
  // Spaces at the end of a context belong to the token after them.
  const absl::string_view stripped = absl::StripTrailingAsciiWhitespace(context);
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> given, PromptTokens(tokenizer, stripped));
  std::vector<int32_t> whole = given;
  const std::string text = absl::StrCat(context, " ", ending);
  if (stripped.empty()) {
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<int32_t> rest, tokenizer.Encode(text));
    whole.insert(whole.end(), rest.begin(), rest.end());
  } else {
    ZEROTH_ASSIGN_OR_RETURN(whole, PromptTokens(tokenizer, text));
  }
  const int64_t count = static_cast<int64_t>(whole.size());
  const int64_t asked = count - std::min(count, static_cast<int64_t>(given.size()));
  if (asked < 1 || asked > max_length) {
    return InvalidArgument("the ending \"", ending.substr(0, 60), "\" has ", asked,
                           " tokens, expected 1 to the ", max_length, " positions of the model");
  }
  const int64_t kept = std::min(count, max_length + 1);
  ZEROTH_ASSIGN_OR_RETURN(
      const double sum,
      likelihood(absl::MakeConstSpan(whole).last(static_cast<size_t>(kept)), kept - asked));
  return AnswerScore{sum, asked};
}

absl::StatusOr<AnswerScore> ScoreAnswer(absl::Span<const int32_t> ids,
                                        absl::Span<const uint8_t> marks,
                                        LikelihoodFunction likelihood) {
  AnswerScore score;
  const auto is_learned = [marks](size_t at) { return (marks[at] & kNoTarget) == 0; };
  for (size_t from = 1; from < ids.size();) {
    if (!is_learned(from)) {
      ++from;
      continue;
    }
    size_t to = from + 1;
    while (to < ids.size() && is_learned(to)) ++to;
    ZEROTH_ASSIGN_OR_RETURN(const double part,
                            likelihood(ids.first(to), static_cast<int64_t>(from)));
    score.sum += part;
    score.tokens += static_cast<int64_t>(to - from);
    from = to;
  }
  return score;
}

}  // namespace

absl::StatusOr<Perplexity> MeasurePerplexity(const TokenSource& data, const WindowOptions& options,
                                             LikelihoodFunction likelihood) {
  if (options.length < 2 || options.stride < 1 || options.stride > options.length) {
    return InvalidArgument("windows of ", options.length, " tokens at a stride of ", options.stride,
                           ", expected at least 2, and a stride from 1 to that");
  }
  Perplexity result;
  double sum = 0;
  const int64_t length = data.row_length() > 0 ? data.row_length() : data.size();
  for (int64_t begin = 0; begin + length <= data.size() && length > 0; begin += length) {
    ZEROTH_RETURN_IF_ERROR(
        MeasureSequence(data, begin, begin + length, options, likelihood, sum, result));
  }
  if (result.tokens == 0) {
    return InvalidArgument(data.description(), ": ", data.size(), " tokens, expected at least two");
  }
  result.mean = sum / static_cast<double>(result.tokens);
  return result;
}

absl::StatusOr<std::vector<Question>> ReadQuestions(const std::string& path, int64_t limit) {
  if (limit < 0) {
    return InvalidArgument("a limit of ", limit, " questions, expected at least 0, which is all");
  }
  ZEROTH_ASSIGN_OR_RETURN(
      DocumentReader reader,
      DocumentReader::Open({path, DataFileKind::kJsonLines}, /*cuts_at_spaces=*/false));
  std::vector<Question> questions;
  for (JsonRecord record; limit == 0 || static_cast<int64_t>(questions.size()) < limit;) {
    ZEROTH_ASSIGN_OR_RETURN(const bool more, reader.NextRecord(&record));
    if (!more) break;
    ZEROTH_ASSIGN_OR_RETURN(questions.emplace_back(), ParseQuestion(record));
  }
  if (questions.empty()) {
    return InvalidArgument(path, ": no questions, expected JSON lines with ctx, endings and label");
  }
  return questions;
}

double ChoiceScores::StandardError(double of) const {
  return std::sqrt(of * (1 - of) / static_cast<double>(std::max<int64_t>(1, questions - 1)));
}

absl::StatusOr<ChoiceScores> MeasureChoices(const std::vector<Question>& questions,
                                            const Tokenizer& tokenizer, int64_t max_length,
                                            LikelihoodFunction likelihood) {
  ChoiceScores result;
  int64_t right = 0;
  int64_t right_by_length = 0;
  for (const Question& question : questions) {
    std::vector<double> scores;
    std::vector<double> by_length;
    for (const std::string& ending : question.endings) {
      ZEROTH_ASSIGN_OR_RETURN(const AnswerScore score, ScoreEnding(tokenizer, question.context,
                                                                   ending, max_length, likelihood));
      scores.push_back(-score.sum);
      by_length.push_back(-score.sum / static_cast<double>(Characters(ending)));
      result.tokens += score.tokens;
    }
    const auto best = [](const std::vector<double>& of) {
      return static_cast<size_t>(std::max_element(of.begin(), of.end()) - of.begin());
    };
    right += best(scores) == question.label ? 1 : 0;
    right_by_length += best(by_length) == question.label ? 1 : 0;
  }
  result.questions = static_cast<int64_t>(questions.size());
  const double count = static_cast<double>(result.questions);
  result.accuracy = static_cast<double>(right) / count;
  result.normalized_accuracy = static_cast<double>(right_by_length) / count;
  return result;
}

absl::StatusOr<ChoiceScores> MeasurePairs(const TokenSource& rows, LikelihoodFunction likelihood) {
  ChoiceScores scores;
  std::vector<int32_t> ids(static_cast<size_t>(rows.row_length()));
  std::vector<uint8_t> marks(ids.size());
  AnswerScore chosen;  // the previous document's
  for (int64_t begin = 0; begin < rows.size(); begin += rows.row_length()) {
    ZEROTH_RETURN_IF_ERROR(rows.Read(begin, absl::MakeSpan(ids)));
    ZEROTH_RETURN_IF_ERROR(rows.ReadMarks(begin, absl::MakeSpan(marks)));
    for (size_t from = 0; from < ids.size();) {
      size_t to = from + 1;
      while (to < ids.size() && (marks[to] & kBeginsDocument) == 0) ++to;
      ZEROTH_ASSIGN_OR_RETURN(
          const AnswerScore answer,
          ScoreAnswer(absl::MakeConstSpan(ids).subspan(from, to - from),
                      absl::MakeConstSpan(marks).subspan(from, to - from), likelihood));
      scores.tokens += answer.tokens;
      if ((marks[from] & kBeginsRejected) != 0) {
        ++scores.questions;
        scores.accuracy += chosen.sum < answer.sum ? 1 : 0;
        scores.normalized_accuracy += chosen.mean() < answer.mean() ? 1 : 0;
      }
      chosen = answer;
      from = to;
    }
  }
  const double pairs = static_cast<double>(std::max<int64_t>(1, scores.questions));
  scores.accuracy /= pairs;
  scores.normalized_accuracy /= pairs;
  return scores;
}

}  // namespace zeroth
