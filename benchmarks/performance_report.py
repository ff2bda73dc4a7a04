"""The tables and the roofline pictures of docs/performance.md, from what performance.py measured.

write() replaces what stands between `<!-- begin NAME -->` and `<!-- end NAME -->`, and draws roofline*.svg beside the
file. The prose around it is written by hand.
"""
import math
import os
import re
import statistics

import roofline
import scaling

TITLES = {'native': 'native (AVX-512 and AMX where the machine has them)', 'x86-64-v4': 'x86-64-v4 (AVX-512, no AMX)',
          'x86-64-v3': 'x86-64-v3 (AVX2)', 'bf16': 'native, `--precision bf16`',
          'fp16': 'native, `--precision fp16`'}
# Modes with tables of their own; those of the table of precisions, of which some stand only there.
ORDER = ['native', 'x86-64-v4', 'x86-64-v3', 'bf16', 'fp16']
BESIDE = ['native', 'fp32-split3', 'fp32', 'fp16', 'bf16']
ASIDE = [mode for mode in BESIDE if mode not in ORDER]


def median(samples):
    known = [s for s in samples if s is not None]
    return statistics.median(known) if known else None


def ratio(peer, mine):
    """How many times faster gantry is: the median of the rounds' ratios."""
    ratios = [p / m for p, m in zip(peer, mine) if p is not None and m is not None]
    return statistics.median(ratios) if ratios else None


def geometric_mean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


def number(value, digits=3):
    if value is None:
        return '–'
    if value == 0:
        return '0'
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f'{value:.{min(decimals, 4)}f}'


def times(value):
    return '–' if value is None else f'{value:.2f}'


def compared_with(mode):
    """The peers of a mode: beside x86-64-v3 those that are held to AVX2."""
    held = '-avx2' if mode == 'x86-64-v3' else ''
    return ['onnxruntime' + held, 'openvino' + held]


def summary(entry):
    """One line for whoever watches."""
    text = f"{entry['network']}, {entry['mode']}, {entry['threads']} threads: "
    if entry['error']:
        return text + entry['error']
    mine = entry['samples_ms']
    text += f'{number(median(mine))} ms'
    for name in compared_with(entry['mode']):
        if name not in entry['peers']:
            continue
        peer = entry['peers'][name]
        text += f"; {name} " + (peer['error'] or f"{number(median(peer['samples_ms']))} ms, "
                                f"{times(ratio(peer['samples_ms'], mine))} times faster")
    return text


def table(head, rows):
    lines = ['| ' + ' | '.join(head) + ' |', '| --- ' * len(head) + '|']
    return '\n'.join(lines + ['| ' + ' | '.join(row) + ' |' for row in rows])


def flops_of(data, network):
    """Operations of a run, as the model states them, whatever algorithm does them with fewer."""
    for mode in ORDER:
        kernels = data['profiles'].get(f'{network}|{mode}')
        if kernels:
            return sum(kernel['flops'] for kernel in kernels)
    return None


def peak_of(data, mode, threads):
    """The multiply-add peak in GFLOP/s that a mode is compared with, and its name."""
    peaks = data['peaks'].get(str(threads), {})
    if mode == 'bf16' and 'amx_bf16_gflops' in peaks:
        return peaks['amx_bf16_gflops'], 'AMX bf16'
    if mode == 'bf16' and 'avx512_bf16_gflops' in peaks:
        return peaks['avx512_bf16_gflops'], 'AVX-512 bf16'
    if mode == 'fp16' and 'avx512_gflops' in peaks:
        return 2 * peaks['avx512_gflops'], 'AVX512-FP16'
    keys = ['avx2_gflops'] if mode == 'x86-64-v3' else ['avx512_gflops', 'avx2_gflops', 'neon_gflops']
    for key in keys:
        if key in peaks:
            return peaks[key], {'avx512_gflops': 'AVX-512', 'avx2_gflops': 'AVX2', 'neon_gflops': 'NEON'}[key]
    return None, ''


def gains_of(data, mode, peer, threads):
    """The peer's time over gantry's, by network."""
    gains = {}
    for run in data['runs'].values():
        other = run['peers'].get(peer)
        if run['mode'] == mode and run['threads'] == threads and other and not other['error']:
            gain = ratio(other['samples_ms'], run['samples_ms'])
            if gain is not None:
                gains[run['network']] = gain
    return gains


