#include "host/ops/trees_loops.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "host/ops/support.h"
#include "host/tensor/fold.h"

namespace gantry {
namespace {

constexpr int64_t kLanes = 8;
/// Steps between two looks at whether all lanes have come to leaves.
constexpr int64_t kStretch = 4;
/// Sums of so many elements are on the stack; of a GPU's threads, which have one lane, in registers.
constexpr int64_t kMostLocalSums = 1024, kMostRegisterSums = 16;
/// What a thread should at least have to do, in steps of a walk: some tens of microseconds.
constexpr int64_t kThreadSteps = 16384;

/// One walk: of the row whose features and sums begin there.
struct Lane {
  Expr features, tree, sums;
};

/// `trees` from `first` on.
struct TreeRange {
  Expr first, count;
};

class Walks {
 public:
  Walks(LoopBuilder& b, const TreeLoops& loops, int64_t lanes) : b_(b), loops_(loops), lanes_(lanes) {}

  /// The sums of `count` rows from `first` on, to element `at` of a buffer: of all trees.
  void side_by_side(const Expr& first, const Buffer& to, const Expr& at) {
    with_sums(lanes_, to, at, [&](const Buffer& sums, const Expr& base) {
      const Expr features = first * loops_.features;
      b_.loop("tree", loops_.trees, [&](const Expr& tree) {
        std::vector<Lane> lanes;
        for (int64_t i = 0; i < lanes_; ++i)
          lanes.push_back({features + Expr(i) * loops_.features, tree, base + i * loops_.attrs.targets});
        b_.let("branches", of_tree(tree, 1), [&](const Expr& branches) {
          walk(lanes, sums, of_tree(tree, 3), [&](int64_t) { return branches; });
        });
      });
    });
  }

  /// The sums of one row in those trees.
  void one_row(const Expr& row, const TreeRange& trees, const Buffer& to, const Expr& at) {
    with_sums(1, to, at, [&](const Buffer& sums, const Expr& base) {
      const Expr features = row * loops_.features, groups = floordiv(trees.count, lanes_);
      const auto together = [&](const Expr& first, int64_t count) {
        std::vector<Lane> lanes;
        for (int64_t i = 0; i < count; ++i) lanes.push_back({features, first + i, base});
        walk_apart(lanes, sums);
      };
      if (lanes_ > 1)
        b_.loop("group", groups, [&](const Expr& g) { together(trees.first + g * lanes_, lanes_); });
      const Expr done = lanes_ > 1 ? groups * lanes_ : Expr(0);
      b_.loop("tree", trees.count - done, [&](const Expr& i) { together(trees.first + done + i, 1); });
    });
  }

  Expr combined(const Expr& a, const Expr& c) const {
    switch (loops_.attrs.reduction) {
      case TreeReduction::kMin:
        return min(a, c);
      case TreeReduction::kMax:
        return max(a, c);
      default:
        return a + c;
    }
  }
  Expr neutral() const {
    switch (loops_.attrs.reduction) {
      case TreeReduction::kMin:
        return identity_of(ReduceKind::kMin, loops_.dtype);
      case TreeReduction::kMax:
        return identity_of(ReduceKind::kMax, loops_.dtype);
      default:
        return identity_of(ReduceKind::kSum, loops_.dtype);
    }
  }

 private:
  const Buffer& input(TreeInput i) const { return b_.input(static_cast<int>(i)); }
  Expr of_tree(const Expr& tree, int64_t column) const {
    return cast(DType::kI64, load(input(TreeInput::kTrees), tree * 4 + column));
  }

