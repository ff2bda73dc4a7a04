// Collections of custom ops: folders and shared libraries.
#include <dlfcn.h>

#include <algorithm>
#include <system_error>

#include "device_runtime/include/gantry/custom_op.h"
#include "host/custom_ops/custom_ops.h"
#include "host/support/error.h"
#include "host/support/mapped_file.h"

namespace gantry {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription = "ops.toml";
constexpr uint64_t kLargestFile = uint64_t{256} << 20;

std::string read_whole(const fs::path& path) {
  const MappedFile file(path);
  if (file.size() > kLargestFile) user_error("{}: is larger than a custom op's file can be", path.string());
  return std::string(file.data(), file.size());
}

std::vector<CustomOp> read_folder(const fs::path& folder, const std::function<void(const fs::path&)>& reads) {
  const auto read = [&](const std::string& name) {
    const fs::path path = folder / name;
    if (reads) reads(path);
    return read_whole(path);
  };
  const fs::path description = folder / kDescription;
  std::error_code code;
  if (!fs::exists(description, code))
    user_error("{}: has no {}, which says what ops it holds (docs/custom-ops.md)", folder.string(),
               kDescription);
  return parse_custom_ops(read(kDescription), description.string(), read);
}

/// A library of the process, until it is not needed any more.
class Library {
 public:
  explicit Library(const fs::path& path)
      // A name without a slash would be looked for where the system's libraries are.
      : handle_(::dlopen(fs::absolute(path).c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) user_error("{}: cannot be loaded: {}", path.string(), ::dlerror());
  }
  ~Library() { ::dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  void* find(const char* symbol) const { return ::dlsym(handle_, symbol); }

 private:
  void* handle_;
};

std::vector<CustomOp> read_library(const fs::path& path, const std::function<void(const fs::path&)>& reads) {
  if (reads) reads(path);
  const Library library(path);
  const auto entry = reinterpret_cast<GantryCustomOpsFn>(library.find("gantry_custom_ops"));
  if (entry == nullptr) {
    user_error(
        "{}: exports no gantry_custom_ops(), so that it is no library of custom ops (gantry/custom_op.h)",
        path.string());
  }
  const GantryCustomOps* ops = entry();
  if (ops == nullptr || ops->struct_size < sizeof(GantryCustomOps) || ops->description == nullptr ||
      (ops->file_count > 0 && ops->files == nullptr))
    user_error("{}: gantry_custom_ops() gives no table that this gantry reads", path.string());
  if (ops->version != GANTRY_CUSTOM_OP_VERSION) {
    user_error("{}: was built for version {} of gantry/custom_op.h, and this gantry reads version {}",
               path.string(), ops->version, GANTRY_CUSTOM_OP_VERSION);
  }
  const auto read = [&](const std::string& name) {
    for (uint32_t i = 0; i < ops->file_count; ++i) {
      const GantryCustomFile* file = ops->files[i];
      if (file == nullptr || file->name == nullptr || name != file->name) continue;
      if (file->size > kLargestFile || (file->size > 0 && file->bytes == nullptr))
        user_error("{}: its file '{}' is no memory of this library", path.string(), name);
      return std::string(static_cast<const char*>(file->bytes), file->size);
    }
    user_error("{}: its description names the file '{}', which it does not hold", path.string(), name);
  };
  return parse_custom_ops(ops->description, path.string(), read);
}

std::vector<CustomOp> read_collection(const fs::path& path,
                                      const std::function<void(const fs::path&)>& reads) {
  std::error_code code;
  if (fs::is_directory(path, code)) return read_folder(path, reads);
  if (!fs::exists(path, code))
    user_error("--custom-ops {}: there is no such folder or library", path.string());
  if (path.filename() == kDescription) return read_folder(path.parent_path(), reads);
  return read_library(path, reads);
}

}  // namespace

std::shared_ptr<const CustomOps> CustomOps::load(const std::vector<std::string>& paths,
                                                 std::vector<std::string> passes,
                                                 const std::function<void(const fs::path&)>& reads) {
  if (paths.empty()) return nullptr;
  std::vector<CustomOp> all;
  for (const std::string& path : paths)
    std::ranges::move(read_collection(path, reads), std::back_inserter(all));
  return std::make_shared<const CustomOps>(std::move(all), std::move(passes));
}

CustomOps::CustomOps(std::vector<CustomOp> ops, std::vector<std::string> passes)
    : ops_(std::move(ops)), passes_(std::move(passes)) {
  for (size_t i = 0; i < ops_.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (ops_[i].full_name() != ops_[j].full_name() || ops_[i].since != ops_[j].since) continue;
      user_error("the custom op {} (since version {}) is there twice: in {} and in {}", ops_[i].full_name(),
                 ops_[i].since, ops_[j].source, ops_[i].source);
    }
  }
}

const CustomOp* CustomOps::find(std::string_view domain, std::string_view name, int64_t version) const {
  const CustomOp* newest = nullptr;
  for (const CustomOp& op : ops_) {
    if (op.domain != domain || op.name != name || op.since > version) continue;
    if (newest == nullptr || op.since > newest->since) newest = &op;
  }
  return newest;
}

}  // namespace gantry
