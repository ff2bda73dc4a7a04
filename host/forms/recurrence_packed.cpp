// Recurrences with constant recurrent weights in strips of columns, as a step reads them (host/ops/recurrent.h).
#include <algorithm>
#include <limits>

#include "host/forms/form.h"
#include "host/forms/ranges.h"
#include "host/graph/shape_guess.h"
#include "host/ops/recurrent.h"
#include "host/passes/weight_growth.h"
#include "host/support/divide.h"

namespace gantry::forms {
namespace {

constexpr int64_t kMostSequences = 8;

constexpr Knob kKnobs[] = {
    {"columns", 0, "of the weight a strip",
     [](const FormCase& given) {
       const KnobRange vectors = whole_vectors(given, byte_width(DType::kF32));
       return KnobRange{kRecurrentLanes, vectors.most, kRecurrentLanes};
     }},
    {"sequences", 1, "that meet the weights together", [](const FormCase&) { return KnobRange{1, kMostSequences}; }},
    {"in_turn", 0, "directions one after the other, each shared by two threads"},
};

/// Columns a strip; the sequences that meet it together; and whether threads share a direction.
struct RecurrentPacking {
  int64_t columns = 0, sequences = 1;
  bool directions_in_turn = false;
};

/// How many of a direction's sequences to take together, of `most` whose sums fit the registers: one thread
/// reads the weights once for all of these, but two want rows for each.
int64_t recurrent_sequences(const TensorType& state, int64_t most) {
  constexpr int64_t kFew = 4;
  const auto batch = state.shape[1].constant();
  if (!batch) return std::min(guess::value(guess::Extent::kSequences), most);
  const bool halves = state.shape[0] == Dim(1) && *batch > kFew;
  int64_t parts = ceil_div(*batch, most);
  if (halves) parts = ceil_div(parts, int64_t{2}) * 2;
  return std::max<int64_t>(1, ceil_div(*batch, parts));
}

/// Where a direction's weights are more than a second-level cache holds, and two of them hold a good part.
bool takes_directions_in_turn(const TensorType& state, const std::vector<int64_t>& runs,
                              const RecurrentPacking& packing, const MachineModel& machine) {
  const auto batch = state.shape[1].constant();
  const bool single = state.shape[0] == Dim(2) && batch && *batch <= packing.sequences;
  int64_t columns = 0;
  bool even = true;
  for (int64_t run : runs) {
    columns += run;
    even = even && run / packing.columns % 2 == 0;
  }
  const int64_t bytes = columns * state.shape[2].value() * byte_width(DType::kF32);
  // Two threads then have half as much to read each; one thread alone finds less in its cache than if steps
  // took turns over all weights. Measured up to 7.1 MB, caches of 2 MiB: the one gains more than the other
  // loses.
  constexpr double kCaches = 4.4;
  return single && even && bytes > machine.l2_bytes && double(bytes) <= kCaches * double(machine.l2_bytes);
}

/// Sums fill half of the registers for one sequence (eight vectors of AVX-512 hide a multiply-add's latency),
/// three quarters for several, which share the weights' loads.
RecurrentPacking recurrent_packing(const TensorType& state, const std::vector<int64_t>& runs,
                                   const MachineModel& machine) {
  constexpr int64_t kMostVectors = 8;
  // Registers, in vectors of kRecurrentLanes.
  const int64_t registers = machine.vector_registers * int64_t{machine.vector_bytes} / 4 / kRecurrentLanes;
  RecurrentPacking packing;
  packing.sequences = recurrent_sequences(state, std::clamp<int64_t>(registers * 3 / 4, 1, kMostSequences));
  const int64_t sums = packing.sequences == 1 ? registers / 2 : registers * 3 / 4 / packing.sequences;
  const int64_t widest = std::clamp<int64_t>(sums, 1, kMostVectors);
  // Of strips about as wide, those of which the last ones lack the least.
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t vectors = widest; vectors >= (widest + 1) / 2; --vectors) {
    const int64_t block = vectors * kRecurrentLanes;
    int64_t missing = 0;
    for (int64_t run : runs) missing += ceil_div(run, block) * block - run;
    if (missing < least) packing.columns = block, least = missing;
  }
  packing.directions_in_turn = takes_directions_in_turn(state, runs, packing, machine);
  return packing;
}

/// Columns that each product of a step takes.
std::vector<int64_t> runs_of(const FormQuestion& question) {
  return recurrent_runs(question.node, question.weight->type.shape[1].value());
}

bool is_recurrence(const FormQuestion& question, const FormContext&) {
  const auto* attrs = question.node.attrs_if<RecurrenceAttrs>();
  // Of a packed weight, the initial state alone says how many units there are.
  return attrs != nullptr && attrs->form.weight_block == 0 && question.weight->is_constant() &&
         question.node.inputs[2]->type.shape[2].is_constant();
}

bool grows(const FormQuestion& question, int64_t columns) {
  const ConstantData& weight = *question.weight->constant;
  const auto bytes = [](const ConstantData& data) { return static_cast<int64_t>(data.size); };
  return !grows_little(bytes(weight), bytes(*packed_recurrent_weight(weight, runs_of(question), columns)));
}

std::vector<Bid> bids(const FormQuestion& question, const FormContext& context) {
  const RecurrentPacking packing =
      recurrent_packing(question.node.inputs[2]->type, runs_of(question), context.target.machine);
  Bid bid{.decision = {"packed", {{"columns", packing.columns}}}};
  bid.decision.set("sequences", packing.sequences, 1);
  bid.decision.set("in_turn", packing.directions_in_turn ? 1 : 0);
  if (context.small_weights && grows(question, packing.columns)) bid.no = "its weights are larger than the model's";
  return {bid};
}

FormedNode apply(const FormCase& given, WeightPacker& packer) {
  auto attrs = std::make_shared<RecurrenceAttrs>(*given.question.node.attrs_if<RecurrenceAttrs>());
  attrs->form = {.weight_block = given.decision.knob("columns"),
                 .sequences = given.decision.knob("sequences", 1),
                 .directions_in_turn = given.decision.knob("in_turn") != 0};
  const Value& weight = *given.question.weight;
  const ConstantPtr packed =
      packed_recurrent_weight(*weight.constant, runs_of(given.question), attrs->form.weight_block);
  return {.attrs = attrs, .weights = {packer.constant(weight.name, packed)}};
}

}  // namespace

extern const Form recurrence_packed_form{
    .name = "packed",
    .devices = Devices::kCpus,
    .knobs = kKnobs,
    .possible = is_recurrence,
    .misfit = [](const FormCase& given) -> Misfit {
      const bool two = given.question.node.inputs[2]->type.shape[0] == Dim(2);
      return given.decision.knob("in_turn") == 0 || two ? Misfit() : "in_turn is for two directions";
    },
    .bids = bids,
    .apply = apply,
    .made =
        [](const Node& node, const Decision& by) {
          const RecurrenceForm& form = node.attrs_if<RecurrenceAttrs>()->form;
          return form.weight_block == by.knob("columns") && form.sequences == by.knob("sequences", 1) &&
                 form.directions_in_turn == (by.knob("in_turn") != 0);
        },
};

}  // namespace gantry::forms
