// The verifier's rules of statements.
#include <algorithm>
#include <bit>

#include "host/loops/loop_limits.h"
#include "host/loops/loop_verifier.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

constexpr int64_t kMaxThreads = 1024;
constexpr int kMaxBlockLoops = 3, kWarp = 32;

int64_t widest_thread_loop(const Stmt& s) {
  int64_t threads = 1;
  walk(s,
       [&](const Stmt& inner) {
         const auto* loop = inner.as<ForNode>();
         if (loop && loop->loop == LoopKind::kThread)
           threads = std::max(threads, constant_of(loop->extent).value_or(0));
       },
       {});
  return threads;
}

}  // namespace

void LoopVerifier::check(const Stmt& s) {
  if (!s) return;
  const Stmt* around = std::exchange(at_, &s);
  if (s->kind != StmtKind::kBlock) seen_.assign(1, {});
  switch (s->kind) {
    case StmtKind::kStore:
      check_store(*s.as<StoreNode>());
      break;
    case StmtKind::kFor:
      check_for(*s.as<ForNode>());
      break;
    case StmtKind::kIf:
      check_if(*s.as<IfNode>());
      break;
    case StmtKind::kBlock:
      for (const Stmt& inner : s.as<BlockNode>()->statements) check(inner);
      break;
    case StmtKind::kAllocate:
      check_allocate(*s.as<AllocateNode>());
      break;
    case StmtKind::kLet:
      check_let(*s.as<LetStmtNode>());
      break;
    case StmtKind::kLaunch:
      check_launch(*s.as<LaunchNode>());
      break;
    case StmtKind::kBarrier:
      check_meeting("a barrier");
      break;
    case StmtKind::kShuffle:
      check_shuffle(*s.as<ShuffleNode>());
      break;
    case StmtKind::kMma:
      check_mma(*s.as<MmaNode>());
      break;
    case StmtKind::kTile:
      check_tile(*s.as<TileNode>());
      break;
    case StmtKind::kPrefetch:
      expect_cpu("a prefetch");
      use(s.as<PrefetchNode>()->buffer);
      check_scalar(s.as<PrefetchNode>()->index, DType::kI64, "an index");
      break;
    case StmtKind::kTranspose:
      check_transpose(*s.as<TransposeNode>());
      break;
    case StmtKind::kOnce:
      check_once(*s.as<OnceNode>());
      break;
  }
  at_ = around;
}

void LoopVerifier::check_store(const StoreNode& node) {
  expect(node.buffer && node.index.get() && node.value.get(), "a store without buffer, index or value");
  check(node.index);
  check(node.value);
  check(node.predicate);
  const ExprType& value = node.value.type();
  expect(value.dtype == node.buffer->dtype, "{}, of {}, is given a value of {}", node.buffer->name,
         name_of(node.buffer->dtype), name_of(value.dtype));
  expect(value.lanes == node.index.type().lanes, "{} lanes are stored to {} places", value.lanes,
         node.index.type().lanes);
  expect(!node.predicate || node.predicate.type() == ExprType{DType::kBool, value.lanes},
         "the predicate of {} lanes has {}", value.lanes, node.predicate ? node.predicate.type().lanes : 0);
  access(node.buffer, node.index, node.predicate, Access::kStore);
}

// --- loops

void LoopVerifier::check_kind(const ForNode& node) const {
  const bool constant = constant_of(node.extent).has_value();
  const std::string name = to_string(node.var);
  switch (node.loop) {
    case LoopKind::kVectorized:
      expect(constant, "the vectorized loop {} has an extent that is not constant", name);
      return expect(*constant_of(node.extent) <= kMaxLanes, "the vectorized loop {} {}", name,
                    excess_of(node.loop, *constant_of(node.extent)));
    case LoopKind::kUnrolled:
      return expect(constant, "the unrolled loop {} has an extent that is not constant", name);
    case LoopKind::kParallel:
      return expect_cpu("a parallel loop");
    case LoopKind::kBlock:
      expect(place_ != Place::kLaunch && !in_thread_loop_, "the block loop {} is inside a launch or a thread loop", name);
      return expect(block_loops_ < kMaxBlockLoops, "the block loop {} is inside {} others", name, block_loops_);
    case LoopKind::kThread:
      expect(place_ != Place::kLaunch && !in_thread_loop_, "the thread loop {} is inside a launch or another thread loop",
             name);
      expect(constant, "the thread loop {} has an extent that is not constant", name);
      return expect(*constant_of(node.extent) <= kMaxThreads, "{} threads, at most {} are possible",
                    *constant_of(node.extent), kMaxThreads);
    default:
      return;
  }
}

