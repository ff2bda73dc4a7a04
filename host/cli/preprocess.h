// How an image becomes a model's input: `--preprocess`.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/image_resize.h"
#include "host/cli/tensor_text.h"

namespace gantry::cli {

/// The steps in their order: colours, size, then for each channel (pixel * scale - mean) / std, then the
/// layout.
struct Preprocess {
  enum class Layout { kOfModel, kNchw, kNhwc };
  enum class Resize {
    kNone,     ///< the image must have the size already
    kStretch,  ///< each side on its own
    kCrop,     ///< the shorter side to `shorter_side`, then the centre
    kPad,      ///< the whole image inside, in the centre, `pad_value` around it
  };
  enum class Colour { kRgb, kBgr, kGray };
  struct Size {
    int height = 0, width = 0;
  };

  std::string name = "none";  ///< a preset's, or the file
  Layout layout = Layout::kOfModel;
  std::optional<Size> size;  ///< for dimensions that the model leaves open
  Resize resize = Resize::kNone;
  int shorter_side = 0;                      ///< of kCrop; 0: `shorter_ratio` times the size
  double shorter_ratio = 1;                  ///< at least 1
  std::array<int, 3> pad_value = {0, 0, 0};  ///< 0 to 255, of the channels in the model's order
  Interpolation interpolation = Interpolation::kBilinear;
  bool antialias = true;
  std::optional<Colour> colour;  ///< none: rgb, or gray where the model takes one channel
  double scale = 1;
  /// One value for all channels, or one each, in the model's order.
  std::vector<double> mean = {0}, std = {1};
};

/// A preset by its name (imagenet, yolo, none) or a TOML file; docs/cli.md describes both. User errors name
/// the file and line, or the presets.
Preprocess find_preprocess(const std::string& preset_or_file);
/// As find_preprocess, from the text of a file that messages call `name`.
Preprocess parse_preprocess(const std::string& text, const std::string& name);

/// The tensor of one image for an input of rank 4 (a batch of 1), 3 or 2 with 1 or 3 channels, of f32, f64,
/// f16, bf16, or 8-bit integers (rounded to nearest even, clamped). Symbolic dimensions take `size`. User
/// errors name `source`, the image, and what of the model or the preprocessing does not fit.
HostTensor image_tensor(const Image& image, const Preprocess& preprocess,
                        const rpc::TensorDescription& wanted, const std::string& source);

}  // namespace gantry::cli
