#include "host/cli/commands.h"

int main(int argc, char** argv) {
  return gantry::cli::run_program(argc, argv);
}
