// Launches as loops of a CPU.
//
// A block's threads meet at barriers, shuffles and matrix instructions. All threads reach these together, so
// the code around them (loops, conditions, lets) is the same for all and runs once a block; what lies between
// two such points runs in a loop over the threads. A local buffer or a let that lives across a point gets
// room for every thread: element e of thread t lies at t * elements + e. (Loop fission as in Stratton, Stone
// and Hwu, "MCUDA: An Efficient Implementation of CUDA Kernels for Multi-core CPUs", 2008.)
#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "host/loops/emulate_mma.h"
#include "host/loops/launch.h"
#include "host/support/error.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

constexpr int64_t kWarp = 32;

bool is_meeting_point(const Stmt& s) {
  return s->kind == StmtKind::kBarrier || s->kind == StmtKind::kShuffle || s->kind == StmtKind::kMma;
}

/// The statements inside `s` that contain a meeting point, and the points themselves.
void find_meetings(const Stmt& s, std::unordered_set<const StmtNode*>& result) {
  if (!s) return;
  auto inner = [&](const Stmt& child) {
    find_meetings(child, result);
    if (child && result.contains(child.get())) result.insert(s.get());
  };
  if (is_meeting_point(s)) result.insert(s.get());
  if (const auto* loop = s.as<ForNode>()) inner(loop->body);
  if (const auto* branch = s.as<IfNode>()) {
    inner(branch->then_case);
    inner(branch->else_case);
  }
  if (const auto* statements = s.as<BlockNode>()) std::ranges::for_each(statements->statements, inner);
  if (const auto* allocation = s.as<AllocateNode>()) inner(allocation->body);
  if (const auto* definition = s.as<LetStmtNode>()) inner(definition->body);
}

Buffer make_local(std::string name, DType dtype, int64_t elements) {
  auto node = std::make_shared<BufferNode>();
  node->name = std::move(name);
  node->dtype = dtype;
  node->element_count = Expr(elements);
  node->scope = BufferScope::kLocal;
  node->alignment = byte_width(dtype);
  return node;
}

/// The body of one launch, for one block.
class BlockEmulation : public StmtMutator {
 public:
  BlockEmulation(const std::string& kernel, const LaunchNode& launch, bool checks)
      : kernel_(kernel), thread_(launch.thread_var), threads_(launch.threads), checks_(checks) {
    find_meetings(launch.body, meetings_);
    varying_.insert(thread_.as<VarNode>());
  }

  Stmt run(const Stmt& body) {
    Stmt result = for_block(body);
    for (auto shared = shared_.rbegin(); shared != shared_.rend(); ++shared)
      result = allocate(*shared, result);
    return result;
  }

 private:
  bool meets(const Stmt& s) const { return s && meetings_.contains(s.get()); }

  Stmt for_threads(const Stmt& body) {
    return for_loop(thread_, 0, Expr(threads_), LoopKind::kEmulatedThread, mutate_stmt(body));
  }

  /// What the block does for `s`, all its threads.
  Stmt for_block(const Stmt& s) {
    if (!s) return s;
    if (!meets(s)) return for_threads(s);
    switch (s->kind) {
      case StmtKind::kBlock:
        return split_block(*s.as<BlockNode>());
      case StmtKind::kFor: {
        const auto* loop = s.as<ForNode>();
        const Expr low = uniform(loop->low, "the bound of a loop"),
                   extent = uniform(loop->extent, "the bound of a loop");
        return for_loop(loop->var, low, extent, LoopKind::kSerial, for_block(loop->body));
      }
      case StmtKind::kIf: {
        const auto* branch = s.as<IfNode>();
        const Expr condition = uniform(branch->condition, "a condition");
        return if_stmt(condition, for_block(branch->then_case), for_block(branch->else_case));
      }
      case StmtKind::kAllocate:
        return expand_allocation(*s.as<AllocateNode>());
      case StmtKind::kLet:
        return expand_let(*s.as<LetStmtNode>());
      case StmtKind::kShuffle:
        return emulate_shuffle(*s.as<ShuffleNode>());
      case StmtKind::kMma:
        return emulate_mma(*s.as<MmaNode>());
      case StmtKind::kBarrier:
        return checks_ ? s : Stmt();
      default:
        internal_error("kernel {}: a launch inside a launch", kernel_);
    }
  }

