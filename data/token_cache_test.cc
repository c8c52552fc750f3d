// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/token_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/temporary_directory.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

using SourceOr = absl::StatusOr<std::shared_ptr<const TokenSource>>;

// Rows with marks, as conversations are.
std::shared_ptr<const TokenSource> Rows(std::vector<int32_t> ids) {
  std::vector<uint8_t> marks;
  for (size_t i = 0; i < ids.size(); ++i) marks.push_back(static_cast<uint8_t>(i * 7 % 4));
  TokenSource::Facts facts;
  facts.row_length = 4;
  facts.description = "rows";
  facts.notes = {"data      two are too long"};
  return std::make_shared<const TokensInMemory<int32_t>>(std::move(ids), facts, std::move(marks));
}

class TokenCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    files_ = {{dir_.Write("a.jsonl", "first"), DataFileKind::kJsonLines},
              {dir_.Write("b.jsonl", "second"), DataFileKind::kJsonLines}};
    for (int32_t i = 0; i < 80'000; ++i) ids_.push_back(i * 11 % 70'000);
  }

  SourceOr Open() {
    return CachedTokens(files_, options_, [this]() -> SourceOr {
      ++encoded_;
      return Rows(ids_);
    });
  }
  // The same whether or not it was cached.
  void ExpectRows(const SourceOr& source) {
    ASSERT_TRUE(source.ok()) << source.status();
    ASSERT_EQ((*source)->size(), static_cast<int64_t>(ids_.size()));
    EXPECT_EQ((*source)->row_length(), 4);
    ASSERT_TRUE((*source)->has_marks());
    std::vector<int32_t> ids(ids_.size());
    std::vector<uint8_t> marks(ids_.size());
    ASSERT_TRUE((*source)->Read(0, absl::MakeSpan(ids)).ok());
    ASSERT_TRUE((*source)->ReadMarks(0, absl::MakeSpan(marks)).ok());
    EXPECT_TRUE(ids == ids_);
    for (size_t i = 0; i < marks.size(); ++i) ASSERT_EQ(marks[i], i * 7 % 4);
    EXPECT_EQ((*source)->notes()[0], "data      two are too long");
  }
  static std::string NotesOf(const SourceOr& source) {
    return source.ok() ? absl::StrJoin((*source)->notes(), "\n") : "";
  }
  // The only entry.
  std::string Entry() const {
    for (const auto& found : fs::directory_iterator(dir_.File(".zeroth_cache"))) {
      if (found.is_directory()) return found.path().string();
    }
    return "";
  }

  const TemporaryDirectory dir_;
  std::vector<DataFile> files_;
  std::vector<int32_t> ids_;
  TokenCacheOptions options_ = {"auto", "tokenizer 1", 70'000};
  std::atomic<int> encoded_ = 0;
};

TEST_F(TokenCacheTest, EncodesOnceAndReadsTheSame) {
  const SourceOr first = Open();
  ExpectRows(first);
  EXPECT_THAT(NotesOf(first), HasSubstr("encoded, and kept in " + dir_.File(".zeroth_cache/")));
  const SourceOr second = Open();
  ExpectRows(second);
  EXPECT_EQ(encoded_, 1);
  EXPECT_THAT(NotesOf(second), HasSubstr("encoded before, and read from"));
  EXPECT_EQ((*second)->description(), files_[0].path + " and 1 more");
}

TEST_F(TokenCacheTest, ALockIsNotAwaitedForEver) {
  ExpectRows(Open());
  const std::string lock = Entry() + ".lock";
  fs::remove_all(Entry());
  const int fd = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
  options_.lock_timeout = absl::Milliseconds(20);
  const absl::Status status = Open().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr(lock + ": another process has held"));
  EXPECT_EQ(encoded_, 1);
  close(fd);
  ExpectRows(Open());
  EXPECT_EQ(encoded_, 2);
}

TEST_F(TokenCacheTest, NoneKeepsNothing) {
  options_.directory = "none";
  ExpectRows(Open());
  ExpectRows(Open());
  EXPECT_EQ(encoded_, 2);
  EXPECT_FALSE(fs::exists(dir_.File(".zeroth_cache")));
}

TEST_F(TokenCacheTest, AnotherFileRecipeOrVocabularyIsEncodedAnew) {
  ExpectRows(Open());
  options_.recipe = "tokenizer 2";
  ExpectRows(Open());
  EXPECT_EQ(encoded_, 2);
  options_.vocab_size = 80'000;
  ExpectRows(Open());
  EXPECT_EQ(encoded_, 3);
  // A file of the same size, but with a later time of change.
  fs::last_write_time(files_[1].path,
                      fs::last_write_time(files_[1].path) + std::chrono::seconds(1));
  ExpectRows(Open());
  EXPECT_EQ(encoded_, 4);
  std::swap(files_[0], files_[1]);
  ExpectRows(Open());
  EXPECT_EQ(encoded_, 5);
}

