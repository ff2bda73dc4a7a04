// Output files that appear whole or not at all.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>

#include "host/support/temporary.h"

namespace gantry {

/// What writing to a path would write to: symbolic links are followed, a dangling one to where it points.
struct OutputTarget {
  enum class Kind {
    kNew,   ///< nothing yet
    kFile,  ///< a regular file
    kFolder,
    kDevice,      ///< a device, a terminal, a pipe: written to directly
    kDescriptor,  ///< one that this process has open, by a name such as /dev/stdout
  };
  Kind kind = Kind::kNew;
  std::filesystem::path path;
  struct stat status {};  ///< but for kNew
  int descriptor = -1;    ///< of kDescriptor

  /// Written to directly: what is there is not replaced, and a second document follows the first.
  bool is_stream() const { return kind == Kind::kDevice || kind == Kind::kDescriptor; }
};
/// User errors: a loop of links, a folder that may not be looked into.
OutputTarget find_output_target(const std::filesystem::path& path);

/// Throws the user error that OutputFile would: the folder is missing, is read-only, may not be written to;
/// the path is a folder; the file may not be written to. Leaves nothing behind.
void check_can_write(const std::filesystem::path& path);

/// Writes a file beside its final name and renames it at commit(); destroyed before that, or ended by a
/// signal, nothing is left and what was there before is untouched. Links stay links. Devices, pipes and open
/// descriptors are written to directly, and stay what they are. Errors: user errors that name the path and
/// the system's reason (disk full, no such folder, …).
class OutputFile {
 public:
  /// Who may read it. A file that exists keeps its permission bits, but of a secret.
  enum class Privacy {
    kUsual,    ///< whom the umask lets
    kPrivate,  ///< a new one this user alone
    kSecret,   ///< this user alone, whatever it was before: mode 0600
  };
  explicit OutputFile(std::filesystem::path path, Privacy privacy = Privacy::kUsual);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(const void* bytes, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Bytes so far, whatever they are written to.
  uint64_t written() const { return written_; }

  /// What is written is in the file then, `durable` on the disk: none of it can fail at commit() for want of
  /// room.
  void flush(bool durable = true);
  /// Gives the file its name, `durable` after waiting until it is on the disk: what can be made again need
  /// not be, where readers notice if a power failure has cut it.
  void commit(bool durable = true);

 private:
  [[noreturn]] void fail(int error);
  void open_temporary(Privacy privacy);
  void open_directly();

  std::filesystem::path path_;
  OutputTarget target_;
  std::optional<TemporaryFile> temporary_;
  std::FILE* file_ = nullptr;
  uint64_t written_ = 0;
};

/// Writes `text` as a whole file.
void write_file(const std::filesystem::path& path, std::string_view text,
                OutputFile::Privacy privacy = OutputFile::Privacy::kUsual);

}  // namespace gantry
