// Copyright 2026 The Zeroth Authors. SPDX-License-Identifier: Apache-2.0

#include "zeroth/data/chat/jinja/render.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "zeroth/data/chat/jinja/builtins.h"

namespace zeroth {
namespace {

using Node = JinjaNode::Kind;
using Kind = JinjaValue::Kind;

// Limit on nested expressions, statements and macros.
constexpr int kMaxDepth = 400;
constexpr int kMaxValueDepth = 32;

class Renderer {
 public:
  explicit Renderer(const JinjaValue::Map& variables)
      : frames_{{variables, false}}, work_(variables) {}

  absl::StatusOr<std::string> Render(const JinjaNode& body, std::vector<JinjaSpan>* generated) && {
    Run(body);
    if (!work_.ok()) return work_.status();
    if (generated != nullptr) *generated = std::move(generated_);
    return std::move(out_);
  }

 private:
  enum class Flow { kOn, kBreak, kContinue };

  // The variables of a loop's body, of a macro, or, the first one, of the template.
  struct Frame {
    JinjaValue::Map variables;
    bool is_macro = false;
  };

  void Fail(absl::string_view what) { work_.Fail(what); }
  void Write(absl::string_view text) {
    absl::StrAppend(&out_, text);
    work_.Count(text.size());
  }
  const JinjaValue* Find(absl::string_view name) const {
    for (size_t i = frames_.size(); i-- > 0;) {
      for (const auto& [key, value] : frames_[i].variables) {
        if (key == name) return &value;
      }
      if (frames_[i].is_macro) i = 1;  // a macro sees the template's variables and its own
    }
    return nullptr;
  }

  void Put(JinjaValue::Map& map, absl::string_view name, JinjaValue value) {
    work_.Count(map.size());
    for (auto& [key, old] : map) {
      if (key != name) continue;
      old = std::move(value);
      return;
    }
    map.emplace_back(name, std::move(value));
  }
  void Set(absl::string_view name, JinjaValue value) {
    Put(frames_.back().variables, name, std::move(value));
  }

  // Namespaces are not elements of others, which could then hold themselves.
  JinjaValue AsElement(JinjaValue value) {
    if (!value.Is(Kind::kNamespace)) return value;
    Fail("a namespace in another value is not known here");
    return {};
  }

  void Assign(const JinjaNode& target, JinjaValue value) {
    if (target.kind == Node::kName) return Set(target.text, std::move(value));
    const JinjaValue object = Eval(target.kids[0]);
    if (!object.Is(Kind::kNamespace)) {
      return Fail(absl::StrCat("sets a member of ", object.KindName(), ", expected a namespace"));
    }
    Put(*object.map, target.text, AsElement(std::move(value)));
  }

  // Returns what `body` writes, instead of writing it.
  std::string Captured(const JinjaNode& body) {
    std::string outer = std::exchange(out_, "");
    ++captures_;
    Run(body);
    --captures_;
    return std::exchange(out_, std::move(outer));
  }

  void Run(const JinjaNode& node) {
    if (++depth_ > kMaxDepth) Fail("statements, expressions or macros nest too deeply");
    work_.Count();
    if (work_.ok() && flow_ == Flow::kOn) Execute(node);
    --depth_;
  }

  void RunInFrame(const JinjaNode& node) {
    frames_.push_back({});
    Run(node);
    frames_.pop_back();
  }

  void Execute(const JinjaNode& node) {
    switch (node.kind) {
      case Node::kBody:
        for (const JinjaNode& kid : node.kids) Run(kid);
        return;
      case Node::kText:
        return Write(node.text);
      case Node::kPrint:
        return Write(ToText(Eval(node.kids[0]), work_));
      case Node::kIf: {
        size_t i = 0;
        while (i + 1 < node.kids.size() && !IsTrue(Eval(node.kids[i]))) i += 2;
        if (i + 1 < node.kids.size()) ++i;
        if (i < node.kids.size()) Run(node.kids[i]);
        return;
      }
      case Node::kFor:
        return Loop(node);
      case Node::kSet:
        return Assign(node.kids[0], Eval(node.kids[1]));
      case Node::kSetBlock: {
        frames_.push_back({});
        JinjaValue value = JinjaValue::String(Captured(node.kids[1]));
        frames_.pop_back();
        return Assign(node.kids[0], std::move(value));
      }
      case Node::kMacro:
        return Set(node.text, {.kind = Kind::kMacro, .macro = &node});
      case Node::kGeneration: {
        if (captures_ > 0) {
          return Fail("{% generation %} in a macro or {% set %} is not known here");
        }
        const size_t begin = out_.size();
        const size_t earlier = generated_.size();
        RunInFrame(node.kids[0]);
        generated_.resize(earlier);  // blocks within this one
        generated_.push_back({begin, out_.size()});
        return;
      }
      case Node::kBreak:
        flow_ = Flow::kBreak;
        return;
      case Node::kContinue:
        flow_ = Flow::kContinue;
        return;
      default:
        return Fail("no statement");
    }
  }

