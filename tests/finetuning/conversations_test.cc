// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Trains on conversations: the same bits under every layout, a mean over the targets that count, a
// resumed run, and errors for unusable data.

#include "zeroth/data/chat/conversations.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "zeroth/data/chat/chat_template.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"
#include "zeroth/tests/cli/trainer_process.h"

namespace zeroth::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

nlohmann::json Message(const char* role, const std::string& content) {
  return {{"role", role}, {"content", content}};
}

// Sums in words; replies differ much in length, and so does what counts in a batch.
std::string Conversations(int first, int count) {
  const std::vector<std::string> words = {"zero", "one", "two",   "three", "four",
                                          "five", "six", "seven", "eight", "nine"};
  std::string lines;
  for (int i = first; i < first + count; ++i) {
    const int a = i % 5;
    const int b = (i / 5) % 5;
    std::string reply = words[static_cast<size_t>(a + b)];
    for (int again = 0; again < i % 4; ++again) reply += " and " + reply;
    lines += nlohmann::json({{"messages",
                              {Message("system", "Add."),
                               Message("user", words[static_cast<size_t>(a)] + " and " +
                                                   words[static_cast<size_t>(b)]),
                               Message("assistant", reply)}}})
                 .dump() +
             "\n";
  }
  return lines;
}

// A template that writes the same as the plain one, in other words.
constexpr char kChatMl[] =
    R"({% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";

class ConversationRunTest : public ::testing::Test {
 protected:
  // A directory as that of a model of Qwen 3's family: tokenizer, template, and a small model.
  void SetUp() override {
    dir_ = Scratch();
    fs::create_directories(dir_ / "model");
    nlohmann::json config = nlohmann::json::parse(Read("tests/testdata/qwen3_tiny/config.json"));
    config["vocab_size"] = 904;
    Write(dir_ / "model/config.json", config.dump());
    Write(dir_ / "model/tokenizer.json", Read("tests/testdata/tokenizers/qwen2/tokenizer.json"));
    Write(dir_ / "model/tokenizer_config.json",
          nlohmann::json({{"eos_token", "<|im_end|>"}, {"chat_template", kChatMl}}).dump());
    Write(dir_ / "train.jsonl", Conversations(0, 100));
    Write(dir_ / "held_out.jsonl", Conversations(100, 20));
  }

  Flags Training(const std::string& out) const {
    return {"--model=" + (dir_ / "model/config.json").string(),
            "--tokenizer=" + (dir_ / "model").string(),
            "--data=" + (dir_ / "train.jsonl").string(),
            "--eval_data=" + (dir_ / "held_out.jsonl").string(),
            "--seq_len=64",
            "--lr=1e-2",
            "--warmup_steps=2",
            "--sample_tokens=0",
            "--threads_per_rank=1",
            "--eval_batches=2",
            "--out=" + (dir_ / out).string()};
  }

  std::vector<nlohmann::json> Train(const std::string& out, const Flags& more) {
    const Outcome run = RunTrainer(With(Training(out), more));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return StepFacts(dir_ / out);
  }

  std::string Weights(const std::string& out) const {
    return Read(dir_ / out / "final/model.safetensors");
  }

  // Whether //tools/generate succeeds; answer.txt has its output, and error.txt its errors.
  bool Generate(const std::string& flags) const {
    return std::system(("tools/generate/generate " + flags + " >" + (dir_ / "answer.txt").string() +
                        " 2>" + (dir_ / "error.txt").string())
                           .c_str()) == 0;
  }

  fs::path dir_;
};

TEST_F(ConversationRunTest, NoBitDependsOnTheLayout) {
  const Flags run = {"--batch_size=2", "--deterministic_batch=4", "--steps=6"};
  const std::vector<nlohmann::json> alone = Train("alone", With(run, {"--world_size=1"}));
  ASSERT_EQ(alone.size(), 6u);
  for (const auto& [name, more] : std::vector<std::pair<std::string, Flags>>{
           {"two", {"--world_size=2", "--strategy=full_shard"}},
           {"replicated", {"--world_size=2", "--strategy=no_shard"}},
           {"four", {"--world_size=4", "--strategy=shard_grad_op"}},
           {"hybrid", {"--world_size=4", "--strategy=hybrid_shard", "--shard_size=2"}}}) {
    EXPECT_EQ(Train(name, With(run, more)), alone) << name;
    EXPECT_TRUE(Weights(name) == Weights("alone")) << name;
  }
}

