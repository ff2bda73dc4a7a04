#!/usr/bin/env python3
"""Holds the traces of `gantry trace` and of --trace against what they were made from.

usage: trace_test.py GANTRY GANTRY_DEVICE TOOLS

Perfetto's files are decoded here, field by field, by the numbers of its public schema; where the Python package
`perfetto` can be imported, its own classes must read the same. TOOLS is a virtual environment with that package
(toolchains/install-python-tools), in whose Python all of this runs where it is there.
"""
import json
import os
import pathlib
import struct
import sys
import unittest

from program_under_test import ProgramTest, board

GANTRY, DEVICE = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
SLICE_BEGIN, SLICE_END, COUNTER = 1, 2, 4


def fields(data):
    """(number, value) of a message: integers, bytes, and doubles of 64-bit fields."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = varint()
        kind = tag & 7
        if kind == 0:
            yield tag >> 3, varint()
        elif kind == 1:
            yield tag >> 3, struct.unpack('<d', data[at:at + 8])[0]
            at += 8
        elif kind == 2:
            length = varint()
            assert at + length <= len(data), 'a field is longer than its message'
            yield tag >> 3, data[at:at + length]
            at += length
        else:
            raise AssertionError(f'wire type {kind}')


def first(message, number, default=None):
    return next((value for field, value in fields(message) if field == number), default)


class Track:
    def __init__(self, process, name):
        self.process, self.name = process, name
        self.slices = []    # (name, begin ns, end ns, depth, arguments), as they end
        self.values = []    # (ns, value)
        self.open = []


def read_perfetto(data):
    """Its tracks by (process, name). Fails where a slice ends that never began, or time goes backwards."""
    processes, tracks = {}, {}
    for number, packet in fields(data):
        assert number == 1
        descriptor, event = first(packet, 60), first(packet, 11)
        if descriptor is not None:
            uuid = first(descriptor, 1)
            if first(descriptor, 3) is not None:
                processes[uuid] = first(first(descriptor, 3), 6).decode()
            else:
                thread = first(descriptor, 4)
                name = first(descriptor, 2) if thread is None else first(thread, 5)
                tracks[uuid] = Track(processes[first(descriptor, 5)], name.decode())
            continue
        track, at = tracks[first(event, 11)], first(packet, 8, 0)
        kind = first(event, 9)
        if kind == COUNTER:
            track.values.append((at, first(event, 44)))
        elif kind == SLICE_BEGIN:
            assert not track.open or track.open[-1][1] <= at
            arguments = {}
            for field, annotation in fields(event):
                if field == 4:
                    text = first(annotation, 6)
                    arguments[first(annotation, 10).decode()] = first(annotation, 5) if text is None else text.decode()
            track.open.append((first(event, 23).decode(), at, arguments))
        else:
            assert kind == SLICE_END
            name, begin, arguments = track.open.pop()
            assert begin <= at
            track.slices.append((name, begin, at, len(track.open), arguments))
    for track in tracks.values():
        assert not track.open, f'{track.name}: a slice never ends'
    return {(track.process, track.name): track for track in tracks.values()}


def tracks_of(tracks, word):
    """Those of the process whose name begins so, by their names."""
    return {name: track for (process, name), track in tracks.items() if process.startswith(word)}


class Traces(ProgramTest):
    GANTRY = GANTRY

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gantry('zoo', 'squeezenet1_1', '--size', '64', '-o', 'm.onnx')
        cls.gantry('compile', 'm.onnx')
        cls.gantry('profile', 'm.gmod', '--threads', '2', '--processes', '2', '--repeat', '5', '--json', 'r.json')
        cls.result = json.loads((cls.folder / 'r.json').read_text(encoding='utf-8'))

    def perfetto(self, name):
        return read_perfetto((self.folder / name).read_bytes())

    def chrome(self, name):
        document = json.loads((self.folder / name).read_text(encoding='utf-8'))
        for event in document['traceEvents']:
            self.assertIn(event['ph'], ('X', 'C', 'M'))
            for key in ('name', 'pid', 'tid'):
                self.assertIn(key, event)
            if event['ph'] != 'M':
                self.assertGreaterEqual(event['ts'], 0)
            if event['ph'] == 'X':
                self.assertGreaterEqual(event['dur'], 0)
        return document['traceEvents']

    def hold_kernels(self, tracks, result):
        """The slices of steps and threads are the timeline's, named as the kernels."""
        timeline = result['timeline']
        kernels = {kernel['step']: kernel for kernel in result['kernels']}
        names = [kernels[step['step']]['symbol'] or kernels[step['step']]['name'] for step in timeline['steps']]
        steps = tracks['steps'].slices
        self.assertEqual([slice_[0] for slice_ in steps], names)
        whole = sum(step['end_us'] - step['begin_us'] for step in timeline['steps'])
        self.assertAlmostEqual(sum(end - begin for _, begin, end, _, _ in steps) / 1e3, whole, delta=0.001 * len(steps))
        for (_, begin, end, depth, arguments), step in zip(steps, timeline['steps']):
            kernel = kernels[step['step']]
            self.assertEqual(depth, 0)
            self.assertEqual(arguments['step'], step['step'])
            self.assertEqual(arguments['ops'], kernel['name'])
            self.assertEqual(arguments['ONNX nodes'], ', '.join(kernel['nodes']))
            self.assertEqual((arguments['flops'], arguments['bytes']), (kernel['flops'], kernel['bytes']))
            self.assertAlmostEqual(arguments['GFLOP/s'], kernel['flops'] / (step['end_us'] - step['begin_us']) / 1e3,
                                   delta=1e-6 * arguments['GFLOP/s'] + 1e-9)
        for index, thread in enumerate(timeline['threads']):
            track, = (track for name, track in tracks.items() if name.split(' (')[0] == thread['name'])
            spans = [span for span in timeline['spans'] if span[0] == index]
            self.assertEqual([slice_[0] for slice_ in track.slices], [names[span[1]] for span in spans])
            self.assertAlmostEqual(sum(slice_[2] - slice_[1] for slice_ in track.slices) / 1e3,
                                   sum(span[3] - span[2] for span in spans), delta=0.001 * len(spans) + 0.001)

    def hold_samples(self, tracks, result):
        for index, process in enumerate(result['processes']):
            slices = [slice_ for slice_ in tracks[f'process {index + 1}'].slices if slice_[0] == 'sample']
            self.assertEqual(len(slices), len(process['samples_ms']))
            self.assertEqual([slice_[4]['run_ms'] for slice_ in slices], process['samples_ms'])
        shown = [reading['others_share'] for process in result['processes'] for reading in process['readings']
                 if reading['others_share'] is not None]
        counter = tracks.get('CPU time of other processes')
        self.assertEqual([round(value, 6) for _, value in counter.values] if counter else [],
                         [round(100 * share, 6) for share in shown])

    def test_of_a_result_shows_its_timeline_and_samples(self):
        self.gantry('trace', 'r.json')
        tracks = self.perfetto('r.pftrace')
        self.hold_kernels(tracks_of(tracks, 'kernels of m.gmod'), self.result)
        self.hold_samples(tracks_of(tracks, 'samples of m.gmod'), self.result)

    def test_perfettos_own_classes_read_the_same(self):
        try:
            from perfetto.protos.perfetto.trace import perfetto_trace_pb2
        except ImportError:
            self.skipTest("PyPI's package perfetto is not in build-python-test-tools, where ./check puts it")
        self.gantry('trace', 'r.json', '-o', 'own.perfetto-trace')
        data = (self.folder / 'own.perfetto-trace').read_bytes()
        trace = perfetto_trace_pb2.Trace.FromString(data)
        begun = sum(packet.track_event.type == perfetto_trace_pb2.TrackEvent.TYPE_SLICE_BEGIN for packet in trace.packet)
        self.assertEqual(begun, sum(len(track.slices) for track in read_perfetto(data).values()))
        names = {packet.track_event.name for packet in trace.packet if packet.track_event.HasField('name')}
        self.assertLessEqual({kernel['symbol'] for kernel in self.result['kernels'] if kernel['symbol']}, names)
        notes = {note.name for packet in trace.packet for note in packet.track_event.debug_annotations}
        self.assertLessEqual({'step', 'ops', 'ONNX nodes', 'flops', 'bytes', 'GFLOP/s'}, notes)
        # All fields are those that Perfetto knows.
        self.assertEqual(len(trace.SerializeToString()), len(data))
        for packet in trace.packet:
            self.assertTrue(packet.HasField('track_event') or packet.HasField('track_descriptor'))

    def test_as_chromes_events_has_the_same_slices(self):
        self.gantry('trace', 'r.json', '--format', 'chrome')
        events = self.chrome('r.trace.json')
        processes = {event['pid']: event['args']['name'] for event in events if event['name'] == 'process_name'}
        threads = {event['tid']: event['args']['name'] for event in events if event['name'] == 'thread_name'}
        steps = [event for event in events if event['ph'] == 'X' and threads[event['tid']] == 'steps'
                 and processes[event['pid']].startswith('kernels')]
        whole = sum(step['end_us'] - step['begin_us'] for step in self.result['timeline']['steps'])
        self.assertAlmostEqual(sum(event['dur'] for event in steps), whole, delta=0.001 * len(steps))
        self.assertEqual({event['args']['step'] for event in steps}, set(range(len(steps))))

    def test_only_shows_a_part(self):
        self.gantry('trace', 'r.json', '--only', 'kernels', '-o', 'kernels.pftrace')
        self.assertEqual({process.split()[0] for process, _ in self.perfetto('kernels.pftrace')}, {'kernels'})
        self.gantry('trace', 'r.json', '--only', 'samples', '-o', 'samples.pftrace')
        self.assertEqual({process.split()[0] for process, _ in self.perfetto('samples.pftrace')}, {'samples'})

    def test_results_of_older_boards_show_kernels_one_after_another(self):
        old = dict(self.result, timeline=None)
        (self.folder / 'old.json').write_text(json.dumps(old), encoding='utf-8')
        said = self.gantry('trace', 'old.json').stderr
        self.assertIn('one after another', said)
        track, = tracks_of(self.perfetto('old.pftrace'), 'kernels').values()
        self.assertAlmostEqual(sum(end - begin for _, begin, end, _, _ in track.slices) / 1e6,
                               sum(kernel['total_ms'] for kernel in old['kernels']), delta=1e-6 * len(track.slices))

    def test_results_that_make_no_sense_are_refused(self):
        def refused(change, why):
            document = json.loads(json.dumps(self.result))
            change(document)
            (self.folder / 'bad.json').write_text(json.dumps(document), encoding='utf-8')
            said = self.gantry('trace', 'bad.json', '-o', 'bad.pftrace', status=1).stderr
            self.assertIn('bad.json', said)
            self.assertIn(why, said)
            self.assertFalse((self.folder / 'bad.pftrace').exists())

        refused(lambda d: d['timeline']['spans'].__setitem__(0, [9, 0, 0, 1]), 'span')
        refused(lambda d: d['timeline']['spans'].__setitem__(0, [0, 10 ** 6, 0, 1]), 'span')
        refused(lambda d: d['timeline']['spans'].__setitem__(0, [0, 0]), 'span')
        refused(lambda d: d['timeline']['steps'].reverse(), 'order')
        refused(lambda d: d['timeline'].__setitem__('run_ms', -1), 'no time')
        refused(lambda d: d['timeline'].__setitem__('threads', 3), 'threads')
        refused(lambda d: d['kernels'][0].__setitem__('total_ms', 'long'), 'total_ms')
        refused(lambda d: d['processes'][0]['samples_ms'].__setitem__(0, -1), 'samples_ms')
        refused(lambda d: d.__setitem__('schema', 'another'), "kind 'another'")

    def test_a_module_is_profiled_first(self):
        self.gantry('trace', 'm.gmod', '--threads', '1', '--processes', '1', '--repeat', '3', '-o', 'm.pftrace')
        tracks = self.perfetto('m.pftrace')
        self.assertEqual({name for name in tracks_of(tracks, 'kernels')} - {'steps'},
                         {name for name in tracks_of(tracks, 'kernels') if name.startswith('thread 0')})
        self.assertTrue(tracks_of(tracks, 'kernels')['steps'].slices)
        self.assertIn('leave out', self.gantry('trace', 'r.json', '--threads', '1', '-o', 'x.pftrace', status=1).stderr)

    def test_of_a_compilation_shows_every_pass_and_kernel(self):
        self.gantry('compile', 'm.onnx', '--no-cache', '-o', 'c.gmod', '--trace', 'c.pftrace')
        tracks = tracks_of(self.perfetto('c.pftrace'), 'gantry compile')
        main = tracks['main'].slices
        names = [slice_[0] for slice_ in main]
        for name in ('import', 'fuse_ops', 'alter_layout', 'link', 'write the module'):
            self.assertIn(name, names)
        whole, = (slice_ for slice_ in main if slice_[0].startswith('compile for '))
        for name, begin, end, _, _ in main:
            if name in ('fuse_ops', 'alter_layout', 'link'):
                self.assertLessEqual(whole[1], begin)
                self.assertLessEqual(end, whole[2])
        kernels = {kernel['symbol'] for kernel in self.result['kernels'] if kernel['symbol']}
        everywhere = [slice_[0] for track in tracks.values() for slice_ in track.slices]
        for kernel in kernels:
            # Its lowering and its code.
            self.assertGreaterEqual(everywhere.count(kernel), 2, kernel)

    def test_of_a_bench_shows_what_gantry_did_the_samples_and_the_kernels(self):
        self.gantry('bench', 'm.gmod', '--profile', '--threads', '2', '--processes', '2', '--repeat', '4', '--json', 'b.json',
                    '--trace', 'b.pftrace')
        result = json.loads((self.folder / 'b.json').read_text(encoding='utf-8'))
        tracks = self.perfetto('b.pftrace')
        self.hold_kernels(tracks_of(tracks, 'kernels of m.gmod'), result)
        self.hold_samples(tracks_of(tracks, 'samples of m.gmod'), result)
        names = [slice_[0] for slice_ in tracks_of(tracks, 'gantry bench')['main'].slices]
        for name in ('connect', 'load', 'process 1', 'process 2', 'start another process', 'time the kernels'):
            self.assertIn(name, names)
        # Samples lie within the time in which gantry waited for them.
        waited = [slice_ for slice_ in tracks_of(tracks, 'gantry bench')['main'].slices if slice_[0] == 'samples']
        for index, (_, begin, end, _, _) in enumerate(waited):
            for slice_ in tracks_of(tracks, 'samples')[f'process {index + 1}'].slices:
                if slice_[0] == 'sample':
                    self.assertLessEqual(begin, slice_[1])
                    self.assertLessEqual(slice_[2], end)

    def test_of_a_profile_is_named_after_it(self):
        self.gantry('profile', 'm.gmod', '--threads', '1', '--processes', '1', '--repeat', '3', '--trace', 'p.pftrace')
        tracks = self.perfetto('p.pftrace')
        names = [slice_[0] for slice_ in tracks_of(tracks, 'gantry profile')['main'].slices]
        self.assertIn('time the kernels', names)

    def test_of_a_run_on_a_board_shows_the_upload_and_the_kernels(self):
        with board([DEVICE], self.folder) as address:
            self.gantry('run', 'm.gmod', '--random', '--on', address, '--trace', 'run.json')
            self.gantry('run', 'm.gmod', '--random', '--on', address, '--trace', 'second.pftrace')
        slices = [event for event in self.chrome('run.json') if event['ph'] == 'X']
        upload, = (event for event in slices if event['name'] == 'upload segments')
        self.assertGreater(upload['args']['bytes'], 1000)
        self.assertLessEqual(upload['args']['bytes'], (self.folder / 'm.gmod').stat().st_size)
        names = {event['name'] for event in slices}
        self.assertLessEqual({'connect', 'load', 'run'}, names)
        self.assertLessEqual({kernel['symbol'] for kernel in self.result['kernels'] if kernel['symbol']}, names)
        second = [slice_[0] for slice_ in tracks_of(self.perfetto('second.pftrace'), 'gantry run')['main'].slices]
        self.assertNotIn('upload segments', second, 'the board holds them already')

    def test_outputs_are_safe(self):
        before = (self.folder / 'r.json').read_bytes()
        self.gantry('trace', 'r.json', '-o', 'r.json', status=1)
        self.gantry('bench', 'm.gmod', '--trace', 'm.onnx', status=1)
        self.assertIn('.pftrace', self.gantry('bench', 'm.gmod', '--trace', 'm.txt', status=1).stderr)
        self.assertIn('--format', self.gantry('trace', 'r.json', '--format', 'text', status=1).stderr)
        self.gantry('trace', 'r.json', '-o', 'no/such/folder.pftrace', status=1)
        self.assertEqual((self.folder / 'r.json').read_bytes(), before)
        for name in ('again.json', 'again.pftrace'):
            self.gantry('trace', 'r.json', '-o', name)
            self.gantry('trace', 'r.json', '-o', name)   # a trace replaces a trace
        (self.folder / 'text.pftrace').write_text('\nnot a trace\n', encoding='utf-8')
        self.gantry('trace', 'r.json', '-o', 'text.pftrace', status=1)
        self.gantry('trace', 'r.json', '-o', 'text.pftrace', '--force')


if __name__ == '__main__':
    TOOLS = os.path.realpath(sys.argv[3])
    if os.path.exists(f'{TOOLS}/complete') and os.path.realpath(sys.prefix) != TOOLS:
        os.execv(f'{TOOLS}/bin/python3', [f'{TOOLS}/bin/python3', *sys.argv])
    unittest.main(argv=sys.argv[:1])
