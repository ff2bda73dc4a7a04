#include "host/cli/commands.h"
#include "host/support/cleanup.h"

int main(int argc, char** argv) {
  gantry::cleanup::start();
  return gantry::cli::run_program(argc, argv);
}
