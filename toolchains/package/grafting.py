"""Makes a wheel need nothing but what its tag promises: auditwheel puts the shared libraries that are left into it."""
import os
import re
import zipfile

import linked_in
import project

AUDITWHEEL = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'auditwheel')


def folders_of_libraries(machine):
    """Of Debian's multiarch: this machine's, or those of the root for another."""
    root = '' if machine == os.uname().machine else linked_in.SYSROOT
    return [f'{root}{folder}/{machine}-linux-gnu' for folder in ('/usr/lib', '/lib')]


def graft(wheel, machine, output):
    """Writes the wheel with the libraries inside, for the oldest glibc that it can run with; returns its path. The tag is
    what auditwheel finds of the symbols' versions."""
    project.run([AUDITWHEEL, 'repair', '--plat', 'auto', '--only-plat', '--wheel-dir', output,
                 '--ldpaths', ':'.join(folders_of_libraries(machine)), wheel])
    made = os.listdir(output)
    if len(made) != 1 or '-manylinux_' not in made[0]:
        raise project.PackagingError(f'{os.path.basename(wheel)}: auditwheel made no wheel for many systems of it: {made}')
    return os.path.join(output, made[0])


def unpack(wheel, tree):
    """With the files' modes."""
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            path = archive.extract(entry, tree)
            if not entry.is_dir():
                os.chmod(path, entry.external_attr >> 16 & 0o777)


def grafted(tree, machine):
    """Where the libraries in the tree came from: "gantry.libs/libzip-1a2b3c4d.so.4" was /usr/lib/…/libzip.so.4."""
    found = []
    for name in sorted(os.listdir(os.path.join(tree, 'gantry.libs'))):
        original = re.sub(r'-[0-9a-f]{8}(?=\.)', '', name, count=1)
        paths = [path for path in (os.path.join(folder, original) for folder in folders_of_libraries(machine))
                 if os.path.exists(path)]
        if not paths:
            raise project.PackagingError(f'{name}, which is to come with the wheel, is of no folder of Debian: {original}')
        found.append(paths[0])
    return found