  void Bind(const JinjaNode& loop, const JinjaValue& item) {
    if (loop.names.size() == 1) return Set(loop.names[0], item);
    const JinjaValue::List parts = ToList(item, work_);
    if (parts.size() != loop.names.size()) return Fail("a loop over lists of another length");
    for (size_t i = 0; i < parts.size(); ++i) Set(loop.names[i], parts[i]);
  }

  void Loop(const JinjaNode& node) {
    JinjaValue::List items = ToList(Eval(node.kids[0]), work_);
    if (node.kids[1].kind != Node::kNothing) {
      JinjaValue::List kept;
      for (const JinjaValue& item : items) {
        frames_.push_back({});
        Bind(node, item);
        if (work_.ok() && IsTrue(Eval(node.kids[1]))) kept.push_back(item);
        frames_.pop_back();
      }
      items = std::move(kept);
    }
    const size_t count = items.size();
    for (size_t i = 0; i < count && work_.ok() && flow_ != Flow::kBreak; ++i) {
      frames_.push_back({});
      Set("loop", LoopAt(items, i));
      Bind(node, items[i]);
      Run(node.kids[2]);
      frames_.pop_back();
      if (flow_ == Flow::kContinue) flow_ = Flow::kOn;
    }
    flow_ = Flow::kOn;
    if (count == 0 && node.kids[3].kind != Node::kNothing) RunInFrame(node.kids[3]);
  }

  JinjaValue Eval(const JinjaNode& node) {
    if (++depth_ > kMaxDepth) Fail("statements, expressions or macros nest too deeply");
    work_.set_line(node.line);
    work_.Count();
    JinjaValue value;
    if (work_.ok()) value = Evaluate(node);
    if (value.depth > kMaxValueDepth) Fail("values nest too deeply");
    --depth_;
    return value;
  }

  JinjaValue Evaluate(const JinjaNode& node) {
    const auto& kids = node.kids;
    switch (node.kind) {
      case Node::kNothing:
        return JinjaValue::Undefined("the value of an if without else");
      case Node::kString:
        work_.Count(node.text.size());
        return JinjaValue::String(node.text);
      case Node::kInteger:
        return JinjaValue::Integer(node.integer);
      case Node::kName:
        return Named(node.text);
      case Node::kList: {
        JinjaValue::List list;
        for (const JinjaNode& kid : kids) list.push_back(AsElement(Eval(kid)));
        return JinjaValue::Of(std::move(list));
      }
      case Node::kMap: {
        JinjaValue::Map map;
        for (size_t i = 0; i + 1 < kids.size(); i += 2) {
          const JinjaValue key = Eval(kids[i]);
          if (!key.Is(Kind::kString)) {
            Fail("a mapping key that is not a string");
            return {};
          }
          map.emplace_back(*key.text, AsElement(Eval(kids[i + 1])));
        }
        return MapOf(std::move(map));
      }
      case Node::kMember:
        return Member(Eval(kids[0]), node.text);
      case Node::kIndex: {
        const JinjaValue object = Eval(kids[0]);
        const JinjaValue index = Eval(kids[1]);
        if (object.Is(Kind::kNamespace)) Fail("a subscript of a namespace");
        return Element(object, index, work_);
      }
      case Node::kSlice: {
        const JinjaValue object = Eval(kids[0]);
        return Slice(object, Eval(kids[1]), Eval(kids[2]), Eval(kids[3]), work_);
      }
      case Node::kCall:
        return Call(node);
      case Node::kFilter: {
        const JinjaValue object = Eval(kids[0]);
        return ApplyFilter(node.text, object, ArgumentsOf(node), work_);
      }
      case Node::kTest: {
        const JinjaValue object = Eval(kids[0]);
        return JinjaValue::Bool(ApplyTest(node.text, object, ArgumentsOf(node), work_));
      }
      case Node::kUnary: {
        const JinjaValue value = Eval(kids[0]);
        if (node.text == "not") return JinjaValue::Bool(!IsTrue(value));
        return ApplyOperator("-", JinjaValue::Integer(0), value, work_);
      }
      case Node::kBinary: {
        JinjaValue left = Eval(kids[0]);
        if (node.text == "and") return IsTrue(left) ? Eval(kids[1]) : left;
        if (node.text == "or") return IsTrue(left) ? left : Eval(kids[1]);
        const JinjaValue right = Eval(kids[1]);
        work_.set_line(node.line);
        if (!work_.ok()) return {};
        return ApplyOperator(node.text, left, right, work_);
      }
      case Node::kChoice:
        return IsTrue(Eval(kids[1])) ? Eval(kids[0]) : Eval(kids[2]);
      default:
        Fail("no expression");
        return {};
    }
  }

  JinjaValue Named(absl::string_view name) {
    if (name == "true" || name == "True") return JinjaValue::Bool(true);
    if (name == "false" || name == "False") return JinjaValue::Bool(false);
    if (name == "none" || name == "None") return JinjaValue::None();
    if (const JinjaValue* const found = Find(name); found != nullptr) return *found;
    static constexpr absl::string_view kFunctions[] = {"namespace", "range", "dict",
                                                       "raise_exception", "strftime_now"};
    const auto* const end = std::end(kFunctions);
    if (std::find(std::begin(kFunctions), end, name) != end) return {.kind = Kind::kMacro};
    return JinjaValue::Undefined(name);
  }

