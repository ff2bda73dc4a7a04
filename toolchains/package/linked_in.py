"""Whose code is in a program: the Debian packages of the static archives and headers that it was made from.

Ninja knows the headers of every object, and the linker's map the archives' members that it took; dpkg knows the packages.
Files are this machine's, or those of the root that toolchains/make_sysroot unpacks, which has a database of dpkg too.
"""
import copy
import dataclasses
import functools
import glob
import os
import re
import shlex
import subprocess
import tempfile

import project


@dataclasses.dataclass
class Part:
    """A Debian package of which code is in a program."""
    package: str
    version: str
    source: str
    source_version: str
    licence: str  # by the names of Debian's copyright file; "" where that is not machine-readable
    copyright_file: str
    headers: int = 0  # how many of its headers the program's own objects include
    archives: list = dataclasses.field(default_factory=list)  # file names of its static archives, crt*.o too
    data: list = dataclasses.field(default_factory=list)  # names of other files that were put into the program
    libraries: list = dataclasses.field(default_factory=list)  # file names of its shared libraries that come with the program


# toolchains/make_sysroot's.
SYSROOT = os.path.join(project.SOURCE, 'build-sysroot-arm64')
# Of sources whose copyright files are plain text, or say of headers for programs less than there is to say.
GCC_RUNTIME = 'GPL-3+ with GCC Runtime Library exception'
KERNEL_HEADERS = 'GPL-2 with Linux syscall note'
LICENCES = {'asio': 'BSL-1.0', 'gcc-12': GCC_RUNTIME, 'gcc-12-cross': GCC_RUNTIME, 'glibc': 'LGPL-2.1+',
            'libjpeg-turbo': 'BSD-3-clause and IJG and Zlib', 'libwebp': 'BSD-3-clause', 'libxcrypt': 'LGPL-2.1+',
            'libzip': 'BSD-3-clause',
            'linux': KERNEL_HEADERS, 'python3.11': 'PSF-2'}
# Cross-compilers' libraries come from one source.
LICENCES_OF_CROSS = {'libc6-dev': 'LGPL-2.1+', 'linux-libc-dev': KERNEL_HEADERS}


def root_of(path):
    """Of the system that a file belongs to: "" for this machine's."""
    return SYSROOT if path.startswith(SYSROOT + os.sep) else ''


@functools.lru_cache(maxsize=None)
def owners(root):
    """Path: package ("libssl-dev:arm64"), of everything that is installed."""
    found = {}
    for path in glob.glob(f'{root}/var/lib/dpkg/info/*.list'):
        package = os.path.basename(path)[:-len('.list')]
        with open(path, encoding='utf-8') as file:
            found.update((line.rstrip('\n'), package) for line in file)
    return found


@functools.lru_cache(maxsize=None)
def owner(path):
    """(root, package); None of what is no package's."""
    plain, real = os.path.normpath(path), os.path.realpath(path)
    root = root_of(plain)
    for name in (plain.removeprefix(root), real.removeprefix(root), real.removeprefix(root).removeprefix('/usr')):
        package = owners(root).get(name)
        if package:
            return root, package
    return None


def is_of_a_system(path):
    return path.startswith(('/usr/', SYSROOT + '/usr/'))


def inputs_of(build, target):
    """All files that the target is made of, directly or by way of others; no headers."""
    return set(project.run(['ninja', '-C', build, '-t', 'inputs', target]).split('\n'))


def headers(build, inputs):
    """Of the system, that those of the inputs that are objects include."""
    found, is_input = set(), False
    for line in project.run(['ninja', '-C', build, '-t', 'deps']).split('\n'):
        if line.startswith('    '):
            # The compiler cache writes some of those in the source folder, which has a root in it, from the build folder on.
            path = os.path.normpath(os.path.join(build, line.strip()))
            if is_input and is_of_a_system(path):
                found.add(path)
        else:
            is_input = line.split(': #deps', 1)[0] in inputs
    return found


