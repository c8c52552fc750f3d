// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Finds which losses the run needs, reads those that an earlier run has cached, and computes the
// rest.

#include "zeroth/train/cached_reference.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/comm/agree.h"
#include "zeroth/core/device/hardware.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/reference_cache.h"
#include "zeroth/data/token_cache.h"
#include "zeroth/kernels/attention/attention.h"
#include "zeroth/nn/layers/attention.h"
#include "zeroth/train/progress.h"
#include "zeroth/train/reference_losses.h"

namespace zeroth {
namespace {

int64_t SaturatingProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

// The file beside the data that keeps the losses.
struct CacheFile {
  ReferenceCacheKey key;
  std::string path;
};

absl::StatusOr<CacheFile> FindCacheFile(const TrainOptions& options, const ModelSource& source,
                                        const std::string& attention, const std::string& spec,
                                        const Mixture& data, const Device& device) {
  CacheFile cache;
  ZEROTH_ASSIGN_OR_RETURN(const std::string hardware, HardwareName(device));
  ZEROTH_ASSIGN_OR_RETURN(cache.key.recipe, ReferenceRecipe(options, source, attention, hardware));
  ZEROTH_ASSIGN_OR_RETURN(cache.key.data, ChecksumOfRows(data));
  for (size_t i = 0; i < data.sources(); ++i) {
    cache.key.rows.push_back(data.source(i).size() / data.source(i).row_length());
  }
  cache.key.seq_len = options.seq_len;
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<WeightedSpec> parts, SplitWeights(spec));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<DataFile> files, FindDataFiles(parts[0].spec));
  cache.path = ReferenceCachePath(CacheDirectory(files, options.cache_dir), cache.key);
  return cache;
}

// Data of the run whose pairs are compared with the reference.
struct Compared {
  std::string flag;
  std::string spec;  // what names the data
  std::shared_ptr<const Mixture> data;
  std::shared_ptr<const ReferenceLosses>* result;
  RowMask needed{};          // by this run
  ReferenceLosses losses{};  // NaN where there are none yet
  RowMask missing{};
  // On rank 0, unless --cache_dir=none.
  absl::StatusOr<CacheFile> cache = absl::NotFoundError("");
  bool found = false;    // in the file
  std::string damage{};  // of the file
};

using Windows = std::vector<std::pair<int64_t, int64_t>>;  // the first one, and how many

class ReferenceReader {
 public:
  ReferenceReader(const RunSpec& spec, const RunInput& input, Rank& rank, const std::string& out,
                  const DataOrder& order, std::unique_ptr<Trainer>& trainer)
      : spec_(spec),
        options_(spec.options),
        input_(input),
        rank_(rank),
        world_(rank.world()),
        out_(out),
        order_(order),
        trainer_(trainer) {}

  absl::StatusOr<CachedReference> Read(absl::FunctionRef<bool()> wants_to_stop);

 private:
  // The windows of data that the run may read, from each checkpoint that it may resume.
  absl::StatusOr<Windows> RemainingWindows();
  absl::Status FindRows(Compared& part);
  absl::Status ReadCache(const ModelSource& source, const std::string& attention, Compared& part);
  // On rank 0: keeps the losses for later runs. FailedPrecondition with --cache_dir=none.
  absl::Status WriteCache(const Compared& part) const;
  Device& device() { return rank_.device(); }

  const RunSpec& spec_;
  const TrainOptions& options_;
  const RunInput& input_;
  Rank& rank_;
  Communicator& world_;
  const std::string& out_;
  const DataOrder& order_;
  std::unique_ptr<Trainer>& trainer_;
};

