"""What differs between two dumps of generated code (code_dump.py), as data.

Kernels are paired by the calls in the plan: a call of the old program and one of the new are the same if they compute the
same ONNX nodes and, where several do, are of the same op and in the same order. What has no partner is gone or new. A
change is a difference between kernels that is the same wherever it occurs: it is counted once, with its occurrences.
"""
import collections
import dataclasses
import fnmatch
import tomllib

from code_dump import Failure

# What can differ, the gravest first.
KINDS = {
    'refusal': 'gantry refuses it, or no longer, or says something else',
    'model': 'the model itself',
    'new': 'kernels that compute other nodes than any before',
    'gone': 'kernels that compute other nodes than any now',
    'loops': 'loop nests, and so machine code',
    'code': 'machine code of equal loop nests',
    'launch': 'blocks, threads or iterations of equal kernels on a GPU',
    'weights': 'constants of equal kernels',
    'plan': 'order of steps, or places in memory',
}
OF_KERNELS = ('new', 'gone', 'loops', 'code', 'launch', 'weights')


@dataclasses.dataclass(frozen=True)
class Call:
    """A step of a plan that calls a kernel."""
    kernel: dict = dataclasses.field(hash=False, compare=False)
    nodes: tuple
    constants: tuple  # digests
    launches: str     # threads, blocks and iterations, of a GPU's kernel

    @property
    def name(self):
        return self.kernel['symbol']


@dataclasses.dataclass
class Change:
    """`old` and `new` are kernels; None where there is none."""
    kind: str
    old: dict = None
    new: dict = None
    note: str = ''
    occurrences: list = dataclasses.field(default_factory=list)

    @property
    def ops(self):
        return (self.new or self.old or {}).get('name', '')


@dataclasses.dataclass
class Occurrence:
    program: tuple  # network, target, precision
    name: str = ''  # of the kernel in that program, of the old one where the new has another
    nodes: tuple = ()
    reason: str = ''  # why it is expected; empty: it is not


@dataclasses.dataclass
class Comparison:
    programs: dict     # (network, target, precision) -> (old document, new document)
    changes: list      # in the order of KINDS
    only_old: list     # programs
    only_new: list
    unmet: list        # expectations that met nothing
    common: bool

    def kinds_of(self):
        """Program -> how often each kind occurs in it."""
        kinds = collections.defaultdict(collections.Counter)
        for change in self.changes:
            for occurrence in change.occurrences:
                kinds[occurrence.program][change.kind] += 1
        return kinds

    def is_as_expected(self):
        unexpected = any(not occurrence.reason for change in self.changes for occurrence in change.occurrences)
        uneven = not self.common and (self.only_old or self.only_new)
        return not (unexpected or uneven or self.unmet)


def calls_of(program):
    """The plan's calls, in their order."""
    calls = []
    for step in program['steps']:
        if 'kernel' not in step:
            continue
        kernel = program['kernels'][step['kernel']]
        buffers = [program['buffers'][buffer] for buffer in step['buffers']]
        constants = tuple(program['constants'][buffer['index']]['sha256'] for buffer in buffers
                          if buffer['kind'] == 'constant')
        launches = [[launch['threads'], launch['shared_bytes'], launch['loop']] for launch in kernel.get('launches', [])]
        calls.append(Call(kernel, tuple(step['nodes']), constants,
                          f'{launches} {step.get("grids")} {step.get("loops")}' if 'grids' in step else ''))
    return calls


def numbered(calls, key):
    """Calls by their key and their number among those of the same key."""
    counts, result = collections.Counter(), {}
    for call in calls:
        counts[key(call)] += 1
        result[key(call), counts[key(call)]] = call
    return result


def pair(old, new):
    """(old call, new call) for those that belong together, or None in the place of a partner."""
    pairs = []
    for key in (lambda call: (call.nodes, call.kernel['op'], call.kernel['name']),
                lambda call: (call.nodes, call.kernel['op']), lambda call: call.nodes):
        before, after = numbered(old, key), numbered(new, key)
        both = [at for at in before if at in after]
        pairs += [(before[at], after[at]) for at in both]
        old = [call for at, call in before.items() if at not in after]
        new = [call for at, call in after.items() if at not in before]
    return pairs + [(call, None) for call in old] + [(None, call) for call in new]


def kind_of(before, after):
    """What differs between two calls; None if nothing does."""
    if before is None or after is None:
        return 'new' if before is None else 'gone'
    for kind, of in (('loops', lambda call: call.kernel['loops']), ('code', lambda call: call.kernel['code']),
                     ('launch', lambda call: call.launches), ('weights', lambda call: call.constants)):
        if of(before) != of(after):
            return kind
    return None


