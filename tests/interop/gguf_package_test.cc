// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The public Python package "gguf" reads what we write and writes what we read, value for value.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/checkpoint/gguf/gguf_config.h"
#include "zeroth/checkpoint/gguf/gguf_convert.h"
#include "zeroth/checkpoint/gguf/gguf_format.h"
#include "zeroth/checkpoint/hf_config.h"
#include "zeroth/checkpoint/hf_directory.h"
#include "zeroth/checkpoint/hf_directory_writer.h"
#include "zeroth/core/base/file/temporary_directory.h"
#include "zeroth/tests/interop/python.h"
#include "zeroth/tests/interop/tensor_listing.h"

namespace zeroth {
namespace {

constexpr char kScript[] = "gguf_listing.py";
constexpr char kEmptyArray[] = "9:";

// The bytes of one value inside a file.
template <typename T>
std::string ItemBytes(const T& item) {
  if constexpr (std::is_same_v<T, std::string>) {
    return ItemBytes(static_cast<uint64_t>(item.size())) + item;
  } else if constexpr (std::is_same_v<T, GgufArray>) {
    ADD_FAILURE() << "the package does not read arrays of arrays";
    return "";
  } else {
    return std::string(reinterpret_cast<const char*>(&item), sizeof(item));
  }
}

// See gguf_listing.py.
std::string ListedValue(const GgufValue& value) {
  if (!std::holds_alternative<GgufArray>(value)) {
    return absl::StrCat(value.index(), ":",
                        std::visit([](const auto& item) { return ItemBytes(item); }, value));
  }
  const auto& items = std::get<GgufArray>(value).items;
  // The package does not report the element type of an empty array.
  if (std::visit([](const auto& list) { return list.empty(); }, items)) return kEmptyArray;
  std::string text = absl::StrCat(value.index(), ",", items.index(), ":");
  std::visit(
      [&](const auto& list) {
        for (const auto& item : list) text += ItemBytes(item);
      },
      items);
  return text;
}

void ListMetadata(const GgufMetadata& metadata, TensorListing* listing) {
  for (const auto& [key, value] : metadata.values()) listing->pairs[key] = ListedValue(value);
}

TensorListing ListingOf(const GgufFile& file) {
  TensorListing listing;
  for (const std::string& name : file.names()) {
    const SafetensorsEntry& entry = *file.Find(name);
    const auto bytes = file.RawBytes(name);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    listing.tensors[name] = {std::string(SafetensorsDTypeName(entry.dtype)),
                             {entry.shape.dims().begin(), entry.shape.dims().end()},
                             {bytes->begin(), bytes->end()}};
  }
  ListMetadata(file.metadata(), &listing);
  return listing;
}

// Every type of value, an array of each, and a vocabulary.
GgufMetadata RandomMetadata(std::mt19937& random) {
  GgufMetadata metadata;
  metadata.SetString("general.architecture", "gpt2");
  metadata.Set("u8", static_cast<uint8_t>(random()));
  metadata.Set("i8", static_cast<int8_t>(random()));
  metadata.Set("u16", static_cast<uint16_t>(random()));
  metadata.Set("i16", static_cast<int16_t>(random()));
  metadata.Set("u32", static_cast<uint32_t>(random()));
  metadata.Set("i32", static_cast<int32_t>(random()));
  metadata.Set("u64", uint64_t{random()} << 32 | random());
  metadata.Set("i64", -static_cast<int64_t>(random()));
  metadata.Set("f32", static_cast<float>(random()) / 7);
  metadata.Set("f64", static_cast<double>(random()) / 7);
  metadata.Set("bool", random() % 2 == 0);
  metadata.Set("string", std::string("gr\xc3\xbc\xc3\x9f\n\"\\"));
  metadata.Set("string.empty", std::string());
  metadata.Set("array.u8", GgufArray{std::vector<uint8_t>{1, 2, 255}});
  metadata.Set("array.i64", GgufArray{std::vector<int64_t>{-1, int64_t{1} << 62}});
  metadata.Set("array.f64", GgufArray{std::vector<double>(1 + random() % 5, 0.1)});
  metadata.Set("array.bool", GgufArray{std::vector<bool>{true, false, true}});
  metadata.Set("array.string", GgufArray{std::vector<std::string>{"", "\xf0\x9f\x98\x80", "a b"}});
  EXPECT_TRUE(SetVocabulary(ByteVocabulary(), 260, &metadata).ok());
  return metadata;
}

// One to four odd dimensions, any bits.
std::map<std::string, ListedTensor> RandomTensors(std::mt19937& random) {
  std::map<std::string, ListedTensor> tensors;
  const char* const dtypes[] = {"F32", "F16", "BF16"};
  for (int i = 0; i < 9; ++i) {
    ListedTensor& tensor = tensors[absl::StrCat("blk.", i, ".weight")];
    tensor.dtype = dtypes[i % 3];
    tensor.dims.resize(1 + random() % 4);
    size_t bytes = i % 3 == 0 ? 4 : 2;
    for (int64_t& dim : tensor.dims) {
      dim = static_cast<int64_t>(1 + random() % 9);
      bytes *= static_cast<size_t>(dim);
    }
    tensor.bytes.resize(bytes);
    for (char& byte : tensor.bytes) byte = static_cast<char>(random());
  }
  return tensors;
}

DType DTypeOf(const ListedTensor& tensor) {
  return tensor.dtype == "F32"   ? DType::kFloat32
         : tensor.dtype == "F16" ? DType::kFloat16
                                 : DType::kBFloat16;
}

class GgufPackageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!PythonHas("gguf")) GTEST_SKIP() << HowToGetPythonPackages();
  }

  std::string Read(const std::string& path) {
    const PythonOutcome outcome = RunPython(kScript, {"read", path});
    EXPECT_TRUE(outcome.ok()) << outcome.errors;
    return outcome.output;
  }

  // Has the package write `listing`, whose empty arrays, which it refuses to write, are left out.
  std::string Write(TensorListing* listing) {
    for (auto pair = listing->pairs.begin(); pair != listing->pairs.end();) {
      pair = pair->second == kEmptyArray ? listing->pairs.erase(pair) : std::next(pair);
    }
    const std::string path = dir_.File("theirs.gguf");
    const PythonOutcome outcome =
        RunPython(kScript, {"write", dir_.Write("listing", listing->ToText()), path});
    EXPECT_TRUE(outcome.ok()) << outcome.errors;
    return path;
  }

  TemporaryDirectory dir_;
};

