// Inputs of a model, from files or made up.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/tensor_text.h"
#include "host/graph/fix_sizes.h"

namespace gantry::cli {

/// "NAME=VALUE" or "VALUE", as --input takes it. The first '=' separates, unless the whole text
/// names an existing file.
struct NamedText {
  std::string name;  ///< empty: not given
  std::string value;
};
NamedText split_named(const std::string& text);
/// The same for a file that need not exist yet: the first '=' always separates.
NamedText split_output(const std::string& text);

/// --shape NAME=1x3x224x224 (or 1,3,224,224), several; `?` leaves a dimension open, `1..8` and `1..` are ranges; `none`:
/// an optional input without a value (kNoValue). User error quotes what is wrong.
std::map<std::string, std::vector<GivenSize>> parse_shapes(const std::vector<std::string>& arguments);
/// --dim NAME=SIZE or NAME=LOW..HIGH, several. User error quotes what is wrong.
std::map<std::string, GivenSize> parse_sizes(const std::vector<std::string>& arguments);

/// --specialize NAME=SIZE,NAME=SIZE, several. User error quotes what is wrong.
std::vector<std::map<std::string, int64_t>> parse_specializations(const std::vector<std::string>& arguments);

/// --cpus 0,2 or 0-3 or both ("0-1,4"), in that order; empty: none. User error quotes what is wrong.
std::vector<int> parse_cpus(const std::string& text);

/// A size of a made-up input that nobody gave.
struct ChosenSize {
  std::string symbol;  ///< the dimension's name: "N", "x_d2"
  size_t axis = 0;
  std::string meaning;  ///< what it measures, "height"; empty: unknown
  int64_t size = 0;
  std::string reason;  ///< "usual for the height of an image"
};
struct ChosenShape {
  std::vector<int64_t> shape;
  std::vector<ChosenSize> sizes;  ///< those of the shape that were chosen
};
/// Completes the shapes of all inputs, -1 where they are open.
using ShapeChooser = std::function<std::vector<ChosenShape>(const std::vector<std::vector<int64_t>>& shapes)>;

struct InputChoice {
  std::vector<std::string> files;  ///< as given to --input
  /// Sizes of symbolic dimensions of made-up inputs, from --shape; -1: open.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Inputs without a file are drawn from this seed; nothing: they are errors that name them.
  std::optional<uint64_t> seed;
  /// For sizes of made-up inputs that are still open; null: they are 1.
  ShapeChooser choose;
  /// How images become inputs, as given to --preprocess.
  std::vector<std::string> preprocess = {};
  std::string advice = {};  ///< as in FileOption
};
struct GivenInput {
  HostTensor tensor;
  /// "random, seed 0; chosen: height 224, width 224", or the file, its member or preprocessing
  std::string source;
  std::vector<ChosenSize> chosen = {};
};
/// "height 224, width 224"
std::string chosen_text(const std::vector<ChosenSize>& sizes);

/// One tensor for each of the model's inputs, in their order. User errors: those of read_tensor_files, and
/// inputs without data.
std::vector<GivenInput> gather_inputs(const std::vector<rpc::TensorDescription>& model,
                                      const InputChoice& choice);

/// Seeded contents: floats normal (of f8e8m0fnu, which has no sign, their magnitudes), integers and bools 0
/// or 1 (a valid index into any table of two rows or more).
HostTensor random_tensor(const rpc::ElementType& type, const std::vector<int64_t>& shape, uint64_t seed,
                         const std::string& name);

/// Which file each of the model's outputs goes to, from --output; empty: not saved. User errors as
/// gather_inputs.
std::vector<std::string> assign_outputs(const std::vector<rpc::TensorDescription>& model,
                                        const std::vector<std::string>& arguments);

}  // namespace gantry::cli
