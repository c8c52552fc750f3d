// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// LoRA adapters as the library PEFT stores them, without the base model: adapter_config.json and
// adapter_model.safetensors (HfDirectoryKind::kAdapter).

#ifndef ZEROTH_CHECKPOINT_PEFT_ADAPTER_H_
#define ZEROTH_CHECKPOINT_PEFT_ADAPTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/weights_source.h"

namespace zeroth {

struct PeftAdapter {
  int64_t rank = 0;
  double alpha = 0;
  double dropout = 0;  // of training; inference ignores it
  // True if the adapted weights are [in, out], as GPT-2's; all of them or none.
  bool fan_in_fan_out = false;
  // Path or name of the base model; empty: unknown.
  std::string base_model;
  // The adapted layers by their names in the model: "transformer.h.0.attn.c_attn".
  std::vector<std::string> layers;
};

// Makes adapter_config.json. InvalidArgument for an adapter without layers or rank.
absl::StatusOr<HfConfig> PeftAdapterConfig(const PeftAdapter& adapter);

// The inverse, without the layers, which the tensors' names tell exactly. InvalidArgument for a key
// that is missing or of a wrong type. Unimplemented names a variant of LoRA that computes something
// else: another scale, ranks by layer, biases, whole layers.
absl::StatusOr<PeftAdapter> ParsePeftAdapter(const HfConfig& config);

// The parts of the layers' names after the block's number, each once: "attn.c_attn".
std::vector<std::string> PeftTargets(const PeftAdapter& adapter);

// What follows a layer's name in those of its two halves, here and in the trainer's checkpoints.
inline constexpr absl::string_view kLoraA = ".lora_A";
inline constexpr absl::string_view kLoraB = ".lora_B";

// The names of a layer's two halves in adapter_model.safetensors. Whatever the layout of the
// weight, A is [rank, in] and B is [out, rank]. The adapter adds alpha / rank * B A, or its
// transpose.
std::string PeftNameOfA(absl::string_view layer);
std::string PeftNameOfB(absl::string_view layer);

// True for a directory of an adapter: it has adapter_config.json, but no config.json.
bool IsPeftDirectory(const std::string& path);

// A directory of an adapter that PEFT or the trainer has written, opened for reading. Immutable and
// thread-safe; movable.
class PeftDirectory {
 public:
  // NotFound if one of the two files is missing. InvalidArgument if a tensor is no half of an
  // adapter, lacks its other half, or has another rank. Errors of ParsePeftAdapter.
  static absl::StatusOr<PeftDirectory> Open(const std::string& path);

  const std::string& path() const { return path_; }
  const PeftAdapter& adapter() const { return adapter_; }
  // Tensors by PeftNameOfA and PeftNameOfB of each of adapter().layers.
  const std::shared_ptr<const WeightsSource>& weights() const { return weights_; }

 private:
  PeftDirectory(std::string path, PeftAdapter adapter, std::shared_ptr<const WeightsSource> weights)
      : path_(std::move(path)), adapter_(std::move(adapter)), weights_(std::move(weights)) {}

  std::string path_;
  PeftAdapter adapter_;
  std::shared_ptr<const WeightsSource> weights_;
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_PEFT_ADAPTER_H_