absl::StatusOr<Windows> ReferenceReader::RemainingWindows() {
  const auto windows_of = [this](const RunLength& length, int64_t step, int64_t sequence) {
    return std::pair(sequence, SaturatingProduct(length.steps - step, SequencesPerStep(options_)));
  };
  if (options_.resume.empty()) return Windows{windows_of(input_.length, 0, 0)};
  Windows windows;
  absl::Status status;
  if (world_.rank() == 0) {
    for (const RunProgress& progress : SavedProgress(options_, out_)) {
      const int64_t begin = order_.Differences(progress.data).empty() ? progress.sequences : 0;
      const absl::StatusOr<RunLength> length =
          LengthOf(options_, input_.sequences_per_epoch, progress.steps, begin);
      status.Update(length.status());
      if (length.ok()) windows.push_back(windows_of(*length, progress.steps, begin));
    }
    if (windows.empty()) windows = {windows_of(input_.length, 0, 0)};
  }
  ZEROTH_RETURN_IF_ERROR(AgreeOnStatus(world_, device(), status, "windows to come"));
  ZEROTH_ASSIGN_OR_RETURN(
      const std::string text,
      BroadcastText(world_, device(), 0, nlohmann::json(windows).dump(), "windows to come"));
  return nlohmann::json::parse(text).get<Windows>();
}

absl::Status ReferenceReader::FindRows(Compared& part) {
  LoaderOptions order = LoaderOptionsFor(spec_, input_, world_.rank());
  const bool is_held_out = part.data == input_.eval_data;
  if (is_held_out) order.shuffle = false;
  order.once = is_held_out;
  ZEROTH_ASSIGN_OR_RETURN(const DataLoader loader, DataLoader::Create(part.data, order));
  Windows windows = {{0, SaturatingProduct(options_.eval_batches, SequencesPerStep(options_))}};
  if (!is_held_out) {
    ZEROTH_ASSIGN_OR_RETURN(windows, RemainingWindows());
  }
  for (const auto& [first, count] : windows) loader.MarkRows(first, count, part.needed);
  part.losses = NoReferenceLosses(part.needed, options_.seq_len);
  return absl::OkStatus();
}

absl::Status ReferenceReader::ReadCache(const ModelSource& source, const std::string& attention,
                                        Compared& part) {
  if (world_.rank() == 0 && options_.cache_dir != "none") {
    part.cache = FindCacheFile(options_, source, attention, part.spec, *part.data, device());
    if (part.cache.ok()) {
      absl::StatusOr<ReferenceLosses> kept = ReadReferenceCache(part.cache->path, part.cache->key);
      part.found = kept.ok();
      if (part.found) {
        part.losses = *std::move(kept);
      } else if (!absl::IsNotFound(kept.status())) {
        part.damage = std::string(kept.status().message());
      }
    }
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::string text,
                          BroadcastText(world_, device(), 0, part.found ? "found" : "none",
                                        "kept losses of the reference"));
  if (text == "found") {
    ZEROTH_RETURN_IF_ERROR(BroadcastReferenceLosses(world_, device(), part.losses));
  }
  part.missing = MissingRows(part.needed, part.losses, options_.seq_len);
  return absl::OkStatus();
}

absl::Status ReferenceReader::WriteCache(const Compared& part) const {
  if (options_.cache_dir == "none") return FailedPrecondition("--cache_dir=none keeps nothing");
  ZEROTH_RETURN_IF_ERROR(part.cache.status());
  return WriteReferenceCache(part.cache->path, part.cache->key, part.losses);
}

