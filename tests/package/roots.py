"""Roots of a Debian system to install packages in: an empty one from the mirror that this machine uses, or a copy of this
machine's that keeps what is written apart. What runs there has processes and mounts of its own, which end with it."""
import os
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

RELEASE = 'bookworm'
BASE_TIMEOUT = 90  # seconds to make an empty root; some 20 on a machine that does nothing else
PATH = '/usr/sbin:/usr/bin:/sbin:/bin'

# Run as `bash -c ENTER bash KIND ROOT COMMAND…` in namespaces of its own: gives the root what programs expect, and goes
# there. KIND: "own", a folder with a root; "boot", the same for systemd; "copy", this machine's root with what changes in a
# file system in memory over the folder, so that it is gone with the namespace.
ENTER = r"""
set -e
kind=$1 root=$2
shift 2
if [ "$kind" = copy ]; then
  mount -t tmpfs tmpfs "$root"
  mkdir "$root/changes" "$root/work" "$root/root"
  mount -t overlay overlay -o "lowerdir=/,upperdir=$root/changes,workdir=$root/work" "$root/root"
  root=$root/root
  IFS=:
  for each in $SHOWN; do
    mkdir -p "$root$each"
    mount --bind "$each" "$root$each"
  done
  unset IFS
else
  mount --bind "$root" "$root"
fi
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
if [ "$kind" = boot ]; then
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
  mount -t tmpfs -o mode=755 tmpfs "$root/run"
fi
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for each in null zero full random urandom tty; do
  : >"$root/dev/$each"
  mount --bind "/dev/$each" "$root/dev/$each"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
cd "$root"
exec chroot . "$@"
"""


