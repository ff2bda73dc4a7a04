"""What tests know of the packages that a build folder has been made into."""
import glob
import os
import re
import subprocess
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# What tools say that pack a source without git, or without its repository.
NO_COMMIT = 'no commit to take a time from'


def make(folder, build, environment, *options):
    """Packs what the build folders hold; returns what was printed. Skips where the other presets are not built, or there is
    no commit."""
    beside = os.path.dirname(build)
    for other in ('build-gpu-bundle', 'build-aarch64'):
        if not os.path.exists(os.path.join(beside, other, 'bin', 'gantry-device')):
            raise unittest.SkipTest(f'{other}/bin/gantry-device, which ./check builds, is missing')
    done = subprocess.run([os.path.join(SOURCE, 'toolchains', 'package', 'make_packages.py'), '--output', folder, '--level', '0',
                           '--release', build, '--device-amd64', os.path.join(beside, 'build-gpu-bundle'),
                           '--device-arm64', os.path.join(beside, 'build-aarch64'), *options],
                          capture_output=True, text=True, check=False, env={**os.environ, **environment},
                          umask=int(environment.get('UMASK', '022'), 8))
    if done.returncode != 0 and NO_COMMIT in done.stderr:
        raise unittest.SkipTest(done.stderr.strip())
    if done.returncode != 0:
        raise RuntimeError(f'make_packages.py: exit code {done.returncode}\n{done.stderr}')
    return done.stdout


def stated_sizes(pattern):
    """What docs/packages.md says of a file, 'gantry_*_amd64.deb': packed and installed, in bytes."""
    with open(os.path.join(SOURCE, 'docs', 'packages.md'), encoding='utf-8') as file:
        rows = [[cell.strip() for cell in line.split('|')[1:-1]] for line in file if line.startswith('| `')]
    for files, _, *sizes in (row for row in rows if len(row) == 4):
        named = re.findall(r'`([^`]+)`', files)
        named = [name if '*' in name else named[0].split('*')[0] + '*' + name for name in named]
        if pattern in named:
            columns = [[float(size.removesuffix(' MB')) * 1e6 for size in column.split(', ')] for column in sizes]
            return [column[min(named.index(pattern), len(column) - 1)] for column in columns]
    raise RuntimeError(f'docs/packages.md says nothing of {pattern}')


def find(folder, name, architecture='amd64'):
    """Path of a package."""
    if not os.path.isdir(folder):
        raise unittest.SkipTest(f'{folder} is missing: package_files_test.py makes packages there')
    found = glob.glob(os.path.join(folder, f'{name}_*_{architecture}.deb'))
    if len(found) != 1:
        raise RuntimeError(f'{folder} has {len(found)} packages {name} for {architecture}, not one')
    return found[0]


def field(path, name):
    return subprocess.run(['dpkg-deb', '--field', path, name], capture_output=True, text=True, check=True).stdout.strip()


def extract(path, folder):
    subprocess.run(['dpkg-deb', '--extract', path, folder], check=True)
    return folder


def later_version(path, folder):
    """The same package as one that replaces it."""
    tree = os.path.join(folder, 'later')
    subprocess.run(['dpkg-deb', '--raw-extract', path, tree], check=True)
    control = os.path.join(tree, 'DEBIAN', 'control')
    with open(control, encoding='utf-8') as file:
        text = file.read()
    version = field(path, 'Version')
    with open(control, 'w', encoding='utf-8') as file:
        file.write(text.replace(f'Version: {version}\n', f'Version: {version}+later\n'))
    later = os.path.join(folder, os.path.basename(path).replace(version, version + '+later'))
    subprocess.run(['dpkg-deb', '--root-owner-group', '-Zgzip', '-z1', '--build', tree, later], check=True,
                   stdout=subprocess.DEVNULL)
    return later
