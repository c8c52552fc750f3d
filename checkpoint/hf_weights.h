// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#ifndef ZEROTH_CHECKPOINT_HF_WEIGHTS_H_
#define ZEROTH_CHECKPOINT_HF_WEIGHTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/safetensors.h"
#include "zeroth/checkpoint/weights_source.h"

namespace zeroth {

// The weights of a Hugging Face directory, in one file or many, behind one interface. Immutable and
// thread-safe.
class HfWeights final : public WeightsSource {
 public:
  // Opens `directory`/model.safetensors, or every file of model.safetensors.index.json where there
  // is no single file. NotFound if there is neither (it says which weight files are there instead,
  // such as pytorch_model.bin). InvalidArgument if a file is bad, or if the index and the files
  // disagree: a file that is missing or outside the directory, a tensor that its file lacks, a
  // tensor that the index does not list.
  static absl::StatusOr<std::unique_ptr<HfWeights>> Open(const std::string& directory);

  std::vector<std::string> names() const override;
  const SafetensorsEntry* Find(absl::string_view name) const override;
  absl::Status ReadElements(absl::string_view name, int64_t begin,
                            absl::Span<float> out) const override;
  const std::string& description() const override { return directory_; }

 private:
  explicit HfWeights(std::string directory) : directory_(std::move(directory)) {}
  absl::Status AddFile(const std::string& file_name);
  absl::Status OpenSharded(const std::string& index_path);

  std::string directory_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, const SafetensorsFile*, std::less<>> file_of_;
};

}  // namespace zeroth

#endif  // ZEROTH_CHECKPOINT_HF_WEIGHTS_H_
