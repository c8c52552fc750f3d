// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/core/base/file/json.h"

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ParseJsonTest, AgreesWithTheLibraryOnGoodText) {
  for (const char* text :
       {"null", "true", "-3", "18446744073709551615", "1.5e3", "\"a\\u00e9\\n\"", "[]", "{}",
        "[[],[1,[2,{}]],3]", R"({"a":{"b":[1,2,{"c":null}],"d":{}},"e":[{"f":1},{"f":2}],"":0})"}) {
    const auto parsed = ParseJson(text, "here");
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, nlohmann::json::parse(text)) << text;
  }
}

TEST(ParseJsonTest, SyntaxErrorsNamePlaceAndLine) {
  for (const char* text : {"", "{", "[1,]", "{\"a\" 1}", "nul", "1 2", "\"\xff\"", "{}x"}) {
    const auto parsed = ParseJson(text, "dir/config.json");
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(parsed.status().message()), StartsWith("dir/config.json: bad JSON"))
        << text;
  }
  EXPECT_THAT(std::string(ParseJson("{\n\"a\": 1,\n\"b\": }", "x").status().message()),
              HasSubstr("line 3"));
}

TEST(ParseJsonTest, ErrorsQuoteLittleOfTheInput) {
  const auto error = [](const std::string& text) {
    return std::string(ParseJson(text, "x").status().message());
  };
  EXPECT_EQ(error("{\n\"a\": 1,\n\"b\": }"),
            "x: bad JSON (line 3, column 6): unexpected '}'; expected '[', '{', or a literal, near "
            "\"\\\"b\\\": }\"");
  const std::string body(300'000, 'a');
  // Without an end; with a lone surrogate; a number; a literal; a key twice; too deep.
  for (const std::string& text :
       {"{\"text\": \"" + body, "{\"text\": \"" + body + "\\ud800 x\"}",
        "[1" + std::string(300'000, '0') + "e999999999]", "[\"" + body + "\", nul" + body + "]",
        "{\"" + body + "\": 1, \"" + body + "\": 2}",
        "[\"" + body + "\", " + std::string(100, '[')}) {
    const std::string message = error(text);
    EXPECT_THAT(message, StartsWith("x: bad JSON (column "));
    EXPECT_LT(message.size(), 500u) << message.substr(0, 1000);
  }
  EXPECT_THAT(error("{\"" + body + "\": 1, \"" + body + "\": 2}"), HasSubstr("column 600010)"));
}

TEST(StartOfJsonTest, TellsJsonFromText) {
  for (const char* text :
       {"{\"a\": [1, {\"b\": \"x\"}]}", "[]", "\xef\xbb\xbf{}", " \n{\"a\":1}"}) {
    const absl::string_view whole = text;
    const JsonStart start = StartOfJson(absl::StrCat(whole, "\nprose"));
    EXPECT_TRUE(start.is_json && start.is_whole) << text;
    EXPECT_EQ(start.bytes, whole.size()) << text;
    // Every prefix of the value that is cut after its bracket begins a value.
    for (size_t size = whole.find_first_of("{[") + 1; size < whole.size(); ++size) {
      const JsonStart cut = StartOfJson(whole.substr(0, size));
      EXPECT_TRUE(cut.is_json && !cut.is_whole) << whole.substr(0, size);
    }
  }
  EXPECT_FALSE(StartOfJson("{\"text\": \"caf\xc3").is_whole);
  EXPECT_TRUE(StartOfJson("{\"text\": \"caf\xc3").is_json);
  for (const char* text :
       {"[link](there)", "{\\bf TeX}", "{\n  int x;\n}", "{% if a %}", "{{ a }}", "{a: 1}",
        "[[Category]]", "{\"a\" b}", "{'a': 1}", "word", "[section]\nkey=1"}) {
    EXPECT_FALSE(StartOfJson(text).is_json) << text;
  }
}

TEST(ParseJsonTest, RefusesRepeatedKeys) {
  EXPECT_TRUE(ParseJson(R"([{"a":1},{"a":2}])", "x").ok());
  const auto parsed = ParseJson(R"({"b":{"a":1,"a":2}})", "x");
  EXPECT_THAT(std::string(parsed.status().message()), HasSubstr("\"a\" appears twice"));
}

TEST(ParseJsonTest, BoundsDepthAndLength) {
  const auto nested = [](int depth) { return std::string(static_cast<size_t>(depth), '['); };
  EXPECT_TRUE(ParseJson(nested(32) + std::string(32, ']'), "x").ok());
  EXPECT_THAT(std::string(ParseJson(nested(33) + std::string(33, ']'), "x").status().message()),
              HasSubstr("deeper than 32"));
  // Without the limit this text would take a gigabyte of open arrays before its error.
  EXPECT_THAT(std::string(ParseJson(nested(10'000'000), "x").status().message()),
              HasSubstr("deeper than 32"));
  EXPECT_THAT(
      std::string(ParseJson("[1, 2, 3]", "x", {.max_depth = 4, .max_bytes = 8}).status().message()),
      HasSubstr("9 bytes of JSON, expected at most 8"));
}

TEST(ReadJsonFileTest, ReadsAndNamesTheFile) {
  const TemporaryDirectory dir;
  const auto parsed = ReadJsonFile(dir.Write("a.json", "{\"n\": 7}"));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ((*parsed)["n"], 7);
  EXPECT_EQ(ReadJsonFile(dir.File("absent")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadJsonFile(dir.Write("b.json", "{")).status().message()),
              StartsWith(dir.File("b.json")));
  EXPECT_THAT(
      std::string(ReadJsonFile(dir.Write("c.json", "[1, 2]"), {.max_depth = 4, .max_bytes = 5})
                      .status()
                      .message()),
      HasSubstr("c.json: 6 bytes, expected at most 5"));
}

}  // namespace
}  // namespace zeroth
