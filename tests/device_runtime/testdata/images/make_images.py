#!/usr/bin/env python3
"""Makes the images of image_builtins_test.cpp anew: tests/device_runtime/testdata/images/make_images.py

Needs libturbojpeg0 and libwebp7. Pixels of the 4 x 2 images: PIXELS; the JPEGs are of one colour.
"""
import ctypes
import pathlib
import struct
import zlib

HERE = pathlib.Path(__file__).parent
PIXELS = bytes([10, 20, 30, 200, 100, 50, 255, 255, 255, 0, 0, 0,
                0, 0, 255, 0, 255, 0, 255, 0, 0, 128, 128, 128])


def jpeg(pixels, width, height, pixel_format, subsampling):
    library = ctypes.CDLL('libturbojpeg.so.0')
    library.tjInitCompress.restype = ctypes.c_void_p
    target, size = ctypes.c_void_p(None), ctypes.c_ulong(0)
    assert library.tjCompress2(ctypes.c_void_p(library.tjInitCompress()), pixels, width, 0, height, pixel_format,
                               ctypes.byref(target), ctypes.byref(size), subsampling, 95, 0) == 0
    return ctypes.string_at(target.value, size.value)


def webp(pixels, width, height):
    library = ctypes.CDLL('libwebp.so.7')
    library.WebPEncodeLosslessRGB.restype = ctypes.c_size_t
    target = ctypes.c_void_p(None)
    size = library.WebPEncodeLosslessRGB(pixels, width, height, 3 * width, ctypes.byref(target))
    return ctypes.string_at(target.value, size)


def png(width, height, depth, kind, rows, *extra):
    def chunk(name, data):
        return struct.pack('>I', len(data)) + name + data + struct.pack('>I', zlib.crc32(name + data))
    head = struct.pack('>IIBBBBB', width, height, depth, kind, 0, 0, 0)
    data = zlib.compress(b''.join(b'\0' + row for row in rows), 9)
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + b''.join(chunk(*e) for e in extra) + chunk(b'IDAT', data) + \
        chunk(b'IEND', b'')


def lzw(data):
    """As TIFF's writers pack: each string that is known gets a code, one bit more from one code early."""
    codes, table = [(256, 9)], {bytes([byte]): byte for byte in range(256)}
    following, width, known = 258, 9, b''
    for byte in data:
        longer = known + bytes([byte])
        if longer in table:
            known = longer
            continue
        codes.append((table[known], width))
        table[longer] = following
        following += 1
        width += following == 1 << width
        known = bytes([byte])
    codes.append((table[known], width))
    width += following + 1 == 1 << width
    codes.append((257, width))
    bits = ''.join(f'{code:0{width}b}' for code, width in codes)
    bits += '0' * (-len(bits) % 8)
    return bytes(int(bits[i:i + 8], 2) for i in range(0, len(bits), 8))


def tiff(width, height, compression, data, order='<', predictor=1):
    """RGB of 8 bits in one strip."""
    sizes, letters = {3: 2, 4: 4}, {3: 'H', 4: 'I'}
    fields = [(256, 3, [width]), (257, 3, [height]), (258, 3, [8, 8, 8]), (259, 3, [compression]), (262, 3, [2]),
              (273, 4, [0]), (277, 3, [3]), (278, 3, [height]), (279, 4, [len(data)]), (317, 3, [predictor])]
    behind = 8 + 2 + 12 * len(fields) + 4
    entries, extra = b'', b''
    for tag, kind, values in fields:
        if tag == 273:
            values = [behind + 6]  # the bits of three samples lie in front
        packed = struct.pack(f'{order}{len(values)}{letters[kind]}', *values)
        assert len(packed) == sizes[kind] * len(values)
        if len(packed) > 4:
            packed, extra = struct.pack(order + 'I', behind + len(extra)), extra + packed
        entries += struct.pack(order + 'HHI', tag, kind, len(values)) + packed.ljust(4, b'\0')
    assert len(extra) == 6
    magic = b'II*\0' if order == '<' else b'MM\0*'
    return magic + struct.pack(order + 'IH', 8, len(fields)) + entries + b'\0' * 4 + extra + data


def pattern(width, height):
    """With few colours and long enough that codes of 9 to 11 bits occur."""
    return bytes((x * y * (c + 1) // 7) % 5 * 60 for y in range(height) for x in range(width) for c in range(3))


def differences(pixels, row_bytes):
    return bytes((byte - (pixels[i - 3] if i % row_bytes >= 3 else 0)) % 256 for i, byte in enumerate(pixels))


def main():
    wide = pattern(48, 40)
    faint = b''.join(PIXELS[i:i + 3] + b'\x40' for i in range(0, 24, 3))
    images = {
        'colour.jpg': jpeg(bytes([200, 100, 50] * 64), 8, 8, 0, 0), 'gray.jpg': jpeg(bytes([77] * 64), 8, 8, 6, 3),
        'pixels.webp': webp(PIXELS, 4, 2), 'pixels.png': png(4, 2, 8, 2, [PIXELS[:12], PIXELS[12:]]),
        'alpha.png': png(4, 2, 8, 6, [faint[:16], faint[16:]]),
        'palette.png': png(4, 1, 2, 3, [bytes([0b00011011])], (b'PLTE', PIXELS[:12])),
        'text.png': png(4, 2, 8, 2, [PIXELS[:12], PIXELS[12:]],
                        (b'zTXt', b'a\0\0' + zlib.compress(b'a' * (16 << 20), 9))),  # of 16 MiB
        'gray16.png': png(2, 1, 16, 0, [bytes([1, 255, 128, 0])]), 'huge.png': png(60000, 60000, 8, 2, []),
        'lzw.tif': tiff(48, 40, 5, lzw(wide)), 'predicted.tif': tiff(48, 40, 5, lzw(differences(wide, 144)), predictor=2),
        'deflate.tif': tiff(48, 40, 8, zlib.compress(wide), '>')}
    for name, data in images.items():
        (HERE / name).write_bytes(data)


if __name__ == '__main__':
    main()
