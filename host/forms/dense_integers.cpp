// nn.dense with weights as integers of few bits (host/ops/fixed_point.h), for products that wait for their weights to
// arrive from memory.
#include <fmt/format.h>

#include <algorithm>

#include "host/forms/dense_case.h"
#include "host/forms/ranges.h"
#include "host/ops/fixed_point.h"
#include "host/targets/cpu/dense_model.h"
#include "host/targets/cpu/dense_work.h"
#include "host/targets/cpu/tile_policy.h"

namespace gantry::forms {
namespace {

constexpr Knob kKnobs[] = {
    {"bits", 0, "of an integer: 20 or 24", [](const FormCase&) { return KnobRange{20, 24, 4}; }},
    {"block", 0, "columns a block of weights: whole vectors",
     [](const FormCase& given) {
       KnobRange range = whole_vectors(given, byte_width(DType::kF32));
       // Integers that share words are of one vector's columns each.
       constexpr int64_t kMostTogether = 8;
       range.step = range.least = std::max(range.step, given.decision.knob("bits") == 20 ? kMostTogether : range.step);
       return range;
     }},
    kTileRows,
};

constexpr const char* kInexact = "integers of so many bits are not near enough to the weights";

struct Integers {
  int64_t bits = 0, block = 0;
  std::optional<FixedPointWeight> weight;
};

/// None where they are not exact enough.
const std::optional<FixedPointWeight>& integers_of(const FormQuestion& question, int64_t bits, int64_t block) {
  const auto* known = std::any_cast<Integers>(&question.found);
  if (known == nullptr || known->bits != bits || known->block != block) {
    Integers found{bits, block, {}};
    if (question.weight->type.dtype == DType::kF32)
      found.weight = to_fixed_point(*question.weight->constant, bits, block);
    question.found = std::move(found);
  }
  return std::any_cast<Integers>(&question.found)->weight;
}

/// Why the model does not want them; empty: it does. `tiles`: the product would be computed on tile units.
std::string unwanted(const DenseWork& floats, const DenseWork& fixed, const FormContext& context, bool tiles) {
  // Products of bf16 parts are about as exact.
  if (fixed.fixed_bits == 20 && context.target.precision != Precision::kFp32Split)
    return "20 bits are for --precision fp32-split, which is about as exact";
  if (!prefers_fixed_point(floats, fixed.fixed_bits, context.target.machine))
    return "the product does not wait long enough for its weights";
  if (tiles && !waits_for_weights(fixed, context.target.machine))
    return "on tile units the product does not wait long enough for its weights";
  return "";
}

std::vector<Bid> bids(const FormQuestion& question, const FormContext& context) {
  const DenseCase dense = dense_case(question);
  const Target& target = context.target;
  if (!dense.known() || target.precision == Precision::kBf16 ||
      cpu::prefers_half_dense(dense.data, dense.attrs.units, target.machine))
    return {};
  const bool tiles = cpu::dense_tile_parts(dense.data, dense.attrs.units, target) > 0;
  const DenseWork floats = cpu::dense_work(dense.data, dense.attrs.units, target.machine, false);
  std::vector<Bid> bids;
  bool taken = false;
  for (const int bits : {20, 24}) {
    DenseWork fixed = floats;
    fixed.fixed_bits = bits;
    const DenseTile tile = choose_dense_tile(fixed, target.machine);
    const int64_t block = tile.tile.channel_block();
    Bid bid{.decision = {"integers", {{"bits", bits}, {"block", block}}},
            .cycles = predicted_dense_cycles(fixed, tile, target.machine),
            .error = max_fixed_point_error(bits),
            .claim = 2};
    bid.no = taken ? "fewer bits are exact enough" : unwanted(floats, fixed, context, tiles);
    if (bid.no.empty() && !integers_of(question, bits, block)) bid.no = kInexact;
    taken = taken || bid.no.empty();
    bids.push_back(std::move(bid));
  }
  return bids;
}

Misfit misfit(const FormCase& given) {
  if (!dense_case(given.question).known()) return "form integers is for f32 of known depth";
  const int64_t bits = given.decision.knob("bits");
  if (bits != 20 && bits != 24) return fmt::format("bits of form integers is 20 or 24, not {}", bits);
  const int64_t block = given.decision.knob("block");
  const KnobRange range = kKnobs[1].range(given);
  if (block >= range.least && block % range.step == 0 && !integers_of(given.question, bits, block)) return kInexact;
  return std::nullopt;
}

DenseWork work_of(const FormCase& given) {
  const DenseCase dense = dense_case(given.question);
  DenseWork work = cpu::dense_work(dense.data, dense.attrs.units, given.context.target.machine, false);
  work.fixed_bits = static_cast<int>(given.decision.knob("bits"));
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
  attrs->fixed_bits = given.decision.knob("bits");
  attrs->weight_block = given.decision.knob("block");
  const auto& weight = integers_of(given.question, attrs->fixed_bits, attrs->weight_block);
  const std::string& name = given.question.weight->name;
  return {.attrs = attrs, .weights = {packer.constant(name, weight->words), packer.constant(name, weight->ranges)}};
}

}  // namespace

extern const Form dense_integers_form{
    .name = "integers",
    .devices = Devices::kCpus,
    .knobs = kKnobs,
    .possible = is_dense,
    .misfit = misfit,
    .refused = refused,
    .hopeless = hopeless,
    .bids = bids,
    .reads_weights = true,
    .apply = apply,
};

}  // namespace gantry::forms
