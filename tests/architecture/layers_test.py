#!/usr/bin/env python3
"""The layers of the source tree: what a layer includes or declares lies in itself or below, and code asks what an op is,
not what it is called.

usage: tests/architecture/layers_test.py SOURCE_DIRECTORY [test…]
"""
import collections
import pathlib
import re
import sys
import unittest

# From the ground up. Layers in one line do not know each other.
LAYERS = [
    ['device_runtime', 'host/support'],
    ['host/machine'],
    ['rpc', 'host/graph', 'host/trace'],
    ['host/tensor', 'host/gir'],
    ['host/loops'],
    ['host/ops'],
    ['host/zoo', 'host/custom_ops'],
    ['host/passes', 'host/onnx', 'host/costs'],
    ['host/forms', 'host/targets', 'host/codegen'],
    ['host/records'],
    ['host/driver'],
    ['host/compiler', 'host/conformance', 'host/tune', 'host/farm'],
    ['host/cli'],
    ['host/python'],
]
# What a layer may include although it lies beside or above, and why.
ALLOWED = {
    ('host/tensor', 'host/loops'): 'an extern kernel is given as a function of a builder of loops, declared only',
}
# A target's folder has parts of several layers: which file it is says of which; all others are rules.
TARGET_PARTS = [(r'common/(targets|families)|\w+/(cpus|family|features|gpu_target|machine|tile_instructions|tile_units)',
                 'host/machine'),
                (r'(?!common|cpu)\w+/(costs|\w+_model)', 'host/costs'),
                (r'(?!common|cpu|cuda)\w+/\w+|cuda/(codegen|gpu_image|foreign_ptx|ptx_text|ptxas|block_statements|launches|warp_statements)|common/codegens',
                 'host/codegen')]
TARGET_RULES = 'host/targets'
# What is compiled once for all layers has nothing but the standard library's headers and fmt's.
SHARED = {'host/common_headers': 'host/support'}
LEVEL = {layer: level for level, layers in enumerate(LAYERS) for layer in layers}
SOURCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path('.')
OP_NAME_COMPARISON = re.compile(r'op->name\s*[=!]=|[=!]=\s*[\w>.()\[\]-]*op->name|op->name\.(compare|starts_with|find)\b')

# What a stage of a tensor expression is called, or was marked with, compared with a string.
STAGE_TEXT_COMPARISON = re.compile(r'(?<!\brule)(?:\.|->)(?:name|tag|source)(?:\s*[=!]=|\.(?:compare|starts_with|ends_with|find)\b)')


def layer_of(path):
    parts = path.split('/')
    if path.rsplit('.', 1)[0] in SHARED:
        return SHARED[path.rsplit('.', 1)[0]]
    if path.startswith('host/targets/'):
        name = path.removeprefix('host/targets/').rsplit('.', 1)[0]
        return next((layer for pattern, layer in TARGET_PARTS if re.fullmatch(pattern, name)), TARGET_RULES)
    for length in (2, 1):
        name = '/'.join(parts[:length])
        if name in LEVEL:
            return name
    return None


def sources():
    for top in ('host', 'rpc', 'device_runtime'):
        for path in sorted((SOURCE / top).rglob('*')):
            if path.suffix in ('.h', '.hpp', '.cpp') and path.is_file():
                yield path, str(path.relative_to(SOURCE))


def without_comments(text):
    """Comments blanked, lines kept; strings are kept as they are."""
    def blank(match):
        found = match.group(0)
        return found if found.startswith('"') else re.sub(r'[^\n]', ' ', found)
    return re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', blank, text, flags=re.DOTALL)


def reaches_up(layer, other):
    return other is not None and other != layer and LEVEL[other] >= LEVEL[layer] and (layer, other) not in ALLOWED


