#include "host/loops/evaluate.h"

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <unordered_map>

#include "host/loops/launch.h"
#include "host/loops/race_tracker.h"
#include "host/support/error.h"
#include "host/tensor/element.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

/// One lane: the field that the type asks for is set.
struct Scalar {
  int64_t i = 0;
  double f = 0;
};
using Vector = std::vector<Scalar>;

struct Storage {
  std::vector<Scalar> elements;
  std::vector<char> defined;
  std::vector<ElementAccess> accesses;  ///< of memory that threads share, in kernels for a GPU
};

class Evaluator {
 public:
  Evaluator(const LoopKernel& kernel, const std::map<std::string, int64_t>& symbols, bool find_races)
      : kernel_(kernel), symbols_(symbols), find_races_(find_races) {}

  void run(const std::vector<std::span<std::byte>>& arguments, Unstored unstored) {
    internal_check(arguments.size() == kernel_.arguments.size(), "kernel {} takes {} buffers, not {}",
                   kernel_.name, kernel_.arguments.size(), arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) read_argument(i, arguments[i]);
    for (const Buffer& buffer : kernel_.scratch) make_storage(*buffer);
    execute(kernel_.body);
    for (auto i = static_cast<size_t>(kernel_.input_count); i < arguments.size(); ++i)
      write_argument(i, arguments[i], unstored);
  }

 private:
  Storage& make_storage(const BufferNode& buffer) {
    auto count = static_cast<size_t>(std::max<int64_t>(0, scalar(buffer.element_count).i));
    Storage& storage = buffers_[&buffer];
    storage.elements.assign(count, {});
    storage.defined.assign(count, 0);
    storage.accesses.clear();
    if (find_races_ && buffer.scope != BufferScope::kLocal) storage.accesses.resize(count);
    return storage;
  }

  void read_argument(size_t i, std::span<std::byte> bytes) {
    const BufferNode& buffer = *kernel_.arguments[i];
    Storage& storage = make_storage(buffer);
    auto width = static_cast<size_t>(byte_width(buffer.dtype));
    internal_check(bytes.size() == storage.elements.size() * width, "kernel {}: {} has {} bytes, not {}",
                   kernel_.name, buffer.name, bytes.size(), storage.elements.size() * width);
    if (static_cast<int>(i) >= kernel_.input_count) return;
    for (size_t k = 0; k < storage.elements.size(); ++k) {
      const std::byte* at = bytes.data() + k * width;
      if (is_float(buffer.dtype))
        storage.elements[k].f = read_float(buffer.dtype, at);
      else
        storage.elements[k].i = read_integer(buffer.dtype, at);
      storage.defined[k] = 1;
    }
  }

  void write_argument(size_t i, std::span<std::byte> bytes, Unstored unstored) {
    const BufferNode& buffer = *kernel_.arguments[i];
    const Storage& storage = buffers_.at(&buffer);
    auto width = static_cast<size_t>(byte_width(buffer.dtype));
    for (size_t k = 0; k < storage.elements.size(); ++k) {
      if (!storage.defined[k] && unstored == Unstored::kKept) continue;
      internal_check(storage.defined[k], "kernel {}: element {} of {} is never stored", kernel_.name, k,
                     buffer.name);
      std::byte* at = bytes.data() + k * width;
      if (is_float(buffer.dtype))
        write_float(buffer.dtype, at, storage.elements[k].f);
      else
        write_integer(buffer.dtype, at, storage.elements[k].i);
    }
  }

  void execute(const Stmt& s) {
    if (!s) return;
    switch (s->kind) {
      case StmtKind::kStore:
        execute_store(*s.as<StoreNode>());
        break;
      case StmtKind::kFor: {
        const auto* loop = s.as<ForNode>();
        int64_t low = scalar(loop->low).i, extent = scalar(loop->extent).i;
        enter_loop(loop->loop);
        for (int64_t k = low; k < low + extent; ++k) {
          if (loop->loop == LoopKind::kParallel) later_iteration_ = k > low;
          if (loop->loop == LoopKind::kEmulatedBlock) ++now_.block;
          if (loop->loop == LoopKind::kEmulatedThread) now_.thread = k;
          vars_[loop->var.as<VarNode>()] = {Scalar{k, 0}};
          execute(loop->body);
        }
        leave_loop(loop->loop);
        break;
      }
      case StmtKind::kIf:
        execute(scalar(s.as<IfNode>()->condition).i ? s.as<IfNode>()->then_case : s.as<IfNode>()->else_case);
        break;
      case StmtKind::kBlock:
        for (const Stmt& inner : s.as<BlockNode>()->statements) execute(inner);
        break;
      case StmtKind::kAllocate:
        execute_allocate(*s.as<AllocateNode>());
        break;
      case StmtKind::kLet:
        vars_[s.as<LetStmtNode>()->var.as<VarNode>()] = eval(s.as<LetStmtNode>()->value);
        execute(s.as<LetStmtNode>()->body);
        break;
      case StmtKind::kBarrier:
        ++now_.epoch;
        break;
      case StmtKind::kTile:
        execute_tile(*s.as<TileNode>());
        break;
      case StmtKind::kPrefetch:
        break;
      case StmtKind::kOnce:
        execute_once(*s.as<OnceNode>());
        break;
      case StmtKind::kTranspose:
        execute_transpose(*s.as<TransposeNode>());
        break;
      case StmtKind::kLaunch:
      case StmtKind::kShuffle:
      case StmtKind::kMma:
        internal_error("kernel {}: launches are evaluated after emulate_launches", kernel_.name);
    }
  }

