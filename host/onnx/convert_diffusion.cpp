// Ops of com.microsoft that ONNX Runtime's optimiser for diffusion models writes. It runs them on GPUs only,
// so that the semantics are those of its documentation of contrib operators.
#include "host/onnx/converters.h"
#include "host/onnx/convolution.h"
#include "host/onnx/term.h"
#include "host/onnx/window.h"
#include "host/ops/activation.h"
#include "host/ops/norm.h"

namespace gantry {
namespace {

bool has_channels_last(NodeImport& n) {
  return n.integer("channels_last", 1) != 0;
}

Term laid_out_first(NodeImport& n, const Term& x) {
  return has_channels_last(n) ? Term(n, channels_first(n, x)) : x;
}
Term laid_out_again(NodeImport& n, const Term& x) {
  return has_channels_last(n) ? Term(n, channels_last(n, x)) : x;
}

Term image(NodeImport& n) {
  const Term x = Term::input(n, 0);
  if (x.rank() != 4) n.fail("its data {} should have 4 dimensions", n.type(0).str());
  return laid_out_first(n, x);
}

/// x (N, C, H, W) over groups of channels; gamma and beta are inputs 1 and 2.
void set_normalised(NodeImport& n, const Term& given) {
  const Term x = given.widened();
  const int64_t activation = n.integer("activation", 0);
  if (activation != 0 && activation != 1) n.fail("its activation is {}, not 0 or 1", activation);
  auto attrs = std::make_shared<GroupNormAttrs>();
  attrs->epsilon = n.number("epsilon", 1e-5);
  attrs->groups = n.integer("groups", 0);
  if (attrs->groups < 1) n.fail("its groups is {}", attrs->groups);
  const auto of_channels = [&](size_t i) { return Term::input(n, i).cast(x.dtype()); };
  const Term y(n, n.add(nn::group_norm, {x, of_channels(1), of_channels(2)}, attrs));
  n.set(0, laid_out_again(n, (activation == 1 ? y * sigmoid(y) : y).cast(given.dtype())));
}

void convert_group_norm(NodeImport& n) {
  set_normalised(n, image(n));
}

/// Of the sum with input 3, (N, C, H, W), (N, C, 1, 1) or (N, C), and with a bias (C).
void convert_skip_group_norm(NodeImport& n) {
  Term x = image(n), skip = Term::input(n, 3);
  if (skip.rank() == 2) {
    skip = skip.unsqueezed(-1).unsqueezed(-1);
  } else if (skip.rank() == 4) {
    skip = laid_out_first(n, skip);
  } else {
    n.fail("its skip {} should have 2 or 4 dimensions", n.type(3).str());
  }
  x = x + skip;
  if (n.has(4)) x = x + Term::input(n, 4).unsqueezed(-1).unsqueezed(-1);
  set_normalised(n, x);
  if (n.wants(1)) n.set(1, laid_out_again(n, x));
}

/// The first half of the features times what GELU makes of the second.
void convert_bias_split_gelu(NodeImport& n) {
  const Term x = Term::input(n, 0) + Term::input(n, 1);
  const Dim size = x.dim(-1), half = floordiv(size, 2);
  const Term gate(n, n.add(nn::gelu, {x.sliced(-1, half, size)}, std::make_shared<GeluAttrs>()));
  n.set(0, x.sliced(-1, 0, half) * gate);
}

void convert_bias_add(NodeImport& n) {
  n.set(0, Term::input(n, 0) + Term::input(n, 1) + Term::input(n, 2));
}

/// Data (N, spatial…, C) and, other than its schema says but as the optimiser writes it, weight (M, spatial…,
/// C / group).
void convert_nhwc_conv(NodeImport& n) {
  const Term y(n, convolve(n, channels_first(n, n.input(0)), channels_first(n, n.input(1))));
  const Term result(n, channels_last(n, y));
  n.set(0, n.has(2) ? result + Term::input(n, 2) : result);
}

}  // namespace

void add_diffusion_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"GroupNorm", 1, convert_group_norm, kMicrosoft},
      {"SkipGroupNorm", 1, convert_skip_group_norm, kMicrosoft},
      {"BiasSplitGelu", 1, convert_bias_split_gelu, kMicrosoft},
      {"BiasAdd", 1, convert_bias_add, kMicrosoft},
      {"NhwcConv", 1, convert_nhwc_conv, kMicrosoft},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
