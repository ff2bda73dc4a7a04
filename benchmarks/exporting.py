"""What the exporters of models for performance.py share."""
import argparse
import os

import numpy
import torch

OPSET = 16


def save(network, given, path):
    """PATH.onnx, PATH.in.npy and PATH.out.npy, PyTorch's output."""
    with torch.no_grad():
        result = network(given)
    torch.onnx.export(network, given, path + '.onnx', opset_version=OPSET)
    numpy.save(path + '.in.npy', given.numpy())
    numpy.save(path + '.out.npy', result.numpy())


def main(description, names, is_known, build):
    """The command line: FOLDER [NAME...]; without names, all of `names`. `build(name)` gives a model and an input."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder')
    parser.add_argument('names', nargs='*', metavar='NAME')
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    for name in args.names or names:
        if not is_known(name):
            parser.error(f'{name}: nothing that this script exports (see --help)')
        torch.manual_seed(0)
        save(*build(name), os.path.join(args.folder, name))
        print(name, flush=True)
