// An expression compiled to operations on blocks of elements; the engine of interpret().
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "host/graph/graph.h"
#include "host/tensor/tensor.h"

namespace gantry {

/// Evaluates one expression for up to kBlock values of the innermost axis at a time. Everything that does not depend
/// on that axis is computed once a block; everything that does not depend on reduction axes, once a point.
/// Floats are computed in double and rounded to their type after every operation, which for + - * / and sqrt on
/// f32 gives exactly the f32 result. Reads are clamped into their tensor: the branch that an if_then_else does not
/// choose is evaluated too, and its value dropped.
class VectorProgram {
 public:
  static constexpr int kBlock = 256;

  /// `inner`: the axis that varies inside a block; may be null. Tensors read must be in `data`.
  VectorProgram(const Expr& body, const Expr& inner, const std::vector<Expr>& reduce_vars,
                const std::map<const OperationNode*, std::vector<ConstantPtr>>& data);

  /// Registers of one thread.
  struct Frame {
    std::vector<double> floats;
    std::vector<int64_t> ints;
  };
  Frame make_frame() const;
  /// Sets an axis other than `inner`.
  void set_axis(Frame& frame, const Expr& var, int64_t value) const;
  /// Evaluates what does not depend on reduction axes, for `count` values of the inner axis from `begin`.
  void run_outer(Frame& frame, int64_t begin, int count) const { run(frame, begin, count, false); }
  /// Evaluates the rest.
  void run_reduction(Frame& frame, int64_t begin, int count) const { run(frame, begin, count, true); }

  bool result_is_float() const { return steps_.back().is_float; }
  /// The result: value i at [i * stride].
  const double* float_result(const Frame& frame) const { return &frame.floats[slot(steps_.size() - 1)]; }
  const int64_t* int_result(const Frame& frame) const { return &frame.ints[slot(steps_.size() - 1)]; }
  int result_stride() const { return steps_.back().varies ? 1 : 0; }

 private:
  enum class Kind : uint8_t { kConstant, kAxis, kInner, kBinary, kUnary, kCall, kSelect, kCast, kRead };
  struct Step {
    Kind kind = Kind::kConstant;
    DType dtype = DType::kI64;
    bool is_float = false;
    bool varies = false;   ///< along the inner axis
    bool reduces = false;  ///< depends on a reduction axis
    int op = 0;            ///< BinaryOp, UnaryOp or MathFn
    int a = -1, b = -1, c = -1;
    ConstantPtr source;    ///< kRead; `a` is the flat index
    int64_t int_value = 0;
    double float_value = 0;
  };

  static size_t slot(size_t step) { return step * kBlock; }
  int compile(const Expr& e);
  int compile_read(const ReadNode& read);
  int add(Step step);
  int add_int_binary(BinaryOp op, int a, int b);
  int add_int(int64_t value);
  void run(Frame& frame, int64_t begin, int count, bool reduction) const;
  void execute(Frame& frame, size_t index, int count) const;
  void execute_binary(Frame& frame, size_t index, int count) const;
  void execute_call(Frame& frame, size_t index, int count) const;
  void execute_select(Frame& frame, size_t index, int count) const;
  void execute_cast(Frame& frame, size_t index, int count) const;
  void execute_read(Frame& frame, size_t index, int count) const;

  Expr inner_;
  std::vector<Expr> reduce_vars_;
  const std::map<const OperationNode*, std::vector<ConstantPtr>>& data_;
  std::vector<Step> steps_;
  std::map<const ExprNode*, int> known_;
  std::map<const VarNode*, int> axes_;
  std::vector<Expr> keep_alive_;
};

}  // namespace gantry
