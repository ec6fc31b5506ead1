# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Records the trace points of the processes that use the plug-in, by bpftrace or by gdb."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import events

PLUGIN = 'libtagrv-fi.so'
ATTACH_SECONDS = 300
FLUSH_SECONDS = 0.5             # bpftrace empties its buffers several times in that
BUFFER_PAGES = '1024'           # per processor


class Failed(Exception):
    """Something that ends the program, with the line to print."""


class NotStarted(Failed):
    """The tool does not start; another one may."""


def find_plugin(named):
    """The plug-in that libfabric would load: its own path."""
    places = [Path(named)] if named else [Path(p) / PLUGIN for p in os.environ.get('FI_PROVIDER_PATH', '').split(':') if p]
    if not places:
        try:
            libdir = subprocess.run(['pkg-config', '--variable=libdir', 'libfabric'], capture_output=True, text=True,
                                    check=True).stdout.strip()
            places = [Path(libdir) / 'libfabric' / PLUGIN]
        except (OSError, subprocess.CalledProcessError):
            pass
    for place in places:
        if place.is_file():
            return place.resolve()
    raise Failed('the plug-in is not found: name it with --plugin, or its folder in FI_PROVIDER_PATH')


def points_of(plugin):
    """Point -> number of arguments, by the notes of the plug-in."""
    try:
        notes = subprocess.run(['readelf', '-n', '-W', str(plugin)], capture_output=True, text=True, check=True,
                               env=dict(os.environ, LC_ALL='C')).stdout
    except FileNotFoundError as err:
        raise Failed('readelf is missing (apt-get install binutils)') from err
    except subprocess.CalledProcessError as err:
        raise Failed(f'{plugin} cannot be read: {err.stderr.strip()}') from err
    found = re.findall(r'Provider: tagrv\s+Name: (\w+)\s+Location:.*?\s+Arguments: ?(.*)', notes)
    points = {name: len(arguments.split()) for name, arguments in found}
    if not points:
        raise Failed(f'{plugin} has no trace points: install systemtap-sdt-dev, run configure again, and build')
    for name, cnt in points.items():
        if len(events.POINTS.get(name, ())) != cnt:
            raise Failed(f'{plugin} is of another release: its point {name} has {cnt} arguments')
    return points


def choose(tool, has_command):
    """bpftrace or gdb."""
    root = os.geteuid() == 0
    if tool == 'bpftrace' and not root:
        raise Failed('bpftrace needs root (sudo util/timeline ...)')
    if tool != 'gdb' and root and shutil.which('bpftrace'):
        return 'bpftrace'
    if tool == 'bpftrace':
        raise Failed('bpftrace is missing (apt-get install bpftrace)')
    if not has_command:
        raise Failed('--seconds needs bpftrace, and root: gdb only follows a command that it starts')
    if not shutil.which('gdb'):
        raise Failed('neither bpftrace, for root, nor gdb is there (apt-get install bpftrace gdb)')
    return 'gdb'


def script_of(plugin, points):
    """What bpftrace runs. Probes are set in the file, so that every process that uses it is seen."""
    lines = ['BEGIN { printf("ready\\n"); }']
    for name, cnt in points.items():
        values = ', '.join(f'(uint64)arg{i}' for i in range(cnt))
        text = '%llu %d %d ' + name + ' %llx' * cnt + '\\n'
        lines.append(f'usdt:{plugin}:tagrv:{name} {{ printf("{text}", nsecs, pid, tid, {values}); }}')
    return '\n'.join(lines)


