// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0
//
// Modules: named parameters, children, and hooks around forward and backward, through which
// sharding works without changes to a model.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "zeroth/core/base/dtype.h"
#include "zeroth/core/base/status_macros.h"
#include "zeroth/core/tensor/parameter.h"
#include "zeroth/nn/kept_outputs.h"
#include "zeroth/nn/tape.h"

namespace zeroth {

// Called around a module's computation. `recording` is true if a backward will follow.
class ModuleHooks {
 public:
  virtual ~ModuleHooks() = default;
  virtual absl::Status BeforeForward(bool recording) = 0;
  virtual absl::Status AfterForward(bool recording) = 0;
  virtual absl::Status BeforeBackward() = 0;
  virtual absl::Status AfterBackward() = 0;
  // Called after a forward or backward that includes the module has failed or was dropped.
  virtual void AfterError() = 0;
  // The types that the module's inputs and outputs are cast to; std::nullopt: they stay as they
  // are.
  virtual std::optional<DType> input_dtype() const { return std::nullopt; }
  virtual std::optional<DType> output_dtype() const { return std::nullopt; }
};

// A part of a model. It declares parameters with their shapes and initializers. Sharding gives them
// storage later, so building a model of any size allocates nothing. Neither copyable nor movable.
// Used by one rank's thread only.
class Module {
 public:
  // `name` is the full name, as in "transformer.h.0.attn"; "" for a root without a prefix.
  explicit Module(std::string name) : name_(std::move(name)) {}
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  const std::string& name() const { return name_; }
  // The module's role, for code that treats the parts of models differently. By default, each
  // repeated block is a unit, and so are the experts of each layer.
  enum class Role : uint8_t { kOther, kBlock, kExperts, kAttention, kMlp, kNorm };
  virtual Role role() const { return Role::kOther; }
  bool is_block() const { return role() == Role::kBlock; }

  // The parameters that this module itself uses, shared ones included.
  absl::Span<Parameter* const> own_parameters() const { return own_parameters_; }
  absl::Span<Module* const> children() const { return child_pointers_; }
  // All parameters of this module and its descendants, each once, in order of declaration.
  std::vector<Parameter*> Parameters() const;
  // The number of their elements.
  int64_t ParameterCount() const;

  // Only a module whose forward is HookedOne can recompute.
  using Recomputes = zeroth::Recomputes;
  void set_recomputes(Recomputes what) { recomputes_ = what; }

  // `hooks` outlives the module's use; nullptr removes the hooks.
  void set_hooks(ModuleHooks* hooks) { hooks_ = hooks; }

 protected:
  // Declares a parameter named name() + "." + suffix, which this module owns.
  Parameter* AddParameter(absl::string_view suffix, Shape shape, Initializer initializer,
                          DType dtype = DType::kFloat32);
  // Declares that this module also uses a parameter that another one owns (tied weights).
  void ShareParameter(Parameter* parameter) { own_parameters_.push_back(parameter); }
  template <typename M>
  M* AddChild(std::unique_ptr<M> child) {
    M* pointer = child.get();
    child_pointers_.push_back(pointer);
    children_.push_back(std::move(child));
    return pointer;
  }
  // name() + "." + suffix, or the suffix alone under an unnamed root.
  std::string Scoped(absl::string_view suffix) const;

  // Runs `body`, which returns an absl::StatusOr, between the hooks. Every public forward of every
  // module must use this, or the module could not be a unit.
  template <typename Body>
  auto Hooked(Context& context, Body&& body) -> decltype(body()) {
    if (hooks_ == nullptr) return body();
    const bool recording = context.recording();
    const absl::Status entered = EnterForward(context, recording);
    auto result = entered.ok() ? body() : decltype(body())(entered);
    if (result.ok()) {
      if (const absl::Status left = LeaveForward(context, recording); !left.ok()) result = left;
    }
    if (!result.ok()) {
      // From here on, the records of this pass, and of earlier ones without a backward, lack their
      // units.
      context.tape().Clear();
      hooks_->AfterError();
    }
    return result;
  }

  // Like Hooked, for a module that maps one activation to another and that backward may recompute:
  // `body` may be kept until then, so what it refers to must live as long as the module.
  using OneToOne = std::function<absl::StatusOr<Value>(Context& context, const Value& x)>;
  absl::StatusOr<Value> HookedOne(Context& context, const Value& x, const OneToOne& body);

  // True in a recomputed forward if backward does not read this module's result, so that its body
  // may skip its last operation. Calling this is optional: other modules compute the result.
  bool MaySkipResult(const Context& context) const {
    return context.unread_result() == this && context.recording();
  }
  // Declares, while the returned object exists, that `child`'s result is the result of this
  // module's body, so that `child` may skip it as well. Call this around the child's forward, and
  // only if nothing but the caller reads the child's result, or only an AddOp that makes this
  // module's result and gets !MaySkipResult(context) as `is_read`.
  ScopedValue<const Module*> MakesResult(Context& context, const Module& child) const {
    const bool is_unread = context.unread_result() == this && !child.CastsOutput();
    return context.UseUnreadResult(is_unread ? &child : nullptr);
  }

  // For bodies that do not use HookedOne: cast an input, or an output, to the type that the hooks
  // ask for. An undefined activation stays undefined.
  absl::StatusOr<Value> CastInput(Context& context, const Value& x) const;
  absl::StatusOr<Value> CastOutput(Context& context, const Value& x) const;

 private:
  bool CastsOutput() const { return hooks_ != nullptr && hooks_->output_dtype().has_value(); }
  absl::Status EnterForward(Context& context, bool recording);
  absl::Status LeaveForward(Context& context, bool recording);

  std::string name_;
  std::vector<std::unique_ptr<Parameter>> owned_parameters_;
  std::vector<Parameter*> own_parameters_;
  std::vector<std::unique_ptr<Module>> children_;
  std::vector<Module*> child_pointers_;
  ModuleHooks* hooks_ = nullptr;
  Recomputes recomputes_ = Recomputes::kNothing;
};

// Returns the modules of type M, such as const Linear, among `root` and its descendants, parents
// before children.
template <typename M>
std::vector<M*> ModulesOf(std::conditional_t<std::is_const_v<M>, const Module, Module>& root) {
  std::vector<M*> found;
  if (auto* const own = dynamic_cast<M*>(&root)) found.push_back(own);
  for (Module* child : root.children()) {
    for (M* below : ModulesOf<M>(*child)) found.push_back(below);
  }
  return found;
}

}  // namespace zeroth
