#include "host/farm/lease_key.h"

#include <string>
#include <system_error>

#include "host/support/cleanup.h"
#include "host/support/output_file.h"

namespace gantry::farm {
namespace {

namespace fs = std::filesystem;

constexpr char kStart[] = "lease-";
/// The server leaves out files whose names begin so.
constexpr char kHidden[] = ".";

/// A file that goes when a signal ends the process, and when this does.
class Fleeting {
 public:
  explicit Fleeting(fs::path path) : path_(std::move(path)) { cleanup::Section().add(path_); }
  Fleeting(const Fleeting&) = delete;
  Fleeting& operator=(const Fleeting&) = delete;
  ~Fleeting() {
    cleanup::Section section;
    std::error_code error;
    fs::remove(path_, error);
    section.remove(path_);
  }

 private:
  fs::path path_;
};

}  // namespace

InstalledKey::InstalledKey(const fs::path& folder, const rpc::PskKey& key)
    : path_(folder / (kStart + key.identity + ".key")) {
  const fs::path written = folder / (kHidden + path_.filename().string());
  const Fleeting until_renamed(written);
  write_file(written, rpc::key_file_text(key), OutputFile::Privacy::kSecret);
  cleanup::Section section;
  fs::rename(written, path_);
  section.add(path_);
}

InstalledKey::~InstalledKey() {
  cleanup::Section section;
  std::error_code error;
  fs::remove(path_, error);
  section.remove(path_);
}

void remove_stale_keys(const fs::path& folder) {
  std::error_code code;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end; entry.increment(code)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kStart) && !name.starts_with(std::string(kHidden) + kStart)) continue;
    std::error_code ignored;
    fs::remove(entry->path(), ignored);
  }
}

}  // namespace gantry::farm
