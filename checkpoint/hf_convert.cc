// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/hf_convert.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/status_macros.h"

namespace zeroth {

absl::StatusOr<HfConfig> WithDType(const HfConfig& config, DType dtype) {
  nlohmann::json json = config.json();
  json[config.Has("dtype") && !config.Has("torch_dtype") ? "dtype" : "torch_dtype"] =
      TorchDTypeName(dtype);
  return HfConfig::Parse(json.dump(), config.where());
}

absl::Status WriteHfDirectory(const WeightsSource& source, HfConfig config,
                              std::vector<TensorCopy> copies,
                              const std::map<std::string, std::string>& tokenizer_files,
                              const std::string& directory, const HfConvertOptions& options) {
  for (TensorCopy& copy : copies) {
    ZEROTH_ASSIGN_OR_RETURN(copy.dtype, KeepingDType(source, copy.from));
    copy.dtype = options.dtype.value_or(copy.dtype);
  }
  ZEROTH_ASSIGN_OR_RETURN(std::vector<TensorDeclaration> tensors, DeclareCopies(source, copies));
  if (options.dtype) {
    ZEROTH_ASSIGN_OR_RETURN(config, WithDType(config, *options.dtype));
  }
  ZEROTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<HfDirectoryWriter> writer,
      HfDirectoryWriter::Create(directory, config, std::move(tensors), options.directory));
  for (const auto& [name, content] : tokenizer_files) {
    ZEROTH_RETURN_IF_ERROR(writer->WriteTokenizerFile(name, content));
  }
  ZEROTH_RETURN_IF_ERROR(CopyTensors(
      source, copies, [&](absl::string_view name, int64_t begin, absl::Span<const float> values) {
        return writer->Write(name, begin, values);
      }));
  return writer->Finish();
}

absl::Status ConvertHfToHf(const HfDirectory& model, const std::string& directory,
                           const HfConvertOptions& options) {
  std::vector<TensorCopy> copies;
  for (const std::string& name : model.weights().names()) {
    TensorCopy& copy = copies.emplace_back();
    copy.from = name;
    copy.to = name;
  }
  ZEROTH_ASSIGN_OR_RETURN(const auto tokenizer_files, model.ReadTokenizerFiles());
  return WriteHfDirectory(model.weights(), model.config(), std::move(copies), tokenizer_files,
                          directory, options);
}

}  // namespace zeroth
