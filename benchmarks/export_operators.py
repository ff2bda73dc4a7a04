#!/usr/bin/env python3
"""Exports models of one operator each to ONNX, for benchmarks/performance.py: what is not a matrix product should run
at the speed of memory, and convolutions of unusual shapes at that of the usual ones.

Usage (PyTorch 1.13 or later; Debian: python3-torch):
  benchmarks/export_operators.py FOLDER [NAME...]

For each of the operators below FOLDER gets NAME.onnx (opset 16), NAME.in.npy and NAME.out.npy, PyTorch's output.
"""
import torch
from torch import nn
from torch.nn import functional

import exporting

PLANES = (1, 64, 256, 256)
IMAGE = (1, 64, 112, 112)


class Operator(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def permute(*axes):
    return lambda x: x.permute(*axes).contiguous()


def resize(factor, mode, **options):
    return lambda x: functional.interpolate(x, scale_factor=factor, mode=mode, **options)


def product(*shape):
    """With a tensor that is computed when the model runs, not packed before."""
    return lambda x: x @ functional.relu(x).reshape(shape)


OPERATORS = {
    'relu_and_add': (lambda x: x + torch.relu(x), PLANES),
    'exp': (torch.exp, PLANES),
    'gelu': (functional.gelu, (512, 3072)),
    'scale_rows': (lambda x: x * x[:, :1], (4096, 1024)),
    'transpose_nhwc': (permute(0, 2, 3, 1), PLANES),
    'transpose_nchw': (permute(0, 3, 1, 2), (1, 256, 256, 64)),
    'transpose_matrix': (permute(1, 0), (2048, 2048)),
    'transpose_heads': (permute(0, 2, 1, 3), (1, 512, 12, 64)),
    'transpose_all': (permute(3, 2, 1, 0), (32, 48, 56, 40)),
    'softmax': (lambda x: x.softmax(-1), (12, 384, 384)),
    'softmax_long': (lambda x: x.softmax(-1), (8, 50000)),
    'softmax_channels': (lambda x: x.softmax(1), (1, 21, 256, 256)),
    'layer_norm': (nn.LayerNorm(768), (1, 512, 768)),
    'group_norm': (nn.GroupNorm(32, 256), (1, 256, 56, 56)),
    'mean_image': (lambda x: x.mean((2, 3)), PLANES),
    'mean_channels': (lambda x: x.mean(1), PLANES),
    'sum_rows': (lambda x: x.sum(-1), (4096, 2048)),
    'sum_columns': (lambda x: x.sum(0), (4096, 2048)),
    'max_all': (lambda x: x.max(), (4096, 2048)),
    'argmax': (lambda x: x.argmax(-1), (4096, 2048)),
    'topk': (lambda x: x.topk(16)[0], (64, 8192)),
    'cumsum': (lambda x: x.cumsum(-1), (512, 4096)),
    'max_pool_3': (nn.MaxPool2d(3, 1, 1), IMAGE),
    'max_pool_3_by_2': (nn.MaxPool2d(3, 2, 1), IMAGE),
    'max_pool_13': (nn.MaxPool2d(13, 1, 6), (1, 256, 20, 20)),
    'avg_pool_3': (nn.AvgPool2d(3, 1, 1, count_include_pad=False), IMAGE),
    'resize_nearest': (resize(2, 'nearest'), (1, 64, 64, 64)),
    'resize_linear': (resize(2, 'bilinear', align_corners=False), (1, 64, 64, 64)),
    'resize_linear_8': (resize(8, 'bilinear', align_corners=False), (1, 21, 64, 64)),
    'resize_cubic': (resize(2, 'bicubic', align_corners=False), (1, 64, 64, 64)),
    'concatenate': (lambda x: torch.cat([x, x[:, :32]], 1), IMAGE),
    'pad': (lambda x: functional.pad(x, (1, 1, 1, 1)), PLANES),
    'every_second': (lambda x: x[:, :, ::2, ::2].contiguous(), PLANES),
    'depth_to_space': (nn.PixelShuffle(2), (1, 256, 64, 64)),
    'matrix_vector': (lambda x: x @ x[0].reshape(2048, 1), (2048, 2048)),
    'batch_matmul': (product(12, 64, 384), (12, 384, 64)),
    'conv_patches': (nn.Conv2d(3, 768, 16, 16), (1, 3, 224, 224)),
    'conv_first': (nn.Conv2d(3, 64, 7, 2, 3), (1, 3, 224, 224)),
    'conv_strided': (nn.Conv2d(128, 128, 3, 2, 1), (1, 128, 56, 56)),
    'conv_dilated': (nn.Conv2d(256, 256, 3, padding=6, dilation=6), (1, 256, 33, 33)),
    'conv_1x7': (nn.Conv2d(192, 192, (1, 7), padding=(0, 3)), (1, 192, 17, 17)),
    'conv_grouped': (nn.Conv2d(256, 256, 3, padding=1, groups=32), (1, 256, 28, 28)),
    'conv_depthwise': (nn.Conv2d(256, 256, 3, padding=1, groups=256), (1, 256, 56, 56)),
    'conv_sequence': (nn.Conv1d(128, 128, 3, padding=1), (1, 128, 500)),
    'conv_volume': (nn.Conv3d(64, 64, 3, padding=1), (1, 64, 8, 28, 28)),
    'conv_transpose_2': (nn.ConvTranspose2d(256, 128, 2, 2), (1, 256, 32, 32)),
    'conv_transpose_3': (nn.ConvTranspose2d(128, 64, 3, 2, 1, output_padding=1), (1, 128, 32, 32)),
    'conv_transpose_4': (nn.ConvTranspose2d(128, 64, 4, 2, 1), (1, 128, 32, 32)),
}


def build(name):
    operator, shape = OPERATORS[name]
    return (operator if isinstance(operator, nn.Module) else Operator(operator)).eval(), torch.randn(shape)


if __name__ == '__main__':
    exporting.main(__doc__, OPERATORS, OPERATORS.__contains__, build)
