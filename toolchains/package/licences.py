"""What packages say of the code in them: Debian's copyright file, the texts of the licences, and SPDX's list as JSON."""
import hashlib
import json
import os
import re

import deb
import project

OWN = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: gantry

Files: *
Copyright: 2026 the authors of gantry
License: Apache-2.0
"""
APACHE = """
License: Apache-2.0
 On Debian systems the text is in /usr/share/common-licenses/Apache-2.0.
"""
# SPDX's names of licences that Debian's copyright files name otherwise.
SPDX = {'BSD-3-Clause+CLA': 'BSD-3-Clause', 'BSD-variant': 'bzip2-1.0.6', 'PSF-2': 'PSF-2.0',
        'BSD-3-clause or GPL-2': 'BSD-3-Clause OR GPL-2.0-only', 'APACHE-2-LLVM-EXCEPTIONS': 'Apache-2.0 WITH LLVM-exception',
        'Apache-2.0': 'Apache-2.0', 'BSD-3-clause': 'BSD-3-Clause',
        'BSD-3-Clause': 'BSD-3-Clause', 'BSD-3-Clause~Google': 'BSD-3-Clause', 'BSL-1.0': 'BSL-1.0', 'Expat': 'MIT',
        'Expat with embedded exception': 'MIT', 'ISC': 'ISC',
        'GPL-2 with Linux syscall note': 'GPL-2.0-only WITH Linux-syscall-note',
        'GPL-3+ with GCC Runtime Library exception': 'GPL-3.0-or-later WITH GCC-exception-3.1',
        'LGPL-2.1+': 'LGPL-2.1-or-later', 'libpng': 'libpng-2.0', 'PostgreSQL': 'PostgreSQL', 'zlib': 'Zlib', 'Zlib': 'Zlib',
        'public-domain': 'blessing',  # SQLite's words for it
        'BSD-3-clause and IJG and Zlib': 'BSD-3-Clause AND IJG AND Zlib'}


def what_of(part):
    """"libcrypto.a, libssl.a; 66 headers" """
    texts = [', '.join(names) for names in (part.archives, part.data, part.libraries) if names]
    if part.headers:
        texts.append(f"{part.headers} header{'' if part.headers == 1 else 's'}")
    return '; '.join(texts)


def copyright_lines(path):
    """Of the paragraph of all files, where the copyright file is machine-readable."""
    with open(path, encoding='utf-8') as file:
        text = file.read()
    for paragraph in re.split(r'\n\s*\n', text) if text.startswith('Format:') else []:
        holders = re.search(r'^Copyright:((?:.*\n?)(?:[ \t].*\n?)*)', paragraph, re.M)
        if re.search(r'^Files:\s*\*', paragraph, re.M) and holders:
            return [line.strip() for line in holders.group(1).split('\n') if line.strip()]
    return []


def copyright_file(parts, texts):
    """DEP-5: gantry's own licence, then a paragraph for each source of which code is in the package's programs; `texts`: the
    folder of their licences, as the file names it."""
    paragraphs, named = [OWN], {}
    for part in parts:
        named.setdefault(part.source, []).append(part)
    for source, of_source in sorted(named.items()):
        holders = copyright_lines(of_source[0].copyright_file) or [f'see {texts}/{source}.copyright.gz']
        contents = ''.join(f'\n {part.package} {part.version}: {what_of(part)}' for part in of_source)
        licences = ' and '.join(sorted({part.licence or 'other' for part in of_source}))
        paragraphs.append(f'\nFiles: {texts}/{source}/*\nCopyright: ' + '\n  '.join(holders) +
                          f'\nLicense: {licences}\nComment: Code of these Debian packages is in the programs:{contents}\n')
    return ''.join(paragraphs) + APACHE


def add(package):
    """Puts the copyright file and the texts of what is linked in into the package's documentation."""
    folder = os.path.join(package.tree, 'usr', 'share', 'doc', package.name)
    texts, name = 'linked-in', 'copyright'
    if package.every_architecture:
        # What is linked in differs between architectures, whose packages share the file `copyright`.
        texts, name = f'linked-in-{package.architecture}', f'linked-in-{package.architecture}/copyright'
        deb.write(os.path.join(folder, 'copyright'), OWN .replace(
            '\n\n', '\nComment: The folders linked-in-ARCHITECTURE say whose code is in the library besides.\n\n', 1) + APACHE)
    deb.write(os.path.join(folder, name), copyright_file(package.linked_in, texts))
    for part in package.linked_in:
        target = os.path.join(folder, texts, f'{part.source}.copyright')
        if os.path.exists(target + '.gz'):
            continue
        with open(part.copyright_file, encoding='utf-8', errors='replace') as file:
            deb.write(target, file.read())
        deb.compress(target)


