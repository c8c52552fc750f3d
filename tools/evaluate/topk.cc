// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/evaluate/topk.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "zeroth/core/base/status_macros.h"
#include "zeroth/data/teacher_topk.h"
#include "zeroth/kernels/distillation/distillation.h"

namespace zeroth {

void FindTopK(absl::Span<const float> logits, absl::Span<int32_t> ids,
              absl::Span<float> log_probs) {
  const auto largest = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) - largest);
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [logits](int32_t id) { return logits[static_cast<size_t>(id)]; };
  const auto end = order.begin() + static_cast<std::ptrdiff_t>(ids.size());
  std::partial_sort(order.begin(), end, order.end(), [&logit](int32_t a, int32_t b) {
    return logit(a) > logit(b) || (logit(a) == logit(b) && a < b);
  });
  std::sort(order.begin(), end);
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = order[i];
    log_probs[i] =
        static_cast<float>(static_cast<double>(logit(order[i])) - largest - std::log(sum));
  }
}

absl::StatusOr<int64_t> WriteTopK(const Mixture& data, const TopKOptions& options,
                                  LogitsFunction logits) {
  const int64_t most = std::min(kMostTeacherTokens, options.vocab_size);
  if (options.k < 1 || options.k > most) {
    return InvalidArgument("--topk=", options.k, ", expected 1 to ", most,
                           options.vocab_size == most ? ", the teacher's vocabulary" : "");
  }
  LoaderOptions loader_options = options.loader;
  loader_options.batch_size = 1;
  loader_options.shuffle = false;
  loader_options.once = true;
  TopKFacts facts;
  facts.k = options.k;
  facts.seq_len = loader_options.seq_len;
  facts.teacher = options.teacher;
  std::vector<DataLoader> loaders;
  for (size_t i = 0; i < data.sources(); ++i) {
    // The data outlive the loader.
    const std::shared_ptr<const TokenSource> source(std::shared_ptr<const TokenSource>(),
                                                    &data.source(i));
    ZEROTH_ASSIGN_OR_RETURN(DataLoader loader, DataLoader::Create(source, loader_options));
    facts.rows.push_back(loader.distinct_windows());
    loaders.push_back(std::move(loader));
  }
  ZEROTH_ASSIGN_OR_RETURN(TopKWriter writer, TopKWriter::Create(options.directory, facts));
  const auto seq = static_cast<size_t>(facts.seq_len);
  const auto k = static_cast<size_t>(facts.k);
  std::vector<int32_t> ids(seq * k);
  std::vector<float> log_probs(ids.size());
  int64_t rows = 0;
  for (size_t i = 0; i < loaders.size(); ++i) {
    for (int64_t row = 0; row < facts.rows[i]; ++row, ++rows) {
      ZEROTH_ASSIGN_OR_RETURN(const Batch batch, loaders[i].Load(row));
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> all, logits(batch));
      const size_t vocab = all.size() / seq;
      for (size_t at = 0; at < seq; ++at) {
        FindTopK(
            absl::MakeConstSpan(all).subspan(at * vocab, static_cast<size_t>(options.vocab_size)),
            absl::MakeSpan(ids).subspan(at * k, k), absl::MakeSpan(log_probs).subspan(at * k, k));
      }
      ZEROTH_RETURN_IF_ERROR(
          writer.Add({batch.inputs, batch.starts, absl::MakeSpan(ids), absl::MakeSpan(log_probs)}));
    }
  }
  ZEROTH_RETURN_IF_ERROR(writer.Finish());
  return rows;
}

}  // namespace zeroth
