#include "host/loops/verify.h"

#include <algorithm>
#include <atomic>

#include "host/loops/loop_verifier.h"
#include "host/loops/verify_expr.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

#ifdef NDEBUG
std::atomic<bool> always = false;
#else
std::atomic<bool> always = true;
#endif

/// The head of a statement.
std::string first_line(const Stmt& s) {
  std::string text = to_string(s);
  return text.substr(0, text.find('\n'));
}

bool alike(const BufferNode& a, const BufferNode& b) {
  return a.dtype == b.dtype && a.scope == b.scope && structurally_equal(a.element_count, b.element_count);
}

}  // namespace

void LoopVerifier::refuse(const std::string& what) const {
  internal_error("kernel {}: after {}: {}{}", kernel_.name, step_, what, at_ ? ", in\n" + first_line(*at_) : "");
}

void LoopVerifier::run() {
  symbols_.insert(kernel_.symbols.begin(), kernel_.symbols.end());
  for (size_t i = 0; i < kernel_.arguments.size(); ++i) {
    declare(kernel_.arguments[i]);
    expect(kernel_.arguments[i]->scope == BufferScope::kArgument, "{} is an argument, but not declared as one",
           kernel_.arguments[i]->name);
    if (static_cast<int>(i) < kernel_.input_count) inputs_.insert(kernel_.arguments[i].get());
  }
  for (const Buffer& buffer : kernel_.scratch) {
    declare(buffer);
    expect(buffer->scope == BufferScope::kScratch, "{} is scratch, but not declared as such", buffer->name);
  }
  check(kernel_.body);
  expect(!tiles_, "tile registers are not released");
  for (const Buffer& buffer : kernel_.arguments) {
    const bool empty = constant_of(buffer->element_count) == 0;
    expect(empty || inputs_.contains(buffer.get()) || stored_.contains(buffer.get()), "nothing is stored to the output {}",
           buffer->name);
  }
}

// --- scope

void LoopVerifier::bind(const Expr& var, const char* what) {
  const auto* node = var.as<VarNode>();
  expect(node != nullptr && !node->is_symbol, "{} binds what is no variable", what);
  expect(std::ranges::find(bound_, node) == bound_.end(), "{} is bound within its own scope", node->name);
  const auto [known, fresh] = bound_names_.emplace(node->name, node);
  expect(fresh, "two variables named {} are in scope at once", node->name);
  bound_.push_back(node);
}

void LoopVerifier::unbind(const Expr& var) {
  bound_names_.erase(var.as<VarNode>()->name);
  bound_.pop_back();
  varying_.erase(var.as<VarNode>());
}

void LoopVerifier::use(const VarNode& var) const {
  if (var.is_symbol) return expect(symbols_.contains(var.name), "the symbol {} is not among the kernel's", var.name);
  const auto at = std::ranges::find(bound_, &var);
  expect(at != bound_.end(), "{} is used outside of its scope", var.name);
  const auto place = static_cast<size_t>(at - bound_.begin());
  expect(!hidden_ || place < *hidden_ || place >= shown_, "what is done once a thread depends on {}", var.name);
}

void LoopVerifier::declare(const Buffer& buffer) {
  expect(buffer != nullptr && static_cast<bool>(buffer->element_count), "a buffer without size");
  expect(alive_.insert(buffer.get()).second, "{} is declared within its own scope", buffer->name);
  const BufferNode*& named = named_[buffer->name];
  const bool two = named != nullptr && named != buffer.get();
  expect(!two || !alive_.contains(named), "two buffers named {} are in scope at once", buffer->name);
  expect(!two || alike(*named, *buffer), "{} is declared twice, for different buffers", buffer->name);
  named = buffer.get();
}

void LoopVerifier::use(const Buffer& buffer) {
  expect(buffer != nullptr, "an access without buffer");
  expect(alive_.contains(buffer.get()), "{} is used where it does not live", buffer->name);
}

// --- expressions

void LoopVerifier::check(const Expr& e) {
  if (!e) return;
  for (const auto& known : seen_)
    if (known.contains(e.get())) return;
  seen_.back().insert(e.get());
  if (typed_.insert(e.get()).second) {
    if (const auto fault = type_fault(e)) refuse(fmt::format("{}: {}", to_string(e), *fault));
  }
  check_children(e);
}

