#include <toml++/toml.h>

#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>

#include "host/cli/preprocess.h"
#include "host/support/error.h"
#include "host/support/input_file.h"

namespace gantry::cli {
namespace {

constexpr size_t kLongestFile = 65536;

/// Weights of torchvision and most others that were trained on ImageNet: 256 and 224 pixels, or that ratio.
Preprocess imagenet() {
  Preprocess preset;
  preset.name = "imagenet";
  preset.size = {224, 224};
  preset.resize = Preprocess::Resize::kCrop;
  preset.shorter_ratio = 256.0 / 224.0;
  preset.colour = Preprocess::Colour::kRgb;
  preset.scale = 1.0 / 255;
  preset.mean = {0.485, 0.456, 0.406};
  preset.std = {0.229, 0.224, 0.225};
  return preset;
}

/// Detectors of the YOLO family since version 5: a grey border, two neighbours a pixel.
Preprocess yolo() {
  Preprocess preset;
  preset.name = "yolo";
  preset.size = {640, 640};
  preset.resize = Preprocess::Resize::kPad;
  preset.pad_value = {114, 114, 114};
  preset.antialias = false;
  preset.colour = Preprocess::Colour::kRgb;
  preset.scale = 1.0 / 255;
  return preset;
}

const std::vector<Preprocess>& presets() {
  static const std::vector<Preprocess> all = {imagenet(), yolo(), Preprocess{}};
  return all;
}

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const Preprocess& preset : presets()) names.push_back(preset.name);
  return names;
}

const Preprocess* find_preset(const std::string& name) {
  for (const Preprocess& preset : presets()) {
    if (preset.name == name) return &preset;
  }
  return nullptr;
}

/// Sets a Preprocess from the keys of a table.
class Reader {
 public:
  Reader(const toml::table& table, const std::string& name) : table_(table), name_(name) {}

  Preprocess read() {
    if (table_.contains("preset")) {
      const std::string preset = text("preset");
      const Preprocess* found = find_preset(preset);
      if (found == nullptr)
        fail("preset", fmt::format("'{}' is none of {}", preset, fmt::join(preset_names(), ", ")));
      result_ = *found;
    }
    result_.name = name_;
    for (const auto& [key, node] : table_) read_key(std::string(key.str()));
    if (table_.contains("shorter_side") && result_.resize != Preprocess::Resize::kCrop)
      fail("shorter_side", "is for resize = \"crop\"");
    if (table_.contains("pad_value") && result_.resize != Preprocess::Resize::kPad)
      fail("pad_value", "is for resize = \"pad\"");
    return result_;
  }

 private:
  using P = Preprocess;
  template <typename T>
  using Words = std::vector<std::pair<std::string, T>>;

  void read_key(const std::string& key) {
    if (key == "preset") return;
    if (key == "layout") {
      result_.layout = word<P::Layout>(key, {{"nchw", P::Layout::kNchw}, {"nhwc", P::Layout::kNhwc}});
    } else if (key == "size") {
      const std::vector<int64_t> sides = integers(key, 1, 2, 1, kLongestSide);
      result_.size = {static_cast<int>(sides.front()), static_cast<int>(sides.back())};
    } else if (key == "resize") {
      result_.resize = word<P::Resize>(key, {{"none", P::Resize::kNone},
                                             {"stretch", P::Resize::kStretch},
                                             {"crop", P::Resize::kCrop},
                                             {"pad", P::Resize::kPad}});
    } else if (key == "shorter_side") {
      result_.shorter_side = static_cast<int>(integers(key, 1, 1, 1, kLongestSide).front());
    } else if (key == "pad_value") {
      const std::vector<int64_t> values = integers(key, 1, 3, 0, 255);
      if (values.size() == 2) fail(key, "takes one number, or one for each of 3 channels");
      for (size_t c = 0; c < 3; ++c)
        result_.pad_value[c] = static_cast<int>(values[values.size() == 1 ? 0 : c]);
    } else if (key == "interpolation") {
      result_.interpolation = word<Interpolation>(key, {{"nearest", Interpolation::kNearest},
                                                        {"bilinear", Interpolation::kBilinear},
                                                        {"bicubic", Interpolation::kBicubic}});
    } else if (key == "antialias") {
      const auto value = table_[key].value_exact<bool>();
      if (!value) fail(key, "is true or false");
      result_.antialias = *value;
    } else if (key == "colour" || key == "color") {
      result_.colour = word<P::Colour>(
          key, {{"rgb", P::Colour::kRgb}, {"bgr", P::Colour::kBgr}, {"gray", P::Colour::kGray}});
    } else if (key == "scale") {
      result_.scale = scale(key);
    } else if (key == "mean") {
      result_.mean = channels(key);
    } else if (key == "std") {
      result_.std = channels(key);
      for (const double value : result_.std) {
        if (value == 0) fail(key, "divides: it cannot be 0");
      }
    } else {
      const std::vector<std::string> keys = {"preset",       "layout",    "size",          "resize",
                                             "shorter_side", "pad_value", "interpolation", "antialias",
                                             "colour",       "scale",     "mean",          "std"};
      const std::string hint = did_you_mean(key, keys);
      fail(key, fmt::format("is no key of a preprocessing{} Keys: {}", hint.empty() ? "." : hint,
                            fmt::join(keys, ", ")));
    }
  }

