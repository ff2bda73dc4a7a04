#!/usr/bin/env python3
"""Tuning whose records are on a small disk that gets full: what was recorded stays, nothing wrong is added, and it ends.

usage: tune_disk_test.py GANTRY
"""
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from program_under_test import ProgramTest

ProgramTest.GANTRY = str(pathlib.Path(sys.argv.pop(1)).absolute())

# What it prints goes where there is room. It stays, and the disk with it, until its input ends.
SCRIPT = '''
mount -t tmpfs -o size="$1" none disk || exit 99
shift
"$@" > ../out 2> ../err
echo $? > ../code.new && mv ../code.new ../code
cat > /dev/null
'''


class Disk:
    """A disk that only the process sees, which runs a command there; and what others see of it."""

    def __init__(self, test, size, *command):
        self.test = test
        self.folder = test.folder / 'work'
        shutil.rmtree(self.folder, ignore_errors=True)
        (self.folder / 'disk').mkdir(parents=True)
        for name in ('out', 'err', 'code'):
            (test.folder / name).unlink(missing_ok=True)
        self.process = subprocess.Popen(['unshare', '-m', 'bash', '-c', SCRIPT, 'bash', size, *command], cwd=self.folder,
                                        env=test.environment, stdin=subprocess.PIPE)

    def path(self, name):
        return pathlib.Path(f'/proc/{self.process.pid}/root{self.folder}/disk/{name}')

    def run_there(self, *command):
        return subprocess.run(['nsenter', f'--mount=/proc/{self.process.pid}/ns/mnt', 'sh', '-c', 'cd "$1"; shift; "$@"', 'sh',
                               str(self.folder), *command], env=self.test.environment, text=True, capture_output=True,
                              timeout=120, check=False)

    def rows(self):
        """The records in their order; none as long as there is no store."""
        listed = self.run_there(self.test.GANTRY, 'records', 'list', 'disk/lab.db', '--json')
        self.test.assertNotIn('left out', listed.stderr)
        return json.loads(listed.stdout) if listed.returncode == 0 else []

    def fill(self):
        with open(self.path('filler'), 'wb', buffering=0) as filler:
            with contextlib.suppress(OSError):
                while True:
                    filler.write(bytes(4096))

    def said(self):
        return (self.test.folder / 'err').read_text()

    def has_ended(self):
        if self.process.poll() == 99:
            self.test.skipTest('no disk can be mounted here')
        return (self.test.folder / 'code').exists()

    def code(self):
        return int((self.test.folder / 'code').read_text())

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which('unshare') and shutil.which('nsenter'), 'mounting a small disk needs root')
class FullDisk(ProgramTest):
    PATIENCE, PAUSE = 300, 0.5

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gantry('zoo', 'squeezenet1_1', '--size', '64', '-o', 'm.onnx')

    def tune_on_disk(self, size, seconds):
        disk = Disk(self, size, self.GANTRY, 'tune', '../m.onnx', '--precision', 'fp32', '--seed', '1', '--time', f'{seconds}s',
                    '--records', 'disk/lab.db', '--json')
        self.addCleanup(disk.close)
        return disk

    def filled_after_the_first_records(self):
        """A tuner that goes on where nothing more can be written, and the rows that were there."""
        disk = self.tune_on_disk('1m', 75)
        self.wait_until(lambda: disk.has_ended() or disk.rows())
        disk.fill()
        before = disk.rows()
        self.assertTrue(before, disk.said())
        self.wait_until(lambda: disk.has_ended() or 'the disk is full' in disk.said())
        if 'the disk is full' not in disk.said():
            self.skipTest('the tuner had nothing left to write: this machine is busy or slow')
        return disk, before

    def result(self):
        return json.loads((self.folder / 'out').read_text())

    def expect_whole(self, disk):
        checked = disk.run_there(sys.executable, '-c', 'import sqlite3\n'
                                 'print(sqlite3.connect("disk/lab.db").execute("pragma integrity_check").fetchall())')
        self.assertEqual(checked.stdout, "[('ok',)]\n", checked.stderr)

    def test_a_disk_that_stays_full_costs_what_came_after_and_is_said(self):
        disk, before = self.filled_after_the_first_records()
        self.wait_until(disk.has_ended)
        self.assertEqual(disk.code(), 1, disk.said())
        self.assertIn('disk/lab.db: the disk is full', disk.said())
        self.assertEqual(disk.said().count('is kept, and written as soon as that can be'), 1, disk.said())
        after = disk.rows()
        self.assertEqual(after[:len(before)], before)
        result = self.result()
        self.assertGreater(result['trials'], 0)
        self.assertEqual(len(after), result['records_written'])
        disk.path('filler').unlink()
        self.expect_whole(disk)

    def test_a_disk_that_gets_room_again_costs_nothing(self):
        disk, before = self.filled_after_the_first_records()
        if disk.has_ended():
            self.skipTest('the tuner ended before there was room again: this machine is busy or slow')
        self.assertEqual(disk.rows(), before)
        disk.path('filler').unlink()
        self.wait_until(disk.has_ended)
        self.assertEqual(disk.code(), 0, disk.said())
        after = disk.rows()
        self.assertEqual(after[:len(before)], before)
        self.assertGreater(len(after), len(before))
        self.assertEqual(len(after), self.result()['records_written'])
        self.expect_whole(disk)

    def test_a_disk_without_room_for_a_store_is_said_before_anything_is_measured(self):
        disk = self.tune_on_disk('8k', 60)
        self.wait_until(disk.has_ended)
        self.assertEqual(disk.code(), 1, disk.said())
        self.assertIn('disk/lab.db: the disk is full', disk.said())
        self.assertEqual((self.folder / 'out').read_text(), '')


if __name__ == '__main__':
    unittest.main(verbosity=2)
