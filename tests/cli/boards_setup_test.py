#!/usr/bin/env python3
"""Sets boards up over ssh, and uninstalls them: from nothing, cut off at any step, and where something is in the way.

usage: see boards_over_ssh.py
"""
import contextlib
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

import boards_over_ssh
from boards_over_ssh import BROKEN, DEVICE, GANTRY, PORT, SYSTEM, USER, WORK, Board, listens


class FromNothing(Board):
    def test_root_without_systemd_gets_a_server_that_becomes_its_own_user(self):
        said = self.setup()
        self.assertRegex(said, r'no systemd, root\n')
        self.assertRegex(said, r'\d+\.\d\d s  ran it there: squeezenet1_1 .* takes [\d.]+ [mu]s')
        self.assertIn('@reboot', said)
        self.assertNotRegex(said, r'[0-9a-f]{64}', 'a key is shown')
        servers = [pid for pid in os.listdir('/proc') if pid.isdigit() and
                   b'gantry-device\0serve' in pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()]
        owners = {os.stat(f'/proc/{pid}').st_uid for pid in servers}
        status = [pathlib.Path(f'/proc/{pid}/status').read_text() for pid in servers]
        gantry = pwd.getpwnam('gantry').pw_uid
        self.assertTrue(servers and all(re.search(rf'^Uid:\s+{gantry}\b', text, re.M) for text in status), (owners, status))
        key = SYSTEM / 'keys' / 'pi.key'
        self.assertEqual((key.stat().st_mode & 0o777, key.stat().st_uid), (0o600, 0))
        mine = self.home / '.config/gantry/keys/pi.key'
        self.assertEqual(mine.stat().st_mode & 0o777, 0o600)
        self.assertEqual(mine.read_bytes(), key.read_bytes())
        self.assertRegex(self.gantry('boards', 'info', 'pi'), 'server +gantry-device')
        self.uninstall()

    def test_another_key_than_the_boards_is_refused(self):
        self.setup()
        self.gantry('keygen', 'other.key')
        self.assertRegex(self.gantry('boards', 'info', f'127.0.0.1:{PORT}', '--key', 'other.key', status=2), 'key')
        self.gantry('boards', 'info', 'pi')
        self.uninstall()

    def test_a_user_without_rights_gets_a_server_of_its_own(self):
        said = self.setup('plain')
        self.assertIn('no root', said)
        self.assertEqual(USER.stat().st_mode & 0o777, 0o700)
        self.assertFalse(SYSTEM.exists())
        self.uninstall()

    def test_sudo_without_a_password_is_used_for_a_service_of_the_system(self):
        if not shutil.which('sudo'):
            self.skipTest('sudo is not installed')
        self.assertIn('root by sudo', self.setup('admin'))
        self.assertEqual(SYSTEM.stat().st_uid, 0)
        self.uninstall()

    def test_no_root_leaves_the_system_alone(self):
        self.setup('plain', '--no-root')
        self.assertFalse(SYSTEM.exists())
        self.uninstall()

    def test_a_dry_run_says_what_would_be_done_and_does_nothing(self):
        said = self.setup('root', '--dry-run')
        self.assertIn('/opt/gantry-device', said)
        self.assertIn('nothing was done', said)
        self.assert_nothing_is_left('a dry run')

    def test_the_server_starts_again_after_a_crash_and_a_reset(self):
        self.setup()
        server = next(pid for pid in os.listdir('/proc') if pid.isdigit() and
                      b'gantry-device\0serve' in pathlib.Path(f'/proc/{pid}/cmdline').read_bytes())
        os.kill(int(server), signal.SIGSEGV)
        self.await_port(False)
        self.await_port(True)
        for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):  # a reset ends both at once
            with contextlib.suppress(OSError):
                if b'gantry-device' in path.read_bytes() and path.parent.name != str(os.getpid()):
                    os.kill(int(path.parent.name), signal.SIGKILL)
        self.await_port(False)
        again = subprocess.Popen([str(SYSTEM / 'run')])
        self.await_port(True)
        self.assertNotEqual(subprocess.run([str(SYSTEM / 'run')], capture_output=True, check=False).returncode, 0, 'two of them')
        self.gantry('boards', 'info', 'pi')
        self.uninstall()
        again.wait(timeout=30)

    def await_port(self, open_, patience=20):
        deadline = time.monotonic() + patience
        while listens() != open_:
            self.assertLess(time.monotonic(), deadline, f'the port should be {"open" if open_ else "closed"}')
            time.sleep(0.05)

    def test_what_setup_has_not_put_there_stays(self):
        self.setup()
        (SYSTEM / 'keys' / 'alice.key').write_text('of somebody else\n')
        self.assertIn('alice.key', self.gantry('boards', 'uninstall', 'pi'))
        self.assertEqual(sorted(str(path) for path in SYSTEM.rglob('*')), [str(SYSTEM / 'keys'), str(SYSTEM / 'keys/alice.key')])
        shutil.rmtree(SYSTEM)
        self.assert_nothing_is_left('uninstall')


