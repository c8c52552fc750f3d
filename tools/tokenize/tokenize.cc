// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/tools/tokenize/tokenize.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"

#include "zeroth/core/base/checksum.h"
#include "zeroth/core/base/file/errno_status.h"
#include "zeroth/core/base/file/file_descriptor.h"
#include "zeroth/core/base/file/file_util.h"
#include "zeroth/core/base/file/json.h"
#include "zeroth/core/base/file/random_access_file.h"
#include "zeroth/core/base/file/temporary_path.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/base/thread.h"
#include "zeroth/data/data_files.h"
#include "zeroth/data/documents.h"
#include "zeroth/data/token_file.h"
#include "zeroth/data/tokenizer.h"
#include "zeroth/data/tokenizer/open_tokenizer.h"
#include "zeroth/tools/tokenize/document_output.h"

namespace zeroth {
namespace {

namespace fs = std::filesystem;

// Bytes of a tokenizer's file, as OpenTokenizer reads them.
constexpr size_t kMostTokenizerBytes = size_t{64} << 20;

// A thread encodes about this many bytes of documents at a time.
constexpr size_t kItemBytes = size_t{256} << 10;

// Consecutive documents and their encoding.
struct Item {
  std::vector<TextPart> parts;
  DocumentOutput::Piece output;
  absl::Status status;
};

class Job {
 public:
  explicit Job(const TokenizeOptions& options)
      : options_(options), progress_path_(options.out + ".progress") {}
  ~Job() {
    if (lock_.is_open()) unlink(lock_path_.c_str());
  }