  /// Runs of statements without a meeting point share a loop over the threads.
  Stmt split_block(const BlockNode& node) {
    std::vector<Stmt> result, alone;
    auto finish = [&] {
      if (!alone.empty()) result.push_back(for_threads(block(std::move(alone))));
      alone.clear();
    };
    for (const Stmt& s : node.statements) {
      if (!meets(s)) {
        alone.push_back(s);
        continue;
      }
      finish();
      result.push_back(for_block(s));
    }
    finish();
    return block(std::move(result));
  }

  /// The first thing in `e` that may differ between threads; null if nothing does.
  const std::string* varying_part(const Expr& e) const {
    const std::string* found = nullptr;
    walk(e, [&](const Expr& part) {
      if (const auto* var = part.as<VarNode>(); var && varying_.contains(var)) found = &var->name;
      const auto* load = part.as<LoadNode>();
      if (load && load->buffer->scope == BufferScope::kLocal) found = &load->buffer->name;
    });
    return found;
  }

  /// `e`, after a check that all threads agree on it.
  Expr uniform(const Expr& e, const char* what) {
    if (const std::string* part = varying_part(e)) {
      internal_error(
          "kernel {}: {} around a barrier, shuffle or matrix instruction depends on {}, which differs "
          "between threads: {}",
          kernel_, what, *part, to_string(e));
    }
    return mutate(e);
  }

  Stmt expand_allocation(const AllocateNode& node) {
    const BufferNode& buffer = *node.buffer;
    if (buffer.scope == BufferScope::kShared) {
      shared_.push_back(node.buffer);
      return for_block(node.body);
    }
    const auto count = constant_of(buffer.element_count);
    internal_check(count.has_value(), "kernel {}: local buffer {} needs a constant size", kernel_,
                   buffer.name);
    expanded_[&buffer] = {make_local(buffer.name, buffer.dtype, threads_ * *count), *count};
    Stmt body = for_block(node.body);
    Buffer room = expanded_.at(&buffer).room;
    expanded_.erase(&buffer);
    return allocate(room, body);
  }

  Stmt expand_let(const LetStmtNode& node) {
    const auto* var = node.var.as<VarNode>();
    if (varying_part(node.value) == nullptr) return let(node.var, mutate(node.value), for_block(node.body));
    const int lanes = node.value.type().lanes;
    const Buffer room = make_local(var->name, node.value.type().dtype, threads_ * lanes);
    const Expr first = thread_ * Expr(lanes);
    const Expr index = lanes == 1 ? thread_ : Expr(std::make_shared<RampNode>(first, Expr(1), lanes));
    Stmt define = for_loop(thread_, 0, Expr(threads_), LoopKind::kEmulatedThread,
                           store(room, index, mutate(node.value)));
    varying_.insert(var);
    stored_lets_[var] = load(room, index);
    Stmt body = for_block(node.body);
    stored_lets_.erase(var);
    varying_.erase(var);
    return allocate(room, block({define, body}));
  }

  Stmt emulate_shuffle(const ShuffleNode& node) {
    const int64_t mask = node.lane_mask;
    internal_check(mask > 0 && mask < kWarp && node.value.type().lanes == 1,
                   "kernel {}: a shuffle of {} by {}", kernel_, to_string(node.value), mask);
    for (int64_t t = 0; t < threads_; ++t) {
      internal_check((t ^ mask) < threads_, "kernel {}: thread {} of {} shuffles with thread {}", kernel_, t,
                     threads_, t ^ mask);
    }
    const DType dtype = node.value.type().dtype;
    const Buffer sent = make_local(node.target->name + ".sent", dtype, threads_);
    Stmt send = for_loop(thread_, 0, Expr(threads_), LoopKind::kEmulatedThread,
                         store(sent, thread_, mutate(node.value)));
    Stmt receive =
        for_threads(store(node.target, node.index, load(sent, binary(BinaryOp::kXor, thread_, Expr(mask)))));
    return allocate(sent, block({send, receive}));
  }