  /// Runs `body` on sums of `rows` rows that are neutral at first and end up in `to`.
  void with_sums(int64_t rows, const Buffer& to, const Expr& at,
                 const std::function<void(const Buffer& sums, const Expr& base)>& body) {
    const int64_t count = rows * loops_.attrs.targets;
    const bool local = count <= (lanes_ > 1 ? kMostLocalSums : kMostRegisterSums);
    const Buffer sums = local ? b_.local("sums", loops_.dtype, count) : to;
    const Expr base = local ? Expr(0) : at;
    // In registers, where only a few indices occur.
    const LoopKind kind = count <= kMostRegisterSums ? LoopKind::kUnrolled : LoopKind::kSerial;
    b_.loop(
        "place", count, [&](const Expr& i) { b_.emit(store(sums, base + i, neutral())); }, kind);
    body(sums, base);
    if (local)
      b_.loop(
          "place", count, [&](const Expr& i) { b_.emit(store(to, at + i, load(sums, i))); }, kind);
  }

  /// Lanes in trees of their own.
  void walk_apart(const std::vector<Lane>& lanes, const Buffer& sums) {
    const Buffer branches = local("branches_of", lanes);
    Expr depth = of_tree(lanes[0].tree, 3);
    for (size_t i = 0; i < lanes.size(); ++i) {
      b_.emit(store(branches, static_cast<int64_t>(i), of_tree(lanes[i].tree, 1)));
      if (i > 0) depth = max(depth, of_tree(lanes[i].tree, 3));
    }
    walk(lanes, sums, depth, [&](int64_t i) { return load(branches, i); });
  }

  Buffer local(const char* name, const std::vector<Lane>& lanes) {
    return b_.local(name, DType::kI64, static_cast<int64_t>(lanes.size()));
  }

  /// `branches`: the first one of a lane's tree.
  void walk(const std::vector<Lane>& lanes, const Buffer& sums, const Expr& depth,
            const std::function<Expr(int64_t lane)>& branches) {
    const Buffer states = local("states", lanes);
    const auto each = [&](const std::function<void(int64_t lane)>& body) {
      for (size_t i = 0; i < lanes.size(); ++i) body(static_cast<int64_t>(i));
    };
    each([&](int64_t i) { b_.emit(store(states, i, of_tree(lanes[static_cast<size_t>(i)].tree, 0))); });
    b_.loop("stretch", floordiv(depth + (kStretch - 1), kStretch), [&](const Expr&) {
      Expr furthest = load(states, 0);
      for (size_t i = 1; i < lanes.size(); ++i)
        furthest = max(furthest, load(states, static_cast<int64_t>(i)));
      b_.let("open_steps", select(ge(furthest, 0), Expr(kStretch), Expr(0)), [&](const Expr& open) {
        b_.loop("step", open, [&](const Expr&) {
          each([&](int64_t i) { step(lanes[static_cast<size_t>(i)].features, branches(i), states, i); });
        });
      });
    });
    each([&](int64_t i) { add_leaf(lanes[static_cast<size_t>(i)], load(states, i), sums); });
  }

  void step(const Expr& features, const Expr& branches, const Buffer& states, int64_t lane) {
    b_.let("state", load(states, lane), [&](const Expr& state) {
      b_.let("branch", branches + max(state, 0), [&](const Expr& branch) {
        b_.let("test", cast(DType::kI64, load(input(TreeInput::kTests), branch)), [&](const Expr& test) {
          const int64_t bits = own_bits(loops_.attrs.own);
          const Expr feature = bits == 0 ? test : binary(BinaryOp::kShr, test, bits);
          b_.let("value", load(input(TreeInput::kX), features + feature), [&](const Expr& value) {
            b_.let("split", load(input(TreeInput::kSplits), branch), [&](const Expr& split) {
              const Expr side = select(passes(value, split, test), Expr(0), Expr(1));
              const Expr next = cast(DType::kI64, load(input(TreeInput::kNext), branch * 2 + side));
              b_.emit(store(states, lane, select(lt(state, 0), state, next)));
            });
          });
        });
      });
    });
  }

