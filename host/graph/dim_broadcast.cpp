#include "host/graph/dim_broadcast.h"

#include <algorithm>

#include "host/graph/dim_node.h"

namespace gantry {
namespace {

void add_operands(const Dim& dim, std::vector<Dim>& operands) {
  const Terms& terms = DimNode::terms_of(dim);
  const bool is_atom = terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1;
  if (is_atom && terms[0].factors[0]->kind == AtomKind::kBroadcast) {
    add_operands(terms[0].factors[0]->a, operands);
    add_operands(terms[0].factors[0]->b, operands);
  } else {
    operands.push_back(dim);
  }
}

bool is_never_1(const Dim& dim) {
  if (dim.is_constant()) return !(dim == Dim(1));
  const auto low = dim.lower_bound();
  return low && *low > 1;
}

}  // namespace

std::vector<Dim> operands_or_itself(const Dim& dim) {
  std::vector<Dim> operands;
  add_operands(dim, operands);
  return operands;
}

std::vector<Dim> broadcast_operands(const Dim& dim) {
  std::vector<Dim> operands = operands_or_itself(dim);
  if (operands.size() == 1) operands.clear();
  return operands;
}

Dim broadcast(const Dim& a, const Dim& b) {
  std::vector<Dim> operands, kept;
  add_operands(a, operands);
  add_operands(b, operands);
  // Constants first, which say most.
  std::ranges::stable_partition(operands, [](const Dim& dim) { return dim.is_constant(); });
  for (const Dim& dim : operands) {
    if (is_never_1(dim)) return dim;
    if (!(dim == Dim(1)) && std::ranges::find(kept, dim) == kept.end()) kept.push_back(dim);
  }
  if (kept.empty()) return 1;
  std::ranges::sort(kept, {}, [](const Dim& dim) { return dim.str(); });
  Dim result = kept[0];
  for (size_t i = 1; i < kept.size(); ++i) result = DimNode::from_atom(AtomKind::kBroadcast, result, kept[i]);
  return result;
}

bool may_be_repeated(const Dim& own, const Dim& result) {
  if (own == result || is_never_1(own) || own == Dim(1)) return false;
  if (!broadcast_operands(own).empty() || !broadcast_operands(result).empty()) return true;
  if (result.is_constant()) return own.is_symbol() && !(result == Dim(1));
  return own.symbols() != result.symbols();
}

bool may_broadcast(const Dim& a, const Dim& b) {
  if (a == Dim(1) || b == Dim(1)) return false;
  return may_be_repeated(a, b) || may_be_repeated(b, a);
}

}  // namespace gantry
