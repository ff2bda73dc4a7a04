// What must not outlive the process: temporary files and folders, and child processes. A signal that ends the
// process (SIGINT, SIGTERM, SIGHUP, SIGQUIT) removes them first.
//
// The signals are blocked in every thread and taken by one that waits for them, so that cleaning up is
// ordinary code. Whoever makes, renames or removes something temporary does so in a Section together with its
// registration; the cleaning holds the same lock until the process is dead. So there is no moment at which a
// file exists that nobody knows of, and nothing can be made behind the cleaning's back.
#pragma once

#include <spawn.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <mutex>

namespace gantry::cleanup {

/// Begins to wait for the signals; call it once, before any other thread exists. A signal that is ignored
/// already (by nohup, or a shell's background job) stays ignored. Also ignores SIGPIPE: writing to a pipe
/// that nobody reads is an error like any other.
void start();

/// Ends the process with that exit code, at once, after the same cleaning. For an error that cannot be
/// thrown.
[[noreturn]] void end_process(int code);

/// Whether that cleaning, or a signal's, has begun: what fails from then on fails by it, and is nothing to
/// tell of.
bool has_begun();

/// While it lives, no signal cleans up; if one is being cleaned up after, the constructor never returns.
/// Short: it holds up the process's end. One a thread at a time.
class Section {
 public:
  Section();
  Section(const Section&) = delete;
  Section& operator=(const Section&) = delete;

  /// Paths of files, and of folders that go with all they hold.
  void add(const std::filesystem::path& path);
  void remove(const std::filesystem::path& path);

 private:
  std::unique_lock<std::timed_mutex> lock_;
};

/// What is still done where a signal ends the process while the object lives, when files and children are
/// gone. It may not use a Section.
class LastAct {
 public:
  explicit LastAct(std::function<void()> act);
  LastAct(const LastAct&) = delete;
  LastAct& operator=(const LastAct&) = delete;
  ~LastAct();
  void operator()() const { act_(); }

 private:
  std::function<void()> act_;
};

/// A program that runs beside this one, which is killed if a signal ends this process or the object goes
/// first. Signals are to it as they were to this one.
class Child {
 public:
  enum class Group {
    kOwn,     ///< it leads a process group, all of which is killed
    kShared,  ///< it is in this process's, as who asks at the terminal has to be, and is killed alone
  };
  /// Arguments and environment end with a null pointer. Never throws: see error().
  Child(const std::filesystem::path& program, char* const* arguments,
        const posix_spawn_file_actions_t& actions, char* const* environment, Group group = Group::kOwn);
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child();

  /// Why it could not be started, an errno; else 0.
  int error() const { return error_; }
  /// Waits for its end; returns what waitpid says, 0 where there is no child or it has been waited for.
  int wait();
  /// Whether it ends within that time.
  bool ends_within(std::chrono::milliseconds patience) const;
  /// Kills it; wait() tells how it ended.
  void kill() const;

 private:
  pid_t pid_ = -1;
  Group group_;
  int error_ = 0;
};

}  // namespace gantry::cleanup
