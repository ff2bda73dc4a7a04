#!/usr/bin/env python3
"""Boards that announce themselves, and `gantry boards discover`, with Avahi's own programs.

usage: discover_test.py GANTRY GANTRY_DEVICE

A workstation and a board are two network namespaces with a cable between them; each has a D-Bus and an Avahi daemon of
its own. Skipped, by name, where this machine lacks those programs or grants no namespaces.
"""
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77
GANTRY, DEVICE = (os.path.abspath(argument) for argument in sys.argv[1:3])
PROGRAMS = ('avahi-daemon', 'avahi-browse', 'avahi-publish-service', 'dbus-daemon', 'ip', 'mount', 'nsenter', 'unshare')
NAME = 'Bänk #1; "pi"'
BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><listen>unix:path={folder}/bus</listen><policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>"""
AVAHI = """[server]
host-name={name}
use-ipv4=yes
use-ipv6=yes
[wide-area]
enable-wide-area=no
[publish]
publish-hinfo=no
publish-workstation=no
"""


def namespace_arguments():
    user = [] if os.geteuid() == 0 else ['--user', '--map-root-user']
    return ['unshare', *user, '--mount', '--net', '--pid', '--fork', '--kill-child', '--mount-proc']


def wait_until(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f'{what}: not within {seconds} s')


class Machine:
    """A network namespace with a folder, a D-Bus and an Avahi daemon of its own."""
    def __init__(self, name, folder):
        self.name, self.folder = name, folder
        folder.mkdir()
        self.holder = subprocess.Popen(['unshare', '--net', '--mount', 'sh', '-c',
                                        'mount -t tmpfs tmpfs /run && ip link set lo up && echo && exec sleep 1000'],
                                       stdout=subprocess.PIPE)
        self.holder.stdout.readline()
        self.environment = dict(os.environ, HOME=str(folder), XDG_CONFIG_HOME=str(folder), XDG_CACHE_HOME=str(folder),
                                DBUS_SYSTEM_BUS_ADDRESS=f'unix:path={folder}/bus')
        (folder / 'bus.conf').write_text(BUS.format(folder=folder))
        (folder / 'avahi.conf').write_text(AVAHI.format(name=name))
        self.bus = self.daemon = None

    def inside(self, *command):
        return ['nsenter', f'--target={self.holder.pid}', '--net', '--mount', f'--wd={self.folder}', *command]

    def start(self, *command, **streams):
        return subprocess.Popen(self.inside(*command), env=self.environment, **streams)

    def run(self, *command, status=0):
        done = subprocess.run(self.inside(*command), env=self.environment, text=True, timeout=60,
                              capture_output=True, check=False)
        if done.returncode != status:
            raise AssertionError(f'{command}: {done.returncode}\n{done.stdout}{done.stderr}')
        return done

    def start_bus(self):
        self.bus = self.start('dbus-daemon', '--config-file=bus.conf', '--nofork', '--nopidfile',
                              stderr=subprocess.DEVNULL)
        wait_until((self.folder / 'bus').exists, 'dbus-daemon has a socket')

    def start_daemon(self):
        self.daemon = self.start('avahi-daemon', '--no-chroot', '--no-drop-root', '--no-rlimits', '-f',
                                 'avahi.conf', stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: subprocess.run(self.inside('avahi-daemon', '--check'), check=False).returncode == 0,
                   'avahi-daemon runs')

    def stop(self):
        for process in (self.daemon, self.bus, self.holder):
            if process:
                process.kill()
                process.wait(timeout=20)
        self.holder.stdout.close()

    def stop_daemon(self):
        self.daemon.terminate()
        self.daemon.wait(timeout=20)


def connect(one, other):
    """A cable between two machines, with addresses at its ends."""
    subprocess.run(['ip', 'link', 'add', 'w0', 'netns', str(one.holder.pid), 'type', 'veth', 'peer', 'name', 'b0', 'netns',
                    str(other.holder.pid)], check=True)
    for machine, end, address in ((one, 'w0', '10.77.0.1/24'), (other, 'b0', '10.77.0.2/24')):
        machine.run('ip', 'address', 'add', address, 'dev', end)
        machine.run('ip', 'link', 'set', end, 'up')


class Discover(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)
        cls.workstation, cls.board = Machine('workstation', folder / 'w'), Machine('board', folder / 'b')
        for machine in (cls.workstation, cls.board):
            cls.addClassCleanup(machine.stop)
        connect(cls.workstation, cls.board)
        for machine in (cls.workstation, cls.board):
            machine.start_bus()
            machine.start_daemon()
        cls.workstation.run(GANTRY, 'keygen', 'board.key')
        cls.key = cls.workstation.folder / 'board.key'
        cls.servers = []

    def serve(self, *options):
        """Starts a server on the board; returns its process and its log's file."""
        log = self.board.folder / f'log{len(self.servers)}'
        with open(log, 'w', encoding='utf-8') as file:
            server = self.board.start(DEVICE, 'serve', '--key', self.key, '--cache', str(self.board.folder / 'cache'),
                                      *options, stdout=subprocess.DEVNULL, stderr=file)
        self.servers.append(server)
        return server, log

    def tearDown(self):
        for server in self.servers:
            if server.poll() is None:
                server.terminate()
            server.wait(timeout=30)
        wait_until(lambda: not self.found(), 'what ended is forgotten')

    def announced(self, log):
        try:
            wait_until(lambda: 'announcing: Established' in log.read_text(), 'the board is announced')
        except AssertionError as error:
            raise AssertionError(log.read_text()) from error

    def found(self):
        return json.loads(self.workstation.run(GANTRY, 'boards', 'discover', '--json').stdout)

    def test_a_board_is_found_added_by_the_line_that_is_printed_and_known_from_then_on(self):
        _, log = self.serve('--listen', '0.0.0.0:7461', '--announce', NAME)
        self.announced(log)
        wait_until(self.found, 'the board is found')
        found, = self.found()
        version = self.workstation.run(DEVICE, '--version').stdout.split()[1].rstrip(',')
        self.assertEqual(found, {
            'name': NAME, 'host': 'board.local', 'port': 7461, 'addresses': ['10.77.0.2:7461'],
            'architecture': platform.machine(), 'version': version, 'protocol': 1, 'needs_key': True, 'added_as': [],
            'command': 'gantry boards add B-nk-1-pi 10.77.0.2:7461 --key FILE'})
        table = self.workstation.run(GANTRY, 'boards', 'discover').stdout
        self.assertIn(NAME, table)
        self.assertIn(found['command'], table)

        _, *words = found['command'].replace('FILE', str(self.key)).split()
        self.workstation.run(GANTRY, *words)
        self.assertEqual(self.found()[0]['added_as'], ['B-nk-1-pi'])
        self.assertNotIn('boards add', self.workstation.run(GANTRY, 'boards', 'discover').stdout)
        info = json.loads(self.workstation.run(GANTRY, 'boards', 'info', 'B-nk-1-pi', '--json').stdout)
        self.assertEqual(info['architecture'], platform.machine())
        self.workstation.run(GANTRY, 'boards', 'remove', 'B-nk-1-pi')

    def test_the_announcement_ends_with_a_server_that_is_killed(self):
        server, log = self.serve('--listen', '0.0.0.0:7462', '--announce')
        self.announced(log)
        wait_until(self.found, 'the board is found')
        server.send_signal(signal.SIGKILL)
        server.wait(timeout=30)
        wait_until(lambda: not self.found(), 'the announcement is gone')

    def test_a_server_that_listens_by_ipv6_alone_is_found_with_the_interface(self):
        _, log = self.serve('--listen', '[::]:7463', '--announce', 'six')
        self.announced(log)
        wait_until(lambda: any('%w0]' in address for board in self.found() for address in board['addresses']),
                   'the address of the link is found')
        address = next(address for address in self.found()[0]['addresses'] if '%w0]' in address)
        info = self.workstation.run(GANTRY, 'boards', 'info', address, '--key', str(self.key))
        self.assertIn('gantry-device', info.stdout)

    def test_a_daemon_that_comes_later_announces_the_board_then(self):
        self.board.stop_daemon()
        try:
            _, log = self.serve('--listen', '0.0.0.0:7464', '--announce', 'late')
            wait_until(lambda: 'not announced until avahi-daemon runs' in log.read_text(), 'the log says that there is no daemon')
            self.assertEqual(self.found(), [])
        finally:
            self.board.start_daemon()
        self.announced(log)
        wait_until(self.found, 'the board is found')

    def test_control_characters_of_strangers_are_visible(self):
        publisher = self.board.start('avahi-publish-service', '\x1b[31mred\n', '_gantry._tcp', '9', 'arch=\x1b[2J',
                                     'protocol=7', stderr=subprocess.DEVNULL)
        try:
            wait_until(self.found, 'the stranger is found')
            shown = self.workstation.run(GANTRY, 'boards', 'discover')
            self.assertNotIn('\x1b', shown.stdout + shown.stderr)
            self.assertIn('\\u001b[31mred\\n', shown.stdout)
            self.assertIn('speaks version 7 of the protocol', shown.stderr)
            self.assertEqual(self.found()[0]['name'], '\x1b[31mred\n')
        finally:
            publisher.kill()
            publisher.wait(timeout=20)

    def test_a_workstation_without_a_daemon_is_told_what_to_start(self):
        self.workstation.stop_daemon()
        try:
            refused = self.workstation.run(GANTRY, 'boards', 'discover', status=1)
            self.assertIn('Daemon not running', refused.stderr)
            self.assertIn('systemctl start avahi-daemon', refused.stderr)
        finally:
            self.workstation.start_daemon()


if __name__ == '__main__':
    if '--inside' not in sys.argv:
        missing = [program for program in PROGRAMS if not shutil.which(program, path=os.environ['PATH'] + ':/usr/sbin:/sbin')]
        if missing:
            print(f'skipped: this machine has no {", ".join(missing)}')
            sys.exit(SKIPPED)
        os.environ['PATH'] += ':/usr/sbin:/sbin'
        wanted = 'mount -t tmpfs tmpfs /run && ip link add w0 type veth peer name b0'
        allowed = subprocess.run([*namespace_arguments(), 'sh', '-c', wanted], check=False, capture_output=True, text=True)
        if allowed.returncode != 0:
            print(f'skipped: this machine grants no namespaces: {allowed.stderr.strip()}')
            sys.exit(SKIPPED)
        os.execvp('unshare', [*namespace_arguments(), sys.executable, *sys.argv, '--inside'])
    del sys.argv[1:3]
    sys.argv.remove('--inside')
    unittest.main(verbosity=2)
