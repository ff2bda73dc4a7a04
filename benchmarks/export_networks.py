#!/usr/bin/env python3
"""Exports networks with random weights to ONNX, for benchmarks/performance.py.

Usage (PyTorch 1.13 or later and torchvision; Debian: python3-torch python3-torchvision):
  benchmarks/export_networks.py FOLDER [NAME...]

NAME is a network below or any image classifier of torchvision.models; without names, all that docs/zen5/performance.md
lists beside the ten networks of its first table. For each FOLDER gets NAME.onnx (opset 16, batch 1), NAME.in.npy and
NAME.out.npy, PyTorch's output for it.
"""
import torch
import torchvision
from torch import nn
from torch.nn import functional

import exporting

CLASSIFIERS = (
    'alexnet convnext_small convnext_tiny densenet161 densenet169 efficientnet_b1 efficientnet_b4 efficientnet_v2_s '
    'googlenet inception_v3 maxvit_t mnasnet0_5 mnasnet1_0 mobilenet_v3_large mobilenet_v3_small regnet_x_3_2gf '
    'regnet_x_800mf regnet_y_1_6gf regnet_y_400mf regnet_y_8gf resnet152 resnet34 resnext101_32x8d resnext50_32x4d '
    'shufflenet_v2_x0_5 shufflenet_v2_x1_0 shufflenet_v2_x2_0 squeezenet1_0 swin_t vgg11_bn vit_b_16 vit_b_32 '
    'vit_l_32 wide_resnet50_2').split()
SIDES = {'inception_v3': 299, 'efficientnet_b4': 380}


class First(nn.Module):
    """The first result of a recurrence: all states."""

    def __init__(self, recurrence):
        super().__init__()
        self.recurrence = recurrence

    def forward(self, x):
        return self.recurrence(x)[0]


class Residual(nn.Module):
    def __init__(self, *body):
        super().__init__()
        self.body = nn.Sequential(*body)

    def forward(self, x):
        return x + self.body(x)


def conv_norm(inputs, outputs, kernel=3, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(outputs), nn.ReLU())


def mobilenet_v1():
    """Howard et al. 2017."""
    layers, channels = [conv_norm(3, 32, 3, 2)], 32
    for outputs, stride in [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2),
                            (1024, 1)]:
        layers += [conv_norm(channels, channels, 3, stride, channels), conv_norm(channels, outputs, 1)]
        channels = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000))


class UNet(nn.Module):
    """After Ronneberger et al. 2015, with padding and batch normalisation; 32 to 512 channels."""

    def __init__(self):
        super().__init__()
        widths = [32, 64, 128, 256, 512]
        pairs = list(zip([3, *widths], widths))
        self.down = nn.ModuleList(nn.Sequential(conv_norm(i, o), conv_norm(o, o)) for i, o in pairs)
        self.grow = nn.ModuleList(nn.ConvTranspose2d(i, i // 2, 2, 2) for i in widths[:0:-1])
        self.up = nn.ModuleList(nn.Sequential(conv_norm(i, i // 2), conv_norm(i // 2, i // 2))
                                for i in widths[:0:-1])
        self.classes = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for level, down in enumerate(self.down):
            x = down(functional.max_pool2d(x, 2) if level else x)
            kept.append(x)
        x = kept.pop()
        for grow, up in zip(self.grow, self.up):
            x = up(torch.cat([grow(x), kept.pop()], 1))
        return self.classes(x)


def tcn():
    """Dilated convolutions of a sequence of 500, after Bai et al. 2018."""
    def block(dilation):
        conv = lambda: nn.Conv1d(128, 128, 3, padding=dilation, dilation=dilation)
        return Residual(conv(), nn.ReLU(), conv(), nn.ReLU())
    return nn.Sequential(nn.Conv1d(40, 128, 1), *(block(2 ** i) for i in range(8)), nn.Conv1d(128, 10, 1))


def quartznet():
    """Depthwise windows of up to 75 and pointwise convolutions, after Kriman et al. 2019."""
    layers = [nn.Conv1d(64, 256, 33, 2, 16, bias=False), nn.BatchNorm1d(256), nn.ReLU()]
    for kernel in (33, 39, 51, 63, 75):
        for _ in range(2):
            layers += [nn.Conv1d(256, 256, kernel, padding=kernel // 2, groups=256, bias=False),
                       nn.Conv1d(256, 256, 1, bias=False), nn.BatchNorm1d(256), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv1d(256, 29, 1))


class PointNet(nn.Module):
    """Qi et al. 2017, without the transformers of its input."""

    def __init__(self):
        super().__init__()
        layer = lambda i, o: (nn.Conv1d(i, o, 1), nn.BatchNorm1d(o))
        self.points = nn.Sequential(*layer(3, 64), nn.ReLU(), *layer(64, 128), nn.ReLU(), *layer(128, 1024))
        self.head = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(),
                                  nn.Linear(256, 40))

    def forward(self, x):
        return self.head(self.points(x).max(-1)[0])


def encoder():
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, activation='gelu')
    return nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)


def recurrence(kind, inputs, units, layers=1, both=False):
    return First(kind(inputs, units, layers, batch_first=True, bidirectional=both))


# Name: what builds it, shape of its input.
WRITTEN = {
    'bilstm': (lambda: recurrence(nn.LSTM, 300, 200, 2, True), (1, 60, 300)),
    'encoder': (encoder, (1, 128, 512)),
    'gru': (lambda: recurrence(nn.GRU, 128, 256), (1, 50, 128)),
    'gru2': (lambda: recurrence(nn.GRU, 256, 512, 2, True), (1, 64, 256)),
    'gru_b8': (lambda: recurrence(nn.GRU, 128, 256), (8, 50, 128)),
    'gru_h100': (lambda: recurrence(nn.GRU, 64, 100), (1, 50, 64)),
    'gru_h300': (lambda: recurrence(nn.GRU, 64, 300), (1, 50, 64)),
    'lstm2': (lambda: recurrence(nn.LSTM, 256, 512, 2, True), (1, 64, 256)),
    'mobilenet_v1': (mobilenet_v1, (1, 3, 224, 224)),
    'pointnet': (PointNet, (1, 3, 1024)),
    'quartznet': (quartznet, (1, 64, 400)),
    'rnn': (lambda: recurrence(nn.RNN, 128, 256, 2), (1, 50, 128)),
    'tcn': (tcn, (1, 40, 500)),
    'unet': (UNet, (1, 3, 256, 256)),
    'r3d_18': (lambda: torchvision.models.video.r3d_18(weights=None), (1, 3, 8, 112, 112)),
}


def classifier(name):
    extra = {'aux_logits': True, 'init_weights': True} if name in ('googlenet', 'inception_v3') else {}
    return getattr(torchvision.models, name)(weights=None, **extra)


def build(name):
    """The network, ready to be run, and an input."""
    if name in WRITTEN:
        make, shape = WRITTEN[name]
        network = make()
    else:
        network, shape = classifier(name), (1, 3, *[SIDES.get(name, 224)] * 2)
    for layer in network.modules():  # as if it had been trained
        if isinstance(layer, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            layer.running_mean.normal_(0, 0.1)
            layer.running_var.uniform_(0.5, 1.5)
        if isinstance(layer, nn.Linear) and not layer.weight.any():
            nn.init.normal_(layer.weight, 0, 0.02)
    return network.eval(), torch.randn(shape)


if __name__ == '__main__':
    exporting.main(__doc__, [*CLASSIFIERS, *WRITTEN], lambda name: name in WRITTEN or hasattr(torchvision.models, name),
                   build)