  Expr passes(const Expr& value, const Expr& split, const Expr& test) const {
    const TreesAttrs& attrs = loops_.attrs;
    if (attrs.own != outcome::kAny) {
      const Expr common = has_outcome(value, split, attrs.passes);
      if (attrs.own == 0) return common;
      const Expr takes_nan = ne(binary(BinaryOp::kAnd, test, Expr(1)), 0);
      return common || (call(MathFn::kIsNan, {value}) && takes_nan);
    }
    Expr found = select(lt(split, value), Expr(outcome::kMore), Expr(0));
    found = select(eq(value, split), Expr(outcome::kEqual), found);
    found = select(lt(value, split), Expr(outcome::kLess), found);
    found = select(call(MathFn::kIsNan, {value}), Expr(outcome::kNan), found);
    const Expr passing = binary(BinaryOp::kOr, test, Expr(attrs.passes));
    return ne(binary(BinaryOp::kAnd, passing, found), 0);
  }

  /// Whether the outcome is one of those.
  static Expr has_outcome(const Expr& value, const Expr& split, int64_t outcomes) {
    Expr any;
    const auto add = [&](const Expr& e) { any = any ? any || e : e; };
    const bool equal = (outcomes & outcome::kEqual) != 0, less = (outcomes & outcome::kLess) != 0,
               more = (outcomes & outcome::kMore) != 0;
    if (less) add(equal ? le(value, split) : lt(value, split));
    if (more) add(equal ? le(split, value) : lt(split, value));
    if (equal && !less && !more) add(eq(value, split));
    if ((outcomes & outcome::kNan) != 0) add(call(MathFn::kIsNan, {value}));
    return any ? any : int_imm(DType::kBool, 0);
  }

  void add_leaf(const Lane& lane, const Expr& state, const Buffer& sums) {
    // A state that is no leaf would be one of tables that were zeros.
    b_.let("leaf", of_tree(lane.tree, 2) + max(Expr(-1) - state, 0), [&](const Expr& leaf) {
      if (loops_.begins < 0)
        return add_weights(lane, leaf * loops_.attrs.leaf_weights, loops_.attrs.leaf_weights, sums);
      const auto begin = [&](const Expr& i) { return cast(DType::kI64, load(b_.input(loops_.begins), i)); };
      b_.let("first", begin(leaf),
             [&](const Expr& first) { add_weights(lane, first, begin(leaf + 1) - first, sums); });
    });
  }

  void add_weights(const Lane& lane, const Expr& first, const Expr& count, const Buffer& sums) {
    const auto add = [&](const Expr& i) {
      const Expr target =
          loops_.targets < 0 ? i : cast(DType::kI64, load(b_.input(loops_.targets), first + i));
      b_.let("sum", lane.sums + target, [&](const Expr& sum) {
        b_.emit(store(sums, sum, combined(load(sums, sum), load(input(TreeInput::kWeights), first + i))));
      });
    };
    if (constant_of(count) == 1) return add(0);
    b_.loop("weight", count, add);
  }

  LoopBuilder& b_;
  const TreeLoops& loops_;
  int64_t lanes_;
};

/// Few rows are shared by parts of the trees.
class Parts {
 public:
  /// Of at most `rows` rows, each in `parts` parts.
  Parts(const TreeLoops& loops, Expr rows, int64_t parts) : loops_(loops), rows_(std::move(rows)) {
    each_ = (loops.trees + parts - 1) / parts;
    each_ = (each_ + kLanes - 1) / kLanes * kLanes;
    count_ = (loops.trees + each_ - 1) / each_;
  }

  Buffer scratch(LoopBuilder& b) const {
    return b.scratch("part_sums", loops_.dtype, rows_ * (count_ * targets()));
  }
  int64_t count() const { return count_; }

  /// Part i of all rows' parts.
  void walk(Walks& walks, const Buffer& sums, const Expr& i) const {
    const Expr first = mod(i, count_) * each_;
    walks.one_row(floordiv(i, count_), {first, min(Expr(loops_.trees) - first, each_)}, sums, i * targets());
  }
  /// Element i of the result, of that element of all parts.
  void add_up(LoopBuilder& b, const Walks& walks, const Buffer& sums, const Expr& i) const {
    const Expr first = floordiv(i, targets()) * (count_ * targets()) + mod(i, targets());
    b.emit(store(b.result(0), i, load(sums, first)));
    b.loop("part", count_ - 1, [&](const Expr& part) {
      const Expr more = load(sums, first + (part + 1) * targets());
      b.emit(store(b.result(0), i, walks.combined(load(b.result(0), i), more)));
    });
  }

