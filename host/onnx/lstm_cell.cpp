#include "host/onnx/lstm_cell.h"

namespace gantry {

LstmState lstm_cell(const LstmCell& cell, const Term& sums, const Term& before) {
  const auto part = [&](const Term& all, int64_t index) {
    return all.sliced(-1, index * cell.hidden, (index + 1) * cell.hidden);
  };
  const auto gate = [&](int64_t index, int64_t peephole, const Term& c) {
    const Term x = part(sums, index);
    return cell.f(cell.peepholes ? x + part(*cell.peepholes, peephole) * c : x);
  };
  const Term i = gate(0, 0, before);
  const Term f = cell.coupled ? 1.0 - i : gate(2, 2, before);
  const Term c = f * before + i * cell.g(part(sums, 3));
  const Term o = gate(1, 1, c);
  return {o * cell.h(c), c};
}

}  // namespace gantry