  absl::Status Open() {
    if (options_.tokenizer.empty() || options_.in.empty() || options_.out.empty())
      return absl::InvalidArgumentError("--tokenizer, --in and --out are all needed; see --help");
    ZEROTH_RETURN_IF_ERROR(Lock());
    ZEROTH_RETURN_IF_ERROR(CheckOut());
    ChecksumStream checksum;
    if (options_.tokenizer == "byte") {
      tokenizer_ = std::make_unique<ByteTokenizer>();
    } else {
      ZEROTH_ASSIGN_OR_RETURN(tokenizer_,
                              OpenTokenizer(options_.tokenizer, {options_.parse_special}));
      ZEROTH_ASSIGN_OR_RETURN(const auto paths, FindTokenizerFiles(options_.tokenizer));
      for (const std::string& path : paths) {
        ZEROTH_ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMostTokenizerBytes));
        checksum.Add(
            absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(content.data()), content.size()));
      }
    }
    tokenizer_checksum_ = ChecksumText(checksum.Value());
    // Output of this or an interrupted run in the input's directory is not input.
    ZEROTH_ASSIGN_OR_RETURN(files_,
                            FindDataFiles(options_.in, &counts_.left_out,
                                          [out = Canonical(options_.out)](const std::string& path) {
                                            return IsOutput(path, out);
                                          }));
    for (const DataFile& file : files_) {
      if (!IsText(file.kind))
        return InvalidArgument("--in: ", file.path, " holds tokens, expected text");
      ZEROTH_ASSIGN_OR_RETURN(const RandomAccessFile opened, RandomAccessFile::Open(file.path));
      sizes_.push_back(static_cast<int64_t>(opened.size()));
      counts_.all_bytes += sizes_.back();
    }
    ZEROTH_ASSIGN_OR_RETURN(output_, DocumentOutput::Create(*tokenizer_, options_));
    return Resume();
  }

  absl::StatusOr<TokenizeCounts> Run(
      absl::FunctionRef<absl::Status(const TokenizeCounts&)> report) {
    while (true) {
      ZEROTH_ASSIGN_OR_RETURN(std::vector<Item> items, ReadBatch());
      if (items.empty()) break;
      ZEROTH_RETURN_IF_ERROR(Encode(items));
      for (const Item& item : items) {
        ZEROTH_RETURN_IF_ERROR(output_->Append(item.output));
        counts_.tokens += item.output.tokens;
      }
      ZEROTH_RETURN_IF_ERROR(SaveProgress());
      ZEROTH_RETURN_IF_ERROR(report(counts_));
    }
    ZEROTH_RETURN_IF_ERROR(output_->Finish());
    std::error_code ignored;
    fs::remove(progress_path_, ignored);
    return counts_;
  }

 private:
  int threads() const {
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    return options_.threads > 0 ? options_.threads : std::max(1, cores);
  }
  // Two processes that write the same files would mix their output.
  absl::Status Lock() {
    const fs::path out = options_.out;
    ZEROTH_RETURN_IF_ERROR(CheckDirectoryOf("--out", options_.out));
    lock_path_ = out.parent_path() / absl::StrCat(".", out.filename().string(), ".lock");
    ZEROTH_ASSIGN_OR_RETURN(lock_, LockFile(lock_path_));
    if (lock_.is_open()) return absl::OkStatus();
    return FailedPrecondition("--out=", options_.out,
                              ": another tools/tokenize that is alive writes there; wait for its "
                              "end, or name another file");
  }
  static std::string Canonical(absl::string_view path) {
    std::error_code ignored;
    return fs::weakly_canonical(fs::path(std::string(path)), ignored).string();
  }
  // True for `out`, its shards, and what a run writes beside them until it ends.
  static bool IsOutput(const std::string& path, const std::string& out) {
    std::string file = Canonical(path);
    if (file == out + ".progress" || absl::StartsWith(file, out + ".progress.tmp-")) return true;
    if (absl::EndsWith(file, ".partial")) file.resize(file.size() - std::strlen(".partial"));
    if (file == out) return true;
    const size_t dash = file.rfind('-');
    int64_t shard = 0;
    return dash != std::string::npos &&
           absl::SimpleAtoi(file.substr(dash + 1, file.rfind('.') - dash - 1), &shard) &&
           shard >= 0 && file == TokenShardPath(out, shard);
  }
  // Refuses to replace the input or, unless options.overwrite is set, existing files.
  absl::Status CheckOut() const {
    for (const absl::string_view item : absl::StrSplit(options_.in, ',')) {
      if (Canonical(item) != Canonical(options_.out)) continue;
      return InvalidArgument("--in: ", item,
                             " is also --out, and would be replaced; name another --out");
    }
    ZEROTH_ASSIGN_OR_RETURN(const bool continues, PathExists(progress_path_));
    return continues ? absl::OkStatus() : CheckDocumentOutput(options_);
  }
  absl::Status OpenFile() {
    const bool may_cut = tokenizer_->CutsAtSpaces() && !output_->needs_whole_documents();
    ZEROTH_ASSIGN_OR_RETURN(reader_,
                            DocumentReader::Open(files_[file_], may_cut, options_.part_bytes));
    return absl::OkStatus();
  }

  // Describes the input and the options; a resumed run must have the same.
  nlohmann::json Request() const {
    nlohmann::json request = {{"tokenizer", tokenizer_checksum_},
                              {"parse_special", options_.parse_special},
                              {"shard_tokens", options_.shard_tokens}};
    if (options_.add_special_tokens) request["add_special_tokens"] = *options_.add_special_tokens;
    for (size_t i = 0; i < files_.size(); ++i) {
      std::error_code ignored;
      const auto changed = fs::last_write_time(files_[i].path, ignored).time_since_epoch().count();
      request["in"].push_back({files_[i].path, sizes_[i], static_cast<int64_t>(changed)});
    }
    return request;
  }

  absl::Status Resume() {
    std::error_code ignored;
    if (!fs::exists(progress_path_, ignored)) return absl::OkStatus();
    ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json saved, ReadJsonFile(progress_path_));
    const auto bad = [this](absl::string_view what) {
      return FailedPrecondition(
          progress_path_, ": ", what,
          "; remove this file to start again, or give the same flags and files to continue");
    };
    if (!saved.is_object() || saved.value("request", nlohmann::json()) != Request())
      return bad("is of an interrupted run with another tokenizer, other input or other flags");
    std::vector<int64_t> numbers;
    for (const char* const key : {"file", "position", "lines", "inside", "documents", "tokens"}) {
      const auto found = saved.find(key);
      if (found == saved.end() || !found->is_number_integer() || found->get<int64_t>() < 0)
        return bad(absl::StrCat("has no number \"", key, "\""));
      numbers.push_back(found->get<int64_t>());
    }
    if (static_cast<size_t>(numbers[0]) > files_.size())
      return bad("names more files than there are");
    file_ = static_cast<size_t>(numbers[0]);
    for (size_t i = 0; i < file_; ++i) bytes_before_ += sizes_[i];
    counts_.resumed_bytes = bytes_before_;
    counts_.documents = numbers[4];
    counts_.tokens = numbers[5];
    ZEROTH_RETURN_IF_ERROR_WITH(output_->Resume(saved.value("output", nlohmann::json())),
                                progress_path_);
    if (file_ == files_.size()) return absl::OkStatus();
    ZEROTH_RETURN_IF_ERROR(OpenFile());
    ZEROTH_RETURN_IF_ERROR(
        reader_->Seek(static_cast<size_t>(numbers[1]), numbers[2], numbers[3] != 0));
    counts_.resumed_bytes += static_cast<int64_t>(reader_->file_position());
    return absl::OkStatus();
  }

  absl::Status SaveProgress() {
    ZEROTH_ASSIGN_OR_RETURN(const nlohmann::json output, output_->Flush());
    const nlohmann::json progress = {
        {"request", Request()},
        {"file", file_},
        {"position", reader_ ? reader_->position() : 0},
        {"lines", reader_ ? reader_->lines() : 0},
        {"inside", reader_ && reader_->inside() ? 1 : 0},
        {"documents", counts_.documents},
        {"tokens", counts_.tokens},
        {"output", output},
    };
    // Paths need not be UTF-8.
    return ReplaceFile(progress_path_,
                       progress.dump(1, ' ', true, nlohmann::json::error_handler_t::replace));
  }

  // Returns no items at the end of the input.
  absl::StatusOr<std::vector<Item>> ReadBatch() {
    std::vector<Item> items;
    size_t item_bytes = kItemBytes;  // of the last item; this value means that the item is full
    const size_t most = options_.part_bytes * static_cast<size_t>(threads());
    for (size_t bytes = 0; bytes < most && file_ < files_.size();) {
      if (!reader_) ZEROTH_RETURN_IF_ERROR(OpenFile());
      TextPart part;
      ZEROTH_ASSIGN_OR_RETURN(const bool more, reader_->Next(&part));
      if (!more) {
        bytes_before_ += sizes_[file_];
        ++file_;
        reader_.reset();
        continue;
      }
      if (item_bytes >= kItemBytes) {
        items.emplace_back();
        item_bytes = 0;
      }
      // A document needs memory besides its text.
      const size_t size = part.text.size() + 64;
      bytes += size;
      item_bytes += size;
      if (part.ends) ++counts_.documents;
      items.back().parts.push_back(std::move(part));
    }
    counts_.bytes = bytes_before_ + (reader_ ? static_cast<int64_t>(reader_->file_position()) : 0);
    return items;
  }

  absl::Status Encode(std::vector<Item>& items) const {
    std::atomic<size_t> next = 0;
    const auto work = [&] {
      for (size_t i = next++; i < items.size(); i = next++)
        items[i].status = output_->Encode(items[i].parts, &items[i].output);
    };
    const size_t wanted = std::min<size_t>(static_cast<size_t>(threads()), items.size());
    ZEROTH_RETURN_IF_ERROR(RunOnThreads(wanted, "encoding (--threads gives fewer)", work));
    for (const Item& item : items) ZEROTH_RETURN_IF_ERROR(item.status);
    return absl::OkStatus();
  }

  const TokenizeOptions options_;
  const std::string progress_path_;
  std::string lock_path_;
  FileDescriptor lock_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::string tokenizer_checksum_;
  std::vector<DataFile> files_;
  std::vector<int64_t> sizes_;
  std::unique_ptr<DocumentOutput> output_;
  size_t file_ = 0;
  std::optional<DocumentReader> reader_;
  int64_t bytes_before_ = 0;  // of files that are done
  TokenizeCounts counts_;
};

}  // namespace

absl::StatusOr<TokenizeCounts> TokenizeFiles(
    const TokenizeOptions& options, absl::FunctionRef<absl::Status(const TokenizeCounts&)> report) {
  Job job(options);
  ZEROTH_RETURN_IF_ERROR(job.Open());
  return job.Run(report);
}

}  // namespace zeroth
