#include "host/cli/npz.h"

#include <zip.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <memory>
#include <set>
#include <span>

#include "host/cli/npy.h"
#include "host/support/error.h"
#include "host/support/input_file.h"
#include "host/support/output_file.h"

namespace gantry::cli {
namespace {

constexpr std::string_view kSuffix = ".npy";
constexpr uint64_t kMostMembers = 65536;
/// Deflate writes at least two bits for 258 bytes.
constexpr uint64_t kBestDeflation = 1032;
/// What one compressed member may unpack to: a file of 4 MiB could otherwise ask for 4 GiB.
constexpr uint64_t kMostUnpacked = uint64_t{4} << 30;

zip_t* handle(void* archive) {
  return static_cast<zip_t*>(archive);
}

/// Reads a member's bytes in order.
class Member {
 public:
  /// `archive_bytes`: the archive's size, which no member's can exceed.
  Member(zip_t* archive, uint64_t archive_bytes, uint64_t entry, std::string name) : name_(std::move(name)) {
    zip_stat_t info;
    zip_stat_init(&info);
    if (zip_stat_index(archive, entry, 0, &info) != 0) fail(zip_error_strerror(zip_get_error(archive)));
    constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    if ((info.valid & kNeeded) != kNeeded) fail("the archive does not state its size");
    if ((info.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && info.encryption_method != ZIP_EM_NONE)
      fail("it is encrypted; save it without a password");
    size_ = info.size;
    if (info.comp_size > archive_bytes) fail("the archive is too short for it: truncated?");
    check_size(info);
    file_ = zip_fopen_index(archive, entry, 0);
    if (file_ == nullptr) fail(zip_error_strerror(zip_get_error(archive)));
  }
  ~Member() {
    if (file_ != nullptr) zip_fclose(file_);
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

  const std::string& name() const { return name_; }
  uint64_t size() const { return size_; }
  /// Exactly these many bytes.
  void read(std::span<std::byte> bytes) {
    while (!bytes.empty()) {
      const zip_int64_t got = zip_fread(file_, bytes.data(), bytes.size());
      if (got < 0) fail(zip_error_strerror(zip_file_get_error(file_)));
      if (got == 0) fail("it ends early");
      bytes = bytes.subspan(static_cast<size_t>(got));
    }
  }
  /// The end is where libzip compares the checksum.
  void expect_end() {
    std::byte more;
    const zip_int64_t got = zip_fread(file_, &more, 1);
    if (got < 0) fail(zip_error_strerror(zip_file_get_error(file_)));
    if (got > 0) fail("it is longer than the archive says");
  }

 private:
  void check_size(const zip_stat_t& info) const {
    if (info.comp_method == ZIP_CM_STORE) {
      if (info.size != info.comp_size) fail("its sizes in the archive contradict each other");
    } else if (info.comp_method == ZIP_CM_DEFLATE) {
      if (info.size / kBestDeflation > info.comp_size) fail("its sizes in the archive contradict each other");
      if (info.size > kMostUnpacked) {
        user_error(
            "{}: unpacks to {} bytes, more than the {} that gantry unpacks; save it with numpy.savez "
            "(without compression) or numpy.save",
            name_, info.size, kMostUnpacked);
      }
    } else {
      user_error(
          "{}: compression method {}, which NumPy does not write; save it with numpy.savez or "
          "numpy.savez_compressed",
          name_, info.comp_method);
    }
  }
  [[noreturn]] void fail(std::string_view reason) const {
    user_error("{}: cannot be read from the archive: {}", name_, reason);
  }

  std::string name_;
  zip_file_t* file_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace

NpzFile::NpzFile(std::filesystem::path path) : path_(std::move(path)) {
  if (!std::ifstream(path_, std::ios::binary)) cannot_read(path_, errno);
  int code = 0;
  archive_ = zip_open(path_.c_str(), ZIP_RDONLY, &code);
  if (archive_ == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    user_error("{}: cannot be read as a .npz archive: {}; save it again with numpy.savez", path_.string(),
               reason);
  }
  const auto count = static_cast<uint64_t>(zip_get_num_entries(handle(archive_), 0));
  if (count > kMostMembers) {
    zip_discard(handle(archive_));
    user_error("{}: has {} members; at most {} are read", path_.string(), count, kMostMembers);
  }
  for (uint64_t i = 0; i < count; ++i) {
    const char* text = zip_get_name(handle(archive_), i, ZIP_FL_ENC_RAW);
    const std::string_view name = text == nullptr ? std::string_view() : text;
    if (!name.ends_with(kSuffix)) continue;
    names_.emplace_back(name.substr(0, name.size() - kSuffix.size()));
    entries_.push_back(i);
  }
}

NpzFile::~NpzFile() {
  zip_discard(handle(archive_));
}

bool NpzFile::has(const std::string& member) const {
  return std::ranges::find(names_, member) != names_.end();
}

HostTensor NpzFile::read(const std::string& member, const Accept& accept) const {
  const std::string name = path_.string() + ":" + member;
  const auto found = std::ranges::find(names_, member);
  if (found == names_.end()) {
    const std::string hint = did_you_mean(member, names_);
    user_error("{}: has no array '{}'{} Its arrays: {}", path_.string(), member, hint.empty() ? "." : hint,
               names_.empty() ? "none" : fmt::format("{}", fmt::join(names_, ", ")));
  }
  std::error_code code;
  const uint64_t archive_bytes = std::filesystem::file_size(path_, code);
  if (code) user_error("{}: cannot be read: {}", path_.string(), code.message());
  const uint64_t entry = entries_[static_cast<size_t>(found - names_.begin())];
  Member file(handle(archive_), archive_bytes, entry, name);

  std::vector<std::byte> start(static_cast<size_t>(std::min<uint64_t>(file.size(), kNpyPrefix)));
  file.read(start);
  const size_t offset = npy_data_offset(start, name);
  if (offset > file.size() || offset < start.size()) user_error("{}: the .npy file is truncated", name);
  const size_t prefix = start.size();
  start.resize(offset);
  file.read(std::span(start).subspan(prefix));
  const NpyHeader header = parse_npy_header(start, name);
  check_npy_size(header, file.size() - offset, name);
  accept(header.type, header.shape);

  std::vector<std::byte> data(header.data_bytes);
  file.read(data);
  file.expect_end();
  return npy_tensor(header, std::move(data));
}

void expect_npz_support(const std::filesystem::path&) {}

void write_npz(const std::filesystem::path& path, const std::vector<NamedTensor>& tensors) {
  std::set<std::string> names;
  for (const NamedTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      user_error("{}: two arrays would be named '{}'; write them to files of their own", path.string(),
                 tensor.name);
  }
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* memory = zip_source_buffer_create(nullptr, 0, 0, &error);
  internal_check(memory != nullptr, "no zip archive in memory: {}", zip_error_strerror(&error));
  zip_source_keep(memory);  // outlives the archive that is written into it
  const std::unique_ptr<zip_source_t, void (*)(zip_source_t*)> keeper(memory, zip_source_free);
  zip_t* archive = zip_open_from_source(memory, ZIP_TRUNCATE, &error);
  internal_check(archive != nullptr, "no zip archive in memory: {}", zip_error_strerror(&error));

  std::vector<std::string> contents;  // read when the archive is closed
  contents.reserve(tensors.size());
  for (const NamedTensor& tensor : tensors) {
    contents.push_back(format_npy(*tensor.tensor));
    zip_source_t* source = zip_source_buffer(archive, contents.back().data(), contents.back().size(), 0);
    internal_check(source != nullptr, "no zip member: {}", zip_strerror(archive));
    const zip_int64_t index =
        zip_file_add(archive, (tensor.name + std::string(kSuffix)).c_str(), source, ZIP_FL_ENC_UTF_8);
    if (index < 0) {
      zip_source_free(source);
      const std::string reason = zip_strerror(archive);
      zip_discard(archive);
      user_error("{}: an array cannot be named '{}': {}", path.string(), tensor.name, reason);
    }
    zip_set_file_compression(archive, static_cast<zip_uint64_t>(index), ZIP_CM_STORE, 0);
  }
  internal_check(zip_close(archive) == 0, "the zip archive cannot be made: {}", zip_strerror(archive));

  zip_stat_t info;
  zip_stat_init(&info);
  internal_check(zip_source_stat(memory, &info) == 0 && zip_source_open(memory) == 0, "no zip archive");
  OutputFile file(path);
  std::array<char, 65536> piece;
  for (zip_int64_t got; (got = zip_source_read(memory, piece.data(), piece.size())) != 0;) {
    internal_check(got > 0, "the zip archive cannot be read");
    file.write(piece.data(), static_cast<size_t>(got));
  }
  zip_source_close(memory);
  file.commit();
}

}  // namespace gantry::cli
