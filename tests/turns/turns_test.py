#!/usr/bin/env python3
"""Commands that measure on one board, or on this machine, at once: they take turns, wait with a word, and hang on nothing.

usage: turns_test.py GANTRY GANTRY_DEVICE
"""
import contextlib
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

GANTRY, DEVICE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
LONGEST = 120
BENCH = ['--threads', '1', '--processes', '4', '--warmup', '20', '--repeat', '200']


def seconds(stamp):
    return datetime.datetime.fromisoformat(stamp.replace('Z', '+00:00')).timestamp()


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


class Turns(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.environment = dict(os.environ, HOME=scratch.name, XDG_CONFIG_HOME=scratch.name, XDG_CACHE_HOME=scratch.name,
                               XDG_RUNTIME_DIR=scratch.name)
        cls.environment.pop('GANTRY_NO_WAIT', None)
        cls.run_gantry('zoo', 'lstm', '--size', '5', '-o', 'm.onnx')
        cls.run_gantry('compile', 'm.onnx', '-o', 'm.gmod')

    @classmethod
    def start(cls, *arguments):
        return subprocess.Popen([GANTRY, *arguments], cwd=cls.folder, env=cls.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    @classmethod
    def finish(cls, process, status=0):
        out, err = process.communicate(timeout=LONGEST)
        if process.returncode != status:
            raise AssertionError(f'{process.args}: {process.returncode}\n{err}')
        return out, err

    @classmethod
    def run_gantry(cls, *arguments, status=0):
        return cls.finish(cls.start(*arguments), status)

    @contextlib.contextmanager
    def board(self, *options):
        log = (self.folder / 'log').open('w+')
        server = subprocess.Popen([DEVICE, 'serve', '--listen', '127.0.0.1:0', '--cache', self.folder / 'cache', *options],
                                  stdout=subprocess.PIPE, stderr=log, text=True)
        self.log = lambda: (self.folder / 'log').read_text()
        try:
            yield server.stdout.readline().split('listening on ')[1].split()[0]
        finally:
            server.terminate()
            server.wait(timeout=30)
            server.stdout.close()
            log.close()

    def measuring(self, address):
        return json.loads(self.run_gantry('boards', 'info', address, '--json')[0])['measuring']

    def wait_until(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def occupied(self, address):
        """A command that measures on the board for a minute."""
        holder = self.start('bench', 'm.gmod', '--on', address, '--threads', '1', '--duration', '60s', '--precision-goal',
                            '0.0001%')
        self.wait_until(lambda: self.measuring(address)['holder'])
        return holder

    def test_two_benches_take_turns_and_never_overlap(self):
        with self.board('--turn', '0.3') as address:
            both = [self.start('bench', 'm.gmod', '--on', address, *BENCH, '--json') for _ in range(2)]
            documents = [json.loads(self.finish(process)[0]) for process in both]
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
            waiting = self.start('bench', 'm.gmod', '--on', address, '--priority', 'background', *BENCH)
            self.wait_until(lambda: self.measuring(address)['waiting_count'] == 1)
            shown = self.measuring(address)
            self.assertIn('bench m.gmod', shown['holder']['purpose'])
            self.assertEqual(shown['waiting'][0]['priority'], 'background')
            text = self.run_gantry('boards', 'info', address)[0]
            self.assertRegex(text, r'lease +(measured|held) by 127\.0\.0\.1')
            holder.kill()
            holder.communicate()
            _, err = self.finish(waiting)
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
            self.run_gantry('bench', 'm.gmod', '--on', address, *BENCH)
            self.assertLess(time.monotonic() - began, 60)
            holder.kill()
            holder.communicate()

    def test_it_does_not_wait_longer_than_it_is_to(self):
        with self.board() as address:
            holder = self.occupied(address)
            for options in (['--no-wait'], ['--max-wait', '500ms']):
                _, err = self.run_gantry('bench', 'm.gmod', '--on', address, *options, *BENCH, status=2)
                self.assertIn('127.0.0.1 has measured there for', err)
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
                self.run_gantry('run', 'm.gmod', '--random', '--on', address, '--threads', '1')
            document = json.loads(self.finish(bench)[0])
        beside = [row for process in document['processes'] for row in process['beside']]
        self.assertTrue(beside)
        self.assertEqual({row['address'] for row in beside}, {'127.0.0.1'})
        self.assertGreater(sum(row['runs'] + row['loads'] for row in beside), 0)

    def test_on_this_machine(self):
        both = [self.start('bench', 'm.gmod', '--threads', '1', '--duration', '3s', '--precision-goal', '0.0001%', '--json')
                for _ in range(2)]
        documents = [json.loads(self.finish(process)[0]) for process in both]
        waited = sorted(document['turns']['waited_s'] for document in documents)
        self.assertLess(waited[0], 1)
        self.assertGreater(waited[1], 1)

    def test_on_this_machine_beside_others(self):
        holder = self.start('bench', 'm.gmod', '--threads', '1', '--duration', '60s', '--precision-goal', '0.0001%')
        self.wait_until(lambda: 'bench' in (self.folder / 'gantry-turns' / 'lock').read_text()
                        if (self.folder / 'gantry-turns' / 'lock').exists() else False)
        out, err = self.run_gantry('bench', 'm.gmod', '--no-wait', *BENCH, '--json')
        self.assertIn('bench m.gmod', json.loads(out)['turns']['beside'])
        self.assertIn('at the same time', err)
        _, err = self.run_gantry('bench', 'm.gmod', '--max-wait', '300ms', *BENCH, status=2)
        self.assertIn('--max-wait', err)
        holder.kill()
        holder.communicate()
        document = json.loads(self.run_gantry('bench', 'm.gmod', *BENCH, '--json')[0])
        self.assertLess(document['turns']['waited_s'], 1)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
