#!/usr/bin/env python3
"""Times BERT base (128 tokens, torch_networks.py) in PyTorch on the CPU, in f32.

Set-up: VENV/bin/pip install torch torchvision numpy
usage: VENV/bin/python benchmarks/torch_bert.py THREADS [SECONDS]
Prints a line of JSON for the network as it is written, and one for its trace after optimize_for_inference, whose
linear layers oneDNN computes: the median of runs in milliseconds. To be run in turns with `gantry bench`.
"""
import json
import sys
import time

import torch

from torch_networks import BertEncoder


def median_ms(run, seconds):
    for _ in range(3):
        run()
    samples, start = [], time.perf_counter()
    while len(samples) < 5 or time.perf_counter() - start < seconds:
        before = time.perf_counter()
        run()
        samples.append(1e3 * (time.perf_counter() - before))
    return sorted(samples)[len(samples) // 2]


def main():
    threads, seconds = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 3
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    network, tokens = BertEncoder().eval(), torch.randint(0, 30522, (1, 128))
    with torch.no_grad():
        optimized = torch.jit.optimize_for_inference(torch.jit.trace(network, tokens))
        for name, run in (('eager', network), ('optimized for inference', optimized)):
            print(json.dumps({'pytorch': torch.__version__, 'network': 'bert_base', 'as': name, 'threads': threads,
                              'median_ms': round(median_ms(lambda: run(tokens), seconds), 1)}), flush=True)


if __name__ == '__main__':
    main()
