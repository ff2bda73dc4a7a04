#!/usr/bin/env python3
"""Records under stress: programs that share a store, that are killed, whose store is locked, damaged, full or read-only.

usage: fault_test.py GANTRY
"""
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

GANTRY = str(pathlib.Path(sys.argv.pop(1)).absolute())
HEAD = json.dumps({'schema': 'gantry-records', 'version': 1}) + '\n'


def record(number, **changes):
    """One as `gantry records export` writes it."""
    line = {
        'work': f'{number:064x}', 'target': 'x86-64-v3', 'machine': 'Test CPU', 'features': 'avx2', 'threads': 2,
        'precision': 'fp32', 'optimize': 'speed', 'generator': '0.1.0-test', 'op': 'nn.conv',
        'decision': '{form=direct, block=8}', 'baseline': '{form=gemm}', 'outcome': 'measured', 'reason': '',
        'confirmation': 1, 'seconds': 0.01, 'baseline_seconds': 0.0125, 'ratio': 0.8, 'ratio_low': 0.79,
        'ratio_high': 0.81, 'process_seconds': '0.01', 'baseline_process_seconds': '0.0125', 'timed': 'kernel',
        'model': f'model {number}', 'nodes': 'conv', 'board': '', 'beside': '', 'date': '2026-11-27T08:05:00Z',
        'source': 'a test'}
    return json.dumps(line | changes) + '\n'


class StoreTest(unittest.TestCase):
    PLACE = 'lab.db'

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def place(self):
        return self.PLACE

    def start(self, *arguments, folder=None):
        return subprocess.Popen([GANTRY, 'records', *arguments], cwd=folder or self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_gantry(self, *arguments, status=0, folder=None):
        program = self.start(*arguments, folder=folder)
        out, err = program.communicate(timeout=120)
        self.assertEqual(program.returncode, status, f'{arguments}: {out}{err}')
        return out if status == 0 else err

    def write(self, name, numbers):
        (self.folder / name).write_text(HEAD + ''.join(record(number) for number in numbers))
        return name

    def settle(self):
        """Returns when nobody works on the store any more."""

    def works(self, folder=None):
        return sorted(int(line['work'], 16)
                      for line in json.loads(self.run_gantry('list', self.place(), '--json', folder=folder)))


class Shared(StoreTest):
    def test_programs_that_add_at_once_lose_nothing(self):
        count, each = 6, 40
        for i in range(count):
            self.write(f'{i}.jsonl', range(i * each, (i + 1) * each))
        programs = [self.start('import', self.place(), f'{i}.jsonl') for i in range(count)]
        for program in programs:
            _, err = program.communicate(timeout=120)
            self.assertEqual(program.returncode, 0, err)
        self.assertEqual(self.works(), list(range(count * each)))

    def test_programs_that_add_the_same_at_once_add_it_once(self):
        self.write('same.jsonl', range(400))
        programs = [self.start('import', self.place(), 'same.jsonl', '--json') for _ in range(4)]
        imported = []
        for program in programs:
            out, err = program.communicate(timeout=120)
            self.assertEqual(program.returncode, 0, err)
            imported.append(json.loads(out)['imported'])
        self.assertEqual(sorted(imported), [0, 0, 0, 400])
        self.assertEqual(self.works(), list(range(400)))

    def test_who_is_killed_leaves_all_or_nothing(self):
        """Killed, or interrupted as by Ctrl-C, at any moment; the next one finds a whole store."""
        each, seed = 400, 5
        moments = random.Random(seed)
        self.write('first.jsonl', [0])
        self.run_gantry('import', self.place(), 'first.jsonl')
        kept = [0]
        for turn in range(1, 25):
            numbers = list(range(turn * each, (turn + 1) * each))
            program = self.start('import', self.place(), self.write('next.jsonl', numbers))
            time.sleep(moments.uniform(0, 0.25))
            program.send_signal(signal.SIGKILL if turn % 2 else signal.SIGINT)
            program.communicate(timeout=60)
            self.settle()
            found = self.works()
            self.assertIn(found, [kept, kept + numbers], f'turn {turn}, seed {seed}')
            if program.returncode == 0:
                self.assertEqual(found, kept + numbers)  # what was said to be added is there
            kept = found
        self.write('last.jsonl', [1])
        self.run_gantry('import', self.place(), 'last.jsonl')
        self.assertEqual(self.works(), sorted(kept + [1]))

    def test_a_second_import_adds_nothing(self):
        self.write('some.jsonl', range(10))
        self.run_gantry('import', self.place(), 'some.jsonl')
        report = json.loads(self.run_gantry('import', self.place(), 'some.jsonl', '--json'))
        self.assertEqual((report['imported'], report['known']), (0, 10))
        self.assertEqual(self.works(), list(range(10)))

    def test_what_is_exported_is_imported(self):
        self.write('some.jsonl', range(10))
        self.run_gantry('import', self.place(), 'some.jsonl')
        exported = self.run_gantry('export', self.place())
        given = (self.folder / 'some.jsonl').read_text()
        self.assertEqual([json.loads(line) for line in exported.splitlines()],
                         [json.loads(line) for line in given.splitlines()])


class File(StoreTest):
    def import_one(self, number, **how):
        self.write(f'{number}.jsonl', [number])
        return self.run_gantry('import', 'lab.db', str(self.folder / f'{number}.jsonl'), **how)

    def test_a_lock_is_waited_for_and_its_holder_named(self):
        self.import_one(1)
        holder = sqlite3.connect(self.folder / 'lab.db', isolation_level=None)
        holder.execute('BEGIN IMMEDIATE')
        began = time.monotonic()
        error = self.import_one(2, status=1)
        took = time.monotonic() - began
        self.assertGreater(took, 5)
        self.assertLess(took, 60)
        self.assertIn('lab.db', error)
        self.assertIn(f'by process {os.getpid()} ', error)
        self.assertEqual(self.works(), [1])  # who reads need not wait
        holder.execute('ROLLBACK')
        self.import_one(2)
        self.assertEqual(self.works(), [1, 2])

    def test_a_lock_that_is_given_back_in_time_is_no_error(self):
        self.import_one(1)
        holder = sqlite3.connect(self.folder / 'lab.db', isolation_level=None)
        holder.execute('BEGIN IMMEDIATE')
        waiting = self.start('import', 'lab.db', self.write('2.jsonl', [2]))
        time.sleep(1)
        holder.execute('COMMIT')
        _, err = waiting.communicate(timeout=60)
        self.assertEqual(waiting.returncode, 0, err)
        self.assertEqual(self.works(), [1, 2])

    def test_a_damaged_store_is_an_error_and_no_crash(self):
        self.write('some.jsonl', range(200))
        self.run_gantry('import', 'lab.db', 'some.jsonl')
        whole = (self.folder / 'lab.db').read_bytes()
        changes = random.Random(3)
        for turn in range(30):
            damaged = bytearray(whole)
            for _ in range(50):
                damaged[changes.randrange(len(damaged))] = changes.randrange(256)
            (self.folder / 'damaged.db').write_bytes(damaged)
            for command in (['list', 'damaged.db'], ['import', 'damaged.db', 'some.jsonl'], ['prune', 'damaged.db', '--id', '3']):
                program = self.start(*command)
                _, err = program.communicate(timeout=60)
                self.assertIn(program.returncode, (0, 1), f'turn {turn}, seed 3: {err}')
                if program.returncode == 1:
                    self.assertIn('damaged.db', err)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which('unshare'), 'mounting a small disk needs root')
