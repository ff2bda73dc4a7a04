// Runs a module some times on zeros, on one thread: small enough to be counted instruction by instruction
// under an emulator, where the difference of two numbers of runs is what a run executes.
//
//   run_module MODULE.gmod RUNS
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "benchmarks/zero_inputs.h"
#include "gantry/runtime.h"

namespace {

int fail() {
  fprintf(stderr, "run_module: %s\n", gantry_last_error());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: run_module MODULE.gmod RUNS\n");
    return 1;
  }
  GantryModule* module = nullptr;
  GantrySession* session = nullptr;
  GantrySessionOptions options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.threads = 1;
  if (gantry_module_load(argv[1], &module) != GANTRY_OK) return fail();
  if (gantry_session_create(module, &options, &session) != GANTRY_OK) return fail();
  if (gantry::benchmarks::set_zeros(module, session) != GANTRY_OK) return fail();
  for (int i = 0; i < atoi(argv[2]); ++i) {
    if (gantry_run(session) != GANTRY_OK) return fail();
  }
  gantry_session_release(session);
  gantry_module_release(module);
  return 0;
}
