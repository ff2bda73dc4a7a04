"""What the tests of boards that are set up over ssh share: a copy of this machine, in namespaces of its own, is workstation and
board at once, with OpenSSH's server between the two.

usage of each: TEST.py GANTRY GANTRY_DEVICE GANTRY_DEVICE_AARCH64 [CASE…]
"""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
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
WHOLE = ['etc/passwd', 'etc/group', 'etc/shadow', 'etc/gshadow']
NOISE = re.compile(r'^/(tmp/gantry-|run/(sshd|sudo|motd)|var/lib/sudo|etc/(passwd|group|g?shadow|subuid|subgid)-$|etc/\.pwd\.lock|'
                   r'home/admin/\.sudo_as_admin_successful)')

# `ssh` of the workstation: ends gantry with $CUT_SIGNAL when the board says $CUT_AT, before gantry hears of it, or when gantry
# says $CUT_SAID, before the board does.
SSH = """#!/bin/sh
[ -n "$CUT_SAID" ] && [ "$1" != -G ] && exec python3 /workstation/said.py "$@"
[ -z "$CUT_AT" ] && exec /usr/bin/ssh "$@"
/usr/bin/ssh "$@" | while IFS= read -r line; do
  case $line in "@gantry $CUT_AT"*)
    kill "-$CUT_SIGNAL" "$PPID"
    for _ in $(seq 200); do  # it has ended, or become a zombie, before it could read the line
      grep -qs '^State:[[:space:]]*[ZX]' "/proc/$PPID/status" || [ ! -e "/proc/$PPID" ] && break
      sleep 0.05
    done ;;
  esac
  printf '%s\\n' "$line"
done
"""
SAID = """
import os, signal, subprocess, sys
board = subprocess.Popen(['/usr/bin/ssh', *sys.argv[1:]], stdin=subprocess.PIPE)
while said := os.read(0, 65536):
    if said.endswith(os.environ['CUT_SAID'].encode() + b'\\n'):
        os.kill(os.getppid(), getattr(signal, 'SIG' + os.environ['CUT_SIGNAL']))
        break
    board.stdin.write(said)
    board.stdin.flush()
board.stdin.close()
sys.exit(board.wait())
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
    command = roots.namespaces('copy', folder, sys.executable, os.path.abspath(sys.argv[0]), str(GANTRY), str(DEVICE),
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


def files(trees):
    """Names of all that could be left, and contents of what tools rewrite."""
    found = {os.path.join(folder, name) for folder in FOLDERS if os.path.isdir(folder) for name in os.listdir(folder)}
    for place in trees:
        for folder, folders, names in os.walk(place):
            paths = {name: os.path.join(folder, name) for name in folders}
            folders[:] = [name for name, path in paths.items() if path not in SHOWN and not os.path.ismount(path)]
            found.update(os.path.join(folder, name) for name in folders + names)
    found = {name for name in found if not NOISE.match(name)}
    whole = [place + name for place in ('/', '/board/') for name in WHOLE if os.path.exists(place + name)]
    return found | {f'{name}: {pathlib.Path(name).read_text()}' for name in whole}


class Board(unittest.TestCase):
    """A board that ssh lets root, `plain` (no rights) and, where there is sudo, `admin` (any, without a password) in."""
    LONGEST = 120
    TREES = TREES
    PLACES = {SYSTEM: 'root', USER: 'plain'}  # where setup puts things, as whom

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
        (WORK / 'said.py').write_text(SAID)
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

    @staticmethod
    def serve_ssh(name, port, *lines):
        """Another server of ssh, with further lines of its settings."""
        (WORK / f'sshd_{name}').write_text((WORK / 'sshd_config').read_text().replace('.pid.test', f'.pid.{name}') +
                                           ''.join(f'{line}\n' for line in (f'Port {port}', *lines)))
        run('/usr/sbin/sshd', '-f', str(WORK / f'sshd_{name}'))
        with open(WORK / 'known', 'a', encoding='utf-8') as known:
            known.write(f'[127.0.0.1]:{port} ' + ' '.join((WORK / 'host.pub').read_text().split()[:2]) + '\n')

    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(dir=WORK))
        self.before = self.files()
        self.addCleanup(self.clean_up)

    def clean_up(self):
        """What a case has left, so that the next one starts from nothing."""
        for folder, user in self.PLACES.items():
            if folder.exists():
                self.gantry('boards', 'uninstall', f'{user}@127.0.0.1', *self.ssh(), status=None)

    def files(self):
        return files(self.TREES)

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
            left = (sorted(self.files() ^ self.before), processes(), listens())
            if left == ([], [], False):
                return
            if time.monotonic() > deadline:
                self.fail(f'{what}: left files {left[0]}, processes {left[1]}, port open: {left[2]}')
            time.sleep(0.1)

    def listed(self):
        return json.loads(self.gantry('boards', 'list', '--json'))

    def uninstall(self):
        self.gantry('boards', 'uninstall', 'pi')
        self.assert_nothing_is_left('uninstall')
        self.assertEqual(self.listed(), [])
        self.assertEqual(list((self.home / '.config/gantry/keys').iterdir()), [])

    def compiled(self, source):
        if not shutil.which('cc'):
            self.skipTest('there is no C compiler')
        (self.home / 'broken.c').write_text(source)
        run('cc', '-o', str(self.home / 'broken'), str(self.home / 'broken.c'))
        return str(self.home / 'broken')


def main(outside=()):
    """Runs the cases of the main module, in a copy of this machine but for those named, which make roots of their own."""
    arguments = [sys.argv[0], *sys.argv[4:]]
    if os.environ.get(INSIDE) or any(sys.argv[4:5] == [name] for name in outside):
        unittest.main(argv=arguments)
    try:
        sys.exit(inside_a_copy())
    except unittest.SkipTest as reason:
        print(f'skipped: {reason}')
        sys.exit(77)
