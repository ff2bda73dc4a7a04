#!/usr/bin/env python3
"""Exports one step of a decoder with a cache of keys and values to ONNX: the length of the cache is open.

Usage (PyTorch 1.13 or later; Debian: python3-torch):
  benchmarks/export_decoder.py FOLDER [--layers 6] [--width 512] [--heads 8] [--vocabulary 8000]

FOLDER gets decoder.onnx (opset 16; layers before their norm as in GPT-2, Radford et al. 2019, random weights). Inputs:
tokens (1, 1) int64; position (1, 1) int64; past_key_I and past_value_I (1, heads, past, width / heads) of each layer I.
Outputs: logits (1, 1, vocabulary); key_I and value_I (1, heads, past + 1, width / heads).
"""
import argparse
import os

import torch
from torch import nn
from torch.nn import functional

POSITIONS = 1024


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.merge = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, past_key, past_value):
        batch, rows, width = x.shape
        query, key, value = (part.reshape(batch, rows, self.heads, width // self.heads).transpose(1, 2)
                             for part in self.project(self.before(x)).split(width, -1))
        key, value = torch.cat((past_key, key), 2), torch.cat((past_value, value), 2)
        weights = torch.softmax(query @ key.transpose(2, 3) / (width // self.heads) ** 0.5, -1)
        x = x + self.merge((weights @ value).transpose(1, 2).reshape(batch, rows, width))
        return x + self.narrow(functional.gelu(self.widen(self.between(x)))), key, value


class Decoder(nn.Module):
    def __init__(self, layers, width, heads, vocabulary):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(POSITIONS, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.last, self.classes = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, position, *past):
        x, present = self.words(tokens) + self.places(position), []
        for layer, key, value in zip(self.layers, past[::2], past[1::2]):
            x, *both = layer(x, key, value)
            present += both
        return (self.classes(self.last(x)), *present)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder')
    for name, usual in (('layers', 6), ('width', 512), ('heads', 8), ('vocabulary', 8000)):
        parser.add_argument(f'--{name}', type=int, default=usual)
    args = parser.parse_args()
    torch.manual_seed(0)
    decoder = Decoder(args.layers, args.width, args.heads, args.vocabulary).eval()
    past = [torch.randn(1, args.heads, 3, args.width // args.heads) for _ in range(2 * args.layers)]
    kept = [f'{kind}_{layer}' for layer in range(args.layers) for kind in ('key', 'value')]
    os.makedirs(args.folder, exist_ok=True)
    torch.onnx.export(decoder, (torch.zeros(1, 1, dtype=torch.int64), torch.full((1, 1), 3), *past),
                      os.path.join(args.folder, 'decoder.onnx'), opset_version=16,
                      input_names=['tokens', 'position', *(f'past_{name}' for name in kept)],
                      output_names=['logits', *kept],
                      dynamic_axes={f'past_{name}': {2: 'past'} for name in kept} | {name: {2: 'present'} for name in kept})


if __name__ == '__main__':
    main()
