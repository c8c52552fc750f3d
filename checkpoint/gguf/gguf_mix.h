// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Chooses the type of each tensor of a quantised GGUF file.

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/checkpoint/gguf/gguf_blocks.h"
#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/tensor_file_writer.h"

namespace zeroth {

// The mixtures of llama.cpp's quantising program, with its choice for each tensor:
//
// kQ8_0: all matrices.
// kQ4_K_M: Q4_K, except that these are Q6_K: the head (the embedding if it is the head), and
// attn_v and ffn_down in the first and last eighth of the blocks and every third between. A
// fused attn_qkv has attn_v's type, as in llama.cpp 0.7.0; older versions made it Q5_K. With eight
// experts, attn_k and attn_v are Q8_0 and attn_output is Q5_K. In a Llama or Qwen2 of 80 blocks
// with grouped queries, no attn_v is below Q5_K.
//
// A type whose block does not divide the rows is replaced: Q4_K by Q5_0, Q5_K by Q5_1, Q6_K by
// Q8_0, and those of 32 elements by F16.
enum class GgufMix { kQ8_0, kQ4_K_M };

struct GgufMixedTypes {
  GgufBlockTypes blocks;
  // Sentences for the user: the number of tensors of each type, and the replaced types.
  std::vector<std::string> notes;
};

// Chooses block types for those of a model's `tensors` that are declared as fp16. Tensors that are
// not in the result keep their declared type. `metadata` is the file's.
absl::StatusOr<GgufMixedTypes> ChooseGgufBlocks(GgufMix mix, const GgufMetadata& metadata,
                                                absl::Span<const TensorDeclaration> tensors);

// Quantises elements [begin, begin + values.size()) of tensor `name`, which are whole blocks, on
// all cores, and writes them. OutOfRange, naming the tensor, for a value that is not finite or
// above the 65504 that the blocks' half-precision scales allow; errors of TensorFileWriter.
absl::Status WriteQuantized(GgufBlock type, absl::string_view name, int64_t begin,
                            absl::Span<const float> values, TensorFileWriter* writer);

}  // namespace zeroth
