#!/usr/bin/env python3
"""Installs the packages, which package_files_test.py has made, in an empty Debian 12, and uses them there: the workstation's
first session, an application, the board's service from its first key to the purge.

    package_install_test.py --build BUILD --packages FOLDER [unittest's arguments]

Needs root's rights and Debian's mirror, and says so where it is skipped for want of them.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import arguments  # noqa: E402
import packages  # noqa: E402
import roots  # noqa: E402

CAPABILITIES = '+setuid,+setgid,+setpcap,+dac_read_search,+net_bind_service'
# What README's first session takes longer for than a test may.
SHORTER = {'bench resnet18.onnx': 'bench resnet18.onnx --processes 1 --repeat 10 --warmup 1'}
APPLICATION = r"""
#include <gantry/runtime.h>
#include <stdio.h>

int main(int count, char** arguments) {
  GantryModule* module = NULL;
  (void)count;
  if (gantry_module_load(arguments[1], &module) != GANTRY_OK) {
    fprintf(stderr, "%s\n", gantry_last_error());
    return 1;
  }
  printf("runtime %s runs code for %s\n", gantry_version(), gantry_module_target(module));
  gantry_module_release(module);
  return 0;
}
"""
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(application C)
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
find_package(gantry REQUIRED)
foreach(kind shared static)
  add_executable(${kind} application.c)
endforeach()
target_link_libraries(shared PRIVATE gantry::runtime)
target_link_libraries(static PRIVATE gantry::runtime_static)
"""


def first_session():
    """The commands of README.md, as who has installed the package types them."""
    with open(os.path.join(packages.SOURCE, 'README.md'), encoding='utf-8') as file:
        block = re.search(r'^## A first session\n+```\n(.*?)^```', file.read(), re.M | re.S).group(1)
    commands = [re.sub(r'\s+#.*', '', line).replace('build/bin/gantry', 'gantry') for line in block.splitlines()]
    for long, short in SHORTER.items():
        commands = [command.replace(long, short) for command in commands]
    return commands


class Installed(unittest.TestCase):
    """With a root in which apt works."""

    @classmethod
    def fresh_root(cls, *names):
        root = roots.empty_root(os.path.join(arguments.build, 'package-roots'))
        cls.addClassCleanup(shutil.rmtree, root.path, ignore_errors=True)
        for name in names:
            path = packages.find(arguments.packages, name)
            shutil.copy(path, root.file(f'root/{os.path.basename(path)}'))
        return root

    def check(self, result, *expected):
        """That a script ended well and printed what these patterns say; returns what it printed."""
        code, text = result
        self.assertEqual(code, 0, text)
        for pattern in expected:
            self.assertRegex(text, pattern)
        return text