// The loss of a batch of eight rows is the mean over all its targets that count, wherever the rows
// are. A mean of the ranks' means would differ, since ranks count different numbers of targets.
TEST_F(ConversationRunTest, TheMeanIsOverTheTargetsThatCount) {
  const Flags run = {"--steps=3", "--lr_schedule=constant", "--warmup_steps=0", "--lr=1e-3"};
  const std::vector<nlohmann::json> whole =
      Train("whole", With(run, {"--world_size=1", "--batch_size=8"}));
  for (const auto& [name, more] : std::vector<std::pair<std::string, Flags>>{
           {"ranks", {"--world_size=4", "--batch_size=2"}},
           {"accumulated", {"--world_size=2", "--batch_size=2", "--grad_accum=2"}},
           {"last", {"--world_size=1", "--batch_size=2", "--grad_accum=4", "--grad_sync=last"}}}) {
    SCOPED_TRACE(name);
    const std::vector<nlohmann::json> steps = Train(name, With(run, more));
    ASSERT_EQ(steps.size(), whole.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      for (const char* key : {"loss", "grad_norm"}) {
        const double expected = whole[i][key].get<double>();
        EXPECT_NEAR(steps[i][key].get<double>(), expected, 2e-5 * expected) << key << " " << i;
      }
    }
  }
}

// //tools/generate stops at the same tokens with the run's model.
TEST_F(ConversationRunTest, SamplesStopWhereTheGenerationConfigSays) {
  Train("base", {"--steps=1"});
  const fs::path base = dir_ / "base/final";
  const auto sample = [&](const std::string& out) {
    const Outcome run =
        RunTrainer({"--init_from=" + base.string(), "--data=" + (dir_ / "train.jsonl").string(),
                    "--seq_len=64", "--steps=1", "--lr=0", "--prompt=one and", "--sample_tokens=5",
                    "--temperature=0", "--out=" + (dir_ / out).string()});
    EXPECT_EQ(run.exit_code, 0) << run.output;
    const size_t at = run.output.find("sample: ");
    return at == std::string::npos ? "none" : run.output.substr(at, run.output.find('\n', at) - at);
  };
  EXPECT_GT(sample("as_it_is").size(), std::string("sample: one and").size());
  nlohmann::json all = nlohmann::json::array();
  for (int id = 0; id < 904; ++id) all.push_back(id);
  Write(base / "generation_config.json", nlohmann::json({{"eos_token_id", all}}).dump());
  EXPECT_EQ(sample("stopped"), "sample: one and");
}

TEST_F(ConversationRunTest, HeldOutConversationsAreLearnedAndARunResumes) {
  const Flags run = {"--world_size=2", "--batch_size=4", "--eval_every=10", "--steps=40"};
  const std::vector<nlohmann::json> steps =
      Train("out", With(run, {"--steps=200", "--eval_every=100", "--lr=3e-3"}));
  ASSERT_EQ(steps.size(), 200u);
  EXPECT_LT(steps[199]["eval_loss"].get<double>(), 0.5);
  // It answers, to a question and in a conversation. How often is not tested.
  const std::string chat =
      "--chat --system=Add. --temperature=0 --model=" + (dir_ / "out/final").string();
  ASSERT_TRUE(Generate(chat + " --prompt='one and two'")) << Read(dir_ / "error.txt");
  const std::string answer = Read(dir_ / "answer.txt");
  EXPECT_THAT(answer, StartsWith("three"));
  Write(dir_ / "lines.txt", "one and two\nfour and three\n");
  ASSERT_TRUE(Generate(chat + " <" + (dir_ / "lines.txt").string())) << Read(dir_ / "error.txt");
  EXPECT_THAT(Read(dir_ / "answer.txt"), StartsWith(answer));
  EXPECT_GT(Read(dir_ / "answer.txt").size(), answer.size());
  EXPECT_FALSE(Generate(chat + " --prompt=x --chat_template=llama3"));
  EXPECT_THAT(Read(dir_ / "error.txt"), HasSubstr("llama3 needs a token <|begin_of_text|>"));
  Train("again", With(run, {"--checkpoint_every=15", "--steps=15", "--lr_schedule=constant"}));
  const std::vector<nlohmann::json> straight =
      Train("straight", With(run, {"--lr_schedule=constant"}));
  const std::vector<nlohmann::json> resumed =
      Train("again", With(run, {"--resume=auto", "--lr_schedule=constant"}));
  EXPECT_EQ(resumed.back(), straight.back());
  EXPECT_TRUE(Weights("again") == Weights("straight"));
}

