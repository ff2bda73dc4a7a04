// nn.conv as a matrix product over the unrolled windows (host/ops/conv_gemm.cpp): GPUs' form; on CPUs for who
// asks for it.
#include "host/costs/gpu_costs.h"
#include "host/forms/conv_case.h"
#include "host/forms/gemm_knobs.h"
#include "host/forms/product.h"

namespace gantry::forms {
namespace {

constexpr Knob kKnobs[] = {kMergedGroups, kPhases, kGemmRows, kGemmColumns, kGemmDepth, kGemmSplit};

std::vector<Bid> gemm_bids(const ConvCase& conv, const FormContext& context) {
  if (!context.target.for_gpu()) return {};
  const double seconds =
      costs::gpu_costs(context.target)
          .convolution(conv.attrs, conv.data, conv.result, ConvAlgorithm::kGemm, context.target.gpu);
  return {{.decision = {"gemm", {}},
           .ms = 1e3 * seconds,
           .error = error_of(gpu_product(context.target.precision), depth_of(conv))}};
}

}  // namespace

extern const Form conv_gemm_form{
    .name = "gemm",
    .knobs = kKnobs,
    .possible = is_product_conv,
    .misfit = [](const FormCase& given) -> Misfit {
      if (Misfit no = unfit_case(given)) return no;
      return given.question.weight->is_constant() ? Misfit() : "form gemm is for constant weights";
    },
    .asks_rule = Devices::kGpus,
    .bids = [](const FormQuestion& question,
               const FormContext& context) { return bids_of_cases(question, context, gemm_bids); },
    .orders = [](const FormCase& given) { return conv_orders(given, true); },
    .apply = [](const FormCase& given, WeightPacker& packer) -> FormedNode {
      auto attrs = formed_attrs(given, ConvAlgorithm::kGemm);
      return formed_conv(given, attrs, packer.gemm(merged_weight(given, packer), *attrs));
    },
    .made = [](const Node& node, const Decision& by) { return is_made_with(node, by, ConvAlgorithm::kGemm); },
};

}  // namespace gantry::forms
