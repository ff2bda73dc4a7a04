// Normalisations read their input once where a row fits on the chip, twice otherwise, whatever is fused with
// them.
#include "host/loops/stmt.h"
#include "host/ops/norm.h"
#include "host/targets/common/schedule_rules.h"
#include "tests/targets/cuda/one_op.h"

namespace gantry {
namespace {

using test::attrs_of;

/// Counts the loads from a buffer by all threads of a kernel, as guards let them through in the first block
/// of every launch.
class CountLoads {
 public:
  explicit CountLoads(const BufferNode* buffer) : buffer_(buffer) {}

  double in(const Stmt& s) {
    if (!s || !occurs(s)) return 0;
    double count = 0;
    if (auto* node = s.as<BlockNode>()) {
      for (const Stmt& each : node->statements) count += in(each);
    } else if (auto* node = s.as<StoreNode>()) {
      count = in(node->index) + in(node->value);
    } else if (auto* node = s.as<ForNode>()) {
      const int64_t low = value(node->low);
      count = over(node->var, low, low + value(node->extent), node->body);
    } else if (auto* node = s.as<IfNode>()) {
      count = in(value(node->condition) ? node->then_case : node->else_case);
    } else if (auto* node = s.as<AllocateNode>()) {
      count = in(node->body);
    } else if (auto* node = s.as<LetStmtNode>()) {
      count = in(node->value) + over(node->var, value(node->value), value(node->value) + 1, node->body);
    } else if (auto* node = s.as<ShuffleNode>()) {
      count = in(node->value);
    } else if (auto* node = s.as<LaunchNode>()) {
      double blocks = 1;
      for (size_t d = 0; d < 3; ++d) {
        if (node->block_vars[d]) variables_[node->block_vars[d].as<VarNode>()] = 0;
        if (node->grid[d]) blocks *= static_cast<double>(value(node->grid[d]));
      }
      count = blocks * over(node->thread_var, 0, node->threads, node->body);
    }
    return count;
  }

 private:
  double over(const Expr& var, int64_t from, int64_t to, const Stmt& body) {
    double count = 0;
    for (int64_t i = from; i < to; ++i) {
      variables_[var.as<VarNode>()] = i;
      count += in(body);
    }
    return count;
  }
  bool occurs(const Stmt& s) {
    auto [known, added] = occurs_.try_emplace(s.get(), false);
    if (added) {
      bool found = false;
      walk(
          s, [](const Stmt&) {},
          [&](const Expr& e) {
            auto* load = e.as<LoadNode>();
            found = found || (load && load->buffer.get() == buffer_);
          });
      occurs_[s.get()] = found;
      return found;
    }
    return known->second;
  }
  double in(const Expr& e) {
    if (auto* load = e.as<LoadNode>())
      return load->buffer.get() == buffer_ && (!load->predicate || value(load->predicate)) ? load->type.lanes
                                                                                           : 0;
    if (auto* call = e.as<CallNode>(); call && call->fn == MathFn::kIfThenElse)
      return in(call->args[value(call->args[0]) ? 1 : 2]);
    double count = 0;
    if (auto* node = e.as<CallNode>()) {
      for (const Expr& each : node->args) count += in(each);
    } else if (auto* node = e.as<BinaryNode>()) {
      // The same element: one load.
      count = in(node->a) + (structurally_equal(node->a, node->b) ? 0 : in(node->b));
    } else if (auto* node = e.as<UnaryNode>()) {
      count = in(node->a);
    } else if (auto* node = e.as<CastNode>()) {
      count = in(node->a);
    } else if (auto* node = e.as<SelectNode>()) {
      count = in(node->if_true) + in(node->if_false);
    } else if (auto* node = e.as<LetNode>()) {
      count = in(node->value) + in(node->body);
    } else if (auto* node = e.as<BroadcastNode>()) {
      count = in(node->value);
    }
    return count;
  }
  /// Of an index or a condition.
  int64_t value(const Expr& e) const {
    if (auto* imm = e.as<IntImmNode>()) return imm->value;
    if (auto* var = e.as<VarNode>()) return variables_.at(var);
    if (auto* node = e.as<CastNode>()) return value(node->a);
    if (auto* node = e.as<UnaryNode>()) return node->op == UnaryOp::kNeg ? -value(node->a) : !value(node->a);
    if (auto* node = e.as<BroadcastNode>()) return value(node->value);
    if (auto* node = e.as<SelectNode>())
      return value(value(node->condition) ? node->if_true : node->if_false);
    auto* node = e.as<BinaryNode>();
    if (!node) throw std::runtime_error("not an index: " + to_string(e));
    const int64_t a = value(node->a), b = value(node->b);
    switch (node->op) {
      case BinaryOp::kAdd:
        return a + b;
      case BinaryOp::kSub:
        return a - b;
      case BinaryOp::kMul:
        return a * b;
      case BinaryOp::kDiv:
        return a / b;
      case BinaryOp::kFloorDiv:
        return (a - ((a % b) + b) % b) / b;
      case BinaryOp::kMod:
        return ((a % b) + b) % b;
      case BinaryOp::kMin:
        return std::min(a, b);
      case BinaryOp::kMax:
        return std::max(a, b);
      case BinaryOp::kEq:
        return a == b;
      case BinaryOp::kNe:
        return a != b;
      case BinaryOp::kLt:
        return a < b;
      case BinaryOp::kLe:
        return a <= b;
      case BinaryOp::kGt:
        return a > b;
      case BinaryOp::kGe:
        return a >= b;
      case BinaryOp::kAnd:
        return a && b;
      case BinaryOp::kOr:
        return a || b;
      default:
        throw std::runtime_error("not an index: " + to_string(e));
    }
  }

