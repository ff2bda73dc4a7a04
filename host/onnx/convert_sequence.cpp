// Sequences and optionals. Their structure is known when the model is read: how many elements there are, and which
// tensor each is. So they are gone once it is read; what indexes one by data becomes a gather.
#include <onnx/onnx_pb.h>

#include "host/onnx/chosen_tensor.h"
#include "host/onnx/converters.h"
#include "host/onnx/importer.h"
#include "host/onnx/term.h"

namespace gantry {
namespace {

using Parts = std::vector<Binding>;
constexpr int64_t kMostElements = 1024;

/// A known position among `count`; negative ones count from the end.
size_t position(NodeImport& n, size_t input, int64_t count) {
  const std::vector<int64_t> given = n.integers(input, "position in a sequence");
  if (given.size() != 1) n.fail("its position should be one number, not {}", given.size());
  const int64_t at = given[0] < 0 ? given[0] + count : given[0];
  if (at < 0 || at >= count) n.fail("its position is {} in a sequence of {}", given[0], count);
  return static_cast<size_t>(at);
}

void convert_empty(NodeImport& n) {
  n.set_sequence(0, {});
}

void convert_construct(NodeImport& n) {
  Parts elements;
  for (size_t i = 0; i < n.input_count(); ++i) elements.push_back(n.binding(i));
  n.set_sequence(0, std::move(elements));
}

std::vector<Term> tensors_of(NodeImport& n, const Parts& elements) {
  std::vector<Term> tensors;
  for (const Binding& element : elements) tensors.emplace_back(n, n.data_of(element));
  return tensors;
}

/// A position as data, of which negative ones count from the end.
Term data_position(NodeImport& n, size_t input, size_t count) {
  const Term given = Term::input(n, input).cast(DType::kI64).reshaped({});
  return where(less(given, given.number_like(0)), given + static_cast<double>(count), given);
}

/// Each element is one of the old, or the new one, as the position says.
void insert_by_data(NodeImport& n, const Parts& elements) {
  std::vector<Term> tensors = tensors_of(n, elements);
  tensors.push_back(Term::input(n, 1));
  const Term at = data_position(n, 2, elements.size());
  Parts results;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto place = static_cast<double>(i);
    const Term behind = where(equal(at, at.number_like(place)), static_cast<double>(elements.size()), at.number_like(place - 1));
    const Term number = where(less(at.number_like(place), at), at.number_like(place), behind);
    results.emplace_back().value = chosen_tensor(n, tensors, number);
  }
  n.set_sequence(0, std::move(results));
}

void convert_insert(NodeImport& n) {
  Parts elements = n.sequence(0);
  const auto count = static_cast<int64_t>(elements.size());
  // It may go behind the last.
  std::vector<int64_t> given{count};
  if (n.has(2) && !n.contents(2)) return insert_by_data(n, elements);
  if (n.has(2)) given = n.integers(2, "position in a sequence");
  if (given.size() != 1) n.fail("its position should be one number, not {}", given.size());
  const int64_t at = given[0] < 0 ? given[0] + count : given[0];
  if (at < 0 || at > count) n.fail("its position is {} in a sequence of {}", given[0], count);
  elements.insert(elements.begin() + at, n.binding(1));
  n.set_sequence(0, std::move(elements));
}

void convert_erase(NodeImport& n) {
  Parts elements = n.sequence(0);
  if (elements.empty()) n.fail("its sequence is empty");
  const size_t at = n.has(1) ? position(n, 1, static_cast<int64_t>(elements.size())) : elements.size() - 1;
  elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(at));
  n.set_sequence(0, std::move(elements));
}

void convert_at(NodeImport& n) {
  const Parts& elements = n.sequence(0);
  const auto count = static_cast<int64_t>(elements.size());
  const auto known = n.contents(1);
  if (elements.empty()) n.fail("its sequence is empty");
  if (known) return n.set_binding(0, elements[position(n, 1, count)]);
  n.set(0, chosen_tensor(n, tensors_of(n, elements), data_position(n, 1, elements.size())));
}

void convert_length(NodeImport& n) {
  n.set_contents(0, {{static_cast<int64_t>(n.sequence(0).size())}, true, DType::kI64});
}

