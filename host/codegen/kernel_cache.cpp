#include "host/codegen/kernel_cache.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <llvm/Config/llvm-config.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "host/codegen/cpu_codegen.h"
#include "host/loops/stmt.h"
#include "host/machine/target.h"
#include "host/support/input_file.h"
#include "host/support/temporary.h"

namespace gantry {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'g', 'a', 'n', 't', 'r', 'y', 'k', '1'};
constexpr std::string_view kExtension = ".kernel";
constexpr uint64_t kMaxEntry = uint64_t{64} << 20;
// What a trim leaves free, so that the next compilation need not trim again.
constexpr double kTrimmedShare = 0.9;

struct Header {
  char magic[8];
  uint64_t size;  ///< of the bytes that follow
  KernelCache::Key key, digest;
};

KernelCache::Key sha256(std::string_view bytes) {
  KernelCache::Key digest{};
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  return digest;
}

/// The note that the linker leaves in a program or library, empty if there is none.
std::string build_id_of(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(object.dlpi_addr + segment.p_vaddr);
    const char* end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* name = at + sizeof note;
      const char* data = name + (note.n_namesz + 3) / 4 * 4;
      if (data + note.n_descsz > end) break;
      const bool is_id =
          note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0;
      if (is_id) return {data, note.n_descsz};
      at = data + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return "";
}

/// Tells builds of this program and of the libraries that it runs with apart.
std::string identify_build() {
  struct Found {
    std::string text;
    bool is_program = true;  // the program comes first
  } found;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* result) {
        auto& found = *static_cast<Found*>(result);
        std::string id = build_id_of(*object);
        if (id.empty() && found.is_program) {
          const KernelCache::Key digest = sha256(contents_if_readable("/proc/self/exe"));
          id.assign(digest.begin(), digest.end());
        }
        found.is_program = false;
        found.text += fmt::format("{}:{}\n", id.size(), id);
        return 0;
      },
      &found);
  return fmt::format("LLVM {}\n{}", LLVM_VERSION_STRING, found.text);
}

/// Every member that code generation looks at.
std::string describe(const Target& target) {
  std::string text = fmt::format("{} {} {} vectors {} registers {} device {} {} {} precision {}", target.name,
                                 triple_of(target), target.cpu, target.machine.vector_bytes,
                                 target.machine.vector_registers, static_cast<int>(target.device),
                                 target.gpu_arch, target.gpu_checks, name_of(target.precision));
  for (const std::string& feature : target.features) text += " +" + feature;
  return target.host ? text + " beside " + describe(*target.host) : text;
}

/// Calls `visit` for each file of the cache.
template <typename Visit>
void for_each_file(const fs::path& folder, Visit visit) {
  std::error_code code;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, code), end;
       !code && at != end; at.increment(code)) {
    std::error_code ignored;
    if (at->is_regular_file(ignored)) visit(at->path());
  }
}

bool is_entry(const fs::path& path) {
  return path.extension() == kExtension;
}

bool is_old(const fs::path& path) {
  std::error_code code;
  return fs::last_write_time(path, code) < fs::file_time_type::clock::now() - std::chrono::hours(1) && !code;
}

}  // namespace

KernelCache::KernelCache(fs::path folder, uint64_t limit_bytes)
    : folder_(std::move(folder) / "kernels"), limit_(limit_bytes) {}

fs::path KernelCache::default_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  if (const fs::path own = variable("GANTRY_CACHE_DIR"); !own.empty()) return own;
  // A relative path there counts as none, as the XDG specification has it.
  if (const fs::path base = variable("XDG_CACHE_HOME"); base.is_absolute()) return base / "gantry";
  const fs::path home = variable("HOME");
  return home.is_absolute() ? home / ".cache" / "gantry" : fs::path();
}

