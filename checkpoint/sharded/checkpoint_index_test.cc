// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/checkpoint/sharded/checkpoint_index.h"

#include <functional>
#include <random>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/checksum.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

// The part that `rank` of two writes of a [3, 2] parameter with one moment, and of an empty one.
CheckpointIndex Shard(int rank) {
  CheckpointIndex index;
  index.id = "0123456789abcdef";
  index.step = 7;
  index.block_bytes = 8;
  index.training = {{"lr", 0.1}, {"name", "a\xff"}, {"big", ~uint64_t{0}}};
  index.files.push_back({absl::StrCat("rank-", rank), 1000, 96, 5});
  CheckpointParameter& weight = index.parameters["w"];
  weight.shape = Shape({3, 2});
  const int64_t begin = rank == 0 ? 0 : 4;
  const int64_t end = rank == 0 ? 4 : 6;
  weight.states["param"] = {SafetensorsDType::kF32, 1, {{0, 96, begin, end, {1, ~uint64_t{0}}}}};
  if (rank == 1) weight.states["param"].pieces[0].checksums.pop_back();
  weight.states["m"] = {SafetensorsDType::kBF16, 1, {{0, 200, begin, end, {3}}}};
  if (rank == 0) index.parameters["empty"] = {Shape({0, 5}), {{"param", {}}}};
  return index;
}

CheckpointIndex Whole() {
  CheckpointIndex index = Shard(1);
  EXPECT_TRUE(index.Merge(Shard(0)).ok());
  return index;
}

// `text` with `edit` made and a correct checksum, so that only the later checks find it.
std::string Edited(const std::string& text, const std::function<void(Json&)>& edit) {
  Json json = Json::parse(text);
  edit(json);
  json.erase("checksum");
  json["checksum"] = ChecksumText(ChecksumOf(json.dump()));
  return json.dump();
}

TEST(CheckpointIndexTest, ReadsBackWhatItWrote) {
  const CheckpointIndex index = Whole();
  const std::string text = index.ToText();
  const auto read = CheckpointIndex::Parse(text, "index.json");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->ToText(), text);
  EXPECT_EQ(read->step, 7);
  EXPECT_EQ(read->training["lr"], 0.1);
  const CheckpointTensor& tensor = read->parameters.at("w").states.at("param");
  ASSERT_EQ(tensor.pieces.size(), 2u);
  EXPECT_EQ(tensor.pieces[0].end, 4);
  EXPECT_EQ(tensor.pieces[0].checksums, (std::vector<uint64_t>{1, ~uint64_t{0}}));
  EXPECT_EQ(read->files[static_cast<size_t>(tensor.pieces[0].file)].name, "rank-0");
  EXPECT_EQ(tensor.pieces[1].begin, 4);
  EXPECT_TRUE(read->CheckComplete().ok());
}

TEST(CheckpointIndexTest, GapsAndOverlapsAreNamed) {
  EXPECT_THAT(std::string(Shard(1).CheckComplete().message()),
              HasSubstr("the elements [0, 4) are in no piece"));
  EXPECT_THAT(std::string(Shard(0).CheckComplete().message()),
              HasSubstr("\"m\" of shape [3, 2]: the elements [4, 6) are in no piece"));
  CheckpointIndex twice = Whole();
  ASSERT_TRUE(twice.Merge(Shard(1)).ok());
  EXPECT_THAT(std::string(twice.CheckComplete().message()),
              HasSubstr("the elements [4, 6) are in two pieces"));
  CheckpointIndex bare = Whole();
  bare.parameters["w"].states.erase("param");
  EXPECT_THAT(std::string(bare.CheckComplete().message()), HasSubstr("no state \"param\""));
}

TEST(CheckpointIndexTest, ShardsThatContradictEachOtherAreRefused) {
  CheckpointIndex other_run = Shard(1);
  other_run.id = "another";
  CheckpointIndex other_shape = Shard(1);
  other_shape.parameters["w"].shape = Shape({2, 3});
  CheckpointIndex other_type = Shard(1);
  other_type.parameters["w"].states["m"].dtype = SafetensorsDType::kF16;
  for (const auto& [shard, words] :
       {std::pair(other_run, "save another"),
        std::pair(other_shape, "has shape [2, 3] in one shard"),
        std::pair(other_type, "is F16 in blocks of 1 in one shard and BF16")}) {
    CheckpointIndex index = Shard(0);
    EXPECT_THAT(std::string(index.Merge(shard).message()), HasSubstr(words));
  }
}

TEST(CheckpointIndexTest, EveryEditIsSeen) {
  const std::string text = Whole().ToText();
  Json json = Json::parse(text);
  json["step"] = 8;
  EXPECT_THAT(std::string(CheckpointIndex::Parse(json.dump(), "i").status().message()),
              HasSubstr("damaged or was edited"));
  // Layout is not content.
  EXPECT_TRUE(CheckpointIndex::Parse(Json::parse(text).dump(7), "i").ok());
}

