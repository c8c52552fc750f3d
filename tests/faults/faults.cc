// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Preloaded into a program, makes one of its system calls that modify files below a directory fail,
// once. Set by the environment:
//
//   ZEROTH_FAULT_UNDER   the directory, as an absolute path
//   ZEROTH_FAULT_AT      which of those calls, from 1; 0: none
//   ZEROTH_FAULT_KIND    EIO, ENOSPC, EINTR; or SHORT: writes half, without an error
//   ZEROTH_FAULT_LOG     a file elsewhere, with a line for each call (if AT is 0) or for the one
//                        that failed: its number, its name, how many writes to a metrics.jsonl came
//                        before it, its path

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

std::string Variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

struct Settings {
  const std::string under = Variable("ZEROTH_FAULT_UNDER");
  const long at = atol(Variable("ZEROTH_FAULT_AT").c_str());
  const std::string kind = Variable("ZEROTH_FAULT_KIND");
  const std::string log = Variable("ZEROTH_FAULT_LOG");
};

// Not destroyed: threads write until the end.
const Settings& Given() {
  static const Settings* const settings = new Settings;
  return *settings;
}

std::atomic<long> calls{0};
std::atomic<long> metrics_lines{0};

bool IsBelow(const std::string& path) {
  const std::string& under = Given().under;
  return !under.empty() && path.compare(0, under.size(), under) == 0;
}

std::string PathOf(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof(path));
  return length < 0 ? "" : std::string(path, static_cast<size_t>(length));
}

std::string PathAt(int directory, const char* path) {
  return path[0] == '/' || directory == AT_FDCWD ? path : PathOf(directory) + "/" + path;
}

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

enum class Verdict { kGoOn, kFail, kShort };

// Counts a call, and sets errno if it must fail.
Verdict Judge(const char* call, const std::string& path) {
  if (!IsBelow(path)) return Verdict::kGoOn;
  const int error = errno;
  const long number = ++calls;
  const long at = Given().at;
  if (at == 0 || number == at) {
    const std::string line = std::to_string(number) + " " + call + " " +
                             std::to_string(metrics_lines.load()) + " " + path + "\n";
    const int fd = Next<int(const char*, int, ...)>("open")(
        Given().log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (fd >= 0) {
      (void)!Next<ssize_t(int, const void*, size_t)>("write")(fd, line.data(), line.size());
      close(fd);
    }
  }
  errno = error;
  if (number != at) return Verdict::kGoOn;
  if (Given().kind == "SHORT") return Verdict::kShort;
  errno = Given().kind == "EIO" ? EIO : Given().kind == "ENOSPC" ? ENOSPC : EINTR;
  return Verdict::kFail;
}

bool Fails(const char* call, const std::string& path) {
  return Judge(call, path) == Verdict::kFail;
}

template <typename Write>
ssize_t JudgedWrite(const char* call, int fd, size_t size, const Write& write) {
  const std::string path = PathOf(fd);
  const Verdict verdict = Judge(call, path);
  if (verdict == Verdict::kFail) return -1;
  if (IsBelow(path) && EndsWith(path, "/metrics.jsonl")) ++metrics_lines;
  // Direct writes are of whole blocks.
  size_t part = size;
  if (verdict == Verdict::kShort && size > 1)
    part = size > 8192 ? size / 2 / 4096 * 4096 : size / 2;
  return write(part);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0 && Fails("open", path)) return -1;
  return Next<int(const char*, int, ...)>("open")(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = va_arg(arguments, mode_t);
  va_end(arguments);
  if ((flags & (O_WRONLY | O_RDWR | O_CREAT)) != 0 && Fails("open", path)) return -1;
  return Next<int(const char*, int, ...)>("open64")(path, flags, mode);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  return JudgedWrite("write", fd, size, [&](size_t part) {
    return Next<ssize_t(int, const void*, size_t)>("write")(fd, bytes, part);
  });
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  return JudgedWrite("pwrite", fd, size, [&](size_t part) {
    return Next<ssize_t(int, const void*, size_t, off_t)>("pwrite")(fd, bytes, part, offset);
  });
}

ssize_t pwrite64(int fd, const void* bytes, size_t size, off64_t offset) {
  return JudgedWrite("pwrite", fd, size, [&](size_t part) {
    return Next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64")(fd, bytes, part, offset);
  });
}

ssize_t writev(int fd, const iovec* vectors, int count) {
  if (Fails("writev", PathOf(fd))) return -1;
  return Next<ssize_t(int, const iovec*, int)>("writev")(fd, vectors, count);
}

int fsync(int fd) { return Fails("fsync", PathOf(fd)) ? -1 : Next<int(int)>("fsync")(fd); }

int fdatasync(int fd) {
  return Fails("fdatasync", PathOf(fd)) ? -1 : Next<int(int)>("fdatasync")(fd);
}

int ftruncate(int fd, off_t size) noexcept {
  return Fails("ftruncate", PathOf(fd)) ? -1 : Next<int(int, off_t)>("ftruncate")(fd, size);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
  if (Fails("fallocate", PathOf(fd))) return -1;
  return Next<int(int, int, off_t, off_t)>("fallocate")(fd, mode, offset, size);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
  if (Fails("fallocate", PathOf(fd))) return -1;
  return Next<int(int, int, off64_t, off64_t)>("fallocate64")(fd, mode, offset, size);
}

int rename(const char* from, const char* to) noexcept {
  return Fails("rename", to) ? -1 : Next<int(const char*, const char*)>("rename")(from, to);
}

int renameat2(int from_in, const char* from, int to_in, const char* to, unsigned flags) noexcept {
  if (Fails("rename", PathAt(to_in, to))) return -1;
  return Next<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_in, from, to_in,
                                                                              to, flags);
}

int unlink(const char* path) noexcept {
  return Fails("unlink", path) ? -1 : Next<int(const char*)>("unlink")(path);
}

int unlinkat(int in, const char* path, int flags) noexcept {
  if (Fails("unlink", PathAt(in, path))) return -1;
  return Next<int(int, const char*, int)>("unlinkat")(in, path, flags);
}

int remove(const char* path) noexcept {
  return Fails("unlink", path) ? -1 : Next<int(const char*)>("remove")(path);
}

int rmdir(const char* path) noexcept {
  return Fails("unlink", path) ? -1 : Next<int(const char*)>("rmdir")(path);
}

int mkdir(const char* path, mode_t mode) noexcept {
  return Fails("mkdir", path) ? -1 : Next<int(const char*, mode_t)>("mkdir")(path, mode);
}

int link(const char* from, const char* to) noexcept {
  return Fails("link", to) ? -1 : Next<int(const char*, const char*)>("link")(from, to);
}

int symlink(const char* target, const char* path) noexcept {
  return Fails("symlink", path) ? -1 : Next<int(const char*, const char*)>("symlink")(target, path);
}

char* mkdtemp(char* pattern) noexcept {
  return Fails("mkdir", pattern) ? nullptr : Next<char*(char*)>("mkdtemp")(pattern);
}

}  // extern "C"
