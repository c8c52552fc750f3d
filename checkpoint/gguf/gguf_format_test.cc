// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/gguf/gguf_format.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;

// Bytes assembled by hand, so that the parser is tested against the format and not our writer.
class Bytes {
 public:
  Bytes(uint64_t tensors, uint64_t pairs, uint32_t version = 3) {
    text_ = "GGUF";
    Put(version).Put(tensors).Put(pairs);
  }

  template <typename T>
  Bytes& Put(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  Bytes& Text(const std::string& text) {
    Put<uint64_t>(text.size());
    text_ += text;
    return *this;
  }
  template <typename T>
  Bytes& Pair(const std::string& key, uint32_t type, T value) {
    return Text(key).Put(type).Put(value);
  }
  Bytes& Tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                uint64_t offset) {
    Text(name).Put(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) Put(dim);
    return Put(type).Put(offset);
  }
  Bytes& Align(size_t alignment) {
    text_.resize((text_.size() + alignment - 1) / alignment * alignment, '\0');
    return *this;
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::StatusOr<GgufHeader> Parse(const std::string& text, GgufTypes types = GgufTypes::kPlain) {
  return ParseGgufHeader(
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()), text.size(),
      "m.gguf", types);
}

void ExpectRefused(const std::string& text, const std::string& message,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const auto header = Parse(text);
  EXPECT_EQ(header.status().code(), code) << message;
  EXPECT_THAT(std::string(header.status().message()), HasSubstr(message));
  EXPECT_THAT(std::string(header.status().message()), HasSubstr("m.gguf: "));
}

TEST(GgufFormatTest, ReadsAFileWrittenByHand) {
  Bytes bytes(2, 3);
  bytes.Pair<uint32_t>("a.u32", 4, 70000).Text("a.name").Put<uint32_t>(8).Text("tiny");
  bytes.Text("a.list").Put<uint32_t>(9).Put<uint32_t>(5).Put<uint64_t>(2).Put<int32_t>(-1);
  bytes.Put<int32_t>(7);
  bytes.Tensor("w", {3, 2}, 0, 0).Tensor("h", {5}, 1, 32).Align(32);
  const size_t data = bytes.text().size();
  for (int i = 0; i < 6; ++i) bytes.Put(static_cast<float>(i) / 2);
  bytes.Align(32);
  for (int i = 0; i < 5; ++i) bytes.Put<uint16_t>(0x3c00);
  const TemporaryDirectory dir;
  const auto file = GgufFile::Open(dir.Write("f.gguf", bytes.text()));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(*(*file)->metadata().GetInt("a.u32"), 70000);
  EXPECT_EQ(*(*file)->metadata().GetString("a.name"), "tiny");
  EXPECT_EQ(*(*file)->metadata().GetInts("a.list"), (std::vector<int64_t>{-1, 7}));
  EXPECT_EQ((*file)->names(), (std::vector<std::string>{"h", "w"}));
  EXPECT_EQ((*file)->Find("w")->shape, (Shape{2, 3}));
  const auto bytes_of_h = (*file)->RawBytes("h");
  ASSERT_TRUE(bytes_of_h.ok());
  EXPECT_EQ(bytes_of_h->size(), 10u);
  std::vector<float> w(4);
  ASSERT_TRUE((*file)->ReadElements("w", 2, absl::MakeSpan(w)).ok());
  EXPECT_EQ(w, (std::vector<float>{1.0f, 1.5f, 2.0f, 2.5f}));
  std::vector<float> h(5);
  ASSERT_TRUE((*file)->ReadElements("h", 0, absl::MakeSpan(h)).ok());
  EXPECT_EQ(h, std::vector<float>(5, 1.0f));
  EXPECT_EQ((*file)->ReadElements("h", 1, absl::MakeSpan(h)).code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ((*file)->ReadElements("x", 0, absl::MakeSpan(h)).code(), absl::StatusCode::kNotFound);
  // No prefix of a good file is good, since the last tensor ends with the file.
  for (size_t size = 0; size < bytes.text().size(); ++size) {
    EXPECT_FALSE(Parse(bytes.text().substr(0, size)).ok()) << size << " of data from " << data;
  }
}

TEST(GgufFormatTest, ReadsALongHeader) {
  // Longer than what is read of a file at first, so that more is read.
  Bytes bytes(1, 2);
  bytes.Text("a.vocabulary").Put<uint32_t>(9).Put<uint32_t>(8).Put<uint64_t>(50000);
  for (int i = 0; i < 50000; ++i) bytes.Text(absl::StrCat("token ", i));
  bytes.Text("a.text").Put<uint32_t>(8).Text(std::string(3'000'000, 'x'));
  bytes.Tensor("w", {2}, 0, 0).Align(32);
  bytes.Put(1.5f).Put(2.5f);
  const TemporaryDirectory dir;
  const std::string path = dir.Write("f.gguf", bytes.text());
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*(*file)->metadata().GetStrings("a.vocabulary"))->back(), "token 49999");
  EXPECT_EQ((*file)->metadata().GetString("a.text")->size(), 3'000'000u);
  EXPECT_EQ(*(*file)->ReadAll("w", Shape{2}), (std::vector<float>{1.5f, 2.5f}));
  // A file that ends within the header is refused, however much of it was read.
  for (const size_t size : {size_t{100}, size_t{262'144}, size_t{262'145}, size_t{2'000'000}}) {
    const auto cut = GgufFile::Open(dir.Write("cut.gguf", bytes.text().substr(0, size)));
    EXPECT_EQ(cut.status().code(), absl::StatusCode::kInvalidArgument) << size << cut.status();
    EXPECT_THAT(std::string(cut.status().message()), HasSubstr("truncated?")) << size;
  }
  // Cut short while it is read.
  std::filesystem::resize_file(path, bytes.text().size() - 4);
  EXPECT_EQ((*file)->ReadAll("w", Shape{2}).status().code(), absl::StatusCode::kDataLoss);
}

