/* Kernels for tests: they show what they were given, and call what gantry provides. */
#include <gantry/custom_op.h>

void* memcpy(void* target, const void* source, size_t size);
void* memmove(void* target, const void* source, size_t size);
void* memset(void* target, int byte, size_t size);
int memcmp(const void* a, const void* b, size_t size);
float expf(float x);
double exp(double x);
float powf(float x, float y);
float tanhf(float x);
double floor(double x);
double erf(double x);

/* Its own of that name: those of other kernels' objects are others. */
int64_t helper(int64_t x) {
  return x + 1;
}
static int64_t calls;

/* Writes numbers that tell the call to its output, of i64. */
int32_t show(const GantryCustomCall* call) {
  int64_t* out = (int64_t*)call->outputs[0]->data;
  int64_t at = 0;
  out[at++] = call->struct_size == sizeof *call;
  out[at++] = call->version;
  out[at++] = call->input_count;
  for (uint32_t i = 0; i < call->input_count; ++i) {
    const GantryCustomTensor* tensor = call->inputs[i];
    out[at++] = tensor == NULL ? -1 : (int64_t)tensor->type;
    if (tensor == NULL) continue;
    out[at++] = tensor->struct_size == sizeof *tensor;
    out[at++] = tensor->rank;
    for (uint32_t d = 0; d < tensor->rank; ++d) out[at++] = tensor->shape[d];
    out[at++] = tensor->count;
    out[at++] = ((const unsigned char*)tensor->data)[0];
  }
  out[at++] = call->outputs[0]->count;
  out[at++] = call->attribute_count;
  for (uint32_t i = 0; i < call->attribute_count; ++i) {
    const GantryCustomAttribute* attribute = call->attributes[i];
    out[at++] = attribute->name[0];
    out[at++] = attribute->count;
    for (uint32_t v = 0; v < attribute->count; ++v) {
      if (attribute->integers != NULL) out[at++] = attribute->integers[v];
      if (attribute->numbers != NULL) out[at++] = (int64_t)(8 * attribute->numbers[v]);
      if (attribute->strings != NULL) out[at++] = attribute->strings[v][0];
    }
  }
  out[at++] = call->scratch_bytes;
  out[at++] = ((const unsigned char*)call->scratch)[0];
  out[at++] = gantry_custom_integer(call, "none", 5) + (gantry_custom_attribute(call, "beta2") == NULL);
  out[at++] = (int64_t)(8 * gantry_custom_number(call, "beta", 0));
  out[at++] = helper(++calls);
  out[at++] = (int64_t)(8 * gantry_custom_number(call, "pads", 0)); /* an integer */
  return 0;
}

/* Says whether memory functions do as C's do, for sizes around those that they take at once; 0 if they do. */
int32_t check_memory(const GantryCustomCall* call) {
  unsigned char a[256], b[256], expected[256];
  (void)call;
  for (size_t size = 0; size < 100; ++size) {
    for (size_t shift = 0; shift < 70; shift += 3) {
      for (size_t i = 0; i < sizeof a; ++i) a[i] = expected[i] = (unsigned char)(i * 7);
      if (memmove(a + shift, a + 30, size) != a + shift) return 1;
      unsigned char copy[256];
      for (size_t i = 0; i < size; ++i) copy[i] = expected[30 + i];
      for (size_t i = 0; i < size; ++i) expected[shift + i] = copy[i];
      for (size_t i = 0; i < sizeof a; ++i) {
        if (a[i] != expected[i]) return 2;
      }
    }
    if (memset(b, 0x1a5, size) != b || memcpy(a, b, size) != a) return 3;
    for (size_t i = 0; i < size; ++i) {
      if (a[i] != 0xa5) return 4;
    }
    if (size == 0) continue;
    if (memcmp(a, b, size) != 0) return 5;
    a[size - 1] = 0xff;
    if (memcmp(a, b, size) <= 0 || memcmp(b, a, size) >= 0) return 6;
  }
  return 0;
}

/* Six functions of one number each. */
int32_t math(const GantryCustomCall* call) {
  const float x = ((const float*)call->inputs[0]->data)[0];
  double* out = (double*)call->outputs[0]->data;
  out[0] = expf(x);
  out[1] = exp(x);
  out[2] = powf(x, 1.7f);
  out[3] = tanhf(x);
  out[4] = floor(x);
  out[5] = erf(x);
  return 0;
}

/* What it returns is the run's error. */
int32_t fail(const GantryCustomCall* call) {
  return (int32_t)gantry_custom_integer(call, "code", 1);
}
