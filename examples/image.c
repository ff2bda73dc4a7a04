#include "image.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(const char* path, const char* what) {
  fprintf(stderr, "classify: '%s': %s\n", path, what);
  return -1;
}

/* The next number of a PPM header; comments run from '#' to the end of a line. -1: none. */
static int next_number(FILE* file) {
  int c = fgetc(file);
  while (isspace(c) || c == '#') {
    if (c == '#') {
      while (c != '\n' && c != EOF) c = fgetc(file);
    }
    c = fgetc(file);
  }
  int value = 0, digits = 0;
  for (; isdigit(c) && digits < 7; c = fgetc(file), ++digits) value = 10 * value + (c - '0');
  return digits > 0 && isspace(c) ? value : -1;
}

/* 3 * width * height bytes, the three colours of a pixel together; null after a message. Free it. */
static unsigned char* load_ppm(const char* path, int* width, int* height) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) {
    complain(path, strerror(errno));
    return NULL;
  }
  unsigned char* bytes = NULL;
  const int p = fgetc(file), six = fgetc(file);
  if (p != 'P' || six != '6') {
    complain(path, "not a binary PPM image (P6)");
  } else {
    *width = next_number(file);
    *height = next_number(file);
    const int largest = next_number(file);
    if (*width < 1 || *height < 1 || *width > 65535 || *height > 65535) {
      complain(path, "the image's size is not 1 to 65535 pixels each way");
    } else if (largest != 255) {
      complain(path, "only 8-bit images (a maximum of 255) are read");
    } else {
      const size_t size = (size_t)*width * (size_t)*height * 3;
      bytes = malloc(size);
      if (bytes == NULL) {
        complain(path, "not enough memory for the image");
      } else if (fread(bytes, 1, size, file) != size) {
        complain(path, "the image is truncated");
        free(bytes);
        bytes = NULL;
      }
    }
  }
  fclose(file);
  return bytes;
}

/* Two neighbours of a position on the source axis, and the share of the second. */
struct Tap {
  int first, second;
  float share;
};
static struct Tap find_tap(int64_t target, int64_t target_size, int source_size) {
  /* Pixel centres of both images line up: (t + 0.5) / target_size == (s + 0.5) / source_size. */
  double position = ((double)target + 0.5) * source_size / (double)target_size - 0.5;
  if (position < 0) position = 0;
  if (position > source_size - 1) position = source_size - 1;
  struct Tap tap;
  tap.first = (int)position;
  tap.second = tap.first + 1 < source_size ? tap.first + 1 : tap.first;
  tap.share = (float)(position - tap.first);
  return tap;
}

int read_ppm(const char* path, float* pixels, int64_t height, int64_t width) {
  static const float kMean[3] = {0.485f, 0.456f, 0.406f};
  static const float kStddev[3] = {0.229f, 0.224f, 0.225f};
  int source_width = 0, source_height = 0;
  unsigned char* source = load_ppm(path, &source_width, &source_height);
  if (source == NULL) return -1;
  for (int64_t y = 0; y < height; ++y) {
    const struct Tap row = find_tap(y, height, source_height);
    const unsigned char* upper = source + (size_t)row.first * (size_t)source_width * 3;
    const unsigned char* lower = source + (size_t)row.second * (size_t)source_width * 3;
    for (int64_t x = 0; x < width; ++x) {
      const struct Tap column = find_tap(x, width, source_width);
      for (int colour = 0; colour < 3; ++colour) {
        const int left = 3 * column.first + colour, right = 3 * column.second + colour;
        const float top = (float)upper[left] + column.share * ((float)upper[right] - (float)upper[left]);
        const float bottom = (float)lower[left] + column.share * ((float)lower[right] - (float)lower[left]);
        const float value = (top + row.share * (bottom - top)) / 255.0f;
        pixels[(colour * height + y) * width + x] = (value - kMean[colour]) / kStddev[colour];
      }
    }
  }
  free(source);
  return 0;
}

/* Checks the header of a .npy file and leaves the file at its data. */
static int check_npy_header(const char* path, FILE* file) {
  unsigned char start[12];
  if (fread(start, 1, 10, file) != 10 || memcmp(start, "\x93NUMPY", 6) != 0)
    return complain(path, "not a .npy file");
  size_t length = (size_t)start[8] | (size_t)start[9] << 8;
  if (start[6] >= 2) {
    if (fread(start + 10, 1, 2, file) != 2) return complain(path, "the .npy file is truncated");
    length |= (size_t)start[10] << 16 | (size_t)start[11] << 24;
  }
  char header[4096];
  if (length >= sizeof header || fread(header, 1, length, file) != length) {
    return complain(path, "the .npy file's header is damaged");
  }
  header[length] = '\0';
  if (strstr(header, "'<f4'") == NULL) return complain(path, "the array must be of type float32");
  if (strstr(header, "'fortran_order': False") == NULL) return complain(path, "the array must be in C order");
  return 0;
}

int read_npy(const char* path, float* values, size_t count) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) return complain(path, strerror(errno));
  int result = check_npy_header(path, file);
  if (result == 0 && (fread(values, sizeof(float), count, file) != count || fgetc(file) != EOF)) {
    result = complain(path, "the array does not have as many values as the model's input");
  }
  fclose(file);
  return result;
}