TEST_F(GgufPackageTest, ThePackageReadsOurFiles) {
  for (uint32_t seed = 0; seed < 4; ++seed) {
    std::mt19937 random(seed);
    GgufMetadata metadata = RandomMetadata(random);
    if (seed % 2 == 1) metadata.SetUint32(kGgufAlignmentKey, 256);
    TensorListing listing;
    listing.tensors = RandomTensors(random);
    ListMetadata(metadata, &listing);
    std::vector<TensorDeclaration> declarations;
    for (const auto& [name, tensor] : listing.tensors) {
      declarations.push_back({name, DTypeOf(tensor), Shape(tensor.dims)});
    }
    const std::string path = dir_.File("ours.gguf");
    auto writer = GgufWriter::Create(path, metadata, declarations);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const auto& [name, tensor] : listing.tensors) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(tensor.bytes.data());
      ASSERT_TRUE((*writer)->WriteBytes(name, 0, {bytes, tensor.bytes.size()}).ok());
    }
    ASSERT_TRUE((*writer)->Finish().ok());
    EXPECT_EQ(Read(path), listing.ToText()) << "seed " << seed;
  }
}

TEST_F(GgufPackageTest, WeReadThePackagesFiles) {
  for (uint32_t seed = 10; seed < 14; ++seed) {
    std::mt19937 random(seed);
    TensorListing listing;
    listing.tensors = RandomTensors(random);
    ListMetadata(RandomMetadata(random), &listing);
    const auto file = GgufFile::Open(Write(&listing));
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(ListingOf(**file).ToText(), listing.ToText()) << "seed " << seed;
  }
}

// Models in every type that we export, both ways through the package.
TEST_F(GgufPackageTest, ModelsPassThroughThePackage) {
  for (const std::string name : {"gpt2_tiny", "llama_tiny", "mistral_tiny", "qwen3_moe_tiny"}) {
    const auto model = HfDirectory::Open(absl::StrCat("tests/testdata/", name));
    ASSERT_TRUE(model.ok()) << model.status();
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
      GgufExportOptions options;
      options.dtype = dtype;
      // The package cannot write bytes' empty list of merges, without which we read no vocabulary.
      options.vocabulary =
          dtype == DType::kFloat32 ? GgufVocabularySource::kNone : GgufVocabularySource::kByte;
      const std::string path = dir_.File("ours.gguf");
      ASSERT_TRUE(ConvertHfToGguf(*model, path, options).ok());
      const auto ours = GgufFile::Open(path);
      ASSERT_TRUE(ours.ok()) << ours.status();
      TensorListing listing = ListingOf(**ours);
      EXPECT_EQ(Read(path), listing.ToText()) << name << " " << DTypeName(dtype);
      if (dtype != DType::kFloat32) continue;
      const auto theirs = GgufFile::Open(Write(&listing));
      ASSERT_TRUE(theirs.ok()) << theirs.status();
      const auto imported = ConvertGgufToHf(**theirs, dir_.File(name));
      ASSERT_TRUE(imported.ok()) << imported.status();
      const auto back = HfDirectory::Open(dir_.File(name));
      ASSERT_TRUE(back.ok()) << back.status();
      ASSERT_EQ(back->weights().names(), model->weights().names());
      for (const std::string& tensor : model->weights().names()) {
        const Shape& shape = model->weights().Find(tensor)->shape;
        EXPECT_EQ(*back->weights().ReadAll(tensor, shape), *model->weights().ReadAll(tensor, shape))
            << tensor;
      }
    }
  }
}

