"""What a second thread gains, beside what the machine gives to a second process.

A virtual machine's second core may come with a share of the first one's clock, caches and bandwidth, or be taken away for
a while. Each round therefore times, one after the other: one thread on each of two cores; two threads; two processes of
one thread each at the same time, a core each. What two threads gain is the mean of the two cores' times over theirs, what
two processes gain the sum of each core's time alone over its time in company: they share out nothing and wait for nobody.
Processes map the same module file, though, so that one may find in the shared cache what the other has just read from
memory; where weights come from memory two threads, each of which reads another half, cannot gain as much.
"""
import glob
import json
import os
import statistics
import subprocess


def siblings(cpu):
    """The hardware threads of the core that `cpu` belongs to, as Linux writes them."""
    for path in glob.glob(f'/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list'):
        with open(path) as file:
            return file.read().strip()
    return str(cpu)


def two_cores():
    """Two CPUs that are not one core's; None where there are none."""
    of_core = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        of_core.setdefault(siblings(cpu), cpu)
    return list(of_core.values())[:2] if len(of_core) >= 2 else None


def start(command, threads, cpus):
    """`command` times a module and prints JSON; returns a function that waits for the median in ms, None if it failed."""
    pinned = [*command, '--threads', str(threads), '--cpus', ','.join(str(cpu) for cpu in cpus), '--json']
    process = subprocess.Popen(pinned, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def median_ms():
        out, _ = process.communicate()
        return json.loads(out)['median_ms'] if process.returncode == 0 else None

    return median_ms


def one_round(command, cpus):
    """The four times of a round in ms: alone on each core, of two threads, and of each core in company."""
    alone = [start(command, 1, [cpu])() for cpu in cpus]
    threads = start(command, 2, cpus)()
    both = [start(command, 1, [cpu]) for cpu in cpus]
    return {'alone': alone, 'threads': threads, 'together': [median_ms() for median_ms in both]}


def measure(command, rounds):
    """The rounds; empty where there is one core only. A round in which a run failed is left out."""
    cpus = two_cores()
    if cpus is None:
        return []
    measured = [one_round(command, cpus) for _ in range(rounds)]
    return [r for r in measured if None not in [*r['alone'], r['threads'], *r['together']]]


def gains(measured):
    """Medians of what two threads and two processes gain: (threads, processes)."""
    threads = [statistics.mean(r['alone']) / r['threads'] for r in measured]
    processes = [sum(alone / together for alone, together in zip(r['alone'], r['together'])) for r in measured]
    return statistics.median(threads), statistics.median(processes)
