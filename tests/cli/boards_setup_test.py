#!/usr/bin/env python3
"""Sets boards up over ssh, updates and uninstalls them: a copy of this machine, in namespaces of its own, is workstation and
board at once, with OpenSSH's server between the two.

usage: boards_setup_test.py GANTRY GANTRY_DEVICE GANTRY_DEVICE_AARCH64 [CASE…]
"""
import contextlib
import fcntl
import json
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
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'package'))
import roots  # noqa: E402  (its folder is not this one)

GANTRY, DEVICE, DEVICE_AARCH64 = (pathlib.Path(argument).absolute() for argument in sys.argv[1:4])
INSIDE = 'GANTRY_BOARDS_SETUP_TEST_INSIDE'  # in the environment of the copy
SHOWN = [folder for folder in os.environ.get('SHOWN', '').split(':') if folder]  # what the copy has of the checkout
PORT = 7453
WORK = pathlib.Path('/workstation')
SYSTEM, USER = pathlib.Path('/opt/gantry-device'), pathlib.Path('/home/plain/.gantry-device')
# Where setup could leave something, with all that is below and by themselves; of files that tools rewrite the contents
# count too.
TREES = ['/opt', '/etc', '/home', '/var/spool', '/tmp', '/var/tmp', '/run']
FOLDERS = ['/', '/root', '/root/.config', '/usr/local/bin', '/usr/local/lib', '/var/lib', '/var/cache', '/var/log', '/usr/lib/systemd/system']
WHOLE = ['/etc/passwd', '/etc/group', '/etc/shadow', '/etc/gshadow']
NOISE = re.compile(r'^/(tmp/gantry-|run/(sshd|sudo|motd)|var/lib/sudo|etc/(passwd|group|g?shadow|subuid|subgid)-$|etc/\.pwd\.lock|'
                   r'home/admin/\.sudo_as_admin_successful)')

# `ssh` of the workstation: ends gantry with $CUT_SIGNAL when the board says $CUT_AT, before gantry hears of it.
SSH = """#!/bin/sh
[ -z "$CUT_AT" ] && exec /usr/bin/ssh "$@"
/usr/bin/ssh "$@" | while IFS= read -r line; do
  case $line in "@gantry $CUT_AT"*) kill "-$CUT_SIGNAL" "$PPID" ;; esac
  printf '%s\\n' "$line"
done
"""
# A ProxyCommand that lets so many bytes through to the board, then closes the connection, or ends gantry, which is the parent
# of the ssh that runs it.
RELAY = """
import os, select, signal, socket, sys
limit, action = int(sys.argv[1]), sys.argv[2]
board = socket.create_connection(('127.0.0.1', 22))
sent = 0
while True:
    for ready in select.select([0, board], [], [])[0]:
        data = os.read(0, 4096) if ready == 0 else board.recv(65536)
        if not data:
            sys.exit()
        if ready == board:
            os.write(1, data)
            continue
        board.sendall(data)
        sent += len(data)
        if sent >= limit:
            if action == 'close':
                sys.exit()
            with open(f'/proc/{os.getppid()}/stat') as stat:
                os.kill(int(stat.read().split(')')[1].split()[1]), getattr(signal, 'SIG' + action))
            limit = 1 << 60
"""
# Say that they are gantry-device, and do not serve.
BROKEN = {
    'ends at once': '#include <stdio.h>\n#include <string.h>\nint main(int n, char** a) {\n'
                    '  if (n > 1 && !strcmp(a[1], "--version")) return puts("gantry-device 9.9") < 0;\n'
                    '  fputs("broken on purpose\\n", stderr);\n  return 3;\n}\n',
    'listens to nobody': '#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\nint main(int n, char** a) {\n'
                         '  if (n > 1 && !strcmp(a[1], "--version")) return puts("gantry-device 9.9") < 0;\n'
                         '  puts("gantry-device 9.9 listening on nothing");\n  fflush(stdout);\n  for (;;) pause();\n}\n',
}