TEST_F(TokenCacheTest, WhatIsDamagedIsMadeAnew) {
  ExpectRows(Open());
  const std::string entry = Entry();
  const auto change = [](const std::string& path, size_t place) {
    std::string content = ReadTestFile(path);
    content[place] = static_cast<char>(content[place] ^ 1);
    ASSERT_TRUE(WriteFileDurably(path, content).ok());
  };
  int expected = 1;
  const auto expect_anew = [&](const std::string& why) {
    SCOPED_TRACE(why);
    const SourceOr again = Open();
    ExpectRows(again);
    EXPECT_EQ(encoded_, ++expected);
    EXPECT_THAT(NotesOf(again), HasSubstr("encoded anew, since what was kept of it is damaged"));
    EXPECT_THAT(NotesOf(again), HasSubstr(why));
    const SourceOr after = Open();
    ExpectRows(after);
    EXPECT_EQ(encoded_, expected);
    EXPECT_THAT(NotesOf(after), Not(HasSubstr("damaged")));
  };
  change(entry + "/tokens.npy", 5000);
  expect_anew("does not say what the tokens beside it are");
  change(entry + "/marks.npy", 5000);
  expect_anew("does not say what the tokens beside it are");
  fs::resize_file(entry + "/tokens.npy", 1000);
  expect_anew("is the file truncated?");
  fs::remove(entry + "/marks.npy");
  expect_anew("marks-00000.npy");
  fs::remove(entry + "/manifest.json");
  expect_anew("manifest.json");
  ASSERT_TRUE(WriteFileDurably(entry + "/manifest.json", "{\"key\": 3}").ok());
  expect_anew("is not a manifest");
}

TEST_F(TokenCacheTest, AForeignEntryIsMadeAnew) {
  ExpectRows(Open());
  const std::string mine = Entry();
  options_.recipe = "tokenizer 2";
  ExpectRows(Open());
  std::string other;
  for (const auto& found : fs::directory_iterator(dir_.File(".zeroth_cache"))) {
    if (found.is_directory() && found.path() != mine) other = found.path().string();
  }
  fs::remove_all(other);
  fs::rename(mine, other);
  ExpectRows(Open());
  EXPECT_EQ(encoded_, 3);
}

TEST_F(TokenCacheTest, LeftoversOfTheDeadGo) {
  ExpectRows(Open());
  const std::string entry = Entry();
  fs::rename(entry, entry + ".tmp-0123456789abcdef");
  ExpectRows(Open());
  EXPECT_EQ(encoded_, 2);
  EXPECT_FALSE(fs::exists(entry + ".tmp-0123456789abcdef"));
}

TEST_F(TokenCacheTest, WhereNothingCanBeWrittenItIsHeldInMemory) {
  options_.directory = files_[0].path + "/inside_a_file";
  const SourceOr source = Open();
  ExpectRows(source);
  EXPECT_THAT(NotesOf(source), HasSubstr("held in memory, since cannot create directory"));
}

TEST_F(TokenCacheTest, ErrorsOfTheTextAreItsOwn) {
  const auto fails = [&] {
    return CachedTokens(files_, options_,
                        []() -> SourceOr { return absl::InvalidArgumentError("line 3 is bad"); });
  };
  EXPECT_EQ(fails().status().message(), "line 3 is bad");
  ExpectRows(Open());
}

TEST_F(TokenCacheTest, FilesThatChangeMeanwhileAreNotKept) {
  const SourceOr source = CachedTokens(files_, options_, [this]() -> SourceOr {
    dir_.Write("a.jsonl", "first and more");
    return Rows(ids_);
  });
  ExpectRows(source);
  EXPECT_THAT(NotesOf(source), HasSubstr("the files changed while they were read"));
  ExpectRows(Open());
  EXPECT_EQ(encoded_, 1);
}

TEST_F(TokenCacheTest, OneOfManyThreadsEncodes) {
  std::vector<std::thread> threads;
  std::vector<SourceOr> sources(8, absl::UnknownError(""));
  for (SourceOr& source : sources) threads.emplace_back([&] { source = Open(); });
  for (std::thread& thread : threads) thread.join();
  for (const SourceOr& source : sources) ExpectRows(source);
  EXPECT_EQ(encoded_, 1);
}

TEST_F(TokenCacheTest, OneOfManyProcessesEncodes) {
  const std::string tally = dir_.Write("tally", "");
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      const SourceOr source = CachedTokens(files_, options_, [&]() -> SourceOr {
        const int fd = open(tally.c_str(), O_WRONLY | O_APPEND);
        const bool told = fd >= 0 && write(fd, "x", 1) == 1;
        if (!told) return absl::InternalError("cannot write the tally");
        return Rows(ids_);
      });
      ExpectRows(source);
      _exit(HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(ReadTestFile(tally), "x");
  ExpectRows(Open());
  EXPECT_EQ(encoded_, 0);
}

}  // namespace
}  // namespace zeroth