void convert_concat(NodeImport& n) {
  const std::vector<Term> tensors = tensors_of(n, n.sequence(0));
  if (tensors.empty()) n.fail("its sequence is empty");
  const bool is_new = n.integer("new_axis", 0) != 0;
  const int64_t axis = n.axis(n.integer("axis", 0), tensors[0].rank() + (is_new ? 1 : 0));
  n.set(0, is_new ? stacked(tensors, axis) : concatenated(tensors, axis));
}

/// The sizes of the parts: as given one by one, or all alike but the last.
Shape part_sizes(NodeImport& n, const Dim& extent) {
  if (n.has(1) && n.type(1).rank() == 1) return n.dims(1, "split");
  int64_t size = 1;
  if (n.has(1)) size = n.integers(1, "size of the parts").at(0);
  if (size < 1) n.fail("its parts cannot be of size {}", size);
  if (!extent.is_constant() || extent.value() > kMostElements * size)
    n.unsupported(UnsupportedKind::kRunTimeValue, "number of elements of a sequence");
  Shape sizes;
  for (int64_t left = extent.value(); left > 0; left -= size) sizes.push_back(std::min(size, left));
  return sizes;
}

void convert_split(NodeImport& n) {
  const Term x = Term::input(n, 0);
  const int64_t axis = n.axis(n.integer("axis", 0), x.rank());
  const bool squeezed = !n.has(1) && n.integer("keepdims", 1) == 0;
  const Dim extent = x.dim(axis);
  Parts elements;
  Dim begin = 0;
  for (const Dim& size : part_sizes(n, extent)) {
    if (size.is_constant() && size.value() < 0) n.fail("a part has a negative size");
    const Term part = x.sliced(axis, begin, begin + size);
    elements.emplace_back().value = squeezed ? part.squeezed(axis) : part;
    begin = begin + size;
  }
  // Nothing may read beyond the data, whatever sizes the running model computes.
  if (!(begin == extent)) n.function().constraints.push_back({begin, extent, n.name()});
  if (provably_different(begin, extent)) n.fail("its parts make {}, not the {} of its axis", begin.str(), extent.str());
  n.set_sequence(0, std::move(elements));
}

/// The body once for each element; tensors are the same every time.
void convert_map(NodeImport& n) {
  const size_t count = n.sequence(0).size();
  std::vector<Parts> results(n.output_count());
  for (size_t at = 0; at < count; ++at) {
    Parts arguments;
    for (size_t i = 0; i < n.input_count(); ++i) {
      const Binding& input = n.binding(i);
      if (input.sequence && input.sequence->size() != count)
        n.fail("its sequences are of {} and {} elements", count, input.sequence->size());
      arguments.push_back(input.sequence ? (*input.sequence)[at] : input);
    }
    Parts made = n.call_with(n.graph("body"), std::move(arguments));
    if (made.size() != results.size()) n.fail("its body has {} outputs, not {}", made.size(), results.size());
    for (size_t i = 0; i < results.size(); ++i) results[i].push_back(std::move(made[i]));
  }
  for (size_t i = 0; i < results.size(); ++i) n.set_sequence(i, std::move(results[i]));
}

void convert_optional(NodeImport& n) {
  Binding absent;
  absent.absent = true;
  n.set_binding(0, n.has(0) ? n.binding(0) : absent);
}

void convert_has_element(NodeImport& n) {
  n.set_contents(0, {{n.has(0) && !n.binding(0).absent ? 1 : 0}, true, DType::kBool});
}

void convert_get_element(NodeImport& n) {
  if (n.binding(0).absent) n.fail("its optional has no value");
  n.set_binding(0, n.binding(0));
}

}  // namespace

void add_sequence_converters(ConverterTable& table) {
  const Converter entries[] = {
      {"SequenceEmpty", 11, convert_empty},
      {"SequenceConstruct", 11, convert_construct},
      {"SequenceInsert", 11, convert_insert},
      {"SequenceErase", 11, convert_erase},
      {"SequenceAt", 11, convert_at},
      {"SequenceLength", 11, convert_length},
      {"SequenceMap", 17, convert_map},
      {"ConcatFromSequence", 11, convert_concat},
      {"SplitToSequence", 11, convert_split},
      {"Optional", 15, convert_optional},
      {"OptionalHasElement", 15, convert_has_element},
      {"OptionalGetElement", 15, convert_get_element},
  };
  table.insert(table.end(), std::begin(entries), std::end(entries));
}

}  // namespace gantry
