// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// LoRA adapters as the library PEFT stores them, without the base model: adapter_config.json and
// adapter_model.safetensors (HfDirectoryKind::kAdapter), and models that they are merged into.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/weights_source.h"
#include "zeroth/core/tensor/shape.h"

namespace zeroth {

struct PeftAdapter {
  int64_t rank = 0;
  double alpha = 0;
  bool rslora = false;  // rank-stabilized: the scale is alpha / sqrt(rank)
  bool dora = false;    // each layer has magnitudes beside A and B
  double dropout = 0;   // of training; inference ignores it
  // True if the adapted weights are [in, out], as GPT-2's; all of them or none.
  bool fan_in_fan_out = false;
  // Path or name of the base model; empty: unknown.
  std::string base_model;
  // The adapted layers by their names in the model: "transformer.h.0.attn.c_attn".
  std::vector<std::string> layers;
  // Suffixes of the names of modules that are stored in full beside the adapters: "lm_head".
  std::vector<std::string> modules_to_save;
  // The parameters of these modules by their names in the model: "lm_head.weight".
  std::vector<std::string> saved;
  // True if `saved` has an embedding that is also the model's head (tied), which changes with it.
  bool ties_weights = false;
  // True for a model whose head scores texts: PEFT's task is SEQ_CLS.
  bool scores = false;

  // True if the parameter is one of a module to save.
  bool Saves(absl::string_view parameter) const;
  // The input embedding among `saved`; empty: none is.
  std::string SavedEmbedding() const;
  // The factor of the delta B A: alpha / rank, or alpha / sqrt(rank) with rslora.
  double scale() const;
};

// Makes adapter_config.json. InvalidArgument for an adapter without layers or rank.
absl::StatusOr<HfConfig> PeftAdapterConfig(const PeftAdapter& adapter);

// The inverse, without `layers` and `saved`, which follow from the tensors' names. InvalidArgument
// for a key that is missing or of a wrong type. Unimplemented names a variant of LoRA that computes
// something else: ranks by layer, biases.
absl::StatusOr<PeftAdapter> ParsePeftAdapter(const HfConfig& config);

// Unimplemented for an adapter that saves the embedding of a model with a tied head, without
// ties_weights: the head would keep the base's values, and no longer be tied. `where` names the
// adapter in the message.
absl::Status CheckSavedEmbedding(const PeftAdapter& adapter, bool head_is_tied,
                                 absl::string_view where);

// The parts of the layers' names after the block's number, each once: "attn.c_attn".
std::vector<std::string> PeftTargets(const PeftAdapter& adapter);

// The suffixes after a layer's name for its LoRA matrices, here and in the trainer's checkpoints.
inline constexpr absl::string_view kLoraA = ".lora_A";
inline constexpr absl::string_view kLoraB = ".lora_B";
// The suffix for its magnitudes, [out], as in PEFT's files.
inline constexpr absl::string_view kLoraMagnitude = ".lora_magnitude_vector";

// The names of a layer's LoRA matrices in adapter_model.safetensors. For any layout of the weight,
// A is [rank, in] and B is [out, rank]. The adapter adds PeftAdapter::scale * B A, or its
// transpose.
std::string PeftNameOfA(absl::string_view layer);
std::string PeftNameOfB(absl::string_view layer);
// The name of the layer's magnitudes in that file, with PeftAdapter::dora.
std::string PeftNameOfMagnitude(absl::string_view layer);
// The name in that file of a parameter that is stored in full.
std::string PeftNameOfSaved(absl::string_view parameter);

// The transpose of a matrix.
std::vector<float> Transposed(const Shape& shape, absl::Span<const float> values);

// True for a directory of an adapter: it has adapter_config.json, but no config.json.
bool IsPeftDirectory(const std::string& path);

// A directory of an adapter that PEFT or the trainer has written, opened for reading. Immutable and
// thread-safe; movable.
class PeftDirectory {
 public:
  // NotFound if one of the two files is missing. InvalidArgument for an A without its B or the
  // reverse, for one of another rank than the configuration's, and for a tensor that belongs
  // neither to an adapter nor to a module in "modules_to_save". Errors of ParsePeftAdapter.
  static absl::StatusOr<PeftDirectory> Open(const std::string& path);