class SmallDisk(StoreTest):
    def on_disk(self, size, script):
        """Runs a shell script in a folder that is a disk of that size."""
        (self.folder / 'disk').mkdir(exist_ok=True)
        probe = ['unshare', '-m', 'mount', '-t', 'tmpfs', 'none', str(self.folder / 'disk')]
        if subprocess.run(probe, capture_output=True, check=False).returncode:
            self.skipTest('no disk can be mounted here')
        done = subprocess.run(['unshare', '-m', 'bash', '-c',
                               f'mount -t tmpfs -o size={size} none disk && cd disk || exit 1\n{script}'],
                              cwd=self.folder, env=dict(os.environ, GANTRY=GANTRY), text=True, capture_output=True,
                              timeout=120, check=False)
        return done

    def test_a_full_disk_keeps_what_was_there(self):
        self.write('one.jsonl', [1])
        self.write('many.jsonl', range(1000, 4000))
        done = self.on_disk('400k', '''
            $GANTRY records import lab.db ../one.jsonl || exit 1
            $GANTRY records import lab.db ../many.jsonl; echo "code $?"
            $GANTRY records list lab.db --json''')
        self.assertIn('code 1', done.stdout, done.stderr)
        self.assertIn('lab.db: the disk is full', done.stderr)
        listed = json.loads(done.stdout[done.stdout.index('code 1') + len('code 1'):])
        self.assertEqual([int(one['work'], 16) for one in listed], [1])

    def test_a_read_only_disk_can_be_read(self):
        self.write('one.jsonl', [1])
        self.write('two.jsonl', [2])
        done = self.on_disk('4m', '''
            $GANTRY records import lab.db ../one.jsonl || exit 1
            mount -o remount,ro . 2>/dev/null || mount -o remount,ro "$PWD" || exit 99
            $GANTRY records import lab.db ../two.jsonl; echo "code $?"
            $GANTRY records list lab.db --json''')
        self.assertIn('code 1', done.stdout, done.stderr)
        self.assertIn('lab.db: may not be written to', done.stderr)
        listed = json.loads(done.stdout[done.stdout.index('code 1') + len('code 1'):])
        self.assertEqual([int(one['work'], 16) for one in listed], [1])


if __name__ == '__main__':
    unittest.main()
