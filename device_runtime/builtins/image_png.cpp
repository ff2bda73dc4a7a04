// PNG by libpng. It reports errors by longjmp: everything between setjmp and an error lies in here, and no
// function that it may leave so has anything to destroy.
#include <png.h>

#include <csetjmp>
#include <cstring>

#include "device_runtime/builtins/images.h"

namespace gantry::runtime {
namespace {

constexpr const char* kName = "PNG";
constexpr png_alloc_size_t kLargestChunk = png_alloc_size_t{64} << 20;

struct Reader {
  ImageBytes rest;
  png_structp png = nullptr;
  png_infop info = nullptr;
  png_uint_32 width = 0, height = 0;
  int passes = 1;
  char message[160] = {};

  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

void on_error(png_structp png, png_const_charp message) {
  auto* reader = static_cast<Reader*>(png_get_error_ptr(png));
  std::strncpy(reader->message, message, sizeof(reader->message) - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep target, size_t size) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (size > reader->rest.size()) png_error(png, "it is cut off");
  std::memcpy(target, reader->rest.data(), size);
  reader->rest = reader->rest.subspan(size);
}

/// False: no memory.
bool start(Reader& reader) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  return reader.info != nullptr;
}

bool read_header(Reader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_user_limits(reader.png, kLongestImageSide, kLongestImageSide);
  png_set_chunk_malloc_max(reader.png, kLargestChunk);
  // No texts and the like, of which a small file may hold gigabytes, packed: libpng says "none" by 1.
  png_set_chunk_cache_max(reader.png, 1);
  png_set_read_fn(reader.png, &reader, on_read);
  png_read_info(reader.png, reader.info);
  reader.width = png_get_image_width(reader.png, reader.info);
  reader.height = png_get_image_height(reader.png, reader.info);
  return true;
}

/// Everything becomes red, green and blue of 8 bits. Gray, as Pillow has it, keeps its values: nothing is
/// said of gamma.
bool set_conversions(Reader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  const int depth = png_get_bit_depth(reader.png, reader.info),
            type = png_get_color_type(reader.png, reader.info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(reader.png);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(reader.png);
  if (depth == 16) png_set_strip_16(reader.png);
  png_set_strip_alpha(reader.png);
  if ((type & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(reader.png);
  reader.passes = png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(Reader& reader, const RgbImage& image) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  for (int pass = 0; pass < reader.passes; ++pass) {
    for (uint32_t y = 0; y < image.size.height; ++y) png_read_row(reader.png, image.row(y), nullptr);
  }
  png_read_end(reader.png, nullptr);
  return true;
}

}  // namespace

Result<ImageSize> png_size(ImageBytes bytes) {
  Reader reader;
  reader.rest = bytes;
  if (!start(reader)) return failure(GANTRY_OUT_OF_MEMORY, "no memory for a decoder of PNG");
  if (!read_header(reader)) return bad_image(kName, reader.message);
  return image_size(kName, reader.width, reader.height);
}

Status decode_png(ImageBytes bytes, const RgbImage& image) {
  Reader reader;
  reader.rest = bytes;
  if (!start(reader)) return failure(GANTRY_OUT_OF_MEMORY, "no memory for a decoder of PNG");
  if (!read_header(reader)) return bad_image(kName, reader.message);
  if (ImageSize{reader.width, reader.height} != image.size)
    return bad_image(kName, "its bytes change meanwhile");
  if (!set_conversions(reader)) return bad_image(kName, reader.message);
  if (png_get_rowbytes(reader.png, reader.info) != size_t{3} * image.size.width)
    return bad_image(kName, "its rows are of another size");
  if (!read_rows(reader, image)) return bad_image(kName, reader.message);
  return Status();
}

}  // namespace gantry::runtime
