#!/usr/bin/env python3
"""Writes torchvision's resnet18 as ONNX, and says which class PyTorch itself gives a picture.

usage: python3 export_resnet18.py PICTURE [-o resnet18.onnx] [--pretrained]

Needs torch and torchvision (Debian: python3-torch python3-torchvision; PyPI: torch torchvision onnx). Without
--pretrained the weights are random, from a fixed seed: nothing is downloaded, and classes mean nothing, but they are the
same wherever the network runs.
"""
import argparse

import torch
import torchvision
from PIL import Image
from torchvision import transforms


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('picture')
    parser.add_argument('-o', '--output', default='resnet18.onnx')
    parser.add_argument('--pretrained', action='store_true', help='weights trained on ImageNet (a download)')
    args = parser.parse_args()

    torch.manual_seed(0)
    network = torchvision.models.resnet18(weights='DEFAULT' if args.pretrained else None).eval()
    prepare = transforms.Compose([
        transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
        transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    picture = prepare(Image.open(args.picture).convert('RGB')).unsqueeze(0)
    torch.onnx.export(network, picture, args.output, input_names=['image'], output_names=['scores'], opset_version=16)

    with torch.no_grad():
        probabilities = network(picture).softmax(1)[0]
    for rank, at in enumerate(probabilities.argsort(descending=True)[:5], 1):
        print(f'{rank}. class {at:4d}  {100 * probabilities[at]:6.2f} %')


if __name__ == '__main__':
    main()