 private:
  int64_t targets() const { return loops_.attrs.targets; }

  const TreeLoops& loops_;
  Expr rows_;
  int64_t each_ = 0, count_ = 0;
};

}  // namespace

TreeLoops::TreeLoops(const TreesAttrs& a, const std::vector<Tensor>& in)
    : attrs(a), dtype(in[0].dtype()), rows(in[0].shape()[0]), features(in[0].shape()[1]) {
  trees = *constant_of(in[static_cast<size_t>(TreeInput::kTrees)].shape()[0]);
  const auto present = [&](TreeInput input) {
    return in.size() > static_cast<size_t>(input) && in[static_cast<size_t>(input)];
  };
  int next = static_cast<int>(TreeInput::kBegins);
  if (present(TreeInput::kBegins)) begins = next++;
  if (present(TreeInput::kTargets)) targets = next;
}

void TreeLoops::build(LoopBuilder& b) const {
  // Rows that threads share by parts of the trees; where there are more, there are rows enough.
  constexpr int64_t kFewRows = 32, kMostParts = 16;
  Walks walks(b, *this, kLanes);
  const Parts parts(*this, min(rows, kFewRows),
                    std::clamp<int64_t>(attrs.steps / kThreadSteps, 1, kMostParts));
  const bool divides = parts.count() > 1;
  const Expr few = divides ? select(le(rows, kFewRows), rows, Expr(0)) : Expr(0), many = rows - few;
  if (divides && constant_of(few) != 0) {
    const Buffer sums = parts.scratch(b);
    b.loop(
        "part_of_row", few * parts.count(), [&](const Expr& i) { parts.walk(walks, sums, i); },
        LoopKind::kParallel);
    b.loop("i", few * attrs.targets, [&](const Expr& i) { parts.add_up(b, walks, sums, i); });
  }
  if (constant_of(many) == 0) return;
  const int64_t block =
      std::clamp<int64_t>(2 * kThreadSteps / std::max<int64_t>(attrs.steps, 1), 1, 64) * kLanes;
  const auto one_block = [&](const Expr& i) {
    const Expr first = i * block, count = min(many - first, block), together = floordiv(count, kLanes);
    b.loop("rows", together, [&](const Expr& k) {
      const Expr row = first + k * kLanes;
      walks.side_by_side(row, b.result(0), row * attrs.targets);
    });
    b.loop("row", count - together * kLanes, [&](const Expr& k) {
      const Expr row = first + together * kLanes + k;
      walks.one_row(row, {0, trees}, b.result(0), row * attrs.targets);
    });
  };
  b.loop("block", floordiv(many + (block - 1), block), one_block, LoopKind::kParallel);
}

void TreeLoops::build_launches(LoopBuilder& b) const {
  constexpr int64_t kFewRows = 512, kPartTrees = 16, kMostParts = 64;
  Walks walks(b, *this, 1);
  const Parts parts(*this, min(rows, kFewRows), std::clamp<int64_t>(trees / kPartTrees, 1, kMostParts));
  const Expr few = parts.count() > 1 ? min(rows, kFewRows) : Expr(0), many = rows - few;
  if (parts.count() > 1) {
    const Buffer sums = parts.scratch(b);
    b.launch_flat(few * parts.count(), [&](const Expr& i) { parts.walk(walks, sums, i); });
    b.launch_flat(few * attrs.targets, [&](const Expr& i) { parts.add_up(b, walks, sums, i); });
  }
  if (constant_of(many) == 0) return;
  b.launch_flat(many, [&](const Expr& i) {
    b.let("row", few + i, [&](const Expr& row) {
      walks.one_row(row, {0, trees}, b.result(0), row * attrs.targets);
    });
  });
}

}  // namespace gantry
