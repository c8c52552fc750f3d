// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/inspect/inspected.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "zeroth/checkpoint/safetensors.h"
#include "zeroth/checkpoint/sharded/checkpoint_directory.h"
#include "zeroth/checkpoint/sharded/checkpoint_index.h"
#include "zeroth/checkpoint/sharded/checkpoint_reader.h"
#include "zeroth/core/base/status_macros.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

// A parameter's states stand beside each other: "weight" and "weight (m)".
class InspectedCheckpoint final : public Inspected {
 public:
  explicit InspectedCheckpoint(std::unique_ptr<CheckpointReader> reader)
      : reader_(std::move(reader)) {
    const CheckpointIndex& index = reader_->index();
    for (const auto& [name, parameter] : index.parameters) {
      AddState(name, parameter, kParameterState);
      for (const auto& [state, tensor] : parameter.states) {
        if (state != kParameterState) AddState(name, parameter, state);
      }
    }
    int64_t bytes = 0;
    for (const CheckpointFile& file : index.files) bytes += file.bytes;
    notes_.push_back(absl::StrCat("checkpoint of step ", index.step, ", save ", index.id, ": ",
                                  index.files.size(), " files, ", bytes, " bytes"));
    notes_.push_back(absl::StrCat(
        "training ",
        index.training.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
  }

  absl::Status Read(size_t index, int64_t begin, int64_t count,
                    std::vector<uint8_t>& out) override {
    out.resize(static_cast<size_t>(count * (BitsOf(tensors_[index].dtype) / 8)));
    return reader_->ReadBytes(places_[index].first, places_[index].second, begin,
                              absl::MakeSpan(out));
  }

  absl::StatusOr<std::vector<absl::Status>> Verify() override { return reader_->Verify(); }

 private:
  void AddState(const std::string& name, const CheckpointParameter& parameter,
                const std::string& state) {
    const CheckpointTensor& stored = parameter.states.at(state);
    InspectedTensor tensor;
    tensor.name = state == kParameterState ? name : absl::StrCat(name, " (", state, ")");
    tensor.dtype = stored.dtype;
    tensor.numel = parameter.NumelOf(stored);
    const absl::Span<const int64_t> dims = parameter.shape.dims();
    tensor.shape = stored.block == 1 ? std::vector<int64_t>(dims.begin(), dims.end())
                                     : std::vector<int64_t>{tensor.numel};
    if (stored.pieces.size() == 1) {
      tensor.where = reader_->index().files[static_cast<size_t>(stored.pieces[0].file)].name;
    } else {
      tensor.where = absl::StrCat(stored.pieces.size(), " pieces");
    }
    tensors_.push_back(std::move(tensor));
    places_.emplace_back(name, state);
  }

  std::unique_ptr<CheckpointReader> reader_;
  std::vector<std::pair<std::string, std::string>> places_;  // parameter and state of each tensor
};

class InspectedSafetensors final : public Inspected {
 public:
  explicit InspectedSafetensors(std::vector<std::unique_ptr<SafetensorsFile>> files)
      : files_(std::move(files)) {
    for (size_t i = 0; i < files_.size(); ++i) {
      const std::string& path = files_[i]->description();
      notes_.push_back(absl::StrCat(path, ": ", files_[i]->tensors().size(), " tensors"));
      for (const auto& [key, value] : files_[i]->metadata()) {
        notes_.push_back(absl::StrCat("metadata ", key, " = ", value));
      }
      for (const auto& [name, entry] : files_[i]->tensors()) {
        const absl::Span<const int64_t> dims = entry.shape.dims();
        tensors_.push_back({name, entry.dtype, std::vector<int64_t>(dims.begin(), dims.end()),
                            entry.shape.numel(), fs::path(path).filename().string()});
        places_.push_back(i);
      }
    }
  }

  absl::Status Read(size_t index, int64_t begin, int64_t count,
                    std::vector<uint8_t>& out) override {
    const InspectedTensor& tensor = tensors_[index];
    const int64_t bits = BitsOf(tensor.dtype);
    if (bits % 8 != 0) {
      return absl::UnimplementedError(absl::StrCat(tensor.name, ": elements of ", bits,
                                                   " bits, of which several share a byte"));
    }
    ZEROTH_ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes,
                            files_[places_[index]]->RawBytes(tensor.name));
    const auto first = bytes.begin() + begin * (bits / 8);
    out.assign(first, first + count * (bits / 8));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<absl::Status>> Verify() override {
    return absl::UnimplementedError(
        "safetensors files have no checksums; their headers and sizes are consistent");
  }

 private:
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::vector<size_t> places_;  // the file of each tensor
};

absl::StatusOr<std::vector<std::string>> SafetensorsPaths(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return std::vector<std::string>{path};
  std::vector<std::string> paths;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".safetensors") paths.push_back(it->path().string());
  }
  std::sort(paths.begin(), paths.end());
  if (!paths.empty()) return paths;
  const absl::StatusOr<std::vector<int64_t>> steps = ListCheckpoints(path);
  const std::string hint =
      steps.ok() && !steps->empty()
          ? absl::StrCat("; it holds checkpoints: inspect ", CheckpointPath(path, steps->back()))
          : "";
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": neither a checkpoint (index.json) nor any .safetensors file in it", hint));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Inspected>> Inspected::Open(const std::string& path) {
  std::error_code error;
  if (!fs::exists(path, error)) return absl::NotFoundError(absl::StrCat(path, ": not there"));
  if (fs::exists(fs::path(path) / kCheckpointIndexName, error)) {
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointReader> reader, CheckpointReader::Open(path));
    return std::make_unique<InspectedCheckpoint>(std::move(reader));
  }
  ZEROTH_ASSIGN_OR_RETURN(const std::vector<std::string> paths, SafetensorsPaths(path));
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  for (const std::string& file : paths) {
    ZEROTH_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> opened, SafetensorsFile::Open(file));
    files.push_back(std::move(opened));
  }
  return std::make_unique<InspectedSafetensors>(std::move(files));
}

}  // namespace zeroth