  [[noreturn]] void fail(const std::string& key, const std::string& problem) const {
    user_error("{}:{}: '{}' {}", name_, table_.get(key)->source().begin.line, key, problem);
  }
  std::string text(const std::string& key) const {
    const auto value = table_[key].value_exact<std::string>();
    if (!value) fail(key, "must be a string");
    return *value;
  }
  template <typename T>
  T word(const std::string& key, const Words<T>& words) const {
    const std::string value = text(key);
    std::vector<std::string> known;
    for (const auto& [name, meaning] : words) {
      if (name == value) return meaning;
      known.push_back("\"" + name + "\"");
    }
    fail(key, fmt::format("is \"{}\"; it is one of {}", value, fmt::join(known, ", ")));
  }
  double number(const std::string& key, const toml::node& node) const {
    const auto value = node.value<double>();
    if (!value || !node.is_number() || !std::isfinite(*value)) fail(key, "must be a number");
    return *value;
  }
  /// One integer, or a list of `least` to `most` of them.
  std::vector<int64_t> integers(const std::string& key, size_t least, size_t most, int64_t smallest,
                                int64_t largest) const {
    std::vector<int64_t> values;
    const auto add = [&](const toml::node& node) {
      const auto value = node.value_exact<int64_t>();
      if (!value || *value < smallest || *value > largest)
        fail(key, fmt::format("takes whole numbers from {} to {}", smallest, largest));
      values.push_back(*value);
    };
    for_each(key, add);
    if (values.size() < least || values.size() > most)
      fail(key, most == 1 ? "takes one number" : fmt::format("takes {} to {} numbers", least, most));
    return values;
  }
  std::vector<double> channels(const std::string& key) const {
    std::vector<double> values;
    for_each(key, [&](const toml::node& node) { values.push_back(number(key, node)); });
    if (values.size() != 1 && values.size() != 3)
      fail(key, fmt::format("has {} numbers; it takes one, or one for each of 3 channels", values.size()));
    return values;
  }
  template <typename Visit>
  void for_each(const std::string& key, const Visit& visit) const {
    const toml::node& node = *table_.get(key);
    const toml::array* list = node.as_array();
    if (list == nullptr) return visit(node);
    for (const toml::node& item : *list) visit(item);
  }
  /// A number, or a quotient of two as a string: "1/255".
  double scale(const std::string& key) const {
    const toml::node& node = *table_.get(key);
    if (!node.is_string()) return number(key, node);
    const std::string quotient = text(key);
    double above = 0, below = 0;
    const char* end = quotient.data() + quotient.size();
    const auto [slash, error] = std::from_chars(quotient.data(), end, above);
    if (error == std::errc() && slash != end && *slash == '/') {
      const auto [stop, second_error] = std::from_chars(slash + 1, end, below);
      const double value = above / below;
      if (second_error == std::errc() && stop == end && below != 0 && std::isfinite(value)) return value;
    }
    fail(key, "is a number, or a quotient like \"1/255\"");
  }

  const toml::table& table_;
  const std::string& name_;
  Preprocess result_;
};

}  // namespace

Preprocess parse_preprocess(const std::string& text, const std::string& name) {
  toml::table table;
  try {
    table = toml::parse(text, name);
  } catch (const toml::parse_error& error) {
    user_error("{}:{}: not valid TOML: {}", name, error.source().begin.line, error.description());
  }
  return Reader(table, name).read();
}

Preprocess find_preprocess(const std::string& preset_or_file) {
  if (const Preprocess* preset = find_preset(preset_or_file)) return *preset;
  std::error_code code;
  const std::filesystem::path path = preset_or_file;
  if (!std::filesystem::exists(path, code) && !path.has_extension()) {
    user_error("--preprocess {}: neither a preset ({}) nor a file{}", preset_or_file,
               fmt::join(preset_names(), ", "), did_you_mean(preset_or_file, preset_names()));
  }
  if (std::filesystem::is_directory(path, code))
    user_error("--preprocess {}: is a folder; give a TOML file", preset_or_file);
  std::ifstream file(path, std::ios::binary);
  if (!file) cannot_read(path, errno);
  std::string text(kLongestFile + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kLongestFile)
    user_error("{}: has more than {} bytes; a preprocessing is a small TOML file", preset_or_file,
               kLongestFile);
  return parse_preprocess(text, preset_or_file);
}

}  // namespace gantry::cli