class PackagesInAnEmptyRoot(Installed):
    @classmethod
    def setUpClass(cls):
        cls.root = cls.fresh_root('gantry', 'gantry-device', 'libgantry-runtime0')
        began = time.monotonic()
        code, text = cls.root.run('apt-get update -qq && apt-get install -y --no-install-recommends ./gantry_*.deb', timeout=300)
        if code != 0:
            raise AssertionError(f'apt-get install ./gantry_*.deb: exit code {code}\n{text}')
        print(f'apt-get install ./gantry_*.deb: {time.monotonic() - began:.1f} s', file=sys.stderr)

    def test_the_first_session_of_the_readme_runs(self):
        commands = first_session()
        self.assertGreaterEqual(len(commands), 4, commands)
        self.check(self.root.run(' && '.join(commands)), 'median', r'conv\w*', r'resnet18\.gmod: module of')

    def test_what_is_installed_is_complete(self):
        self.check(self.root.run('dpkg --verify gantry && dpkg --audit && gantry --version && gantry man | grep -q boards && '
                                 'for each in gantry gantry-device; do ldd /usr/lib/gantry/bin/$each; done'), r'gantry 0\.')
        self.assertNotIn('not found', self.root.run('ldd /usr/lib/gantry/bin/*')[1])

    def test_an_application_that_was_built_with_the_runtime_packages_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ('libgantry-runtime0', 'libgantry-runtime-dev'):
                packages.extract(packages.find(arguments.packages, name), folder)
            for name, text in (('application.c', APPLICATION), ('CMakeLists.txt', PROJECT)):
                with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                    file.write(text)
            for command in (['cmake', '-S', folder, '-B', f'{folder}/build', f'-DCMAKE_PREFIX_PATH={folder}/usr'],
                            ['cmake', '--build', f'{folder}/build']):
                code, text = roots.run(command, 120)
                self.assertEqual(code, 0, text)
            for name in ('shared', 'static'):
                shutil.copy(f'{folder}/build/{name}', self.root.file(f'root/{name}'))
        self.check(self.root.run('gantry zoo squeezenet1_1 --size 64 -o net.onnx; gantry compile net.onnx --target x86-64-v3; '
                                 './static net.gmod'), r'runtime 0\.\S+ runs code for x86-64-v3')
        code, text = self.root.run('./shared net.gmod')
        self.assertNotEqual(code, 0, f'it runs without its library: {text}')
        self.check(self.root.run('apt-get install -y --no-install-recommends ./libgantry-runtime0_*.deb >/dev/null; '
                                 './shared net.gmod'), r'runtime 0\.\S+ runs code for x86-64-v3')

    def test_under_systemd_the_service_serves_from_its_first_key_to_the_purge(self):
        self.check(self.root.run('apt-get install -y --no-install-recommends systemd', timeout=300))
        with tempfile.TemporaryDirectory() as folder:
            later = packages.later_version(packages.find(arguments.packages, 'gantry-device'), folder)
            shutil.copy(later, self.root.file('root/later.deb'))
        with roots.Booted(self.root) as system:
            self.install(system)
            self.serve(system)
            self.update_and_remove(system)

    def install(self, system):
        self.check(system.run('dpkg -i gantry-device_*.deb && systemd-analyze verify --man=no gantry-device.service'),
                   'the service is off')
        self.check(system.run('systemctl is-enabled gantry-device || systemctl is-active gantry-device || true'),
                   r'^disabled\ninactive\n')
        code, text = system.run('systemctl start gantry-device')
        self.assertNotEqual(code, 0, f'it starts without a key: {text}')
        self.check(system.run('journalctl --unit gantry-device --output cat'), "there is no key in /etc/gantry/keys.*'gantry keygen'")

    def serve(self, system):
        """Under all that the unit takes from it, it must do what it is for."""
        self.check(system.run('gantry keygen alice.key --identity alice && install -m 600 alice.key /etc/gantry/keys/ && '
                              'systemctl enable --now gantry-device && systemctl status --no-pager gantry-device'),
                   r'Status: "listening on 0\.0\.0\.0:7453 \(TLS 1\.3, key alice\)"')
        self.check(system.run('grep -E "^(Uid|CapEff|CapBnd|NoNewPrivs)" /proc/$(systemctl show -P MainPID gantry-device)/status'),
                   r'Uid:\s+(?!0\b)', r'CapEff:\s+0+\n', r'CapBnd:\s+0+\n', r'NoNewPrivs:\s+1')
        self.check(system.run('gantry zoo squeezenet1_1 --size 64 -o net.onnx && '
                              'gantry boards add board 127.0.0.1:7453 --key alice.key && gantry boards info board && '
                              'gantry bench net.onnx --on board --processes 2 --repeat 10 --warmup 1'), 'median')
        self.check(system.run('journalctl --unit gantry-device --output cat'), r'alice module of \d+ segments .* loaded')
        self.check(system.run('rm /etc/gantry/keys/alice.key; gantry keygen bob.key --identity bob; '
                              'install -m 600 bob.key /etc/gantry/keys/; systemctl reload gantry-device; sleep 0.5; '
                              'journalctl --unit gantry-device --output cat'), 'SIGHUP: key bob')
        code, text = system.run('gantry boards info board')
        self.assertEqual(code, 2, f'a key that was removed still opens the board: {text}')

    def update_and_remove(self, system):
        pid = 'systemctl show -P MainPID gantry-device'
        before = self.check(system.run(pid))
        after = self.check(system.run(f'dpkg -i later.deb >/dev/null; {pid}'), r'[1-9]')
        self.assertNotEqual(before, after, 'the new program does not run after an update')
        self.check(system.run('dpkg -r gantry-device 2>&1; ls /etc/gantry/keys; systemctl is-active gantry-device || true'),
                   r'bob\.key', 'inactive')
        self.check(system.run('dpkg -i gantry-device_*.deb >/dev/null; systemctl is-enabled gantry-device'), r'^enabled')
        self.check(system.run('dpkg -P gantry-device; test ! -e /etc/gantry; '
                              'test ! -L /etc/systemd/system/multi-user.target.wants/gantry-device.service'))


