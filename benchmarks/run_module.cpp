// Runs a module some times on zeros, on one thread: small enough to be counted instruction by instruction
// under an emulator, where the difference of two numbers of runs is what a run executes.
//
//   run_module MODULE.gmod RUNS
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <vector>

#include "gantry/runtime.h"

namespace {

int fail() {
  fprintf(stderr, "run_module: %s\n", gantry_last_error());
  return 1;
}

GantryStatus set_zeros(GantryModule* module, GantrySession* session, int index, std::vector<char>& bytes) {
  GantryTensorDescription info;
  info.struct_size = sizeof info;
  if (const GantryStatus status = gantry_describe_input(module, index, &info); status != GANTRY_OK)
    return status;
  size_t size = static_cast<size_t>(info.dtype.bits + 7) / 8;
  for (int i = 0; i < info.rank; ++i) {
    if (info.shape[i] < 0) info.shape[i] = 1;
    size *= static_cast<size_t>(info.shape[i]);
  }
  bytes.assign(size, 0);
  DLTensor tensor{};
  tensor.data = bytes.data();
  tensor.device = {kDLCPU, 0};
  tensor.ndim = info.rank;
  tensor.dtype = info.dtype;
  tensor.shape = info.shape;
  return gantry_set_input(session, index, &tensor, 0);
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
  std::vector<char> bytes;
  for (int i = 0; i < gantry_input_count(module); ++i) {
    if (set_zeros(module, session, i, bytes) != GANTRY_OK) return fail();
  }
  for (int i = 0; i < atoi(argv[2]); ++i) {
    if (gantry_run(session) != GANTRY_OK) return fail();
  }
  gantry_session_release(session);
  gantry_module_release(module);
  return 0;
}
