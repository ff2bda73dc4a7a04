"""A Slurm of a test's own, on loopback, in one folder: one node whose boards are generic resources, no accounting."""
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

PROGRAMS = ('slurmctld', 'slurmd', 'munged', 'sbatch', 'squeue', 'scontrol', 'sinfo', 'scancel')


def missing():
    """Why there can be none here; None where there can."""
    absent = [name for name in PROGRAMS if shutil.which(name, path=os.environ['PATH'] + ':/usr/sbin:/sbin') is None]
    if absent:
        return f'no {", ".join(absent)}: install slurm-wlm and munge'
    return None if os.geteuid() == 0 else 'slurmd needs root'


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(('127.0.0.1', 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class PrivateSlurm:
    def __init__(self, folder, boards):
        """`boards`: how many of each type."""
        self.folder = pathlib.Path(folder)
        for name in ('state', 'spool', 'log', 'munge'):
            (self.folder / name).mkdir(parents=True)
        (self.folder / 'munge').chmod(0o700)
        self.environment = dict(os.environ, SLURM_CONF=str(self.folder / 'slurm.conf'),
                                PATH=os.environ['PATH'] + ':/usr/sbin:/sbin')
        self.processes = {}
        self._configure(boards)
        self._start_munge()
        self.start_controller()
        self.start('slurmd', '-D')
        self._wait(lambda: self.output('sinfo', '-h', '-o', '%T').strip() in ('idle', 'mixed', 'allocated'))

    def _configure(self, boards):
        host = socket.gethostname().split('.')[0]
        control, node = free_ports(2)
        counts = ','.join(f'board:{kind}:{count}' for kind, count in boards.items())
        (self.folder / 'gres.conf').write_text(
            ''.join(f'Name=board Type={kind} Count={count}\n' for kind, count in boards.items()))
        (self.folder / 'slurm.conf').write_text(f'''ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmdPort={node}
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge/socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
SlurmctldLogFile={self.folder}/log/slurmctld
SlurmdLogFile={self.folder}/log/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=board
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdTimeout=10
KillWait=5
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=1,bf_window=1
NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} Gres={counts} State=UNKNOWN
PartitionName=boards Nodes=ALL Default=YES MaxTime=60 State=UP OverSubscribe=FORCE:16
''')

    def _start_munge(self):
        key = self.folder / 'munge' / 'key'
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        part = lambda name: str(self.folder / 'munge' / name)
        self.start('munged', '--foreground', '--force', f'--key-file={part("key")}', f'--socket={part("socket")}',
                   f'--pid-file={part("pid")}', f'--log-file={part("log")}', f'--seed-file={part("seed")}')
        self._wait(lambda: (self.folder / 'munge' / 'socket').exists())

    def start(self, name, *arguments):
        self.processes[name] = subprocess.Popen([name, *arguments], env=self.environment, stdin=subprocess.DEVNULL,
                                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def start_controller(self):
        self.start('slurmctld', '-D')
        self._wait(lambda: subprocess.run(['sinfo', '-h'], env=self.environment, capture_output=True, check=False,
                                          timeout=60).returncode == 0)

    def kill_controller(self):
        self.processes['slurmctld'].send_signal(signal.SIGKILL)
        self.processes.pop('slurmctld').wait()

    def output(self, *command):
        return subprocess.run(command, env=self.environment, text=True, capture_output=True, check=False, timeout=60).stdout

    def _wait(self, condition):
        deadline = time.monotonic() + 60
        while not condition():
            if time.monotonic() > deadline:
                logs = ''.join(path.read_text(errors='replace')[-2000:] for path in (self.folder / 'log').iterdir())
                raise AssertionError(f'Slurm does not start:\n{logs}')
            time.sleep(0.2)

    def stop(self):
        self.output('scancel', '--user', 'root')
        time.sleep(1)
        for name in ('slurmd', 'slurmctld', 'munged'):
            process = self.processes.get(name)
            if process is None or process.poll() is not None:
                continue
            process.terminate()
            try:
                process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
