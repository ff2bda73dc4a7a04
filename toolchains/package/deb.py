"""Debian packages from trees of files: control file, checksums, the archive."""
import dataclasses
import gzip
import hashlib
import os
import re
import string
import subprocess
import tempfile

import project


@dataclasses.dataclass
class Package:
    """A tree that is to become a .deb. Its templates are debian/NAME.*."""
    name: str
    architecture: str
    tree: str  # what lies there lies in / of who installs it
    needs_only_glibc: bool = False  # linked for old ones: see OldGlibc.cmake
    every_architecture: bool = False  # "Multi-Arch: same": several are installed at once, and share files of the same name
    linked_in: list = dataclasses.field(default_factory=list)  # linked_in.Part: whose code is inside


def files_of(tree):
    """Regular files, as paths from the tree's root, without DEBIAN's; sorted."""
    found = []
    for folder, folders, names in os.walk(tree):
        if folder == tree and 'DEBIAN' in folders:
            folders.remove('DEBIAN')
        found += [os.path.relpath(os.path.join(folder, name), tree) for name in names
                  if not os.path.islink(os.path.join(folder, name))]
    return sorted(found)


def is_elf(path):
    with open(path, 'rb') as file:
        return file.read(4) == b'\x7fELF'


def write(path, text, mode=0o644):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)
    os.chmod(path, mode)


def compress(path):
    """In place, the same bytes each time: without name and time."""
    with open(path, 'rb') as file:
        data = file.read()
    with open(path + '.gz', 'wb') as file:
        with gzip.GzipFile(filename='', mode='wb', compresslevel=9, fileobj=file, mtime=0) as packed:
            packed.write(data)
    os.remove(path)


def template(name, **values):
    path = os.path.join(project.TEMPLATES, name)
    with open(path, encoding='utf-8') as file:
        return string.Template(file.read()).substitute(**values) if values else file.read()


def shared_library_dependencies(package):
    """What dpkg-shlibdeps says of the programs and libraries in the package: "libc6 (>= 2.34), libssl3 (>= 3.0.0)"."""
    elf = [path for path in (os.path.join(package.tree, name) for name in files_of(package.tree)) if is_elf(path)]
    native = [path for path in elf if machine_of(path) == package.architecture and is_dynamic(path)]
    if not native:
        return ''
    if package.needs_only_glibc:
        # dpkg-shlibdeps asks for the glibc that has the functions in today's libraries; any that has these versions will do.
        versions = re.findall(r'GLIBC_([0-9.]+)', ''.join(project.run(['readelf', '-VW', path]) for path in native))
        return f"libc6 (>= {max(versions, key=lambda text: [int(number) for number in text.split('.')])})"
    with tempfile.TemporaryDirectory(prefix='gantry_shlibdeps_') as folder:
        write(os.path.join(folder, 'debian', 'control'), f'Source: gantry\n\nPackage: {package.name}\nArchitecture: any\n')
        said = project.run(['dpkg-shlibdeps', '-O', '--warnings=0', f'-S{package.tree}',
                            *(f'-e{path}' for path in native)], cwd=folder,
                           env={**os.environ, 'DEB_HOST_ARCH': package.architecture})
    return re.search(r'shlibs:Depends=(.*)', said).group(1)


def machine_of(path):
    machine = re.search(r'Machine:\s+(.*)', project.run(['readelf', '-h', path])).group(1)
    return {'Advanced Micro Devices X86-64': 'amd64', 'AArch64': 'arm64'}[machine]


def is_dynamic(path):
    return '(NEEDED)' in project.run(['readelf', '-dW', path])


def installed_size(tree):
    """In KiB, as dpkg-gencontrol counts: files rounded up, 1 for everything else."""
    size = 0
    for folder, folders, names in os.walk(tree):
        if folder == tree and 'DEBIAN' in folders:
            folders.remove('DEBIAN')
        for name in folders + names:
            path = os.path.join(folder, name)
            plain = os.path.isfile(path) and not os.path.islink(path)
            size += (os.path.getsize(path) + 1023) // 1024 if plain else 1
    return size


