#!/usr/bin/env python3
"""Judges the code for AArch64 where there is no such machine: by static throughput and by executed instructions.

usage: aarch64.py loops  [--gantry build/bin/gantry] [--cpus cortex-a72,cortex-a76] [--precision fp16]
                         [--kernel conv] MODEL.onnx...
       aarch64.py counts [--gantry ...] [--cpu cortex-a76] [--precision fp16] [--runner run_module] [--peer COMMAND] MODEL.onnx...

loops: takes the innermost loops of the kernels' assembly (`gantry ir --asm`) and asks llvm-mca for their cycles. For
each loop: vector multiply-adds, loads, stores to and from the stack (spills), cycles an iteration, and how near its
multiply-adds come to what the same model of the CPU reaches on nothing but independent multiply-adds. Wants llvm-mca
of LLVM 19 (older ones know fewer cores).
Models of out-of-order cores assume that every access hits the first-level cache.

counts: instructions, vector multiply-adds and memory accesses of one run, as executed under qemu-aarch64 with the
plugin qemu_count.c, which is compiled on the way. The runner is benchmarks/run_module.cpp for AArch64:
  aarch64-linux-gnu-g++ -O2 -std=c++20 -static -I. -Idevice_runtime/include benchmarks/run_module.cpp \\
    build-aarch64/lib/libgantry_runtime_static.a -lpthread -o run_module
--peer: a command that runs Python for AArch64 with onnxruntime and numpy, such as
  "env PYTHONHOME=/usr PYTHONPATH=SITE qemu-aarch64 -L ROOT ROOT/usr/bin/python3.11"
where ROOT holds Debian's arm64 packages python3.11-minimal, libpython3.11-stdlib and the libraries they need
(apt-get download NAME:arm64; dpkg -x), ROOT/proc/cpuinfo describes an Arm CPU, and SITE holds the wheels (pip download
--platform manylinux_2_28_aarch64 --only-binary=:all: onnxruntime numpy). It is counted on the same model: the
difference of two and one runs, as gantry is.
"""
import argparse
import os
import re
import shlex
import shutil
import subprocess
import tempfile

# Older ones know fewer cores.
MCA = next((name for name in ('llvm-mca-19', 'llvm-mca') if shutil.which(name)), 'llvm-mca')
MULTIPLY_ADD = re.compile(r'^(fmla|fmls|sdot|udot|smmla|ummla|bfmmla|bfdot|bfmlal[bt]?)\s')
PEER = r"""
import sys
import numpy as np
import onnxruntime as ort
options = ort.SessionOptions()
options.intra_op_num_threads = options.inter_op_num_threads = 1
session = ort.InferenceSession(sys.argv[1], options, providers=['CPUExecutionProvider'])
types = {'tensor(float)': np.float32, 'tensor(int64)': np.int64, 'tensor(int32)': np.int32}
feeds = {i.name: np.zeros([d if isinstance(d, int) else 1 for d in i.shape], types[i.type])
         for i in session.get_inputs()}
for _ in range(int(sys.argv[2])):
    session.run(None, feeds)
"""


def output_of(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f'{shlex.join(command[:6])} …: exit code {done.returncode}: {done.stderr.strip()[-400:]}')
    return done.stdout


def functions_of(assembly):
    """Name and lines of each function, without directives."""
    name, lines = None, []
    for line in assembly.splitlines():
        label = re.match(r'^([A-Za-z_][\w.]*):', line)
        if label:
            if name and lines:
                yield name, lines
            name, lines = label.group(1), []
        elif name and (line.startswith('.L') or (line.startswith('\t') and not line.startswith('\t.'))):
            lines.append(line.split('//')[0].rstrip())
    if name and lines:
        yield name, lines


def innermost_loops(lines):
    """Instructions from a label to the branch back to it, where no other such pair lies between."""
    at, loops = {}, []
    for i, line in enumerate(lines):
        if line.endswith(':'):
            at[line[:-1]] = i
            continue
        target = re.search(r'(\.L\w+)$', line)
        if target and re.match(r'\t(b\.|cbn?z|tbn?z|b\s)', line) and target.group(1) in at:
            loops.append((at[target.group(1)], i))
    inner = [(b, e) for b, e in loops if not any((b2, e2) != (b, e) and b <= b2 and e2 <= e for b2, e2 in loops)]
    return [[line.strip() for line in lines[b:e + 1] if not line.endswith(':')] for b, e in inner]