void LoopVerifier::check_for(const ForNode& node) {
  check_scalar(node.low, DType::kI64, "the beginning of a loop");
  check_scalar(node.extent, DType::kI64, "the extent of a loop");
  check_kind(node);
  expect(node.rounds == 1 || (node.rounds > 1 && node.loop == LoopKind::kParallel), "{} rounds of a loop", node.rounds);
  expect(node.var.type() == ExprType{DType::kI64, 1}, "the loop's variable is no kI64");
  const Place outer_place = place_;
  const int64_t outer_threads = threads_;
  const std::string outer_diverging = diverging_;
  const bool bound = node.loop == LoopKind::kBlock || node.loop == LoopKind::kThread;
  if (bound && place_ == Place::kOutside) {
    place_ = Place::kNest;
    threads_ = widest_thread_loop(node.body);
    if (node.loop == LoopKind::kThread) threads_ = std::max(threads_, *constant_of(node.extent));
  }
  const bool varying = varies(node.low) || varies(node.extent);
  bind(node.var, "a loop");
  if (varying || node.loop == LoopKind::kThread) varying_.insert(node.var.as<VarNode>());
  if (varying && diverging_.empty()) diverging_ = "the bounds of " + to_string(node.var);
  if (node.loop == LoopKind::kThread && constant_of(node.extent) != threads_)
    diverging_ = to_string(node.var) + ", which only some threads run";
  // One inside of another is run by one thread; so is one of a single iteration.
  const bool divides = node.loop == LoopKind::kParallel && !parallel_ && constant_of(node.extent) != 1;
  if (divides) parallel_ = bound_.size() - 1;
  block_loops_ += node.loop == LoopKind::kBlock ? 1 : 0;
  const bool outer_thread_loop = in_thread_loop_;
  in_thread_loop_ = in_thread_loop_ || node.loop == LoopKind::kThread;
  path_.enter_loop(node.var.as<VarNode>(), node.low, node.extent);
  check(node.body);
  path_.leave();
  in_thread_loop_ = outer_thread_loop;
  block_loops_ -= node.loop == LoopKind::kBlock ? 1 : 0;
  if (divides) parallel_.reset();
  unbind(node.var);
  place_ = outer_place;
  threads_ = outer_threads;
  diverging_ = outer_diverging;
}

void LoopVerifier::check_if(const IfNode& node) {
  check_scalar(node.condition, DType::kBool, "a condition");
  const std::string outer = diverging_;
  if (diverging_.empty() && varies(node.condition)) diverging_ = "the condition " + to_string(node.condition);
  path_.assume(node.condition, true);
  check(node.then_case);
  path_.forget();
  path_.assume(node.condition, false);
  check(node.else_case);
  path_.forget();
  diverging_ = outer;
}

void LoopVerifier::check_let(const LetStmtNode& node) {
  expect(node.var.as<VarNode>() != nullptr && static_cast<bool>(node.value), "a let without variable or value");
  check(node.value);
  expect(node.var.type() == node.value.type(), "{} is bound to a value of another type", to_string(node.var));
  bind(node.var, "a let");
  if (varies(node.value)) varying_.insert(node.var.as<VarNode>());
  path_.enter_let(node.var.as<VarNode>(), node.value);
  check(node.body);
  path_.leave();
  unbind(node.var);
}

void LoopVerifier::check_allocate(const AllocateNode& node) {
  declare(node.buffer);
  const BufferNode& buffer = *node.buffer;
  const bool shared = buffer.scope == BufferScope::kShared;
  expect(shared || buffer.scope == BufferScope::kLocal || buffer.scope == BufferScope::kThread,
         "{} is allocated, but an argument or scratch", buffer.name);
  expect(!shared || place_ != Place::kOutside, "{} is shared by the threads of no block", buffer.name);
  if (buffer.scope == BufferScope::kThread) expect_cpu("memory that outlasts an iteration");
  expect(constant_of(buffer.element_count).has_value(), "the size of {} is not constant: {}", buffer.name,
         to_string(buffer.element_count));
  check(node.body);
  alive_.erase(&buffer);
}

void LoopVerifier::check_once(const OnceNode& node) {
  expect_cpu("work of once a thread");
  if (!parallel_) return check(node.body);  // one thread does all
  hidden_ = *parallel_;
  shown_ = bound_.size();
  check(node.body);
  hidden_.reset();
}

// --- GPUs

void LoopVerifier::expect_cpu(const char* what) const {
  expect(place_ == Place::kOutside, "{} on a GPU", what);
}

void LoopVerifier::check_meeting(const char* what) const {
  expect(place_ != Place::kOutside, "{} outside of a launch", what);
  expect(diverging_.empty(), "{} that not all threads of the block may reach, by {}", what, diverging_);
}

