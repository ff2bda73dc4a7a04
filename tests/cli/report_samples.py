"""Made-up results of `gantry bench --profile --json`, with every part that a report shows."""
import json

TYPES = ['nn.conv', 'matmul', 'nn.max_pool', 'softmax']


def reading(at_ms):
    names = ('throttle_events', 'energy_joules', 'gpu_clock_mhz', 'gpu_temperature_celsius', 'gpu_power_watts', 'gpu_throttled')
    return dict({name: None for name in names}, at_ms=at_ms, clock_mhz=[2000 + at_ms % 7, 1990], temperature_celsius=50.5,
                throttled=at_ms > 90, power_watts=7.5, others_share=0.01, steal_share=0.0)


def process(median_ms):
    samples = [median_ms * (1 + (i * 7 % 11 - 5) / 500) for i in range(25)]
    return {'load_ms': 3.5, 'first_inference_ms': 2 * median_ms, 'warm_up': {'runs': 10, 'ms': 10 * median_ms, 'steady': True},
            'median_ms': sorted(samples)[12], 'runs_per_sample': 1, 'runs_per_second': None, 'peak_resident_bytes': 1 << 20,
            'samples_ms': samples, 'started_ms': [4.0 * i for i in range(25)], 'readings': [reading(20.0 * i) for i in range(6)],
            'pulses': [[4.0 * i - 1, 1.5 if i == 10 else 1.2] for i in range(26)], 'disturbed': 0.08, 'used_samples': 23}


def kernel(step, factor):
    ms = (step * 37 % 101 + 5) / 100 * factor
    flops, traffic = (0.0 if step % 10 == 3 else (step * 53 % 97 + 1) * 1e6), (step * 29 % 89 + 1) * 1e4
    return {'symbol': f'kernel_{step}', 'step': step, 'name': f'{TYPES[step % 4]}[direct]+add', 'op': TYPES[step % 4],
            'nodes': [f'/block/layer_{step} '], 'calls': 30, 'total_ms': ms, 'share': 0.0, 'flops': flops, 'bytes': traffic,
            'gflop_per_s': flops / ms / 1e6, 'gb_per_s': traffic / ms / 1e6}


def value(number, kind, size, **more):
    return dict({'id': number, 'name': f'value {number}', 'kind': kind, 'type': f'f32[{size // 4}]', 'bytes': size, 'offset': None,
                 'first_step': None, 'last_step': None, 'shows': None, 'memory': 'host'}, **more)


def program(kernels):
    """A chain with a shortcut every fifth step; values lie in three places in turns."""
    count = len(kernels)
    values = [value(0, 'input', 4096)]
    steps = []
    for step, timed in enumerate(sorted(kernels, key=lambda k: k['step'])):
        constant, result = 2 * step + 1, 2 * step + 2
        values.append(value(constant, 'constant', 8192))
        last = step == count - 1
        values.append(value(result, 'output', 4096) if last else
                      value(result, 'workspace', 4096 * (1 + step % 2), offset=8192 * (step % 3), first_step=step,
                            last_step=min(step + 1, count - 1)))
        reads = [0 if step == 0 else result - 2, constant] + ([result - 6] if step % 5 == 4 else [])
        steps.append({'step': step, 'symbol': timed['symbol'], 'name': timed['name'], 'op': timed['op'], 'nodes': timed['nodes'],
                      'reads': reads, 'writes': [result], 'decision': 'direct, block 32', 'predicted_ms': timed['total_ms'] * 0.8,
                      'flops': int(timed['flops']), 'bytes': int(timed['bytes']), 'graph': f'%{step + 1} = nn.conv(%{step}, @w)',
                      'loops': None, 'assembly': None})
    return {'target': 'x86-64-v3', 'values': values, 'workspace_bytes': 24576, 'workspace_bound_bytes': 16384,
            'gpu_workspace_bytes': None, 'gpu_workspace_bound_bytes': None, 'steps': steps}


def timeline(kernels, threads=2):
    steps, spans, now = [], [], 0.0
    for timed in sorted(kernels, key=lambda k: k['step']):
        end = now + 1000 * timed['total_ms']
        steps.append({'step': timed['step'], 'begin_us': now, 'end_us': end})
        spans += [[thread, timed['step'], now, end - thread] for thread in range(threads)]
        now = end + 1
    return {'run_ms': now / 1000, 'threads': [{'name': f'thread {i}', 'cpu': i} for i in range(threads)], 'steps': steps,
            'spans': spans}


PEAKS = {'gflop_per_s': 200.0, 'gb_per_s': 20.0, 'cache_gb_per_s': 100.0, 'threads': 2, 'how': 'made up',
         'others_share': 0.63, 'steal_share': None, 'disturbed_share': None,
         'busy': "other processes took 63 % of the machine's CPU time"}