def cycles_of(instructions, cpu, iterations=200):
    # The branch's label does not exist for llvm-mca; any local one will do.
    text = '.Lloop:\n' + '\n'.join(re.sub(r'\.L\w+$', '.Lloop', line) for line in instructions)
    out = output_of([MCA, '-mtriple=aarch64', f'-mcpu={cpu}', f'-iterations={iterations}',
                     '-mattr=+dotprod,+fullfp16,+i8mm,+bf16'], input=text)
    return int(re.search(r'Total Cycles:\s+(\d+)', out).group(1)) / iterations


def loops(args):
    for cpu in args.cpus.split(','):
        # Enough chains to hide the latency, all operands in registers.
        best = 24 / cycles_of([f'fmla v{i}.4s, v30.4s, v31.s[{i % 4}]' for i in range(24)], cpu)
        print(f'\n{cpu}: at most {best:.2f} vector multiply-adds a cycle\n')
        print('| kernel | multiply-adds | loads | spills | instructions | cycles | of the peak |')
        print('| --- | --- | --- | --- | --- | --- | --- |')
        for model in args.models:
            command = [args.gantry, 'ir', model, '--asm', '--target', cpu, '--precision', args.precision]
            assembly = output_of(command + (['--kernel', args.kernel] if args.kernel else []))
            for name, lines in functions_of(assembly):
                for body in innermost_loops(lines):
                    products = sum(bool(MULTIPLY_ADD.match(line)) for line in body)
                    if products < args.least:
                        continue
                    spills = sum('[sp' in line for line in body)
                    loads = sum(line.startswith('ld') for line in body)
                    cycles = cycles_of(body, cpu)
                    print(f'| {os.path.basename(model)} {name} | {products} | {loads} | {spills} | {len(body)} | '
                          f'{cycles:.1f} | {100 * products / cycles / best:.0f} % |')


def count(command, plugin, cpu, folder):
    """What `command RUNS` executes in one run: the difference of two runs and one."""
    figures = []
    for runs in (1, 2):
        result = os.path.join(folder, 'counts.txt')
        at = command.index('qemu-aarch64')
        full = command[:at + 1] + ['-cpu', cpu, '-plugin', f'{plugin},out={result}'] + command[at + 1:] + [str(runs)]
        output_of(full, timeout=1800)
        with open(result) as file:
            figures.append([int(x) for x in file.read().split()])
    return [b - a for a, b in zip(*figures)]


def counts(args):
    folder = tempfile.mkdtemp(prefix='gantry-aarch64-')
    try:
        plugin = os.path.join(folder, 'qemu_count.so')
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'qemu_count.c')
        output_of(['cc', '-O2', '-shared', '-fPIC', '-o', plugin, source])
        script = os.path.join(folder, 'peer.py')
        with open(script, 'w') as file:
            file.write(PEER)
        print(f'Millions a run, {args.cpu}\n')
        print('| network | by | instructions | vector multiply-adds | memory accesses | instructions / multiply-add |')
        print('| --- | --- | --- | --- | --- | --- |')
        for model in args.models:
            name = os.path.basename(model).removesuffix('.onnx')
            module = os.path.join(folder, name + '.gmod')
            output_of([args.gantry, 'compile', model, '-o', module, '--target', args.target or args.cpu,
                       '--precision', args.precision])
            commands = {'gantry': ['qemu-aarch64', os.path.abspath(args.runner), module]}
            if args.peer:
                commands['ONNX Runtime'] = shlex.split(args.peer) + [script, os.path.abspath(model)]
            for who, command in commands.items():
                total, products, accesses = count(command, plugin, args.cpu, folder)
                print(f'| {name} | {who} | {total / 1e6:.1f} | {products / 1e6:.1f} | {accesses / 1e6:.1f} | '
                      f'{total / products if products else 0:.2f} |', flush=True)
            os.remove(module)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, action in (('loops', loops), ('counts', counts)):
        command = commands.add_parser(name)
        command.set_defaults(action=action)
        command.add_argument('--gantry', default='build/bin/gantry')
        command.add_argument('--precision', default='auto')
        command.add_argument('models', nargs='+')
        if name == 'loops':
            command.add_argument('--cpus', default='cortex-a72,cortex-a76,neoverse-n1,neoverse-v1')
            command.add_argument('--kernel', default='', help='only kernels with this in their names')
            command.add_argument('--least', type=int, default=8, help='multiply-adds that a loop must have')
        else:
            command.add_argument('--cpu', default='cortex-a76', help='that qemu shows')
            command.add_argument('--target', help='to compile for, if not that CPU')
            command.add_argument('--runner', default='run_module')
            command.add_argument('--peer')
    args = parser.parse_args()
    args.action(args)


if __name__ == '__main__':
    main()