// A model of normally distributed weights. Rows of matrices have `width` elements, those of
// ffn_down 3 * width / 2.
void WriteRandomModel(const std::string& path, bool is_gpt2, int64_t width) {
  const int64_t inner = 3 * width / 2;
  nlohmann::json config = {{"vocab_size", 260}};
  std::vector<TensorDeclaration> tensors;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& dims) {
    tensors.push_back({name + ".weight", DType::kFloat32, Shape(dims)});
  };
  if (is_gpt2) {
    config.update({{"model_type", "gpt2"},
                   {"n_embd", width},
                   {"n_layer", 2},
                   {"n_head", 2},
                   {"n_positions", 64},
                   {"n_inner", inner}});
    add("transformer.wte", {260, width});
    add("transformer.wpe", {64, width});
    add("transformer.ln_f", {width});
  } else {
    config.update({{"model_type", "llama"},
                   {"hidden_size", width},
                   {"num_hidden_layers", 8},
                   {"intermediate_size", inner},
                   {"num_attention_heads", 4},
                   {"num_key_value_heads", 2},
                   {"max_position_embeddings", 64},
                   {"tie_word_embeddings", false}});
    add("model.embed_tokens", {260, width});
    add("model.norm", {width});
    add("lm_head", {260, width});
  }
  for (int64_t block = 0; block < (is_gpt2 ? 2 : 8); ++block) {
    const std::string layer =
        absl::StrCat(is_gpt2 ? "transformer.h." : "model.layers.", block, ".");
    if (is_gpt2) {
      add(layer + "ln_1", {width});
      add(layer + "ln_2", {width});
      add(layer + "attn.c_attn", {width, 3 * width});
      add(layer + "attn.c_proj", {width, width});
      add(layer + "mlp.c_fc", {width, inner});
      add(layer + "mlp.c_proj", {inner, width});
      continue;
    }
    add(layer + "input_layernorm", {width});
    add(layer + "post_attention_layernorm", {width});
    add(layer + "self_attn.q_proj", {width, width});
    add(layer + "self_attn.k_proj", {width / 2, width});
    add(layer + "self_attn.v_proj", {width / 2, width});
    add(layer + "self_attn.o_proj", {width, width});
    add(layer + "mlp.gate_proj", {inner, width});
    add(layer + "mlp.up_proj", {inner, width});
    add(layer + "mlp.down_proj", {width, inner});
  }
  const auto writer =
      HfDirectoryWriter::Create(path, *HfConfig::Parse(config.dump(), "config.json"), tensors);
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::mt19937 random(17);
  std::normal_distribution<float> normal(0.0f, 0.02f);
  for (const TensorDeclaration& tensor : tensors) {
    std::vector<float> values(static_cast<size_t>(tensor.shape.numel()));
    for (float& value : values) value = normal(random);
    ASSERT_TRUE((*writer)->Write(tensor.name, 0, values).ok());
  }
  ASSERT_TRUE((*writer)->Finish().ok());
}

// Rows of 512 and 768, of 256 and 384, and of 96 and 144 use all types and their fallbacks.
TEST_F(GgufPackageTest, QuantisedModelsAreThoseOfThePackage) {
  for (const auto& [is_gpt2, width] :
       {std::pair(false, 512), std::pair(true, 256), std::pair(true, 96), std::pair(false, 96)}) {
    const std::string path = dir_.File(absl::StrCat("model_", is_gpt2, "_", width));
    WriteRandomModel(path, is_gpt2, width);
    const auto model = HfDirectory::Open(path);
    ASSERT_TRUE(model.ok()) << model.status();
    GgufExportOptions options;
    options.vocabulary = GgufVocabularySource::kByte;
    ASSERT_TRUE(ConvertHfToGguf(*model, dir_.File("plain.gguf"), options).ok());
    for (const GgufMix mix : {GgufMix::kQ8_0, GgufMix::kQ4_K_M}) {
      options.mix = mix;
      const absl::Status converted = ConvertHfToGguf(*model, dir_.File("mix.gguf"), options);
      ASSERT_TRUE(converted.ok()) << converted;
      std::vector<std::string> flags = {dir_.File("plain.gguf"), dir_.File("mix.gguf")};
      const PythonOutcome package = RunPython("check_gguf_blocks.py", flags);
      EXPECT_TRUE(package.ok()) << package.output << package.errors;
      // ggml's own functions, where there is a build of them.
      flags.push_back("llama_cpp");
      const PythonOutcome ggml = RunPython("check_gguf_blocks.py", flags);
      EXPECT_TRUE(ggml.ok() || ggml.exit_code == 77) << ggml.output << ggml.errors;
    }
  }
}

TEST_F(GgufPackageTest, QuantisedTensorsOfThePackageAreRefusedByName) {
  TensorListing listing;
  listing.tensors["blk.0.weight"] = {"Q8_0", {3, 64}, std::string(3 * 2 * 34, '\1')};
  GgufMetadata metadata;
  metadata.SetString("general.architecture", "gpt2");
  ListMetadata(metadata, &listing);
  const auto file = GgufFile::Open(Write(&listing));
  EXPECT_EQ(file.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(absl::StrContains(file.status().message(), "Q8_0")) << file.status();
  EXPECT_TRUE(absl::StrContains(file.status().message(), "blk.0.weight")) << file.status();
}

}  // namespace
}  // namespace zeroth
