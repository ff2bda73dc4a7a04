#include "image.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sean Barrett's decoders (Debian's libstb-dev): one header, so that nothing is to be linked on the board. */
#define STB_IMAGE_IMPLEMENTATION
#define STBI_MAX_DIMENSIONS 65535
#include <stb/stb_image.h>

static int complain(const char* path, const char* what) {
  fprintf(stderr, "classify: '%s': %s\n", path, what);
  return -1;
}

/* Rows from top to bottom, the three colours of a pixel together. */
struct Picture {
  int width, height;
  unsigned char* bytes;
};

static int is_too_large(int width, int height) {
  return (int64_t)width * height > (int64_t)1 << 27;
}

static unsigned char* read_file(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  unsigned char* bytes = NULL;
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    complain(path, strerror(errno));
  } else {
    const long end = ftell(file);
    rewind(file);
    *size = end > 0 && end < 1L << 30 ? (size_t)end : 0;
    bytes = malloc(*size + 1);
    if (*size == 0 || bytes == NULL || fread(bytes, 1, *size, file) != *size) {
      complain(path, "cannot be read, is empty or has more than 1 GiB");
      free(bytes);
      bytes = NULL;
    }
  }
  if (file != NULL) fclose(file);
  return bytes;
}

/* Whether an end-of-image marker follows the compressed data; a thumbnail's, in a segment before, is none. */
static int jpeg_has_end(const unsigned char* bytes, size_t size) {
  size_t at = 2;
  while (at + 4 <= size && bytes[at] == 0xff && bytes[at + 1] != 0xda) {
    at += 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3]);
  }
  for (; at + 1 < size; ++at) {
    if (bytes[at] == 0xff && bytes[at + 1] == 0xd9) return 1;
  }
  return 0;
}

/* The decoder fills what is missing of JPEG and PPM files with grey. */
static int is_truncated(const unsigned char* bytes, size_t size, const struct Picture* picture,
                        int channels) {
  if (size > 4 && bytes[0] == 0xff && bytes[1] == 0xd8) return !jpeg_has_end(bytes, size);
  if (size > 4 && bytes[0] == 'P') {
    return size < (size_t)picture->width * (size_t)picture->height * (size_t)channels;
  }
  return 0;
}

static int decode(const char* path, struct Picture* picture) {
  size_t size = 0;
  unsigned char* bytes = read_file(path, &size);
  if (bytes == NULL) return -1;
  int channels = 0, result = -1;
  if (!stbi_info_from_memory(bytes, (int)size, &picture->width, &picture->height, &channels)) {
    complain(path, "not a JPEG, PNG, BMP, GIF or PPM picture that can be read");
  } else if (is_too_large(picture->width, picture->height)) {
    complain(path, "the picture has more than 134 million pixels");
  } else if (is_truncated(bytes, size, picture, channels)) {
    complain(path, "the picture is truncated");
  } else {
    picture->bytes = stbi_load_from_memory(bytes, (int)size, &picture->width, &picture->height, &channels, 3);
    result = picture->bytes != NULL ? 0 : complain(path, stbi_failure_reason());
  }
  free(bytes);
  return result;
}

static unsigned char to_byte(double value) {
  return (unsigned char)(value <= 0 ? 0 : value >= 255 ? 255 : floor(value + 0.5));
}

/*
 * Makes each of `count` lines `to` pixels long. Pixel i of a line is at line * line_step + i * step bytes;
 * the result's lines and pixels have steps of their own. A triangle around each new pixel's centre weighs the
 * old ones, widened by the ratio of the sizes where the line becomes shorter: Pillow's and torchvision's
 * antialiased bilinear filter.
 */