def spdx_id(text):
    return 'SPDXRef-' + re.sub(r'[^A-Za-z0-9.-]+', '-', text)


def spdx_part(part):
    name = part.package.split(':')[0]
    return {'SPDXID': spdx_id(f'{part.package}-{part.version}'), 'name': name, 'versionInfo': part.version,
            'supplier': 'Organization: Debian', 'downloadLocation': 'NOASSERTION', 'filesAnalyzed': False,
            'sourceInfo': f'built from Debian source package {part.source} {part.source_version}',
            'licenseConcluded': 'NOASSERTION', 'licenseDeclared': SPDX.get(part.licence, 'NOASSERTION'),
            'licenseComments': f"Debian's copyright file says: {part.licence or 'see its text'}",
            'copyrightText': '\n'.join(copyright_lines(part.copyright_file)) or 'NOASSERTION',
            'externalRefs': [{'referenceCategory': 'PACKAGE-MANAGER', 'referenceType': 'purl',
                              'referenceLocator': f"pkg:deb/debian/{name}@{part.version}"}]}


def spdx_package(package):
    return {'SPDXID': spdx_id(f'{package.name}-{package.architecture}'), 'name': package.name,
            'versionInfo': project.version(), 'supplier': 'NOASSERTION', 'downloadLocation': 'NOASSERTION',
            'filesAnalyzed': False, 'licenseConcluded': 'Apache-2.0', 'licenseDeclared': 'Apache-2.0',
            'copyrightText': 'the authors of gantry', 'comment': f'for {package.architecture}'}


def spdx_document(packages):
    """What is linked into every package, as SPDX 2.3."""
    parts = {f'{part.package} {part.version}': part for package in packages for part in package.linked_in}
    relations = [{'spdxElementId': 'SPDXRef-DOCUMENT', 'relationshipType': 'DESCRIBES',
                  'relatedSpdxElement': spdx_id(f'{package.name}-{package.architecture}')} for package in packages]
    relations += [{'spdxElementId': spdx_id(f'{package.name}-{package.architecture}'),
                   'relationshipType': 'STATIC_LINK' if part.archives else 'CONTAINS',
                   'relatedSpdxElement': spdx_id(f'{part.package}-{part.version}'), 'comment': what_of(part)}
                  for package in packages for part in package.linked_in]
    contents = [spdx_package(package) for package in packages] + [spdx_part(part) for _, part in sorted(parts.items())]
    digest = hashlib.sha256(json.dumps([contents, relations]).encode()).hexdigest()
    return {'spdxVersion': 'SPDX-2.3', 'dataLicense': 'CC0-1.0', 'SPDXID': 'SPDXRef-DOCUMENT', 'name': 'gantry',
            'documentNamespace': f'urn:sha256:{digest}',
            'creationInfo': {'created': f'{project.time():%Y-%m-%dT%H:%M:%SZ}', 'creators': ['Tool: gantry-package']},
            'packages': contents, 'relationships': relations}


def write_spdx(packages, path):
    deb.write(path, json.dumps(spdx_document(packages), indent=1) + '\n')
