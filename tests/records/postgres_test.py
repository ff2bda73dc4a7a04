#!/usr/bin/env python3
"""Records in PostgreSQL: a server of the test's own, in a folder of its own, which the tests of all stores use, and which is
stopped, frozen and filled meanwhile. Without Debian's package postgresql it is skipped.

usage: postgres_test.py GANTRY RECORDS_TEST
"""
import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RECORDS_TEST = str(pathlib.Path(sys.argv.pop(2)).absolute())
from fault_test import Shared, StoreTest  # takes GANTRY from the command line

BINARIES = next(iter(sorted(glob.glob('/usr/lib/postgresql/*/bin'), reverse=True)), None)


def user():
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    for name in ('postgres', 'nobody'):
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    return None


@unittest.skipUnless(BINARIES and (os.geteuid() != 0 or user()), 'postgresql is not installed')
class Postgres(StoreTest):
    """A server for a class, a database for each test."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = pathlib.Path(tempfile.mkdtemp(prefix='pg', dir='/tmp'))
        cls.addClassCleanup(shutil.rmtree, cls.cluster, ignore_errors=True)
        if user():
            os.chown(cls.cluster, user().pw_uid, user().pw_gid)
        cls.as_server('initdb', '-D', str(cls.cluster / 'data'), '-U', 'lab', '--auth=trust', '--no-sync', '-E', 'UTF8',
                      '--locale=C')
        cls.port = '54999'
        cls.as_server('pg_ctl', '-D', str(cls.cluster / 'data'), '-w', '-l', str(cls.cluster / 'log'), '-o',
                      f"-p {cls.port} -k {cls.cluster} -c listen_addresses=''", 'start')
        cls.addClassCleanup(cls.as_server, 'pg_ctl', '-D', str(cls.cluster / 'data'), '-m', 'immediate', 'stop')

    @classmethod
    def as_server(cls, program, *arguments):
        who = {'user': user().pw_uid, 'group': user().pw_gid} if user() else {}
        subprocess.run([f'{BINARIES}/{program}', *arguments], cwd=cls.cluster, check=True, stdout=subprocess.DEVNULL,
                       timeout=120, env=dict(os.environ, HOME=str(cls.cluster)), **who)

    @classmethod
    def sql(cls, text, database='postgres'):
        return subprocess.run([f'{BINARIES}/psql', '-h', str(cls.cluster), '-p', cls.port, '-U', 'lab', '-d', database, '-At',
                               '-c', text], check=True, text=True, capture_output=True, timeout=60).stdout

    @classmethod
    def url(cls, database):
        return f'postgresql://lab@/{database}?host={cls.cluster}&port={cls.port}'

    def setUp(self):
        super().setUp()
        self.database = f't{abs(hash(self.id())) % 10 ** 9}'
        self.sql(f'CREATE DATABASE {self.database}')

    def place(self):
        return self.url(self.database)

    def settle(self):
        """A server goes on with what a program asked for that is gone."""
        while self.sql(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{self.database}'").strip() != '0':
            time.sleep(0.05)


class Store(Postgres):
    def test_it_does_what_a_file_does(self):
        done = subprocess.run([RECORDS_TEST, '--gtest_filter=*AnyStore*Postgres'], text=True, capture_output=True, check=False,
                              env=dict(os.environ, GANTRY_TEST_POSTGRESQL=self.place()), timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertNotIn('SKIPPED', done.stdout)

    def test_a_database_without_records_says_so(self):
        self.assertIn('has no records yet', self.run_gantry('list', self.place(), status=1))

    def test_a_newer_version_is_refused(self):
        self.run_gantry('import', self.place(), self.write('1.jsonl', [1]))
        self.sql('UPDATE gantry_schema SET version = 2', self.database)
        self.assertIn('version 2', self.run_gantry('list', self.place(), status=1))

    def test_a_lock_is_waited_for_and_then_an_error(self):
        self.run_gantry('import', self.place(), self.write('1.jsonl', [1]))
        holder = subprocess.Popen([f'{BINARIES}/psql', '-h', str(self.cluster), '-p', self.port, '-U', 'lab', '-d', self.database],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        holder.stdin.write("BEGIN; LOCK TABLE gantry_record IN EXCLUSIVE MODE; SELECT 'locked';\n")
        holder.stdin.flush()
        while 'locked' not in holder.stdout.readline():
            pass
        error = self.run_gantry('import', self.place(), self.write('2.jsonl', [2]), status=1)
        self.assertIn('has been locked', error)
        holder.communicate('ROLLBACK;\n', timeout=30)
        self.assertEqual(self.works(), [1])


class SharedPostgres(Postgres, Shared):
    """What programs that share a file do, at one server."""


class Faults(Postgres):
    def test_a_server_that_does_not_answer_is_given_up(self):
        self.run_gantry('import', self.place(), self.write('1.jsonl', [1]))
        servers = [int(pid) for pid in (self.cluster / 'data' / 'postmaster.pid').read_text().splitlines()[:1]]
        for pid in servers:
            os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        try:
            error = self.run_gantry('list', self.place(), status=2)
        finally:
            for pid in servers:
                os.kill(pid, signal.SIGCONT)
        self.assertLess(time.monotonic() - began, 60)
        self.assertIn(self.database, error)
        self.assertEqual(self.works(), [1])

    def test_a_session_that_the_server_ends_leaves_all_or_nothing(self):
        self.run_gantry('import', self.place(), self.write('1.jsonl', [1]))
        for turn in range(8):
            numbers = list(range(1000 * (turn + 1), 1000 * (turn + 1) + 500))
            before = self.works()
            program = self.start('import', self.place(), self.write('next.jsonl', numbers))
            time.sleep(0.05 * turn)
            self.sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{self.database}'")
            _, err = program.communicate(timeout=60)
            self.settle()
            self.assertIn(program.returncode, (0, 2), err)
            after = self.works()
            self.assertEqual(after, before + numbers if program.returncode == 0 else before)

    def test_no_server_is_a_board_error(self):
        error = self.run_gantry('list', 'postgresql://lab:secret@127.0.0.1:1/lab', status=2)
        self.assertIn('cannot be reached', error)
        self.assertNotIn('secret', error)


if __name__ == '__main__':
    del Shared, StoreTest
    unittest.main()