// Ranks that read tokens encoded by an earlier run, or encode in memory, see the same tokens, and
// none that are held out.
TEST_F(ConversationRunTest, EncodedOnceWithAPartHeldOut) {
  const Flags run = {"--eval_data=",          "--eval_fraction=0.2",     "--eval_every=3",
                     "--batch_size=2",        "--deterministic_batch=4", "--steps=6",
                     "--lr_schedule=constant"};
  const std::vector<nlohmann::json> alone =
      Train("alone", With(run, {"--world_size=1", "--cache_dir=none"}));
  ASSERT_EQ(alone.size(), 6u);
  EXPECT_TRUE(alone[2].contains("eval_loss") && alone[5].contains("eval_loss"));
  EXPECT_FALSE(fs::exists(dir_ / ".zeroth_cache"));
  const std::string elsewhere = "--cache_dir=" + (dir_ / "made/here").string();
  for (const auto& [name, how, more] : std::vector<std::tuple<std::string, std::string, Flags>>{
           {"first", "encoded, and kept in", {"--world_size=2"}},
           {"second", "encoded before, and read from", {"--world_size=4"}},
           {"elsewhere", "encoded, and kept in", {"--world_size=2", elsewhere}},
           {"file",
            "encoded text is held in memory, since",
            {"--world_size=2", "--cache_dir=" + (dir_ / "train.jsonl").string()}}}) {
    SCOPED_TRACE(name);
    const Outcome outcome = RunTrainer(With(With(Training(name), run), more));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.output;
    EXPECT_THAT(outcome.output, HasSubstr(how));
    EXPECT_THAT(outcome.output, HasSubstr("tokens are held out, and evaluated on"));
    EXPECT_THAT(outcome.output, HasSubstr(" tokens to train on, padding included\n"));
    EXPECT_EQ(StepFacts(dir_ / name), alone);
    EXPECT_TRUE(Weights(name) == Weights("alone"));
  }
  Train("part", With(run, {"--world_size=4", "--steps=3", "--checkpoint_every=3"}));
  const Flags resumed = With(run, {"--world_size=2", "--resume=auto"});
  EXPECT_EQ(Train("part", resumed).back(), alone.back());
  EXPECT_TRUE(Weights("part") == Weights("alone"));
}

// A mixture of text and conversations, at any number of ranks and after a resume.
TEST_F(ConversationRunTest, SourcesAreMixed) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "{\"text\": \"one and two and three and four\"}\n";
  Write(dir_ / "text.jsonl", text);
  const Flags run = {
      "--data=" + (dir_ / "train.jsonl").string() + ":3," + (dir_ / "text.jsonl").string() + ":1",
      "--attend_within=document",
      "--batch_size=2",
      "--deterministic_batch=4",
      "--steps=6",
      "--lr_schedule=constant",
      "--checkpoint_every=3"};
  const std::vector<nlohmann::json> alone = Train("alone", With(run, {"--world_size=1"}));
  EXPECT_EQ(Train("four", With(run, {"--world_size=4"})), alone);
  EXPECT_TRUE(Weights("four") == Weights("alone"));
  Train("part", With(run, {"--world_size=4", "--steps=3"}));
  EXPECT_EQ(Train("part", With(run, {"--world_size=2", "--resume=auto"})).back(), alone.back());
  EXPECT_TRUE(Weights("part") == Weights("alone"));
}