def control_text(package):
    values = {'version': project.version(), 'architecture': package.architecture, 'maintainer': project.maintainer(),
              'installed_size': installed_size(package.tree), 'shlibs': shared_library_dependencies(package)}
    text = template(f'{package.name}.control', **values)
    archives = sorted({f'{part.source} (= {part.source_version})' for part in package.linked_in if part.archives})
    if archives:
        text += f"Built-Using: {', '.join(archives)}\n"
    # A package without shared libraries has a dependency less.
    return re.sub(r'^(Depends: ), |, (?=,|$)|^Depends: *\n', r'\1', text, flags=re.M)


def add_symbols(package):
    """Of a shared library: since which version it has each function, so that who uses it asks for no newer one."""
    symbols = os.path.join(project.TEMPLATES, f'{package.name}.symbols')
    if not os.path.exists(symbols):
        return
    with open(symbols, encoding='utf-8') as file:
        library, number = re.match(r'(\S+)\.so\.(\d+) ', file.read()).groups()
    write(os.path.join(package.tree, 'DEBIAN', 'shlibs'),
          f'{library} {number} {package.name} (>= {project.upstream_version()}~)\n')
    libraries = [path for path in (os.path.join(package.tree, name) for name in files_of(package.tree)) if is_elf(path)]
    project.run(['dpkg-gensymbols', '-c4', '-q', f'-p{package.name}', f'-v{project.version()}', f'-a{package.architecture}',
                 f'-P{package.tree}', f"-O{os.path.join(package.tree, 'DEBIAN', 'symbols')}", f'-I{symbols}',
                 *(f'-e{path}' for path in libraries)], cwd=package.tree)


def add_maintainer_scripts(package):
    for script in ('preinst', 'postinst', 'prerm', 'postrm'):
        name = f'{package.name}.{script}'
        if os.path.exists(os.path.join(project.TEMPLATES, name)):
            write(os.path.join(package.tree, 'DEBIAN', script), template(name), 0o755)
    triggers = f'{package.name}.triggers'
    if os.path.exists(os.path.join(project.TEMPLATES, triggers)):
        write(os.path.join(package.tree, 'DEBIAN', 'triggers'), template(triggers))
    configuration = [name for name in files_of(package.tree) if name.startswith('etc/')]
    if configuration:
        write(os.path.join(package.tree, 'DEBIAN', 'conffiles'), ''.join(f'/{name}\n' for name in configuration))


def add_checksums(package):
    lines = []
    for name in files_of(package.tree):
        with open(os.path.join(package.tree, name), 'rb') as file:
            lines.append(f'{hashlib.md5(file.read()).hexdigest()}  {name}\n')
    write(os.path.join(package.tree, 'DEBIAN', 'md5sums'), ''.join(lines))


def settle(tree):
    """The time of every file becomes that of the commit: archives and installed files have no other."""
    time = project.epoch()
    for folder, folders, names in os.walk(tree, topdown=False):
        for name in folders + names:
            os.utime(os.path.join(folder, name), (time, time), follow_symlinks=False)
    os.utime(tree, (time, time))


def build(package, output, level):
    """Writes the .deb into the folder and returns its path; level: of xz, 0 to 9."""
    os.makedirs(os.path.join(package.tree, 'DEBIAN'))
    os.chmod(package.tree, 0o755)
    add_maintainer_scripts(package)
    add_symbols(package)
    write(os.path.join(package.tree, 'DEBIAN', 'control'), control_text(package))
    add_checksums(package)
    settle(package.tree)
    path = os.path.join(output, f'{package.name}_{project.version()}_{package.architecture}.deb')
    subprocess.run(['dpkg-deb', '--root-owner-group', '-Zxz', f'-z{level}', '--uniform-compression', '--threads-max=1', '--build',
                    package.tree, path], check=True, stdout=subprocess.DEVNULL,
                   env={**os.environ, 'SOURCE_DATE_EPOCH': str(project.epoch())})
    return path
