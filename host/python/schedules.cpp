#include "host/python/schedules.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <string_view>

#include "host/codegen/find_target.h"
#include "host/machine/target.h"
#include "host/targets/common/schedule_rules.h"

namespace py = pybind11;

namespace gantry::python {
namespace {

template <typename Value>
struct Named {
  std::string_view name;
  Value value;
};
constexpr Named<TailStrategy> kTails[] = {{"guard", TailStrategy::kGuard},
                                          {"shift_inwards", TailStrategy::kShiftInwards},
                                          {"shift_or_guard", TailStrategy::kShiftOrGuard}};
constexpr Named<StorageScope> kScopes[] = {{"global", StorageScope::kGlobal},
                                           {"local", StorageScope::kLocal},
                                           {"shared", StorageScope::kShared},
                                           {"fragment", StorageScope::kFragment}};
constexpr Named<LoopKind> kBindings[] = {{"block", LoopKind::kBlock}, {"thread", LoopKind::kThread}};
constexpr Named<MmaShape> kMatrixShapes[] = {{"m16n8k8_tf32", MmaShape::kM16N8K8Tf32},
                                             {"m16n8k16_bf16", MmaShape::kM16N8K16Bf16},
                                             {"m16n8k16_f16", MmaShape::kM16N8K16F16},
                                             {"m16n8k8_f16", MmaShape::kM16N8K8F16}};
std::vector<Named<TileUnit>> named_tile_units() {
  std::vector<Named<TileUnit>> units;
  for (const TileGeometry& known : tile_units()) units.push_back({known.name, known.unit});
  return units;
}

/// `all`: Named entries.
template <typename Entries>
auto find(const Entries& all, const char* what, const std::string& name) {
  std::string names;
  for (const auto& entry : all) {
    if (entry.name == name) return entry.value;
    names += fmt::format("{}'{}'", names.empty() ? "" : ", ", entry.name);
  }
  user_error("{} '{}' is none of {}", what, name, names);
}

Expr factor_of(const py::object& factor) {
  return Expr(size_of(factor, "the factor"));
}

SchedulePtr make(const py::object& outputs, bool gpu) {
  const std::vector<TensorExpression> tensors = tensors_of(outputs, "the outputs of a schedule");
  if (tensors.empty()) user_error("a schedule has at least one output");
  for (const TensorExpression& tensor : tensors) {
    if (tensor.tensor.op()->kind == OperationNode::Kind::kPlaceholder)
      user_error("the output {} is an input; outputs are computed", tensor.tensor.op()->name);
  }
  auto made = std::make_shared<SharedSchedule>(
      SharedSchedule{request([&] { return Schedule(host_tensors(tensors)); })});
  made->schedule.for_gpu = gpu;
  return made;
}

SchedulePtr by_rule(const py::object& outputs, const std::string& target) {
  const SchedulePtr checked = make(outputs, false);
  const Target machine = find_target(target);
  return std::make_shared<SharedSchedule>(
      SharedSchedule{request([&] { return make_schedule(checked->schedule.outputs(), machine); })});
}

ScheduledStage stage_of(const SchedulePtr& schedule, const TensorExpression& tensor) {
  return {schedule, &request([&]() -> Stage& { return schedule->schedule[tensor.tensor]; })};
}

/// A cache has what its tensor has, or reads it.
TensorExpression cache(const Tensor& made, const TensorExpression& of) {
  return {made, of.read_depth + made.rank() + 1};
}

TensorExpression cache_write(const SchedulePtr& schedule, const TensorExpression& tensor,
                             const std::string& scope) {
  ScheduledStage::check_unread(*schedule);
  const StorageScope where = find(kScopes, "scope", scope);
  return cache(request([&] { return schedule->schedule.cache_write(tensor.tensor, where); }), tensor);
}

TensorExpression cache_read(const SchedulePtr& schedule, const TensorExpression& tensor,
                            const std::string& scope, const py::object& readers) {
  ScheduledStage::check_unread(*schedule);
  const StorageScope where = find(kScopes, "scope", scope);
  std::vector<Operation> operations;
  for (const TensorExpression& reader : tensors_of(readers, "the readers of a cache")) {
    if (reader.tensor.op()->kind != OperationNode::Kind::kCompute)
      user_error("cache_read of {}: {} is no compute", tensor.tensor.op()->name, reader.tensor.op()->name);
    stage_of(schedule, reader);  // all or none
    operations.push_back(reader.tensor.op());
  }
  return cache(request([&] { return schedule->schedule.cache_read(tensor.tensor, where, operations); }),
               tensor);
}

void compute_at(const ScheduledStage& self, const ScheduledStage& consumer, const Axis& axis,
                bool once_a_thread) {
  const Stage& at = *consumer.stage;
  if (self.schedule != consumer.schedule)
    user_error("{} and {} are of two schedules", self.stage->op()->name, at.op()->name);
  if (std::ranges::find(at.leaves(), axis.axis) == at.leaves().end())
    user_error("compute_at of {}: {} is not one of the loops of {}", self.stage->op()->name,
               axis.axis->name(), at.op()->name);
  for (const Stage* around = consumer.stage; around != nullptr; around = around->attachment().consumer()) {
    if (around == self.stage)
      user_error("{} is computed in {}, which is computed in it", at.op()->name, self.stage->op()->name);
  }
  self.change([&](Stage& stage) {
    if (once_a_thread) {
      stage.compute_once_a_thread(*consumer.stage, axis.axis);
    } else {
      stage.compute_at(*consumer.stage, axis.axis);
    }
  });
}

std::vector<IterVarPtr> all_axes(const Stage& stage) {
  std::vector<IterVarPtr> axes = stage.axes();
  axes.insert(axes.end(), stage.reduce_axes().begin(), stage.reduce_axes().end());
  return axes;
}

void skip_unless(const ScheduledStage& self, const py::object& condition) {
  const std::string what = "skip_unless of " + self.stage->op()->name;
  const Expression when = operand(condition, DType::kBool);
  if (when.expr.type().dtype != DType::kBool)
    user_error("{}: the condition is {}, not bool", what, name_of(when.expr.type().dtype));
  check_body(when.expr, all_axes(*self.stage), what);
  walk(when.expr, [&](const Expr& e) {
    if (const auto* read = e.as<ReadNode>())
      user_error("{}: the condition reads {}; it is over axes, and a reduction's where= is over data", what,
                 read->op->name);
  });
  const Expr& body = self.stage->op()->body;
  const auto* sum = body ? body.as<ReduceNode>() : nullptr;
  if (sum == nullptr || sum->reduce != ReduceKind::kSum) user_error("{}: it is no sum", what);
  self.change([&](Stage& stage) { stage.skip_unless(when.expr); });
}

void prefetch(const ScheduledStage& self, const Axis& axis, const TensorExpression& tensor,
              const py::object& indices) {
  const std::string what = "prefetch of " + self.stage->op()->name;
  const std::vector<Expr> at = index_operands(indices, what);
  if (at.size() != tensor.tensor.shape().size())
    user_error("{}: {} indices of {}, which has {} dimensions", what, at.size(), tensor.tensor.op()->name,
               tensor.tensor.shape().size());
  for (const Expr& index : at) check_body(index, all_axes(*self.stage), what);
  self.change([&](Stage& stage) { stage.prefetch(axis.axis, tensor.tensor, at); });
}

/// Dividing, merging and ordering loops.
void add_loop_primitives(py::class_<ScheduledStage>& type) {
  type.def(
          "split",
          [](const ScheduledStage& self, const Axis& axis, const py::object& factor,
             const std::string& tail) {
            const Expr by = factor_of(factor);
            const TailStrategy rest = find(kTails, "tail", tail);
            const auto [outer, inner] =
                self.change([&](Stage& stage) { return stage.split(axis.axis, by, rest); });
            return axes_tuple({outer, inner});
          },
          py::arg("axis"), py::arg("factor"), py::kw_only(), py::arg("tail") = "guard",
          "Divides a loop into (outer, inner), inner of ``factor`` iterations.\n\n"
          "``tail``, where the factor does not divide it: \"guard\" skips iterations beyond\n"
          "the end; \"shift_inwards\" has the last tile begin earlier, so that some elements\n"
          "are computed twice; \"shift_or_guard\" shifts if there are as many. Inside a\n"
          "reduction, shifted tiles may sum at most 16 KiB at once.")
      .def(
          "tile",
          [](const ScheduledStage& self, const Axis& x, const Axis& y, const py::object& x_factor,
             const py::object& y_factor, const std::string& tail) {
            const Expr by_x = factor_of(x_factor), by_y = factor_of(y_factor);
            const TailStrategy rest = find(kTails, "tail", tail);
            const auto made =
                self.change([&](Stage& stage) { return stage.tile(x.axis, y.axis, by_x, by_y, rest); });
            return axes_tuple({made.begin(), made.end()});
          },
          py::arg("x"), py::arg("y"), py::arg("x_factor"), py::arg("y_factor"), py::kw_only(),
          py::arg("tail") = "guard",
          "Splits two loops; returns them as (x outer, y outer, x inner, y inner), which is their new order.")
      .def(
          "fuse",
          [](const ScheduledStage& self, const Axis& outer, const Axis& inner) {
            return Axis{self.change([&](Stage& stage) { return stage.fuse(outer.axis, inner.axis); })};
          },
          py::arg("outer"), py::arg("inner"),
          "Makes one loop of two, of which the second is directly in the first.")
      .def(
          "reorder",
          [](const ScheduledStage& self, const py::args& axes) {
            const std::vector<IterVarPtr> order = host_axes(axes);
            self.change([&](Stage& stage) { stage.reorder(order); });
          },
          "Puts these loops into this order, in the places that they hold together.")
      .def(
          "vectorize",
          [](const ScheduledStage& self, const Axis& axis) {
            self.change([&](Stage& stage) { stage.vectorize(axis.axis); });
          },
          py::arg("axis"),
          "An iteration a vector lane, at most 2048; a reduction keeps one accumulator a lane.")
      .def(
          "unroll",
          [](const ScheduledStage& self, const Axis& axis) {
            self.change([&](Stage& stage) { stage.unroll(axis.axis); });
          },
          py::arg("axis"), "Writes the iterations, at most 1024, out one after another.")
      .def(
          "parallel",
          [](const ScheduledStage& self, const Axis& axis, const py::object& rounds) {
            const int64_t times = size_of(rounds, "rounds");
            self.change([&](Stage& stage) { stage.parallel(axis.axis, times); });
          },
          py::arg("axis"), py::kw_only(), py::arg("rounds") = 1,
          "Runs the iterations on the session's threads: the outermost loop of a stage at\n"
          "root. Each thread gets a range of them, or the same range of each of so many\n"
          "rounds, of which there must be a multiple of iterations.")
      .def(
          "bind",
          [](const ScheduledStage& self, const Axis& axis, const std::string& to) {
            const LoopKind kind = find(kBindings, "binding", to);
            self.change([&](Stage& stage) { stage.bind(axis.axis, kind); });
          },
          py::arg("axis"), py::arg("to"),
          "GPU: an iteration a thread \"block\" of the grid, or a \"thread\" of the block.\n"
          "Several loops bound to threads are the digits of a thread's index, outermost\n"
          "first.");
}

/// Where a stage is computed, and where its result lives.
void add_placing(py::class_<ScheduledStage>& type) {
  type.def(
          "compute_at",
          [](const ScheduledStage& self, const ScheduledStage& consumer, const Axis& axis) {
            compute_at(self, consumer, axis, false);
          },
          py::arg("consumer"), py::arg("axis"),
          "Computes in each iteration of a consumer's loop what that iteration reads. Of an\n"
          "output all must be read: its indices are different axes of the reader, as long.\n"
          "Its own loops are not bound to threads.")
      .def(
          "compute_once_a_thread",
          [](const ScheduledStage& self, const ScheduledStage& consumer, const Axis& axis) {
            compute_at(self, consumer, axis, true);
          },
          py::arg("consumer"), py::arg("axis"),
          "At the consumer's parallel loop, but every thread makes all that the loop reads\n"
          "before its first iteration, and keeps it. CPUs only.")
      .def(
          "compute_inline",
          [](const ScheduledStage& self) { self.change([](Stage& stage) { stage.compute_inline(); }); },
          "Computes each element where it is read, every time. A stage has at most 2^18 terms\n"
          "with what is inlined into it.")
      .def(
          "compute_root",
          [](const ScheduledStage& self) { self.change([](Stage& stage) { stage.compute_root(); }); },
          "Computes all of it before its consumers; so are all stages of a new schedule.")
      .def_property(
          "scope",
          [](const ScheduledStage& self) {
            for (const auto& entry : kScopes) {
              if (entry.value == self.stage->memory().scope) return std::string(entry.name);
            }
            internal_error("a scope without a name");
          },
          [](const ScheduledStage& self, const std::string& name) {
            const StorageScope scope = find(kScopes, "scope", name);
            self.change([&](Stage& stage) { stage.set_scope(scope); });
          },
          "Where its result lives: \"global\", the kernel's workspace; \"local\", registers\n"
          "or the thread's stack; GPU: \"shared\", the block's memory; \"fragment\", a matrix\n"
          "tile in the registers of a warp.")
      .def(
          "bound_to_reads",
          [](const ScheduledStage& self) { self.change([](Stage& stage) { stage.bound_to_reads(); }); },
          "At root, no output: computes only the box around the elements that are read.")
      .def(
          "shift_region",
          [](const ScheduledStage& self, const Axis& axis) {
            self.change([&](Stage& stage) { stage.shift_region(axis.axis); });
          },
          py::arg("axis"),
          "Attached: the last region that the consumer needs begins earlier instead of going beyond the end.")
      .def(
          "pad_rows",
          [](const ScheduledStage& self, const py::object& elements) {
            const int64_t count = size_of(elements, "the elements", 0);
            self.change([&](Stage& stage) { stage.pad_rows(count); });
          },
          py::arg("elements"),
          "Of scope \"shared\": so many elements more in each row, so that columns fall into other banks.")
      .def(
          "double_buffer",
          [](const ScheduledStage& self) { self.change([](Stage& stage) { stage.double_buffer(); }); },
          "Of scope \"shared\", elementwise, in a serial loop: the next iteration's tile is fetched while "
          "this one is used.");
}

/// What products and sums of many terms need.
void add_sums(py::class_<ScheduledStage>& type) {
  type.def(
          "tensorize",
          [](const ScheduledStage& self, const Axis& axis, const std::string& shape) {
            const MmaShape instruction = find(kMatrixShapes, "shape", shape);
            self.change([&](Stage& stage) { stage.tensorize(axis.axis, instruction); });
          },
          py::arg("axis"), py::arg("shape"),
          "GPU: the three innermost loops, m, n and k from ``axis`` on, are one instruction\n"
          "of the tensor cores: \"m16n8k8_tf32\", \"m16n8k16_bf16\", \"m16n8k16_f16\" or\n"
          "\"m16n8k8_f16\". Of scope \"fragment\".")
      .def(
          "tensorize_tiles",
          [](const ScheduledStage& self, const Axis& axis, const std::string& unit) {
            const TileUnit tiles = find(named_tile_units(), "unit", unit);
            self.change([&](Stage& stage) { stage.tensorize_tiles(axis.axis, tiles); });
          },
          py::arg("axis"), py::arg("unit"),
          "CPU: the five innermost loops, row tiles, column tiles, m, n and k from ``axis``\n"
          "on, are products of bf16 by \"amx\", \"bfmmla\" or \"vdpbf16ps\".\n"
          "host/tensor/stage.h says how operands lie.")
      .def(
          "sum_in_half",
          [](const ScheduledStage& self, const py::args& axes) {
            const std::vector<IterVarPtr> parts = host_axes(axes);
            self.change([&](Stage& stage) { stage.sum_in_half(parts); });
          },
          "Sums in f32 of products of f16 are added in f16 from the last of these reduction\n"
          "loops inwards, their sums in f16 from the one before on, those of the first in\n"
          "f32. CPUs only.")
      .def(
          "sum_in_parts",
          [](const ScheduledStage& self, const Axis& axis) {
            self.change([&](Stage& stage) { stage.sum_in_parts(axis.axis); });
          },
          py::arg("axis"),
          "What the reduction loops from ``axis`` inwards sum is added apart first: less rounding. Attached; "
          "CPUs only.")
      .def("skip_unless", &skip_unless, py::arg("condition"),
           "Terms of its sum are zero where the condition, over its axes, is false: iterations are left out. "
           "CPUs only.")
      .def("prefetch", &prefetch, py::arg("axis"), py::arg("tensor"), py::arg("indices"),
           "Each iteration of the loop asks memory for that element, which a later one reads;\n"
           "indices are over the stage's axes, and may be outside of the tensor. CPUs only.")
      .def(
          "fetch_next",
          [](const ScheduledStage& self, const TensorExpression& source, const Axis& axis,
             const py::object& elements) {
            const int64_t count = size_of(elements, "the elements");
            self.change([&](Stage& stage) { stage.fetch_next(source.tensor.op(), axis.axis, count); });
          },
          py::arg("source"), py::arg("axis"), py::arg("elements"),
          "Each iteration of ``axis``, which reads so many of ``source``'s elements one after\n"
          "another, asks memory for the next iteration's. CPUs only.");
}

}  // namespace

void add_schedules(py::module_& module) {
  py::class_<SharedSchedule, SchedulePtr> schedule(
      module, "Schedule",
      "How the tensors that ``outputs``, one or a list, need are computed: a stage each.\n\n"
      "``schedule[tensor]`` is a tensor's stage. At first all are at root: loops over all\n"
      "elements, one stage after another. With ``gpu=True`` stages at root become\n"
      "launches on a GPU.");
  schedule.attr("__module__") = "gantry.te";
  py::class_<ScheduledStage> stage(
      module, "Stage",
      "How one tensor is computed: its loops, outermost first, and where it stands. Primitives change them.");
  stage.attr("__module__") = "gantry.te";
  schedule.def(py::init(&make), py::arg("outputs"), py::kw_only(), py::arg("gpu") = false)
      .def("__getitem__", &stage_of, py::arg("tensor"), "The stage that computes this tensor.")
      .def("cache_write", &cache_write, py::arg("tensor"), py::arg("scope"),
           "Computes the tensor into a buffer of its own first, and then copies it; the buffer\n"
           "is returned, to be computed at a loop of the copy. Before the tensor's loops are\n"
           "changed.")
      .def("cache_read", &cache_read, py::arg("tensor"), py::arg("scope"), py::arg("readers"),
           "The readers, one or a list, read a copy of the tensor, which is returned.");
  stage
      .def_property_readonly(
          "axes", [](const ScheduledStage& self) { return axes_tuple(self.stage->axes()); },
          "An axis a dimension of its result, as first given.")
      .def_property_readonly(
          "reduce_axes", [](const ScheduledStage& self) { return axes_tuple(self.stage->reduce_axes()); },
          "Those that its reduction goes over.")
      .def_property_readonly(
          "loops", [](const ScheduledStage& self) { return axes_tuple(self.stage->leaves()); },
          "Its loops now, outermost first.");
  add_loop_primitives(stage);
  add_placing(stage);
  add_sums(stage);
  module.def("schedule_for", &by_rule, py::arg("outputs"), py::arg("target") = "native",
             "The schedule that the target's own rules make: what a compiled model would have.");
}

}  // namespace gantry::python