def networks_table(data, mode):
    runs = [r for r in data['runs'].values() if r['mode'] == mode]
    networks = sorted({r['network'] for r in runs})
    threads = sorted({r['threads'] for r in runs})
    head = ['network']
    for t in threads:
        label = f'{t} thread' + ('s' if t > 1 else '')
        _, peak_name = peak_of(data, mode, t)
        head += [f'gantry, ms, {label}', 'ONNX Runtime', 'times faster', 'OpenVINO', 'times faster',
                 f'share of {peak_name} peak']
    head.append('error')
    rows, failed = [], {}  # failed: networks by what went wrong
    for network in networks:
        row, deviation = [network], None
        for t in threads:
            run = data['runs'].get(f'{network}|{mode}|{t}')
            if run is None:
                row += ['–'] * 6
                continue
            if run['error']:
                failed.setdefault(f"gantry: {run['error']}", set()).add(network)
            mine, deviation = run['samples_ms'], run['deviation'] or deviation
            speed = median(mine)
            row.append(number(speed))
            for peer in compared_with(mode):
                other = run['peers'].get(peer)
                if other is None or other['error']:
                    row += ['–', '–']
                    if other:
                        failed.setdefault(f"{peer}: {other['error']}", set()).add(network)
                    continue
                row += [number(median(other['samples_ms'])), times(ratio(other['samples_ms'], mine))]
            peak, _ = peak_of(data, mode, t)
            flops = flops_of(data, network)
            share = flops / (speed * 1e6) / peak if peak and flops and speed else None
            row.append('–' if share is None else f'{100 * share:.0f} %')
        row.append('–' if deviation is None else f'{deviation:.1e}')
        rows.append(row)
    mean = ['geometric mean']
    for t in threads:
        mean.append('')
        for peer in compared_with(mode):
            mean += ['', times(geometric_mean(list(gains_of(data, mode, peer, t).values())))]
        mean.append('')
    rows.append(mean + [''])
    text = table(head, rows)
    if failed:
        named = {what: 'every network' if names == set(networks) else ', '.join(sorted(names))
                 for what, names in failed.items()}
        text += '\n\nWhat failed: ' + '; '.join(f'{names}: {what}' for what, names in sorted(named.items())) + '.'
    return text


def summary_table(data):
    """A row a mode: how many times faster than each peer, as the mean of all networks and of the slowest one."""
    rows = []
    for mode in ORDER:
        row = []
        for threads in (1, 2):
            for peer in compared_with(mode):
                gains = gains_of(data, mode, peer, threads)
                if not gains:
                    row.append('–')
                    continue
                least = min(gains, key=gains.get)
                mean = geometric_mean(list(gains.values()))
                row.append(f'{times(mean)}, least {times(gains[least])} ({least})')
        errors = [run['deviation'] for run in data['runs'].values()
                  if run['mode'] == mode and run['deviation'] is not None]
        if any(cell != '–' for cell in row):
            rows.append([mode] + row + [f'{max(errors):.1e}' if errors else '–'])
    return table(['target or precision', 'ONNX Runtime, 1 thread', 'OpenVINO, 1 thread', 'ONNX Runtime, 2 threads',
                  'OpenVINO, 2 threads', 'largest error'], rows)


def scaling_table(data):
    """A row a network: what two threads gain in each mode, beside what the machine gives two processes."""
    measured = data['scaling']
    modes = [mode for mode in ORDER if any(key.endswith('|' + mode) for key in measured)]
    head = ['network']
    for mode in modes:
        head += [f'{mode}, 1 thread, ms', '2 threads, ms', '2 threads / 1', '2 processes / 1']
    rows = []
    for network in sorted({key.split('|')[0] for key in measured}):
        row = [network]
        for mode in modes:
            rounds = measured.get(f'{network}|{mode}')
            if not rounds:
                row += ['–'] * 4
                continue
            threads, processes = scaling.gains(rounds)
            row += [number(median([statistics.mean(r['alone']) for r in rounds])),
                    number(median([r['threads'] for r in rounds])), times(threads), times(processes)]
        rows.append(row)
    return table(head, rows)


