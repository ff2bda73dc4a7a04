/* Times calls of a module with one f32 input through gantry/runtime.h: c_calls MODULE CALLS. Microseconds a call, the
 * fastest of 20 rounds; the input is borrowed, the output taken, as Python's binding does. One thread. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gantry/runtime.h"

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void check(GantryStatus status) {
  if (status == GANTRY_OK) return;
  fprintf(stderr, "c_calls: %s\n", gantry_last_error());
  exit(1);
}

int main(int argc, char** argv) {
  if (argc != 3) return 1;
  GantryModule* module = NULL;
  GantrySession* session = NULL;
  GantrySessionOptions options = {.struct_size = sizeof options, .threads = 1};
  GantryTensorDescription description = {.struct_size = sizeof description};
  check(gantry_module_load(argv[1], &module));
  check(gantry_session_create(module, &options, &session));
  check(gantry_describe_input(module, 0, &description));
  size_t count = 1;
  for (int axis = 0; axis < description.rank; ++axis) count *= (size_t)description.shape[axis];
  float* values = aligned_alloc(64, (count * sizeof(float) + 63) / 64 * 64);
  for (size_t i = 0; i < count; ++i) values[i] = 1;
  const DLTensor input = {values, {kDLCPU, 0}, description.rank, description.dtype, description.shape, NULL, 0};
  const int calls = atoi(argv[2]);
  double best = 1e30;
  for (int round = 0; round < 20; ++round) {
    const double begin = now();
    for (int i = 0; i < calls; ++i) {
      DLManagedTensor* taken = NULL;
      check(gantry_set_input(session, 0, &input, 1));
      check(gantry_run(session));
      check(gantry_take_output(session, 0, &taken));
      taken->deleter(taken);
    }
    const double each = (now() - begin) / calls;
    if (each < best) best = each;
  }
  printf("%.3f\n", best);
  free(values);
  gantry_session_release(session);
  gantry_module_release(module);
  return 0;
}
