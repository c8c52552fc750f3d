// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/kernels/attention/cudnn.h"

#if defined(ZEROTH_HAS_CUDNN)

#include <cudnn_frontend.h>
#include <dlfcn.h>

#include <exception>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "zeroth/core/base/status_macros.h"
#include "zeroth/kernels/attention/cudnn_limits.h"

namespace cudnn_frontend {
// The dlopen handle of cuDNN. cudnn-frontend declares it and expects the program to define it.
void* cudnn_dlhandle = nullptr;
}  // namespace cudnn_frontend

namespace zeroth::cuda {
namespace {

namespace fe = cudnn_frontend;

// Identifiers of the graph's inputs and outputs, to which Enqueue assigns addresses.
enum Uid : int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOut,
  kLse,
  kDout,
  kDquery,
  kDkey,
  kDvalue,
};

absl::Status Unsupported(absl::string_view what, absl::string_view words) {
  // cuDNN's message is long, since it mentions every engine that it tried. The beginning says the
  // most.
  constexpr size_t kMostWords = 300;
  std::string line = absl::StrReplaceAll(absl::StripAsciiWhitespace(words), {{"\n", " "}});
  if (line.size() > kMostWords) line = absl::StrCat(line.substr(0, kMostWords), " ...");
  return Unimplemented("cuDNN: ", what, ": ", line);
}

// Loads the library once for the process.
const absl::Status& Load() {
  static const absl::Status* const loaded = [] {
    fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (fe::cudnn_dlhandle == nullptr) {
      const char* const error = dlerror();
      return new absl::Status(Unsupported("not found", error != nullptr ? error : "no reason"));
    }
    try {
      const size_t version = fe::detail::get_backend_version();
      if (version < Cudnn::kLeastVersion) {
        return new absl::Status(Unsupported(
            "too old",
            absl::StrCat("version ", version, ", expected ", Cudnn::kLeastVersion, " or later")));
      }
    } catch (const std::exception& error) {
      return new absl::Status(Unsupported("not usable", error.what()));
    }
    return new absl::Status();
  }();
  return *loaded;
}

// Returns the strides of [batch, heads, seq, head_dim] if each token has `width` elements.
std::vector<int64_t> Strides(const AttentionShape& shape, int64_t width) {
  return {shape.seq * width, shape.head_dim, width, 1};
}

// Builds the graph of one pass, with the layouts of AttentionArgs and AttentionBackwardArgs.
class GraphBuilder {
 public:
  GraphBuilder(const CudnnAttentionKey& key, fe::graph::Graph& graph)
      : key_(key), shape_(key.shape), graph_(graph) {
    graph_
        .set_io_data_type(key.dtype == DType::kFloat16 ? fe::DataType_t::HALF
                                                       : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  void Forward() {
    auto options = fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(true)
                       .set_attn_scale(scale());
    SetCausal(options);
    auto [out, lse] = graph_.sdpa(Packed(kQuery, shape_.heads), Packed(kKey, shape_.kv_heads),
                                  Packed(kValue, shape_.kv_heads), std::move(options));
    SetOutput(out, kOut, shape_.heads, out_width());
    lse->set_output(true).set_uid(kLse).set_data_type(fe::DataType_t::FLOAT);
  }

  void Backward() {
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("attention_backward")
                       .set_deterministic_algorithm(key_.deterministic)
                       .set_attn_scale(scale());
    SetCausal(options);
    // Versions before 9.26 need a packed lse. It is packed even for some of the heads, because
    // these belong to one sequence, so that the batch stride has no meaning.
    const auto lse = graph_.tensor(fe::graph::Tensor_attributes()
                                       .set_name("lse")
                                       .set_uid(kLse)
                                       .set_data_type(fe::DataType_t::FLOAT)
                                       .set_dim({shape_.batch, shape_.heads, shape_.seq, 1})
                                       .set_stride({shape_.heads * shape_.seq, shape_.seq, 1, 1}));
    auto [dquery, dkey, dvalue] = graph_.sdpa_backward(
        Packed(kQuery, shape_.heads), Packed(kKey, shape_.kv_heads),
        Packed(kValue, shape_.kv_heads), Input(kOut, shape_.heads, out_width()),
        Input(kDout, shape_.heads, out_width()), lse, std::move(options));
    SetOutput(dquery, kDquery, shape_.heads, key_.packed_dim());
    SetOutput(dkey, kDkey, shape_.kv_heads, key_.packed_dim());
    SetOutput(dvalue, kDvalue, shape_.kv_heads, key_.packed_dim());
  }

 private:
  using TensorPointer = std::shared_ptr<fe::graph::Tensor_attributes>;

  float scale() const { return shape_.score_scale(); }
  int64_t out_width() const { return key_.all_heads * shape_.head_dim; }

  template <typename Options>
  static void SetCausal(Options& options) {
    options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT)
        .set_diagonal_band_right_bound(0);
  }

  TensorPointer Input(Uid uid, int64_t heads, int64_t width) {
    return graph_.tensor(fe::graph::Tensor_attributes()
                             .set_name(absl::StrCat("input", static_cast<int64_t>(uid)))
                             .set_uid(uid)
                             .set_dim({shape_.batch, heads, shape_.seq, shape_.head_dim})
                             .set_stride(Strides(shape_, width)));
  }
  TensorPointer Packed(Uid uid, int64_t heads) { return Input(uid, heads, key_.packed_dim()); }

  void SetOutput(const TensorPointer& tensor, Uid uid, int64_t heads, int64_t width) const {
    tensor->set_output(true)
        .set_uid(uid)
        .set_dim({shape_.batch, heads, shape_.seq, shape_.head_dim})
        .set_stride(Strides(shape_, width));
  }

  const CudnnAttentionKey& key_;
  const AttentionShape& shape_;
  fe::graph::Graph& graph_;
};

class Plan : public CudnnAttentionPlan {
 public:
  // `handle` is null if the device is only described.
  Plan(const CudnnAttentionKey& key, std::shared_ptr<fe::graph::Graph> graph, cudnnHandle_t handle,
       size_t workspace_bytes)
      : key_(key), graph_(std::move(graph)), handle_(handle), workspace_bytes_(workspace_bytes) {}