def plan_of(program):
    """What of a plan is not said by its kernels: their order, where buffers lie, sizes."""
    # Kernels by what they compute, so that a change of one's code or number is none of the plan.
    steps = [[step.get('nodes'), step['buffers']] if 'kernel' in step else step for step in program['steps']]
    return [steps, program['buffers'], program['workspace_bytes'], program.get('gpu_workspace_bytes')]


class Collector:
    """Changes, each once."""

    def __init__(self):
        self.changes = {}

    def add(self, kind, occurrence, old=None, new=None, note=''):
        files = tuple((kernel['name'], kernel['loops'], kernel['code']) if kernel else None for kernel in (old, new))
        change = self.changes.setdefault((kind, files, note), Change(kind, old, new, note))
        change.occurrences.append(occurrence)

    def add_program(self, key, old, new):
        if 'error' in old or 'error' in new:
            if old.get('error') != new.get('error'):
                note = f'{old.get("error") or "compiles"}\n  -> {new.get("error") or "compiles"}'
                self.add('refusal', Occurrence(key), note=note)
            return
        before, after = old['program'], new['program']
        if old['model'] != new['model']:
            self.add('model', Occurrence(key), note=f'{old["model"][:12]} -> {new["model"][:12]}')
        pairs = pair(calls_of(before), calls_of(after))
        for was, is_now in pairs:
            kind = kind_of(was, is_now)
            if kind is not None:
                call = was or is_now
                self.add(kind, Occurrence(key, call.name, call.nodes), was and was.kernel, is_now and is_now.kernel)
        if plan_of(before) != plan_of(after):
            sizes = [program['workspace_bytes'] for program in (before, after)]
            same = 'the workspace keeps its size' if sizes[0] == sizes[1] else 'the workspace has another size'
            self.add('plan', Occurrence(key), note=same)

    def in_order(self):
        order = list(KINDS)
        return sorted(self.changes.values(), key=lambda change: order.index(change.kind))


def compare(old, new, expectations=(), common=False):
    """Of two dumps; `expectations` from read_expectations."""
    before, after = old.programs(), new.programs()
    both = [key for key in before if key in after]
    if not both:
        raise Failure(f'{old.folder} and {new.folder}: have no program in common')
    collector = Collector()
    for key in both:
        collector.add_program(key, before[key], after[key])
    changes = collector.in_order()
    met = set()
    for change in changes:
        for occurrence in change.occurrences:
            for number, expectation in enumerate(expectations):
                if meets(change, occurrence, expectation):
                    occurrence.reason = occurrence.reason or expectation['reason']
                    met.add(number)
    return Comparison({key: (before[key], after[key]) for key in both}, changes,
                      [key for key in before if key not in after], [key for key in after if key not in before],
                      [expectation for number, expectation in enumerate(expectations) if number not in met], common)


# Of an expectation, beside its reason: each a list of shell patterns, of which one must fit.
PATTERNS = ('kinds', 'networks', 'targets', 'precisions', 'ops', 'nodes')


def fits(patterns, texts):
    return any(fnmatch.fnmatchcase(text, pattern) for text in texts for pattern in patterns)


def meets(change, occurrence, expectation):
    network, target, precision = occurrence.program
    texts = {'kinds': [change.kind], 'networks': [network], 'targets': [target], 'precisions': [precision],
             'ops': [kernel['name'] for kernel in (change.old, change.new) if kernel], 'nodes': occurrence.nodes}
    return all(fits(expectation[key], texts[key]) for key in PATTERNS if key in expectation)


def read_expectations(path):
    """The [[expected]] tables of a TOML file."""
    try:
        with open(path, 'rb') as file:
            document = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise Failure(f'{path}: cannot be read: {error}') from None
    tables = document.get('expected')
    if list(document) != ['expected'] or not isinstance(tables, list):
        raise Failure(f'{path}: has to consist of [[expected]] tables')
    for number, table in enumerate(tables, 1):
        where = f'{path}: [[expected]] number {number}'
        reason = table.get('reason')
        if not isinstance(reason, str) or not reason.strip():
            raise Failure(f'{where}: has no reason')
        for key, value in table.items():
            if key == 'reason':
                continue
            if key not in PATTERNS:
                raise Failure(f'{where}: {key} is none of reason, {", ".join(PATTERNS)}')
            if not isinstance(value, list) or not all(isinstance(pattern, str) for pattern in value):
                raise Failure(f'{where}: {key} has to be a list of patterns: ["resnet*"]')
        unknown = [kind for kind in table.get('kinds', []) if kind not in KINDS]
        if unknown:
            raise Failure(f'{where}: {unknown[0]} is no kind of change; the kinds are {", ".join(KINDS)}')
    return tables
