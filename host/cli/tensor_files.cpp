#include "host/cli/tensor_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "host/cli/input_kind.h"
#include "host/cli/inputs.h"
#include "host/cli/model_tensors.h"
#include "host/cli/npy.h"
#include "host/cli/npz.h"
#include "host/cli/preprocess.h"
#include "host/cli/tensor_constant.h"
#include "host/onnx/tensor_file.h"
#include "host/support/error.h"
#include "host/support/suggest.h"
#include "host/support/words.h"

namespace gantry::cli {
namespace {

namespace fs = std::filesystem;

/// Files of images; raw ones of the most pixels take as much.
constexpr uint64_t kLargestImageFile = uint64_t{3} * kMostPixels + 65536;

struct FileMember {
  std::string file;
  std::string member;  ///< of an archive; empty: not said
};

/// "all.npz:arr_0"; the whole text where it is a file.
FileMember split_member(const std::string& text) {
  std::error_code code;
  if (fs::exists(text, code)) return {text, ""};
  for (size_t colon = text.find(':'); colon != std::string::npos; colon = text.find(':', colon + 1)) {
    const std::string file = text.substr(0, colon);
    if (file.ends_with(".npz") || fs::is_regular_file(file, code)) return {file, text.substr(colon + 1)};
  }
  return {text, ""};
}

Image image_of(const std::string& file) {
  return decode_image(read_bytes(file, kLargestImageFile), file);
}

/// Collects what the arguments of one option give.
class Collector {
 public:
  Collector(const std::vector<rpc::TensorDescription>& tensors, const FileOption& option)
      : tensors_(tensors), option_(option), given_(tensors.size()), named_(tensors.size()) {
    for (const std::string& argument : option.preprocess) add_preprocess(argument);
  }

  /// Archives and folders that no tensor is named for wait for finish().
  void add(const std::string& argument) {
    const NamedText named = split_named(argument);
    typed_ = option_.name + " " + argument;
    if (!named.name.empty()) find_tensor(tensors_, named.name, option_.kind, typed_, option_.advice);
    const FileMember file = split_member(named.value);
    std::error_code code;
    if (fs::is_directory(file.file, code)) {
      if (!named.name.empty())
        user_error("{}: is a folder, which gives all {}s; leave out {}=", typed_, option_.kind, named.name);
      return wholes_.push_back({argument, file.file, true});
    }
    const InputKind kind = kind_of_input(file.file);
    if (!file.member.empty() && kind != InputKind::kNpz)
      user_error("{}: {} is no archive; only .npz files have members", typed_, file.file);
    if (kind == InputKind::kNpz && named.name.empty() && file.member.empty())
      return wholes_.push_back({argument, file.file, false});
    add_file(named.name, file, kind);
  }

  std::vector<std::optional<FileTensor>> finish() {
    for (const Whole& whole : wholes_) {
      typed_ = option_.name + " " + whole.argument;
      if (whole.folder) {
        add_data_set(whole.path);
      } else {
        add_archive(whole.path);
      }
    }
    for (const auto& [name, use] : preprocess_) {
      if (use.used) continue;
      user_error("--preprocess {}: no image is given{}; it is for images", use.argument,
                 name.empty() ? "" : fmt::format(" for input '{}'", name));
    }
    return std::move(given_);
  }

 private:
  struct Whole {
    std::string argument, path;
    bool folder;
  };
  struct Use {
    std::string argument;
    Preprocess preprocess;
    bool used = false;
  };

  void add_preprocess(const std::string& argument) {
    const NamedText named = split_named(argument);
    if (!named.name.empty()) find_tensor(tensors_, named.name, option_.kind, "--preprocess " + argument);
    if (!preprocess_.emplace(named.name, Use{argument, find_preprocess(named.value)}).second)
      user_error("--preprocess {}: one is given already", argument);
  }

  void place(size_t index, FileTensor tensor, bool named) {
    if (given_[index])
      user_error("{}: {} '{}' has a file already", typed_, option_.kind, tensors_[index].name);
    read_as(tensor.tensor, tensors_[index].type);
    check(index, tensor.tensor.type, tensor.tensor.shape, tensor.source);
    check_elements(tensor.tensor, tensor.source);
    given_[index] = std::move(tensor);
    named_[index] = named;
  }
  void check(size_t index, const rpc::ElementType& type, const std::vector<int64_t>& shape,
             const std::string& source) const {
    if (option_.exact_type) check_input(tensors_[index], stands_for(type, tensors_[index].type), shape, source);
  }
  size_t find(const std::string& name) const { return find_tensor(tensors_, name, option_.kind, typed_); }

  void add_file(const std::string& name, const FileMember& file, InputKind kind) {
    if (kind == InputKind::kNpz) return add_member(find(name), file);
    if (kind == InputKind::kTensorProto) return add_tensor_proto(name, file.file);
    if (kind == InputKind::kImage) return add_image(find(name), file.file);
    place(find(name), {read_npy(file.file), file.file}, true);
  }

  void add_tensor_proto(const std::string& name, const std::string& file) {
    const TensorFile tensor = read_tensor_file(file);
    const std::vector<std::string> names = names_of(tensors_);
    const bool says = name.empty() && std::ranges::find(names, tensor.name) != names.end();
    place(find(says ? tensor.name : name), {to_host_tensor(*tensor.data), file}, true);
  }

