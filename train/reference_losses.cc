// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/reference_losses.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/options/trainer_options.h"

namespace zeroth {
namespace {

// Some rows of a source. The source outlives it.
class PickedRows final : public TokenSource {
 public:
  PickedRows(const TokenSource& source, std::vector<int64_t> rows)
      : TokenSource({static_cast<int64_t>(rows.size()) * source.row_length(),
                     source.row_length(),
                     source.has_marks(),
                     source.description(),
                     {}}),
        source_(source),
        rows_(std::move(rows)) {}

 private:
  absl::Status DoRead(int64_t begin, absl::Span<int32_t> out) const override {
    return InRows(begin, out,
                  [this](int64_t at, absl::Span<int32_t> part) { return source_.Read(at, part); });
  }
  absl::Status DoReadMarks(int64_t begin, absl::Span<uint8_t> out) const override {
    return InRows(begin, out, [this](int64_t at, absl::Span<uint8_t> part) {
      return source_.ReadMarks(at, part);
    });
  }
  // Calls `read` with the part of `out` in each row, and its place in the source.
  template <typename T, typename Read>
  absl::Status InRows(int64_t begin, absl::Span<T> out, Read read) const {
    while (!out.empty()) {
      const int64_t in_row = begin % row_length();
      const auto part = std::min(out.size(), static_cast<size_t>(row_length() - in_row));
      const int64_t row = rows_[static_cast<size_t>(begin / row_length())];
      ZEROTH_RETURN_IF_ERROR(read(row * row_length() + in_row, out.first(part)));
      begin += static_cast<int64_t>(part);
      out.remove_prefix(part);
    }
    return absl::OkStatus();
  }

  const TokenSource& source_;
  const std::vector<int64_t> rows_;
};

// Returns true on all ranks if `mine` is true on any.
absl::StatusOr<bool> OnAnyRank(Trainer& trainer, bool mine) {
  Device& device = trainer.device();
  const std::vector<float> value = {mine ? 1.0f : 0.0f};
  ZEROTH_ASSIGN_OR_RETURN(
      const Tensor flag,
      Tensor::FromHost<float>(device, Shape({1}), value, MemoryCategory::kCommunication));
  ZEROTH_RETURN_IF_ERROR(trainer.world().AllReduce(flag, ReduceOp::kSum, device.compute_stream(),
                                                   "stop of the reference"));
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> sum, flag.ToHost<float>());
  return sum[0] > 0;
}

// Returns the rows of each aligned group of `batch` rows that has a marked one. Only the group at
// the end of the data may have fewer.
std::vector<int64_t> WholeBatches(const std::vector<bool>& marked, int64_t batch) {
  std::vector<int64_t> rows;
  const auto size = static_cast<int64_t>(marked.size());
  for (int64_t begin = 0; begin < size; begin += batch) {
    const int64_t end = std::min(begin + batch, size);
    if (std::find(marked.begin() + begin, marked.begin() + end, true) == marked.begin() + end) {
      continue;
    }
    for (int64_t row = begin; row < end; ++row) rows.push_back(row);
  }
  return rows;
}

// Writes the losses of the marked rows of one source, and of those that share their batches, to
// `losses`, which are of all its rows. Returns false if a rank wants to stop.
absl::StatusOr<bool> ComputeRows(Trainer& trainer, const TokenSource& source,
                                 const std::vector<bool>& marked, const LoaderOptions& options,
                                 absl::FunctionRef<bool()> wants_to_stop,
                                 std::vector<float>& losses) {
  const std::vector<int64_t> rows = WholeBatches(marked, options.batch_size);
  if (rows.empty()) return true;
  ZEROTH_ASSIGN_OR_RETURN(
      const DataLoader loader,
      DataLoader::Create(std::make_shared<const PickedRows>(source, rows), options));
  Communicator& world = trainer.world();
  Device& device = trainer.device();
  const int64_t ranks_per_data = world.size() / options.world_size;
  const int64_t of_rank = options.batch_size * options.seq_len;
  ZEROTH_ASSIGN_OR_RETURN(const Tensor all,
                          Tensor::Empty(device, Shape({world.size(), of_rank}), DType::kFloat32,
                                        MemoryCategory::kCommunication));
  size_t done = 0;
  for (int64_t step = 0; done < rows.size(); ++step) {
    ZEROTH_ASSIGN_OR_RETURN(const bool stop, OnAnyRank(trainer, wants_to_stop()));
    if (stop) return false;
    ZEROTH_ASSIGN_OR_RETURN(const Batch batch, loader.Load(step));
    ZEROTH_ASSIGN_OR_RETURN(const Tensor mine, trainer.TokenLosses(batch));
    ZEROTH_RETURN_IF_ERROR(
        world.AllGather(mine, all, device.compute_stream(), "losses of the reference"));
    ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> gathered, all.ToHost<float>());
    for (int64_t rank = 0; rank < world.size(); rank += ranks_per_data) {
      for (int64_t row = 0; row < options.batch_size && done < rows.size(); ++row, ++done) {
        const auto from = gathered.begin() + rank * of_rank + row * options.seq_len;
        if (std::any_of(from, from + options.seq_len, [](float x) { return !std::isfinite(x); })) {
          if (!marked[static_cast<size_t>(rows[done])]) continue;
          return absl::OutOfRangeError(
              absl::StrCat(source.description(), ": the reference has a loss in sequence ",
                           rows[done], " that is not finite; see whether its weights are"));
        }
        std::copy_n(from, options.seq_len, losses.begin() + rows[done] * options.seq_len);
      }
    }
  }
  return true;
}