class Bpftrace:
    """A running bpftrace; its output and messages are files in a folder of ours."""

    def __init__(self, plugin, points, folder):
        self.output, self.messages = folder / 'output', folder / 'messages'
        env = dict(os.environ, BPFTRACE_PERF_RB_PAGES=BUFFER_PAGES)
        with self.output.open('w', encoding='ascii') as output, self.messages.open('w', encoding='ascii') as messages:
            self.process = subprocess.Popen(['bpftrace', '-B', 'none', '-e', script_of(plugin, points)], env=env,
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=messages,
                                            start_new_session=True)
        try:
            self.wait_ready()
        except BaseException:
            self.stop()
            raise
        self.begun = time.monotonic_ns()

    def wait_ready(self):
        end = time.monotonic() + ATTACH_SECONDS
        while 'ready\n' not in self.output.read_text(errors='replace'):
            if self.process.poll() is not None or time.monotonic() > end:
                said = self.messages.read_text(errors='replace').strip().splitlines()
                raise NotStarted('bpftrace does not start: ' + (said[-1] if said else 'it says nothing'))
            time.sleep(0.05)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait()

    def events(self):
        """What was recorded; warns where events were lost. Points are attached and detached one by one: only while all
        are, the trace is whole."""
        ended = time.monotonic_ns()
        time.sleep(FLUSH_SECONDS)
        self.stop()
        said = self.output.read_text(errors='replace') + self.messages.read_text(errors='replace')
        lost = sum(map(int, re.findall(r'^Lost (\d+) events$', said, re.M)))
        if lost:
            print(f'timeline: {lost} events were lost: the trace has gaps; trace fewer messages', file=sys.stderr)
        found = filter(None, map(events.parse, said.splitlines()))
        return [event for event in found if self.begun <= event.time <= ended]


def by_bpftrace(plugin, points, command, seconds, folder):
    print('timeline: bpftrace attaches to the points', file=sys.stderr)
    tracer = Bpftrace(plugin, points, folder)
    status = 0
    try:
        if command:
            status = subprocess.run(command, check=False).returncode
        else:
            time.sleep(seconds)
    except FileNotFoundError as err:
        raise Failed(f'{command[0]}: {err.strerror}') from err
    except KeyboardInterrupt:
        status = 130
    finally:
        found = tracer.events()
    return found, status


def by_gdb(plugin, points, command, folder):
    output = folder / 'output'
    script = Path(__file__).resolve().parent / 'gdb_points.py'
    env = dict(os.environ, TAGRV_TIMELINE_PLUGIN=str(plugin), TAGRV_TIMELINE_OUTPUT=str(output),
               TAGRV_TIMELINE_POINTS=' '.join(f'{name}:{cnt}' for name, cnt in points.items()),
               PYTHONDONTWRITEBYTECODE='1')
    if not shutil.which(command[0]):
        raise Failed(f'{command[0]}: not found')
    done = subprocess.run(['gdb', '-q', '-nx', '-batch', '-x', str(script), '--args', *command], env=env, check=False)
    if not output.exists():
        raise Failed('gdb does not start the command')
    return filter(None, map(events.parse, output.read_text(errors='replace').splitlines())), done.returncode


def by_tool(tool, plugin, points, command, seconds):
    with tempfile.TemporaryDirectory(prefix='timeline') as folder:
        if tool == 'bpftrace':
            return by_bpftrace(plugin, points, command, seconds, Path(folder))
        return by_gdb(plugin, points, command, Path(folder))


def record(path, plugin_name, tool, command, seconds):
    """Writes a trace. Returns the exit status of the command."""
    plugin = find_plugin(plugin_name)
    points = points_of(plugin)
    with open(path, 'a', encoding='ascii'):
        pass            # better now than when all is done
    chosen = choose(tool, bool(command))
    try:
        found, status = by_tool(chosen, plugin, points, command, seconds)
    except NotStarted as err:
        if tool or not command or not shutil.which('gdb'):
            raise
        print(f'timeline: {err}: gdb is used', file=sys.stderr)
        chosen = 'gdb'
        found, status = by_tool(chosen, plugin, points, command, seconds)
    found = events.sort(found)
    events.write(path, found, f'recorded by {chosen}')
    print(f'timeline: {len(found)} events of {len({e.pid for e in found})} processes in {path}', file=sys.stderr)
    if not found:
        print(f'timeline: no process used {plugin}', file=sys.stderr)
    return status if status >= 0 else 128 - status
