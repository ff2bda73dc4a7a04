#!/usr/bin/env python3
"""Sets boards of other kinds up over ssh: of another architecture, with busybox alone, and with systemd.

usage: see boards_over_ssh.py
"""
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

import boards_over_ssh
from boards_over_ssh import DEVICE, DEVICE_AARCH64, GANTRY, INSIDE, WORK, Board, roots, run


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
        self.before = self.files()
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
        self.serve_ssh('emulation', 2222, f'SetEnv LD_PRELOAD={WORK}/emulation.so')


class Busybox(Board):
    """A board whose shell and tools are busybox's, and which has nothing else: a root of its own, into which ssh leads."""
    ROOT = pathlib.Path('/board')
    TREES = [*boards_over_ssh.TREES, str(ROOT)]
    PLACES = {ROOT / 'opt/gantry-device': 'chief', ROOT / 'home/plain/.gantry-device': 'plain'}

    @classmethod
    def setUpClass(cls):
        busybox = shutil.which('busybox')
        if not busybox:
            raise unittest.SkipTest('busybox is not installed')
        super().setUpClass()
        cls.ROOT.mkdir()
        run('mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', str(cls.ROOT))
        for folder in ('bin', 'etc', 'dev', 'proc', 'root', 'home/plain', 'opt', 'tmp'):
            (cls.ROOT / folder).mkdir(parents=True)
        run('mount', '--bind', '/proc', str(cls.ROOT / 'proc'))
        run('mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', str(cls.ROOT / 'dev'))
        for name in ('null', 'zero', 'urandom'):
            (cls.ROOT / 'dev' / name).touch()
            run('mount', '--bind', f'/dev/{name}', str(cls.ROOT / 'dev' / name))
        cls.put(busybox, 'bin/busybox')
        for applet in run(busybox, '--list').split():
            if applet != 'busybox':
                (cls.ROOT / 'bin' / applet).symlink_to('busybox')
        cls.put(str(DEVICE), 'gantry-device')
        (cls.ROOT / 'gantry-device').unlink()  # its libraries stay
        plain = pwd.getpwnam('plain')
        shutil.chown(cls.ROOT / 'home/plain', plain.pw_uid, plain.pw_gid)
        (cls.ROOT / 'etc/passwd').write_text(f'root:x:0:0::/root:/bin/sh\nplain:x:{plain.pw_uid}:{plain.pw_gid}::/home/plain:/bin/sh\n')
        (cls.ROOT / 'etc/group').write_text(f'root:x:0:\nplain:x:{plain.pw_gid}:\n')
        # Who is root there, with a shell that is there.
        run('useradd', '--non-unique', '--uid', '0', '--gid', '0', '--no-create-home', '--home-dir', '/root', '--shell', '/bin/sh',
            '--password', '*', 'chief')
        cls.serve_ssh('busybox', 2223, f'ChrootDirectory {cls.ROOT}')

    @classmethod
    def put(cls, program, place):
        """The program there, and the libraries that it needs."""
        shutil.copy(program, cls.ROOT / place)
        listed = subprocess.run(['ldd', program], capture_output=True, text=True, check=False).stdout  # nothing of a static one
        for library in re.findall(r'(/\S+) \(0x', listed):
            there = cls.ROOT / library.lstrip('/')
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, there)

    def ssh(self, known='known'):
        return [*super().ssh(known), '--ssh-port', '2223']

    def with_user_gantry(self):
        """Made by hand: this busybox makes none."""
        for name, line in (('passwd', 'gantry:x:990:990::/opt/gantry-device/cache:/bin/nologin\n'), ('group', 'gantry:x:990:\n')):
            path = self.ROOT / 'etc' / name
            before = path.read_text()
            path.write_text(before + line)
            self.addCleanup(path.write_text, before)
        self.before = self.files()

    def test_root_without_a_program_that_makes_users_is_told_before_anything_is_copied(self):
        if (self.ROOT / 'bin/adduser').exists():
            self.skipTest('this busybox makes users')
        said = self.setup('chief', status=2)
        self.assertRegex(said, r'pi \(chief@127\.0\.0\.1\): lacks a user gantry.*--no-root')
        self.assertNotIn('copied', said)
        self.assert_nothing_is_left('refused')

    def test_root_sets_it_up_updates_and_removes_it(self):
        self.with_user_gantry()
        said = self.setup('chief')
        self.assertRegex(said, r'no systemd, root\n')
        self.assertRegex(said, r'ran it there: squeezenet1_1')
        self.assertIn('is set up already', self.setup('chief', status=1))
        self.assertIn('is up to date', self.gantry('boards', 'update', 'pi', '--device-program', str(DEVICE)))
        self.gantry('boards', 'info', 'pi')
        self.uninstall()

    def without_opt(self):
        (self.ROOT / 'opt').rmdir()
        self.addCleanup((self.ROOT / 'opt').mkdir, exist_ok=True)
        self.with_user_gantry()

    def test_the_parent_folder_that_setup_has_made_goes_too(self):
        self.without_opt()
        self.setup('chief')
        self.uninstall()

    def test_so_does_the_one_of_a_setup_that_a_reset_has_interrupted(self):
        self.without_opt()
        stage = self.ROOT / 'opt/gantry-device.partial'
        stage.mkdir(parents=True)
        (stage / 'manifest.pending').write_text('service background\nport 7453\nparent /opt\nfile manifest\n')
        self.setup('chief')
        self.uninstall()

    def test_a_user_without_rights_sets_it_up_updates_and_removes_it(self):
        self.assertIn('no root', self.setup('plain'))
        self.assertIn('is up to date', self.gantry('boards', 'update', 'pi', '--device-program', str(DEVICE)))
        self.gantry('boards', 'info', 'pi')
        self.uninstall()

    def test_cut_off_it_leaves_nothing_and_two_do_not_meet(self):
        for step in ('send gantry-device', 'send run', 'started'):
            with self.subTest(step=step):
                self.setup('plain', status=-signal.SIGKILL, CUT_AT=step, CUT_SIGNAL='KILL')
                self.assert_nothing_is_left(f'SIGKILL at "{step}"')
        words = ['boards', 'setup', 'plain@127.0.0.1', '--name', 'pi', '--device-program', str(DEVICE), *self.ssh()]
        with self.start(*words) as first:
            for line in first.stdout:
                if 'connected to' in line:
                    break
            first.send_signal(signal.SIGSTOP)
            try:
                self.assertRegex(self.setup('plain', '--port', '7454', status=1), 'another gantry sets it up right now')
            finally:
                first.send_signal(signal.SIGCONT)
            first.communicate(timeout=self.LONGEST)
        self.assertEqual(first.returncode, 0)
        self.uninstall()


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
    if os.environ.get(INSIDE):
        del Systemd
    boards_over_ssh.main(outside=('Systemd',))
