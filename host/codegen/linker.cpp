#include "host/codegen/linker.h"

#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "host/support/error.h"

LLD_HAS_DRIVER(elf)

namespace gantry {
namespace {

namespace fs = std::filesystem;

/// A private folder for LLD's files, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::error_code code;
    fs::path parent = fs::temp_directory_path(code);
    if (code) parent = "/tmp";
    std::string name = (parent / "gantry-link-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      user_error("{}: no folder for temporary files can be made there; set TMPDIR to one that can be written",
                 parent.string());
    }
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void write_object(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) user_error("{}: cannot be written; is the disk full?", path.string());
}

std::vector<std::byte> read_image(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::error_code code;
  std::vector<std::byte> bytes(fs::file_size(path, code));
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  internal_check(!code && file, "linking: LLD's result cannot be read");
  return bytes;
}

}  // namespace

std::vector<std::byte> link_image(const std::vector<std::string>& objects, const Target& target) {
  TemporaryFolder folder;
  const bool arm = target.architecture == Architecture::kAArch64;
  std::vector<std::string> arguments = {
      "ld.lld", "-shared", "-m", arm ? "aarch64linux" : "elf_x86_64", "--threads=1", "--no-undefined",
      "--gc-sections", "--build-id=none", "--hash-style=sysv", "--strip-all", "-z", "noexecstack", "-z",
      "separate-code", "-z", "norelro", "-z", "now",
      // Arm boards may have pages of 64 KiB.
      "-z", arm ? "max-page-size=65536" : "max-page-size=4096", "-o", (folder.path() / "image.so").string()};
  for (size_t i = 0; i < objects.size(); ++i) {
    const fs::path path = folder.path() / (std::to_string(i) + ".o");
    write_object(path, objects[i]);
    arguments.push_back(path.string());
  }
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());

  std::string messages;
  llvm::raw_string_ostream stream(messages);
  static std::mutex one_at_a_time;  // LLD keeps its state in globals
  std::lock_guard lock(one_at_a_time);
  const lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  internal_check(result.retCode == 0, "linking the kernels for {} failed: {}", target.name, messages);
  return read_image(folder.path() / "image.so");
}

}  // namespace gantry