void LoopVerifier::check_children(const Expr& e) {
  switch (e->kind) {
    case ExprKind::kVar:
      return use(*e.as<VarNode>());
    case ExprKind::kBinary:
      check(e.as<BinaryNode>()->a);
      return check(e.as<BinaryNode>()->b);
    case ExprKind::kUnary:
      return check(e.as<UnaryNode>()->a);
    case ExprKind::kCall: {
      const auto* node = e.as<CallNode>();
      if (node->fn != MathFn::kIfThenElse) {
        for (const Expr& arg : node->args) check(arg);
        return;
      }
      check(node->args[0]);
      check_under(node->args[0], true, node->args[1]);
      return check_under(node->args[0], false, node->args[2]);
    }
    case ExprKind::kSelect:
      check(e.as<SelectNode>()->condition);
      check(e.as<SelectNode>()->if_true);
      return check(e.as<SelectNode>()->if_false);
    case ExprKind::kCast:
      return check(e.as<CastNode>()->a);
    case ExprKind::kLoad:
      check(e.as<LoadNode>()->index);
      check(e.as<LoadNode>()->predicate);
      return access(e.as<LoadNode>()->buffer, e.as<LoadNode>()->index, e.as<LoadNode>()->predicate, Access::kLoad);
    case ExprKind::kRamp:
      check(e.as<RampNode>()->base);
      return check(e.as<RampNode>()->stride);
    case ExprKind::kBroadcast:
      return check(e.as<BroadcastNode>()->value);
    case ExprKind::kLet: {
      const auto* node = e.as<LetNode>();
      check(node->value);
      bind(node->var, "a let");
      if (varies(node->value)) varying_.insert(node->var.as<VarNode>());
      path_.enter_let(node->var.as<VarNode>(), node->value);
      check(node->body);
      path_.leave();
      return unbind(node->var);
    }
    default:
      return;
  }
}

void LoopVerifier::check_under(const Expr& condition, bool holds, const Expr& e) {
  path_.assume(condition, holds);
  seen_.emplace_back();
  check(e);
  seen_.pop_back();
  path_.forget();
}

void LoopVerifier::check_scalar(const Expr& e, DType dtype, const char* what) {
  expect(static_cast<bool>(e), "{} is missing", what);
  expect(e.type() == ExprType{dtype, 1}, "{} is {} x {}, not {}: {}", what, name_of(e.type().dtype), e.type().lanes,
         name_of(dtype), to_string(e));
  check(e);
}

// --- accesses

void LoopVerifier::access(const Buffer& buffer, const Expr& index, const Expr& predicate, Access access) {
  use(buffer);
  if (access == Access::kStore) {
    expect(!inputs_.contains(buffer.get()), "the input {} is stored to", buffer->name);
    stored_.insert(buffer.get());
  }
  expect(static_cast<bool>(index) && index.type().dtype == DType::kI64, "the index of {} is no kI64", buffer->name);
  if (const auto outside = find_outside(path_, *buffer, index, predicate))
    refuse(fmt::format("{} outside of the buffer: {}", access == Access::kStore ? "a store" : "a load", *outside));
}

void LoopVerifier::access_run(const Buffer& buffer, const Expr& index, int64_t count, Access kind) {
  check_scalar(index, DType::kI64, "an index");
  access(buffer, index, {}, kind);
  if (count > 1) access(buffer, index + Expr(count - 1), {}, kind);
}

/// May the value differ between the threads of a block? Each has local buffers of its own.
bool LoopVerifier::varies(const Expr& e) const {
  bool found = false;
  if (!e || place_ == Place::kOutside) return found;
  walk(e, [&](const Expr& part) {
    const auto* var = part.as<VarNode>();
    const auto* load = part.as<LoadNode>();
    found = found || (var && varying_.contains(var)) || (load && load->buffer->scope == BufferScope::kLocal);
  });
  return found;
}

void verify(const LoopKernel& kernel, std::string_view step) {
  LoopVerifier(kernel, step).run();
}

bool verifies_always() {
  return always;
}

void verify_always(bool on) {
  always = on;
}

}  // namespace gantry
