// A whole program as files, for comparing what compilers make: `gantry ir --all-to`.
//
// FOLDER/loops/DIGEST.txt and FOLDER/code/DIGEST.s (.ptx) hold a kernel's loop nest and assembly, named by
// the SHA-256 of their bytes, so that equal kernels of several programs are stored once. In both the kernel
// is called "kernel": a name says which of a program's kernels it is, not what it computes. FOLDER/made
// remembers which code belongs to which loop nest, target and build of the compiler, so that no kernel is
// compiled twice. No other cache is read or written.
#pragma once

#include <filesystem>
#include <string>

#include "host/driver/compile.h"

namespace gantry::cli {

/// Compiles for one target and adds the files that the folder lacks; it is made where it is not there.
/// Several processes may write to the same folder at once. Returns JSON that is the same for the same
/// program: target and precision, kernels with the digests of their files and their sizes in bytes, the plan
/// as `gantry inspect --json` has it, and size and digest of each constant. Errors: those of compile_graph; a
/// user error that names a file that cannot be written.
std::string write_program(const Graph& graph, const Target& target, const CompileOptions& options,
                          const std::filesystem::path& folder);

}  // namespace gantry::cli
