"""The workstation's tree as a tar file, for systems without .deb packages."""
import glob
import os
import shutil
import subprocess

import deb
import licences
import project
import staging

READ_ME = """gantry {version}, for x86-64 Linux

bin/gantry runs from wherever this folder is put. It was built on Debian 12 and needs the shared libraries of these
packages, or others that are compatible:

{needed}

bin/gantry-device is what bin/gantry runs models in, lib/gantry/devices has the programs for boards, which need no other
library than glibc. share/ has completion for shells and manual pages, include/ and lib/ what applications link.
"""


def add_documents(tree, packages):
    folder = os.path.join(tree, 'share', 'doc', 'gantry')
    staging.copy(os.path.join(project.SOURCE, 'LICENSE'), os.path.join(folder, 'LICENSE'))
    licences.write_spdx(packages, os.path.join(folder, 'linked-in.json'))
    for package in packages:
        for texts in glob.glob(os.path.join(package.tree, 'usr', 'share', 'doc', package.name, 'linked-in*', '*.gz')):
            staging.copy(texts, os.path.join(folder, 'linked-in', os.path.basename(texts)))


def write(builds, packages, output, work, level):
    """Of the packages, those for this machine lend it their documents."""
    name = f'gantry-{project.version()}-linux-amd64'
    tree = os.path.join(work, name)
    shutil.copytree(staging.installed(builds.release, work, 'programs', 'device', 'runtime', 'dev'), tree, symlinks=True)
    native = [package for package in packages if package.architecture == 'amd64' and
              package.name in ('gantry', 'libgantry-runtime0')]
    staging.board_programs(builds, tree)
    add_documents(tree, native)
    needed = '\n'.join(f'  {dependency}' for dependency in deb.shared_library_dependencies(native[0]).split(', '))
    deb.write(os.path.join(tree, 'README'), READ_ME.format(version=project.version(), needed=needed))
    deb.settle(tree)
    path = os.path.join(output, name + '.tar.xz')
    subprocess.run(['tar', '--create', '--xz', '--file', path, '--sort=name', '--format=gnu', '--owner=0', '--group=0',
                    '--numeric-owner', '--mode=go=rX,u+rw,a-s', '--directory', work, name], check=True,
                   env={**os.environ, 'XZ_OPT': f'-{level} --threads=1'})
    return path