  size_t workspace_bytes() const override { return workspace_bytes_; }

  absl::Status Enqueue(const CudnnAttentionPointers& pointers, void* workspace) override {
    if (handle_ == nullptr) {
      return absl::FailedPreconditionError(
          "cuDNN: this plan is for a device that was only described");
    }
    std::unordered_map<int64_t, void*> pack;
    pack[kOut] = Head(pointers.out, pointers.first_head);
    pack[kLse] = pointers.lse + pointers.first_head * key_.shape.seq;
    // The library takes pointers to its inputs as non-const, too.
    AddHeads(kQuery, const_cast<void*>(pointers.qkv), pointers, pack);
    if (key_.pass == AttentionPass::kBackward) {
      pack[kDout] = Head(const_cast<void*>(pointers.dout), pointers.first_head);
      AddHeads(kDquery, pointers.dqkv, pointers, pack);
    }
    try {
      fe::error_t error = graph_->execute(handle_, pack, workspace);
      if (error.is_good()) return absl::OkStatus();
      return absl::InternalError(absl::StrCat("cuDNN: attention failed: ", error.get_message()));
    } catch (const std::exception& error) {
      return absl::InternalError(absl::StrCat("cuDNN: attention failed: ", error.what()));
    }
  }

 private:
  void* Head(void* heads, int64_t head) const {
    return static_cast<char*>(heads) +
           head * key_.shape.head_dim * static_cast<int64_t>(SizeOf(key_.dtype));
  }
  // A token's queries, keys and values lie side by side. `first` is the identifier of the queries.
  void AddHeads(int64_t first, void* packed, const CudnnAttentionPointers& pointers,
                std::unordered_map<int64_t, void*>& pack) const {
    const int64_t key = key_.all_heads + pointers.first_kv_head;
    pack[first] = Head(packed, pointers.first_head);
    pack[first + 1] = Head(packed, key);
    pack[first + 2] = Head(packed, key + key_.all_kv_heads);
  }

  const CudnnAttentionKey key_;
  const std::shared_ptr<fe::graph::Graph> graph_;
  const cudnnHandle_t handle_;
  const size_t workspace_bytes_;
};

class LoadedCudnn : public Cudnn {
 public:
  LoadedCudnn(int compute_capability, cudnnHandle_t handle,
              std::shared_ptr<const fe::DeviceProperties> description)
      : compute_capability_(compute_capability),
        handle_(handle),
        description_(std::move(description)) {
    const size_t version = fe::detail::get_backend_version();
    version_ = absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
  }
  ~LoadedCudnn() override {
    if (handle_ != nullptr) (void)fe::detail::destroy_handle(handle_);
  }

