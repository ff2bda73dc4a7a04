#!/usr/bin/env python3
"""Makes the files of this folder: small images in every kind that gantry decodes, and references.npz, what Pillow and
NumPy make of them. Needs Pillow 9.4 (later ones shrink columns before they stretch rows) and NumPy; the results are
committed, tests do not run this.

    python3 make_references.py
"""
import io
import os
import struct
import zlib

import numpy
from PIL import Image

FOLDER = os.path.dirname(os.path.abspath(__file__))
BILINEAR, BICUBIC, NEAREST = (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC, Image.Resampling.NEAREST)


def picture(width, height):
    """Slopes, rings and edges, so that every interpolation shows."""
    y, x = numpy.mgrid[0:height, 0:width].astype(numpy.float64)
    rings = 127 + 120 * numpy.sin(((x - width / 3) ** 2 + (y - height / 2) ** 2) / 60)
    red = rings
    green = 255 * x / width
    blue = numpy.where((x // 7 + y // 5) % 2 == 0, 250, 20) * (y / height)
    return numpy.stack([red, green, blue], axis=-1).round().astype(numpy.uint8)


def path(name):
    return os.path.join(FOLDER, name)


def png_16_bits(pixels):
    """16 bits a channel, which Pillow does not write: the low byte is noise that a decoder leaves out."""
    height, width, _ = pixels.shape
    low = (pixels.astype(numpy.uint16) * 7 + 13) & 255
    wide = (pixels.astype(numpy.uint16) << 8 | low).astype('>u2')
    rows = b''.join(b'\0' + wide[y].tobytes() for y in range(height))

    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))

    header = struct.pack('>IIBBBBB', width, height, 16, 2, 0, 0, 0)
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', header) + chunk(b'IDAT', zlib.compress(rows, 9)) +
            chunk(b'IEND', b''))


def make_images():
    pixels = picture(61, 43)
    image = Image.fromarray(pixels)
    image.save(path('picture.png'), optimize=True)
    image.save(path('picture.ppm'))
    image.convert('L').save(path('gray.png'), optimize=True)
    image.convert('L').save(path('gray.jpg'), quality=90)
    image.quantize(16).save(path('palette.png'), optimize=True)
    image.save(path('picture.jpg'), quality=90, subsampling='4:2:0')
    image.save(path('progressive.jpg'), quality=90, subsampling='4:4:4', progressive=True)
    image.convert('CMYK').save(path('cmyk.jpg'), quality=80)
    alpha = numpy.concatenate([pixels, 255 - pixels[..., :1]], axis=-1)
    Image.fromarray(alpha).save(path('alpha.png'), optimize=True)
    small = Image.fromarray(picture(9, 5))
    with open(path('deep.png'), 'wb') as file:
        file.write(png_16_bits(numpy.asarray(small)))
    small.save(path('small.png'))


def rgb(name):
    return Image.open(path(name)).convert('RGB')


def nchw(image, mean, std):
    """torchvision's ToTensor and Normalize."""
    values = numpy.asarray(image, dtype=numpy.float32) / numpy.float32(255)
    values = (values - numpy.float32(mean)) / numpy.float32(std)
    return numpy.ascontiguousarray(values.transpose(2, 0, 1)[None])


def shorter_side_and_crop(image, side, size):
    """torchvision's Resize(side) and CenterCrop(size) of PIL images."""
    width, height = image.size
    if width <= height:
        width, height = side, int(side * height / width)
    else:
        width, height = int(side * width / height), side
    image = image.resize((width, height), BILINEAR)
    top, left = int(round((height - size) / 2.0)), int(round((width - size) / 2.0))
    return image.crop((left, top, left + size, top + size))


def letterbox(image, width, height, value):
    ratio = min(height / image.height, width / image.width)
    inner = image.resize((round(image.width * ratio), round(image.height * ratio)), NEAREST)
    frame = Image.new('RGB', (width, height), (value,) * 3)
    frame.paste(inner, ((width - inner.width) // 2, (height - inner.height) // 2))
    return frame


def make_references():
    arrays = {}
    for name in ('picture.png', 'picture.ppm', 'palette.png', 'alpha.png', 'picture.jpg', 'progressive.jpg'):
        arrays['decoded ' + name] = numpy.asarray(rgb(name))
    arrays['decoded gray.png'] = numpy.asarray(Image.open(path('gray.png')))
    arrays['decoded gray.jpg'] = numpy.asarray(Image.open(path('gray.jpg')))
    arrays['decoded deep.png'] = numpy.asarray(rgb('small.png'))
    image = rgb('picture.png')
    arrays['luma'] = numpy.asarray(image.convert('L'))
    for name, filter_ in (('bilinear', BILINEAR), ('bicubic', BICUBIC), ('nearest', NEAREST)):
        for width, height in ((24, 17), (97, 11), (61, 90), (1, 1)):
            arrays[f'{name} {width}x{height}'] = numpy.asarray(image.resize((width, height), filter_))
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    arrays['imagenet 32'] = nchw(shorter_side_and_crop(image, 37, 32), mean, std)
    turned = image.transpose(Image.Transpose.ROTATE_90)
    turned.save(path('tall.png'), optimize=True)
    arrays['imagenet 32 tall'] = nchw(shorter_side_and_crop(turned, 37, 32), mean, std)
    arrays['letterbox 40x20'] = numpy.asarray(letterbox(image, 40, 20, 114))
    numpy.savez_compressed(path('references.npz'), **arrays)
    numpy.savez(path('stored.npz'), image=numpy.arange(6, dtype=numpy.float32).reshape(2, 3),
                ids=numpy.asfortranarray(numpy.arange(6, dtype=numpy.int64).reshape(2, 3)))
    numpy.savez_compressed(path('positional.npz'), numpy.arange(4, dtype=numpy.float32),
                           numpy.array(7, dtype=numpy.int64))


make_images()
make_references()