  void add_image(size_t index, const std::string& file) {
    const rpc::TensorDescription& wanted = tensors_[index];
    if (!option_.images) user_error("{}: is an image; give the tensor as .npy, .npz or .pb", typed_);
    auto use = preprocess_.find(wanted.name);
    if (use == preprocess_.end()) use = preprocess_.find("");
    if (use == preprocess_.end()) {
      user_error(
          "{}: is an image; say how it becomes input '{}' ({}): --preprocess imagenet, yolo, none, or "
          "a TOML file (docs/cli.md describes its keys)",
          typed_, wanted.name, type_and_shape(wanted.type, wanted.shape));
    }
    use->second.used = true;
    const Preprocess& preprocess = use->second.preprocess;
    place(index,
          {image_tensor(image_of(file), preprocess, wanted, file),
           fmt::format("{}, preprocessing {}", file, preprocess.name)},
          true);
  }

  FileTensor read_member(const NpzFile& archive, const std::string& file, const std::string& member,
                         size_t index) const {
    const std::string source = file + ":" + member;
    return {
        archive.read(member, [&](const auto& type, const auto& shape) { check(index, type, shape, source); }),
        source};
  }

  void add_member(size_t index, const FileMember& file) {
    const NpzFile archive(file.file);
    std::string member = file.member;
    if (member.empty()) {
      member = tensors_[index].name;
      if (!archive.has(member) && archive.members().size() == 1) member = archive.members().front();
    }
    if (!archive.has(member) && member.ends_with(".npy")) member.resize(member.size() - 4);
    place(index, read_member(archive, file.file, member, index), true);
  }

  void add_archive(const std::string& file) {
    const NpzFile archive(file);
    bool any = false;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!archive.has(tensors_[i].name)) continue;
      any = true;
      if (!named_[i]) place(i, read_member(archive, file, tensors_[i].name, i), false);
    }
    if (any) return;
    // As numpy.savez names what it is given without names.
    const auto positional = [](size_t i) { return fmt::format("arr_{}", i); };
    bool by_position = archive.members().size() == tensors_.size();
    for (size_t i = 0; i < tensors_.size(); ++i) by_position = by_position && archive.has(positional(i));
    if (!by_position) {
      user_error(
          "{}: no array of it has the name of an {}; write NAME={}:ARRAY. Its arrays: {}; the model's {}s: "
          "{}",
          typed_, option_.kind, file,
          archive.members().empty() ? "none" : fmt::format("{}", fmt::join(archive.members(), ", ")),
          option_.kind, fmt::join(names_of(tensors_), ", "));
    }
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!named_[i]) place(i, read_member(archive, file, positional(i), i), false);
    }
  }

  void add_data_set(const fs::path& folder) {
    const auto file = [&](size_t i) { return folder / fmt::format("{}_{}.pb", option_.kind, i); };
    std::error_code code;
    if (!fs::exists(file(0), code)) {
      std::string hint;
      if (fs::exists(folder / "test_data_set_0", code))
        hint = fmt::format("; did you mean '{}'?", (folder / "test_data_set_0").string());
      user_error("{}: has no {}_0.pb: no data set of ONNX{}", typed_, option_.kind, hint);
    }
    if (fs::exists(file(tensors_.size()), code)) {
      user_error("{}: has a file {}, but the model has {}", typed_, file(tensors_.size()).filename().string(),
                 counted(tensors_.size(), option_.kind));
    }
    for (size_t i = 0; i < tensors_.size() && fs::exists(file(i), code); ++i) {
      if (!named_[i]) place(i, {to_host_tensor(*read_tensor_file(file(i)).data), file(i).string()}, false);
    }
  }

  const std::vector<rpc::TensorDescription>& tensors_;
  const FileOption& option_;
  std::string typed_;  ///< the option and argument at hand, for messages
  std::map<std::string, Use> preprocess_;
  std::vector<Whole> wholes_;
  std::vector<std::optional<FileTensor>> given_;
  std::vector<bool> named_;  ///< given by an argument that names it
};

}  // namespace

std::vector<std::optional<FileTensor>> read_tensor_files(const std::vector<rpc::TensorDescription>& tensors,
                                                         const std::vector<std::string>& arguments,
                                                         const FileOption& option) {
  Collector collector(tensors, option);
  for (const std::string& argument : arguments) collector.add(argument);
  return collector.finish();
}

std::vector<std::string> names_of_argument(const std::string& argument) {
  const NamedText named = split_named(argument);
  if (!named.name.empty()) return {named.name};
  std::error_code code;
  if (!fs::is_regular_file(named.value, code)) return {};
  const InputKind kind = kind_of_input(named.value);
  if (kind == InputKind::kNpz) return NpzFile(named.value).members();
  const std::string name = kind == InputKind::kTensorProto ? name_of_tensor_file(named.value) : "";
  return name.empty() ? std::vector<std::string>() : std::vector{name};
}

std::vector<fs::path> files_of_argument(const std::string& argument) {
  const fs::path file = split_member(split_named(argument).value).file;
  std::error_code code;
  if (!fs::is_directory(file, code)) return {file};
  std::vector<fs::path> files;
  for (fs::directory_iterator entry(file, code), end; !code && entry != end; entry.increment(code))
    files.push_back(entry->path());
  return files;
}

}  // namespace gantry::cli