void LoopVerifier::check_launch(const LaunchNode& node) {
  expect(place_ == Place::kOutside && !parallel_, "a launch inside another one, or in a parallel loop");
  expect(node.threads >= 1 && node.threads <= kMaxThreads, "{} threads, at most {} are possible", node.threads,
         kMaxThreads);
  for (const Expr& blocks : node.grid) check_scalar(blocks, DType::kI64, "an extent of the grid");
  place_ = Place::kLaunch;
  for (size_t i = 0; i < node.grid.size(); ++i) {
    bind(node.block_vars[i], "a launch");
    path_.enter_loop(node.block_vars[i].as<VarNode>(), Expr(0), node.grid[i]);
  }
  bind(node.thread_var, "a launch");
  if (node.threads > 1) varying_.insert(node.thread_var.as<VarNode>());
  path_.enter_loop(node.thread_var.as<VarNode>(), Expr(0), Expr(node.threads));
  check(node.body);
  path_.leave();
  unbind(node.thread_var);
  for (size_t i = node.grid.size(); i-- > 0;) {
    path_.leave();
    unbind(node.block_vars[i]);
  }
  place_ = Place::kOutside;
}

void LoopVerifier::check_shuffle(const ShuffleNode& node) {
  check_meeting("a shuffle");
  use(node.target);
  expect(node.target->scope == BufferScope::kLocal, "a shuffle to {}, which is not the thread's own", node.target->name);
  expect(node.lane_mask >= 1 && node.lane_mask < kWarp, "a shuffle with the lane {} away", node.lane_mask);
  check_scalar(node.value, node.target->dtype, "the value of a shuffle");
  access_run(node.target, node.index, 1, Access::kStore);
}

void LoopVerifier::check_mma(const MmaNode& node) {
  check_meeting("a matrix instruction");
  const MmaGeometry& geometry = geometry_of(node.shape);
  const auto check_fragment = [&](const Buffer& buffer, DType dtype) {
    use(buffer);
    expect(buffer->scope == BufferScope::kLocal && buffer->dtype == dtype, "{} is no fragment of {}", buffer->name,
           name_of(dtype));
  };
  check_fragment(node.d, DType::kF32);
  check_fragment(node.a, geometry.operand);
  check_fragment(node.b, geometry.operand);
  access_run(node.d, node.d_index, kMmaResults, Access::kStore);
  access_run(node.a, node.a_index, geometry.a_elements(), Access::kLoad);
  access_run(node.b, node.b_index, geometry.b_elements(), Access::kLoad);
}

// --- CPUs

void LoopVerifier::check_tile(const TileNode& node) {
  expect_cpu("a tile register");
  if (node.op == TileNode::Op::kConfigure) {
    expect(!tiles_, "tile registers are configured twice");
    tiles_ = node;
    return;
  }
  expect(tiles_.has_value(), "tile registers are used before they are configured");
  if (node.op == TileNode::Op::kRelease) return tiles_.reset();
  const TileGeometry& unit = geometry_of(tiles_->unit);
  for (const int tile : {node.tile, node.a, node.b})
    expect(tile >= 0 && tile < unit.registers, "tile register {} of {}", tile, unit.registers);
  if (node.op != TileNode::Op::kLoad && node.op != TileNode::Op::kStore) return;
  use(node.buffer);
  const bool sums = node.buffer->dtype == unit.sum, weights = node.tile >= tiles_->b_begin;
  const DType operand = weights ? unit.element : unit.row_element;
  expect(sums || (node.buffer->dtype == operand && node.op == TileNode::Op::kLoad), "a tile of {}",
         name_of(node.buffer->dtype));
  const int64_t rows = weights ? unit.depth / unit.side_by_side : tiles_->rows;
  const int64_t columns = sums ? unit.columns : weights ? unit.columns * unit.side_by_side : unit.depth;
  check_scalar(node.stride, DType::kI64, "the distance of rows");
  const Access kind = node.op == TileNode::Op::kStore ? Access::kStore : Access::kLoad;
  access_run(node.buffer, node.index, columns, kind);
  access_run(node.buffer, node.index + Expr(rows - 1) * node.stride, columns, kind);
}

void LoopVerifier::check_transpose(const TransposeNode& node) {
  expect_cpu("a transposed block");
  use(node.rows);
  use(node.source);
  const int64_t side = node.side;
  expect(side > 1 && std::has_single_bit(static_cast<uint64_t>(side)), "a block of {} rows", side);
  expect(node.rows->scope == BufferScope::kLocal && constant_of(node.rows->element_count) == side * side &&
             node.rows->dtype == node.source->dtype,
         "{} has no room for {} x {} elements of {}", node.rows->name, side, side, node.source->name);
  check_scalar(node.stride, DType::kI64, "the distance of rows");
  stored_.insert(node.rows.get());
  access_run(node.source, node.index, side, Access::kLoad);
  access_run(node.source, node.index + Expr(side - 1) * node.stride, side, Access::kLoad);
}

}  // namespace gantry