  void execute_transpose(const TransposeNode& node) {
    const int64_t first = scalar(node.index).i, stride = scalar(node.stride).i;
    for (int64_t i = 0; i < node.side; ++i)
      for (int64_t j = 0; j < node.side; ++j)
        element(*node.rows, i * node.side + j, true) = element(*node.source, first + i + j * stride, false);
  }

  /// What a thread made once is there again in its later iterations; all else is undefined.
  void execute_allocate(const AllocateNode& node) {
    const BufferNode* buffer = node.buffer.get();
    make_storage(*buffer);
    if (auto made = made_once_.extract(buffer)) buffers_[buffer] = std::move(made.mapped());
    execute(node.body);
    auto storage = buffers_.extract(buffer);
    if (filled_once_.contains(buffer)) made_once_[buffer] = std::move(storage.mapped());
  }

  /// One thread runs all iterations of a parallel loop.
  void execute_once(const OnceNode& node) {
    if (later_iteration_) return;
    walk(node.body,
         [&](const Stmt& s) {
           const auto* store = s.as<StoreNode>();
           if (store && store->buffer->scope == BufferScope::kThread)
             filled_once_.insert(store->buffer.get());
         },
         {});
    execute(node.body);
  }

  void enter_loop(LoopKind kind) {
    if (kind == LoopKind::kEmulatedBlock && block_loops_++ == 0) ++now_.launch;
  }
  void leave_loop(LoopKind kind) {
    if (kind == LoopKind::kParallel) {
      later_iteration_ = false;
      filled_once_.clear();
      made_once_.clear();
    }
    if (kind == LoopKind::kEmulatedBlock) --block_loops_;
    if (kind == LoopKind::kEmulatedThread) now_.thread = -1;
  }

  Scalar& element(const BufferNode& buffer, int64_t index, bool store) {
    auto it = buffers_.find(&buffer);
    internal_check(it != buffers_.end(), "kernel {}: {} is not alive", kernel_.name, buffer.name);
    Storage& storage = it->second;
    internal_check(index >= 0 && index < static_cast<int64_t>(storage.elements.size()),
                   "kernel {}: {} of {}[{}], which has {} elements", kernel_.name, store ? "store" : "load",
                   buffer.name, index, storage.elements.size());
    auto k = static_cast<size_t>(index);
    internal_check(store || storage.defined[k], "kernel {}: {}[{}] is read before it is stored", kernel_.name,
                   buffer.name, index);
    if (store) storage.defined[k] = 1;
    if (!storage.accesses.empty()) {
      bool fine = store ? storage.accesses[k].store(now_) : storage.accesses[k].load(now_);
      internal_check(fine, "kernel {}: threads race for {}[{}] ({} by thread {})", kernel_.name, buffer.name,
                     index, store ? "store" : "load", now_.thread);
    }
    return storage.elements[k];
  }

  void execute_store(const StoreNode& s) {
    Vector index = eval(s.index), value = eval(s.value), predicate;
    if (s.predicate) predicate = eval(s.predicate);
    internal_check(index.size() == value.size(), "kernel {}: store of {} lanes to {} places: {}",
                   kernel_.name, value.size(), index.size(), s.buffer->name);
    for (size_t k = 0; k < index.size(); ++k) {
      if (!predicate.empty() && !predicate[k].i) continue;
      element(*s.buffer, index[k].i, true) = value[k];
    }
  }

