// Reductions, scans and selections along axes.
#include "host/ops/reduce.h"
#include "host/ops/sort.h"
#include "tests/random_graphs/sketch.h"

namespace gantry::random_graphs {
namespace {

void choose_axes(Sketch& s, const Value& x, ReduceAttrs& a) {
  for (int64_t axis = 0; axis < x.type.rank(); ++axis) {
    if (s.choices.chance(0.4)) a.axes.push_back(axis);
  }
  if (a.axes.empty() && s.choices.chance(0.9) && x.type.rank() > 0) a.axes = {s.choices.below(x.type.rank())};
  a.keepdims = s.choices.chance(0.5);
}

void add_reduction(Sketch& s) {
  Value* x = s.value(s.number_type(), 1, 4);
  s.add<ReduceAttrs>(s.choices.of({"sum", "mean", "mean", "max", "min", "prod"}), {x},
                     [&](ReduceAttrs& a) { choose_axes(s, *x, a); });
}

void add_truth(Sketch& s) {
  Value* x = s.value(DType::kBool, 1, 4);
  s.add<ReduceAttrs>(s.choices.of({"all", "any"}), {x}, [&](ReduceAttrs& a) { choose_axes(s, *x, a); });
}

void add_position(Sketch& s) {
  Value* x = s.value(s.number_type(), 1, 4);
  s.add<ArgReduceAttrs>(s.choices.of({"argmax", "argmin"}), {x}, [&](ArgReduceAttrs& a) {
    a.axis = s.choices.below(x->type.rank());
    a.keepdims = s.choices.chance(0.5);
    a.select_last = s.choices.chance(0.3);
  });
}

void add_cumsum(Sketch& s) {
  Value* x = s.value(s.number_type(), 1, 4);
  s.add<CumsumAttrs>("cumsum", {x}, [&](CumsumAttrs& a) {
    a.axis = s.choices.below(x->type.rank());
    a.exclusive = s.choices.chance(0.3);
    a.reverse = s.choices.chance(0.3);
  });
}

void add_topk(Sketch& s) {
  Value* x = s.value(s.number_type(), 1, 3);
  s.add<TopKAttrs>("topk", {x}, [&](TopKAttrs& a) {
    a.axis = s.choices.below(x->type.rank());
    a.k = s.choices.between(1, s.extent(x->type.shape[static_cast<size_t>(a.axis)]));
    a.largest = s.choices.chance(0.7);
  });
}

}  // namespace

std::vector<Family> reduction_families() {
  return {{"reduction", 6, add_reduction},
          {"truth", 1, add_truth},
          {"position", 1, add_position},
          {"cumsum", 1, add_cumsum},
          {"topk", 0.7, add_topk}};
}

}  // namespace gantry::random_graphs