absl::StatusOr<CachedReference> ReferenceReader::Read(absl::FunctionRef<bool()> wants_to_stop) {
  CachedReference result;
  const ModelSource& source = input_.reference.has_value() ? *input_.reference : input_.source;
  const std::string model =
      input_.reference.has_value() ? options_.reference : "the initial weights";
  std::vector<Compared> parts;
  if (!spec_.only_evaluates()) {
    parts.push_back({"--data", options_.data, input_.data, &result.losses});
  }
  if (input_.eval_data != nullptr) {
    const bool is_part = options_.eval_data.empty();
    parts.push_back({is_part ? "--eval_fraction" : "--eval_data",
                     is_part ? options_.data : options_.eval_data, input_.eval_data,
                     &result.eval_losses});
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::unique_ptr<LanguageModel> shape, source.Build());
  ZEROTH_ASSIGN_OR_RETURN(const std::string attention,
                          DescribeAttention(spec_, input_, rank_.kernels(), *shape));
  for (Compared& part : parts) {
    ZEROTH_RETURN_IF_ERROR(FindRows(part));
    ZEROTH_RETURN_IF_ERROR(ReadCache(source, attention, part));
    const int64_t missing = CountRows(part.missing);
    std::string note = absl::StrCat("reference losses of ", model, " on ", CountRows(part.needed),
                                    " sequences of ", part.flag);
    if (missing == 0) {
      if (part.found) absl::StrAppend(&note, ", read from ", part.cache->path);
      result.notes.push_back(std::move(note));
      *part.result = std::make_shared<const ReferenceLosses>(std::move(part.losses));
      continue;
    }
    if (world_.rank() == 0) {  // which has no reporter yet
      std::cout << "reference computes the losses of " << model << " on " << missing
                << " sequences of " << part.flag << "\n"
                << std::flush;
    }
    const auto start = std::chrono::steady_clock::now();
    if (trainer_ == nullptr) {
      ZEROTH_ASSIGN_OR_RETURN(trainer_, LoadFrozen(rank_, source, options_, "reference"));
    }
    ZEROTH_ASSIGN_OR_RETURN(const bool done,
                            ComputeReferenceLosses(*trainer_, *part.data,
                                                   LoaderOptionsFor(spec_, input_, world_.rank()),
                                                   part.missing, wants_to_stop, part.losses));
    absl::StrAppend(
        &note, ", ", missing, " of them computed in ",
        FormatDuration(
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
    result.interrupted = !done;
    if (world_.rank() == 0) {
      const absl::Status kept = WriteCache(part);
      if (result.interrupted) {
        std::cout << "interrupted before the first step, while the losses of the reference were "
                     "computed: those so far are "
                  << (kept.ok() ? absl::StrCat("kept in ", part.cache->path)
                                : absl::StrCat("lost, since ", kept.message()))
                  << "\n"
                  << std::flush;
      }
      if (!part.damage.empty()) absl::StrAppend(&note, ", since ", part.damage);
      if (kept.ok()) {
        absl::StrAppend(&note, ", and kept in ", part.cache->path);
      } else if (options_.cache_dir != "none") {
        absl::StrAppend(&note, ", and held in memory alone, since ", kept.message(),
                        "; --cache_dir names another directory, or none");
      }
    }
    if (result.interrupted) return result;
    result.notes.push_back(std::move(note));
    *part.result = std::make_shared<const ReferenceLosses>(std::move(part.losses));
  }
  trainer_ = nullptr;
  return result;
}

}  // namespace

absl::StatusOr<std::string> DescribeAttention(const RunSpec& spec, const RunInput& input,
                                              Kernels& kernels, const LanguageModel& model) {
  std::optional<AttentionShape> shape = FindAttentionShape(model);
  if (!shape.has_value()) return "";
  shape->batch = spec.options.batch_size;
  shape->seq = spec.options.seq_len;
  const bool within_documents =
      spec.only_evaluates() ? input.eval_within_documents : input.within_documents;
  return kernels::DescribeAttention(kernels, *shape, spec.options.mixed_precision().param_dtype,
                                    within_documents);
}

absl::StatusOr<CachedReference> OpenCachedReference(const RunSpec& spec, const RunInput& input,
                                                    Rank& rank, const std::string& out,
                                                    const DataOrder& order,
                                                    absl::FunctionRef<bool()> wants_to_stop,
                                                    std::unique_ptr<Trainer>& trainer) {
  return ReferenceReader(spec, input, rank, out, order, trainer).Read(wants_to_stop);
}

}  // namespace zeroth