def precisions_table(data):
    """A row a network: what each precision of native takes on one thread, and how far its result is off."""
    modes = [mode for mode in BESIDE if any(run['mode'] == mode and not run['error'] for run in data['runs'].values())]
    head = ['network']
    for mode in modes:
        head += ['auto, ms' if mode == 'native' else f'{mode}, ms', 'error']
    rows = []
    for network in sorted({run['network'] for run in data['runs'].values()}):
        row = [network]
        for mode in modes:
            run = data['runs'].get(f'{network}|{mode}|1')
            known = run is not None and not run['error']
            row.append(number(median(run['samples_ms'])) if known else '–')
            row.append(f"{run['deviation']:.1e}" if known and run['deviation'] is not None else '–')
        rows.append(row)
    return table(head, rows)


def home_of(kernel, peaks):
    """Where what a kernel reads and writes is when it begins, at best: the cache that holds it twice, or memory."""
    if kernel['bytes'] < (peaks.get('l2_bytes') or 1 << 21) / 2:
        return 'l2_gb_per_s'
    if 'l3_gb_per_s' in peaks and kernel['bytes'] < peaks['l3_bytes'] / 2:
        return 'l3_gb_per_s'
    return 'memory_gb_per_s'


def roofline_seconds(kernel, peaks, peak):
    """The least times: of its operations at the multiply-add peak, and of its traffic."""
    return kernel['flops'] / (peak * 1e9), kernel['bytes'] / (peaks[home_of(kernel, peaks)] * 1e9)


def kernels_table(data, mode):
    peaks = data['peaks'].get('1')
    peak, peak_name = peak_of(data, mode, 1)
    if not peaks or not peak:
        return 'No figures.'
    kinds = {}
    for key, kernels in data['profiles'].items():
        if key.split('|')[1] != mode:
            continue
        for kernel in kernels:
            kind = kinds.setdefault(roofline.kind_of(kernel['name']), dict(ms=0, flops=0, bytes=0, count=0, least=0, compute=0))
            compute, traffic = roofline_seconds(kernel, peaks, peak)
            kind['ms'] += kernel['total_ms']
            kind['flops'] += kernel['flops']
            kind['bytes'] += kernel['bytes']
            kind['count'] += 1
            kind['least'] += 1e3 * max(compute, traffic)
            kind['compute'] += 1e3 * compute
    total = sum(k['ms'] for k in kinds.values())
    rows = []
    for name, k in sorted(kinds.items(), key=lambda item: -item[1]['ms']):
        if k['ms'] < 0.001 * total:
            continue
        bound = 'arithmetic' if k['compute'] > 0.5 * k['least'] else 'memory'
        rows.append([name, str(k['count']), number(k['ms']), f"{100 * k['ms'] / total:.1f} %",
                     number(k['flops'] / k['ms'] / 1e6), number(k['bytes'] / k['ms'] / 1e6),
                     f"{100 * k['flops'] / k['ms'] / 1e6 / peak:.0f} %", bound,
                     f"{100 * k['least'] / k['ms']:.0f} %"])
    return table(['kind of kernel', 'kernels', 'ms', 'share of time', 'GFLOP/s', 'GB/s', f'of {peak_name} peak', 'bound by',
                  'of its roof'], rows)


def where_table(data, mode):
    """A row a network: the least time of its kernels under the roofs, and what they take more and less than that."""
    peaks = data['peaks'].get('1')
    peak, _ = peak_of(data, mode, 1)
    if not peaks or not peak:
        return 'No figures.'
    rows = []
    for key, kernels in sorted(data['profiles'].items()):
        network, of_mode = key.split('|')
        if of_mode != mode:
            continue
        arithmetic = traffic = slower = faster = total = 0
        losses = []
        for kernel in kernels:
            compute, move = (1e3 * s for s in roofline_seconds(kernel, peaks, peak))
            taken, least = kernel['total_ms'], max(compute, move)
            total += taken
            if compute >= move:
                arithmetic += least
            else:
                traffic += least
            slower += max(0, taken - least)
            faster += max(0, least - taken)
            losses.append((taken - least, kernel['name'], (kernel.get('nodes') or [''])[0], taken))
        lost, name, node, taken = max(losses)
        rows.append([network, number(total), f'{100 * arithmetic / total:.0f} %', f'{100 * traffic / total:.0f} %',
                     f'{100 * slower / total:.0f} %', f'{100 * faster / total:.0f} %',
                     f'{name[:48]} of {node or "?"}: {number(max(lost, 0))} ms of {number(taken)}'])
    return table(['network', 'all kernels, ms', 'arithmetic at the peak', 'traffic at its bandwidth',
                  'kernels slower than their roof', 'kernels faster', 'loses most'], rows)