KernelCache::Key KernelCache::key_of(const LoopKernel& kernel, const Target& target, std::string_view kind) {
  static const std::string build = identify_build();
  const std::string what = describe(target), text = to_string(kernel);
  return sha256(
      fmt::format("{}\n{}\n{}\n{}:{}\n{}", build, kind, what, text.size(), text, kernel.input_count));
}

fs::path KernelCache::path_of(const Key& key) const {
  std::string name;
  for (const uint8_t byte : key) name += fmt::format("{:02x}", byte);
  return folder_ / name.substr(0, 2) / (name.substr(2) + std::string(kExtension));
}

std::optional<std::string> KernelCache::find(const Key& key) const {
  const fs::path path = path_of(key);
  std::string file = contents_if_readable(path);
  Header header{};
  bool whole = file.size() >= sizeof header;
  if (whole) {
    std::memcpy(&header, file.data(), sizeof header);
    file.erase(0, sizeof header);
    whole = std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 && header.size == file.size() &&
            header.key == key && header.digest == sha256(file);
  }
  if (!whole) {
    ++misses_;
    return std::nullopt;
  }
  ++hits_;
  // Marks it as used now.
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return file;
}

void KernelCache::store(const Key& key, std::string_view bytes) {
  if (bytes.size() > kMaxEntry) return;
  const fs::path path = path_of(key);
  std::error_code code;
  if (!fs::exists(folder_, code)) {
    fs::create_directories(folder_, code);
    // Whoever may write here decides what code runs.
    fs::permissions(folder_, fs::perms::owner_all, code);
  }
  fs::create_directories(path.parent_path(), code);
  TemporaryFile file(path, 0600);
  if (!file.ok()) return;
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.size = bytes.size();
  header.key = key;
  header.digest = sha256(bytes);
  const bool written = file.write(&header, sizeof header) == 0 && file.write(bytes.data(), bytes.size()) == 0;
  if (written && file.rename_to(path) == 0) stored_ = true;
}

void KernelCache::trim() {
  if (!stored_.exchange(false)) return;
  struct Entry {
    fs::file_time_type used;
    uint64_t bytes;
    fs::path path;
  };
  std::vector<Entry> entries;
  uint64_t total = 0;
  std::error_code code;
  for_each_file(folder_, [&](const fs::path& path) {
    if (!is_entry(path)) {
      if (is_old(path)) fs::remove(path, code);
      return;
    }
    Entry entry{fs::last_write_time(path, code), fs::file_size(path, code), path};
    if (code) return;  // another process has removed it
    total += entry.bytes;
    entries.push_back(std::move(entry));
  });
  if (total <= limit_) return;
  std::ranges::sort(entries, {}, &Entry::used);
  for (const Entry& entry : entries) {
    if (static_cast<double>(total) <= kTrimmedShare * static_cast<double>(limit_)) return;
    if (fs::remove(entry.path, code)) total -= entry.bytes;
  }
}

KernelCache::Usage KernelCache::usage() const {
  Usage usage;
  for_each_file(folder_, [&](const fs::path& path) {
    std::error_code code;
    const uint64_t bytes = fs::file_size(path, code);
    if (code || !is_entry(path)) return;
    ++usage.entries;
    usage.bytes += bytes;
  });
  return usage;
}

KernelCache::Cleared KernelCache::clear() {
  std::vector<fs::path> files;
  for_each_file(folder_, [&](const fs::path& path) {
    if (is_entry(path) || is_old(path)) files.push_back(path);
  });
  Cleared cleared;
  for (const fs::path& path : files) {
    std::error_code unknown, code;
    const uint64_t bytes = fs::file_size(path, unknown);
    const bool removed = fs::remove(path, code);  // neither where another process has removed it
    if (!is_entry(path)) continue;
    if (code) ++cleared.failed;
    if (!removed) continue;
    ++cleared.removed.entries;
    if (!unknown) cleared.removed.bytes += bytes;
  }
  return cleared;
}

}  // namespace gantry