  // If a member is given twice, the last one counts.
  JinjaValue MapOf(JinjaValue::Map members) {
    JinjaValue::Map map;
    for (auto& [name, value] : members) Put(map, name, AsElement(std::move(value)));
    return JinjaValue::Of(std::move(map));
  }

  JinjaValue Member(const JinjaValue& object, const std::string& name) {
    if (object.Is(Kind::kMap) && IsMapMethod(name)) {
      Fail(absl::StrCat("the method ", name, " of a mapping, without a call"));
    }
    if (object.Is(Kind::kUndefined)) {
      Fail(absl::StrCat("the member ", name, " of ",
                        object.text != nullptr ? *object.text : "a value", ", which is undefined"));
    }
    if (object.Is(Kind::kNamespace)) {
      const JinjaValue* const found = object.Find(name);
      return found != nullptr ? *found : JinjaValue::Undefined(name);
    }
    return work_.ok() ? Element(object, JinjaValue::String(name), work_) : JinjaValue();
  }

  // All kids but the first.
  JinjaArguments ArgumentsOf(const JinjaNode& node) {
    JinjaArguments arguments;
    for (size_t i = 1; i < node.kids.size(); ++i) {
      const JinjaNode& kid = node.kids[i];
      if (kid.kind == Node::kKeyword) {
        arguments.named.emplace_back(kid.text, Eval(kid.kids[0]));
      } else if (arguments.named.empty()) {
        arguments.positional.push_back(Eval(kid));
      } else {
        Fail("an argument without a name after one with a name");
      }
    }
    return arguments;
  }

  JinjaValue Call(const JinjaNode& node) {
    const JinjaNode& callee = node.kids[0];
    if (callee.kind == Node::kMember) {
      const JinjaValue object = Eval(callee.kids[0]);
      const JinjaArguments arguments = ArgumentsOf(node);
      work_.set_line(node.line);
      return work_.ok() ? CallMethod(object, callee.text, arguments, work_) : JinjaValue();
    }
    JinjaArguments arguments = ArgumentsOf(node);
    work_.set_line(node.line);
    if (!work_.ok()) return {};
    const bool is_name = callee.kind == Node::kName;
    const JinjaValue* const found = is_name ? Find(callee.text) : nullptr;
    if (found != nullptr && found->Is(Kind::kMacro)) return CallMacro(*found->macro, arguments);
    const size_t given = arguments.positional.size();
    if (found == nullptr && is_name) {
      if (callee.text == "raise_exception" && given == 1) {
        work_.Fail(absl::FailedPreconditionError(ToText(arguments.positional[0], work_)));
        return {};
      }
      if ((callee.text == "namespace" || callee.text == "dict") && given == 0) {
        JinjaValue value = MapOf(std::move(arguments.named));
        if (callee.text == "namespace") value.kind = Kind::kNamespace;
        value.depth = callee.text == "namespace" ? 0 : value.depth;
        return value;
      }
      if (callee.text == "strftime_now" && given == 1) {
        return StrftimeNow(ToText(arguments.positional[0], work_));
      }
      if (callee.text == "range") return Range(arguments, work_);
    }
    Fail(absl::StrCat("a call of ", is_name ? callee.text : "a value", " with ", given,
                      " arguments, which is not known here"));
    return {};
  }

  JinjaValue CallMacro(const JinjaNode& macro, const JinjaArguments& arguments) {
    const size_t count = macro.names.size();
    const size_t first_default = count - (macro.kids.size() - 1);
    if (arguments.positional.size() > count) Fail("too many arguments of " + macro.text);
    for (const auto& [name, value] : arguments.named) {
      if (std::find(macro.names.begin(), macro.names.end(), name) != macro.names.end()) continue;
      Fail(absl::StrCat("the argument ", name, " of ", macro.text, ", which it does not have"));
    }
    frames_.push_back({{}, /*is_macro=*/true});
    for (size_t i = 0; i < count && work_.ok(); ++i) {
      const JinjaValue* const given = arguments.Get(i, macro.names[i]);
      JinjaValue value = JinjaValue::Undefined(macro.names[i]);
      if (given == nullptr && i >= first_default) value = Eval(macro.kids[i - first_default + 1]);
      Set(macro.names[i], given != nullptr ? *given : std::move(value));
    }
    std::string text = Captured(macro.kids[0]);
    frames_.pop_back();
    return JinjaValue::String(std::move(text));
  }

  std::vector<Frame> frames_;
  std::string out_;
  int captures_ = 0;  // bodies whose text is not written
  std::vector<JinjaSpan> generated_;
  Flow flow_ = Flow::kOn;
  int depth_ = 0;
  JinjaWork work_;
};

}  // namespace

absl::StatusOr<std::string> RenderJinja(const JinjaNode& jinja, const JinjaValue::Map& variables,
                                        std::vector<JinjaSpan>* generated) {
  return Renderer(variables).Render(jinja, generated);
}

}  // namespace zeroth
