// Attributes of matrix products.
//
// nn.dense: x (…, K) times a weight; weight_block == 0: weight (K, units); nb = weight_block > 0: weight
// (ceil(units/nb), K, nb), zero-filled. Result (…, units). Stages: "dense" for plain weights; packed:
// "dense_packed" (…, ceil(units/nb), nb) reducing over K, then "dense_unpack" (…, units).
//
// matmul: numpy semantics of two tensors of rank >= 1 with the last two axes swapped beforehand where asked;
// leading axes broadcast. Stage "matmul".
#pragma once

#include "host/graph/attrs.h"

namespace gantry {

struct DenseAttrs : AttrsOf<DenseAttrs> {
  int64_t units = 0;
  int64_t weight_block = 0;
  void fields(AttrVisitor& visit) override {
    visit("units", units);
    visit("weight_block", weight_block);
  }
};

struct MatmulAttrs : AttrsOf<MatmulAttrs> {
  bool transpose_a = false, transpose_b = false;
  void fields(AttrVisitor& visit) override {
    visit("transpose_a", transpose_a);
    visit("transpose_b", transpose_b);
  }
};

}  // namespace gantry
