/*
 * A second-order recursive filter along the last dimension, of which ONNX has no op:
 *
 *   y[t] = gain (b0 x[t] + b1 x[t-1] + b2 x[t-2]) - a1 y[t-1] - a2 y[t-2]
 *
 * with the coefficients b0 b1 b2 a1 a2, in the transposed direct form II. What stands in front of the last dimension are
 * channels, which threads share among themselves.
 */
#include <gantry/custom_op.h>

typedef struct Work {
  const float *x, *b, *state;
  float* y;
  int64_t length;
  float gain;
} Work;

static int32_t filter_channels(void* closure, int64_t begin, int64_t end) {
  const Work* work = (const Work*)closure;
  const float b0 = work->b[0] * work->gain, b1 = work->b[1] * work->gain, b2 = work->b[2] * work->gain;
  const float a1 = work->b[3], a2 = work->b[4];
  for (int64_t channel = begin; channel < end; ++channel) {
    const float* x = work->x + channel * work->length;
    float* y = work->y + channel * work->length;
    float s1 = work->state == NULL ? 0 : work->state[2 * channel];
    float s2 = work->state == NULL ? 0 : work->state[2 * channel + 1];
    for (int64_t t = 0; t < work->length; ++t) {
      const float input = x[t], output = b0 * input + s1;
      s1 = b1 * input - a1 * output + s2;
      s2 = b2 * input - a2 * output;
      y[t] = output;
    }
  }
  return 0;
}

int32_t biquad(const GantryCustomCall* call) {
  const GantryCustomTensor* x = call->inputs[0];
  Work work;
  work.x = (const float*)x->data;
  work.b = (const float*)call->inputs[1]->data;
  work.state = call->inputs[2] == NULL ? NULL : (const float*)call->inputs[2]->data;
  work.y = (float*)call->outputs[0]->data;
  work.length = x->shape[x->rank - 1];
  work.gain = (float)gantry_custom_number(call, "gain", 1.0);
  if (work.length == 0) return 0;
  return call->host->parallel_for(call->host->context, filter_channels, &work, x->count / work.length);
}
