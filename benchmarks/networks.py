#!/usr/bin/env python3
"""Times gantry beside ONNX Runtime on whole networks, in alternating runs.

usage: networks.py --gantry build/bin/gantry --peer-python VENV/bin/python [--threads 1] [--rounds 3]
                   [--seconds 2] [--target native] [--markdown FILE] MODEL.onnx...

VENV needs `pip install numpy onnxruntime`. A round runs the peer, then gantry, each in a process of its own; the
figure of each is the median of its rounds' medians, and the ratio is the median of the rounds' ratios, so that a
drift of the machine's speed falls on both. Where MODEL.in.npy lies beside MODEL.onnx it is the input.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

PEER = r"""
import json, sys, time
import numpy as np, onnxruntime as ort
model, threads, seconds, given = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
o = ort.SessionOptions()
o.intra_op_num_threads, o.inter_op_num_threads = threads, 1
s = ort.InferenceSession(model, o, providers=['CPUExecutionProvider'])
types = {'tensor(float)': np.float32, 'tensor(int64)': np.int64, 'tensor(int32)': np.int32}
def feed(i):
    if given:
        return np.load(given)
    shape = [d if isinstance(d, int) and d > 0 else 1 for d in i.shape]
    return (np.random.default_rng(0).random(shape) * 2 - 1).astype(types[i.type])
feeds = {i.name: feed(i) for i in s.get_inputs()}
for _ in range(3):
    s.run(None, feeds)
samples, start = [], time.perf_counter()
while len(samples) < 7 or time.perf_counter() - start < seconds:
    t = time.perf_counter()
    s.run(None, feeds)
    samples.append(1e3 * (time.perf_counter() - t))
print(json.dumps({'median_ms': float(np.median(samples)), 'version': ort.__version__}))
"""


def run_peer(args, model, given):
    out = subprocess.run([args.peer_python, '-c', PEER, model, str(args.threads), str(args.seconds), given or ''],
                         check=True, capture_output=True, text=True).stdout
    return json.loads(out.strip().splitlines()[-1])


def run_gantry(args, module, given, repeat, folder):
    result = os.path.join(folder, 'result.json')
    command = [args.gantry, 'bench', module, '--threads', str(args.threads), '--warmup', '3', '--number', '1',
               '--repeat', str(repeat), '--json', result]
    if given:
        command += ['--input', given]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(result) as file:
        return json.load(file)


def measure(args, model, folder):
    name = os.path.basename(model).removesuffix('.onnx')
    given = model.removesuffix('.onnx') + '.in.npy'
    given = given if os.path.exists(given) else None
    module = os.path.join(folder, name + '.gmod')
    subprocess.run([args.gantry, 'compile', model, '-o', module, '--target', args.target], check=True,
                   stdout=subprocess.DEVNULL)
    peers, ours, ratios, version = [], [], [], ''
    for _ in range(args.rounds):
        peer = run_peer(args, model, given)
        repeat = max(7, min(500, int(1e3 * args.seconds / peer['median_ms'])))
        mine = run_gantry(args, module, given, repeat, folder)
        version = peer['version']
        peers.append(peer['median_ms'])
        ours.append(mine['median_ms'])
        ratios.append(mine['median_ms'] / peer['median_ms'])
    return name, statistics.median(peers), statistics.median(ours), statistics.median(ratios), version


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--gantry', default='build/bin/gantry')
    parser.add_argument('--peer-python', required=True)
    parser.add_argument('--threads', type=int, default=1)
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=2)
    parser.add_argument('--target', default='native')
    parser.add_argument('--markdown')
    parser.add_argument('models', nargs='+')
    args = parser.parse_args()
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for model in args.models:
            name, peer, mine, ratio, version = measure(args, model, folder)
            if not lines:
                lines = [f'| network | ONNX Runtime {version}, ms | gantry, ms | gantry / ONNX Runtime |',
                         '| --- | --- | --- | --- |']
                print('\n'.join(lines), flush=True)
            lines.append(f'| {name} | {peer:.2f} | {mine:.2f} | {ratio:.2f} |')
            print(lines[-1], flush=True)
    if args.markdown:
        with open(args.markdown, 'w') as file:
            file.write('\n'.join(lines) + '\n')


if __name__ == '__main__':
    main()
