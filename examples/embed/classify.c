/*
 * Classifies an image with a compiled network:
 *
 *   gantry zoo resnet18 -o resnet18.onnx && gantry compile resnet18.onnx -o resnet18.gmod
 *   classify resnet18.gmod photo.jpg
 *
 * Prints the five likeliest classes with their probabilities. The module must take one f32 image, (1, 3,
 * height, width), and give one f32 score a class.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gantry/runtime.h"
#include "image.h"

enum { kTop = 5 };
/* Height and width for a model that leaves them open. */
enum { kDefaultSize = 224 };

static int complain(const char* what) {
  fprintf(stderr, "classify: %s\n", what);
  return -1;
}
static int runtime_failed(void) {
  return complain(gantry_last_error());
}

static int is_f32(DLDataType type) {
  return type.code == kDLFloat && type.bits == 32 && type.lanes == 1;
}

/* The shape of the image that the module wants. */
static int find_input_shape(const GantryModule* module, int64_t shape[4]) {
  GantryTensorDescription info;
  info.struct_size = sizeof info;
  if (gantry_input_count(module) != 1) return complain("the module must have one input, the image");
  if (gantry_describe_input(module, 0, &info) != GANTRY_OK) return runtime_failed();
  if (!is_f32(info.dtype) || info.rank != 4)
    return complain("the module's input must be f32 (1, 3, height, width)");
  for (int axis = 0; axis < 4; ++axis) shape[axis] = info.shape[axis];
  if (shape[0] < 0) shape[0] = 1;
  if (shape[1] < 0) shape[1] = 3;
  if (shape[2] < 0) shape[2] = kDefaultSize;
  if (shape[3] < 0) shape[3] = kDefaultSize;
  if (shape[0] != 1 || shape[1] != 3 || shape[2] < 1 || shape[3] < 1 || shape[2] > 8192 || shape[3] > 8192) {
    return complain("the module's input must be one image of three colours");
  }
  return 0;
}

static int ends_with(const char* text, const char* end) {
  const size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static int set_image(GantrySession* session, const char* path, int64_t shape[4]) {
  const size_t count = (size_t)(shape[1] * shape[2] * shape[3]);
  float* pixels = malloc(count * sizeof(float));
  if (pixels == NULL) return complain("not enough memory for the image");
  int result = ends_with(path, ".npy") ? read_npy(path, pixels, count)
                                       : read_picture(path, pixels, shape[2], shape[3]);
  if (result == 0) {
    DLTensor tensor = {0};
    tensor.data = pixels;
    tensor.device.device_type = kDLCPU;
    tensor.ndim = 4;
    tensor.dtype.code = kDLFloat;
    tensor.dtype.bits = 32;
    tensor.dtype.lanes = 1;
    tensor.shape = shape;
    /* Copied (borrow is 0), so that the pixels may be freed. */
    if (gantry_set_input(session, 0, &tensor, 0) != GANTRY_OK) result = runtime_failed();
  }
  free(pixels);
  return result;
}

/* Softmax over the scores, shifted by the largest so that no exponential overflows; prints the best. */
static int print_top(const float* scores, int64_t count) {
  int64_t best[kTop];
  int found = 0;
  for (int64_t i = 0; i < count; ++i) {
    int at = found < kTop ? found++ : kTop;
    for (; at > 0 && scores[best[at - 1]] < scores[i]; --at) {
      if (at < kTop) best[at] = best[at - 1];
    }
    if (at < kTop) best[at] = i;
  }
  if (found == 0) return complain("the module gives no scores");
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += exp((double)scores[i] - (double)scores[best[0]]);
  for (int rank = 0; rank < found; ++rank) {
    const double probability = exp((double)scores[best[rank]] - (double)scores[best[0]]) / sum;
    printf("%d. class %4lld  %6.2f %%\n", rank + 1, (long long)best[rank], 100 * probability);
  }
  return 0;
}

static int print_output(GantrySession* session) {
  DLTensor output;
  if (gantry_get_output(session, 0, &output) != GANTRY_OK) return runtime_failed();
  if (!is_f32(output.dtype)) return complain("the module's output must be f32 scores");
  int64_t count = 1;
  for (int axis = 0; axis < output.ndim; ++axis) count *= output.shape[axis];
  return print_top(output.data, count);
}

static int classify(const GantryModule* module, GantrySession* session, const char* image_path) {
  int64_t shape[4];
  if (find_input_shape(module, shape) != 0 || set_image(session, image_path, shape) != 0) return -1;
  if (gantry_run(session) != GANTRY_OK) return runtime_failed();
  return print_output(session);
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: classify MODULE.gmod PICTURE.jpg|PICTURE.png|ARRAY.npy\n");
    return 1;
  }
  GantryModule* module = NULL;
  GantrySession* session = NULL;
  int result = -1;
  if (gantry_module_load(argv[1], &module) != GANTRY_OK ||
      gantry_session_create(module, NULL, &session) != GANTRY_OK) {
    runtime_failed();
  } else {
    result = classify(module, session, argv[2]);
  }
  gantry_session_release(session);
  gantry_module_release(module);
  return result == 0 ? 0 : 1;
}