  /// Tile registers hold elements of what was loaded: rows of sums, of a, or of b from `b_begin` on.
  void execute_tile(const TileNode& node) {
    if (node.op == TileNode::Op::kConfigure) {
      tile_registers_ = node;
      return;
    }
    const TileGeometry& unit = geometry_of(tile_registers_.unit);
    const bool is_b = node.tile >= tile_registers_.b_begin;
    const int64_t rows = is_b ? unit.depth / unit.side_by_side : tile_registers_.rows;
    if (node.op == TileNode::Op::kZero) {
      tiles_[node.tile].assign(static_cast<size_t>(rows * unit.columns), 0);
    } else if (node.buffer) {
      const bool is_sum = node.buffer->dtype == unit.sum;
      const int64_t columns = is_sum ? unit.columns : is_b ? unit.columns * unit.side_by_side : unit.depth;
      const int64_t index = scalar(node.index).i, stride = scalar(node.stride).i;
      const bool stores = node.op == TileNode::Op::kStore;
      std::vector<double>& tile = tiles_[node.tile];
      tile.resize(static_cast<size_t>(rows * columns));
      for (int64_t k = 0; k < rows * columns; ++k) {
        const int64_t at = index + k / columns * stride + k % columns;
        double& value = tile[static_cast<size_t>(k)];
        if (stores)
          element(*node.buffer, at, true) = {static_cast<int64_t>(value), value};
        else
          value = is_float(node.buffer->dtype) ? element(*node.buffer, at, false).f
                                               : static_cast<double>(element(*node.buffer, at, false).i);
      }
    } else if (node.op == TileNode::Op::kDot) {
      const std::vector<double>&a = tiles_[node.a], &b = tiles_[node.b];
      std::vector<double>& d = tiles_[node.tile];
      const auto height = static_cast<size_t>(rows), width = static_cast<size_t>(unit.columns),
                 depth = static_cast<size_t>(unit.depth), side = static_cast<size_t>(unit.side_by_side);
      internal_check(a.size() == depth * height && b.size() == depth * width && d.size() == width * height,
                     "kernel {}: a product of tiles that hold something else", kernel_.name);
      for (size_t m = 0; m < height; ++m) {
        for (size_t n = 0; n < width; ++n) {
          double& sum = d[m * width + n];
          for (size_t k = 0; k < depth; ++k) {
            sum += a[m * depth + k] * b[k / side * width * side + side * n + k % side];
            sum = is_float(unit.sum) ? round_float(unit.sum, sum) : static_cast<double>(static_cast<int32_t>(static_cast<int64_t>(sum)));
          }
        }
      }
    }
  }

  Scalar scalar(const Expr& e) {
    Vector v = eval(e);
    if (v.size() != 1)
      internal_error("kernel {}: a vector where a scalar is expected: {}", kernel_.name, to_string(e));
    return v[0];
  }

  Vector eval(const Expr& e) {
    Vector v = eval_node(e);
    if (static_cast<int>(v.size()) != e.type().lanes) {
      internal_error("kernel {}: {} lanes instead of {}: {}", kernel_.name, v.size(), e.type().lanes,
                     to_string(e));
    }
    return v;
  }

  Vector eval_node(const Expr& e) {
    switch (e->kind) {
      case ExprKind::kIntImm:
        return {Scalar{e.as<IntImmNode>()->value, 0}};
      case ExprKind::kFloatImm:
        return {Scalar{0, e.as<FloatImmNode>()->value}};
      case ExprKind::kVar:
        return eval_var(*e.as<VarNode>());
      case ExprKind::kBinary:
        return eval_binary(*e.as<BinaryNode>());
      case ExprKind::kUnary: {
        Vector v = eval(e.as<UnaryNode>()->a);
        bool negate = e.as<UnaryNode>()->op == UnaryOp::kNeg, boolean = e.type().dtype == DType::kBool;
        for (Scalar& s : v) {
          s = negate ? Scalar{wrap_integer(e.type().dtype, -s.i), -s.f} : Scalar{boolean ? !s.i : ~s.i, 0};
        }
        return v;
      }
      case ExprKind::kCall:
        return eval_call(*e.as<CallNode>());
      case ExprKind::kSelect: {
        const auto* node = e.as<SelectNode>();
        Vector c = eval(node->condition), t = eval(node->if_true), f = eval(node->if_false);
        for (size_t k = 0; k < t.size(); ++k) t[k] = c[k].i ? t[k] : f[k];
        return t;
      }
      case ExprKind::kCast:
        return eval_cast(*e.as<CastNode>());
      case ExprKind::kLoad:
        return eval_load(*e.as<LoadNode>());
      case ExprKind::kRamp: {
        Scalar base = scalar(e.as<RampNode>()->base), stride = scalar(e.as<RampNode>()->stride);
        Vector v;
        for (int k = 0; k < e.type().lanes; ++k) v.push_back({base.i + k * stride.i, 0});
        return v;
      }
      case ExprKind::kBroadcast:
        return Vector(static_cast<size_t>(e.type().lanes), scalar(e.as<BroadcastNode>()->value));
      case ExprKind::kLet:
        vars_[e.as<LetNode>()->var.as<VarNode>()] = eval(e.as<LetNode>()->value);
        return eval(e.as<LetNode>()->body);
      default:
        internal_error("kernel {}: {} in loop IR", kernel_.name, to_string(e));
    }
  }

