#!/usr/bin/env python3
"""Times gantry on a GPU beside PyTorch on the same GPU: eager, and CUDA-graph replay with cudnn.benchmark.

usage: gpu_networks.py --gantry build/bin/gantry [--networks NAME...] [--batches 1 8] [--precisions fp32 tf32]
                       [--rounds 3] [--repeat 50] [--markdown FILE] [--dry-run]

Run it with a Python that has torch (with CUDA), torchvision, onnx and numpy. For every network, batch and precision
the sides take turns, each measurement in a process of its own; milliseconds are medians of the rounds' medians, taken
from events on the GPU. `tf32` lets both sides use TF32 tensor cores, `fp32` neither. Memory is what each side's
allocator holds on the GPU at its peak: weights, intermediates, inputs and outputs, without the driver's context. The
outputs are compared with PyTorch's on the CPU. Under the table stand gantry's slowest kernels of each network, which is
where a distance to graph replay comes from. --dry-run goes through all steps on a machine without a GPU, PyTorch on
the CPU and gantry on the emulated GPU; its figures mean nothing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
SIDES = ('eager', 'graph')


def export(name, batch, folder):
    """Writes the model, its input and PyTorch's output; paths without suffix."""
    import numpy
    import torch
    import torch_networks

    network, given = torch_networks.build(name, batch)
    path = os.path.join(folder, f'{name}_{batch}')
    with torch.no_grad():
        expected = network(given)
    torch.onnx.export(network, (given,), path + '.onnx', opset_version=17, input_names=['input'],
                      output_names=['output'])
    numpy.save(path + '.in.npy', given.numpy())
    numpy.save(path + '.out.npy', expected.numpy())


def graph_replay(torch, network, given):
    """A function that replays the network's recorded launches."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            network(given)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        network(given)
    return graph.replay


def time_on_gpu(torch, run, repeat):
    for _ in range(10):
        run()
    samples = []
    for _ in range(repeat):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        run()
        end.record()
        end.synchronize()
        samples.append(begin.elapsed_time(end))
    return samples


def time_on_cpu(run):
    import time

    begin = time.perf_counter()
    run()
    return [1e3 * (time.perf_counter() - begin)]


def measure_torch(side, name, batch, precision, repeat):
    """Runs in a process of its own; prints one line of JSON."""
    import torch
    import torch_networks

    network, given = torch_networks.build(name, batch)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = precision == 'tf32'
    torch.backends.cudnn.benchmark = side == 'graph'
    on_gpu = torch.cuda.is_available()
    with torch.inference_mode():
        if on_gpu:
            network, given = network.cuda(), given.cuda()
            run = graph_replay(torch, network, given) if side == 'graph' else lambda: network(given)
            samples = time_on_gpu(torch, run, repeat)
        else:
            samples = time_on_cpu(lambda: network(given))
    print(json.dumps({
        'ms': statistics.median(samples),
        'bytes': torch.cuda.max_memory_reserved() if on_gpu else 0,
        'version': torch.__version__,
        'gpu': torch.cuda.get_device_name() if on_gpu else 'none',
    }))


def run_torch(side, name, batch, precision, args):
    command = [sys.executable, os.path.abspath(__file__), '--measure', side, '--networks', name, '--batches', str(batch),
               '--precisions', precision, '--repeat', str(args.repeat)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def run_gantry(path, precision, args):
    device = ['--device', 'cuda-emulated' if args.dry_run else 'cuda', '--precision', precision]
    tolerance = '1e-4' if precision == 'fp32' else '1e-2'
    subprocess.run([args.gantry, 'run', path + '.onnx', *device, '--input', path + '.in.npy', '--expect',
                    path + '.out.npy', '--tolerance', tolerance], check=True, stdout=subprocess.DEVNULL)
    result = path + '.json'
    repeat, warmup = ('1', '0') if args.dry_run else (str(args.repeat), '10')
    subprocess.run([args.gantry, 'bench', path + '.onnx', *device, '--input', path + '.in.npy', '--repeat', repeat,
                    '--processes', '1', '--warmup', warmup, '--number', '1', '--profile', '--json', result], check=True,
                   stdout=subprocess.DEVNULL)
    with open(result) as file:
        return json.load(file)


def compare(name, batch, precision, folder, args):
    """One row: medians over the rounds."""
    torch_runs = {side: [] for side in SIDES}
    gantry_runs = []
    for _ in range(args.rounds):
        for side in SIDES:
            torch_runs[side].append(run_torch(side, name, batch, precision, args))
        gantry_runs.append(run_gantry(os.path.join(folder, f'{name}_{batch}'), precision, args))
    row = {'network': name, 'batch': batch, 'precision': precision}
    for side in SIDES:
        row[side] = statistics.median(run['ms'] for run in torch_runs[side])
        row[side + '_bytes'] = max(run['bytes'] for run in torch_runs[side])
    row['gantry'] = statistics.median(run['median_ms'] for run in gantry_runs)
    memory = gantry_runs[-1]['memory']
    row['gantry_bytes'] = memory.get('device_bytes') or memory['workspace_bytes'] + memory['weights_bytes']
    row['kernels'] = gantry_runs[-1]['kernels'][:5]
    row['torch'], row['gpu'] = torch_runs['eager'][0]['version'], torch_runs['eager'][0]['gpu']
    return row


def table(rows):
    lines = [f'PyTorch {rows[0]["torch"]}, GPU: {rows[0]["gpu"]}', '',
             '| network | batch | precision | eager, ms | graph, ms | gantry, ms | eager / gantry | graph / gantry '
             '| PyTorch, MB | gantry, MB |', '| --- ' * 10 + '|']
    for row in rows:
        lines.append(
            f'| {row["network"]} | {row["batch"]} | {row["precision"]} | {row["eager"]:.3f} | {row["graph"]:.3f} '
            f'| {row["gantry"]:.3f} | {row["eager"] / row["gantry"]:.2f} | {row["graph"] / row["gantry"]:.2f} '
            f'| {row["eager_bytes"] / 1e6:.0f} | {row["gantry_bytes"] / 1e6:.0f} |')
    for row in rows:
        lines += ['', f'{row["network"]}, batch {row["batch"]}, {row["precision"]}: slowest kernels', '']
        lines += [f'- {kernel["total_ms"]:.4f} ms ({100 * kernel["share"]:.0f} %): {kernel["name"]} '
                  f'({", ".join(kernel["nodes"][:2])})' for kernel in row['kernels']]
    return '\n'.join(lines) + '\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gantry', default='build/bin/gantry')
    parser.add_argument('--networks', nargs='+', default=['resnet50', 'mobilenet_v2', 'bert_base', 'se_resnet101_ibn_a'])
    parser.add_argument('--batches', nargs='+', type=int, default=[1, 8])
    parser.add_argument('--precisions', nargs='+', default=['fp32', 'tf32'])
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--repeat', type=int, default=50)
    parser.add_argument('--markdown')
    parser.add_argument('--dry-run', action='store_true')
    parser.add_argument('--measure', choices=SIDES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        return measure_torch(args.measure, args.networks[0], args.batches[0], args.precisions[0], args.repeat)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.networks:
            for batch in args.batches:
                export(name, batch, folder)
                rows += [compare(name, batch, precision, folder, args) for precision in args.precisions]
                print(table(rows[-len(args.precisions):]), flush=True)
    if args.markdown:
        with open(args.markdown, 'w') as file:
            file.write(table(rows))


if __name__ == '__main__':
    main()