class CutOff(Board):
    """gantry or the connection ends at any step: nothing is left, and the next setup works."""
    STEPS = ['end', 'ready', 'send gantry-device', 'version', 'send pi.key', 'send options', 'send run', 'started']

    def cut(self, number, user):
        for step in self.STEPS:
            with self.subTest(step=step):
                self.setup(user, status=-getattr(signal, f'SIG{number}'), CUT_AT=step, CUT_SIGNAL=number)
                self.assert_nothing_is_left(f'SIG{number} at "{step}"')
        for step in ('connected to', 'compiled'):
            with self.subTest(step=step):
                self.end_when_it_says(step, getattr(signal, f'SIG{number}'), user)
                self.assert_nothing_is_left(f'SIG{number} at "{step}"')
        self.setup(user)
        self.uninstall()

    def end_when_it_says(self, step, number, user):
        words = ['boards', 'setup', f'{user}@127.0.0.1', '--name', 'pi', '--device-program', str(DEVICE), *self.ssh()]
        with self.start(*words) as process:
            for line in process.stdout:
                if step in line:
                    process.send_signal(number)
                    break
            process.communicate(timeout=self.LONGEST)
        self.assertEqual(process.returncode, -number)

    def test_by_sigkill(self):
        self.cut('KILL', 'root')

    def test_by_ctrl_c(self):
        self.cut('INT', 'root')

    def test_by_sigkill_as_a_user_without_rights(self):
        self.cut('KILL', 'plain')

    def test_at_the_last_step_a_board_is_listed_only_where_it_is_there(self):
        for number in ('KILL', 'INT'):
            with self.subTest(signal=number):
                cut = {'status': -getattr(signal, f'SIG{number}'), 'CUT_SIGNAL': number}
                self.setup(CUT_SAID='confirm', **cut)
                self.assert_nothing_is_left(f'SIG{number} before the board keeps it')
                self.assertEqual(self.listed(), [])
                self.setup(CUT_AT='done', **cut)
                self.assertEqual(self.listed(), [])
                self.assertRegex(self.setup(), "board 'pi' was set up already, with the key .*/keys/pi.key; it is in .*boards.toml now")
                self.gantry('boards', 'info', 'pi')
                self.uninstall()

    def test_in_the_middle_of_the_program(self):
        size = DEVICE.stat().st_size
        for action in ('close', 'KILL', 'INT'):
            for bytes_ in (10_000, 20_000, 60_000, size // 2, size - 20_000):
                with self.subTest(action=action, bytes=bytes_):
                    self.setup('root', '--ssh-option', f'ProxyCommand={sys.executable} {WORK}/relay.py {bytes_} {action}',
                               status=2 if action == 'close' else -getattr(signal, f'SIG{action}'))
                    self.assert_nothing_is_left(f'{action} after {bytes_} bytes')
        self.setup()
        self.uninstall()


class Refused(Board):
    """Each error names the board and what to do, and nothing is copied."""

    def refused(self, expected, *words, status=1, user='root', **more):
        said = self.setup(user, *words, status=status, **more)
        self.assertRegex(said, expected)
        self.assert_nothing_is_left(expected)

    def test_a_port_that_is_taken(self):
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # after former connections
            other.bind(('127.0.0.1', PORT))
            other.listen()
            said = self.setup(status=1)
        self.assertRegex(said, r'pi \(root@127\.0\.0\.1\): something listens on port 7453 .*--port')
        self.assertNotIn('copied', said)
        self.assert_nothing_is_left('a taken port')

    def test_a_program_for_another_machine(self):
        header = bytearray(DEVICE.read_bytes()[:64])
        header[18:20] = struct.pack('<H', 183)
        (self.home / 'foreign').write_bytes(header)
        self.refused(r'foreign: is a program for aarch64, but pi .* is an x86_64 machine', '--device-program', str(self.home / 'foreign'))
        (self.home / 'text').write_text('hello')
        self.refused(r'text: is no program', '--device-program', str(self.home / 'text'))

    def test_a_machine_without_a_program_says_where_it_was_looked_for(self):
        alone = self.home / 'bin'
        alone.mkdir()
        os.link(GANTRY, alone / 'gantry') if GANTRY.stat().st_dev == alone.stat().st_dev else shutil.copy(GANTRY, alone / 'gantry')
        done = subprocess.run([str(alone / 'gantry'), 'boards', 'setup', 'root@127.0.0.1', '--name', 'pi', *self.ssh()],
                              env=self.environment(), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r'no gantry-device for x86_64 .*--device-program')
        self.assertIn('lib/gantry/devices/gantry-device-x86_64: is not there', done.stderr)
        self.assert_nothing_is_left('no program')

    def test_a_machine_that_gantry_does_not_compile_for(self):
        uname = pathlib.Path('/usr/local/bin/uname')
        uname.write_text('#!/bin/sh\n[ "$1" = -m ] && echo riscv64 || exec /usr/bin/uname "$@"\n')
        uname.chmod(0o755)
        self.addCleanup(uname.unlink)
        self.before = self.files()
        self.refused(r"pi .*kind 'riscv64'; gantry compiles for x86_64 and aarch64")

    def test_another_host_key_than_the_known_one(self):
        self.refused(r'pi .*ssh: .*Host key for 127\.0\.0\.1 has changed.*ssh-keygen -R', known='wrong', status=2)

    def test_a_host_that_is_not_known(self):
        (WORK / 'none').touch()
        self.refused(r'pi .*ssh: .*Host key verification failed.*`ssh .*root@127\.0\.0\.1`', known='none', status=2)

    def test_a_user_who_is_not_let_in(self):
        self.refused(r'ssh: .*Permission denied.*ssh-copy-id nobody@', user='nobody', status=2)

    def test_a_server_that_cannot_be_reached(self):
        self.refused(r'127\.0\.0\.2.*nothing of it is left on the board', '--listen', '127.0.0.1', '--address', '127.0.0.2', status=2)

    def test_a_program_that_does_not_serve(self):
        for name, source in BROKEN.items():
            with self.subTest(name):
                self.refused('nothing of it is left on the board', '--device-program', self.compiled(source), status=2)

    def test_a_folder_that_is_somebody_elses(self):
        SYSTEM.mkdir()
        (SYSTEM / 'thing').touch()
        self.before = self.files()
        self.refused('/opt/gantry-device is there, but is not what gantry has set up')
        shutil.rmtree(SYSTEM)

    def test_a_board_that_is_set_up_already(self):
        self.setup()
        self.assertRegex(self.setup(status=1), 'is set up already .*update')
        self.gantry('boards', 'info', 'pi')
        self.uninstall()

    def test_a_name_that_another_board_has(self):
        self.setup()
        key = self.home / '.config/gantry/keys/pi.key'
        before = (key.read_bytes(), self.listed())
        for user, *words in (('plain',), ('root', '--ssh-option', 'Compression=yes'), ('root', '--ssh-port', '22')):
            said = self.setup(user, '--port', '7454', *words, status=1)
            self.assertRegex(said, r"board 'pi' is another one \(127\.0\.0\.1:7453, by `ssh .*root@127\.0\.0\.1` in /opt/gantry-device\)"
                                   r'; choose a name with --name')
            self.assertEqual((key.read_bytes(), self.listed()), before, words)
        self.gantry('boards', 'info', 'pi')
        self.uninstall()

    def test_a_name_that_a_server_of_the_same_board_in_another_folder_has(self):
        if not shutil.which('sudo'):
            self.skipTest('sudo is not installed')
        self.setup('admin')
        key = self.home / '.config/gantry/keys/pi.key'
        before = (key.read_bytes(), self.listed())
        self.assertRegex(self.setup('admin', '--no-root', '--port', '7454', status=1), r"board 'pi' is another one .*--name")
        self.assertEqual((key.read_bytes(), self.listed()), before)
        self.uninstall()

    def test_a_board_that_another_has_set_up_whatever_key_is_left_here(self):
        self.setup()
        self.gantry('boards', 'remove', 'pi')
        self.gantry('keygen', '.config/gantry/keys/pi.key', '--force')
        self.assertRegex(self.setup(status=1), 'is set up already .*update')
        self.assertEqual(self.listed(), [])
        self.gantry('boards', 'uninstall', 'root@127.0.0.1', *self.ssh())
        self.assert_nothing_is_left('uninstall')


if __name__ == '__main__':
    boards_over_ssh.main()
