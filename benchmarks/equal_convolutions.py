#!/usr/bin/env python3
"""A network of many equal convolutions, to measure what compiling costs a node whose kernel is known already:

    benchmarks/equal_convolutions.py --count 1600 -o equal.gir
    time build/bin/gantry compile equal.gir -o equal.gmod

Each convolution has weights of its own, and a relu behind it. Writes FILE and FILE.weights.
"""

import argparse
import array
import json
import pathlib
import random
import struct


def graph_text(count: int, channels: int, side: int, weights: str) -> str:
    shape = f"Tensor[(1, {channels}, {side}, {side}), f32]"
    weight = f"Tensor[({channels}, {channels}, 3, 3), f32]"
    lines = ["gir 1", 'model "equal_convolutions"', f'weights "{weights}"', f"fn @main(%x: {shape}) -> {shape} {{"]
    data = "%x"
    for i in range(count):
        lines.append(
            f"  %c{i} = nn.conv({data}, @w{i}: {weight}, channels={channels}, kernel=[3, 3], strides=[1, 1], "
            f"dilations=[1, 1], padding=(1, 1, 1, 1))  // Conv_{i}"
        )
        lines.append(f"  %r{i} = nn.relu(%c{i})  // Relu_{i}")
        data = f"%r{i}"
    return "\n".join([*lines, f'  return {data} as "y"', "}", ""])


def write_weights(path: pathlib.Path, count: int, channels: int) -> None:
    """Safetensors: the length of a JSON head, the head, the tensors; products keep about the size of their data."""
    size = channels * channels * 9
    shape = [channels, channels, 3, 3]
    head = {
        f"w{i}": {"dtype": "F32", "shape": shape, "data_offsets": [4 * size * i, 4 * size * (i + 1)]}
        for i in range(count)
    }
    text = json.dumps(head, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    numbers = random.Random(1)
    deviation = (2 / (9 * channels)) ** 0.5
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for _ in range(count):
            file.write(array.array("f", (numbers.uniform(-2, 2) * deviation for _ in range(size))).tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=pathlib.Path, required=True, help="the graph's text")
    parser.add_argument("--count", type=int, default=1600, help="convolutions")
    parser.add_argument("--channels", type=int, default=16)
    parser.add_argument("--side", type=int, default=28, help="of the image, in pixels")
    options = parser.parse_args()
    weights = options.output.with_name(options.output.name + ".weights")
    options.output.write_text(graph_text(options.count, options.channels, options.side, weights.name))
    write_weights(weights, options.count, options.channels)


if __name__ == "__main__":
    main()
