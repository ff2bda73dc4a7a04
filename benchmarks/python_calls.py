#!/usr/bin/env python3
"""What a call from Python costs over the same through gantry/runtime.h in C: python_calls.py [BUILD].

Calls relu of 16 numbers, on one thread, with NumPy's arrays and, where there is PyTorch, its tensors; microseconds a
call, the fastest of 20 rounds. C and Python are measured in turns, three times. Needs a C compiler and the preset release.
"""
import os
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else os.path.join(SOURCE, 'build')
sys.path[:0] = [os.path.join(BUILD, 'python'), os.path.join(SOURCE, 'tests', 'python')]
import gantry  # noqa: E402
import models  # noqa: E402

CALLS = 2000


def fastest(call, *arguments):
    best = float('inf')
    for _ in range(20):
        begin = time.perf_counter()
        for _ in range(CALLS):
            call(*arguments)
        best = min(best, (time.perf_counter() - begin) / CALLS * 1e6)
    return best


def main():
    with tempfile.TemporaryDirectory() as folder:
        module = gantry.compile(models.relu((16,)), output=os.path.join(folder, 'relu.gmod'))
        program = os.path.join(folder, 'c_calls')
        subprocess.run(['cc', '-O2', os.path.join(SOURCE, 'benchmarks', 'c_calls.c'), '-I',
                        os.path.join(SOURCE, 'device_runtime', 'include'), '-L', os.path.join(BUILD, 'lib'),
                        f"-Wl,-rpath,{os.path.join(BUILD, 'lib')}", '-lgantry_runtime', '-o', program], check=True)
        session = gantry.Session(module, threads=1)
        x = gantry.empty(16)
        x[:] = 1
        ways = {'NumPy': x}
        try:
            import torch
            ways['PyTorch'] = torch.ones(16)
        except ImportError:
            pass
        for _ in range(3):
            in_c = float(subprocess.run([program, module.path, str(CALLS)], check=True, capture_output=True).stdout)
            texts = [f'{name} {(us := fastest(session, value)):.2f} us ({us - in_c:+.2f})' for name, value in ways.items()]
            print(f'C {in_c:.2f} us; ' + '; '.join(texts))


if __name__ == '__main__':
    main()