def need_rights():
    """Skips unless this process may make namespaces, mounts and users."""
    if os.geteuid() != 0:
        raise unittest.SkipTest('only root can enter another root')
    tried = subprocess.run(['unshare', '--mount', '--pid', '--fork', '--uts', '--ipc', 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt'],
                           capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise unittest.SkipTest(f'this machine lets nobody make namespaces and mounts: {tried.stderr.strip()}')


def mirror():
    """Where this machine takes Debian's packages from; skips where that cannot be reached."""
    said = subprocess.run(['apt-get', 'indextargets', '--format', '$(SITE) $(REPO_URI)', 'Created-By: Packages',
                           f'Codename: {RELEASE}', 'Label: Debian'], capture_output=True, text=True, check=False).stdout.split()
    if len(said) < 2:
        raise unittest.SkipTest("apt-get does not say where this machine takes Debian's packages from")
    address = said[1].rstrip('/')
    try:
        urllib.request.urlopen(f'{address}/dists/{RELEASE}/InRelease', timeout=5).close()
    except (OSError, urllib.error.URLError) as error:
        raise unittest.SkipTest(f"Debian's mirror {address} cannot be reached: {error}") from error
    return address


def proxy_options():
    """apt's proxies, which tools that make roots do not take over."""
    said = subprocess.run(['apt-config', 'dump'], capture_output=True, text=True, check=False).stdout
    return [line.rstrip(';').replace('"', '').replace(' ', '=', 1) for line in said.split('\n')
            if line.startswith(('Acquire::http::Proxy ', 'Acquire::https::Proxy '))]


def base_archive(folder):
    """An empty root as a tar file, made once a build folder."""
    path = os.path.join(folder, f'{RELEASE}.tar')
    address = mirror()  # whoever installs something needs it too
    if not os.path.exists(path):
        if not shutil.which('mmdebstrap'):
            raise unittest.SkipTest('mmdebstrap, which makes an empty root, is not installed')
        os.makedirs(folder, exist_ok=True)
        unfinished = path + '.unfinished.tar'
        options = [f'--aptopt={line.replace("=", " ", 1)}' for line in proxy_options()]
        try:
            made = subprocess.run(['mmdebstrap', '--variant=apt', '--dpkgopt=force-unsafe-io', '--quiet',
                                   '--aptopt=Acquire::Languages none', *options, RELEASE, unfinished, address],
                                  capture_output=True, text=True, check=False, timeout=BASE_TIMEOUT)
        except subprocess.TimeoutExpired as error:
            raise unittest.SkipTest(f'the mirror {address} gave no empty root within {BASE_TIMEOUT} s') from error
        if made.returncode != 0:
            raise unittest.SkipTest(f'mmdebstrap cannot make an empty root from {address}: {made.stderr.strip()[-500:]}')
        os.rename(unfinished, path)
    return path


ENVIRONMENT = ('env', '-i', f'PATH={PATH}', 'HOME=/root', 'LC_ALL=C', 'DEBIAN_FRONTEND=noninteractive')


def shell(script):
    return (*ENVIRONMENT, 'bash', '-euc', 'mkdir -p /root; cd /root; ' + script)


def run(command, timeout):
    """(exit code, everything printed)"""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors='replace',
                          timeout=timeout, check=False)
    return done.returncode, done.stdout


def namespaces(kind, folder, *command, more=()):
    return ['unshare', '--mount', '--pid', '--uts', '--ipc', *more, '--fork', '--kill-child', '--propagation', 'private',
            'bash', '-c', ENTER, 'bash', kind, folder, *command]


class Root:
    """A root in a folder."""

    def __init__(self, path):
        self.path = path

    def file(self, name):
        return os.path.join(self.path, name.lstrip('/'))

    def run(self, script, timeout=120):
        """Runs a shell script there, in /root: (exit code, what it printed)."""
        return run(namespaces('own', self.path, *shell(script)), timeout)


class CopyOfThisMachine:
    """This machine's root; a script changes it for itself alone. Of other file systems it shows the folders that are named."""

    def __init__(self, folder, shown):
        self.folder, self.shown = folder, shown

    def run(self, script, timeout=120):
        command = namespaces('copy', self.folder, *shell(script))
        return run(['env', f"SHOWN={':'.join(self.shown)}", *command], timeout)


class Booted:
    """A root in which systemd runs, in a network of its own. Use as a context."""
    # A group of processes for systemd to rule over, which it believes to be all there are.
    GROUP = 'set -e; mount -t cgroup2 cgroup2 "$1"; mkdir -p "$1/$2"; echo $$ >"$1/$2/cgroup.procs"; shift 2; exec "$@"'
    LEAVE = 'mount -t cgroup2 cgroup2 "$1"; find "$1/$2" -depth -type d -exec rmdir {} +'

    def __init__(self, root):
        self.root = root

    def __enter__(self):
        self.groups = tempfile.mkdtemp(prefix='gantry_groups_')
        self.group = f'gantry-test-{os.getpid()}'
        system = namespaces('boot', self.root.path, 'env', '-i', f'PATH={PATH}', 'container=gantry-test',
                            '/lib/systemd/systemd', '--system', '--show-status=no', more=('--cgroup', '--net'))
        self.process = subprocess.Popen(['unshare', '--mount', '--propagation', 'private', 'bash', '-c', self.GROUP, 'bash',
                                         self.groups, self.group, *system], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.first_process() and self.run('systemctl is-system-running', 5)[1].strip() in ('running', 'degraded'):
                return self
            time.sleep(0.2)
        self.__exit__()
        raise unittest.SkipTest('systemd cannot run beside this machine\'s own init')

    def first_process(self):
        try:
            with open(f'/proc/{self.process.pid}/task/{self.process.pid}/children', encoding='utf-8') as file:
                child = file.read().split()[0]
            with open(f'/proc/{child}/comm', encoding='utf-8') as file:
                return child if file.read().strip() == 'systemd' else None
        except (OSError, IndexError):
            return None

    def run(self, script, timeout=60):
        return run(['nsenter', '--target', self.first_process() or '0', '--mount', '--pid', '--cgroup', '--uts', '--ipc', '--net',
                    '--root', '--wd', *shell(script)], timeout)

    def __exit__(self, *_):
        self.process.kill()  # and with it, by --kill-child, the first process of the namespace and all others there
        self.process.wait()
        self.process.stdout.close()
        time.sleep(0.2)
        subprocess.run(['unshare', '--mount', '--propagation', 'private', 'bash', '-c', self.LEAVE, 'bash', self.groups,
                        self.group], check=False, capture_output=True)
        os.rmdir(self.groups)


def empty_root(cache):
    """A fresh Debian with apt and nothing that apt does not need."""
    need_rights()
    archive = base_archive(cache)
    folder = tempfile.mkdtemp(prefix='gantry_root_')
    subprocess.run(['tar', '--extract', '--file', archive, '--directory', folder, '--exclude=./dev/*'], check=True)
    shutil.copy('/etc/resolv.conf', os.path.join(folder, 'etc', 'resolv.conf'))
    with open(os.path.join(folder, 'etc', 'apt', 'apt.conf.d', '99proxy'), 'w', encoding='utf-8') as file:
        file.writelines(f'{name} "{value}";\n' for name, value in (line.split('=', 1) for line in proxy_options()))
    with open(os.path.join(folder, 'etc', 'dpkg', 'dpkg.cfg.d', 'unsafe-io'), 'w', encoding='utf-8') as file:
        file.write('force-unsafe-io\n')
    return Root(folder)