  Vector eval_var(const VarNode& var) {
    if (var.is_symbol) {
      auto it = symbols_.find(var.name);
      internal_check(it != symbols_.end(), "kernel {}: no value for {}", kernel_.name, var.name);
      return {Scalar{it->second, 0}};
    }
    auto it = vars_.find(&var);
    internal_check(it != vars_.end(), "kernel {}: {} is not defined", kernel_.name, var.name);
    return it->second;
  }

  Vector eval_binary(const BinaryNode& node) {
    Vector a = eval(node.a), b = eval(node.b);
    DType dtype = node.a.type().dtype;
    for (size_t k = 0; k < a.size(); ++k) {
      if (!is_float(dtype)) {
        auto value = fold_integers(node.op, dtype, a[k].i, b[k].i);
        internal_check(value.has_value(), "kernel {}: division by zero", kernel_.name);
        a[k] = {*value, 0};
      } else if (auto truth = compare_floats(node.op, a[k].f, b[k].f)) {
        a[k] = {*truth, 0};
      } else {
        a[k] = {0, fold_floats(node.op, dtype, a[k].f, b[k].f, passes_nan(node)).value()};
      }
    }
    return a;
  }

  Vector eval_call(const CallNode& node) {
    if (node.fn == MathFn::kIfThenElse) return eval(scalar(node.args[0]).i ? node.args[1] : node.args[2]);
    std::vector<Vector> args;
    for (const Expr& arg : node.args) args.push_back(eval(arg));
    Vector out(args[0].size());
    for (size_t k = 0; k < out.size(); ++k) {
      double a = args[0][k].f, b = args.size() > 1 ? args[1][k].f : 0, c = args.size() > 2 ? args[2][k].f : 0;
      if (node.fn == MathFn::kIsNan)
        out[k].i = std::isnan(a);
      else if (node.fn == MathFn::kIsInf)
        out[k].i = std::isinf(a);
      else if (node.fn == MathFn::kFma)
        out[k].f = round_float(node.type.dtype, std::fma(a, b, c));
      else if (!is_float(node.type.dtype))
        out[k].i = wrap_integer(node.type.dtype, std::abs(args[0][k].i));
      else
        out[k].f = fold_math(node.fn, node.type.dtype, a, b).value();
    }
    return out;
  }

  Vector eval_cast(const CastNode& node) {
    Vector v = eval(node.a);
    DType from = node.a.type().dtype, to = node.type.dtype;
    for (Scalar& s : v) {
      if (is_float(from))
        s = is_float(to) ? Scalar{0, round_float(to, s.f)} : Scalar{float_to_integer(to, s.f), 0};
      else
        s = is_float(to) ? Scalar{0, round_float(to, integer_to_float(from, s.i, to))}
                         : Scalar{wrap_integer(to, s.i), 0};
    }
    return v;
  }

  Vector eval_load(const LoadNode& node) {
    Vector index = eval(node.index), predicate;
    if (node.predicate) predicate = eval(node.predicate);
    Vector out(index.size());
    for (size_t k = 0; k < index.size(); ++k) {
      if (predicate.empty() || predicate[k].i) out[k] = element(*node.buffer, index[k].i, false);
    }
    return out;
  }

  const LoopKernel& kernel_;
  const std::map<std::string, int64_t>& symbols_;
  bool find_races_;
  RunningThread now_;
  int block_loops_ = 0;
  std::unordered_map<const BufferNode*, Storage> buffers_;
  std::unordered_map<const VarNode*, Vector> vars_;
  std::map<int, std::vector<double>> tiles_;
  bool later_iteration_ = false;                       ///< than the first of a parallel loop
  std::set<const BufferNode*> filled_once_;            ///< in the parallel loop that is running
  std::map<const BufferNode*, Storage> made_once_;     ///< of these, those that are not allocated now
  TileNode tile_registers_{TileNode::Op::kConfigure};  ///< as they were configured last
};

}  // namespace

void evaluate(const LoopKernel& kernel, const std::vector<std::span<std::byte>>& arguments,
              const std::map<std::string, int64_t>& symbols, Unstored unstored) {
  bool bound = false, launches = false;
  walk(kernel.body,
       [&](const Stmt& s) {
         const auto* loop = s.as<ForNode>();
         bound |= loop && (loop->loop == LoopKind::kBlock || loop->loop == LoopKind::kThread);
         launches |= s->kind == StmtKind::kLaunch;
       },
       {});
  if (!bound && !launches) return Evaluator(kernel, symbols, false).run(arguments, unstored);
  LoopKernel emulated = kernel;
  if (bound) emulated.body = bind_launches(emulated.body);
  emulated = emulate_launches(std::move(emulated), true);
  Evaluator(emulated, symbols, true).run(arguments, unstored);
}

}  // namespace gantry
