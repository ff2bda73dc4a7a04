#include <png.h>

#include <csetjmp>
#include <cstring>
#include <string>

#include "host/cli/image.h"
#include "host/support/error.h"

namespace gantry::cli {
namespace {

constexpr png_alloc_size_t kLargestChunk = png_alloc_size_t{64} << 20;

/// libpng reports errors by longjmp: everything between setjmp and the error lies in here, so that no
/// destructor is skipped.
struct Reader {
  std::span<const std::byte> rest;
  png_structp png = nullptr;
  png_infop info = nullptr;
  png_uint_32 width = 0, height = 0;
  int passes = 1;
  bool colour = false;
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
  if (size > reader->rest.size()) png_error(png, "the file is truncated");
  std::memcpy(target, reader->rest.data(), size);
  reader->rest = reader->rest.subspan(size);
}

/// Everything becomes 8 bits a channel, grey or RGB, without transparency.
void set_conversions(Reader& reader, int depth, int type) {
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(reader.png);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(reader.png);
  if (depth == 16) png_set_strip_16(reader.png);
  png_set_strip_alpha(reader.png);
  reader.passes = png_set_interlace_handling(reader.png);
  reader.colour = (type & PNG_COLOR_MASK_COLOR) != 0;
}

bool read_header(Reader& reader) {
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  png_set_user_limits(reader.png, kLongestSide, kLongestSide);
  png_set_chunk_malloc_max(reader.png, kLargestChunk);
  png_set_read_fn(reader.png, &reader, on_read);
  png_read_info(reader.png, reader.info);
  int depth = 0, type = 0;
  png_get_IHDR(reader.png, reader.info, &reader.width, &reader.height, &depth, &type, nullptr, nullptr,
               nullptr);
  set_conversions(reader, depth, type);
  png_read_update_info(reader.png, reader.info);
  return true;
}

bool read_rows(Reader& reader, Image& image) {
  internal_check(png_get_rowbytes(reader.png, reader.info) == image.row_bytes(), "rows of another size");
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  for (int pass = 0; pass < reader.passes; ++pass) {
    for (int y = 0; y < image.height; ++y) png_read_row(reader.png, image.row(y), nullptr);
  }
  png_read_end(reader.png, nullptr);
  return true;
}

}  // namespace

Image decode_png(std::span<const std::byte> bytes, const std::string& name) {
  Reader reader;
  reader.rest = bytes;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  if (reader.png != nullptr) reader.info = png_create_info_struct(reader.png);
  internal_check(reader.info != nullptr, "libpng cannot be started");
  if (!read_header(reader)) user_error("{}: cannot be decoded as PNG: {}", name, reader.message);
  Image image = new_image(reader.width, reader.height, reader.colour ? 3 : 1, name);
  if (!read_rows(reader, image)) user_error("{}: cannot be decoded as PNG: {}", name, reader.message);
  return image;
}

}  // namespace gantry::cli
