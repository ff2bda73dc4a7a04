// nn.dense with weights in blocks of columns, each read from one end to the other (host/targets/cpu/rule_dense.cpp).
#include <algorithm>

#include "host/forms/dense_case.h"
#include "host/forms/ranges.h"
#include "host/targets/cpu/dense_model.h"
#include "host/targets/cpu/dense_work.h"

namespace gantry::forms {
namespace {

// Few units are computed by narrower vectors than the target's, rather than by wide ones that are partly empty.
constexpr int64_t kNarrowestVector = 16;

constexpr Knob kKnobs[] = {
    {"block", 0, "columns a block of weights: whole vectors, of 16 bytes or more",
     [](const FormCase& given) {
       const DType dtype = dense_case(given.question).data.dtype;
       return whole_vectors(given, packed_bytes(given.decision, dtype), kNarrowestVector);
     }},
    {"half", 0, "weights and data are rounded to f16"},
    kTileRows,
};

std::vector<Bid> bids(const FormQuestion& question, const FormContext& context) {
  const auto [attrs, data] = dense_case(question);
  const MachineModel& machine = context.target.machine;
  const bool half = cpu::prefers_half_dense(data, attrs.units, machine);
  const DenseWork work = cpu::dense_work(data, attrs.units, machine, half);
  const DenseTile tile = choose_dense_tile(work, machine);
  Decision decision{"packed", {}};
  decision.set("block",
               fitting_block(context, tile.tile.channel_block(), attrs.units, dense_case(question).depth()));
  decision.set("half", half ? 1 : 0);
  return {{.decision = decision, .cycles = predicted_dense_cycles(work, tile, machine),
           .error = half ? kHalfError : 0}};
}

DenseWork work_of(const FormCase& given) {
  const auto [attrs, data] = dense_case(given.question);
  DenseWork work =
      cpu::dense_work(data, attrs.units, given.context.target.machine, given.decision.knob("half") != 0);
  work.given_rows = static_cast<int>(given.decision.knob("rows"));
  return work;
}

Misfit refused(const FormCase& given) {
  const DenseWork work = work_of(given);
  return misfit_of(unfit_rows(
      work.given_rows, choose_dense_tile(work, given.context.target.machine, given.decision.knob("block")).tile));
}

Misfit hopeless(const FormCase& given) {
  return hopeless_block(has_dense_tile(work_of(given), given.context.target.machine, given.decision.knob("block")));
}

FormedNode apply(const FormCase& given, WeightPacker& packer) {
  auto attrs = std::make_shared<DenseAttrs>(dense_case(given.question).attrs);
  attrs->weight_block = given.decision.knob("block");
  Value* packed = packer.dense(given.question.weight, *attrs);
  if (given.decision.knob("half") != 0) packed = packer.rounded_to_half(packed);
  return {.attrs = attrs, .weights = {packed}};
}

}  // namespace

extern const Form dense_packed_form{
    .name = "packed",
    .devices = Devices::kCpus,
    .knobs = kKnobs,
    .possible = is_dense,
    .misfit = [](const FormCase& given) { return unfit_half(given, dense_case(given.question).data.dtype); },
    .refused = refused,
    .hopeless = hopeless,
    .bids = bids,
    .apply = apply,
};

}  // namespace gantry::forms