// The loss over all tokens differs from that over the assistant's, and adapters learn, too.
TEST_F(ConversationRunTest, OtherWaysToTrain) {
  const Flags run = {"--world_size=2", "--batch_size=4", "--steps=4"};
  const std::string jinja = kChatMl;
  Write(dir_ / "model/chat_template.jinja", jinja);
  const auto assistant = Train("assistant", run);
  // The export chats as the base model does.
  EXPECT_EQ(Read(dir_ / "assistant/final/chat_template.jinja"), jinja);
  // So does an export trained in a named format, without the name.
  EXPECT_EQ(Train("named", With(run, {"--chat_template=chatml"})), assistant);
  EXPECT_NE(Read(dir_ / "named/final/chat_template.jinja"), jinja);
  EXPECT_EQ(nlohmann::json::parse(Read(dir_ / "named/final/tokenizer_config.json")),
            nlohmann::json({{"eos_token", "<|im_end|>"}}));
  // A run may also be trained with a template from a file.
  Write(dir_ / "own.jinja", jinja + "{# own #}");
  EXPECT_EQ(Train("own", With(run, {"--chat_template=" + (dir_ / "own.jinja").string()})),
            assistant);
  EXPECT_EQ(Read(dir_ / "own/final/chat_template.jinja"), jinja + "{# own #}");
  const std::string named = (dir_ / "named/final").string();
  EXPECT_TRUE(Generate("--chat --max_tokens=4 --prompt='one and two' --model=" + named))
      << Read(dir_ / "error.txt");
  const auto all = Train("all", With(run, {"--loss_on=all"}));
  EXPECT_NE(all[0]["loss"], assistant[0]["loss"]);
  const auto adapters = Train("adapters", With(run, {"--lora_rank=4"}));
  EXPECT_EQ(adapters[0]["loss"], assistant[0]["loss"]);
  EXPECT_LT(adapters[3]["loss"].get<double>(), adapters[0]["loss"].get<double>());
  const auto longer =
      Train("longer", With(run, {"--lora_rank=4", "--steps=60", "--eval_every=30"}));
  ASSERT_EQ(longer.size(), 60u);
  EXPECT_LT(longer[59]["eval_loss"].get<double>(), longer[29]["eval_loss"].get<double>());
}