class Layers(unittest.TestCase):
    def test_every_source_file_lies_in_a_layer(self):
        self.assertEqual([name for _, name in sources() if layer_of(name) is None], [])

    def test_includes_go_down(self):
        wrong = []
        for path, name in sources():
            for included in re.findall(r'^\s*#include "([^"]+)"', path.read_text(encoding='utf-8'), re.MULTILINE):
                if reaches_up(layer_of(name), layer_of(included)):
                    wrong.append(f'{name} includes {included}')
        self.assertEqual(wrong, [])

    def test_declarations_go_down(self):
        """A name that is only declared is defined in the same layer, or below."""
        defined = collections.defaultdict(set)
        texts = {name: without_comments(path.read_text(encoding='utf-8')) for path, name in sources()}
        for name, text in texts.items():
            for found in re.findall(r'^(?:struct|class|enum class) (\w+)(?: final)?(?: :[^;{]*)? ?\{', text, re.MULTILINE):
                defined[found].add(layer_of(name))
        wrong = []
        for name, text in texts.items():
            for found in re.findall(r'^(?:struct|class) (\w+);', text, re.MULTILINE):
                places = defined.get(found, set())
                if places and all(reaches_up(layer_of(name), place) for place in places):
                    wrong.append(f'{name} declares {found}, which is defined in {", ".join(sorted(places))}')
        self.assertEqual(wrong, [])

    def test_the_board_knows_nothing_of_the_host(self):
        wrong = [f'{name} includes {included}' for path, name in sources() if name.startswith(('device_runtime/', 'rpc/'))
                 for included in re.findall(r'#include [<"](host/[^">]+|llvm/[^">]+|onnx/[^">]+)',
                                            path.read_text(encoding='utf-8'))]
        self.assertEqual(wrong, [])


    def test_machines_are_described_without_those_who_generate_code(self):
        """With nothing but the standard library's headers, the system's and fmt's, and the layer below."""
        wrong = [f'{name} includes {included}' for path, name in sources() if layer_of(name) == 'host/machine'
                 for included in re.findall(r'^\s*#include [<"]([^">]+)[">]', path.read_text(encoding='utf-8'), re.MULTILINE)
                 if '/' in included and not included.startswith('fmt/')
                 and layer_of(included) not in ('host/machine', 'host/support')]
        self.assertEqual(wrong, [])


class Ops(unittest.TestCase):
    def test_code_compares_ops_not_names(self):
        wrong = [f'{name}: {line.strip()}' for path, name in sources() if name.startswith('host/')
                 for line in without_comments(path.read_text(encoding='utf-8')).splitlines()
                 if OP_NAME_COMPARISON.search(line)]
        self.assertEqual(wrong, [])

    def test_names_of_ops_stand_where_they_are_declared(self):
        """The names with a prefix of their own: others are words that stand elsewhere too."""
        wrong = [f'{name}: {line.strip()}' for path, name in sources()
                 if name.startswith('host/') and layer_of(name) != 'host/ops'
                 for line in without_comments(path.read_text(encoding='utf-8')).splitlines()
                 if re.search(r'"nn\.\w+"', line)]
        self.assertEqual(wrong, [])

    def test_each_op_has_one_handle(self):
        counts = collections.Counter(
            found for path, name in sources()
            for found in re.findall(r'constexpr (?:Op|ElementwiseOp)<\w+> \w+\{"([\w.]+)"[,}]',
                                    without_comments(path.read_text(encoding='utf-8'))))
        self.assertGreater(len(counts), 100)
        self.assertEqual([op for op, count in counts.items() if count > 1], [])


class Stages(unittest.TestCase):
    def test_rules_ask_for_roles_not_for_words(self):
        """A stage's role is a type (host/tensor/role.h); its name and source are text for people."""
        wrong = [f'{name}: {line.strip()}' for path, name in sources()
                 if layer_of(name) in ('host/tensor', 'host/loops', 'host/ops', 'host/costs', 'host/targets', 'host/driver')
                 for line in without_comments(path.read_text(encoding='utf-8')).splitlines()
                 if STAGE_TEXT_COMPARISON.search(line)]
        self.assertEqual(wrong, [])

    def test_a_stage_has_no_text_but_its_name_and_source(self):
        text = without_comments((SOURCE / 'host/tensor/tensor.h').read_text(encoding='utf-8'))
        operation = re.search(r'struct OperationNode \{(.*?)\n\};', text, re.DOTALL).group(1)
        self.assertEqual(re.findall(r'(?:string|string_view|char\*) (\w+)[;= ]', operation), ['name', 'source'])


