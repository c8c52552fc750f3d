// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/check_weights.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/formats/hugging_face.h"
#include "zeroth/train/model_source.h"

namespace zeroth {
namespace {

// True for stored tensors that are not weights of the model: attention masks and rotary tables of
// old files, and the second copy of a tied head.
bool IsKnownExtra(const std::string& name) {
  return absl::EndsWith(name, ".attn.bias") || absl::EndsWith(name, ".attn.masked_bias") ||
         absl::EndsWith(name, "rotary_emb.inv_freq") || name == "lm_head.weight";
}

}  // namespace

absl::StatusOr<int64_t> CheckWeights(const WeightsSource& weights, const LanguageModel& model,
                                     const NewTokenRows& grown, bool makes_head) {
  const std::map<std::string, PeftTensor> optional = PeftLoraTensors(model);
  std::vector<std::string> wrong;
  std::set<std::string> used;
  for (const Parameter* parameter : StoredParameters(model)) {
    const std::string stored = weights.StoredName(parameter->name());
    const bool may_miss =
        optional.count(parameter->name()) > 0 || (makes_head && parameter == &model.head_weight());
    if (may_miss && weights.Find(stored) == nullptr) continue;
    const absl::StatusOr<Shape> shape = weights.ShapeOf(stored);
    if (!shape.ok()) {
      wrong.push_back(
          absl::StrCat("missing: ", parameter->name(), " ", parameter->global_shape().ToString()));
    } else if (*shape != parameter->global_shape() && !grown.Contains(parameter->name())) {
      wrong.push_back(absl::StrCat("shape: ", stored, " is ", shape->ToString(), ", expected ",
                                   parameter->global_shape().ToString()));
    }
    used.insert(stored);
  }
  int64_t mtp_tensors = 0;
  for (const std::string& name : weights.names()) {
    if (used.count(name) > 0) continue;
    if (IsMtpTensor(name)) {
      ++mtp_tensors;
    } else if (!IsKnownExtra(name)) {
      wrong.push_back(absl::StrCat("unexpected: ", name));
    }
  }
  if (wrong.empty()) return mtp_tensors;
  constexpr size_t kShown = 12;
  const size_t count = wrong.size();
  if (count > kShown) {
    wrong.resize(kShown);
    wrong.push_back(absl::StrCat("… and ", count - kShown, " more"));
  }
  return InvalidArgument("the weights of ", weights.description(),
                         " do not fit the model that its config.json describes:\n  ",
                         absl::StrJoin(wrong, "\n  "));
}

absl::Status CheckTiedHead(const WeightsSource& weights, const LanguageModel& model) {
  constexpr char kHead[] = "lm_head.weight";
  constexpr int64_t kPiece = int64_t{1} << 20;
  const SafetensorsEntry* head = weights.Find(kHead);
  if (head == nullptr || model.scores()) return absl::OkStatus();
  std::string embedding;
  for (const Parameter* parameter : model.Parameters()) {
    if (parameter->name() == kHead) return absl::OkStatus();
    if (IsTokenEmbedding(parameter->name())) embedding = weights.StoredName(parameter->name());
  }
  if (embedding.empty()) return absl::OkStatus();
  ZEROTH_ASSIGN_OR_RETURN(const Shape shape, weights.ShapeOf(embedding));
  ZEROTH_ASSIGN_OR_RETURN(const Shape head_shape, weights.ShapeOf(kHead));
  bool same = shape == head_shape;
  std::vector<float> one(static_cast<size_t>(std::min(kPiece, shape.numel())));
  std::vector<float> other(one.size());
  for (int64_t begin = 0; same && begin < shape.numel(); begin += kPiece) {
    const auto size = static_cast<size_t>(std::min(kPiece, shape.numel() - begin));
    const absl::Span<float> a = absl::MakeSpan(one).first(size);
    const absl::Span<float> b = absl::MakeSpan(other).first(size);
    ZEROTH_RETURN_IF_ERROR(weights.ReadElements(embedding, begin, a));
    ZEROTH_RETURN_IF_ERROR(weights.ReadElements(kHead, begin, b));
    same = std::memcmp(a.data(), b.data(), size * sizeof(float)) == 0;
  }
  if (same) return absl::OkStatus();
  return InvalidArgument(
      weights.description(), ": \"", kHead, "\" differs from \"", embedding,
      "\", but the model's head is its embedding. If the head is a separate matrix, set "
      "\"tie_word_embeddings\" to false in config.json; otherwise remove the tensor");
}

}  // namespace zeroth