def inside_a_copy():
    """Runs this test in a copy of this machine, and ends as it does."""
    roots.need_rights()
    for program in ('/usr/sbin/sshd', '/usr/bin/ssh'):
        if not os.path.exists(program):
            raise unittest.SkipTest(f'{program} is not installed (openssh-server, openssh-client)')
    folder = tempfile.mkdtemp(prefix='gantry_boards_')
    tried = subprocess.run(roots.namespaces('copy', folder, 'true', more=('--net',)), env={**os.environ, 'SHOWN': ''},
                           capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        shutil.rmtree(folder, ignore_errors=True)
        raise unittest.SkipTest(f'this machine grants no copy of itself: {tried.stderr.strip()}')
    shown = {str(HERE.parent), str(GANTRY.parent), str(DEVICE.parent)}
    if DEVICE_AARCH64.exists():
        shown.add(str(DEVICE_AARCH64.parent))
    command = roots.namespaces('copy', folder, sys.executable, str(HERE / 'boards_setup_test.py'), str(GANTRY), str(DEVICE),
                               str(DEVICE_AARCH64), *sys.argv[4:], more=('--net',))
    try:
        return subprocess.run(command, env={**os.environ, 'SHOWN': ':'.join(sorted(shown)), INSIDE: 'yes'}, check=False).returncode
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def loopback_up():
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack('16sh', b'lo', 1 | 64))  # SIOCSIFFLAGS: IFF_UP, IFF_RUNNING


def make_empty(place):
    """Nothing of what others have there in what this is a copy of, but the checkout where it lies there."""
    kept = {folder: f'/mnt/shown{i}' for i, folder in enumerate(SHOWN) if folder.startswith(place + '/')}
    for folder, keeper in kept.items():
        os.makedirs(keeper)
        run('mount', '--bind', folder, keeper)
    run('mount', '-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', place)
    for folder, keeper in kept.items():
        os.makedirs(folder)
        run('mount', '--bind', keeper, folder)
        run('umount', keeper)
        os.rmdir(keeper)


def run(*words, **more):
    return subprocess.run(words, capture_output=True, text=True, check=True, **more).stdout


def listens(port=PORT):
    with socket.socket() as probe:
        return probe.connect_ex(('127.0.0.1', port)) == 0


def processes():
    """Command lines of what setup starts on a board."""
    lines = []
    for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
        with contextlib.suppress(OSError):
            lines.append(path.read_bytes().replace(b'\0', b' ').decode(errors='replace').strip())
    return [line for line in lines
            if re.search(r'gantry-on-board|/\.?gantry-device/run|gantry-device serve', line) and 'ssh -' not in line]


def files():
    """Names of all that could be left, and contents of what tools rewrite."""
    found = {os.path.join(folder, name) for folder in FOLDERS if os.path.isdir(folder) for name in os.listdir(folder)}
    for place in TREES:
        for folder, folders, names in os.walk(place):
            folders[:] = [name for name in folders if os.path.join(folder, name) not in SHOWN]
            found.update(os.path.join(folder, name) for name in folders + names)
    found = {name for name in found if not NOISE.match(name)}
    return found | {f'{name}: {pathlib.Path(name).read_text()}' for name in WHOLE}