// A base model that ends texts by other tokens, and has no template.
TEST_F(ConversationRunTest, ExportsSayWhatEndsATurnAndAdaptersBringTheirTemplate) {
  const Flags run = {"--world_size=1", "--batch_size=2", "--steps=1", "--eval_data="};
  Train("base", run);
  const fs::path base = dir_ / "base/final";
  const auto json = [](const fs::path& file) { return nlohmann::json::parse(Read(file)); };
  nlohmann::json config = json(base / "config.json");
  const nlohmann::json end = config["eos_token_id"];
  EXPECT_TRUE(end.is_number());
  config["eos_token_id"] = 0;
  Write(base / "config.json", config.dump());
  Write(base / "generation_config.json", R"({"eos_token_id": [1], "top_k": 5})");
  Write(base / "tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  const Flags tune = With(run, {"--model=", "--tokenizer=auto", "--lora_export=both"});
  Train("tuned",
        With(tune, {"--init_from=" + base.string(), "--chat_template=chatml", "--lora_rank=2"}));
  EXPECT_EQ(json(dir_ / "tuned/final/config.json")["eos_token_id"], nlohmann::json({end, 0}));
  EXPECT_EQ(json(dir_ / "tuned/final/generation_config.json"),
            nlohmann::json({{"eos_token_id", {end, 1}}, {"top_k", 5}}));
  const std::string adapter = (dir_ / "tuned/final_adapter").string();
  EXPECT_TRUE(Generate("--chat --max_tokens=2 --prompt=one --model=" + adapter))
      << Read(dir_ / "error.txt");
  Train("more", With(tune, {"--init_adapter=" + adapter}));
  EXPECT_EQ(Read(dir_ / "more/final/chat_template.jinja"),
            Read(dir_ / "tuned/final/chat_template.jinja"));
}

// A base model whose tokenizer does not have the tokens of ChatML, and has a token that only
// tokenizer_config.json names. By add_special_tokens and save_pretrained, transformers 5.23 gives
// all of them these ids and writes them into tokenizer.json.
TEST_F(ConversationRunTest, NewTokensGetRowsOfTheirOwn) {
  const auto json = [](const fs::path& file) { return nlohmann::json::parse(Read(file)); };
  const fs::path model = dir_ / "model";
  nlohmann::json tokenizer = json(model / "tokenizer.json");
  nlohmann::json& added = tokenizer["added_tokens"];
  ASSERT_EQ(added.size(), 3u);
  nlohmann::json in_full = added;
  in_full.insert(in_full.begin() + 1, added[1]);
  for (int id = 900; id < 904; ++id) in_full[static_cast<size_t>(id - 900)]["id"] = id;
  in_full[1]["content"] = "<pad>";
  added.erase(2);
  added.erase(1);
  Write(model / "tokenizer.json", tokenizer.dump());
  Write(model / "tokenizer_config.json",
        nlohmann::json({{"eos_token", "<|endoftext|>"},
                        {"pad_token", "<pad>"},
                        {"added_tokens_decoder", {{"900", added[0]}}}})
            .dump());
  nlohmann::json config = json(model / "config.json");
  config["vocab_size"] = 902;
  config["tie_word_embeddings"] = false;
  Write(model / "config.json", config.dump());
  Write(dir_ / "text.txt", std::string(2000, 'a'));
  Train("base", {"--world_size=1", "--batch_size=1", "--steps=1",
                 "--eval_data=", "--data=" + (dir_ / "text.txt").string()});
  const std::string base = (dir_ / "base/final").string();

  const Flags tune = {"--model=",
                      "--tokenizer=auto",
                      "--init_from=" + base,
                      "--chat_template=chatml",
                      "--batch_size=2",
                      "--deterministic_batch=4",
                      "--steps=3"};
  const Outcome refused = RunTrainer(With(With(Training("refused"), tune), {"--world_size=1"}));
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.errors, HasSubstr("<|im_start|>"));
  const Flags grown = With(tune, {"--new_tokens=<|im_start|>,<|im_end|>"});
  const std::vector<nlohmann::json> alone = Train("alone", With(grown, {"--world_size=1"}));
  ASSERT_EQ(alone.size(), 3u);
  for (const auto& [name, more] : std::vector<std::pair<std::string, Flags>>{
           {"two", {"--world_size=2", "--strategy=full_shard"}},
           {"rows", {"--world_size=2", "--strategy=full_shard", "--layout=rows"}},
           {"hybrid", {"--world_size=4", "--strategy=hybrid_shard", "--shard_size=2"}}}) {
    EXPECT_EQ(Train(name, With(grown, more)), alone) << name;
    EXPECT_TRUE(Weights(name) == Weights("alone")) << name;
  }
  const fs::path final = dir_ / "alone/final";
  EXPECT_EQ(json(final / "config.json")["vocab_size"], 904);
  EXPECT_EQ(json(final / "config.json")["eos_token_id"][0], 903);
  EXPECT_EQ(json(final / "tokenizer.json")["added_tokens"], in_full);
  EXPECT_EQ(json(final / "tokenizer_config.json")["added_tokens_decoder"].size(), 4u);
  const auto opened = OpenTokenizer(final.string());
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ((*opened)->vocab_size(), 904);
  EXPECT_EQ((*opened)->Find("<pad>"), 901);
  EXPECT_EQ((*opened)->Find("<|im_start|>"), 902);
  EXPECT_EQ((*opened)->Find("<|im_end|>"), 903);
  EXPECT_TRUE(Generate("--chat --max_tokens=2 --prompt=one --model=" + final.string()))
      << Read(dir_ / "error.txt");

  // With adapters the new rows are trained only as modules to save.
  const Flags lora = With(grown, {"--world_size=1", "--lora_rank=2"});
  const Outcome frozen = RunTrainer(With(Training("frozen"), lora));
  EXPECT_EQ(frozen.exit_code, 1);
  EXPECT_THAT(frozen.errors, HasSubstr("--lora_modules_to_save=embed_tokens,lm_head"));
  Train("lora", With(lora, {"--lora_modules_to_save=embed_tokens,lm_head"}));
  EXPECT_EQ(json(dir_ / "lora/final/config.json")["vocab_size"], 904);
  EXPECT_THAT(
      RunTrainer(With(Training("known"), With(grown, {"--new_tokens=<|endoftext|>"}))).errors,
      HasSubstr("\"<|endoftext|>\" is a token already, with the id 900; leave it out"));
}

