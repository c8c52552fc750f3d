// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/checkpoint_model.h"

#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

constexpr char kConfig[] = "config.json";
constexpr char kAdapterConfig[] = "adapter_config.json";

class CheckpointWeights final : public WeightsSource {
 public:
  explicit CheckpointWeights(std::unique_ptr<CheckpointReader> reader)
      : WeightsSource(reader->directory()), reader_(std::move(reader)) {
    for (const auto& [name, parameter] : reader_->index().parameters) {
      tensors_.emplace(name, SafetensorsEntry{.dtype = parameter.states.at(kParameterState).dtype,
                                              .shape = parameter.shape});
    }
  }

  absl::Status ReadElements(absl::string_view name, int64_t begin,
                            absl::Span<float> out) const override {
    if (Find(name) == nullptr) return MissingTensor(name);
    const std::lock_guard<std::mutex> lock(mutex_);
    return reader_->Read(name, kParameterState, begin, out);
  }

 private:
  mutable std::mutex mutex_;
  const std::unique_ptr<CheckpointReader> reader_;  // guarded
};

absl::StatusOr<std::optional<PeftAdapter>> ReadAdapter(CheckpointReader& reader) {
  const absl::StatusOr<std::string> text = reader.ReadCarriedFile(kAdapterConfig);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  ZEROTH_RETURN_IF_ERROR(text.status());
  ZEROTH_ASSIGN_OR_RETURN(
      const HfConfig config,
      HfConfig::Parse(*text, absl::StrCat(reader.directory(), "/", kAdapterConfig)));
  ZEROTH_ASSIGN_OR_RETURN(PeftAdapter adapter, ParsePeftAdapter(config));
  for (const auto& [name, parameter] : reader.index().parameters) {
    absl::string_view layer = name;
    if (absl::ConsumeSuffix(&layer, kLoraA)) {
      adapter.layers.emplace_back(layer);
    } else if (!absl::EndsWith(name, kLoraB) && adapter.Saves(name)) {
      adapter.saved.push_back(name);
    }
  }
  return adapter;
}

}  // namespace

bool IsCheckpoint(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(absl::StrCat(path, "/", kCheckpointIndexName), error);
}

absl::StatusOr<CheckpointModel> OpenCheckpointModel(const std::string& path) {
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader, CheckpointReader::Open(path));
  const absl::StatusOr<std::string> text = reader->ReadCarriedFile(kConfig);
  if (absl::IsNotFound(text.status())) {
    return FailedPrecondition(
        path,
        ": carries no config.json, which older versions did not write; resume from it with the "
        "trainer (--resume=",
        path, "), which writes one that does");
  }
  ZEROTH_RETURN_IF_ERROR(text.status());
  ZEROTH_RETURN_IF_ERROR(reader->CheckCarriedFiles());
  ZEROTH_ASSIGN_OR_RETURN(HfConfig config,
                          HfConfig::Parse(*text, absl::StrCat(path, "/", kConfig)));
  ZEROTH_ASSIGN_OR_RETURN(std::optional<PeftAdapter> adapter, ReadAdapter(*reader));
  return CheckpointModel{HfDirectory(path, std::move(config),
                                     std::make_shared<const CheckpointWeights>(std::move(reader))),
                         std::move(adapter)};
}

}  // namespace zeroth
