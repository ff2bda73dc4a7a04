// What setup, update and uninstall have in common: steps that are told with their time, files that are sent,
// and a board that is as before where something fails.
#pragma once

#include <functional>
#include <string>

#include "host/cli/boards/board_shell.h"
#include "host/cli/boards/device_programs.h"
#include "host/cli/invocation.h"
#include "host/cli/machine.h"
#include "host/support/stopwatch.h"

namespace gantry::cli {

/// Tells each step on stdout when it is done, with the seconds that it took.
class Steps {
 public:
  explicit Steps(const Invocation& invocation) : invocation_(invocation) {}
  void done(const std::string& what);
  /// Shows what is going on, on a terminal.
  void doing(const std::string& what, double share = -1) { progress_.update(what, share); }
  double all_seconds() const { return whole_.seconds(); }

 private:
  const Invocation& invocation_;
  Progress progress_{invocation_.verbosity()};
  Stopwatch whole_, step_;
};

/// A file for the board, as the scripts' headers describe it: "BYTES SHA256".
std::string header_entry(std::string_view contents);

/// Starts one of the scripts and gives it its header, lines "NAME VALUE".
void begin_script(BoardShell& shell, const std::string& script, const std::string& verb, bool sudo,
                  const std::string& header);

/// Sends the file that the script asks for by that name.
void send_file(BoardShell& shell, const std::string& name, std::string_view contents,
               const std::function<void(size_t)>& progress = {});
/// Sends the program, which then has to run there; returns what it says of its version.
std::string send_program(BoardShell& shell, const DeviceProgram& program, Steps& steps);

/// Connects to the new server, compiles for it and times a network there, for which the script waits. rpc and
/// other errors as they come.
void check_board(BoardShell& shell, const std::string& label, const std::string& address,
                 const rpc::PskKey& key, Steps& steps, const Invocation& invocation);

/// Does the work. Where it throws, the script undoes what it did, and the error says how that went.
void undo_where_it_fails(BoardShell& shell, const std::string& label, const std::function<void()>& work);

/// The contents of a program's file. User error where it cannot be read.
std::string read_program(const DeviceProgram& program);

}  // namespace gantry::cli
