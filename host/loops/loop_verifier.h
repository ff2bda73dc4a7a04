// One walk over a loop program that refuses what host/loops/verify.h says. Private to host/loops.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "host/loops/verify_access.h"
#include "host/support/error.h"

namespace gantry {

class LoopVerifier {
 public:
  LoopVerifier(const LoopKernel& kernel, std::string_view step) : kernel_(kernel), step_(step) {}
  void run();

 private:
  /// An error about the statement that is being looked at.
  [[noreturn]] void refuse(const std::string& what) const;
  template <typename... Args>
  void expect(bool holds, fmt::format_string<Args...> format, Args&&... args) const {
    if (!holds) refuse(fmt::format(format, std::forward<Args>(args)...));
  }

  // verify.cpp: scope, expressions, accesses
  void bind(const Expr& var, const char* what);
  void unbind(const Expr& var);
  void use(const VarNode& var) const;
  void declare(const Buffer& buffer);
  void use(const Buffer& buffer);
  void check(const Expr& e);
  void check_children(const Expr& e);
  void check_under(const Expr& condition, bool holds, const Expr& e);
  /// A scalar of that dtype.
  void check_scalar(const Expr& e, DType dtype, const char* what);
  enum class Access : uint8_t { kLoad, kStore };
  void access(const Buffer& buffer, const Expr& index, const Expr& predicate, Access access);
  /// `count` elements from the index on.
  void access_run(const Buffer& buffer, const Expr& index, int64_t count, Access access);
  bool varies(const Expr& e) const;

  // verify_stmt.cpp
  void check(const Stmt& s);
  void check_store(const StoreNode& node);
  void check_for(const ForNode& node);
  void check_kind(const ForNode& node) const;
  void check_thread_loop(const ForNode& node);
  void check_if(const IfNode& node);
  void check_allocate(const AllocateNode& node);
  void check_let(const LetStmtNode& node);
  void check_launch(const LaunchNode& node);
  void check_shuffle(const ShuffleNode& node);
  void check_mma(const MmaNode& node);
  void check_tile(const TileNode& node);
  void check_transpose(const TransposeNode& node);
  void check_once(const OnceNode& node);
  /// A place that all threads of a block reach.
  void check_meeting(const char* what) const;
  void expect_cpu(const char* what) const;

  const LoopKernel& kernel_;
  std::string_view step_;
  const Stmt* at_ = nullptr;

  LoopPath path_;
  std::vector<const VarNode*> bound_;  ///< outermost first
  std::unordered_map<std::string_view, const VarNode*> bound_names_;
  std::unordered_set<std::string_view> symbols_;
  std::unordered_map<std::string_view, const BufferNode*> named_;  ///< in the whole kernel; the last of each name
  std::unordered_set<const BufferNode*> alive_, inputs_, stored_;
  std::unordered_set<const ExprNode*> typed_;
  /// Expressions that were looked at in the statement, by the conditions around them.
  std::vector<std::unordered_set<const ExprNode*>> seen_;

  enum class Place : uint8_t {
    kOutside,
    kNest,    ///< in block or thread loops
    kLaunch,  ///< in a launch
  };
  Place place_ = Place::kOutside;
  int block_loops_ = 0;
  bool in_thread_loop_ = false;
  int64_t threads_ = 0;    ///< of the nest's widest thread loop
  std::string diverging_;  ///< what around here may differ between the threads of a block; empty: nothing
  std::unordered_set<const VarNode*> varying_;
  std::optional<size_t> parallel_;  ///< the parallel loop's place in bound_
  std::optional<size_t> hidden_;    ///< variables from here on up to `shown_` are not to be used
  size_t shown_ = 0;
  std::optional<TileNode> tiles_;  ///< as they are configured
};

}  // namespace gantry
