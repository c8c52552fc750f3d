// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Describes everything, besides the data, that determines the losses of a reference.

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/built_with.h"
#include "zeroth/options/option_registry.h"
#include "zeroth/train/gpu_libraries.h"
#include "zeroth/train/reference_losses.h"
#include "zeroth/train/resume.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

// Returns a checksum of blocks that are evenly spread over the file, of the first and the last one,
// too. They cover all of a file of up to 16 MiB. Hashing all weights would take longer than loading
// this rank's part of them.
absl::StatusOr<std::string> SampledChecksum(const std::string& path) {
  constexpr size_t kBlock = size_t{64} << 10;
  constexpr size_t kMostBlocks = 256;
  ZEROTH_ASSIGN_OR_RETURN(const RandomAccessFile file, RandomAccessFile::Open(path));
  std::vector<uint8_t> block(std::min(kBlock, file.size()));
  const size_t last = file.size() - block.size();
  const size_t count = std::clamp<size_t>((file.size() + kBlock - 1) / kBlock, 1, kMostBlocks);
  ChecksumStream checksum;
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = count == 1 ? 0 : last * i / (count - 1);
    ZEROTH_RETURN_IF_ERROR(file.Read(begin, absl::MakeSpan(block)));
    checksum.Add(block);
  }
  return ChecksumText(checksum.Value());
}

// Adds the files of a model or an adapter, "path size time checksum", to `files`.
absl::Status AddFiles(const std::string& model, nlohmann::json& files) {
  std::error_code error;
  std::vector<std::string> paths;
  if (fs::is_directory(model, error)) {
    for (fs::directory_iterator file(model, error), end; !error && file != end;
         file.increment(error)) {
      const std::string path = file->path().string();
      if (absl::EndsWith(path, ".json") || absl::EndsWith(path, ".safetensors")) {
        paths.push_back(path);
      }
    }
    std::sort(paths.begin(), paths.end());
  } else {
    paths.push_back(model);
  }
  if (error) return ErrnoStatus(error.value(), absl::StrCat("list ", model));
  for (const std::string& given : paths) {
    ZEROTH_ASSIGN_OR_RETURN(const std::string path, CanonicalPath(given));
    struct stat facts = {};
    if (stat(path.c_str(), &facts) != 0) return ErrnoStatus(errno, absl::StrCat("look at ", path));
    // A time tells of changes between the sampled blocks. It is not enough: packages and images of
    // containers give all files one time, and models of one architecture have one size.
    ZEROTH_ASSIGN_OR_RETURN(const std::string checksum, SampledChecksum(path));
    files.push_back(absl::StrCat(given, " is ", path, " ", facts.st_size, " ", facts.st_mtim.tv_sec,
                                 " ", facts.st_mtim.tv_nsec, " ", checksum));
  }
  return absl::OkStatus();
}

// Returns the options that may change a bit of a forward pass without gradients. The layout changes
// none, unless weights are quantized by shards.
nlohmann::json ForwardFlags(const TrainOptions& options) {
  nlohmann::json flags = ResultFlags(options);
  const bool is_other_model = !options.reference_path().empty();
  for (const Option& option : AllOptions()) {
    const std::string group = option.group;
    const std::string name = option.name;
    if (name == "batch_size" || name == "deterministic_batch") continue;
    if (group == "Data and model" || group == "Training" || group == "Preferences" ||
        group == "Distillation" || group == "Optimizer" || group == "Evaluation and samples" ||
        (group == "Adapters (LoRA)" && is_other_model)) {
      flags.erase(name);
    }
  }
  // The data have checksums, and the weights are identified by their files.
  for (const char* changes_nothing :
       {"lora_dropout", "lora_b_lr_scale", "gradient_divide_factor", "quantized_gradients",
        "reduce_dtype", "grad_accum_dtype", "keep_low_precision_grads", "optimizer_state_dtype",
        "loss_scale", "loss_scale_growth_interval"}) {
    flags.erase(changes_nothing);
  }
  // Tensor ranks add up their parts of activations, too.
  if (options.tensor_parallel == 1) flags.erase("reduction");
  if (options.quantized_weights) return flags;
  for (const char* of_layout :
       {"strategy", "world_size", "shard_size", "layout", "min_wrap_numel"}) {
    flags.erase(of_layout);
  }
  return flags;
}

}  // namespace

absl::StatusOr<std::string> ReferenceRecipe(const TrainOptions& options, const ModelSource& source,
                                            const std::string& attention,
                                            const std::string& hardware) {
  // The program itself rather than its commit, which says nothing of local changes.
  ZEROTH_ASSIGN_OR_RETURN(const std::string program, ReadFile("/proc/self/exe"));
  nlohmann::json recipe = {{"flags", ForwardFlags(options)},
                           {"config", source.config()},
                           {"program", ChecksumText(ChecksumOf(program))},
                           {"built_with", BuiltWith()},
                           {"gpu_libraries", GpuLibraries()},
                           {"attention", attention},
                           {"hardware", hardware}};
  nlohmann::json& files = recipe["files"] = nlohmann::json::array();
  const std::string other = options.reference_path();
  if (!other.empty()) {
    ZEROTH_RETURN_IF_ERROR(AddFiles(other, files));
  } else {
    // From scratch, the seed draws the weights. Those of new adapters change no output.
    if (options.init_from.empty()) recipe["seed"] = options.seed;
    for (const std::string& from : {options.init_from, options.init_adapter}) {
      if (!from.empty()) ZEROTH_RETURN_IF_ERROR(AddFiles(from, files));
    }
  }
  // Paths need not be UTF-8.
  return recipe.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace zeroth