TEST(CheckpointIndexTest, WrongContentIsRefusedByKey) {
  const std::string text = Whole().ToText();
  const auto param = [](Json& json) -> Json& { return json["parameters"]["w"]["states"]["param"]; };
  const std::vector<std::pair<std::function<void(Json&)>, std::string>> edits = {
      {[](Json& json) { json.erase("id"); }, "no \"id\""},
      {[](Json& json) { json["step"] = -1; }, "\"step\": -1, expected an integer from 0"},
      {[](Json& json) { json["step"] = ~uint64_t{0}; }, "\"step\": 18446744073709551615"},
      {[](Json& json) { json["step"] = 1.5; }, "\"step\": 1.5"},
      {[](Json& json) { json["block_bytes"] = 0; }, "\"block_bytes\": 0"},
      {[](Json& json) { json["training"] = 3; }, "\"training\": 3, expected an object"},
      {[](Json& json) { json["files"][0]["name"] = "../x"; }, "the name of a file in"},
      {[](Json& json) { json["files"][0]["name"] = json["files"][1]["name"]; }, "each file once"},
      {[](Json& json) { json["files"][0]["header_bytes"] = 1001; }, "from 0 to 1000"},
      {[](Json& json) {
         json["parameters"]["w"]["shape"] = {int64_t{1} << 40, int64_t{1} << 40};
       },
       "overflows"},
      {[](Json& json) { json["parameters"]["w"]["shape"] = std::vector<int>(9, 1); },
       "9 dimensions"},
      {[](Json& json) { json["parameters"]["w"] = Json::array(); }, "expected an object"},
      {[&](Json& json) { param(json)["dtype"] = "F33"; }, "unknown dtype"},
      {[&](Json& json) { param(json)["dtype"] = "F4"; }, "a type of whole bytes"},
      {[&](Json& json) { param(json)["pieces"][0]["file"] = 2; }, "from 0 to 1"},
      {[&](Json& json) {
         param(json)["pieces"][0]["elements"] = {0, 7};
       },
       "from 0 to 6"},
      {[&](Json& json) {
         param(json)["pieces"][0]["elements"] = {3, 2};
       },
       "from 3 to 6"},
      {[&](Json& json) {
         param(json)["pieces"][0]["elements"] = {0, 3};
       },
       "3 elements of 4"},
      {[&](Json& json) { param(json)["pieces"][0]["elements"] = {0}; }, "[begin, end]"},
      {[&](Json& json) {
         param(json)["pieces"][0]["bytes"] = {990, 1006};
       },
       "from 990 to 1000"},
      {[](Json& json) { json["files"][0]["header_bytes"] = 900; }, "at least, which the file's"},
      {[&](Json& json) { param(json)["pieces"][0]["checksums"] = "00"; }, "16 for each of 2"},
      {[&](Json& json) { param(json)["pieces"][0]["checksums"] = std::string(32, 'x'); },
       "is not a checksum"},
  };
  for (const auto& [edit, words] : edits) {
    const auto parsed = CheckpointIndex::Parse(Edited(text, edit), "dir/index.json");
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << words;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(words));
  }
}

TEST(CheckpointIndexTest, AnotherFormatIsNotDamage) {
  const std::string text = Whole().ToText();
  const std::vector<std::pair<std::function<void(Json&)>, std::string>> edits = {
      {[](Json& json) { json["format"] = "x"; }, "\"format\": \"x\", expected \"zeroth"},
      {[](Json& json) { json["version"] = 2; }, "use a newer one"}};
  for (const auto& [edit, words] : edits) {
    const auto parsed = CheckpointIndex::Parse(Edited(text, edit), "dir/index.json");
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kUnimplemented) << words;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(words));
  }
  // A later version may compute its checksum otherwise; of this one, it proves the damage.
  Json json = Json::parse(text);
  json["version"] = 2;
  EXPECT_EQ(CheckpointIndex::Parse(json.dump(), "i").status().code(),
            absl::StatusCode::kUnimplemented);
  json = Json::parse(text);
  json["format"] = "x";
  EXPECT_EQ(CheckpointIndex::Parse(json.dump(), "i").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CheckpointIndexTest, DamagedTextNeverReadsAsAnotherIndex) {
  const std::string text = Whole().ToText();
  std::mt19937 random(17);
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    if (round % 3 == 0) {
      damaged.resize(random() % text.size());
    } else {
      for (int i = 0; i <= round % 2; ++i) {
        char& c = damaged[random() % damaged.size()];
        c = static_cast<char>(c ^ (1 << (random() % 8)));
      }
    }
    const auto parsed = CheckpointIndex::Parse(damaged, "i");
    // Another kind of space instead of a space has the same meaning.
    if (!parsed.ok()) continue;
    ++read;
    EXPECT_EQ(parsed->ToText(), text);
  }
  EXPECT_LT(read, 1000);
}

}  // namespace
}  // namespace zeroth
