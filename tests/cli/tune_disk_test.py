#!/usr/bin/env python3
"""Tuning whose records, or whose board's programs, are on a small disk that gets full, or in a small cache: what was
recorded stays, nothing wrong is added, and it ends.

usage: tune_disk_test.py GANTRY GANTRY_DEVICE
"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time
import unittest

from program_under_test import ProgramTest, board

ProgramTest.GANTRY = str(pathlib.Path(sys.argv.pop(1)).absolute())
DEVICE = str(pathlib.Path(sys.argv.pop(1)).absolute())

# The disk stays until the input ends.
HOLD = 'mount -t tmpfs -o size="$1" none disk && echo mounted && cat > /dev/null'


class Disk:
    """A disk that only the processes see which are run there; and what others see of it."""

    def __init__(self, test, size):
        self.test = test
        self.folder = test.folder / 'work'
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / 'disk').mkdir(parents=True)
        self.holder = subprocess.Popen(['unshare', '-m', 'sh', '-c', HOLD, 'sh', size], cwd=self.folder, text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        test.addCleanup(self.close)
        if self.holder.stdout.readline() != 'mounted\n':
            test.skipTest('no disk can be mounted here')

    def path(self, name):
        return pathlib.Path(f'/proc/{self.holder.pid}/root{self.folder}/disk/{name}')

    def there(self, *command):
        """A command line that runs one beside the disk."""
        return ['nsenter', f'--mount=/proc/{self.holder.pid}/ns/mnt', 'sh', '-c', 'cd "$1"; shift; exec "$@"', 'sh',
                str(self.folder), *command]

    def run_there(self, *command):
        return subprocess.run(self.there(*command), env=self.test.environment, text=True, capture_output=True, timeout=120,
                              check=False)

    def rows(self, records='disk/lab.db'):
        """The records in their order; none as long as there is no store."""
        listed = self.run_there(self.test.GANTRY, 'records', 'list', records, '--json')
        self.test.assertNotIn('left out', listed.stderr)
        return json.loads(listed.stdout) if listed.returncode == 0 else []

    def fill(self):
        with open(self.path('filler'), 'ab', buffering=0) as filler:
            with contextlib.suppress(OSError):
                while True:
                    filler.write(bytes(4096))

    def close(self):
        self.holder.communicate(timeout=60)


class Tuner:
    """One that keeps its records on a disk. What it prints goes where there is room.

    The number of trials ends it, if the time does not before: how much it does in that is the machine's matter.
    """

    def __init__(self, test, disk, trials, time, *options, records='disk/lab.db'):
        self.folder = test.folder
        with open(self.folder / 'out', 'w') as out, open(self.folder / 'err', 'w') as err:
            self.process = subprocess.Popen(
                disk.there(test.GANTRY, 'tune', '../m.onnx', '--precision', 'fp32', '--seed', '1', '--time', time,
                           '--trials', str(trials), *options, '--records', records, '--json'), env=test.environment, stdout=out, stderr=err)
        test.addCleanup(self.stop)

    def printed(self):
        return (self.folder / 'out').read_text()

    def said(self):
        return (self.folder / 'err').read_text()

    def result(self):
        return json.loads(self.printed())

    def has_ended(self):
        return self.process.poll() is not None

    def code(self):
        return self.process.wait(timeout=600)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=60)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which('unshare') and shutil.which('nsenter'), 'mounting a small disk needs root')
class FullDisk(ProgramTest):
    PATIENCE, PAUSE = 300, 0.5

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gantry('zoo', 'squeezenet1_1', '--size', '64', '-o', 'm.onnx')

    def filled_after_the_first_records(self, trials, time):
        """A tuner that goes on where nothing more can be written, and the rows that were there."""
        disk = Disk(self, '1m')
        tuner = Tuner(self, disk, trials, time)
        self.wait_until(lambda: tuner.has_ended() or disk.rows())
        disk.fill()
        before = disk.rows()
        if tuner.has_ended() and not before:
            self.skipTest('the tuner ended with nothing to write: this machine is busy or slow')
        self.assertTrue(before, tuner.said())
        self.wait_until(lambda: tuner.has_ended() or 'the disk is full' in tuner.said())
        if 'the disk is full' not in tuner.said():
            self.skipTest('the tuner had nothing left to write: this machine is busy or slow')
        return disk, tuner, before

    def expect_whole(self, disk):
        checked = disk.run_there(sys.executable, '-c', 'import sqlite3\n'
                                 'print(sqlite3.connect("disk/lab.db").execute("pragma integrity_check").fetchall())')
        self.assertEqual(checked.stdout, "[('ok',)]\n", checked.stderr)

    def test_a_disk_that_stays_full_costs_what_came_after_and_is_said(self):
        disk, tuner, before = self.filled_after_the_first_records(26, '60s')
        self.assertEqual(tuner.code(), 1, tuner.said())
        self.assertIn('disk/lab.db: the disk is full', tuner.said())
        self.assertEqual(tuner.said().count('is kept, and written as soon as that can be'), 1, tuner.said())
        after = disk.rows()
        self.assertEqual(after[:len(before)], before)
        result = tuner.result()
        self.assertGreater(result['trials'], 0)
        self.assertEqual(len(after), result['records_written'])
        disk.path('filler').unlink()
        self.expect_whole(disk)

    def test_a_disk_that_gets_room_again_costs_nothing(self):
        # It does not end before there is room, however slow that is seen to.
        disk, tuner, before = self.filled_after_the_first_records(10000, '1200s')
        self.assertEqual(disk.rows(), before)
        disk.path('filler').unlink()
        self.wait_until(lambda: tuner.has_ended() or len(disk.rows()) > len(before))
        after = disk.rows()
        self.assertEqual(after[:len(before)], before)
        self.assertGreater(len(after), len(before), tuner.said())
        self.assertNotIn('error', tuner.said())
        tuner.stop()
        self.expect_whole(disk)

    def test_a_disk_without_room_for_a_store_is_said_before_anything_is_measured(self):
        tuner = Tuner(self, Disk(self, '8k'), 1, '120s')
        self.assertEqual(tuner.code(), 1, tuner.said())
        self.assertIn('disk/lab.db: the disk is full', tuner.said())
        self.assertEqual(tuner.printed(), '')

    def test_a_board_whose_disk_stays_full_ends_it_and_no_candidate_is_blamed(self):
        disk = Disk(self, '64m')
        with board(disk.there(DEVICE), disk.folder / 'disk') as address:
            tuner = Tuner(self, disk, 10000, '300s', '--on', address, records='lab.db')
            self.wait_until(lambda: tuner.has_ended() or disk.rows('lab.db'))
            before = disk.rows('lab.db')
            self.assertTrue(before, tuner.said())
            # What the board evicts for a program is taken, too.
            while not tuner.has_ended():
                disk.fill()
                time.sleep(0.001)
            self.assertEqual(tuner.code(), 2, tuner.said())
        self.assertIn('its disk is full', tuner.said())
        after = disk.rows('lab.db')
        self.assertEqual(after[:len(before)], before)
        self.assertEqual({row['outcome'] for row in after} & {'crashed', 'timed-out'}, set(), tuner.said())


class SmallCache(ProgramTest):
    def test_a_cache_with_room_for_one_program_ends_it_and_the_error_says_that_there_are_two(self):
        self.gantry('zoo', 'squeezenet1_1', '--size', '64', '-o', 'm.onnx')
        self.gantry('compile', 'm.onnx', '--precision', 'fp32', '-o', 'm.gmod')
        room = (self.folder / 'm.gmod').stat().st_size * 3 // 2
        with board([DEVICE], self.folder, '--cache-size', str(room)) as address:
            said = self.gantry('tune', 'm.onnx', '--precision', 'fp32', '--time', '120s', '--on', address, status=2).stderr
        error = said.splitlines()[-1]
        for words in (str(self.folder / 'cache'), '--cache-size', 'two programs of the model there at once'):
            self.assertIn(words, error)


if __name__ == '__main__':
    unittest.main(verbosity=2)
