// matmul as a matrix product in tiles of a GPU (host/ops/dense.h, host/targets/cuda/rule_gemm.cpp).
#include "host/forms/ask_rule.h"
#include "host/forms/gemm_knobs.h"
#include "host/ops/dense.h"

namespace gantry::forms {
namespace {

constexpr Knob kKnobs[] = {kGemmRows, kGemmColumns, kGemmDepth, kGemmSplit};

}  // namespace

extern const Form matmul_gemm_form{
    .name = "gemm",
    .devices = Devices::kGpus,
    .knobs = kKnobs,
    .possible =
        [](const FormQuestion& question, const FormContext&) {
          const MatmulAttrs* attrs = question.node.match(op::matmul);
          return attrs != nullptr && !attrs->gemm;
        },
    .refused = ask_rule,
    .bids = [](const FormQuestion&, const FormContext&) { return std::vector<Bid>{{.decision = {"gemm", {}}}}; },
    .apply = [](const FormCase& given, WeightPacker&) -> FormedNode {
      auto attrs = std::make_shared<MatmulAttrs>(given.question.node.attrs_as<MatmulAttrs>());
      attrs->gemm = true;
      return {.attrs = attrs};
    },
};

}  // namespace gantry::forms
