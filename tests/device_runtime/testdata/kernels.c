/* Kernels of the test images; see regenerate.sh. Freestanding: they import nothing. */
#include "gantry/kernel_abi.h"

#define EXPORT __attribute__((visibility("default")))

/* buffers: f32 in[n], f32 out[n]; dims: n */
EXPORT int32_t add_one(const GantryKernelHost* host, void* const* buffers, const int64_t* dims) {
  const float* in = buffers[0];
  float* out = buffers[1];
  (void)host;
  for (int64_t i = 0; i < dims[0]; ++i) out[i] = in[i] + 1.0f;
  return 0;
}

/* buffers: f32 a[n], f32 b[n], f32 out[n]; dims: n */
EXPORT int32_t multiply(const GantryKernelHost* host, void* const* buffers, const int64_t* dims) {
  const float *a = buffers[0], *b = buffers[1];
  float* out = buffers[2];
  (void)host;
  for (int64_t i = 0; i < dims[0]; ++i) out[i] = a[i] * b[i];
  return 0;
}

struct Square {
  const float* in;
  float* out;
};
static int32_t square_range(void* closure, int64_t begin, int64_t end) {
  struct Square* square = closure;
  for (int64_t i = begin; i < end; ++i) square->out[i] = square->in[i] * square->in[i];
  return 0;
}
/* Parallel. buffers: f32 in[n], f32 out[n]; dims: n */
EXPORT int32_t parallel_square(const GantryKernelHost* host, void* const* buffers, const int64_t* dims) {
  struct Square square = {buffers[0], buffers[1]};
  return host->parallel_for(host->context, square_range, &square, dims[0]);
}

/* A table of addresses, so that the image has relocations. */
static const float kHalf = 0.5f, kTwo = 2.0f;
float exported_factor EXPORT = 3.0f;
const float* const kFactors[3] = {&kHalf, &kTwo, &exported_factor};
/* out = in times the factor that dims[1] names. buffers: f32 in[n], f32 out[n]; dims: n, index */
EXPORT int32_t scale(const GantryKernelHost* host, void* const* buffers, const int64_t* dims) {
  const float* const* volatile factors = kFactors;
  const float* in = buffers[0];
  float* out = buffers[1];
  (void)host;
  for (int64_t i = 0; i < dims[0]; ++i) out[i] = in[i] * *factors[dims[1]];
  return 0;
}

/* Returns 7. */
EXPORT int32_t fails(const GantryKernelHost* host, void* const* buffers, const int64_t* dims) {
  (void)host, (void)buffers, (void)dims;
  return 7;
}
/* Writes to address 0. */
EXPORT int32_t writes_null(const GantryKernelHost* host, void* const* buffers, const int64_t* dims) {
  (void)host, (void)buffers, (void)dims;
  *(volatile int*)0 = 1;
  return 0;
}
/* Never returns. */
EXPORT int32_t loops_forever(const GantryKernelHost* host, void* const* buffers, const int64_t* dims) {
  (void)host, (void)buffers, (void)dims;
  for (volatile int turn = 0;; turn = 1) {
  }
}