def large(count, factor=1.0):
    """A result of so many kernels; times are `factor` times those of factor 1."""
    kernels = [kernel(step, factor) for step in range(count)]
    total = sum(k['total_ms'] for k in kernels)
    for timed in kernels:
        timed['share'] = timed['total_ms'] / total
    median = total * 0.98
    board = {'hostname': 'pi5', 'system': 'Linux', 'architecture': 'aarch64', 'cpu': 'Cortex-A76', 'llvm_cpu': 'cortex-a76',
             'features': ['neon'], 'logical_cpus': 4, 'physical_cores': 4, 'memory_bytes': 1 << 32, 'memory_available_bytes': None,
             'device_version': '0.1.0', 'name': 'pi', 'address': 'pi:7453'}
    machine = dict.fromkeys(('throttle_events', 'gpu_clock_mhz', 'gpu_temperature_celsius_max', 'gpu_power_watts', 'gpu_throttled'))
    machine.update(cpus=[0, 1], notes=['made up'], clock_mhz_mean=2000.0, clock_mhz_min=1990.0, clock_mhz_max=2006.0,
                   temperature_celsius_max=50.5, throttled=True, energy_joules=7.0, power_watts=7.5, others_share=0.01, steal_share=0.0,
                   disturbed_share=0.08, undisturbed_pulse=1.2)
    return {'schema': 'gantry-bench', 'schema_version': 2, 'gantry_version': '0.1.0', 'date': '2026-01-02T03:04:05Z',
            'command': ['gantry', 'profile', 'm.onnx', '--on', 'pi'], 'model': 'm.onnx', 'module_digest': '0' * 64, 'module_bytes': 1000,
            'opt_level': 3, 'optimize': 'speed', 'precision': 'fp32', 'target': 'x86-64-v3', 'device': 'cpu', 'threads': 2,
            'inputs': [{'name': 'x', 'dtype': 'f32', 'shape': [1, 1024], 'source': 'random, seed 0', 'chosen': []}],
            'options': {'duration_s': 20, 'precision_goal': 0.01, 'processes': None, 'warmup': None, 'repeat': None, 'number': None,
                        'min_repeat_ms': 0, 'cooldown_ms': 0, 'cold': False, 'profile': True, 'streams': None, 'seed': 0},
            'median_ms': median, 'interval_ms': [median * 0.99, median * 1.01], 'confidence': 0.95, 'reached_goal': True,
            'elapsed_s': 5.0, 'min_ms': median * 0.95, 'mean_ms': median, 'p90_ms': median * 1.02, 'p99_ms': None,
            'stddev_ms': median * 0.01, 'runs_per_second': 1000 / median, 'runs_per_second_interval': None, 'sample_count': 150,
            'load_ms': 3.5, 'first_inference_ms': 2 * median,
            'memory': {'workspace_bytes': 24576, 'weights_bytes': 8192 * count, 'io_bytes': 8192, 'peak_resident_bytes': 1 << 20,
                       'device_workspace_bytes': None, 'device_weights_bytes': None, 'device_io_bytes': None},
            'board': board, 'machine': machine, 'processes': [process(median * (1 + i / 1000)) for i in range(6)], 'warnings': [],
            'kernels': kernels, 'program': program(kernels), 'timeline': timeline(kernels), 'peaks': PEAKS}


def side(document, name):
    """What a comparison says of a side that was measured as the document has it."""
    return {'name': name, 'median_ms': document['median_ms'] * 1.001, 'processes': len(document['processes']),
            'samples': sum(p['used_samples'] for p in document['processes']), 'disturbed_share': 0.08, 'model': document['model'],
            'module_digest': document['module_digest'], 'board': 'pi5', 'target': document['target'], 'device': 'cpu',
            'precision': document['precision'], 'threads': document['threads']}


def comparison(factor=0.9):
    """A document of `gantry compare --json`: rounds in turns, the last of which does not count."""
    sides = [dict(large(10, times), kernels=None, program=None, timeline=None, peaks=None) for times in (1.0, factor)]
    count = len(sides[0]['processes'])
    played = [{'ratio': factor * (1 + (i * 7 % 5 - 2) / 400), 'counts': i + 1 < count,
               'began_ms': [500.0 * i + (50 if i % 2 else 0), 500.0 * i + (0 if i % 2 else 50)]} for i in range(count)]
    return {'schema': 'gantry-comparison', 'schema_version': 2, 'first': side(sides[0], 'old.gmod'), 'second': side(sides[1], 'new.gmod'),
            'ratio': factor, 'confidence': 0.95, 'interval': [factor * 0.995, factor * 1.004], 'smallest_effect': 0.01,
            'verdict': 'faster' if factor < 0.99 else 'not shown', 'interleaved': True, 'rounds': count, 'elapsed_s': 5.5,
            'widened': ['fewer than 5 processes a side'], 'warnings': ['the clock moved between 1990 and 2006 MHz meanwhile'],
            'history': None, 'failed': None, 'played': played, 'results': sides}


def with_everything(document):
    """A measured document with what it has not made up."""
    document = json.loads(json.dumps(document))
    kernels = document['kernels']
    for name, made_up in (('program', lambda: program(kernels)), ('timeline', lambda: timeline(kernels)), ('peaks', lambda: PEAKS)):
        if document.get(name) is None:
            document[name] = made_up()
    return document
