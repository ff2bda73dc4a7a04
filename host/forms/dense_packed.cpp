// nn.dense with weights in blocks of columns, each read from one end to the other (host/targets/cpu/rule_dense.cpp).
#include <algorithm>

#include "host/forms/dense_case.h"
#include "host/forms/product.h"
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
  const DenseCase dense = dense_case(question);
  const MachineModel& machine = context.target.machine;
  const int64_t units = dense.attrs.units;
  const bool half = cpu::prefers_half_dense(dense.data, units, machine);
  const DenseWork work = cpu::dense_work(dense.data, units, machine, half);
  const DenseTile tile = choose_dense_tile(work, machine);
  const ProductType& type = product_type(half ? "f16" : "f32");
  Decision decision{"packed", {}};
  decision.set("block", fitting_block(context, tile.tile.channel_block(), units, dense.depth()));
  set_product(decision, type);
  return {{.decision = decision,
           .cycles = predicted_dense_cycles(work, tile, machine),
           .error = error_of(type, dense.depth())}};
}

FormedNode apply(const FormCase& given, WeightPacker& packer) {
  auto attrs = std::make_shared<DenseAttrs>(dense_case(given.question).attrs);
  attrs->weight_block = given.decision.knob("block");
  Value* packed = packer.dense(given.question.weight, *attrs);
  return {.attrs = attrs, .weights = {product_weight(given.decision, packed, packer)}};
}

}  // namespace

extern const Form dense_packed_form{
    .name = "packed",
    .devices = Devices::kCpus,
    .knobs = kKnobs,
    .possible = is_dense,
    .misfit = [](const FormCase& given) { return unfit_half(given, dense_case(given.question).data.dtype); },
    .bids = bids,
    .apply = apply,
};

}  // namespace gantry::forms
