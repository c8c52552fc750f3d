// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of training, independent of the device. Each operation has a folder beside this
// file. For example, `norm/norm.h` declares the arguments and a function that takes Kernels. The
// other files of the folder are an implementation for each device, a plain reference, and a suite
// of tests that every device passes.
//
// The rules below hold for all operations. An operation is enqueued on the kernels' stream and
// returns at once; on the CPU's compute stream it is done on return. Its tensors are kept alive
// until the stream has passed it.
//
// Element types, unless a field says otherwise: the activations and parameters of one call share
// one dtype, fp32, bf16 or fp16. The gradients of parameters (dgamma, dbeta, dbias, dtable,
// dpositions, dweight) share another dtype, and a matmul's c has one: fp32, or the 16-bit type of
// the call. Statistics (mean, rstd, lse) and losses are fp32. All arithmetic is fp32, and matmuls
// accumulate in fp32. Each result is rounded once, to nearest even, also when it is added to an old
// value.
//
// A wrong shape, dtype or device is InvalidArgument, which names the operation and the field.
// Zero-sized tensors are legal everywhere. Every operation is deterministic: its results have the
// same bits in every run, unless KernelOptions::attention_determinism allows otherwise.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/check.h"
#include "zeroth/core/device/device.h"
#include "zeroth/core/tensor/tensor.h"
#include "zeroth/kernels/matrix.h"

namespace zeroth {

// A tensor that a call of an operation reads or writes, with the name of its field.
struct CallField {
  const char* name;
  Matrix values;
};

// Observes every call of the kernels that it is set for (Kernels::set_watch), to find out which
// call produced a value or how long each took. Calls of a watched object allocate memory on the
// host, so watch for debugging and measuring only.
class CallWatch {
 public:
  virtual ~CallWatch() = default;
  // Called before `operation`, whose arguments are right, is enqueued.
  virtual void BeforeCall(const char* /*operation*/) {}
  // Called after `operation` has been enqueued. The call returns its error.
  virtual absl::Status AfterCall(const char* operation, absl::Span<const CallField> fields) = 0;
};

// The precision in which fp32 operands are multiplied. The names are those of PyTorch's
// torch.backends.cuda.matmul.fp32_precision.
enum class Fp32Precision : uint8_t {
  kIeee,  // fp32
  kTf32,  // operands rounded to 10 bits of mantissa for tensor cores (TF32, NVIDIA, 2020); sums in
          // fp32. Gemm and LinearCrossEntropy; attention stays as it is.
};

// The implementation of attention, where a device has several.
enum class AttentionBackend : uint8_t {
  kAuto,   // cuDNN if it is found and has an engine for the shape, else kFlash
  kCudnn,  // or an error
  kFlash,  // our own kernels, after FlashAttention
};

struct KernelOptions {
  Fp32Precision fp32_precision = Fp32Precision::kIeee;
  AttentionBackend attention = AttentionBackend::kAuto;
  // False: cuDNN may compute attention's backward by its faster engine, which adds to gradients of
  // queries in an order that differs from run to run. Other implementations stay deterministic.
  bool attention_determinism = true;
  // True: a large matmul for which the device's library has no algorithm is computed by our own
  // plain kernel, about a hundred times slower, and listed by SlowMatmuls(). False: it is
  // Unimplemented.
  bool allow_slow_kernels = false;
};

// The place where operations run: a device, one of its streams, and the state that operations keep
// from call to call. Not thread-safe: each rank has one for each of its streams.
class Kernels {
 public:
  virtual ~Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  Device& device() const { return device_; }
  Stream& stream() const { return stream_; }
  const KernelOptions& options() const { return options_; }

  // Describes the matmuls that slow kernels have computed so far because of
  // KernelOptions::allow_slow_kernels, each once.
  virtual std::vector<std::string> SlowMatmuls() const { return {}; }

  // Sets an observer of every later call; nullptr removes it.
  void set_watch(CallWatch* watch) { watch_ = watch; }
  CallWatch* watch() const { return watch_; }

  // Returns the state of this type that a device's implementation keeps from call to call, such as
  // a table or a library's handle. The first call constructs it from `args`.
  template <typename State, typename... Args>
  State& Kept(Args&&... args) {
    std::shared_ptr<void>& state = kept_[&kKeyOf<State>];
    if (state == nullptr) state = std::make_shared<State>(std::forward<Args>(args)...);
    return *static_cast<State*>(state.get());
  }

 protected:
  Kernels(Device& device, Stream& stream, const KernelOptions& options);

 private:
  template <typename Call>
  friend class KernelTable;

  // The address identifies a type of state.
  template <typename State>
  static inline const char kKeyOf = 0;

  Device& device_;
  Stream& stream_;
  const KernelOptions options_;
  const int device_type_;  // DeviceTypeNumber of the device's type
  CallWatch* watch_ = nullptr;
  std::map<const void*, std::shared_ptr<void>> kept_;
};

// Returns the index of a device type in kernel tables. The first call for a type assigns it.
inline constexpr int kMostDeviceTypes = 8;
int DeviceTypeNumber(absl::string_view device_type);

// The tensors that a call reads or writes.
using CallTensors = absl::Span<const Tensor* const>;

// For authors of operations: the devices' implementations of one operation. `Call`, a struct of
// numbers and pointers, holds its checked arguments. A look-up is one array access.
template <typename Call>
class KernelTable {
 public:
  // Enqueues the operation on the stream of `kernels` and keeps `tensors` alive until the stream
  // has passed it. OnCpu and OnCuda wrap a function that computes into such a function.
  using Function = absl::Status (*)(Kernels& kernels, const Call& call, CallTensors tensors);

  // Registers `function` for a device type. Define one at namespace scope, in a target with
  // alwayslink. A second registration for a device type aborts.
  struct Registration {
    Registration(absl::string_view device_type, Function function) {
      Function& entry = functions_[DeviceTypeNumber(device_type)];
      ZEROTH_CHECK(entry == nullptr);
      entry = function;
    }
  };

  // Returns the device's function, or null if it has none.
  static Function Find(const Kernels& kernels) { return functions_[kernels.device_type_]; }

 private:
  static inline Function functions_[kMostDeviceTypes] = {};
};

// Optional features that the kernels of a device type have.
struct KernelSupport {
  bool tf32 = false;
  bool cudnn = false;
  bool slow_kernels = false;  // for matmuls that the library has no algorithm for
};

// Kernels by device type. Thread-safe.
class KernelRegistry {
 public:
  using Factory = std::function<absl::StatusOr<std::unique_ptr<Kernels>>(Device&, Stream&,
                                                                         const KernelOptions&)>;
  // Checks whether kernels of this type support the options, as far as that is known without a
  // device. NotFound lists the device types that are linked in; Unimplemented names the option.
  static absl::Status Check(absl::string_view device_type, const KernelOptions& options);
  // Creates the kernels of `device` on `stream`; both must outlive them. Fails as Check does, and
  // with Unimplemented if this device is too old for an option.
  static absl::StatusOr<std::unique_ptr<Kernels>> Create(Device& device, Stream& stream,
                                                         const KernelOptions& options = {});
  // Returns the device types that are linked in, sorted.
  static std::vector<std::string> DeviceTypes();
};

// Define one at namespace scope in the implementation's .cc, in a target with alwayslink.
struct KernelRegistration {
  KernelRegistration(absl::string_view device_type, KernelRegistry::Factory factory,
                     const KernelSupport& support = {});
};

}  // namespace zeroth