class Board(unittest.TestCase):
    """A board that ssh lets root, `plain` (no rights) and, where there is sudo, `admin` (any, without a password) in."""
    LONGEST = 120

    @classmethod
    def setUpClass(cls):
        if cls is Board or os.path.exists('/run/sshd.pid.test'):
            return
        loopback_up()
        for place in ('/tmp', '/var/tmp', '/run'):
            make_empty(place)
        WORK.mkdir()
        (WORK / 'bin').mkdir()
        (WORK / 'bin' / 'ssh').write_text(SSH)
        (WORK / 'bin' / 'ssh').chmod(0o755)
        (WORK / 'relay.py').write_text(RELAY)
        shutil.rmtree(SYSTEM, ignore_errors=True)
        for user in ('plain', 'admin'):
            run('useradd', '--create-home', '--shell', '/bin/sh', '--password', '*', user)
        if os.path.isdir('/etc/sudoers.d'):
            pathlib.Path('/etc/sudoers.d/admin').write_text('admin ALL=(ALL) NOPASSWD: ALL\n')
        run('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', str(WORK / 'id'))
        for home in ('/root', '/home/plain', '/home/admin'):
            folder = pathlib.Path(home) / '.ssh'
            folder.mkdir(mode=0o700, exist_ok=True)
            shutil.copy(WORK / 'id.pub', folder / 'authorized_keys')
            if home != '/root':
                shutil.chown(folder, os.path.basename(home))
                shutil.chown(folder / 'authorized_keys', os.path.basename(home))
        run('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', str(WORK / 'host'))
        os.makedirs('/run/sshd', exist_ok=True)
        config = WORK / 'sshd_config'
        config.write_text(f'ListenAddress 127.0.0.1\nHostKey {WORK}/host\nPermitRootLogin yes\nUsePAM no\nStrictModes no\n'
                          'PidFile /run/sshd.pid.test\nUseDNS no\nMaxStartups 100\n')
        run('/usr/sbin/sshd', '-f', str(config))
        key = (WORK / 'host.pub').read_text().split()
        (WORK / 'known').write_text(f'127.0.0.1 {key[0]} {key[1]}\n')
        (WORK / 'wrong').write_text('127.0.0.1 ' + ' '.join((WORK / 'id.pub').read_text().split()[:2]) + '\n')

    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(dir=WORK))
        self.before = files()
        self.addCleanup(self.clean_up)

    def clean_up(self):
        """What a case has left, so that the next one starts from nothing."""
        for folder in (SYSTEM, USER):
            if folder.exists():
                self.gantry('boards', 'uninstall', ('root' if folder == SYSTEM else 'plain') + '@127.0.0.1', *self.ssh(), status=None)

    def ssh(self, known='known'):
        options = [f'UserKnownHostsFile={WORK}/{known}', f'IdentityFile={WORK}/id', 'IdentitiesOnly=yes', 'IdentityAgent=none']
        return [word for option in options for word in ('--ssh-option', option)]

    def environment(self, **more):
        return {'PATH': f'{WORK}/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'HOME': str(self.home), 'USER': 'tester',
                'XDG_CACHE_HOME': str(WORK / 'cache'), **more}

    def start(self, *words, **more):
        return subprocess.Popen([str(GANTRY), *words], env=self.environment(**more), cwd=self.home, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def gantry(self, *words, status=0, **more):
        with self.start(*words, **more) as process:
            out, err = process.communicate(timeout=self.LONGEST)
        if status is not None:
            self.assertEqual(process.returncode, status, f'gantry {" ".join(words)}\n{out}\n{err}')
        return out + err

    def setup(self, user='root', *words, known='known', **more):
        words = words if '--device-program' in words else (*words, '--device-program', str(DEVICE))
        return self.gantry('boards', 'setup', f'{user}@127.0.0.1', '--name', 'pi', *self.ssh(known), *words, **more)

    def assert_nothing_is_left(self, what, patience=30):
        """No file, no process, no port; a board notices within moments that its workstation has gone."""
        deadline = time.monotonic() + patience
        while True:
            left = (sorted(files() ^ self.before), processes(), listens())
            if left == ([], [], False):
                return
            if time.monotonic() > deadline:
                self.fail(f'{what}: left files {left[0]}, processes {left[1]}, port open: {left[2]}')
            time.sleep(0.1)

    def uninstall(self):
        self.gantry('boards', 'uninstall', 'pi')
        self.assert_nothing_is_left('uninstall')
        self.assertEqual(json.loads(self.gantry('boards', 'list', '--json')), [])
        self.assertEqual(list((self.home / '.config/gantry/keys').iterdir()), [])

    def compiled(self, source):
        if not shutil.which('cc'):
            self.skipTest('there is no C compiler')
        (self.home / 'broken.c').write_text(source)
        run('cc', '-o', str(self.home / 'broken'), str(self.home / 'broken.c'))
        return str(self.home / 'broken')


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
        for step in ('connected to', 'compiled', 'ran it there'):
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
        self.before = files()
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
        self.before = files()
        self.refused('/opt/gantry-device is there, but is not what gantry has set up')
        shutil.rmtree(SYSTEM)

    def test_a_board_that_is_set_up_already(self):
        self.setup()
        self.assertRegex(self.setup(status=1), 'is set up already .*update')
        self.gantry('boards', 'info', 'pi')
        self.uninstall()


class Update(Board):
    def test_the_new_program_serves_with_the_old_key_and_settings(self):
        self.setup()
        options = SYSTEM / 'options'
        options.write_text(options.read_text().replace('--log-level warning', '--log-level error'))
        new = self.home / 'new'
        new.write_bytes(DEVICE.read_bytes() + b'\0')  # another file of the same program
        self.assertIn('is up to date', self.gantry('boards', 'update', 'pi', '--device-program', str(new)))
        self.assertEqual((SYSTEM / 'gantry-device').read_bytes(), new.read_bytes())
        self.assertIn('--log-level error', options.read_text())
        self.gantry('boards', 'info', 'pi')
        self.uninstall()

    def test_the_old_program_is_back_after_one_that_fails(self):
        self.setup()
        old = (SYSTEM / 'gantry-device').read_bytes()
        for name, source in BROKEN.items():
            with self.subTest(name):
                said = self.gantry('boards', 'update', 'pi', '--device-program', self.compiled(source), status=2)
                self.assertIn('the old program is back and runs', said)
                self.assertEqual((SYSTEM / 'gantry-device').read_bytes(), old)
                self.gantry('boards', 'info', 'pi')
        self.uninstall()

    def test_cut_off_at_any_step_the_old_program_serves(self):
        self.setup()
        old, new = (SYSTEM / 'gantry-device').read_bytes(), self.home / 'new'
        new.write_bytes(old + b'\0')
        for number in ('KILL', 'INT'):
            for step in ('end', 'send gantry-device', 'version', 'started'):
                with self.subTest(step=step, signal=number):
                    self.gantry('boards', 'update', 'pi', '--device-program', str(new),
                                status=-getattr(signal, f'SIG{number}'), CUT_AT=step, CUT_SIGNAL=number)
                    deadline = time.monotonic() + 20
                    while any('gantry-on-board' in line for line in processes()) and time.monotonic() < deadline:
                        time.sleep(0.1)
                    self.assertEqual((SYSTEM / 'gantry-device').read_bytes(), old)
                    self.assertFalse(pathlib.Path('/opt/gantry-device.partial').exists())
                    self.gantry('boards', 'info', 'pi')
        self.uninstall()


# Has the board's shell start programs for AArch64 in qemu-aarch64, as the kernel does where binfmt_misc says so: which is
# the whole machine's, and left alone here.
EMULATION = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>
typedef int (*Execve)(const char*, char* const*, char* const*);
int execve(const char* path, char* const* arguments, char* const* environment) {
  Execve next = (Execve)dlsym(RTLD_NEXT, "execve");
  unsigned char header[20] = {0};
  int file = open(path, O_RDONLY | O_CLOEXEC);
  int is_program = file >= 0 && read(file, header, 20) == 20 && header[0] == 127 && header[18] == 183;
  if (file >= 0) close(file);
  if (!is_program) return next(path, arguments, environment);
  char* words[64] = {QEMU, (char*)path};
  for (int i = 1; i < 62 && arguments[i]; ++i) words[i + 1] = arguments[i];
  return next(QEMU, words, environment);
}
"""


class Emulated(Board):
    """An AArch64 board: its programs run in qemu-aarch64."""

    def test_from_nothing_to_a_first_timing_on_aarch64(self):
        if not DEVICE_AARCH64.exists():
            self.skipTest(f'{DEVICE_AARCH64} is not built')
        qemu = shutil.which('qemu-aarch64-static') or shutil.which('qemu-aarch64')
        if not qemu:
            self.skipTest('qemu-aarch64 is not installed')
        self.emulate(qemu)
        uname = pathlib.Path('/usr/local/bin/uname')
        uname.write_text('#!/bin/sh\n[ "$1" = -m ] && echo aarch64 || exec /usr/bin/uname "$@"\n')
        uname.chmod(0o755)
        self.addCleanup(uname.unlink)
        self.before = files()
        said = self.setup('root', '--device-program', str(DEVICE_AARCH64), '--ssh-port', '2222')
        self.assertRegex(said, r'aarch64, Linux')
        self.assertRegex(said, r'ran it there: squeezenet1_1')
        self.assertIn('aarch64', self.gantry('boards', 'info', 'pi'))
        self.uninstall()

    def emulate(self, qemu):
        if not shutil.which('cc'):
            self.skipTest('there is no C compiler')
        (WORK / 'emulation.c').write_text(f'#define QEMU "{qemu}"\n{EMULATION}')
        run('cc', '-shared', '-fPIC', '-o', str(WORK / 'emulation.so'), str(WORK / 'emulation.c'), '-ldl')
        (WORK / 'sshd_emulation').write_text((WORK / 'sshd_config').read_text().replace('.pid.test', '.pid.emulation') +
                                             f'Port 2222\nSetEnv LD_PRELOAD={WORK}/emulation.so\n')
        run('/usr/sbin/sshd', '-f', str(WORK / 'sshd_emulation'))
        with open(WORK / 'known', 'a', encoding='utf-8') as known:
            known.write('[127.0.0.1]:2222 ' + ' '.join((WORK / 'host.pub').read_text().split()[:2]) + '\n')


class Systemd(unittest.TestCase):
    """A board under systemd: an empty Debian, which it boots; the workstation is this machine in the board's network."""

    def test_the_service_is_set_up_updated_and_removed(self):
        roots.need_rights()
        for name in ('ssh', 'nsenter'):
            if not shutil.which(name):
                self.skipTest(f'{name} is not installed')
        root = roots.empty_root(str(GANTRY.parent.parent / 'package-roots'))
        self.addCleanup(shutil.rmtree, root.path, ignore_errors=True)
        self.home = pathlib.Path(tempfile.mkdtemp(prefix='gantry_systemd_'))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.make_board(root)
        with roots.Booted(root) as system:
            self.system = system
            self.on_board('ip link set lo up || true; systemctl restart ssh')
            before = self.state()
            said = self.gantry('setup', 'root@127.0.0.1', '--name', 'pi', *self.ssh())
            self.assertRegex(said, 'systemd, root\n(.*\n)*.*service gantry-device')
            self.assertRegex(self.on_board('systemctl is-enabled gantry-device; systemctl is-active gantry-device'), 'enabled|linked')
            self.on_board('systemctl reload gantry-device && systemctl restart gantry-device')
            self.gantry('info', 'pi')
            self.gantry('update', 'pi')
            for number in ('KILL', 'INT'):
                self.fail_to_update(number)
            self.gantry('uninstall', 'pi')
            self.assertEqual(self.state(), before)

    def make_board(self, root):
        run('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', str(self.home / 'id'))
        code, text = root.run('apt-get update -qq && apt-get install -y --no-install-recommends systemd openssh-server iproute2', 300)
        self.assertEqual(code, 0, text)
        folder = pathlib.Path(root.file('root/.ssh'))
        folder.mkdir(mode=0o700, exist_ok=True)
        shutil.copy(self.home / 'id.pub', folder / 'authorized_keys')

    def on_board(self, script):
        code, text = self.system.run(script)
        self.assertEqual(code, 0, text)
        return text

    def state(self):
        return self.on_board('find /opt /etc/systemd /root | sort; grep -v "^-" /etc/passwd; cat /etc/group; '
                             'systemctl list-units --all --no-legend --plain "gantry*"; cat /proc/net/tcp | grep ":1D1D" || true')

    def ssh(self):
        options = [f'UserKnownHostsFile={self.home}/known', 'StrictHostKeyChecking=accept-new', f'IdentityFile={self.home}/id']
        return [word for option in options for word in ('--ssh-option', option)]

    def start(self, *words):
        return subprocess.Popen(['nsenter', '--target', self.system.first_process(), '--net', str(GANTRY), 'boards', *words],
                                env={**os.environ, 'HOME': str(self.home), 'XDG_CONFIG_HOME': str(self.home)},
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def gantry(self, *words):
        with self.start(*words) as process:
            text = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, 0, text)
        return text

    def fail_to_update(self, number):
        """An update that is cut off: the service runs on with the old program."""
        with self.start('update', 'pi') as process:
            for line in process.stdout:
                if 'connected to' in line:
                    process.send_signal(getattr(signal, f'SIG{number}'))
                    break
            process.communicate(timeout=60)
        deadline = time.monotonic() + 30
        while 'yes' in self.on_board('test -e /opt/gantry-device.partial && echo yes || true') and time.monotonic() < deadline:
            time.sleep(0.2)
        self.gantry('info', 'pi')


if __name__ == '__main__':
    if sys.argv[4:] and sys.argv[-1].startswith('Systemd'):
        sys.argv[1:4] = []
        unittest.main()
    if os.environ.get(INSIDE):
        del Systemd
        sys.argv[1:4] = []
        unittest.main()
    try:
        sys.exit(inside_a_copy())
    except unittest.SkipTest as reason:
        print(f'skipped: {reason}')
        sys.exit(77)
