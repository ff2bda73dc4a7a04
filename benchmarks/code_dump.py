"""Folders of what a compiler makes of networks: written by code_guard.py, read for comparisons.

dump.json           which gantry wrote it, and with which options
programs/*.json     one network for one target in one precision: kernels, plan, constants, or why gantry refuses it
loops/*.txt         loop nests, named by the SHA-256 of their bytes
code/*.s, *.ptx     assembly and PTX likewise
made                what gantry remembers while the dump goes on

A program's document is {network, model, target, precision} with the model's SHA-256, and either `program`, as
`gantry ir --all-to` prints it, or `error`.
"""
import functools
import hashlib
import json
import pathlib
import urllib.parse

FORMAT = 1


class Failure(Exception):
    """What the user is told, and the end of the command."""


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, 'rb') as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write_json(path, document):
    """The file is whole or not there."""
    partial = path.with_name(path.name + '.partial')
    partial.write_text(json.dumps(document, indent=1, ensure_ascii=False) + '\n', encoding='utf-8')
    partial.replace(path)


def read_json(path):
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except (OSError, ValueError) as error:
        raise Failure(f'{path}: cannot be read: {error}') from None


def instructions_in(text, language):
    """How many instructions assembly or PTX has: lines that are no label, directive or comment."""
    indented = (line.strip() for line in text.splitlines() if line.startswith(('\t', ' ')))
    lines = (line for line in indented if line and not line.startswith(('.', '#', '//')))
    if language == 'ptx':
        return sum(line.endswith(';') for line in lines)
    return sum(not line.endswith(':') for line in lines)


class Dump:
    """A dump that was written, whole or in part."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        if not (self.folder / 'dump.json').is_file():
            raise Failure(f'{folder}: is no dump (it has no dump.json); `code_guard.py dump --out {folder}` writes one')
        self.head = read_json(self.folder / 'dump.json')
        if self.head.get('format') != FORMAT:
            raise Failure(f'{folder}: is a dump of format {self.head.get("format")}; this script reads {FORMAT}. '
                          'Write it again, or compare with the script that wrote it')

    def programs(self):
        """All documents by (network, target, precision), in the order of their names."""
        documents = [read_json(path) for path in sorted((self.folder / 'programs').glob('*.json'))]
        return {(document['network'], document['target'], document['precision']): document for document in documents}

    def loops(self, kernel):
        return self._text('loops', kernel['loops'], '.txt')

    def code(self, kernel):
        return self._text('code', kernel['code'], '.ptx' if kernel['language'] == 'ptx' else '.s')

    def instructions(self, kernel):
        return self._instructions(kernel['code'], kernel['language'])

    @functools.lru_cache(maxsize=None)
    def _instructions(self, digest, language):
        return instructions_in(self.code({'code': digest, 'language': language}), language)

    def _text(self, kind, digest, extension):
        path = self.folder / kind / (digest + extension)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise Failure(f'{path}: cannot be read: {error.strerror}; the dump is incomplete, write it again') from None
        if hashlib.sha256(data).hexdigest() != digest:
            raise Failure(f'{path}: is damaged: its name is not the digest of its content; remove the dump and write it again')
        return data.decode('utf-8', 'replace')


def program_path(folder, network, target, precision):
    name = ' '.join((network, target, precision))
    return folder / 'programs' / (urllib.parse.quote(name, safe=' :+') + '.json')
