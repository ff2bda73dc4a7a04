// Scalar and vector expressions: the bodies of tensor expressions and of loop nests.
//
// Semantics. Immutable trees, shared freely. Every node has a data type: element kind and lanes (lanes > 1
// only after vectorisation). Integer arithmetic on kI64 (all indices are kI64) does not overflow by
// construction of the program; other integers wrap. floordiv and mod round towards minus infinity. Float
// arithmetic is IEEE 754 without reassociation; multiply-add pairs may be contracted to fma. Comparisons with
// NaN are false, except kNe. min/max on floats are NaN for a NaN beside a constant (passes_nan in fold.h),
// else the other operand if one is NaN (as llvm.minnum). Select evaluates both branches; Load must be in
// bounds wherever it is evaluated, so guard with if_then_else (which evaluates only the chosen branch) when
// an index may be out of bounds. Division by zero of integers is undefined.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "host/graph/type.h"

namespace gantry {

/// Element kind and number of lanes.
struct ExprType {
  DType dtype = DType::kF32;
  int lanes = 1;
  ExprType with_lanes(int n) const { return {dtype, n}; }
  friend bool operator==(const ExprType&, const ExprType&) = default;
};

enum class ExprKind : uint8_t {
  kIntImm,
  kFloatImm,
  kVar,
  kBinary,
  kUnary,
  kCall,
  kSelect,
  kCast,
  kRead,
  kLoad,
  kReduce,
  kRamp,
  kBroadcast,
  kLet,
};
enum class BinaryOp : uint8_t {
  kAdd,
  kSub,
  kMul,
  kDiv /* float, or integer towards zero */,
  kFloorDiv,
  kMod /* floor */,
  kRem /* C's % and fmod */,
  kMin,
  kMax,
  kEq,
  kNe,
  kLt,
  kLe,
  kGt,
  kGe,
  kAnd,
  kOr,
  kXor,
  kShl,
  kShr,
};
enum class UnaryOp : uint8_t { kNeg, kNot };
/// Functions of one or two arguments; codegen knows how each is computed (host/codegen/math).
enum class MathFn : uint8_t {
  kExp,
  kLog,
  kSqrt,
  kRsqrt,
  kTanh,
  kErf,
  kSigmoid,
  kPow,
  kFloor,
  kCeil,
  kRound /* half to even */,
  kTrunc,
  kAbs,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kIsNan,
  kIsInf,
  kFma /* 3 args; of f16 in f16, rounded once, where a CPU can */,
  kRoundTf32 /* f32 to the nearest value with 10 mantissa bits, ties away from zero */,
  kTruncBf16 /* f32 to bf16 toward zero, by clearing the low 16 bits; a NaN may become infinite */,
  kIfThenElse /* 3 args, lazy */,
};
enum class ReduceKind : uint8_t {
  kSum,
  kProd,
  kMax /* of the numbers, where some are NaN */,
  kMin,
  kAny,
  kAll,
  kMaxOrNan /* NaN where one of the floats is */,
  kMinOrNan,
};

struct ExprNode {
  ExprKind kind;
  ExprType type;
  virtual ~ExprNode() = default;

 protected:
  ExprNode(ExprKind k, ExprType t) : kind(k), type(t) {}
};

/// A handle; null only when default-constructed.
class Expr {
 public:
  Expr() = default;
  template <std::derived_from<ExprNode> T>
  Expr(std::shared_ptr<T> node) : node_(std::move(node)) {}  // NOLINT
  Expr(int64_t value);                                       // NOLINT: kI64 constant
  Expr(int value) : Expr(static_cast<int64_t>(value)) {}     // NOLINT
  Expr(bool) = delete;  ///< `!e` tests for null; the boolean negation is logical_not(e)
  /// Symbols of the dimension become symbol_var(name).
  Expr(const Dim& dim);  // NOLINT

  const ExprNode* get() const { return node_.get(); }
  const ExprNode* operator->() const { return node_.get(); }
  explicit operator bool() const { return node_ != nullptr; }
  bool same_as(const Expr& other) const { return node_ == other.node_; }
  ExprType type() const { return node_->type; }
  /// The node as T if it is of that kind, else null: `if (auto* add = e.as<BinaryNode>())`.
  template <typename T>
  const T* as() const {
    return node_ && T::is(node_->kind) ? static_cast<const T*>(node_.get()) : nullptr;
  }

  friend Expr operator&&(Expr a, Expr b) { return logical_and(std::move(a), std::move(b)); }
  friend Expr operator||(Expr a, Expr b) { return logical_or(std::move(a), std::move(b)); }

