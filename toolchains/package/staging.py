"""The trees of files that become packages, from what the presets have built."""
import dataclasses
import email.utils
import functools
import os
import shutil
import tempfile

import deb
import project

DEVICE_CACHE = 'var/cache/gantry-device'
DEVICE_KEYS = 'etc/gantry/keys'


@dataclasses.dataclass(frozen=True)
class Builds:
    """Build folders, by what is taken from them."""
    release: str  # gantry and its gantry-device
    device: dict  # the board's program, by architecture
    runtime: dict  # the runtime, by architecture


def strip(path, architecture, *options):
    project.run([project.tool(architecture, 'strip'), *options, '--remove-section=.comment', path])


def copy(source, target, mode=0o644):
    if not os.path.exists(source):
        raise project.PackagingError(f'{source} is missing: ./package builds it')
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(source, target)
    os.chmod(target, mode)


def link(to, path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    os.symlink(to, path)


def manual_page(source, tree):
    target = os.path.join(tree, 'usr', 'share', 'man', 'man1', os.path.basename(source))
    copy(source, target)
    deb.compress(target)


def documents(package):
    """What every package has in its folder for documentation, and what lintian is told of it."""
    tree, name = package.tree, package.name
    folder = os.path.join(tree, 'usr', 'share', 'doc', name)
    changelog = deb.template('changelog', version=project.version(), maintainer=project.maintainer(),
                             date=email.utils.format_datetime(project.time()))
    deb.write(os.path.join(folder, 'changelog'), changelog)
    deb.compress(os.path.join(folder, 'changelog'))
    for template, target in ((f'{name}.README.Debian', os.path.join(folder, 'README.Debian')),
                             (f'{name}.lintian-overrides', os.path.join(tree, 'usr/share/lintian/overrides', name))):
        if os.path.exists(os.path.join(project.TEMPLATES, template)):
            copy(os.path.join(project.TEMPLATES, template), target)


@functools.lru_cache(maxsize=None)
def installed(build, work, *components):
    """`cmake --install` of a build folder's components into a fresh folder, stripped."""
    folder = tempfile.mkdtemp(prefix='installed_', dir=work)
    for component in components:
        project.run(['cmake', '--install', build, '--strip', '--prefix', folder, '--component', component])
    return folder


# Where in /usr Debian wants what `cmake --install` puts elsewhere; None: the package has it in another way.
PLACES = {'share/bash-completion/': 'share/bash-completion/', 'share/zsh/site-functions/': 'share/zsh/vendor-completions/',
          'share/fish/': 'share/fish/', 'share/man/': None, 'share/doc/': None}


def gantry(builds, work, architecture):
    """The workstation's program. It looks for what it starts and copies to boards beside itself, where those must not be in
    the way of the package gantry-device: its tree is /usr/lib/gantry, and /usr/bin has a link into it."""
    tree, files = tempfile.mkdtemp(prefix='gantry_', dir=work), installed(builds.release, work, 'programs', 'device')
    home = 'lib/gantry/'
    for name in deb.files_of(files):
        folder = next((folder for folder in PLACES if name.startswith(folder)), '')
        place = PLACES.get(folder, home)
        if place is None:
            continue
        source, target = os.path.join(files, name), os.path.join(tree, 'usr', place + name.removeprefix(folder))
        copy(source, target, 0o755 if os.access(source, os.X_OK) else 0o644)
        if deb.is_elf(target):
            strip(target, architecture, '--strip-all')
    board_programs(builds, os.path.join(tree, 'usr', home))
    link('../lib/gantry/bin/gantry', os.path.join(tree, 'usr', 'bin', 'gantry'))
    manual_page(os.path.join(files, 'share', 'man', 'man1', 'gantry.1'), tree)
    return deb.Package('gantry', architecture, tree)


def board_programs(builds, prefix):
    """What `gantry boards setup` copies to boards, where it looks for it."""
    for architecture, build in builds.device.items():
        target = os.path.join(prefix, 'lib', 'gantry', 'devices', f'gantry-device-{project.MACHINES[architecture]}')
        copy(os.path.join(build, 'bin', 'gantry-device'), target, 0o755)
        strip(target, architecture, '--strip-all')


def device(builds, work, architecture):
    """The board's server: program, service, and the folders of keys and cache."""
    tree = tempfile.mkdtemp(prefix=f'device_{architecture}_', dir=work)
    target = os.path.join(tree, 'usr', 'bin', 'gantry-device')
    copy(os.path.join(builds.device[architecture], 'bin', 'gantry-device'), target, 0o755)
    strip(target, architecture, '--strip-all')
    manual_page(os.path.join(project.SOURCE, 'docs', 'man', 'gantry-device.1'), tree)
    for template, target, mode in (('gantry-device.service', 'lib/systemd/system/gantry-device.service', 0o644),
                                   ('gantry-device.preset', 'lib/systemd/system-preset/70-gantry-device.preset', 0o644),
                                   ('gantry-device.tmpfiles', 'usr/lib/tmpfiles.d/gantry-device.conf', 0o644),
                                   ('gantry-device.default', 'etc/default/gantry-device', 0o644)):
        copy(os.path.join(project.TEMPLATES, template), os.path.join(tree, target), mode)
    os.makedirs(os.path.join(tree, DEVICE_KEYS))
    os.chmod(os.path.join(tree, DEVICE_KEYS), 0o700)
    return deb.Package('gantry-device', architecture, tree, needs_only_glibc=True)


def runtime(builds, work, architecture):
    """What applications need that run modules."""
    tree = tempfile.mkdtemp(prefix=f'runtime_{architecture}_', dir=work)
    folder = os.path.join(tree, 'usr', 'lib', project.TRIPLETS[architecture])
    library = project.runtime_library()
    copy(os.path.join(builds.runtime[architecture], 'lib', library), os.path.join(folder, library))
    strip(os.path.join(folder, library), architecture, '--strip-unneeded')
    link(library, os.path.join(folder, 'libgantry_runtime.so.0'))
    return deb.Package('libgantry-runtime0', architecture, tree, every_architecture=True)


def for_multiarch(build, work, architecture):
    """A build folder like the given one, with its libraries, that installs into Debian's folder for the architecture: what
    finds libraries names their folder. Nothing is compiled."""
    folder = tempfile.mkdtemp(prefix='multiarch_', dir=work)
    native = architecture == project.native_architecture()
    toolchain = [] if native else ['--toolchain', os.path.join(project.SOURCE, 'toolchains', 'aarch64-linux-gnu.cmake')]
    options = {'CMAKE_BUILD_TYPE': 'Release', 'CMAKE_INSTALL_PREFIX': '/usr', 'GANTRY_BUILD_HOST': 'OFF',
               'CMAKE_INSTALL_LIBDIR': f'lib/{project.TRIPLETS[architecture]}', 'GANTRY_BUILD_TESTS': 'OFF',
               'GANTRY_BUILD_EXAMPLES': 'OFF'}
    project.run(['cmake', '-G', 'Ninja', '-S', project.SOURCE, '-B', folder, *toolchain,
                 *(f'-D{name}={value}' for name, value in options.items())])
    shutil.copytree(os.path.join(build, 'lib'), os.path.join(folder, 'lib'), symlinks=True, dirs_exist_ok=True,
                    ignore=lambda _, names: [name for name in names if not name.startswith('libgantry_runtime.')])
    return folder


def runtime_dev(builds, work, architecture):
    """What builds such applications."""
    tree = tempfile.mkdtemp(prefix=f'runtime_dev_{architecture}_', dir=work)
    folder = for_multiarch(builds.runtime[architecture], work, architecture)
    project.run(['cmake', '--install', folder, '--component', 'dev', '--prefix', os.path.join(tree, 'usr')])
    shutil.rmtree(os.path.join(tree, 'usr', 'share', 'doc'))  # Debian's has other names
    libraries = os.path.join(tree, 'usr', 'lib', project.TRIPLETS[architecture])
    strip(os.path.join(libraries, 'libgantry_runtime.a'), architecture, '--strip-debug', '--enable-deterministic-archives')
    return deb.Package('libgantry-runtime-dev', architecture, tree, every_architecture=True)