  Stmt emulate_mma(const MmaNode& node) {
    internal_check(threads_ % kWarp == 0, "kernel {}: a matrix instruction in a block of {} threads", kernel_,
                   threads_);
    const Expr warp = make_var("warp");
    auto fragment = [&](const Buffer& buffer, const Expr& index) -> FragmentElement {
      return [this, warp, buffer, index](const Expr& lane, int64_t element) {
        // As the thread computes it, with the thread spelt as warp and lane.
        Expr place = element_index(*buffer, mutate(index) + Expr(element));
        return std::pair(room_of(buffer),
                         substitute(place, {{thread_.as<VarNode>(), warp * Expr(kWarp) + lane}}));
      };
    };
    Stmt product = mma_loops(node.shape, fragment(node.d, node.d_index), fragment(node.a, node.a_index),
                             fragment(node.b, node.b_index));
    return for_loop(warp, 0, Expr(threads_ / kWarp), LoopKind::kSerial, product);
  }

  // --- inside the loop over threads
  Buffer room_of(const Buffer& buffer) const {
    auto it = expanded_.find(buffer.get());
    return it == expanded_.end() ? buffer : it->second.room;
  }
  Expr element_index(const BufferNode& buffer, const Expr& index) const {
    auto it = expanded_.find(&buffer);
    return it == expanded_.end() ? index : thread_ * Expr(it->second.elements) + index;
  }

  Stmt mutate_store(const StoreNode* node, const Stmt&) override {
    return store(room_of(node->buffer), element_index(*node->buffer, mutate(node->index)),
                 mutate(node->value), mutate(node->predicate));
  }
  Expr mutate_load(const LoadNode* node, const Expr& self) override {
    if (!expanded_.contains(node->buffer.get())) return StmtMutator::mutate_load(node, self);
    return load(room_of(node->buffer), element_index(*node->buffer, mutate(node->index)),
                mutate(node->predicate));
  }
  Expr mutate_var(const VarNode* node, const Expr& self) override {
    auto it = stored_lets_.find(node);
    return it == stored_lets_.end() ? self : it->second;
  }
  Stmt mutate_allocate(const AllocateNode* node, const Stmt& self) override {
    if (node->buffer->scope != BufferScope::kShared) return StmtMutator::mutate_allocate(node, self);
    shared_.push_back(node->buffer);
    return mutate_stmt(node->body);
  }

  struct Expansion {
    Buffer room;
    int64_t elements = 0;  ///< of a thread
  };
  const std::string& kernel_;
  Expr thread_;
  int64_t threads_;
  bool checks_;
  std::unordered_set<const StmtNode*> meetings_;
  std::set<const VarNode*> varying_;
  std::unordered_map<const BufferNode*, Expansion> expanded_;
  std::unordered_map<const VarNode*, Expr> stored_lets_;
  std::vector<Buffer> shared_;
};

/// Binds variables to 0.
class ZeroBinder : public StmtMutator {
 public:
  explicit ZeroBinder(std::set<const VarNode*> vars) : vars_(std::move(vars)) {}

 protected:
  Expr mutate_var(const VarNode* node, const Expr& self) override {
    return vars_.contains(node) ? int_imm(self.type().dtype, 0) : self;
  }

 private:
  std::set<const VarNode*> vars_;
};

class Emulation : public StmtMutator {
 public:
  Emulation(const std::string& kernel, bool checks) : kernel_(kernel), checks_(checks) {}

 protected:
  /// The checker wants to see all three loops over blocks; otherwise those of one block disappear.
  Stmt mutate_launch(const LaunchNode* node, const Stmt&) override {
    Stmt body = BlockEmulation(kernel_, *node, checks_).run(node->body);
    std::set<const VarNode*> single;
    for (size_t i = 0; i < node->grid.size(); ++i) {
      if (!checks_ && constant_of(node->grid[i]) == 1) single.insert(node->block_vars[i].as<VarNode>());
    }
    if (!single.empty()) body = ZeroBinder(single).mutate_stmt(body);
    for (size_t i = 0; i < node->grid.size(); ++i) {
      if (single.contains(node->block_vars[i].as<VarNode>())) continue;
      body = for_loop(node->block_vars[i], 0, node->grid[i], LoopKind::kEmulatedBlock, body);
    }
    return body;
  }

 private:
  const std::string& kernel_;
  bool checks_;
};

}  // namespace

LoopKernel emulate_launches(LoopKernel kernel, bool checks) {
  kernel.body = Emulation(kernel.name, checks).mutate_stmt(kernel.body);
  return kernel;
}

}  // namespace gantry
