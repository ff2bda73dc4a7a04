/* Reads images for a classifier: pictures, or NumPy arrays of floats. */
#ifndef GANTRY_EXAMPLES_IMAGE_H
#define GANTRY_EXAMPLES_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Fills `pixels` (3 * height * width floats, one plane a colour) from a JPEG, PNG, BMP, GIF or PPM file, as
 * torchvision prepares a picture for its classifiers: the shorter side becomes 256 / 224 of the larger of
 * `height` and `width` (antialiased bilinear filter), the centre is cut out, and colours are normalised with
 * ImageNet's mean and standard deviation. Transparency is ignored. Returns 0, or -1 after a message on
 * stderr.
 */
int read_picture(const char* path, float* pixels, int64_t height, int64_t width);

/**
 * Fills `values` from a .npy file that holds exactly `count` little-endian f32 values in C order; they are
 * taken as they are. Returns 0, or -1 after a message on stderr.
 */
int read_npy(const char* path, float* values, size_t count);

#ifdef __cplusplus
}
#endif
#endif
