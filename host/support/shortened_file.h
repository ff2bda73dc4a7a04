// Files that others make shorter while they are mapped: reading what is gone is a SIGBUS.
#pragma once

namespace gantry {

/// From now on a read of mapped bytes that their file no longer has ends the process with an error that names
/// the file, exit code 1, after cleanup (host/support/cleanup.h). Any other SIGBUS kills as before. For
/// programs of ours alone: a library has no business with the signals of its process.
void report_shortened_files();

}  // namespace gantry