 private:
  static Expr logical_and(Expr a, Expr b);
  static Expr logical_or(Expr a, Expr b);
  std::shared_ptr<const ExprNode> node_;
};

#define GANTRY_EXPR_KIND(K)       \
  static bool is(ExprKind kind) { \
    return kind == ExprKind::K;   \
  }

struct IntImmNode : ExprNode {  ///< integers and bool
  GANTRY_EXPR_KIND(kIntImm)
  IntImmNode(DType t, int64_t v) : ExprNode(ExprKind::kIntImm, {t, 1}), value(v) {}
  int64_t value;
};
struct FloatImmNode : ExprNode {
  GANTRY_EXPR_KIND(kFloatImm)
  FloatImmNode(DType t, double v) : ExprNode(ExprKind::kFloatImm, {t, 1}), value(v) {}
  double value;
};
/// A variable; identity is the node's address. Symbolic dimensions are variables too (symbol_var).
struct VarNode : ExprNode, std::enable_shared_from_this<VarNode> {
  GANTRY_EXPR_KIND(kVar)
  VarNode(std::string n, ExprType t, bool symbol)
      : ExprNode(ExprKind::kVar, t), name(std::move(n)), is_symbol(symbol) {}
  std::string name;
  bool is_symbol;  ///< a symbolic dimension of the graph: >= 0, bound when the program runs
};
struct BinaryNode : ExprNode {
  GANTRY_EXPR_KIND(kBinary)
  BinaryNode(BinaryOp o, ExprType t, Expr x, Expr y)
      : ExprNode(ExprKind::kBinary, t), op(o), a(std::move(x)), b(std::move(y)) {}
  BinaryOp op;
  Expr a, b;
};
struct UnaryNode : ExprNode {
  GANTRY_EXPR_KIND(kUnary)
  UnaryNode(UnaryOp o, Expr x) : ExprNode(ExprKind::kUnary, x.type()), op(o), a(std::move(x)) {}
  UnaryOp op;
  Expr a;
};
struct CallNode : ExprNode {
  GANTRY_EXPR_KIND(kCall)
  CallNode(MathFn f, ExprType t, std::vector<Expr> x)
      : ExprNode(ExprKind::kCall, t), fn(f), args(std::move(x)) {}
  MathFn fn;
  std::vector<Expr> args;
};
struct SelectNode : ExprNode {
  GANTRY_EXPR_KIND(kSelect)
  SelectNode(Expr c, Expr t, Expr f)
      : ExprNode(ExprKind::kSelect, t.type()),
        condition(std::move(c)),
        if_true(std::move(t)),
        if_false(std::move(f)) {}
  Expr condition, if_true, if_false;
};
struct CastNode : ExprNode {  ///< float to integer truncates and saturates; to bool: != 0
  GANTRY_EXPR_KIND(kCast)
  CastNode(ExprType t, Expr x) : ExprNode(ExprKind::kCast, t), a(std::move(x)) {}
  Expr a;
};
struct LetNode : ExprNode {
  GANTRY_EXPR_KIND(kLet)
  LetNode(Expr v, Expr x, Expr b)
      : ExprNode(ExprKind::kLet, b.type()), var(std::move(v)), value(std::move(x)), body(std::move(b)) {}
  Expr var, value, body;
};

class Tensor;  // host/tensor/tensor.h
struct OperationNode;
/// Element of a tensor expression's result; only before lowering.
struct ReadNode : ExprNode {
  GANTRY_EXPR_KIND(kRead)
  ReadNode(std::shared_ptr<const OperationNode> o, int r, DType t, std::vector<Expr> i)
      : ExprNode(ExprKind::kRead, {t, 1}), op(std::move(o)), result(r), indices(std::move(i)) {}
  std::shared_ptr<const OperationNode> op;
  int result;
  std::vector<Expr> indices;
};
/// Reduction over axes (their variables occur in `value`); only as the root of a compute body.
struct ReduceNode : ExprNode {
  GANTRY_EXPR_KIND(kReduce)
  ReduceNode(ReduceKind k, Expr v, std::vector<std::shared_ptr<struct IterVar>> x, Expr c)
      : ExprNode(ExprKind::kReduce, v.type()),
        reduce(k),
        value(std::move(v)),
        axes(std::move(x)),
        condition(std::move(c)) {}
  ReduceKind reduce;
  Expr value;
  std::vector<std::shared_ptr<struct IterVar>> axes;
  Expr condition;  ///< may be null; elements where it is false do not count
};

struct BufferNode;  // host/tensor/buffer.h
/// Element of a flat buffer; only after lowering.
struct LoadNode : ExprNode {
  GANTRY_EXPR_KIND(kLoad)
  LoadNode(std::shared_ptr<const BufferNode> b, ExprType t, Expr i, Expr p)
      : ExprNode(ExprKind::kLoad, t), buffer(std::move(b)), index(std::move(i)), predicate(std::move(p)) {}
  std::shared_ptr<const BufferNode> buffer;
  Expr index;      ///< element index; lanes as the type
  Expr predicate;  ///< may be null; lanes whose predicate is false are not read and are 0
};
struct RampNode : ExprNode {  ///< base, base + stride, …
  GANTRY_EXPR_KIND(kRamp)
  RampNode(Expr b, Expr s, int n)
      : ExprNode(ExprKind::kRamp, b.type().with_lanes(n)), base(std::move(b)), stride(std::move(s)) {}
  Expr base, stride;
};
struct BroadcastNode : ExprNode {
  GANTRY_EXPR_KIND(kBroadcast)
  BroadcastNode(Expr v, int n)
      : ExprNode(ExprKind::kBroadcast, v.type().with_lanes(n)), value(std::move(v)) {}
  Expr value;
};
#undef GANTRY_EXPR_KIND

// --- building. Operands are promoted only in lanes; dtypes must agree (an integer immediate adapts).
// Constants fold on the way.
Expr make_var(std::string name, DType dtype = DType::kI64);
/// The one variable of a symbolic dimension; the same name gives the same node in the whole process.
Expr symbol_var(const std::string& name);
Expr int_imm(DType dtype, int64_t value);
Expr float_imm(DType dtype, double value);
/// 0, 1, … of any dtype.
Expr const_of(DType dtype, double value);
Expr binary(BinaryOp op, Expr a, Expr b);
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
/// Float division, or integer division towards zero.
Expr operator/(Expr a, Expr b);
Expr floordiv(Expr a, Expr b);
Expr mod(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr operator-(Expr a);
/// Boolean (or bitwise) negation. There is no operator!: `!e` tests a handle for null.
Expr logical_not(Expr a);
Expr lt(Expr a, Expr b);
Expr le(Expr a, Expr b);
Expr gt(Expr a, Expr b);
Expr ge(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr ne(Expr a, Expr b);
Expr select(Expr condition, Expr if_true, Expr if_false);
/// Lazy: the branch that is not chosen is not evaluated.
Expr if_then_else(Expr condition, Expr if_true, Expr if_false);
Expr cast(DType dtype, Expr a);
Expr call(MathFn fn, std::vector<Expr> args);
/// Identity element of a reduction.
Expr identity_of(ReduceKind kind, DType dtype);
Expr combine(ReduceKind kind, Expr a, Expr b);

/// Text with infix operators; for dumps, structural hashing and tests.
std::string to_string(const Expr& e);
std::string_view name_of(MathFn fn);
std::string_view name_of(ReduceKind kind);
bool structurally_equal(const Expr& a, const Expr& b);

/// Rewrites bottom-up; returns the same node where nothing changed. Override the hooks that matter. A node
/// shared within one tree is rewritten once (turn `memoise_` off if the result depends on where it stands).
class ExprMutator {
 public:
  virtual ~ExprMutator() = default;
  Expr mutate(const Expr& e);

 protected:
  virtual Expr mutate_var(const VarNode* node, const Expr& self);
  virtual Expr mutate_read(const ReadNode* node, const Expr& self);
  virtual Expr mutate_load(const LoadNode* node, const Expr& self);
  virtual Expr mutate_reduce(const ReduceNode* node, const Expr& self);
  virtual Expr mutate_call(const CallNode* node, const Expr& self);
  /// Every other kind: rebuilds from mutated children.
  virtual Expr mutate_default(const Expr& self);

  bool memoise_ = true;

 private:
  std::unordered_map<const ExprNode*, std::pair<Expr, Expr>> memo_;  ///< lives during the outermost mutate()
  int depth_ = 0;
};
/// Calls `visit` on every node, parents first; a shared node once.
void walk(const Expr& e, const std::function<void(const Expr&)>& visit);
/// True if the variable stands anywhere in `e`; a null `e` has none.
bool mentions(const Expr& e, const VarNode* var);
bool mentions(const Expr& e, const Expr& var);
Expr substitute(const Expr& e, const std::vector<std::pair<const VarNode*, Expr>>& bindings);

}  // namespace gantry