  const BufferNode* buffer_;
  std::map<const VarNode*, int64_t> variables_;
  std::map<const StmtNode*, bool> occurs_;
};

enum class Norm { kInstance, kGroup, kLayer };

struct Kernel {
  std::vector<Tensor> outputs, inputs;
};

/// relu(norm(x) + residual), as fusion gives it to the rules.
Kernel normalisation(Norm norm, const std::vector<int64_t>& shape, bool last) {
  Function function("main");
  const int64_t channels = norm == Norm::kLayer ? shape.back() : last ? shape.back() : shape[1];
  std::vector<Value*> values;
  Kernel kernel;
  for (const auto& each : {shape, std::vector<int64_t>{channels}, std::vector<int64_t>{channels}}) {
    values.push_back(function.add_parameter("x", {DType::kF32, {each.begin(), each.end()}}));
    kernel.inputs.push_back(placeholder({each.begin(), each.end()}, DType::kF32, "x"));
  }
  std::shared_ptr<Attrs> attrs = attrs_of<GroupNormAttrs>([&](auto& a) {
    a.channels_last = last;
    a.groups = norm == Norm::kGroup ? 4 : 1;
  });
  if (norm == Norm::kLayer) attrs = attrs_of<LayerNormAttrs>([&](auto& a) { a.axis = 1; });
  const char* name = norm == Norm::kLayer      ? "nn.layer_norm"
                     : norm == Norm::kInstance ? "nn.instance_norm"
                                               : "nn.group_norm";
  Node* node = infer_and_add(function, *op_set().find(name), attrs, values, {});
  Tensor y = op_def(*node).compute(*node, kernel.inputs)[0];
  kernel.inputs.push_back(placeholder(y.shape(), DType::kF32, "residual"));
  Tensor sum = compute(
      y.shape(), [&](const std::vector<Expr>& i) { return y(i) + kernel.inputs.back()(i); }, "add");
  kernel.outputs = {compute(
      y.shape(), [&](const std::vector<Expr>& i) { return max(sum(i), float_imm(DType::kF32, 0)); }, "relu")};
  return kernel;
}

/// How often an element of the input is read, and of the residual.
std::pair<double, double> reads_of(const Kernel& kernel) {
  const LoopKernel lowered =
      run_loop_passes(lower_schedule(make_schedule(kernel.outputs, test::gpu_target()), kernel.inputs, "k"));
  for (const LaunchShape& shape : plan_launches(lowered).launches) EXPECT_LE(shape.shared_bytes, 48 << 10);
  const double volume = static_cast<double>(test::volume_of(kernel.inputs[0].shape()));
  auto reads = [&](size_t i) { return CountLoads(lowered.arguments[i].get()).in(lowered.body) / volume; };
  return {reads(0), reads(3)};
}

class PassesOverInput : public ::testing::TestWithParam<std::tuple<Norm, int64_t, int64_t, bool, int64_t>> {};

TEST_P(PassesOverInput, AreOneWhereARowFitsAndTwoOtherwise) {
  const auto [norm, size, channels, last, batch] = GetParam();
  const std::vector<int64_t> shape = last ? std::vector<int64_t>{batch, size, size, channels}
                                          : std::vector<int64_t>{batch, channels, size, size};
  const Kernel kernel = normalisation(norm, shape, last);
  // A row, or as few neighbouring ones as make whole memory transactions.
  const int64_t neighbours = norm == Norm::kGroup ? channels / 4 : last ? 8 : 1;
  const bool fits = size * size * neighbours * 4 <= 40 << 10;
  const auto [input, residual] = reads_of(kernel);
  if (norm == Norm::kGroup && !last && size * size * neighbours % 128) {
    // The box that such a row is kept in reaches into the next.
    EXPECT_LE(input, 2);
  } else {
    EXPECT_DOUBLE_EQ(input, fits ? 1 : 2);
  }
  EXPECT_DOUBLE_EQ(residual, 1);
}

INSTANTIATE_TEST_SUITE_P(Images, PassesOverInput,
                         ::testing::Combine(::testing::Values(Norm::kInstance, Norm::kGroup),
                                            ::testing::Values(112, 56, 28, 7), ::testing::Values(32, 64, 256),
                                            ::testing::Bool(), ::testing::Values(1, 8)));

TEST(LayerNorm, ReadsARowOnceWhereItFitsAndTwiceOtherwise) {
  for (const auto& [width, passes] : {std::pair<int64_t, int>{768, 1}, {4096, 1}, {30000, 2}, {50021, 2}}) {
    for (int64_t rows : {1, 8, 1000}) {
      SCOPED_TRACE(testing::Message() << rows << " rows of " << width);
      const double reads = reads_of(normalisation(Norm::kLayer, {rows, width}, false)).first;
      // Where the first block is a full one and the last is not, more is counted than happens.
      EXPECT_GE(reads, passes);
      EXPECT_LT(reads, passes + 0.4);
    }
  }
}

TEST(NormInTwoPasses, ComputesWhatTheDefinitionSays) {
  const std::vector<int64_t> shapes[] = {{1, 64, 56, 8}, {2, 61, 67, 5}, {1, 31, 400, 3}};
  for (Norm norm : {Norm::kInstance, Norm::kGroup}) {
    for (bool last : {true, false}) {
      for (const auto& s : shapes) {
        const int64_t channels = norm == Norm::kGroup ? 4 : s[3];
        const int64_t height = norm == Norm::kGroup || !last ? 3 * s[1] : s[1];
        SCOPED_TRACE(testing::Message() << testing::PrintToString(s) << " last " << last);
        const Kernel kernel = normalisation(norm,
                                            last ? std::vector<int64_t>{s[0], height, s[2], channels}
                                                 : std::vector<int64_t>{s[0], channels, height, s[2]},
                                            last);
        EXPECT_GE(reads_of(kernel).first, 1.99);
        test::expect_same_as_interpreter(kernel.outputs, kernel.inputs);
      }
    }
  }
}

TEST(NormInTwoPasses, KeepsItsAccuracyWhereTheMeanIsFarFromZero) {
  for (bool last : {true, false}) {
    const std::vector<int64_t> shape =
        last ? std::vector<int64_t>{1, 113, 113, 5} : std::vector<int64_t>{1, 5, 113, 113};
    const Kernel kernel = normalisation(Norm::kInstance, shape, last);
    const int64_t pixels = 113 * 113, channels = 5;
    std::vector<test::Floats> data{test::random_floats(pixels * channels, 1, 999, 1001),
                                   test::Floats(5, 1.0F), test::Floats(5, 0.0F),
                                   test::Floats(static_cast<size_t>(pixels * channels), 8.0F)};
    test::Floats result(data[0].size());
    std::vector<std::span<std::byte>> arguments;
    for (auto& each : data) arguments.push_back(std::as_writable_bytes(std::span<float>(each)));
    arguments.push_back(std::as_writable_bytes(std::span<float>(result)));
    evaluate(run_loop_passes(
                 lower_schedule(make_schedule(kernel.outputs, test::gpu_target()), kernel.inputs, "k")),
             arguments);
    double worst = 0;
    for (int64_t c = 0; c < channels; ++c) {
      auto at = [&](int64_t p) { return static_cast<size_t>(last ? p * channels + c : c * pixels + p); };
      double mean = 0, variance = 0;
      for (int64_t p = 0; p < pixels; ++p) mean += data[0][at(p)] / double(pixels);
      for (int64_t p = 0; p < pixels; ++p) variance += std::pow(data[0][at(p)] - mean, 2) / double(pixels);
      for (int64_t p = 0; p < pixels; ++p) {
        const double y = (data[0][at(p)] - mean) / std::sqrt(variance + 1e-5) + 8;
        worst = std::max(worst, std::abs(result[at(p)] - y) / 8);
      }
    }
    EXPECT_LE(worst, 1e-5 / 8 * 2) << last;
  }
}

}  // namespace
}  // namespace gantry
