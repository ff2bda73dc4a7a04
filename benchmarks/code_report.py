"""The text of a comparison of two dumps (code_comparison.py)."""
import collections
import difflib
import fnmatch

from code_comparison import KINDS, OF_KERNELS
from code_dump import Failure


def table(rows, left=1):
    """Columns aligned, the first `left` of them to the left."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return '\n'.join('  '.join(text.ljust(width) if column < left else text.rjust(width)
                               for column, (text, width) in enumerate(zip(row, widths))).rstrip() for row in rows)


def from_to(old, new):
    """"1,234 -> 1,200", or one figure where they are equal."""
    texts = [f'{value:,}' if isinstance(value, int) else str(value) for value in (old, new)]
    return texts[0] if texts[0] == texts[1] else ' -> '.join(texts)


def sizes(dump, program):
    """Kernels, instructions and bytes of code of a program, each kernel once, and its workspace."""
    kernels = program['kernels']
    return (len(kernels), sum(dump.instructions(kernel) for kernel in kernels),
            sum(kernel['code_bytes'] or 0 for kernel in kernels), program['workspace_bytes'])


def counts(kinds):
    return ', '.join(f'{kinds[kind]} {kind}' for kind in KINDS if kinds[kind])


def targets_table(comparison):
    """How many programs of each target and precision changed."""
    kinds = comparison.kinds_of()
    totals = collections.defaultdict(collections.Counter)
    for network, target, precision in comparison.programs:
        total = totals[target, precision]
        total['programs'] += 1
        total['changed'] += (network, target, precision) in kinds
        for kind, number in kinds.get((network, target, precision), {}).items():
            total[kind] += number
    shown = [kind for kind in OF_KERNELS if any(total[kind] for total in totals.values())]
    rows = [['target', 'precision', 'unchanged', 'changed', *shown]]
    for (target, precision), total in totals.items():
        rows.append([target, precision, str(total['programs'] - total['changed']), str(total['changed']),
                     *(str(total[kind] or '') for kind in shown)])
    return table(rows, left=2)


def programs_table(comparison, old, new, most):
    kinds = comparison.kinds_of()
    changed = [key for key in comparison.programs if key in kinds]
    rows = [['program', 'what', 'kernels', 'instructions', 'code bytes', 'workspace bytes']]
    for key in changed[:most or None]:
        before, after = comparison.programs[key]
        what = counts(kinds[key])
        if 'program' in before and 'program' in after:
            figures = zip(sizes(old, before['program']), sizes(new, after['program']))
            rows.append([' '.join(key), what, *(from_to(*pair) for pair in figures)])
        else:
            rows.append([' '.join(key), what, '', '', '', ''])
    return table(rows, left=2) + more(len(changed), most)


def more(total, most):
    return f'\n… and {total - most} more (--rows 0 lists all)' if most and total > most else ''


def kernel_figures(change, old, new):
    """"412 -> 398 instructions, 2,300 -> 2,210 bytes", of a kernel that is new or gone without an arrow."""
    sides = [(dump, kernel) for dump, kernel in ((old, change.old), (new, change.new)) if kernel]
    figures = [from_to(*(dump.instructions(kernel) for dump, kernel in (sides[0], sides[-1]))) + ' instructions']
    if all(kernel['code_bytes'] is not None for _, kernel in sides):
        figures.append(from_to(sides[0][1]['code_bytes'], sides[-1][1]['code_bytes']) + ' bytes')
    return ', '.join(figures)


def places(change, most=3):
    """Where it occurs, a line a program, with the nodes."""
    by_program = collections.defaultdict(list)
    for occurrence in change.occurrences:
        by_program[occurrence.program].append(occurrence)
    lines = []
    for program, occurrences in list(by_program.items())[:most]:
        whose = '; '.join(f'{occurrence.name} of {", ".join(occurrence.nodes) or "no node of the model"}'
                          for occurrence in occurrences[:most] if occurrence.name)
        if len(occurrences) > most:
            whose += f'; and {len(occurrences) - most} more'
        lines.append(f'     {" ".join(program)}{": " if whose else ""}{whose}')
    if len(by_program) > most:
        lines.append(f'     and in {len(by_program) - most} more programs')
    return lines


def change_text(number, change, old, new, most=3):
    head = f'{number:>3}. {change.kind}'
    if change.kind in OF_KERNELS:
        ops = dict.fromkeys(kernel['name'] for kernel in (change.old, change.new) if kernel)
        head += f'  {" -> ".join(ops)}: {kernel_figures(change, old, new)}'
    elif change.note:
        head += f'  {change.note}'
    reasons = sorted({occurrence.reason for occurrence in change.occurrences if occurrence.reason})
    unexpected = sum(not occurrence.reason for occurrence in change.occurrences)
    if reasons:
        head += f'\n     expected: {"; ".join(reasons)}'
        if unexpected:
            head += f' (but not in {unexpected} of {len(change.occurrences)} places)'
    return '\n'.join([head, *places(change, most)])


def report(comparison, old, new, most):
    """The tables, then each change once. `most` rows of each; 0: all."""
    kinds = comparison.kinds_of()
    total, changed = len(comparison.programs), len(kinds)
    parts = [f'{total} programs: {total - changed} unchanged, {changed} changed']
    for name, keys in (('OLD', comparison.only_old), ('NEW', comparison.only_new)):
        if keys:
            parts[0] += f'; {len(keys)} only in {name}'
            if not comparison.common:
                shown = ', '.join(' '.join(key) for key in keys[:3])
                parts.append(f'only in {name}: {shown}{", …" if len(keys) > 3 else ""}')
    if comparison.changes:
        parts.append(targets_table(comparison))
        parts.append(programs_table(comparison, old, new, most))
        shown = list(enumerate(comparison.changes, 1))[:most or None]
        listed = '\n'.join(change_text(number, change, old, new) for number, change in shown)
        parts.append(f'changes, each once:\n{listed}{more(len(comparison.changes), most)}')
        parts.append('kinds: ' + '; '.join(f'{kind}: {KINDS[kind]}' for kind in KINDS
                                           if any(change.kind == kind for change in comparison.changes)))
    for expectation in comparison.unmet:
        patterns = ', '.join(f'{key} {" ".join(value)}' for key, value in expectation.items() if key != 'reason')
        parts.append(f'expected, but not there: {expectation["reason"]}{f" ({patterns})" if patterns else ""}')
    return '\n\n'.join(parts)


def is_wanted(number, change, wanted):
    texts = [str(number), change.ops]
    for occurrence in change.occurrences:
        texts += [occurrence.name, *occurrence.nodes]
    return any(text == wanted or fnmatch.fnmatchcase(text, wanted) for text in texts)


def difference(before, after, title):
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f'old {title}', f'new {title}', lineterm='', n=5)
    return '\n'.join(lines)


def texts_of(change, old, new, assembly):
    """Differences of what a change is of; the loop nest itself where there is nothing to compare it with."""
    if change.old is None or change.new is None:
        dump, kernel = (new, change.new) if change.old is None else (old, change.old)
        return [dump.loops(kernel)] + ([dump.code(kernel)] if assembly else [])
    parts = []
    if change.kind == 'loops':
        parts.append(difference(old.loops(change.old), new.loops(change.new), 'loop nest'))
    if change.kind == 'code' or assembly:
        parts.append(difference(old.code(change.old), new.code(change.new), change.new['language']))
    return [part for part in parts if part]


def details(comparison, old, new, wanted, assembly):
    """All of the changes of which `wanted` is the number, or a pattern of a kernel's name, its ops or a node."""
    parts = []
    for number, change in enumerate(comparison.changes, 1):
        if is_wanted(number, change, wanted):
            parts.append(change_text(number, change, old, new, most=10))
            if change.kind in OF_KERNELS:
                parts += texts_of(change, old, new, assembly)
    if not parts:
        raise Failure(f'--details {wanted}: no change is of a kernel or node of that name; without --details all are listed')
    return '\n\n'.join(parts)
