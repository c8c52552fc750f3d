// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/train/export.h"

#include <memory>
#include <utility>

#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/train/adapter_merger.h"

namespace zeroth {
namespace {

absl::StatusOr<std::unique_ptr<HfDirectoryWriter>> StartWriting(
    const LanguageModel& model, const std::string& directory,
    const std::vector<std::string>& tokenizer_files) {
  ZEROTH_ASSIGN_OR_RETURN(const HfConfig config,
                          HfConfig::Parse(model.HfConfig().dump(), "the model"));
  std::vector<TensorDeclaration> tensors;
  for (const Parameter* parameter : AdapterMerger::MergedParameters(model)) {
    TensorDeclaration tensor;
    tensor.name = parameter->name();
    tensor.shape = parameter->shape();
    tensors.push_back(std::move(tensor));
  }
  ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<HfDirectoryWriter> writer,
                          HfDirectoryWriter::Create(directory, config, std::move(tensors)));
  for (const std::string& file : tokenizer_files)
    ZEROTH_RETURN_IF_ERROR(writer->CopyTokenizerFile(file));
  return writer;
}

}  // namespace

absl::Status CheckExport(const LanguageModel& model, const std::string& directory,
                         const std::vector<std::string>& tokenizer_files) {
  return StartWriting(model, directory, tokenizer_files).status();
}

absl::Status ExportModel(Trainer& trainer, const std::string& directory,
                         const std::vector<std::string>& tokenizer_files) {
  std::unique_ptr<HfDirectoryWriter> writer;
  if (trainer.world().rank() == 0) {
    ZEROTH_ASSIGN_OR_RETURN(writer, StartWriting(trainer.model(), directory, tokenizer_files));
  }
  AdapterMerger merger(trainer.model(), trainer.device(), trainer.kernels());
  const auto write = [&](const Parameter& parameter, absl::Span<const float> values) {
    return writer->Write(parameter.name(), 0, values);
  };
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().VisitFull(
      [&](const Parameter& parameter, int64_t, absl::Span<const float> values) {
        return writer == nullptr ? absl::OkStatus() : merger.Add(parameter, values, write);
      }));
  ZEROTH_RETURN_IF_ERROR(trainer.sharding().scheduler().EndStep());
  if (writer != nullptr) ZEROTH_RETURN_IF_ERROR(writer->Finish());
  // Nobody reports success before the files are there.
  if (trainer.world().size() == 1) return absl::OkStatus();
  Stream& stream = trainer.device().compute_stream();
  ZEROTH_RETURN_IF_ERROR(trainer.world().Barrier(stream, "export"));
  return stream.Synchronize();
}

}  // namespace zeroth
