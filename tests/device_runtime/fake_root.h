// A folder that stands for "/" of another machine: the files of /sys, /proc and /dev that a test writes.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>

namespace gantry::runtime::testing {

class FakeRoot {
 public:
  FakeRoot() {
    std::string name = (std::filesystem::temp_directory_path() / "gantry-root-XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;

  std::string path() const { return path_.string(); }
  /// `file` starts with a slash. A file that exists is overwritten in place, as /sys does: who holds it open
  /// reads the new text.
  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path full = path_.string() + file;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full, std::ios::binary | std::ios::trunc) << text;
  }
  /// Several files of one folder.
  void write_all(const std::string& folder,
                 std::initializer_list<std::pair<const char*, const char*>> files) {
    for (const auto& [name, text] : files) write(folder + "/" + name, std::string(text) + "\n");
  }
  void link(const std::string& from, const std::string& to) {
    const std::filesystem::path full = path_.string() + from;
    std::filesystem::create_directories(full.parent_path());
    std::filesystem::create_directory_symlink(to, full);
  }
  void make_folder(const std::string& folder) {
    std::filesystem::create_directories(path_.string() + folder);
  }
  void remove(const std::string& file) { std::filesystem::remove_all(path_.string() + file); }

 private:
  std::filesystem::path path_;
};

inline const std::string kCpus = "/sys/devices/system/cpu/cpu";

}  // namespace gantry::runtime::testing
