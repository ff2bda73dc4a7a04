#!/usr/bin/env python3
"""Leases of four emulated boards by a Slurm on loopback: clients at once, a controller killed and started again, a board
that dies, a lease that ends, a client that is killed; and who held what, which never overlaps.

usage: slurm_test.py GANTRY GANTRY_DEVICE
"""
import json
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import unittest
import unittest.mock

import private_slurm

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / 'cli'))
from program_under_test import ProgramTest, seconds  # noqa: E402

ProgramTest.GANTRY, DEVICE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
ProgramTest.LONGEST = 240
QUICK = ['--threads', '1', '--processes', '2', '--warmup', '5', '--repeat', '50']


class Board:
    """gantry-device on loopback with a key folder, as if it were a board."""

    def __init__(self, folder, name):
        self.name = name
        self.folder = folder / name
        self.keys = self.folder / 'keys'
        self.keys.mkdir(parents=True)
        self.address = '127.0.0.1:0'
        self.log = (self.folder / 'log').open('a')
        self.start()

    def start(self):
        self.server = subprocess.Popen([DEVICE, 'serve', '--listen', self.address, '--cache', self.folder / 'cache', '--key',
                                        self.keys], stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.address = self.server.stdout.readline().split('listening on ')[1].split()[0]

    def kill(self):
        self.server.kill()
        self.server.wait()
        self.server.stdout.close()

    def sessions(self):
        """(begin, end, lease) of every session that a lease's client had, by the server's own log."""
        found, begun = [], {}
        for line in (self.folder / 'log').read_text().splitlines():
            parts = line.split(' ', 4)
            if len(parts) < 5 or parts[3] == '-':
                continue
            at, peer, key = seconds(parts[0]), parts[2], parts[3]
            if parts[4].startswith("session started by client 'gantry'"):
                begun[peer] = (at, key)
            elif parts[4].startswith('session ended') and peer in begun:
                began, key = begun.pop(peer)
                found.append((began, at, key))
        return found


class Farm(ProgramTest):
    PATIENCE, PAUSE = 120, 0.3

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.slurm = private_slurm.PrivateSlurm(cls.folder / 'slurm', {'pi5': 3, 'nano': 1})
        cls.addClassCleanup(cls.slurm.stop)
        cls.environment |= {name: cls.slurm.environment[name] for name in ('SLURM_CONF', 'PATH')}
        cls.environment['GANTRY_FARM'] = str(cls.folder / 'farm')
        cls.environment.pop('GANTRY_NO_WAIT', None)
        cls.boards = {}
        for name in ('pi5-1', 'pi5-2', 'pi5-3', 'nano-1'):
            board = cls.boards[name] = Board(cls.folder, name)
            cls.addClassCleanup(board.kill)
            cls.gantry('farm', 'register', name, '--type', name[:-2], '--address', board.address, '--keys', str(board.keys))
        cls.gantry('zoo', 'lstm', '--size', '5', '-o', 'm.onnx')
        cls.gantry('compile', 'm.onnx', '-o', 'm.gmod')
        cls.gantry('zoo', 'squeezenet1_1', '--size', '64', '-o', 't.onnx')

    def bench(self, *options, kind='pi5', duration=None):
        how = ['--threads', '1', '--duration', duration, '--precision-goal', '0.0001%'] if duration else QUICK
        return self.start('bench', 'm.gmod', '--farm', 'slurm', '--board', kind, *how, '--json', *options)

    def tune(self, boards, *options):
        return self.start('tune', 't.onnx', '--farm', 'slurm', '--board', boards, '--precision', 'fp32', '--threads', '1', '--json',
                          *options)

    def records(self, name):
        """How many there are; what is wrong with the file is an error."""
        with sqlite3.connect(self.folder / name) as store:
            self.assertEqual(store.execute('pragma integrity_check').fetchone(), ('ok',))
        return len(json.loads(self.gantry('records', 'list', name, '--json').stdout))

    def status(self):
        return json.loads(self.gantry('farm', 'status', '--json').stdout)

    def holders(self):
        return {lease['address']: lease['job'] for lease in self.status()['leases'] if lease['address']}

    def tearDown(self):
        self.wait_until(lambda: not self.status()['leases'])
        # A job has a moment to take its lease's key away.
        self.wait_until(lambda: not any(any(board.keys.iterdir()) for board in self.boards.values()))
        self.check_no_overlap()
        if (self.folder / 'farm' / 'log').exists():
            self.check_holds()

    def log_of_holds(self):
        """(time, what, board, lease) of who held what, by the gateway's log."""
        for line in (self.folder / 'farm' / 'log').read_text().splitlines():
            at, what, board, _, _, *rest = line.split(' ')
            if what in ('begin', 'end'):
                yield seconds(at), what, board, rest[1].rstrip(':')

    def last_hold_has_ended(self):
        *_, (_, what, _, _) = self.log_of_holds()
        return what == 'end'

    def check_holds(self):
        """Whoever used a board held it: the log of holds beside the boards' own. (A job that Slurm kills logs no end.)"""
        begun = {name: [] for name in self.boards}
        for at, what, name, lease in self.log_of_holds():
            if what == 'begin':
                begun[name].append((at, lease))
            else:
                self.assertEqual(lease, begun[name][-1][1], f'the end of a hold on {name} that another has')
        for name, holds in begun.items():
            for began, ended, key in self.boards[name].sessions():
                owner = [lease for at, lease in holds if at <= began + 0.01][-1:]
                self.assertEqual(owner, [key], f'{name}: {holds}')
                # A key that is taken away ends its sessions in a moment.
                others = [lease for at, lease in holds if began < at < ended - 0.5 and lease != key]
                self.assertEqual(others, [], f'{name}: used while others held it')

    def check_no_overlap(self):
        for board in self.boards.values():
            spans = {}
            for begin, end, key in board.sessions():
                first, last = spans.get(key, (begin, end))
                spans[key] = (min(first, begin), max(last, end))
            in_order = sorted(spans.values())
            for before, after in zip(in_order, in_order[1:]):
                self.assertLessEqual(before[1], after[0] + 0.005, f'{board.name}: {spans}')

    def test_five_clients_share_three_boards(self):
        clients = [self.bench('--priority', priority) for priority in ('normal', 'normal', 'background', 'urgent', 'normal')]
        documents = [json.loads(self.finish(client).stdout) for client in clients]
        self.assertEqual({len(document['processes']) for document in documents}, {2})
        pi5 = {board.address for name, board in self.boards.items() if name.startswith('pi5')}
        self.assertLessEqual({document['board']['address'] for document in documents}, pi5)

    def test_boards_shows_a_leased_one_and_all_of_them(self):
        out = self.gantry('boards', 'info', '--farm', 'slurm', '--board', 'nano', '--json').stdout
        self.assertEqual(json.loads(out)['address'], self.boards['nano-1'].address)
        listed = json.loads(self.gantry('boards', 'list', '--farm', 'slurm', '--json').stdout)
        self.assertEqual({(node['type'], node['boards']) for node in listed['nodes']}, {('pi5', 3), ('nano', 1)})
        self.assertEqual({board['name'] for board in listed['boards']}, set(self.boards))

    def test_compare_runs_on_a_leased_board(self):
        out = self.gantry('compare', 'm.gmod', 'm.gmod', '--farm', 'slurm', '--board', 'nano', '--rounds', '3',
                                 '--warmup', '5', '--threads', '1', '--json').stdout
        self.assertEqual(json.loads(out)['rounds'], 3)
        self.wait_until(self.last_hold_has_ended)  # by a signal

    def test_a_controller_that_is_killed_and_started_again(self):
        running = self.bench(duration='25s')
        self.wait_until(self.holders)
        time.sleep(6)  # its state has been saved
        waiting = [self.bench() for _ in range(3)]
        time.sleep(1)
        self.slurm.kill_controller()
        time.sleep(3)
        late = self.bench()
        self.slurm.start_controller()
        for client in (running, *waiting, late):
            self.assertTrue(json.loads(self.finish(client).stdout)['processes'])

    def test_a_board_that_dies(self):
        for name in ('pi5-2', 'pi5-3'):
            self.gantry('farm', 'drain', name, '--reason', 'test')
        client = self.bench(duration='20s')
        self.wait_until(lambda: self.boards['pi5-1'].address in self.holders())
        time.sleep(3)
        self.boards['pi5-1'].kill()
        for name in ('pi5-2', 'pi5-3'):
            self.gantry('farm', 'resume', name)
        done = self.finish(client)
        self.assertIn('leasing another board', done.stderr)
        self.assertIn(json.loads(done.stdout)['board']['address'], {self.boards[name].address for name in ('pi5-2', 'pi5-3')})
        self.boards['pi5-1'].start()

    def test_a_client_that_is_killed_without_a_last_word_frees_its_board(self):
        # Without scancel nobody hears of its end but the job, by a key that nobody uses.
        few = self.folder / 'few'
        few.mkdir()
        for name in ('env', 'sbatch', 'scontrol', 'squeue'):
            (few / name).symlink_to(shutil.which(name, path=self.environment['PATH']))
        whole = self.environment['PATH']
        self.environment['PATH'] = str(few)
        try:
            client = self.bench(kind='nano', duration='60s')
        finally:
            self.environment['PATH'] = whole
        self.wait_until(self.holders)
        client.kill()
        client.communicate()
        out = self.finish(self.bench(kind='nano')).stdout
        self.assertEqual(json.loads(out)['board']['address'], self.boards['nano-1'].address)

    def test_a_lease_that_ends_is_wanted_again(self):
        client = self.bench('--lease-minutes', '1', kind='nano', duration='75s')
        _, err = client.communicate(timeout=self.LONGEST)
        # A minute is too short for it, three times: an error of the board, which says that the lease is over.
        self.assertEqual(client.returncode, 2, err)
        self.assertIn('leasing another board', err)
        self.assertIn('revoked', err)

    def test_drained_boards_are_not_leased(self):
        self.gantry('farm', 'drain', 'nano-1', '--reason', 'its fan')
        self.assertIn('its fan', self.gantry('farm', 'status').stdout)
        client = self.start('bench', 'm.gmod', '--farm', 'slurm', '--board', 'nano', '--max-wait', '8s', *QUICK)
        err = self.finish(client, status=2).stderr
        self.assertIn('its fan', err)
        self.gantry('farm', 'resume', 'nano-1')
        self.finish(self.bench(kind='nano'))

    def test_two_tuners_a_bench_and_a_comparison_at_once(self):
        tuners = [self.tune('pi5:2', '--time', '40s', '--trials', '24', '--records', 'lab.db', '--seed', seed) for seed in ('1', '2')]
        self.wait_until(lambda: len(self.holders()) == 3)
        held = self.holders()
        others = [self.bench(), self.start('compare', 'm.gmod', 'm.gmod', '--farm', 'slurm', '--board', 'nano', '--rounds', '3',
                                           '--warmup', '5', '--threads', '1', '--fail-if-slower', '50%', '--json')]
        time.sleep(6)  # the controller's state has been saved
        self.slurm.kill_controller()
        time.sleep(2)
        self.slurm.start_controller()
        # A board of a tuner's dies, and is well again when its lease is over.
        self.boards['pi5-1'].kill()
        self.wait_until(lambda: self.holders().get(self.boards['pi5-1'].address) != held[self.boards['pi5-1'].address])
        self.boards['pi5-1'].start()
        finished = [self.finish(tuner) for tuner in tuners]
        results = [json.loads(done.stdout) for done in finished]
        for done, result in zip(finished, results):
            self.assertGreater(result['records_written'], 0, done.stderr)
            self.assertRegex(done.stderr, r'holds board \S+, after \d+ s in Slurm')
        self.assertEqual(self.records('lab.db'), sum(result['records_written'] for result in results))
        for client in others:
            self.assertTrue(json.loads(self.finish(client).stdout))

    def test_a_tuner_goes_on_when_its_lease_ends(self):
        begins = lambda: sum((what, board) == ('begin', 'nano-1') for _, what, board, _ in self.log_of_holds())
        before = begins() if (self.folder / 'farm' / 'log').exists() else 0
        # Compile hosts' leases end, too. Those on the boards' own node have to share it.
        done = self.finish(self.tune('nano', '--lease-minutes', '1', '--time', '100s', '--records', 'ends.db',
                                     '--compile-hosts', '1', '--compile-cpus', '1'))
        document = json.loads(done.stdout)
        self.assertGreater(sum(host['programs'] for host in document['builds']['hosts']), 0, done.stderr)
        self.assertGreater(document['builds']['here'], 0)
        self.assertRegex(done.stderr, r'holds compile host \S+, after \d+ s in Slurm')
        self.assertGreaterEqual(begins(), before + 2, done.stderr)
        self.assertGreater(document['trials'], 0)
        self.assertEqual(self.records('ends.db'), document['records_written'])

    def test_tuners_that_are_killed_free_their_boards(self):
        # One of the leases of each waits: nobody is to wait for it either. One of them has compile hosts.
        tuners = [self.tune('nano:2', '--time', '10min'),
                  self.tune('pi5:4', '--time', '10min', '--compile-hosts', '2', '--compile-cpus', '1')]
        boards = {board.address for board in self.boards.values()}
        self.wait_until(lambda: boards <= set(self.holders()) and len(self.status()['leases']) == 8)
        for tuner, number in zip(tuners, (signal.SIGTERM, signal.SIGKILL)):
            tuner.send_signal(number)
            tuner.communicate()
            self.assertEqual(tuner.returncode, -number)
        self.wait_until(lambda: not self.status()['leases'])

    def test_a_tuner_that_waits_says_so_and_its_time_does_not_run(self):
        bench = self.bench(kind='nano', duration='22s')
        self.wait_until(self.holders)
        done = self.finish(self.tune('nano', '--time', '40s', '--trials', '2'))
        self.finish(bench)
        self.assertRegex(done.stderr, r'waiting for a board of type nano for \d+ s: job \d+ waits')
        document = json.loads(done.stdout)
        self.assertGreater(document['waited_s'], 10)
        self.assertGreater(document['trials'], 0)

    def test_a_tuner_counts_instructions_on_leased_boards_or_says_that_it_cannot(self):
        tuner = self.tune('pi5:2', '--metric', 'instructions', '--time', '30s', '--trials', '2')
        out, errors = tuner.communicate(timeout=self.LONGEST)
        if tuner.returncode == 2:
            self.assertRegex(errors, r'127\.0\.0\.1:\d+\)?: cannot count instructions')
            return
        self.assertEqual(tuner.returncode, 0, errors)
        document = json.loads(out)
        self.assertEqual(document['metric'], 'instructions')
        self.assertGreater(document['trials'], 0)
        self.assertGreater(document['untuned_instructions'], 5e6)
        self.assertIn('waited_s', document)

    def test_a_tuner_waits_as_long_as_it_may(self):
        self.gantry('farm', 'drain', 'nano-1', '--reason', 'its fan')
        try:
            err = self.finish(self.tune('nano', '--max-wait', '5s'), status=2).stderr
        finally:
            self.gantry('farm', 'resume', 'nano-1')
        self.assertIn('--max-wait', err)

    def test_a_machine_without_slurm_says_so(self):
        for arguments in (['bench', 'm.gmod', '--farm', 'slurm', '--board', 'pi5'], ['farm', 'status'],
                          ['tune', 't.onnx', '--farm', 'slurm', '--board', 'pi5:2', '--threads', '1', '--json']):
            with unittest.mock.patch.dict(self.environment, PATH=str(self.folder)):
                self.assertIn("farms need Slurm's commands", self.gantry(*arguments, status=1).stderr)

    def test_a_controller_that_nobody_has_ever_reached_is_given_up(self):
        configuration = pathlib.Path(self.environment['SLURM_CONF']).read_text()
        port, = private_slurm.free_ports(1)
        nobody = self.folder / 'nobody.conf'
        nobody.write_text(re.sub(r'SlurmctldPort=\d+', f'SlurmctldPort={port}', configuration))
        (self.folder / 'gres.conf').write_text((self.slurm.folder / 'gres.conf').read_text())
        with unittest.mock.patch.dict(self.environment, SLURM_CONF=str(nobody)):
            client = self.bench()
            self.assertIn("controller gives no list of nodes", self.gantry('farm', 'status', status=2).stderr)
            err = self.finish(client, status=2).stderr
        self.assertIn('Unable to contact slurm controller', err)
        self.assertIn('scontrol ping', err)

    def test_what_cannot_be_is_said(self):
        for arguments, words in ((['--farm', 'slurm', '--board', 'pi5:2'], 'measures on 1 board'),
                                 (['--farm', 'slurm', '--board', 'pi5', '--on', 'x:1'], 'leave out --on'),
                                 (['--farm', 'slurm'], '--board')):
            err = self.gantry('bench', 'm.gmod', *arguments, status=1).stderr
            self.assertIn(words, err)
        for board, words in (('pi5:0', 'how many boards'), ('pi5:65', 'at most'), ('pi 5:2', 'a type of board')):
            self.assertIn(words, self.finish(self.tune(board), status=1).stderr)
        self.assertIn('leave out --on', self.finish(self.tune('pi5', '--on', 'x:1'), status=1).stderr)
        self.assertIn('--farm', self.gantry('tune', 't.onnx', '--compile-hosts', '2', status=1).stderr)
        self.assertIn('--compile-hosts', self.finish(self.tune('pi5', '--compile-cpus', '2'), status=1).stderr)
        err = self.gantry('farm', 'register', 'x', '--type', 'pi5', '--address', '127.0.0.1:1', '--keys',
                                 str(self.boards['nano-1'].keys), status=2).stderr
        self.assertIn('127.0.0.1:1', err)


if __name__ == '__main__':
    reason = private_slurm.missing()
    if reason:
        print(f'skipped: {reason}')
        sys.exit(77)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
