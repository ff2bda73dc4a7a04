#include "host/codegen/linker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <lld/Common/Driver.h>
#include <llvm/Object/ArchiveWriter.h>
#include <llvm/Support/raw_ostream.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "host/codegen/cpu_codegen.h"
#include "host/support/error.h"

LLD_HAS_DRIVER(elf)

namespace gantry {
namespace {

/// Owns a descriptor, which has a path in /proc: LLD reads and writes files by name, and these leave nothing
/// behind, however the process ends.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() { close(); }
  int number() const { return number_; }
  std::string path() const { return "/proc/self/fd/" + std::to_string(number_); }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

[[noreturn]] void fail_to_link(const char* what) {
  user_error("linking: {}: {}; close other programs, or raise the limits of memory and open files (ulimit)",
             what, std::strerror(errno));
}

/// The bytes as a file in memory.
Descriptor memory_file(const char* name, std::string_view bytes) {
  Descriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (file.number() < 0) fail_to_link("no memory for the objects");
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t count = ::write(file.number(), bytes.data() + done, bytes.size() - done);
    if (count < 0) fail_to_link("no memory for the objects");
    done += static_cast<size_t>(count);
  }
  return file;
}

/// The objects as one archive, in memory.
Descriptor make_archive(const std::vector<std::string>& objects) {
  std::vector<std::string> names;
  for (size_t i = 0; i < objects.size(); ++i) names.push_back(std::to_string(i) + ".o");
  std::vector<llvm::NewArchiveMember> members;
  for (size_t i = 0; i < objects.size(); ++i)
    members.emplace_back(llvm::MemoryBufferRef(objects[i], names[i]));
  auto archive = llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NoSymtab,
                                            llvm::object::Archive::K_GNU, /*Deterministic=*/true,
                                            /*Thin=*/false);
  internal_check(static_cast<bool>(archive), "linking: the objects make no archive");
  return memory_file("gantry-objects", {(*archive)->getBufferStart(), (*archive)->getBufferSize()});
}

/// Takes what is written to a pipe, on a thread of its own: the writer never waits for long.
class PipeReader {
 public:
  PipeReader() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail_to_link("no pipe for the image");
    from_ = ends[0];
    to_.emplace(ends[1]);
    thread_ = std::thread([this] { read(); });
  }
  ~PipeReader() {
    if (thread_.joinable()) finish();
    ::close(from_);
  }
  PipeReader(const PipeReader&) = delete;
  PipeReader& operator=(const PipeReader&) = delete;
  std::string path() const { return to_->path(); }
  /// All bytes, once the writers have closed it.
  std::vector<std::byte> finish() {
    to_.reset();
    thread_.join();
    return std::move(bytes_);
  }

 private:
  void read() {
    constexpr size_t kStep = size_t{1} << 20;
    size_t done = 0;
    for (;;) {
      if (bytes_.size() - done < kStep) bytes_.resize(bytes_.size() * 2 + kStep);
      const ssize_t count = ::read(from_, bytes_.data() + done, bytes_.size() - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) break;
      done += static_cast<size_t>(count);
    }
    bytes_.resize(done);
  }

  int from_ = -1;
  std::optional<Descriptor> to_;
  std::vector<std::byte> bytes_;
  std::thread thread_;
};

/// Runs LLD; false where it fails, with what it says in `messages`.
bool run_lld(const std::vector<std::string>& arguments, std::string& messages) {
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  llvm::raw_string_ostream stream(messages);
  static std::mutex one_at_a_time;  // LLD keeps its state in globals
  std::lock_guard lock(one_at_a_time);
  const lld::Result result = lld::lldMain(pointers, stream, stream, {{lld::Gnu, &lld::elf::link}});
  stream.flush();
  return result.retCode == 0;
}

}  // namespace

std::vector<std::byte> link_image(const std::vector<std::string>& objects, const Target& target) {
  return link_image(objects, target, "");
}

std::vector<std::byte> link_image(const std::vector<std::string>& objects, const Target& target,
                                  const std::string& foreign) {
  const Descriptor archive = make_archive(objects);
  PipeReader image;
  const CpuCodegen& codegen = cpu_codegen_of(target);
  const std::vector<std::string> arguments = {
      "ld.lld", "-shared", "-m", std::string(codegen.linker_emulation), "--threads=1", "--no-undefined",
      "--gc-sections", "--build-id=none", "--hash-style=sysv", "--strip-all", "-z", "noexecstack", "-z",
      "separate-code", "-z", "norelro", "-z", "now",
      // Some boards of a family may have larger pages than others.
      "-z", fmt::format("max-page-size={}", codegen.family->max_page_bytes), "-o", image.path(),
      "--whole-archive", archive.path()};
  std::string messages;
  if (!run_lld(arguments, messages)) {
    if (!foreign.empty()) {
      user_error(
          "linking the custom ops {} for {} failed (they are compiled with -fPIC -fno-stack-protector): {}",
          foreign, target.name, messages);
    }
    internal_error("linking the kernels for {} failed: {}", target.name, messages);
  }
  std::vector<std::byte> bytes = image.finish();
  internal_check(!bytes.empty(), "linking the kernels for {} failed: LLD wrote nothing", target.name);
  return bytes;
}

std::string link_relocatable(const std::vector<std::string>& files, const std::string& function,
                             const Target& target, std::string& messages) {
  std::vector<Descriptor> inputs;
  PipeReader object;
  std::vector<std::string> arguments = {
      "ld.lld", "-r", "-m",         std::string(cpu_codegen_of(target).linker_emulation), "--threads=1", "-u",
      function, "-o", object.path()};
  for (const std::string& file : files) {
    inputs.push_back(memory_file("gantry-custom-op", file));
    arguments.push_back(inputs.back().path());
  }
  if (!run_lld(arguments, messages)) return "";
  const std::vector<std::byte> bytes = object.finish();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace gantry