TEST(GgufFormatTest, SaysWhatKindOfFileItIsNot) {
  ExpectRefused("", "not a GGUF file");
  ExpectRefused("GGML....", "not a GGUF file");
  ExpectRefused(Bytes(0, 0, 1).text(), "GGUF version 1", absl::StatusCode::kUnimplemented);
  ExpectRefused(Bytes(0, 0, 4).text(), "GGUF version 4", absl::StatusCode::kUnimplemented);
  ExpectRefused(Bytes(0, 0, 0x03000000).text(), "big-endian", absl::StatusCode::kUnimplemented);
  EXPECT_TRUE(Parse(Bytes(0, 0, 2).text()).ok());
}

TEST(GgufFormatTest, HoldsCountsAndLengthsAgainstTheFileBeforeAllocating) {
  constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();
  ExpectRefused(Bytes(kHuge, 0).text(), "tensors, more than its 0 bytes");
  ExpectRefused(Bytes(0, kHuge).text(), "key-value pairs, more than its 0 bytes");
  const std::string padding(64, ' ');
  ExpectRefused(Bytes(0, 1).Put(kHuge).text() + padding, "a key of 18446744073709551615 bytes");
  ExpectRefused(Bytes(0, 1).Text("k").Put<uint32_t>(8).Put(kHuge).text() + padding,
                "needs 18446744073709551615 bytes");
  for (uint32_t type = 0; type < 13; ++type) {
    const Bytes array = Bytes(0, 1).Text("k").Put<uint32_t>(9).Put(type).Put(kHuge);
    ExpectRefused(array.text() + padding, "an array of 18446744073709551615 elements");
  }
  Bytes nested(0, 1);
  nested.Text("k").Put<uint32_t>(9);
  for (int i = 0; i < 100'000; ++i) nested.Put<uint32_t>(9).Put<uint64_t>(1);
  ExpectRefused(nested.text(), "nested deeper than");
}

// A damaged length is an error before the rest of a large file is read in search of the header's
// end.
TEST(GgufFormatTest, HoldsLengthsAgainstTheLimitOfAHeaderBeforeReadingOn) {
  constexpr size_t kFileBytes = size_t{40} << 30;
  constexpr uint64_t kDamaged = uint64_t{1} << 30;
  const auto parse = [](const Bytes& head, const std::string& message, absl::StatusCode code) {
    const std::string& text = head.text();
    const auto header = ParseGgufHeader(
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(text.data()), text.size()), kFileBytes,
        "m.gguf", GgufTypes::kPlain);
    EXPECT_EQ(header.status().code(), code) << message;
    EXPECT_THAT(std::string(header.status().message()), HasSubstr(message));
  };
  const auto refused = absl::StatusCode::kInvalidArgument;
  parse(Bytes(0, 1).Put(kDamaged), "a key of 1073741824 bytes", refused);
  parse(Bytes(1, 0).Put(kDamaged), "a tensor name of 1073741824 bytes", refused);
  parse(Bytes(0, 1).Text("k").Put<uint32_t>(8).Put(kDamaged), "expected a header of at most",
        refused);
  for (const uint32_t type : {0u, 6u, 8u}) {
    parse(Bytes(0, 1).Text("k").Put<uint32_t>(9).Put(type).Put(kDamaged),
          "expected a header of at most", refused);
  }
  const std::string half_read = "longer than what was read";
  parse(Bytes(0, 1).Put<uint64_t>(9), half_read, absl::StatusCode::kOutOfRange);
  parse(Bytes(0, 1).Text("k").Put<uint32_t>(9).Put<uint32_t>(8).Put<uint64_t>(300'000), half_read,
        absl::StatusCode::kOutOfRange);
}

TEST(GgufFormatTest, RefusesBadPairs) {
  ExpectRefused(Bytes(0, 1).Pair<uint8_t>("", 0, 1).text() + " ", "a key of 0 bytes");
  ExpectRefused(Bytes(0, 1).Pair<uint8_t>("k", 13, 1).text(), "key \"k\": value type 13");
  ExpectRefused(Bytes(0, 1).Pair<uint8_t>("k", 7, 2).text(), "is 2, expected 0 or 1");
  ExpectRefused(Bytes(0, 2).Pair<uint8_t>("k", 0, 1).Pair<uint8_t>("k", 0, 1).text(),
                "key \"k\" appears twice");
  ExpectRefused(Bytes(0, 1).Pair<uint32_t>(kGgufAlignmentKey, 4, 0).text(), "a power of two");
  ExpectRefused(Bytes(0, 1).Pair<uint32_t>(kGgufAlignmentKey, 4, 24).text(), "a power of two");
  ExpectRefused(Bytes(0, 1).Pair<uint64_t>(kGgufAlignmentKey, 10, 32).text(), "a power of two");
}

TEST(GgufFormatTest, RefusesBadTensors) {
  const auto one = [](const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
    return Bytes(1, 0).Tensor("w", dims, type, offset).Align(32).text() + std::string(64, '\0');
  };
  EXPECT_TRUE(Parse(one({16}, 0, 0)).ok());
  EXPECT_TRUE(Parse(one({}, 0, 32)).ok()) << "a scalar";
  EXPECT_TRUE(Parse(one({0, 7}, 0, 64)).ok()) << "an empty tensor";
  ExpectRefused(one({17}, 0, 0), "is it truncated?");
  ExpectRefused(one({16}, 0, 32), "is it truncated?");
  ExpectRefused(one({1}, 0, 16), "expected a multiple of 32");
  ExpectRefused(one({1, 1, 1, 1, 1}, 0, 0), "5 dimensions");
  ExpectRefused(one({uint64_t{1} << 63}, 0, 0), "does not fit 63 bits");
  ExpectRefused(one({uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0), "tensor \"w\"");
  ExpectRefused(one({1}, 0, std::numeric_limits<uint64_t>::max() - 31), "does not fit 63 bits");
  ExpectRefused(one({32}, 12, 0), "quantised as Q4_K", absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(Parse(one({32}, 12, 0), GgufTypes::kUnpackable).status().message()),
              HasSubstr("expected rows of whole blocks of 256"));
  EXPECT_THAT(std::string(Parse(one({64}, 8, 0), GgufTypes::kUnpackable).status().message()),
              HasSubstr("is it truncated?"));
  EXPECT_TRUE(Parse(one({32}, 8, 0), GgufTypes::kUnpackable).ok());
  EXPECT_TRUE(Parse(one({32}, 6, 0), GgufTypes::kUnpackable).ok()) << "Q5_0";
  EXPECT_EQ(Parse(one({32}, 20, 0), GgufTypes::kUnpackable).status().code(),
            absl::StatusCode::kUnimplemented)
      << "IQ4_NL";
  // The sizes are those of gguf.GGML_QUANT_SIZES of the package gguf 0.19.
  for (const auto& [type, elements, bytes] :
       {std::tuple(2u, 32u, 18u), std::tuple(15u, 256u, 292u), std::tuple(16u, 256u, 66u),
        std::tuple(17u, 256u, 74u), std::tuple(18u, 256u, 98u), std::tuple(19u, 256u, 50u),
        std::tuple(20u, 32u, 18u), std::tuple(21u, 256u, 110u), std::tuple(22u, 256u, 82u),
        std::tuple(23u, 256u, 136u), std::tuple(29u, 256u, 56u), std::tuple(34u, 256u, 54u),
        std::tuple(35u, 256u, 66u), std::tuple(39u, 32u, 17u), std::tuple(40u, 64u, 36u),
        std::tuple(41u, 128u, 18u)}) {
    const std::string declared = Bytes(1, 0).Tensor("w", {elements, 3}, type, 0).Align(32).text();
    const auto listed = Parse(declared + std::string(3 * bytes, 'x'), GgufTypes::kAll);
    ASSERT_TRUE(listed.ok()) << type << listed.status();
    EXPECT_EQ(listed->quantized.at("w"), QuantizedTypeName(type));
    EXPECT_THAT(
        std::string(
            Parse(declared + std::string(3 * bytes - 1, 'x'), GgufTypes::kAll).status().message()),
        HasSubstr("is it truncated?"))
        << type;
  }
  EXPECT_THAT(std::string(Parse(one({16}, 20, 0), GgufTypes::kAll).status().message()),
              HasSubstr("[16] in IQ4_NL, expected rows of whole blocks of 32"));
  ExpectRefused(one({32}, 4, 0), "unknown type 4");
  ExpectRefused(one({32}, 999, 0), "unknown type 999");
  const auto two = [](const std::string& name, uint64_t offset) {
    return Bytes(2, 0).Tensor("a", {16}, 0, 0).Tensor(name, {4}, 0, offset).Align(32).text() +
           std::string(96, '\0');
  };
  EXPECT_TRUE(Parse(two("b", 64)).ok());
  ExpectRefused(two("b", 32), "tensors \"a\" and \"b\" overlap in the data bytes [32, 48)");
  ExpectRefused(two("a", 64), "tensor \"a\" appears twice");
}

GgufMetadata EveryType() {
  GgufMetadata metadata;
  metadata.Set("k.u8", uint8_t{200});
  metadata.Set("k.i8", int8_t{-100});
  metadata.Set("k.u16", uint16_t{60000});
  metadata.Set("k.i16", int16_t{-30000});
  metadata.SetUint32("k.u32", 4'000'000'000);
  metadata.Set("k.i32", int32_t{-2'000'000'000});
  metadata.SetFloat("k.f32", 0.1f);
  metadata.Set("k.bool", GgufValue(true));
  metadata.SetString("k.string", std::string("two\0parts", 9));
  metadata.Set("k.u64", std::numeric_limits<uint64_t>::max());
  metadata.Set("k.i64", std::numeric_limits<int64_t>::min());
  metadata.Set("k.f64", 0.1);
  metadata.Set("k.bools", GgufArray{std::vector<bool>{true, false, true}});
  metadata.Set("k.strings", GgufArray{std::vector<std::string>{"", "a", "\xc4\xa0"}});
  metadata.Set("k.floats", GgufArray{std::vector<float>{}});
  metadata.Set("k.nested", GgufArray{std::vector<GgufArray>{{std::vector<int16_t>{1, -2}},
                                                            {std::vector<std::string>{"x"}}}});
  return metadata;
}

TEST(GgufFormatTest, EveryTypeOfValueComesBack) {
  const GgufMetadata metadata = EveryType();
  const auto text = SerializeGgufHeader(metadata, {});
  ASSERT_TRUE(text.ok()) << text.status();
  const auto header = Parse(*text);
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->metadata.values(), metadata.values());
  EXPECT_EQ(header->data_begin, static_cast<int64_t>(text->size()));
}

TEST(GgufFormatTest, LookUpsSayWhatTheyFound) {
  const GgufMetadata metadata = EveryType();
  EXPECT_EQ(*metadata.GetInt("k.u8"), 200);
  EXPECT_EQ(*metadata.GetInt("k.i64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*metadata.GetDouble("k.f32"), static_cast<double>(0.1f));
  EXPECT_EQ(std::get<bool>(*metadata.Find("k.bool")), true);
  EXPECT_EQ(*metadata.GetIntOr("k.none", 5), 5);
  EXPECT_THAT(std::string(metadata.GetInt("k.none").status().message()),
              HasSubstr("no key \"k.none\""));
  EXPECT_THAT(std::string(metadata.GetInt("k.u64").status().message()), HasSubstr("63 bits"));
  EXPECT_THAT(std::string(metadata.GetIntOr("k.bool", 5).status().message()),
              HasSubstr("is of type bool"));
  EXPECT_THAT(std::string(metadata.GetDouble("k.u8").status().message()),
              HasSubstr("is of type u8, expected f32"));
  EXPECT_THAT(std::string(metadata.GetStrings("k.floats").status().message()),
              HasSubstr("is of type array of f32, expected array of string"));
  EXPECT_FALSE(metadata.GetInts("k.floats").ok());
}

TEST(GgufWriterTest, RandomTensorsComeBackFromPieces) {
  const TemporaryDirectory dir;
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    const std::string path = dir.File(absl::StrCat(round, ".gguf"));
    GgufMetadata metadata = EveryType();
    const uint32_t alignment = 1u << (random() % 8);
    if (round % 2 == 0) metadata.SetUint32(kGgufAlignmentKey, alignment);
    std::vector<TensorDeclaration> tensors;
    std::vector<std::vector<float>> values;
    for (int i = 0; i < 5; ++i) {
      TensorDeclaration tensor;
      tensor.name = absl::StrCat("t", 9 - i);
      std::vector<int64_t> dims;
      for (uint32_t d = random() % 5; d > 0; --d) dims.push_back(random() % 6);
      tensor.shape = Shape(dims);
      tensor.dtype = i % 3 == 0 ? DType::kFloat32 : i % 3 == 1 ? DType::kBFloat16 : DType::kFloat16;
      std::vector<float> content(static_cast<size_t>(tensor.shape.numel()));
      for (float& value : content) value = static_cast<float>(random() % 256) / 64 - 2;
      values.push_back(content);
      tensors.push_back(tensor);
    }
    auto writer = GgufWriter::Create(path, metadata, tensors);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (size_t i = tensors.size(); i-- > 0;) {
      const auto all = absl::MakeConstSpan(values[i]);
      const size_t middle = all.size() / 3;
      const auto tail = static_cast<int64_t>(middle);
      ASSERT_TRUE((*writer)->Write(tensors[i].name, tail, all.subspan(middle)).ok());
      ASSERT_TRUE((*writer)->Write(tensors[i].name, 0, all.subspan(0, middle)).ok());
    }
    const absl::Status finished = (*writer)->Finish();
    ASSERT_TRUE(finished.ok()) << finished;
    const auto file = GgufFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ((*file)->metadata().values(), metadata.values());
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto read = (*file)->ReadAll(tensors[i].name, tensors[i].shape);
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, values[i]);
    }
  }
}

TEST(GgufWriterTest, RefusesWhatReadersWould) {
  const TemporaryDirectory dir;
  const auto message = [&](const GgufMetadata& metadata, std::vector<TensorDeclaration> tensors) {
    const auto writer = GgufWriter::Create(dir.File("f.gguf"), metadata, std::move(tensors));
    return writer.ok() ? "accepted" : std::string(writer.status().message());
  };
  EXPECT_EQ(message({}, {{"w", DType::kFloat32, {1}}}), "accepted");
  EXPECT_THAT(message({}, {{"w", DType::kFloat32, {1}}, {"w", DType::kFloat32, {1}}}),
              HasSubstr("declared twice"));
  EXPECT_THAT(message({}, {{std::string(64, 'w'), DType::kFloat32, {1}}}),
              HasSubstr("a name of 64 bytes"));
  EXPECT_THAT(message({}, {{"", DType::kFloat32, {1}}}), HasSubstr("a name of 0 bytes"));
  EXPECT_THAT(message({}, {{"w", DType::kUInt8, {1}}}), HasSubstr("GGUF has no type U8"));
  EXPECT_THAT(message({}, {{"w", DType::kFloat32, {1, 1, 1, 1, 1}}}),
              HasSubstr("at most 4 dimensions"));
  GgufMetadata metadata;
  metadata.SetUint32(kGgufAlignmentKey, 3);
  EXPECT_THAT(message(metadata, {}), HasSubstr("a power of two"));
  GgufMetadata unnamed;
  unnamed.Set("", GgufValue(true));
  EXPECT_THAT(message(unnamed, {}), HasSubstr("a metadata key has 0 bytes"));
  EXPECT_TRUE(dir.List().empty()) << "writers that were not finished leave nothing";
}

TEST(GgufWriterTest, AFileWithAHoleNeverAppears) {
  const TemporaryDirectory dir;
  auto writer = GgufWriter::Create(dir.File("f.gguf"), {}, {{"w", DType::kFloat32, {4}}});
  ASSERT_TRUE(writer.ok()) << writer.status();
  const std::vector<float> three = {1, 2, 3};
  ASSERT_TRUE((*writer)->Write("w", 0, three).ok());
  EXPECT_EQ((*writer)->Write("w", 1, three).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ((*writer)->Finish().code(), absl::StatusCode::kFailedPrecondition);
  writer->reset();
  EXPECT_TRUE(dir.List().empty());
}

}  // namespace
}  // namespace zeroth