  const std::string& version() const override { return version_; }

  absl::StatusOr<std::unique_ptr<CudnnAttentionPlan>> MakePlan(
      const CudnnAttentionKey& key) override {
    ZEROTH_RETURN_IF_ERROR(CheckCudnnAttention(key.shape, key.dtype, key.packed_documents));
    try {
      return MakeGraph(key);
    } catch (const std::exception& error) {
      return Unsupported("attention", error.what());
    }
  }

 private:
  absl::StatusOr<std::unique_ptr<CudnnAttentionPlan>> MakeGraph(const CudnnAttentionKey& key) {
    auto graph = std::make_shared<fe::graph::Graph>();
    graph->set_sm_version(compute_capability_);
    if (description_ != nullptr) graph->set_device_properties(description_);
    GraphBuilder builder(key, *graph);
    if (key.pass == AttentionPass::kBackward) {
      builder.Backward();
    } else {
      builder.Forward();
    }
    fe::error_t error = graph->validate();
    if (error.is_good()) error = graph->build_operation_graph(handle_);
    if (error.is_good()) error = graph->create_execution_plans({fe::HeurMode_t::A});
    if (error.is_good()) error = graph->check_support();
    if (error.is_good()) error = graph->build_plans();
    int64_t workspace = 0;
    if (error.is_good()) error = graph->get_workspace_size(workspace);
    if (error.is_bad()) return Unsupported("attention", error.get_message());
    return std::make_unique<Plan>(key, std::move(graph), handle_, static_cast<size_t>(workspace));
  }

  const int compute_capability_;
  const cudnnHandle_t handle_;
  const std::shared_ptr<const fe::DeviceProperties> description_;
  std::string version_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Cudnn>> Cudnn::Create(cudaStream_t stream, int compute_capability) {
  ZEROTH_RETURN_IF_ERROR(Load());
  try {
    // cudnn-frontend clears some workspaces with the CUDA runtime, which it loads itself; this
    // loads it now.
    (void)fe::detail::get_cuda_symbol(fe::detail::CudaLibrary::CUDART, "cudaMemsetAsync");
    cudnnHandle_t handle = nullptr;
    if (const cudnnStatus_t status = fe::detail::create_handle(&handle);
        status != CUDNN_STATUS_SUCCESS) {
      return Unsupported("cudnnCreate", fe::detail::get_error_string(status));
    }
    auto cudnn = std::make_unique<LoadedCudnn>(compute_capability, handle, nullptr);
    if (const cudnnStatus_t status = fe::detail::set_stream(handle, stream);
        status != CUDNN_STATUS_SUCCESS) {
      return Unsupported("cudnnSetStream", fe::detail::get_error_string(status));
    }
    return cudnn;
  } catch (const std::exception& error) {
    return Unsupported("not usable", error.what());
  }
}

absl::StatusOr<std::unique_ptr<Cudnn>> Cudnn::CreateForDescription(absl::string_view json,
                                                                   int compute_capability) {
  ZEROTH_RETURN_IF_ERROR(Load());
  try {
    auto description = std::make_shared<fe::DeviceProperties>();
    fe::error_t error = description->deserialize({json.begin(), json.end()});
    if (error.is_bad()) {
      return InvalidArgument("cuDNN: description of a device: ", error.get_message());
    }
    return std::make_unique<LoadedCudnn>(compute_capability, nullptr, std::move(description));
  } catch (const std::exception& error) {
    return Unsupported("not usable", error.what());
  }
}

}  // namespace zeroth::cuda

#else

namespace zeroth::cuda {
namespace {

absl::Status BuiltWithout() {
  return absl::UnimplementedError(
      "cuDNN: this program was built without it (its headers, or those of cudnn-frontend, were not "
      "found; ./bazelw build --config=cuda fetches the latter)");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cudnn>> Cudnn::Create(cudaStream_t, int) { return BuiltWithout(); }

absl::StatusOr<std::unique_ptr<Cudnn>> Cudnn::CreateForDescription(absl::string_view, int) {
  return BuiltWithout();
}

}  // namespace zeroth::cuda

#endif