def compile_table(data):
    rows = [[name, f"{c['cold_s']:.2f}", f"{c['warm_s']:.2f}", f"{c['module_bytes'] / 2**20:.0f}"]
            for name, c in sorted(data['compile'].items())]
    return table(['network', 'cache empty, s', 'cache filled, s', 'module, MiB'], rows) if rows else 'No figures.'


def machine_text(data):
    machine = data['machine'].get('description', {})
    lines = [f"{machine.get('cpu', '?')}, {machine.get('cores', '?')} cores, {machine.get('system', '?')}."]
    versions = {}
    for run in data['runs'].values():
        for name, peer in run['peers'].items():
            if peer.get('version'):
                versions[name.split('-')[0]] = peer['version']
    if versions:
        lines.append('Peers: ' + ', '.join(f'{name} {version}' for name, version in sorted(versions.items())) + '.')
    dates = sorted({run['date'] for run in data['runs'].values()})
    if dates:
        lines.append(f"Measured {dates[0]}" + (f' to {dates[-1]}' if dates[-1] != dates[0] else '') + '.')
    keys = [('avx512_gflops', 'AVX-512 multiply-add, GFLOP/s'), ('avx2_gflops', 'AVX2 multiply-add, GFLOP/s'),
            ('neon_gflops', 'NEON multiply-add, GFLOP/s'), ('avx512_bf16_gflops', 'AVX-512 bf16, GFLOP/s'),
            ('amx_bf16_gflops', 'AMX bf16, GFLOP/s'),
            ('l2_gb_per_s', 'reading from the second-level cache, GB/s'),
            ('l3_gb_per_s', 'reading from the third-level cache, GB/s'),
            ('memory_gb_per_s', 'reading from memory, GB/s')]
    threads = sorted(data['peaks'], key=int)
    rows = [[label] + [number(data['peaks'][t].get(key)) for t in threads]
            for key, label in keys if any(key in data['peaks'][t] for t in threads)]
    peaks = table(['peak (`build/bin/peak`)'] + [f"{t} thread{'s' if t != '1' else ''}" for t in threads], rows)
    pools = '\n\n'.join(f'```\n{text.strip()}\n```' for _, text in sorted(data['fork_join'].items()))
    return ' '.join(lines) + '\n\n' + peaks + ('\n\n`build/bin/fork_join`:\n\n' + pools if pools else '')


def sections(data):
    result = {'machine': machine_text(data), 'summary': summary_table(data), 'compile': compile_table(data),
              'precisions': precisions_table(data)}
    if data.get('scaling'):
        result['scaling'] = scaling_table(data)
    for mode in ORDER:
        if any(run['mode'] == mode for run in data['runs'].values()):
            result[f'networks {mode}'] = f'**Target {TITLES[mode]}**\n\n' + networks_table(data, mode)
        if any(key.endswith('|' + mode) for key in data['profiles']):
            result[f'where {mode}'] = where_table(data, mode)
            result[f'kernels {mode}'] = kernels_table(data, mode)
    return result


def write(data, path):
    """Replaces the tables between a page's marks; a page that is not there gets all of them."""
    found = sections(data)
    if os.path.exists(path):
        with open(path) as file:
            text = file.read()
    else:
        text = '\n\n'.join(f'<!-- begin {name} -->\n<!-- end {name} -->' for name in found) + '\n'
    for name, content in found.items():
        pattern = re.compile(rf'(<!-- begin {re.escape(name)} -->\n).*?(<!-- end {re.escape(name)} -->)', re.S)
        if not pattern.search(text):
            print(f'{path}: no place for "{name}"')
            continue
        text = pattern.sub(lambda place: place.group(1) + '\n' + content + '\n\n' + place.group(2), text)
    for mode in ORDER:
        picture = roofline.picture(data, mode)
        if picture:
            name = 'roofline.svg' if mode == 'native' else f'roofline-{mode}.svg'
            with open(os.path.join(os.path.dirname(os.path.abspath(path)), name), 'w') as file:
                file.write(picture)
    with open(path + '.partial', 'w') as file:
        file.write(text)
    os.replace(path + '.partial', path)
