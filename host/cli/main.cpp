#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include "host/cli/commands.h"
#include "host/support/cleanup.h"
#include "host/support/shortened_file.h"

namespace {

/// Whoever started the program may have closed them; the first file that it opens would take messages then.
void fill_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // To be read only, so that results for a closed output are still an error.
    if (::fcntl(stream, F_GETFD) < 0) ::open("/dev/null", O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  gantry::cleanup::start();
  gantry::report_shortened_files();
  // Freed weights go back to the system, whatever was freed before: the threshold that the C library moves by itself
  // would keep them for later.
  constexpr int kLargeBlock = 1 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kLargeBlock);
  return gantry::cli::run_program(argc, argv);
}