bool HasRow(const std::vector<float>& losses, size_t row, int64_t seq_len) {
  return !std::isnan(losses[row * static_cast<size_t>(seq_len)]);
}

}  // namespace

ReferenceLosses NoReferenceLosses(const RowMask& rows, int64_t seq_len) {
  ReferenceLosses losses;
  for (const std::vector<bool>& of_source : rows) {
    losses.emplace_back(of_source.size() * static_cast<size_t>(seq_len),
                        std::numeric_limits<float>::quiet_NaN());
  }
  return losses;
}

RowMask MissingRows(const RowMask& needed, const ReferenceLosses& losses, int64_t seq_len) {
  RowMask missing = needed;
  for (size_t i = 0; i < missing.size(); ++i) {
    for (size_t row = 0; row < missing[i].size(); ++row) {
      if (HasRow(losses[i], row, seq_len)) missing[i][row] = false;
    }
  }
  return missing;
}

int64_t CountRows(const RowMask& rows) {
  int64_t count = 0;
  for (const std::vector<bool>& source : rows) {
    count += std::count(source.begin(), source.end(), true);
  }
  return count;
}

absl::StatusOr<std::unique_ptr<Trainer>> LoadFrozen(Rank& rank, const ModelSource& source,
                                                    const TrainOptions& options,
                                                    absl::string_view role, Timeline* timeline) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModel> model, source.Build());
  for (Parameter* parameter : model->Parameters()) parameter->set_requires_grad(false);
  ZEROTH_ASSIGN_OR_RETURN(
      std::unique_ptr<Trainer> trainer,
      Trainer::Create(rank, std::move(model), FrozenTrainerOptionsFor(options, role, timeline)));
  ZEROTH_RETURN_IF_ERROR(trainer->sharding().Load(source.Reader(options.seed)));
  return trainer;
}

absl::StatusOr<bool> ComputeReferenceLosses(Trainer& trainer, const Mixture& data,
                                            const LoaderOptions& loader, const RowMask& rows,
                                            absl::FunctionRef<bool()> wants_to_stop,
                                            ReferenceLosses& losses) {
  LoaderOptions in_order = loader;
  in_order.shuffle = false;
  in_order.once = true;
  in_order.first_window = 0;
  in_order.reference = nullptr;
  for (size_t i = 0; i < data.sources(); ++i) {
    ZEROTH_ASSIGN_OR_RETURN(const bool done, ComputeRows(trainer, data.source(i), rows[i], in_order,
                                                         wants_to_stop, losses[i]));
    if (!done) return false;
  }
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
  return true;
}

absl::Status BroadcastReferenceLosses(Communicator& world, Device& device,
                                      ReferenceLosses& losses) {
  constexpr size_t kPiece = size_t{1} << 24;
  for (std::vector<float>& of_source : losses) {
    for (size_t begin = 0; begin < of_source.size(); begin += kPiece) {
      const auto piece = absl::MakeSpan(of_source).subspan(begin, kPiece);
      ZEROTH_ASSIGN_OR_RETURN(
          const Tensor tensor,
          Tensor::FromHost<float>(device, Shape({static_cast<int64_t>(piece.size())}), piece,
                                  MemoryCategory::kCommunication));
      ZEROTH_RETURN_IF_ERROR(
          world.Broadcast(tensor, /*root=*/0, device.compute_stream(), "losses of the reference"));
      ZEROTH_ASSIGN_OR_RETURN(const std::vector<float> values, tensor.ToHost<float>());
      std::copy(values.begin(), values.end(), piece.begin());
    }
  }
  return absl::OkStatus();
}

}  // namespace zeroth
