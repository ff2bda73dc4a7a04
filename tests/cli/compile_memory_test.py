#!/usr/bin/env python3
"""Memory that compiling takes: a fifth more than a model's weights at most.

usage: compile_memory_test.py GANTRY
"""
import array
import os
import pathlib
import random
import sys
import unittest

from program_under_test import ProgramTest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / 'python'))
import models  # noqa: E402

ProgramTest.GANTRY = str(pathlib.Path(sys.argv[1]).absolute())
MOST = 1.2  # times the weights
COMPILER = 128 << 20  # bytes of the compiler itself, LLVM included, and of its buffers: beside few weights they count


def peak_of(command, environment):
    """Bytes that the command had in memory at its peak. They are this process's at least, which so has to stay small."""
    process = os.posix_spawn(command[0], command, environment, file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)])
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        raise AssertionError(f'{command}: status {status}')
    return usage.ru_maxrss * 1024


def write_product(path, depth, units, odd):
    """A model of x (1, depth) times a matrix, written in small parts; `odd` bytes more are before the matrix."""
    draw = random.Random(1)
    part = array.array('f', (draw.gauss(0, 0.02) for _ in range(64 * units))).tobytes()
    parts, rest = divmod(depth, 64)
    assert rest == 0
    size = parts * len(part)
    tensor = (models.number(1, depth) + models.number(1, units) + models.number(2, models.FLOAT) +
              models.chunk(8, 'w' + 'w' * odd) + models.varint(9 << 3 | 2) + models.varint(size))
    before = models.chunk(1, models.node('MatMul', ['x', 'w' + 'w' * odd], ['y'], 'product')) + models.chunk(2, 'g')
    after = (models.chunk(11, models.value_info('x', models.FLOAT, (1, depth))) +
             models.chunk(12, models.value_info('y', models.FLOAT, (1, units))))
    field = models.varint(5 << 3 | 2) + models.varint(len(tensor) + size)
    graph = len(before) + len(field) + len(tensor) + size + len(after)
    with open(path, 'wb') as file:
        file.write(models.number(1, 8) + models.varint(7 << 3 | 2) + models.varint(graph) + before + field + tensor)
        for _ in range(parts):
            file.write(part)
        file.write(after + models.chunk(8, models.number(2, 17)))
    return size


class Memory(ProgramTest):
    def expect_little(self, model, target, most):
        command = [self.GANTRY, 'compile', str(model), '--target', target, '-o', str(model.with_suffix('.gmod'))]
        peak = peak_of(command, self.environment)
        self.assertLess(peak, most, f'{model.name} for {target}: {peak / model.stat().st_size:.2f} times the weights')

    def test_a_network_of_many_matrices(self):
        self.gantry('zoo', 'bert_base', '-o', 'bert.onnx')
        model = self.folder / 'bert.onnx'
        for target in ('x86-64-v3', 'sapphirerapids', 'cortex-a76'):
            with self.subTest(target=target):
                self.expect_little(model, target, MOST * model.stat().st_size)  # all but some 100 kB of it are weights

    def test_a_network_of_which_most_is_one_matrix(self):
        self.gantry('zoo', 'vgg16', '-o', 'vgg16.onnx')
        model = self.folder / 'vgg16.onnx'
        self.expect_little(model, 'x86-64-v3', MOST * model.stat().st_size)

    def test_one_matrix_wherever_it_lies_in_the_file(self):
        for odd in (0, 1):
            with self.subTest(odd=odd):
                model = self.folder / f'product{odd}.onnx'
                size = write_product(model, 12800, 4096, odd)
                self.expect_little(model, 'x86-64-v3', MOST * size + COMPILER)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