struct Steps {
  size_t line, pixel;
};
static void resize_lines(const unsigned char* source, int from, struct Steps source_steps,
                         unsigned char* target, int to, struct Steps target_steps, int count) {
  const double scale = (double)from / to, reach = scale > 1 ? scale : 1;
  for (int i = 0; i < to; ++i) {
    const double centre = (i + 0.5) * scale;
    int first = (int)(centre - reach + 0.5), last = (int)(centre + reach + 0.5);
    if (centre - reach + 0.5 < 0) first = 0;
    if (last > from) last = from;
    for (int line = 0; line < count; ++line) {
      double sum[3] = {0, 0, 0}, weights = 0;
      for (int at = first; at < last; ++at) {
        const double weight = 1 - fabs((at + 0.5 - centre) / reach);
        if (weight <= 0) continue;
        const unsigned char* pixel =
            source + (size_t)line * source_steps.line + (size_t)at * source_steps.pixel;
        for (int c = 0; c < 3; ++c) sum[c] += weight * pixel[c];
        weights += weight;
      }
      unsigned char* pixel = target + (size_t)line * target_steps.line + (size_t)i * target_steps.pixel;
      for (int c = 0; c < 3; ++c) pixel[c] = to_byte(sum[c] / weights);
    }
  }
}

/* Rows first, each pass rounded to bytes. Takes the old bytes. */
static int resize(const char* path, struct Picture* picture, int width, int height) {
  unsigned char* rows = malloc((size_t)width * (size_t)picture->height * 3);
  unsigned char* all = malloc((size_t)width * (size_t)height * 3);
  int result = -1;
  if (rows == NULL || all == NULL) {
    complain(path, "not enough memory to resize the picture");
    free(all);
  } else {
    const size_t old_row = (size_t)picture->width * 3, row = (size_t)width * 3;
    resize_lines(picture->bytes, picture->width, (struct Steps){old_row, 3}, rows, width,
                 (struct Steps){row, 3}, picture->height);
    resize_lines(rows, picture->height, (struct Steps){3, row}, all, height, (struct Steps){3, row}, width);
    stbi_image_free(picture->bytes);
    *picture = (struct Picture){width, height, all};
    result = 0;
  }
  free(rows);
  return result;
}

/* The size at which the centre of height x width is cut out: the shorter side 256 pixels where that is 224.
 */
static int resize_to_crop(const char* path, struct Picture* picture, int height, int width) {
  const int wanted = height > width ? height : width;
  const int shorter = (int)((int64_t)wanted * 256 / 224);
  const int is_wide = picture->width > picture->height;
  const int old_shorter = is_wide ? picture->height : picture->width;
  const int old_longer = is_wide ? picture->width : picture->height;
  const int64_t longer = (int64_t)shorter * old_longer / old_shorter;
  if (longer > 65535 || is_too_large((int)longer, shorter))
    return complain(path, "the picture is too long and narrow");
  return resize(path, picture, is_wide ? (int)longer : shorter, is_wide ? shorter : (int)longer);
}

int read_picture(const char* path, float* pixels, int64_t height, int64_t width) {
  static const float kMean[3] = {0.485f, 0.456f, 0.406f};
  static const float kStddev[3] = {0.229f, 0.224f, 0.225f};
  struct Picture picture = {0, 0, NULL};
  if (decode(path, &picture) != 0) return -1;
  const int result = resize_to_crop(path, &picture, (int)height, (int)width);
  if (result == 0) {
    /* torchvision rounds half a pixel to the even neighbour. */
    const int64_t top = (int64_t)nearbyint((picture.height - height) / 2.0);
    const int64_t left = (int64_t)nearbyint((picture.width - width) / 2.0);
    for (int64_t y = 0; y < height; ++y) {
      const unsigned char* row = picture.bytes + ((top + y) * picture.width + left) * 3;
      for (int64_t x = 0; x < width; ++x) {
        for (int c = 0; c < 3; ++c) {
          pixels[(c * height + y) * width + x] = ((float)row[3 * x + c] / 255.0f - kMean[c]) / kStddev[c];
        }
      }
    }
  }
  stbi_image_free(picture.bytes);
  return result;
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