  const PeftAdapter& adapter() const { return adapter_; }
  // Tensors by PeftNameOfA and PeftNameOfB of each of adapter().layers, and by PeftNameOfSaved of
  // adapter().saved.
  const std::shared_ptr<const WeightsSource>& weights() const { return weights_; }

 private:
  PeftDirectory(PeftAdapter adapter, std::shared_ptr<const WeightsSource> weights)
      : adapter_(std::move(adapter)), weights_(std::move(weights)) {}

  PeftAdapter adapter_;
  std::shared_ptr<const WeightsSource> weights_;
};

// An adapter adds scale * left right to a weight [rows, columns], where left is [rows, rank] and
// right is [rank, columns]. Both may be stored transposed. With magnitudes, each row, or column, of
// the sum is then scaled such that its norm is its magnitude.
struct LoraDelta {
  std::string weight;
  std::string left;
  std::string right;
  bool transposed = false;           // left is stored as [rank, rows], right as [columns, rank]
  std::string magnitude = {};        // empty: none
  bool outputs_are_columns = false;  // magnitudes are of columns, not rows
};

// The LoRA matrices of one weight: left is [rows, rank], right is [rank, columns].
struct LoraMatrices {
  // Adds scale * left right to a part of a weight [rows, columns], from its element `begin` on, and
  // multiplies it by the factors. Sums over the rank are in float64, and rounded once together with
  // the weight.
  void AddTo(double scale, int64_t begin, absl::Span<float> part) const;
  // Sets `factors` to the magnitudes divided by the norms of the rows or columns of the weight that
  // AddTo makes without factors. `read` returns the weight from element `begin` on, a block at a
  // time.
  absl::Status SetFactors(
      double scale, absl::Span<const float> magnitudes, bool outputs_are_columns,
      const std::function<absl::Status(int64_t begin, absl::Span<float> values)>& read);

  std::vector<float> left;
  std::vector<float> right;
  int64_t rank = 0;
  int64_t columns = 0;
  std::vector<double> factors;  // of the outputs; empty: none
  bool outputs_are_columns = false;

 private:
  // Calls visit(i, output, value) for each element of `part`, with its sum in float64.
  template <typename F>
  void Visit(double scale, int64_t begin, absl::Span<const float> part, const F& visit) const;
};

// A model's weights with adapters added, computed as they are read. Holds the matrices of one
// adapter in memory. Thread-safe.
class MergedWeights final : public WeightsSource {
 public:
  // `adapters` has the LoRA matrices. It may be `base` itself; they are then not weights of the
  // merged model. `replaced` maps the names of weights to the tensors of `adapters` that replace
  // them. NotFound or InvalidArgument if a weight or a matrix is missing or shapes do not match.
  static absl::StatusOr<std::shared_ptr<const MergedWeights>> Create(
      std::shared_ptr<const WeightsSource> base, std::shared_ptr<const WeightsSource> adapters,
      const std::vector<LoraDelta>& deltas, double scale,
      std::map<std::string, std::string, std::less<>> replaced = {});

  absl::Status ReadElements(absl::string_view name, int64_t begin,
                            absl::Span<float> out) const override;

 private:
  MergedWeights(std::shared_ptr<const WeightsSource> base,
                std::shared_ptr<const WeightsSource> adapters, double scale)
      : WeightsSource(base->description(), base->tensors()),
        base_(std::move(base)),
        adapters_(std::move(adapters)),
        scale_(scale) {}
  absl::Status Check(const LoraDelta& delta) const;
  absl::StatusOr<std::shared_ptr<const LoraMatrices>> MatricesOf(const LoraDelta& delta) const;

  const std::shared_ptr<const WeightsSource> base_;
  const std::shared_ptr<const WeightsSource> adapters_;
  const double scale_;
  std::map<std::string, LoraDelta, std::less<>> deltas_;  // by weight
  std::map<std::string, std::string, std::less<>> replaced_;
  mutable std::mutex mutex_;
  // The LoRA matrices of the last weight that was read, guarded. A weight is read piece by piece.
  mutable std::string last_;
  mutable std::shared_ptr<const LoraMatrices> matrices_;
};

}  // namespace zeroth
