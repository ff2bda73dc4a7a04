// Rotary position embeddings of com.microsoft. Semantics: ONNX Runtime's documentation of its contrib
// operators.
#include <algorithm>

#include "host/onnx/converters.h"
#include "host/onnx/required_dims.h"
#include "host/onnx/rotary.h"

namespace gantry {
namespace {

/// Turns input 0, (B, L, heads * size) or (B, heads, L, size), by angles of all heads.
void set_rotated(NodeImport& n, const Rotation& rotation) {
  const Term x = Term::input(n, 0);
  if (x.rank() == 4) return n.set(0, rotated(x, rotation, 2, 3));
  int64_t heads = n.integer("num_heads", 0);
  if (heads == 0) {  // those of the cosines' size
    const Dim count = floordiv(x.dim(2), n.type(2).shape.at(1) * 2);
    if (!count.is_constant()) n.unsupported(UnsupportedKind::kRunTimeValue, "number of heads");
    heads = count.value();
  }
  const Term split = x.reshaped({x.dim(0), x.dim(1), heads, floordiv(x.dim(2), heads)});
  n.set(0, rotated(split, rotation, 1, 3).reshaped(x.shape()));
}

/// Input 0, of a rank that set_rotated takes.
Term data_to_turn(NodeImport& n) {
  if (n.integer("is_packed_batching", 0) != 0)
    n.unsupported(UnsupportedKind::kAttribute, "is_packed_batching");
  const Term x = Term::input(n, 0);
  if (x.rank() != 3 && x.rank() != 4) n.fail("its data {} should have 3 or 4 dimensions", n.type(0).str());
  expect_tables(n, 2);
  return x;
}

/// Rows of the tables of cosines and sines, (B, L) or (1, L), for sequences of that length. Input 1 has them,
/// or only the first, as a scalar or a vector of one element.
Term positions_of(NodeImport& n, const Dim& length) {
  const Term given = Term::input(n, 1).cast(DType::kI64);
  const bool first = given.rank() < 2;
  const Dim count = first ? element_count(given.shape()) : given.dim(1);
  if (given.rank() > 2 || provably_different(count, first ? Dim(1) : length))
    n.fail("its positions {} should be one, or one for each of the {} elements of every sequence",
           n.type(1).str(), length.str());
  if (!first) return given;
  return (given.reshaped({1}) + Term::range(n, length)).reshaped({1, length});
}

/// Inputs: data, positions, cosines, sines.
void convert_rotary_embedding(NodeImport& n) {
  const Term x = data_to_turn(n);
  const Term positions = positions_of(n, x.dim(x.rank() == 3 ? 1 : 2));
  set_rotated(n, {gather(Term::input(n, 2), positions, 0), gather(Term::input(n, 3), positions, 0),
                  n.integer("interleaved", 0) != 0, n.integer("rotary_embedding_dim", 0)});
}

/// Which of the three positions each pair of features turns by; sections as the attribute mrope_section has
/// them.
std::vector<int64_t> sources_of_pairs(NodeImport& n, int64_t pairs) {
  const std::vector<int64_t> sections = n.integer_list("mrope_section");
  if (pairs < 1 || sections.size() != 3 ||
      std::ranges::any_of(sections, [pairs](int64_t s) { return s < 0 || s > pairs; }) ||
      sections[0] + sections[1] + sections[2] != pairs)
    n.fail("its mrope_section [{}] does not divide {} pairs into 3 sections", fmt::join(sections, ", "),
           pairs);
  const int64_t layout = n.integer("mrope_layout", 0);
  if (layout != 0 && layout != 1) n.fail("its mrope_layout is {}, not 0 or 1", layout);
  std::vector<int64_t> sources;
  if (layout == 0) {
    for (int64_t axis = 0; axis < 3; ++axis)
      sources.insert(sources.end(), static_cast<size_t>(sections[static_cast<size_t>(axis)]), axis);
    return sources;
  }
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const int64_t axis = pair % 3;
    sources.push_back(pair < sections[static_cast<size_t>(axis)] * 3 ? axis : 0);
  }
  return sources;
}

/// Inputs: data, positions in time, height and width (3, B, L), cosines, sines.
void convert_multimodal_rotary_embedding(NodeImport& n) {
  data_to_turn(n);
  const Term positions = Term::input(n, 1).cast(DType::kI64);
  if (n.number("scale", 1) != 1) n.unsupported(UnsupportedKind::kAttribute, "scale {}", n.number("scale", 1));
  if (positions.rank() != 3) n.fail("its positions {} should have 3 dimensions", n.type(1).str());
  require_equal(n, positions.dim(0), 3, "its positions {} should be in time, height and width",
                n.type(1).str());
  const Dim pairs = n.type(2).shape.back();
  if (!pairs.is_constant()) n.unsupported(UnsupportedKind::kRunTimeValue, "number of cosines");
  require_equal(n, n.type(3).shape.back(), pairs, "its sines {} should be as many as its cosines {}",
                n.type(3).str(), n.type(2).str());
  const std::vector<int64_t> sources = sources_of_pairs(n, pairs.value());
  const auto of_sources = [&](size_t table) {
    const Term turns = gather(Term::input(n, table), positions, 0);  // (3, B, L, pairs)
    std::vector<Term> parts;
    for (size_t begin = 0, end = 0; begin < sources.size(); begin = end) {
      while (end < sources.size() && sources[end] == sources[begin]) ++end;
      const Term of_axis = turns.sliced(0, sources[begin], sources[begin] + 1).squeezed(0);
      parts.push_back(of_axis.sliced(-1, static_cast<int64_t>(begin), static_cast<int64_t>(end)));
    }
    return parts.size() == 1 ? parts[0] : concatenated(parts, -1);
  };
  set_rotated(n, {of_sources(2), of_sources(3), n.integer("interleaved", 0) != 0,
                  n.integer("rotary_embedding_dim", 0)});
}

}  // namespace

void add_microsoft_rotary_converters(ConverterTable& table) {
  table.push_back({"RotaryEmbedding", 1, convert_rotary_embedding, kMicrosoft});
  table.push_back({"MRotaryEmbedding", 1, convert_multimodal_rotary_embedding, kMicrosoft});
}

}  // namespace gantry
