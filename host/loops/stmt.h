// Loop IR: the lowered form of a kernel.
//
// Semantics. Statements run in order. A kernel's buffers are disjoint in memory. Serial loops run their
// iterations in increasing order; parallel ones in any order or at once, so their iterations must not depend
// on each other; vectorized and unrolled loops mean the same as serial ones until the passes of those names
// rewrite them. A local buffer lives while its Allocate's body runs and is undefined until stored to.
//
// On a GPU the kernel's body is a sequence of launches, perhaps inside serial loops; launches run one after
// another. The threads of a block run a launch's body at once: what one stores to a shared or argument buffer
// another may read only after a barrier that both have passed. Threads of different blocks must not touch the
// same element if one of them stores to it. Barriers, shuffles and matrix instructions are reached by all
// threads of the block (so no condition or loop bound around them depends on the thread).
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/tensor/buffer.h"
#include "host/tensor/expr.h"
#include "host/tensor/loop_kinds.h"
#include "host/tensor/matrix_instruction.h"

namespace gantry {

enum class StmtKind : uint8_t {
  kStore,
  kFor,
  kIf,
  kBlock,
  kAllocate,
  kLet,
  kLaunch,
  kBarrier,
  kShuffle,
  kMma,
  kTile,
  kPrefetch,
  kTranspose,
  kOnce
};
struct StmtNode {
  StmtKind kind;
  virtual ~StmtNode() = default;

 protected:
  explicit StmtNode(StmtKind k) : kind(k) {}
};
/// A handle; null means "nothing".
class Stmt {
 public:
  Stmt() = default;
  template <std::derived_from<StmtNode> T>
  Stmt(std::shared_ptr<T> node) : node_(std::move(node)) {}  // NOLINT
  const StmtNode* get() const { return node_.get(); }
  const StmtNode* operator->() const { return node_.get(); }
  explicit operator bool() const { return node_ != nullptr; }
  bool same_as(const Stmt& o) const { return node_ == o.node_; }
  template <typename T>
  const T* as() const {
    return node_ && T::is(node_->kind) ? static_cast<const T*>(node_.get()) : nullptr;
  }

