// nn.dense with weights in blocks of columns, each read from one end to the other (host/targets/cpu/rule_dense.cpp): as
// floats, or as integers of few bits (host/ops/fixed_point.h) for products that wait for their weights to arrive from
// memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "host/costs/dense_model.h"
#include "host/costs/dense_work.h"
#include "host/costs/tile_policy.h"
#include "host/forms/dense_case.h"
#include "host/forms/product.h"
#include "host/forms/ranges.h"
#include "host/ops/elementwise.h"
#include "host/ops/fixed_point.h"
#include "host/passes/rewriter.h"
#include "host/support/spill_file.h"

namespace gantry::forms {
namespace {

constexpr std::string_view kBits = "bits";
// Few units are computed by narrower vectors than the target's, rather than by wide ones that are partly empty.
constexpr int64_t kNarrowestVector = 16;

KnobRange block_range(const FormCase& given) {
  const int64_t bits = given.decision.knob(kBits);
  const int element_bytes = packed_bytes(given.decision, dense_case(given.question).data.dtype);
  if (bits == 0) return whole_vectors(given, element_bytes, kNarrowestVector);
  KnobRange range = whole_vectors(given, element_bytes);
  // Integers that share words are of one vector's columns each.
  constexpr int64_t kMostTogether = 8;
  range.step = range.least = std::max(range.step, bits == 20 ? kMostTogether : range.step);
  return range;
}

constexpr Knob kKnobs[] = {
    {"block", 0, "columns a block of weights: whole vectors, of 16 bytes or more where they are floats", block_range},
    {"half", 0, "weights and data are rounded to f16"},
    {kBits, 0, "of an integer, 20 or 24; 0: weights are floats", [](const FormCase&) { return KnobRange{0, 24}; }},
    kTileRows,
};

constexpr const char* kInexact = "integers of so many bits are not near enough to the weights";
constexpr const char* kUnfitSums = "half is not for integers that became f32, whose sums it may not hold";

/// Whether the data are i32 that became f32 for this product, as DynamicQuantizeLSTM's are
/// (host/onnx/convert_quantized_lstm.cpp): the weights are as large, so that few products exceed f16, and who
/// reads the sums expects those of integers.
bool has_integer_data(const FormQuestion& question) {
  const Node* made = producer_of(root_of_views(question.node.inputs[0]), op::cast);
  return made != nullptr && made->inputs[0]->type.dtype == DType::kI32;
}

bool prefers_half(const FormQuestion& question, const MachineModel& machine) {
  const DenseCase dense = dense_case(question);
  return !has_integer_data(question) && costs::prefers_half_dense(dense.data, dense.attrs.units, machine);
}

struct Integers {
  int64_t bits = 0, block = 0;
  std::optional<FixedPointWeight> weight;
};

/// None where they are not exact enough.
const std::optional<FixedPointWeight>& integers_of(const FormQuestion& question, const FormContext& context,
                                                   int64_t bits, int64_t block) {
  const auto* known = std::any_cast<Integers>(&question.found);
  if (known == nullptr || known->bits != bits || known->block != block) {
    Integers found{bits, block, {}};
    if (question.weight->type.dtype == DType::kF32) {
      const ConstantData& weight = *question.weight->constant;
      found.weight = to_fixed_point(weight, bits, block, context.spill);
      release_pages(weight.owner);  // most often nobody reads them again
    }
    question.found = std::move(found);
  }
  return std::any_cast<Integers>(&question.found)->weight;
}

Bid bid_of(const ProductType& type, int64_t block, double cycles, const DenseCase& dense) {
  Bid bid{.decision = {"packed", {}}, .cycles = cycles, .error = error_of(type, dense.depth())};
  bid.decision.set("block", block);
  set_product(bid.decision, type);
  return bid;
}

Bid bid_of_floats(const FormQuestion& question, const FormContext& context) {
  const DenseCase dense = dense_case(question);
  const MachineModel& machine = context.target.machine;
  const int64_t units = dense.attrs.units;
  const bool half = prefers_half(question, machine);
  const costs::DenseWork work = costs::dense_work(dense.data, units, machine, half);
  const costs::DenseTile tile = costs::choose_dense_tile(work, machine);
  const int64_t block = fitting_block(context, tile.tile.channel_block(), units, dense.depth());
  return bid_of(product_type(half ? "f16" : "f32"), block, costs::predicted_dense_cycles(work, tile, machine),
                dense);
}

/// Why the model does not want integers; empty: it does. `tiles`: the product would be computed on tile units.
std::string unwanted(const costs::DenseWork& floats, const costs::DenseWork& fixed,
                     const FormContext& context, bool tiles) {
  // Products of bf16 parts are about as exact.
  if (fixed.fixed_bits == 20 && context.target.precision != Precision::kFp32Split)
    return "20 bits are for --precision fp32-split, which is about as exact";
  if (!costs::prefers_fixed_point(floats, fixed.fixed_bits, context.target.machine))
    return "the product does not wait long enough for its weights";
  if (tiles && !costs::waits_for_weights(fixed, context.target.machine))
    return "on tile units the product does not wait long enough for its weights";
  return "";
}

/// Of each row of integers, the fewest bits first.
std::vector<Bid> bids_of_integers(const FormQuestion& question, const FormContext& context) {
  const DenseCase dense = dense_case(question);
  const Target& target = context.target;
  if (!dense.known() || target.precision == Precision::kBf16 || prefers_half(question, target.machine))
    return {};
  const bool tiles = costs::dense_tile_parts(dense.data, dense.attrs.units, target) > 0;
  const costs::DenseWork floats = costs::dense_work(dense.data, dense.attrs.units, target.machine, false);
  std::vector<Bid> bids;
  bool taken = false;
  for (const ProductType& type : product_types()) {
    if (type.knob != kBits) continue;
    costs::DenseWork fixed = floats;
    fixed.fixed_bits = static_cast<int>(type.value);
    const costs::DenseTile tile = costs::choose_dense_tile(fixed, target.machine);
    const int64_t block = tile.tile.channel_block();
    Bid bid = bid_of(type, block, costs::predicted_dense_cycles(fixed, tile, target.machine), dense);
    // Cycles of arithmetic do not have the weights' way from memory, for which they are proposed.
    bid.claim = 2;
    bid.no = taken ? "fewer bits are exact enough" : unwanted(floats, fixed, context, tiles);
    if (bid.no.empty() && !integers_of(question, context, type.value, block)) bid.no = kInexact;
    taken = taken || bid.no.empty();
    bids.push_back(std::move(bid));
  }
  return bids;
}

std::vector<Bid> bids(const FormQuestion& question, const FormContext& context) {
  std::vector<Bid> bids{bid_of_floats(question, context)};
  std::ranges::move(bids_of_integers(question, context), std::back_inserter(bids));
  return bids;
}

/// "20 or 24".
std::string known_bits() {
  std::vector<int64_t> bits;
  for (const ProductType& type : product_types()) {
    if (type.knob == kBits) bits.push_back(type.value);
  }
  return fmt::format("{}", fmt::join(bits, " or "));
}

Misfit misfit(const FormCase& given) {
  const DenseCase dense = dense_case(given.question);
  const int64_t bits = given.decision.knob(kBits);
  if (bits == 0) {
    if (Misfit no = unfit_half(given, dense.data.dtype)) return no;
    if (given.decision.knob("half") != 0 && has_integer_data(given.question)) return kUnfitSums;
    return std::nullopt;
  }
  if (!is_product(kBits, bits)) return fmt::format("bits of form packed is {}, not {}", known_bits(), bits);
  if (!dense.known()) return "bits is for f32 of known depth";
  if (given.decision.knob("half") != 0) return "half is for weights that are floats, without bits";
  const int64_t block = given.decision.knob("block");
  const KnobRange range = block_range(given);
  if (block >= range.least && block % range.step == 0 &&
      !integers_of(given.question, given.context, bits, block))
    return kInexact;
  return std::nullopt;
}

costs::DenseWork work_of(const FormCase& given) {
  const auto [attrs, data, weight] = dense_case(given.question);
  costs::DenseWork work =
      costs::dense_work(data, attrs.units, given.context.target.machine, given.decision.knob("half") != 0);
  work.fixed_bits = static_cast<int>(given.decision.knob(kBits));
  work.given_rows = static_cast<int>(given.decision.knob("rows"));
  return work;
}

Misfit refused(const FormCase& given) {
  const costs::DenseWork work = work_of(given);
  return misfit_of(costs::unfit_rows(
      work.given_rows,
      costs::choose_dense_tile(work, given.context.target.machine, given.decision.knob("block")).tile));
}

Misfit hopeless(const FormCase& given) {
  return hopeless_block(
      costs::has_dense_tile(work_of(given), given.context.target.machine, given.decision.knob("block")));
}

FormedNode apply(const FormCase& given, WeightPacker& packer) {
  auto attrs = std::make_shared<DenseAttrs>(dense_case(given.question).attrs);
  DenseForm& form = attrs->form;
  form.weight_block = given.decision.knob("block");
  form.fixed_bits = given.decision.knob(kBits);
  if (form.fixed_bits == 0) {
    Value* packed = packer.dense(given.question.weight, *attrs);
    return {.attrs = attrs, .weights = {product_weight(given.decision, packed, packer)}};
  }
  const auto& weight = integers_of(given.question, given.context, form.fixed_bits, form.weight_block);
  const std::string& name = given.question.weight->name;
  return {.attrs = attrs, .weights = {packer.constant(name, weight->words), packer.constant(name, weight->ranges)}};
}

}  // namespace

extern const Form dense_packed_form{
    .name = "packed",
    .devices = Devices::kCpus,
    .knobs = kKnobs,
    .possible = is_dense,
    .misfit = misfit,
    .refused = refused,
    .hopeless = hopeless,
    .bids = bids,
    .looks_beyond_types = true,
    .apply = apply,
    .made =
        [](const Node& node, const Decision& by) {
          const DenseForm& form = node.attrs_as<DenseAttrs>().form;
          return form.weight_block == by.knob("block") && form.fixed_bits == by.knob(kBits) && !form.gemm && !form.on_tiles() &&
                 has_half_weights(node) == (by.knob("half") != 0);
        },
};

}  // namespace gantry::forms
