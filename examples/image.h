/* Reads images for a classifier: binary PPM, or NumPy arrays of floats. */
#ifndef GANTRY_EXAMPLES_IMAGE_H
#define GANTRY_EXAMPLES_IMAGE_H

#include <stddef.h>
#include <stdint.h>

/**
 * Fills `pixels` (3 * height * width floats, one plane a colour) from a PPM file (P6, 8 bits a sample):
 * resized bilinearly, then normalised with ImageNet's mean and standard deviation. Returns 0, or -1 after a
 * message on stderr.
 */
int read_ppm(const char* path, float* pixels, int64_t height, int64_t width);

/**
 * Fills `values` from a .npy file that holds exactly `count` little-endian f32 values in C order; they are
 * taken as they are. Returns 0, or -1 after a message on stderr.
 */
int read_npy(const char* path, float* values, size_t count);

#endif
