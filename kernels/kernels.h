// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of training, without saying where it runs. Each operation has a folder beside this
// file: `norm/norm.h` declares its arguments and a function on Kernels, and its other files
// implement it for each device, as a plain reference, and in a suite that every device passes.
//
// What all operations have in common. They are enqueued on the kernels' stream and return at once;
// on the CPU's compute stream they are done on return. Tensors are kept alive until the stream has
// passed.
//
// Element types, unless a field says otherwise: the activations and parameters of one call share
// one dtype, fp32, bf16 or fp16; gradients of parameters (dgamma, dbeta, dbias, dtable, dpositions,
// dweight) share one of their own, and so does a product's c: fp32, or 16 bits of the call's one
// kind; statistics (mean, rstd, lse) and losses are fp32. Arithmetic is fp32 throughout, products
// add up in fp32, and each result is rounded once, to nearest even, also when it is added to what
// is there.
//
// A wrong shape, dtype or device is InvalidArgument naming operation and field. Zero-sized tensors
// are legal everywhere. Results are the same bits from run to run.

#ifndef ZEROTH_KERNELS_KERNELS_H_
#define ZEROTH_KERNELS_KERNELS_H_

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

namespace zeroth {

class CallWatch;  // call_watch.h

// What products of fp32 operands are made in; the words are those of PyTorch's
// torch.backends.cuda.matmul.fp32_precision.
enum class Fp32Precision : uint8_t {
  kIeee,  // fp32
  kTf32,  // operands rounded to 10 bits of mantissa for tensor cores (TF32, NVIDIA, 2020); sums in
          // fp32. Gemm and LinearCrossEntropy; attention stays as it is.
};

// What computes attention where a device has a choice.
enum class AttentionBackend : uint8_t {
  kAuto,   // cuDNN where it is found and has an engine for the shape, else kFlash
  kCudnn,  // or an error
  kFlash,  // our own kernels, after FlashAttention
};

struct KernelOptions {
  Fp32Precision fp32_precision = Fp32Precision::kIeee;
  AttentionBackend attention = AttentionBackend::kAuto;
  // A large product that the device's library has no algorithm for goes to a plain kernel of ours,
  // about a hundred times slower, and is one of SlowProducts(). Otherwise it is Unimplemented.
  bool allow_slow_kernels = false;
};

// Where operations run: a device, one of its streams, and what the device's operations keep from
// call to call. Not thread-safe: one per rank and stream.
class Kernels {
 public:
  virtual ~Kernels() = default;
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  Device& device() const { return device_; }
  Stream& stream() const { return stream_; }
  const KernelOptions& options() const { return options_; }

  // In words, for people: the products that KernelOptions::allow_slow_kernels has let pass so far,
  // each once.
  virtual std::vector<std::string> SlowProducts() const { return {}; }

  // Is told of every call from now on, until it is nullptr again.
  void set_watch(CallWatch* watch) { watch_ = watch; }
  CallWatch* watch() const { return watch_; }

  // What an operation keeps from call to call (a table, a library's handle), made from `args` at
  // the first call. For the device's part of an operation.
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

  // Its address tells one kind of state from another.
  template <typename State>
  static inline const char kKeyOf = 0;

  Device& device_;
  Stream& stream_;
  const KernelOptions options_;
  const int device_type_;  // the tables' number of it
  CallWatch* watch_ = nullptr;
  std::map<const void*, std::shared_ptr<void>> kept_;
};

// The tables' number of a device type, the same from its first use on.
inline constexpr int kMostDeviceTypes = 8;
int DeviceTypeNumber(absl::string_view device_type);

// The tensors that a call reads or writes.
using CallTensors = absl::Span<const Tensor* const>;

// For authors of operations: the devices' functions for one operation, whose checked arguments are
// a `Call`, a struct of numbers and pointers. Looking one up costs an array access.
template <typename Call>
class KernelTable {
 public:
  // Enqueues the operation on the stream of `kernels` and keeps `tensors` until it has passed; the
  // devices' OnCpu and OnCuda make one of a function that computes.
  using Function = absl::Status (*)(Kernels& kernels, const Call& call, CallTensors tensors);

  // Put one at namespace scope, in a target with alwayslink. A second function for a device type
  // aborts.
  struct Registration {
    Registration(absl::string_view device_type, Function function) {
      Function& entry = functions_[DeviceTypeNumber(device_type)];
      ZEROTH_CHECK(entry == nullptr);
      entry = function;
    }
  };

  // Null if the device has none.
  static Function Find(const Kernels& kernels) { return functions_[kernels.device_type_]; }

 private:
  static inline Function functions_[kMostDeviceTypes] = {};
};

// What the kernels of a device type have beyond the common.
struct KernelSupport {
  bool tf32 = false;
  bool cudnn = false;
  bool slow_kernels = false;  // to which products may go
};

// Kernels by device type. Thread-safe.
class KernelRegistry {
 public:
  using Factory = std::function<absl::StatusOr<std::unique_ptr<Kernels>>(Device&, Stream&,
                                                                         const KernelOptions&)>;
  static void Register(absl::string_view device_type, Factory factory,
                       const KernelSupport& support = {});
  // Whether kernels of this type can be made with these options, as far as is known without a
  // device. NotFound lists the device types linked in; Unimplemented names the option.
  static absl::Status Check(absl::string_view device_type, const KernelOptions& options);
  // The kernels of `device` on `stream`, which both must outlive them. The errors of Check, and
  // Unimplemented if this very device is too old for an option.
  static absl::StatusOr<std::unique_ptr<Kernels>> Create(Device& device, Stream& stream,
                                                         const KernelOptions& options = {});
  // The device types linked in, in order.
  static std::vector<std::string> DeviceTypes();
};

// Put one at namespace scope in the implementation's .cc, in a target with alwayslink.
struct KernelRegistration {
  KernelRegistration(absl::string_view device_type, KernelRegistry::Factory factory,
                     const KernelSupport& support = {}) {
    KernelRegistry::Register(device_type, std::move(factory), support);
  }
};

}  // namespace zeroth

#endif  // ZEROTH_KERNELS_KERNELS_H_
