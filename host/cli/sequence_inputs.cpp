#include "host/cli/sequence_inputs.h"

#include <algorithm>
#include <charconv>
#include <span>
#include <string_view>

#include "host/cli/model_tensors.h"
#include "host/compiler/string_tensors.h"
#include "host/graph/late_values.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

constexpr size_t kMostTensors = size_t{1} << 20;  ///< of a sequence: a name says how many are looked for

/// A sequence among a module's inputs: those at `index` and behind it.
struct Sequence {
  std::string name;
  size_t index = 0;
};

std::vector<Sequence> sequences_of(const std::vector<rpc::TensorDescription>& model) {
  std::vector<Sequence> sequences;
  for (size_t i = 0; i + 1 < model.size(); ++i) {
    if (!model[i].name.ends_with("[]")) continue;
    const std::string name = model[i].name.substr(0, model[i].name.size() - 2);
    if (model[i + 1].name == late_dims_name(name) && model[i].shape.size() == 1 &&
        model[i + 1].shape.size() == 2)
      sequences.push_back({name, i});
  }
  return sequences;
}

/// Of "x[12]" the 12, where the sequence is x.
std::optional<size_t> position_in(const Sequence& sequence, std::string_view name) {
  if (!name.starts_with(sequence.name + "[") || !name.ends_with("]")) return std::nullopt;
  name.remove_prefix(sequence.name.size() + 1);
  name.remove_suffix(1);
  size_t position = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), position);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  return is_number && position < kMostTensors ? std::optional(position) : std::nullopt;
}

size_t rank_of(const std::vector<rpc::TensorDescription>& model, const Sequence& sequence) {
  const int64_t columns = model[sequence.index + 1].shape[1];
  return static_cast<size_t>(std::max<int64_t>(columns, 1) - 1);
}

FileTensor made_up(const rpc::TensorDescription& wanted, const InputChoice& choice) {
  const auto shape = choice.shapes.find(wanted.name);
  if (!choice.seed || shape == choice.shapes.end()) {
    user_error(
        "no data for input '{0}'; give --input {0}=FILE (.npy, .npz, .pb, an image), or --random and --shape "
        "{0}={1} for "
        "made-up data",
        wanted.name, shape_text(wanted.shape));
  }
  std::vector<int64_t> sizes = shape->second;
  for (int64_t& size : sizes) size = std::max<int64_t>(size, size < 0 ? 1 : 0);
  if (!shape_fits(wanted.shape, sizes))
    user_error("--shape {}={}: it has {} dimensions", wanted.name, shape_text(sizes), wanted.shape.size());
  return {random_tensor(wanted.type, sizes, *choice.seed, wanted.name),
          fmt::format("random, seed {}", *choice.seed)};
}

/// All elements, one tensor behind the other.
HostTensor joined_elements(const rpc::ElementType& type, const std::vector<FileTensor>& tensors) {
  HostTensor all{type, {0}, {}};
  std::vector<std::string_view> texts;
  for (const auto& [tensor, source] : tensors) {
    all.shape[0] += element_count(tensor.shape);
    if (!is_string(type)) {
      all.bytes.insert(all.bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
      continue;
    }
    const std::vector<std::string_view> own = texts_of(tensor);
    texts.insert(texts.end(), own.begin(), own.end());
  }
  if (is_string(type)) all.bytes = packed_strings(texts);
  return all;
}

HostTensor rows_of(const rpc::ElementType& type, const std::vector<FileTensor>& tensors, size_t rank) {
  std::vector<int64_t> rows;
  for (const auto& [tensor, source] : tensors) {
    rows.push_back(static_cast<int64_t>(rank));
    rows.insert(rows.end(), tensor.shape.begin(), tensor.shape.end());
  }
  const auto bytes = std::as_bytes(std::span(rows));
  return {type,
          {static_cast<int64_t>(tensors.size()), static_cast<int64_t>(rank) + 1},
          {bytes.begin(), bytes.end()}};
}

std::string sources_of(const std::vector<FileTensor>& tensors) {
  std::string text;
  for (const FileTensor& tensor : tensors) text += (text.empty() ? "" : ", ") + tensor.source;
  return text;
}

}  // namespace

bool is_tensor_of_sequence(const std::vector<rpc::TensorDescription>& model, const std::string& name) {
  return std::ranges::any_of(
      sequences_of(model), [&](const Sequence& sequence) { return position_in(sequence, name).has_value(); });
}

std::vector<rpc::TensorDescription> tensors_of_sequences(const std::vector<rpc::TensorDescription>& model,
                                                         const InputChoice& choice) {
  const std::vector<Sequence> sequences = sequences_of(model);
  if (sequences.empty()) return {};
  std::vector<std::string> names;
  for (const auto& [name, shape] : choice.shapes) names.push_back(name);
  for (const std::string& argument : choice.files) {
    const std::vector<std::string> own = names_of_argument(argument);
    names.insert(names.end(), own.begin(), own.end());
  }
  std::vector<rpc::TensorDescription> tensors;
  for (const Sequence& sequence : sequences) {
    size_t count = 0;
    for (const std::string& name : names) {
      if (const auto position = position_in(sequence, name)) count = std::max(count, *position + 1);
    }
    for (size_t i = 0; i < count; ++i) {
      rpc::TensorDescription tensor = model[sequence.index];
      tensor.name = fmt::format("{}[{}]", sequence.name, i);
      tensor.shape.assign(rank_of(model, sequence), -1);
      tensors.push_back(std::move(tensor));
    }
  }
  return tensors;
}

void join_sequences(const std::vector<rpc::TensorDescription>& model, const InputChoice& choice,
                    const std::vector<rpc::TensorDescription>& tensors,
                    std::vector<std::optional<FileTensor>> data,
                    std::vector<std::optional<FileTensor>>& given) {
  for (const Sequence& sequence : sequences_of(model)) {
    std::optional<FileTensor>&elements = given[sequence.index], &dims = given[sequence.index + 1];
    std::vector<FileTensor> own;
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!position_in(sequence, tensors[i].name)) continue;
      own.push_back(data[i] ? std::move(*data[i]) : made_up(tensors[i], choice));
    }
    const bool is_whole = elements || dims || choice.shapes.contains(model[sequence.index].name);
    if (is_whole && !own.empty())
      user_error("input '{0}' is given as {0}[0] and as {0}[]: leave out one of them", sequence.name);
    if (is_whole) continue;
    if (own.empty()) {
      user_error(
          "input '{0}' is a sequence: say which tensors it has, with --input {0}[0]=FILE for the first and "
          "so "
          "on{1}",
          sequence.name,
          choice.seed ? fmt::format("; made-up ones need their shapes, --shape {}[0]={}", sequence.name,
                                    shape_text(std::vector<int64_t>(rank_of(model, sequence), -1)))
                      : "");
    }
    elements = FileTensor{joined_elements(model[sequence.index].type, own), sources_of(own)};
    dims = FileTensor{rows_of(model[sequence.index + 1].type, own, rank_of(model, sequence)),
                      "the shapes of those"};
  }
}

}  // namespace gantry::cli
