// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/formats/hugging_face.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

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
  for (const char* wrong : {"1", "[]", R"([{"name": "tool_use", "template": "b"}, 1])"}) {
    EXPECT_THAT(std::string(config(wrong).status().message()),
                testing::HasSubstr("tokenizer_config.json: key \"chat_template\" is "));
  }
  dir.Write("chat_template.jinja", "d\n");
  EXPECT_EQ(ReadHfChatTemplate(dir.path())->jinja, "d\n");
}

}  // namespace
}  // namespace zeroth