// A tokenizer of several files, with its template in a file that it does not need.
TEST_F(ConversationRunTest, ExportsHaveAllFilesOfTheTokenizer) {
  const fs::path tokenizer = dir_ / "tokenizer";
  fs::create_directories(tokenizer);
  const std::string library = Read("tests/testdata/tokenizers/sentencepiece/tokenizer.model");
  const std::string config =
      nlohmann::json(
          {{"bos_token", "<s>"},
           {"eos_token", "</s>"},
           {"chat_template", R"({{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}
{{- '[INST] ' + (messages[0].content + '\n\n' if loop.index0 == 1 and messages[0].role == 'system' else '') + m.content + ' [/INST]' }}
{%- elif m.role == 'assistant' %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %})"}})
          .dump();
  Write(tokenizer / "tokenizer.model", library);
  Write(tokenizer / "tokenizer_config.json", config);
  Write(tokenizer / "special_tokens_map.json", "{}");
  const Flags run = {"--world_size=1", "--batch_size=1", "--steps=2"};
  for (const auto& [name, path] : std::vector<std::pair<std::string, fs::path>>{
           {"directory", tokenizer}, {"file", tokenizer / "tokenizer.model"}}) {
    SCOPED_TRACE(name);
    Train(name, With(run, {"--tokenizer=" + path.string()}));
    const fs::path final = dir_ / name / "final";
    EXPECT_EQ(Read(final / "tokenizer.model"), library);
    EXPECT_EQ(Read(final / "tokenizer_config.json"), config);
    EXPECT_EQ(Read(final / "special_tokens_map.json"), "{}");
    EXPECT_TRUE(Generate("--chat --max_tokens=2 --prompt=one --model=" + final.string()))
        << Read(dir_ / "error.txt");
  }
}

// The template for records with tools lies in a separate directory, which an export does not have.
TEST_F(ConversationRunTest, ExportsHaveTheTemplateForTools) {
  const std::string tool_use =
      "{% for tool in tools %}{{ '<|im_start|>' + tool.function.name + '<|im_end|>\\n' }}"
      "{% endfor %}" +
      std::string(kChatMl);
  fs::create_directories(dir_ / "model/additional_chat_templates");
  Write(dir_ / "model/chat_template.jinja", kChatMl);
  Write(dir_ / "model/additional_chat_templates/tool_use.jinja", tool_use);
  const Flags run = {"--world_size=1", "--batch_size=2", "--steps=2"};
  const auto without = Train("without", run);
  std::string lines;
  for (const absl::string_view line :
       absl::StrSplit(Conversations(0, 100), '\n', absl::SkipEmpty())) {
    nlohmann::json record = nlohmann::json::parse(line);
    record["tools"] = {{{"type", "function"}, {"function", {{"name", "add"}}}}};
    lines += record.dump() + "\n";
  }
  Write(dir_ / "train.jsonl", lines);
  const auto with = Train("with", run);
  ASSERT_EQ(with.size(), 2u);
  EXPECT_NE(with[0]["loss"], without[0]["loss"]);
  const fs::path final = dir_ / "with/final";
  EXPECT_FALSE(fs::exists(final / "chat_template.jinja"));
  EXPECT_EQ(nlohmann::json::parse(Read(final / "tokenizer_config.json"))["chat_template"],
            nlohmann::json({{{"name", "default"}, {"template", kChatMl}},
                            {{"name", "tool_use"}, {"template", tool_use}}}));
  // The export is trained on the same tokens.
  EXPECT_EQ(Train("again", With(run, {"--tokenizer=" + final.string()})), with);
}

// generation_config.json is copied with a model's weights, but not with an adapter.
TEST_F(ConversationRunTest, ExportsHaveTheGenerationConfig) {
  const Flags run = {"--world_size=1", "--batch_size=1", "--steps=1"};
  Train("first", run);
  const fs::path model = dir_ / "first/final";
  const std::string generation = R"({"eos_token_id": [902, 900], "top_k": 20})";
  Write(model / "generation_config.json", generation);
  const Flags tuning = With(run, {"--model=", "--tokenizer=auto", "--init_from=" + model.string()});
  Train("tuned", tuning);
  EXPECT_EQ(Read(dir_ / "tuned/final/generation_config.json"), generation);
  Train("adapters", With(tuning, {"--lora_rank=2", "--lora_export=both"}));
  EXPECT_EQ(Read(dir_ / "adapters/final/generation_config.json"), generation);
  EXPECT_FALSE(fs::exists(dir_ / "adapters/final_adapter/generation_config.json"));
  EXPECT_TRUE(fs::exists(dir_ / "adapters/final_adapter/tokenizer.json"));
}

// Packed conversations are computed as if each were alone: their loss does not depend on which of
// them share a row, unless they see each other.
TEST_F(ConversationRunTest, ConversationsInARowDoNotSeeEachOther) {
  const auto tokenizer = OpenTokenizer((dir_ / "model").string());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto chat = OpenChatTemplate("auto", (dir_ / "model").string(), **tokenizer);
  ASSERT_TRUE(chat.ok()) << chat.status();
  Train("trained", {"--world_size=2", "--batch_size=4", "--steps=20"});
  // The whole set once, in rows of this length.
  const auto loss = [&](int64_t seq_len, const std::string& within, const Flags& more = {}) {
    const auto rows =
        EncodeConversations({{(dir_ / "held_out.jsonl").string(), DataFileKind::kJsonLines}},
                            &*chat, **tokenizer, {seq_len, false});
    EXPECT_TRUE(rows.ok()) << rows.status();
    const int64_t count = (*rows)->size() / (seq_len + 1);
    const std::string out = within + std::to_string(seq_len) + std::to_string(more.size());
    const Flags flags = {"--init_from=" + (dir_ / "trained/final").string(),
                         "--model=",
                         "--world_size=1",
                         "--batch_size=1",
                         "--eval_batches=" + std::to_string(count),
                         "--steps=1",
                         "--lr=0",
                         "--attend_within=" + within,
                         "--seq_len=" + std::to_string(seq_len)};
    const Outcome run = RunTrainer(With(With(Training(out), flags), more));
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return Metrics(dir_ / out).at(0).value("eval_loss", 0.0);
  };
  // The shorter rows still hold the longest conversation, and pack the conversations differently
  // than the longer rows.
  const double apart = loss(80, "document");
  EXPECT_NEAR(loss(127, "document"), apart, 1e-5 * apart);
  EXPECT_NEAR(loss(127, "auto"), apart, 1e-5 * apart);
  EXPECT_GT(std::abs(loss(127, "sequence") - apart), 1e-3 * apart);
  // Nor do those that a run on text evaluates.
  Write(dir_ / "text.jsonl", "{\"text\": \"" + std::string(500, 'a') + "\"}\n");
  EXPECT_NEAR(loss(127, "auto", {"--data=" + (dir_ / "text.jsonl").string()}), apart, 1e-5 * apart);
}

TEST_F(ConversationRunTest, WhatWillNotDoIsSaid) {
  const auto refuse = [this](const Flags& more, const std::string& text) {
    const Outcome run = RunTrainer(With(Training("refused"), With({"--world_size=1"}, more)));
    EXPECT_NE(run.exit_code, 0);
    EXPECT_THAT(run.errors, HasSubstr(text));
    EXPECT_FALSE(fs::exists(dir_ / "refused/metrics.jsonl"));
  };
  refuse({"--chat_template=mistral"}, "needs a token <s>");
  refuse({"--tokenizer=tests/testdata/tokenizers/qwen2"}, "has no chat template");
  Write(dir_ / "model/chat_template.jinja", "{{ '<start_of_turn>' }}");
  refuse({}, "expected the content of each in turn; it does not write (user1)");
  Write(dir_ / "bad.jsonl",
        Conversations(0, 3) + R"({"messages": [{"role": "user", "content": "a"}]})");
  refuse({"--chat_template=chatml", "--data=" + (dir_ / "bad.jsonl").string()},
         "bad.jsonl line 4: a conversation without text of the assistant");
  Write(dir_ / "text.jsonl", "{\"text\": \"a\"}\n");
  refuse({"--chat_template=chatml",
          "--data=" + (dir_ / "text.jsonl").string() + "," + (dir_ / "train.jsonl").string()},
         "text and other records cannot be mixed");
  Write(dir_ / "long.jsonl", "{\"text\": \"" + std::string(500, 'a') + "\"}\n");
  const std::string text = "--data=" + (dir_ / "long.jsonl").string();
  refuse(
      {"--model=gpt2_nano", "--tokenizer=byte", text, "--eval_data=", "--attend_within=document"},
      "a learned vector for each position");
  refuse({"--init_from=tests/testdata/qwen3_tiny", "--model=", "--tokenizer=auto",
          "--eval_data=", "--data=tests/testdata/qwen3_tiny/tokens.npy", "--seq_len=32",
          "--attend_within=document"},
         "which of them ends a document");
  refuse({"--chat_template=chatml", "--data=" + (dir_ / "train.jsonl").string() + ":1," +
                                        (dir_ / "text.jsonl").string() + ":0"},
         "a weight of 0, expected a number above 0");
  Write(dir_ / "bytes.jsonl", "{\"text\": \"a\"}\n{\"text\": \"\xff\"}\n");
  refuse({"--eval_data=", "--data=" + (dir_ / "bytes.jsonl").string()}, "bytes.jsonl line 2");
  Write(
      dir_ / "tools.jsonl",
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "", "tool_calls":)"
      R"( [{"function": {"name": "f", "arguments": {"x": 1}}}]},)"
      R"( {"role": "tool", "content": "b"}, {"role": "assistant", "content": "c"}]})");
  refuse({"--chat_template=chatml", "--data=" + (dir_ / "tools.jsonl").string()},
         "the chat template does not write the name of a tool call of message 2");
  refuse({"--chat_template=chatml", "--eval_fraction=0.1"}, "both say on what to evaluate");
  nlohmann::json tokenizer = nlohmann::json::parse(Read(dir_ / "model/tokenizer.json"));
  tokenizer["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  Write(dir_ / "model/tokenizer.json", tokenizer.dump());
  refuse({"--chat_template=chatml"}, "BertPreTokenizer");
}

// The same talks as ShareGPT records, in a JSON array, train to the same bits as {"messages": ...}.
TEST_F(ConversationRunTest, ShareGptRecordsTrainAsMessages) {
  nlohmann::json records;
  for (int i = 0; i < 20; ++i) {
    const auto talk = nlohmann::json::parse(Conversations(i, 1));
    nlohmann::json turns;
    for (const auto& message : talk["messages"]) {
      const std::string role = message["role"];
      turns.push_back({{"from", role == "user"        ? "human"
                                : role == "assistant" ? "gpt"
                                                      : role},
                       {"value", message["content"]}});
    }
    records.push_back({{"conversations", turns}, {"id", i}});
  }
  nlohmann::json config = nlohmann::json::parse(Read("tests/testdata/llama_tiny/config.json"));
  config["vocab_size"] = 904;
  Write(dir_ / "model/config.json", config.dump());
  Write(dir_ / "talks.json", records.dump(1));
  Write(dir_ / "talks.jsonl", Conversations(0, 20));
  const Flags run = {"--world_size=2", "--batch_size=1", "--steps=4"};
  const std::vector<nlohmann::json> messages =
      Train("messages", With(run, {"--data=" + (dir_ / "talks.jsonl").string()}));
  const Outcome share_gpt = RunTrainer(
      With(Training("share_gpt"), With(run, {"--data=" + (dir_ / "talks.json").string()})));
  ASSERT_EQ(share_gpt.exit_code, 0) << share_gpt.output;
  EXPECT_THAT(share_gpt.output, HasSubstr("talks.json (ShareGPT), "));
  EXPECT_THAT(share_gpt.output, HasSubstr("talks.json: 20 examples of "));
  EXPECT_EQ(StepFacts(dir_ / "share_gpt"), messages);
  EXPECT_TRUE(Weights("share_gpt") == Weights("messages"));
}

// A model without a chat template learns the outputs of Alpaca records, here under other names.
TEST_F(ConversationRunTest, AlpacaRecordsNeedNoTemplate) {
  nlohmann::json records;
  for (int i = 0; i < 40; ++i) {
    records.push_back({{"question", "Say " + std::to_string(i % 4)},
                       {"input", i % 2 == 0 ? "" : "twice"},
                       {"output", "yes yes yes"}});
  }
  nlohmann::json config = nlohmann::json::parse(Read("tests/testdata/llama_tiny/config.json"));
  config["vocab_size"] = 904;
  config["max_position_embeddings"] = 256;
  Write(dir_ / "model/config.json", config.dump());
  Write(dir_ / "model/tokenizer_config.json", "{\"eos_token\": \"<|im_end|>\"}");
  Write(dir_ / "alpaca.json", records.dump());
  const Flags run = {"--world_size=2",
                     "--batch_size=2",
                     "--steps=30",
                     "--seq_len=255",
                     "--eval_data=",
                     "--lr=1e-2",
                     "--data=" + (dir_ / "alpaca.json").string()};
  const Outcome refused = RunTrainer(With(Training("refused"), run));
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.output, HasSubstr("alpaca.json record 1: expected one of {\"text\""));
  EXPECT_THAT(refused.output, HasSubstr("found {\"input\":\"\",\"output\":\"yes yes yes\""));
  const Outcome trained =
      RunTrainer(With(Training("alpaca"), With(run, {"--data_columns=instruction=question"})));
  ASSERT_EQ(trained.exit_code, 0) << trained.output;
  EXPECT_THAT(trained.output, HasSubstr("alpaca.json (Alpaca), "));
  const std::vector<nlohmann::json> steps = StepFacts(dir_ / "alpaca");
  ASSERT_EQ(steps.size(), 30u);
  // The outputs are all alike; the prompts, which are not, would keep the loss up.
  EXPECT_LT(steps.back()["loss"].get<double>(), 0.5);
}

}  // namespace
}  // namespace zeroth::testing