def archives(build, target):
    """Of the system, that the linker took members of; and the compiler's object files at a program's ends."""
    if target.endswith('.a'):
        return set()  # made of gantry's own objects alone
    # Ninja prints the commands before it too: those of the build that have a custom command's name in them.
    command = project.run(['ninja', '-C', build, '-t', 'commands', '-s', target]).strip()
    with tempfile.TemporaryDirectory(prefix='gantry_link_') as folder:
        linked, places = re.subn(r' -o \S+', lambda _: f' -o {shlex.quote(folder)}/linked -Wl,-Map={shlex.quote(folder)}/map', command, count=1)
        linked = re.sub(r'&& (?:cd .*|:)$', '', linked.split(' && ', 2)[1] if linked.startswith(': && ') else linked)
        if places != 1:
            raise project.PackagingError(f'{build}: the command that links {target} is not understood: {command}')
        done = subprocess.run(['bash', '-c', linked], cwd=build, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise project.PackagingError(f'{build}: linking {target} again failed:\n{done.stderr}')
        with open(os.path.join(folder, 'map'), encoding='utf-8', errors='replace') as file:
            text = file.read()
    members = text.split('\n\n', 2)[1] if text.startswith('Archive member included') else ''
    found = set(re.findall(r'^(/.+\.a)\(', members, re.M))
    found.update(re.findall(r'^LOAD (/.+\.o)$', text, re.M))
    return {path for path in found if is_of_a_system(os.path.realpath(path))}


def licence_of(copyright_file):
    """Of the files that no narrower paragraph of a machine-readable copyright file speaks of."""
    try:
        with open(copyright_file, encoding='utf-8') as file:
            text = file.read()
    except OSError:
        return ''
    if not text.startswith('Format:'):
        return ''
    for paragraph in re.split(r'\n\s*\n', text):
        files = re.search(r'^Files:\s*(.*)', paragraph, re.M)
        licence = re.search(r'^License:[ \t]*(\S.*)', paragraph, re.M)
        if files and licence and files.group(1).split()[:1] in (['*'], ['**']):
            return licence.group(1).strip()
    return ''


@functools.lru_cache(maxsize=None)
def described(root, package):
    fields = project.run(['dpkg-query', f'--admindir={root}/var/lib/dpkg', '-W', '-f',
                          '${binary:Package}\t${Version}\t${source:Package}\t${source:Version}', package]).split('\t')
    copyright_file = f"{root}/usr/share/doc/{package.split(':')[0]}/copyright"
    cross = LICENCES_OF_CROSS.get(re.sub(r'-[a-z0-9]+-cross$', '', package)) if package.endswith('-cross') else None
    licence = cross or LICENCES.get(fields[2]) or licence_of(copyright_file)
    return (package, *fields[1:], licence, copyright_file)


@functools.lru_cache(maxsize=None)
def found(build, target):
    parts = {}
    inputs = inputs_of(build, target)
    for path in sorted(headers(build, inputs)):
        package = owner(path)
        if package:
            parts.setdefault(package, Part(*described(*package))).headers += 1
    for path in sorted(path for path in inputs if path.startswith('/usr/share/')):
        package = owner(path)
        if package:
            parts.setdefault(package, Part(*described(*package))).data.append(os.path.basename(path))
    for path in sorted(archives(build, target)):
        package = owner(path)
        if not package:
            raise project.PackagingError(f'{path}, which {build}/{target} has code of, belongs to no Debian package')
        parts.setdefault(package, Part(*described(*package))).archives.append(os.path.basename(path))
    return [parts[package] for package in sorted(parts)]


def parts_of(build, target):
    """Whose code is in a target of a build folder: Parts, by package; the caller's to change."""
    return copy.deepcopy(found(build, target))


def parts_of_libraries(paths):
    """Whose shared libraries these are: Parts, by package."""
    parts = {}
    for path in sorted(paths):
        package = owner(path)
        if not package:
            raise project.PackagingError(f'{path} belongs to no Debian package')
        parts.setdefault(package, Part(*described(*package))).libraries.append(os.path.basename(path))
    return [parts[package] for package in sorted(parts)]


def merged(parts):
    """Of several programs in one package."""
    found_parts = {}
    for part in parts:
        earlier = found_parts.setdefault((part.package, part.version), part)
        earlier.headers = max(earlier.headers, part.headers)
        for name in ('archives', 'data', 'libraries'):
            setattr(earlier, name, sorted({*getattr(earlier, name), *getattr(part, name)}))
    return [found_parts[key] for key in sorted(found_parts)]
