#!/usr/bin/env python3
"""Tuning by executed instructions: over RPC on an emulated AArch64 board, which counts by gantry's plugin for qemu, and what
is said where nothing counts.

usage: tune_instructions_test.py GANTRY GANTRY_DEVICE AARCH64_GANTRY_DEVICE QEMU_PLUGIN
"""
import json
import pathlib
import shutil
import sys
import unittest

from program_under_test import ProgramTest, board

GANTRY, DEVICE, AARCH64, PLUGIN = (pathlib.Path(argument).absolute() for argument in sys.argv[1:5])
ProgramTest.GANTRY = str(GANTRY)
QEMU = shutil.which('qemu-aarch64')


class InstructionsTest(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gantry('zoo', 'squeezenet1_1', '--size', '64', '-o', 'm.onnx')

    def tune(self, *options, status=0):
        return self.gantry('tune', 'm.onnx', '--metric', 'instructions', '--precision', 'fp32', '--threads', '1', '--force',
                           *options, status=status)


class EmulatedBoard(InstructionsTest):
    def setUp(self):
        if QEMU is None:
            self.skipTest('no qemu-aarch64')
        if not AARCH64.exists():
            self.skipTest('no gantry-device built for AArch64')
        if not PLUGIN.exists():
            self.skipTest('no plugin for qemu')

    @staticmethod
    def counting():
        return [QEMU, '-plugin', str(PLUGIN), AARCH64]

    def result(self, address, *options):
        return json.loads(self.tune('--on', address, *options, '--json').stdout)

    def test_is_tuned_for(self):
        with board(self.counting(), self.folder) as address:
            result = self.result(address, '--time', '150s', '--trials', '24', '--seed', '1', '-o', 'tuned.gmod')
            # What the board computes is what this machine does.
            self.gantry('run', 'm.onnx', '--random=7', '-o', 'expected.npy', '--precision', 'fp32')
            self.gantry('run', 'tuned.gmod', '--on', address, '--random=7', '--expect', 'expected.npy', '--tolerance', '1e-4')
        self.assertEqual(result['metric'], 'instructions')
        self.assertGreater(result['trials'], 0)
        self.assertIsNone(result['untuned_ms'])
        # Some 28 million multiply-adds, of which an instruction makes four at most; and not hundreds of others for each.
        self.assertGreater(result['untuned_instructions'], 5e6)
        self.assertLess(result['untuned_instructions'], 3e8)
        tasks = result['tasks']
        self.assertAlmostEqual(sum(task['share'] for task in tasks), 0.9, delta=0.4)
        for task in tasks:
            self.assertAlmostEqual(task['untuned_instructions'] / result['untuned_instructions'], task['share'], delta=0.2)
        changed = [task for task in tasks if task['tuned'] != task['untuned']]
        for task in changed:
            self.assertLess(task['ratio']['interval'][1], 0.99)
        if result['ratio'] is None:
            self.assertEqual(changed, [])
        else:
            self.assertLess(result['ratio']['interval'][1], 1)
            # Counts hardly scatter.
            low, high = result['ratio']['interval']
            self.assertLess(high - low, 0.01)

    def test_counts_do_not_change_from_run_to_run(self):
        with board(self.counting(), self.folder) as address:
            first, second = (self.result(address, '--time', '60s', '--trials', '1', '--seed', seed) for seed in '12')
        for a, b in [(first, second), *zip(first['tasks'], second['tasks'])]:
            self.assertLess(abs(a['untuned_instructions'] - b['untuned_instructions']), 1 + 1e-3 * a['untuned_instructions'])

    def test_two_boards_share_what_is_counted(self):
        other = self.folder / 'other'
        other.mkdir()
        with (other / 'log').open('w') as log, board(self.counting(), self.folder) as one, \
                board(self.counting(), other, log=log) as two:
            result = self.result(f'{one},{two}', '--time', '90s', '--trials', '24', '--seed', '1')
        self.assertIn('and 1 more', result['machine'])
        self.assertGreater(result['trials'], 0)
        # The first session asks what it is; others count.
        self.assertGreater((other / 'log').read_text().count('session started'), 1)
        if result['ratio'] is not None:
            low, high = result['ratio']['interval']
            self.assertLess(high, 1)
            self.assertLess(high - low, 0.01)

    def test_without_the_plugin_it_is_an_error_of_the_board(self):
        with board([QEMU, AARCH64], self.folder) as address:
            errors = self.tune('--on', address, '--time', '30s', status=2).stderr
        self.assertIn(address, errors)
        self.assertIn('cannot count instructions', errors)
        self.assertIn('-plugin', errors)


class ThisMachine(InstructionsTest):
    def test_counts_or_says_that_it_cannot(self):
        process = self.start('tune', 'm.onnx', '--metric', 'instructions', '--threads', '1', '--trials', '1', '--time', '30s', '--json')
        out, errors = process.communicate(timeout=self.LONGEST)
        if process.returncode == 2:
            self.assertIn('this machine: cannot count instructions', errors)
            return
        self.assertEqual(process.returncode, 0, errors)
        self.assertGreater(json.loads(out)['untuned_instructions'], 5e6)

    def test_records_are_of_times_alone(self):
        errors = self.tune('--records', 'lab.db', status=1).stderr
        self.assertIn('--records', errors)
        self.assertFalse((self.folder / 'lab.db').exists())

    def test_another_metric_is_refused(self):
        self.gantry('tune', 'm.onnx', '--metric', 'cycles', status=1)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[5:], verbosity=2)