 private:
  std::shared_ptr<const StmtNode> node_;
};

#define GANTRY_STMT_KIND(K)       \
  static bool is(StmtKind kind) { \
    return kind == StmtKind::K;   \
  }
struct StoreNode : StmtNode {
  GANTRY_STMT_KIND(kStore)
  StoreNode(Buffer b, Expr i, Expr v, Expr p)
      : StmtNode(StmtKind::kStore),
        buffer(std::move(b)),
        index(std::move(i)),
        value(std::move(v)),
        predicate(std::move(p)) {}
  Buffer buffer;
  Expr index, value;
  Expr predicate;  ///< may be null
};
struct ForNode : StmtNode {
  GANTRY_STMT_KIND(kFor)
  ForNode(Expr v, Expr l, Expr e, LoopKind k, Stmt b, int64_t r)
      : StmtNode(StmtKind::kFor),
        var(std::move(v)),
        low(std::move(l)),
        extent(std::move(e)),
        loop(k),
        body(std::move(b)),
        rounds(r) {}
  Expr var, low, extent;
  LoopKind loop;
  Stmt body;
  int64_t rounds;  ///< kParallel: the iterations are so many rounds; threads divide each alike
};
struct IfNode : StmtNode {
  GANTRY_STMT_KIND(kIf)
  IfNode(Expr c, Stmt t, Stmt e)
      : StmtNode(StmtKind::kIf), condition(std::move(c)), then_case(std::move(t)), else_case(std::move(e)) {}
  Expr condition;
  Stmt then_case, else_case;  ///< else_case may be null
};
struct BlockNode : StmtNode {
  GANTRY_STMT_KIND(kBlock)
  explicit BlockNode(std::vector<Stmt> s) : StmtNode(StmtKind::kBlock), statements(std::move(s)) {}
  std::vector<Stmt> statements;
};
/// What the kLocal buffers of a CPU's kernel may take of the stack together.
constexpr int64_t kMaxStackBytes = 64 << 10;
struct AllocateNode : StmtNode {  ///< kLocal and kShared buffers
  GANTRY_STMT_KIND(kAllocate)
  AllocateNode(Buffer b, Stmt s) : StmtNode(StmtKind::kAllocate), buffer(std::move(b)), body(std::move(s)) {}
  Buffer buffer;
  Stmt body;
};
struct LetStmtNode : StmtNode {
  GANTRY_STMT_KIND(kLet)
  LetStmtNode(Expr v, Expr x, Stmt s)
      : StmtNode(StmtKind::kLet), var(std::move(v)), value(std::move(x)), body(std::move(s)) {}
  Expr var, value;
  Stmt body;
};
/// A grid of thread blocks; every thread runs `body`.
struct LaunchNode : StmtNode {
  GANTRY_STMT_KIND(kLaunch)
  LaunchNode(std::array<Expr, 3> bv, std::array<Expr, 3> g, Expr tv, int64_t t, Stmt s)
      : StmtNode(StmtKind::kLaunch),
        block_vars(std::move(bv)),
        grid(std::move(g)),
        thread_var(std::move(tv)),
        threads(t),
        body(std::move(s)) {}
  std::array<Expr, 3> block_vars;  ///< x, y, z
  std::array<Expr, 3> grid;        ///< blocks along x, y, z; no larger than 2^31 - 1, 65535, 65535
  Expr thread_var;
  int64_t threads;  ///< of a block, at most 1024
  Stmt body;
};
struct BarrierNode : StmtNode {  ///< waits for all threads of the block
  GANTRY_STMT_KIND(kBarrier)
  BarrierNode() : StmtNode(StmtKind::kBarrier) {}
};
/// target[index] = `value` as the thread whose number in the warp differs by xor with `lane_mask` computes
/// it.
struct ShuffleNode : StmtNode {
  GANTRY_STMT_KIND(kShuffle)
  ShuffleNode(Buffer t, Expr i, Expr v, int m)
      : StmtNode(StmtKind::kShuffle),
        target(std::move(t)),
        index(std::move(i)),
        value(std::move(v)),
        lane_mask(m) {}
  Buffer target;  ///< kLocal
  Expr index, value;
  int lane_mask;  ///< 1 to 31
};
/// A tensor-core instruction of each warp: d += a * b over fragments, whose elements lie in the threads'
/// registers as PTX's mma.sync defines it for the shape; each index names a thread's first element.
struct MmaNode : StmtNode {
  GANTRY_STMT_KIND(kMma)
  MmaNode(MmaShape s, Buffer d_, Expr di, Buffer a_, Expr ai, Buffer b_, Expr bi)
      : StmtNode(StmtKind::kMma),
        shape(s),
        d(std::move(d_)),
        a(std::move(a_)),
        b(std::move(b_)),
        d_index(std::move(di)),
        a_index(std::move(ai)),
        b_index(std::move(bi)) {}
  MmaShape shape;
  Buffer d, a, b;  ///< kLocal
  Expr d_index, a_index, b_index;
};
/// One instruction on the tile registers of the running thread; `s` elements lie side by side
/// (host/machine/tile_unit.h).
struct TileNode : StmtNode {
  GANTRY_STMT_KIND(kTile)
  enum class Op : uint8_t {
    kConfigure,  ///< registers get their shapes; in front of all others
    kRelease,    ///< the registers are no longer used
    kZero,       ///< tile = 0
    kLoad,       ///< row r of the tile = elements of the buffer from index + r * stride on
    kStore,      ///< the reverse
    kDot,        ///< tile += a * b (types: the unit's; b(k, n) is element s * n + k % s of row k / s)
  };
  explicit TileNode(Op o) : StmtNode(StmtKind::kTile), op(o) {}
  Op op;
  int tile = 0, a = 0, b = 0;      ///< registers
  TileUnit unit{};                 ///< kConfigure
  int rows = 16, b_begin = 8;      ///< kConfigure: rows of the registers before `b_begin`; the others hold b
  Buffer buffer;                   ///< kLoad, kStore
  Expr index, stride;              ///< in elements
};
/// What a hint asks for: a copy in the second-level cache, so as not to displace what is in use in the first;
/// in the first; or to own the line, which then no other core has, and to write to it.
enum class Fetch : uint8_t { kSecondLevel, kFirstLevel, kWrite };
/// A hint that the element will be used soon, nothing more: the index may lie outside of the buffer. CPUs
/// only.
struct PrefetchNode : StmtNode {
  GANTRY_STMT_KIND(kPrefetch)
  PrefetchNode(Buffer b, Expr i, Fetch f)
      : StmtNode(StmtKind::kPrefetch), buffer(std::move(b)), index(std::move(i)), fetch(f) {}
  Buffer buffer;
  Expr index;
  Fetch fetch;
};
/// rows[i*n + j] = source[index + i + j*stride] for i, j in [0, n): a block is read along its other side and
/// turned in registers. CPUs only; n is a power of two.
struct TransposeNode : StmtNode {
  GANTRY_STMT_KIND(kTranspose)
  TransposeNode(Buffer r, Buffer s, Expr i, Expr st, int n)
      : StmtNode(StmtKind::kTranspose),
        rows(std::move(r)),
        source(std::move(s)),
        index(std::move(i)),
        stride(std::move(st)),
        side(n) {}
  Buffer rows;  ///< a local one of side*side elements
  Buffer source;
  Expr index, stride;
  int side;
};

/// In a parallel loop: runs before the first iteration of each thread that takes part, perhaps before others
/// too. What it stores to kThread buffers is still there in that thread's later iterations. CPUs only.
struct OnceNode : StmtNode {
  GANTRY_STMT_KIND(kOnce)
  explicit OnceNode(Stmt s) : StmtNode(StmtKind::kOnce), body(std::move(s)) {}
  Stmt body;  ///< does not depend on the iteration
};

#undef GANTRY_STMT_KIND

Stmt store(Buffer buffer, Expr index, Expr value, Expr predicate = {});
Stmt prefetch(Buffer buffer, Expr index, Fetch fetch = Fetch::kSecondLevel);
Stmt transpose_block(Buffer rows, Buffer source, Expr index, Expr stride, int side);
Stmt for_loop(Expr var, Expr low, Expr extent, LoopKind kind, Stmt body, int64_t rounds = 1);
/// As `loop`, with other bounds and another body.
Stmt for_loop_like(const ForNode& loop, Expr var, Expr low, Expr extent, Stmt body);
Stmt if_stmt(Expr condition, Stmt then_case, Stmt else_case = {});
Stmt block(std::vector<Stmt> statements);  ///< flattens, drops nulls; one statement is returned as it is
Stmt allocate(Buffer buffer, Stmt body);
Stmt once(Stmt body);
Stmt let(Expr var, Expr value, Stmt body);
Stmt launch(std::array<Expr, 3> block_vars, std::array<Expr, 3> grid, Expr thread_var, int64_t threads,
            Stmt body);
Stmt barrier();
Stmt shuffle(Buffer target, Expr index, Expr value, int lane_mask);
Stmt mma(MmaShape shape, Buffer d, Expr d_index, Buffer a, Expr a_index, Buffer b, Expr b_index);
Stmt tile_configure(TileUnit unit, int rows, int b_begin);
Stmt tile_release();
Stmt tile_zero(int tile);
Stmt tile_load(int tile, Buffer buffer, Expr index, Expr stride);
Stmt tile_store(int tile, Buffer buffer, Expr index, Expr stride);
Stmt tile_dot(int tile, int a, int b);
Expr load(const Buffer& buffer, Expr index, Expr predicate = {});

/// One kernel, ready for code generation.
struct LoopKernel {
  std::string name;
  std::vector<Buffer> arguments;  ///< inputs, then outputs, in the order of the tensors given to lower()
  int input_count = 0;
  std::vector<Buffer> scratch;       ///< follow the arguments in the kernel's buffer list
  std::vector<std::string> symbols;  ///< symbolic dimensions it needs, in the order of its dims argument
  Stmt body;
  /// Of a kernel that lowering has not given a body yet: its stages, as text.
  std::string stages;
  /// By a buffer's name: of which ops and nodes it holds results, for dumps.
  std::map<std::string, std::string> sources;
  std::string rule;  ///< that scheduled it (Schedule::rule), for reports
};

/// Indented text; stable, used for dumps and to find identical kernels.
std::string to_string(const LoopKernel& kernel);
/// The same with comments before statements that compute something else than those before them: of which op and
/// node it is.
std::string to_annotated_string(const LoopKernel& kernel);
std::string to_string(const Stmt& stmt, int indent = 0);
/// "x: f32[64] align 4"
std::string to_string(const BufferNode& buffer);
/// "for", "parallel for", …
std::string_view loop_word(LoopKind kind);

/// Rewrites statements and, through the ExprMutator, their expressions; same node where nothing changed.
class StmtMutator : public ExprMutator {
 public:
  Stmt mutate_stmt(const Stmt& s);