class ServiceWithoutSystemd(Installed):
    def test_keys_outlive_all_but_the_purge(self):
        root = self.fresh_root('gantry-device')
        with tempfile.TemporaryDirectory() as folder:
            later = packages.later_version(packages.find(arguments.packages, 'gantry-device'), folder)
            shutil.copy(later, root.file('root/later.deb'))
        self.check(root.run('dpkg -i gantry-device_*.deb'), 'the service is off, because no key is in /etc/gantry/keys')
        self.check(root.run('stat -c "%n %a %U" /etc/gantry/keys /var/cache/gantry; id gantry; dpkg --verify gantry-device'),
                   'keys 700 root', 'cache/gantry 700 gantry', r'gid=\d+\(gantry\)')
        root.run('echo secret >/etc/gantry/keys/alice.key; chmod 600 /etc/gantry/keys/alice.key; echo OPTIONS= >/etc/default/gantry-device')
        text = self.check(root.run('dpkg -i later.deb; grep . /etc/gantry/keys/alice.key /etc/default/gantry-device'),
                          'alice.key:secret', 'gantry-device:OPTIONS=$')
        self.assertNotIn('the service is off', text)
        self.check(root.run('dpkg -r gantry-device; grep . /etc/gantry/keys/alice.key; test ! -e /var/cache/gantry'), 'secret')
        self.check(root.run('dpkg -i gantry-device_*.deb; stat -c %U /var/cache/gantry'), r'\ngantry\n')
        root.run('mkdir -p /etc/gantry/farm; echo "[pi5-1]" >/etc/gantry/farm/farm.toml')
        self.check(root.run('dpkg -P gantry-device; for each in /etc/gantry/keys /var/cache/gantry /etc/default/gantry-device; do '
                            'test ! -e $each; done; test -z "$(dpkg -L gantry-device 2>/dev/null)"; '
                            'cat /etc/gantry/farm/farm.toml'), r'\[pi5-1\]')


class ServiceLine(Installed):
    """Without a network: the unit's own command in a copy of this machine."""

    def test_the_command_of_the_unit_serves_as_its_user(self):
        roots.need_rights()
        tree = tempfile.mkdtemp(prefix='gantry_service_line_')
        self.addCleanup(shutil.rmtree, tree, ignore_errors=True)
        device = packages.find(arguments.packages, 'gantry-device')
        packages.extract(device, tree)
        with open(os.path.join(tree, 'lib/systemd/system/gantry-device.service'), encoding='utf-8') as file:
            command = re.search(r'^ExecStart=(.*)', file.read(), re.M).group(1)
        bin_ = os.path.join(arguments.build, 'bin')
        # Options in place of the file's: any free port of loopback.
        script = f"""
        dpkg -i {device} >/dev/null 2>log || {{ cat log; exit 1; }}
        {bin_}/gantry keygen lab.key --identity lab >/dev/null; install -m 600 lab.key /etc/gantry/keys/
        OPTIONS='--listen 127.0.0.1:0'
        setpriv --bounding-set=-all,{CAPABILITIES} --no-new-privs -- {command} >out 2>log & pid=$!
        for try in $(seq 100); do if grep -q listening out; then break; fi; sleep 0.1; done
        cat out; grep -E '^(Uid|CapEff)' /proc/$pid/status
        port=$(sed -n 's/.*listening on 127.0.0.1:\\([0-9]*\\).*/\\1/p' out)
        {bin_}/gantry boards add board 127.0.0.1:$port --key lab.key
        {bin_}/gantry zoo squeezenet1_1 --size 64 -o net.onnx
        {bin_}/gantry bench net.onnx --on board --processes 1 --repeat 10 --warmup 1 || {{ cat log; exit 1; }}
        kill $pid; wait $pid; cat log
        """
        folder = tempfile.mkdtemp(prefix='gantry_copy_')
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        machine = roots.CopyOfThisMachine(folder, [arguments.packages, bin_])
        self.check(machine.run(script), 'TLS 1.3, key lab', r'Uid:\s+(?!0\b)\d+',
                   r'CapEff:\s+0+\n', 'median', r'lab module of \d+ segments', 'stopped')


class BoardProgramForArm64(Installed):
    def test_it_serves_under_emulation(self):
        if not shutil.which('qemu-aarch64'):
            self.skipTest('qemu-aarch64 is not installed')
        folder = tempfile.mkdtemp(prefix='gantry_arm64_')
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        packages.extract(packages.find(arguments.packages, 'gantry-device', 'arm64'), folder)
        gantry = os.path.join(arguments.build, 'bin', 'gantry')
        environment = {**os.environ, 'XDG_CONFIG_HOME': folder}

        def run(*words):
            done = subprocess.run([gantry, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
                                  check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            return done.stdout
        run('keygen', 'board.key')
        server = subprocess.Popen(['qemu-aarch64', f'{folder}/usr/bin/gantry-device', 'serve', '--listen', '127.0.0.1:0', '--key',
                                   f'{folder}/board.key', '--cache', f'{folder}/cache'], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        try:
            port = re.search(r'127\.0\.0\.1:(\d+)', server.stdout.readline()).group(1)
            run('boards', 'add', 'arm', f'127.0.0.1:{port}', '--key', 'board.key')
            self.assertIn('aarch64', run('boards', 'info', 'arm'))
            run('zoo', 'squeezenet1_1', '--size', '32', '-o', 'net.onnx')
            self.assertIn('median', run('bench', 'net.onnx', '--on', 'arm', '--processes', '1', '--warmup', '1', '--repeat', '10',
                                        '--number', '1'))
        finally:
            server.terminate()
            server.wait()
            server.stdout.close()


if __name__ == '__main__':
    arguments.main()
