// nn.dense as a matrix product in tiles of a GPU (host/ops/dense.h, host/targets/cuda/rule_gemm.cpp).
#include "host/forms/ask_rule.h"
#include "host/forms/dense_case.h"
#include "host/forms/gemm_knobs.h"

namespace gantry::forms {
namespace {

constexpr Knob kKnobs[] = {kGemmRows, kGemmColumns, kGemmDepth, kGemmSplit};

}  // namespace

extern const Form dense_gemm_form{
    .name = "gemm",
    .devices = Devices::kGpus,
    .knobs = kKnobs,
    .possible = is_dense,
    .refused = ask_rule,
    .bids = [](const FormQuestion&, const FormContext&) { return std::vector<Bid>{{.decision = {"gemm", {}}}}; },
    .apply = [](const FormCase& given, WeightPacker&) -> FormedNode {
      auto attrs = std::make_shared<DenseAttrs>(dense_case(given.question).attrs);
      attrs->gemm = true;
      return {.attrs = attrs, .weights = {given.question.weight}};
    },
};

}  // namespace gantry::forms
