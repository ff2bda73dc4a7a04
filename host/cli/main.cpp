#include <malloc.h>

#include "host/cli/commands.h"
#include "host/support/cleanup.h"
#include "host/support/shortened_file.h"

int main(int argc, char** argv) {
  gantry::cleanup::start();
  gantry::report_shortened_files();
  // Freed weights go back to the system, whatever was freed before: the threshold that the C library moves by itself
  // would keep them for later.
  constexpr int kLargeBlock = 1 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  return gantry::cli::run_program(argc, argv);
}