class KernelRules(unittest.TestCase):
    def test_each_rule_lies_in_the_file_that_the_list_names(self):
        rules = re.findall(r'^GANTRY_KERNEL_RULE\((\w+), (\w+), "[^"]+", "([^"]+)"\)$',
                           (SOURCE / 'host/targets/common/kernel_rules.def').read_text(encoding='utf-8'), re.MULTILINE)
        self.assertGreater(len(rules), 8)
        wrong = [f'{file} does not define {rule}_rule of {device}' for device, rule, file in rules
                 if not re.search(rf'^namespace gantry::{device} \{{$.*^std::optional<Schedule> {rule}_rule\(',
                                  (SOURCE / file).read_text(encoding='utf-8'), re.MULTILINE | re.DOTALL)]
        self.assertEqual(wrong, [])


class Targets(unittest.TestCase):
    maxDiff = None
    """What a target is called stands in its folder, and in the one table of folders."""

    # What a folder does not say of itself in a form that could be read here.
    OTHER_WORDS = ['x86', 'arm', 'aarch64', 'nvidia', 'intel', 'amd', 'nvptx', 'nvvm', 'ptxas', r'avx\w*', r'sse\w*', 'neon',
                   r'sve\d?', r'amx\w*', r'vnni\w*', r'cortex\w*', r'sm_\w+']
    # Programs show some in their help, and read and print what boards and module files call their devices, which is the
    # runtime's matter; for what they do they ask as everybody else (below).
    PROGRAMS = ('host/cli/', 'host/python/')
    # The other list of host/targets: rules, each with its folder.
    LISTS = ('host/targets/common/targets.def', 'host/targets/common/kernel_rules.def')

    @staticmethod
    def folders():
        table = (SOURCE / 'host/targets/common/targets.def').read_text(encoding='utf-8')
        return re.findall(r'^GANTRY_(?:CPU|GPU)_FAMILY\((\w+)\)$', table, re.MULTILINE)

    def words(self):
        """The folders' names, those of CPUs, of tile units, LLVM's of back ends."""
        found = set(self.folders())
        for folder in self.folders():
            for path in (SOURCE / 'host/targets' / folder).glob('*'):
                text = path.read_text(encoding='utf-8')
                found.update(re.findall(r'\.(?:name|backend) = "(\w+)"', text))
                if path.name == 'cpus.cpp':
                    found.update(re.findall(r'^    \{"([\w-]+)", "', text, re.MULTILINE))
        return found

    def test_every_folder_is_a_target_or_shared_by_some(self):
        there = {path.name for path in (SOURCE / 'host/targets').iterdir() if path.is_dir()}
        self.assertEqual(there, {*self.folders(), 'common', 'cpu'})

    def test_names_of_targets_stand_in_their_folders(self):
        words = self.words()
        self.assertLessEqual({'x86', 'x86_64', 'znver4', 'amx', 'bfmmla', 'NVPTX', 'cuda'}, words)
        pattern = re.compile(r'(?<![A-Za-z0-9])(?:%s)(?![A-Za-z0-9])' % '|'.join(
            sorted(map(re.escape, words), key=len, reverse=True) + self.OTHER_WORDS), re.IGNORECASE)
        own = tuple(f'host/targets/{folder}/' for folder in self.folders())
        wrong = []
        lists = [(path, str(path.relative_to(SOURCE))) for path in sorted((SOURCE / 'host').rglob('*.def'))]
        for path, name in [*sources(), *lists]:
            if not name.startswith('host/') or name.startswith((*own, *self.PROGRAMS)) or name in self.LISTS:
                continue
            for line in without_comments(path.read_text(encoding='utf-8')).splitlines():
                if pattern.search(line):
                    wrong.append(f'{name}: {line.strip()}')
        self.assertEqual(wrong, [])

    def test_programs_ask_for_no_targets_parts(self):
        """Their help may name targets; what they do they ask the one description for."""
        wrong = [f'{name} includes {included}' for path, name in sources()
                 if name.startswith('host/') and not name.startswith('host/targets/')
                 for included in re.findall(r'#include "(host/targets/[^"]+)"', path.read_text(encoding='utf-8'))
                 if included.split('/')[2] in self.folders()]
        self.assertEqual(wrong, [])


if __name__ == '__main__':
    unittest.main()
