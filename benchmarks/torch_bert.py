#!/usr/bin/env python3
"""Times BERT base (128 tokens, torch_networks.py) in PyTorch on the CPU, in f32.

Set-up: VENV/bin/pip install torch torchvision numpy
usage: VENV/bin/python benchmarks/torch_bert.py THREADS [SECONDS]
Prints a line of JSON for the network as it is written, and one for its trace after optimize_for_inference, whose
linear layers oneDNN computes: the median of runs in milliseconds. To be run in turns with `gantry bench`.
"""
import json
import sys

import torch

from peer_worker import median_of_runs
from torch_networks import BertEncoder


def main():
    threads, seconds = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 3
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    network, tokens = BertEncoder().eval(), torch.randint(0, 30522, (1, 128))
    with torch.no_grad():
        optimized = torch.jit.optimize_for_inference(torch.jit.trace(network, tokens))
        for name, run in (('eager', network), ('optimized for inference', optimized)):
            for _ in range(3):
                run(tokens)
            print(json.dumps({'pytorch': torch.__version__, 'network': 'bert_base', 'as': name, 'threads': threads,
                              'median_ms': round(median_of_runs(lambda: run(tokens), seconds), 1)}), flush=True)


if __name__ == '__main__':
    main()
