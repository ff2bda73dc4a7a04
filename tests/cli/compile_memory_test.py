#!/usr/bin/env python3
"""Memory that compiling takes: a model's weights are in it once, as they are in the file or as the target wants them.

usage: compile_memory_test.py GANTRY
"""
import os
import pathlib
import sys
import unittest

from program_under_test import ProgramTest

ProgramTest.GANTRY = str(pathlib.Path(sys.argv[1]).absolute())
MOST = 1.05  # times the weights
COMPILER = 160 << 20  # bytes of the compiler itself, LLVM included


def peak_of(command, environment):
    """Bytes that the command had in memory at its peak."""
    process = os.posix_spawn(command[0], command, environment, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        raise AssertionError(f'{command}: status {status}')
    return usage.ru_maxrss * 1024


class Memory(ProgramTest):
    def test_holds_weights_once(self):
        self.gantry('zoo', 'bert_base', '-o', 'bert.onnx')
        model = self.folder / 'bert.onnx'
        weights = model.stat().st_size  # all but some 100 kB of it
        for target in ('x86-64-v3', 'cortex-a76'):
            with self.subTest(target=target):
                command = [self.GANTRY, 'compile', str(model), '--target', target, '-o', str(self.folder / 'bert.gmod')]
                peak = peak_of(command, self.environment)
                self.assertLess(peak, MOST * weights + COMPILER, f'{peak / weights:.2f} times the weights')


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
