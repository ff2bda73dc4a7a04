// In programs that are linked with static libraries only, of which libzip has none
// (toolchains/StaticLibraries.cmake).
#include "host/cli/npz.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path) {
  user_error("{}: this gantry is built without libzip and has no .npz files; use a .npy file for each array",
             path.string());
}

}  // namespace

void expect_npz_support(const std::filesystem::path& path) {
  refuse(path);
}

NpzFile::NpzFile(std::filesystem::path path) : path_(std::move(path)) {
  refuse(path_);
}

NpzFile::~NpzFile() = default;

bool NpzFile::has(const std::string&) const {
  refuse(path_);
}

HostTensor NpzFile::read(const std::string&, const Accept&) const {
  refuse(path_);
}

void write_npz(const std::filesystem::path& path, const std::vector<NamedTensor>&) {
  refuse(path);
}

}  // namespace gantry::cli