 protected:
  virtual Stmt mutate_store(const StoreNode* node, const Stmt& self);
  virtual Stmt mutate_for(const ForNode* node, const Stmt& self);
  virtual Stmt mutate_if(const IfNode* node, const Stmt& self);
  virtual Stmt mutate_block(const BlockNode* node, const Stmt& self);
  virtual Stmt mutate_allocate(const AllocateNode* node, const Stmt& self);
  virtual Stmt mutate_let(const LetStmtNode* node, const Stmt& self);
  virtual Stmt mutate_launch(const LaunchNode* node, const Stmt& self);
  virtual Stmt mutate_shuffle(const ShuffleNode* node, const Stmt& self);
  virtual Stmt mutate_mma(const MmaNode* node, const Stmt& self);
  virtual Stmt mutate_tile(const TileNode* node, const Stmt& self);
  virtual Stmt mutate_prefetch(const PrefetchNode* node, const Stmt& self);
  virtual Stmt mutate_transpose(const TransposeNode* node, const Stmt& self);
  virtual Stmt mutate_once(const OnceNode* node, const Stmt& self);
};
void walk(const Stmt& s, const std::function<void(const Stmt&)>& visit_stmt,
          const std::function<void(const Expr&)>& visit_expr);

/// How an extern operation writes its loop nest.
class LoopBuilder {
 public:
  /// Makes a name that nothing else in the kernel has, of one that says what a buffer is.
  using Namer = std::function<std::string(const std::string& name)>;
  /// Without a namer, names are those of this nest only.
  LoopBuilder(std::vector<Buffer> inputs, std::vector<Buffer> results, Namer unique_name = {});
  const Buffer& input(int i) const { return inputs_[static_cast<size_t>(i)]; }
  const Buffer& result(int i) const { return results_[static_cast<size_t>(i)]; }
  /// For buffers that the nest allocates by itself; those made here have such names.
  std::string unique_name(const std::string& name) const { return unique_name_(name); }
  /// A buffer on the stack of the running thread, for the whole nest; made in a parallel loop or a launch,
  /// for an iteration or a thread of that.
  Buffer local(const std::string& name, DType dtype, Expr element_count);
  /// Workspace for the whole nest.
  Buffer scratch(const std::string& name, DType dtype, Expr element_count);
  void emit(Stmt s) { statements_.push_back(std::move(s)); }
  /// GPU: memory that the threads of a block share, for the launch being written.
  Buffer shared(const std::string& name, DType dtype, Expr element_count);
  /// Runs `body` to collect the statements of a loop.
  void loop(const std::string& name, Expr extent, const std::function<void(Expr)>& body,
            LoopKind kind = LoopKind::kSerial);
  void when(Expr condition, const std::function<void()>& body);
  void let(const std::string& name, Expr value, const std::function<void(Expr)>& body);
  /// A launch of `grid` blocks (extents x, y, z; those left out are 1) of `threads` threads. `body` gets the
  /// block's indices and the thread's; buffers that it makes by local() and shared() live in the launch.
  using LaunchBody = std::function<void(const std::array<Expr, 3>& block, const Expr& thread)>;
  void launch(std::vector<Expr> grid, int64_t threads, const LaunchBody& body);
  /// A launch of a thread each for 0 to count - 1, which `body` gets.
  void launch_flat(const Expr& count, const std::function<void(Expr)>& body);
  Stmt take();  ///< what was emitted; locals are allocated around it
  std::vector<Buffer> take_scratch() { return std::move(scratch_); }

 private:
  Stmt collect(const std::function<void()>& body);
  Stmt collect_with_locals(const std::function<void()>& body);
  Namer unique_name_;
  std::vector<Buffer> inputs_, results_, locals_, scratch_;
  std::vector<Stmt> statements_;
};

}  // namespace gantry
