#!/usr/bin/env python3
"""Commands that measure on one board, or on this machine, at once: they take turns, wait with a word, and hang on nothing.

usage: turns_test.py GANTRY GANTRY_DEVICE
"""
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))
from program_under_test import ProgramTest, board, seconds  # noqa: E402

ProgramTest.GANTRY, DEVICE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
ProgramTest.LONGEST = 120
BENCH = ['--threads', '1', '--processes', '4', '--warmup', '20', '--repeat', '200']


def leases(log):
    """When each session had the lease: (begin, end), by what the server says."""
    held, open_since = [], {}
    for line in log.splitlines():
        found = re.match(r'(\S+) info .* lease of session (\d+): (has|had) the lease', line)
        if not found:
            continue
        at, session, what = seconds(found[1]), found[2], found[3]
        if what == 'has':
            open_since[session] = at
        else:
            held.append((open_since.pop(session), at))
    return sorted(held)


class Turns(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.environment['XDG_RUNTIME_DIR'] = str(cls.folder)
        cls.environment.pop('GANTRY_NO_WAIT', None)
        cls.gantry('zoo', 'lstm', '--size', '5', '-o', 'm.onnx')
        cls.gantry('compile', 'm.onnx', '-o', 'm.gmod')

    @contextlib.contextmanager
    def board(self, *options):
        with (self.folder / 'log').open('w') as log, board([DEVICE], self.folder, *options, log=log) as address:
            yield address

    def log(self):
        return (self.folder / 'log').read_text()

    def measuring(self, address):
        return json.loads(self.gantry('boards', 'info', address, '--json').stdout)['measuring']

    def occupied(self, address):
        """A command that measures on the board for a minute."""
        holder = self.start('bench', 'm.gmod', '--on', address, '--threads', '1', '--duration', '60s', '--precision-goal',
                            '0.0001%')
        self.wait_until(lambda: self.measuring(address)['holder'])
        return holder

    def test_two_benches_take_turns_and_never_overlap(self):
        with self.board('--turn', '0.3') as address:
            both = [self.start('bench', 'm.gmod', '--on', address, *BENCH, '--json') for _ in range(2)]
            documents = [json.loads(self.finish(process).stdout) for process in both]
            log = self.log()
        for document in documents:
            self.assertEqual(len(document['processes']), 4)
            self.assertEqual({len(p['samples_ms']) for p in document['processes']}, {200})
        self.assertGreater(sum(d['turns']['waited_s'] for d in documents), 0)
        held = leases(log)
        self.assertGreaterEqual(len(held), 2)
        for before, after in zip(held, held[1:]):
            self.assertLessEqual(before[1], after[0] + 0.002)

    def test_who_waits_is_told_for_whom_and_boards_info_shows_it(self):
        with self.board() as address:
            holder = self.occupied(address)
            waiting = self.start('--color', 'never', 'bench', 'm.gmod', '--on', address, '--priority', 'background', *BENCH)
            self.wait_until(lambda: self.measuring(address)['waiting_count'] == 1)
            shown = self.measuring(address)
            self.assertIn('bench m.gmod', shown['holder']['purpose'])
            self.assertEqual(shown['waiting'][0]['priority'], 'background')
            self.assertTrue(shown['waiting'][0]['purpose'].endswith(': bench m.gmod'), shown['waiting'])
            text = self.gantry('boards', 'info', address).stdout
            self.assertRegex(text, r'lease +(measured|held) by 127\.0\.0\.1')
            holder.kill()
            holder.communicate()
            err = self.finish(waiting).stderr
            self.assertRegex(err, r"waiting for 127\.0\.0\.1, '.*bench m\.gmod', who has measured on .* for \d+ s")

    def test_interrupted_while_it_waits_it_leaves_the_queue(self):
        with self.board() as address:
            holder = self.occupied(address)
            waiting = self.start('bench', 'm.gmod', '--on', address, *BENCH)
            self.wait_until(lambda: self.measuring(address)['waiting_count'] == 1)
            waiting.send_signal(signal.SIGINT)
            waiting.communicate(timeout=10)
            self.assertNotEqual(waiting.returncode, 0)
            self.wait_until(lambda: self.measuring(address)['waiting_count'] == 0)
            holder.kill()
            holder.communicate()

    def test_a_stopped_holder_is_not_waited_for(self):
        with self.board('--turn', '1') as address:
            holder = self.occupied(address)
            holder.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            self.gantry('bench', 'm.gmod', '--on', address, *BENCH)
            self.assertLess(time.monotonic() - began, 60)
            holder.kill()
            holder.communicate()

    def test_it_does_not_wait_longer_than_it_is_to(self):
        with self.board() as address:
            holder = self.occupied(address)
            for options in (['--no-wait'], ['--max-wait', '500ms']):
                err = self.gantry('bench', 'm.gmod', '--on', address, *options, *BENCH, status=2).stderr
                self.assertRegex(err, r'127\.0\.0\.1 \(\S+: bench m\.gmod\) has measured there for \d+ s; try again')
            holder.kill()
            holder.communicate()

    def test_compare_and_profile_take_turns_too(self):
        with self.board('--turn', '0.3') as address:
            compare = self.start('compare', 'm.gmod', 'm.gmod', '--on', address, '--rounds', '3', '--warmup', '5', '--threads',
                                 '1')
            profile = self.start('profile', 'm.gmod', '--on', address, *BENCH)
            self.finish(compare)
            self.finish(profile)
            held = leases(self.log())
        for before, after in zip(held, held[1:]):
            self.assertLessEqual(before[1], after[0] + 0.002)

    def test_runs_are_let_in_and_recorded(self):
        with self.board() as address:
            bench = self.start('bench', 'm.gmod', '--on', address, '--threads', '1', '--duration', '8s', '--precision-goal',
                               '0.0001%', '--json')
            self.wait_until(lambda: self.measuring(address)['holder'])
            # For a while, so that some are let in while samples are taken, not while it loads.
            end = time.monotonic() + 6
            while time.monotonic() < end:
                self.gantry('run', 'm.gmod', '--random', '--on', address, '--threads', '1')
            document = json.loads(self.finish(bench).stdout)
        beside = [row for process in document['processes'] for row in process['beside']]
        self.assertTrue(beside)
        self.assertEqual({row['address'] for row in beside}, {'127.0.0.1'})
        self.assertGreater(sum(row['runs'] + row['loads'] for row in beside), 0)

    def test_on_this_machine(self):
        both = [self.start('bench', 'm.gmod', '--threads', '1', '--duration', '3s', '--precision-goal', '0.0001%', '--json')
                for _ in range(2)]
        documents = [json.loads(self.finish(process).stdout) for process in both]
        waited = sorted(document['turns']['waited_s'] for document in documents)
        self.assertLess(waited[0], 1)
        self.assertGreater(waited[1], 1)

    def test_on_this_machine_beside_others(self):
        holder = self.start('bench', 'm.gmod', '--threads', '1', '--duration', '60s', '--precision-goal', '0.0001%')
        self.wait_until(lambda: 'bench' in (self.folder / 'gantry-turns' / 'lock').read_text()
                        if (self.folder / 'gantry-turns' / 'lock').exists() else False)
        done = self.gantry('bench', 'm.gmod', '--no-wait', *BENCH, '--json')
        self.assertIn('bench m.gmod', json.loads(done.stdout)['turns']['beside'])
        self.assertIn('at the same time', done.stderr)
        err = self.gantry('bench', 'm.gmod', '--max-wait', '300ms', *BENCH, status=2).stderr
        self.assertIn('--max-wait', err)
        holder.kill()
        holder.communicate()
        document = json.loads(self.gantry('bench', 'm.gmod', *BENCH, '--json').stdout)
        self.assertLess(document['turns']['waited_s'], 1)

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which('unshare'), 'mounting a small disk needs root')
    def test_on_this_machine_without_a_place_in_the_queue(self):
        few = self.folder / 'few'
        few.mkdir()
        probe = ['unshare', '-m', 'mount', '-t', 'tmpfs', 'none', str(few)]
        if subprocess.run(probe, capture_output=True, check=False).returncode:
            self.skipTest('no disk can be mounted here')
        # Of the disk's own folder, that of the turns, and the lock in it.
        mounted = 'mount -t tmpfs -o nr_inodes=3 none "$XDG_RUNTIME_DIR" && exec "$@"'
        done = subprocess.run(['unshare', '-m', 'sh', '-c', mounted, 'sh', self.GANTRY, 'bench', 'm.gmod', *BENCH, '--json'],
                              cwd=self.folder, env=self.environment | {'XDG_RUNTIME_DIR': str(few)}, text=True, capture_output=True,
                              timeout=self.LONGEST, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r'cannot take turns .*/few/gantry-turns/new-\S+: No space left on device; it measures beside them')
        self.assertEqual(done.stderr.count('cannot take turns'), 1)
        self.assertEqual(len(json.loads(done.stdout)['processes']), 4)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
