// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/formats/hugging_face.h"

#include <filesystem>
#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

TEST(HuggingFaceTest, ReadsTheTemplateOfConversations) {
  const TemporaryDirectory dir;
  EXPECT_EQ(ReadHfChatTemplate(dir.path())->jinja, "");
  const auto config = [&](const std::string& chat_template) {
    dir.Write("tokenizer_config.json", "{\"chat_template\": " + chat_template + "}");
    return ReadHfChatTemplate(dir.path());
  };
  EXPECT_EQ(config("null")->jinja, "");
  EXPECT_EQ(config("\"a\"")->jinja, "a");
  EXPECT_EQ(config(R"([{"name": "tool_use", "template": "b"},
                       {"name": "default", "template": "c"}])")
                ->jinja,
            "c");
  EXPECT_EQ(config(R"([{"name": "tool_use", "template": "b"},
                       {"name": "default", "template": "c"}])")
                ->tool_use,
            "b");
  for (const char* wrong : {"1", "[]", R"([{"name": "tool_use", "template": "b"}, 1])"}) {
    EXPECT_THAT(std::string(config(wrong).status().message()),
                testing::HasSubstr("tokenizer_config.json: key \"chat_template\" is "));
  }
  dir.Write("chat_template.jinja", "d\n");
  EXPECT_EQ(ReadHfChatTemplate(dir.path())->jinja, "d\n");
  EXPECT_EQ(ReadHfChatTemplate(dir.path())->tool_use, "");
}

TEST(HuggingFaceTest, ReadsAndFoldsTheTemplateForTools) {
  const TemporaryDirectory dir;
  std::map<std::string, std::string> files = {{"chat_template.jinja", "d"}, {"vocab.json", "{}"}};
  const std::map<std::string, std::string> before = files;
  EXPECT_EQ(FoldToolUseTemplate(dir.path(), files), absl::OkStatus());
  EXPECT_EQ(files, before);
  dir.Write("additional_chat_templates/tool_use.jinja", "t");
  EXPECT_EQ(ReadHfChatTemplate(dir.path()).status().message(),
            dir.File("additional_chat_templates/tool_use.jinja") + ": is there without " +
                dir.File("chat_template.jinja") +
                ", the template of conversations without tools; expected both, or neither");
  // Who uses no template need not care.
  EXPECT_EQ(FoldToolUseTemplate(dir.path(), files), absl::OkStatus());
  EXPECT_EQ(files, before);
  // Such files come before a list in the configuration.
  const std::string config =
      R"({"z": 1, "model_max_length": 1000000000000000019884624838656, "chat_template": [{"name": "default", "template": "x"}], "a": 2})";
  dir.Write("tokenizer_config.json", config);
  dir.Write("chat_template.jinja", "d");
  files["tokenizer_config.json"] = config;
  EXPECT_EQ(ReadHfChatTemplate(dir.path())->jinja, "d");
  EXPECT_EQ(ReadHfChatTemplate(dir.path())->tool_use, "t");
  EXPECT_EQ(FoldToolUseTemplate(dir.path(), files), absl::OkStatus());
  EXPECT_EQ(files.count("chat_template.jinja"), 0u);
  EXPECT_EQ(nlohmann::ordered_json::parse(files["tokenizer_config.json"]).dump(),
            R"({"z":1,"chat_template":[{"name":"default","template":"d"},)"
            R"({"name":"tool_use","template":"t"}],"a":2})");
  const TemporaryDirectory exported;
  for (const auto& [name, content] : files) exported.Write(name, content);
  EXPECT_EQ(ReadHfChatTemplate(exported.path())->jinja, "d");
  EXPECT_EQ(ReadHfChatTemplate(exported.path())->tool_use, "t");
}

TEST(HuggingFaceTest, AnEmptyDirectoryIsTheCurrentOne) {
  const TemporaryDirectory dir;
  dir.Write("chat_template.jinja", "d");
  dir.Write("additional_chat_templates/tool_use.jinja", "t");
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  const auto chat = ReadHfChatTemplate("");
  std::map<std::string, std::string> files = {{"chat_template.jinja", "d"}};
  const absl::Status folded = FoldToolUseTemplate("", files);
  std::filesystem::current_path(before);
  ASSERT_TRUE(chat.ok()) << chat.status();
  EXPECT_EQ(chat->jinja, "d");
  EXPECT_EQ(chat->tool_use, "t");
  EXPECT_EQ(folded, absl::OkStatus());
  EXPECT_EQ(files.count("chat_template.jinja"), 0u);
}

}  // namespace
}  // namespace zeroth
