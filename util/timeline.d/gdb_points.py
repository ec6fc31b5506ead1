# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs inside gdb: a breakpoint at each trace point writes one line, in every process that the command starts.

Its orders are in the environment: TAGRV_TIMELINE_PLUGIN (a path), _POINTS (name:arguments ...) and _OUTPUT (a file).
"""
import os
import time

import gdb

SETTINGS = ('pagination off', 'confirm off', 'breakpoint pending on', 'detach-on-fork off', 'schedule-multiple on',
            'follow-fork-mode parent', 'print symbol-loading off', 'print inferior-events off', 'print thread-events off',
            'debuginfod enabled off', 'python print-stack message')
PLUGIN, ORDERS = os.environ['TAGRV_TIMELINE_PLUGIN'], os.environ['TAGRV_TIMELINE_POINTS']
OUTPUT = open(os.environ['TAGRV_TIMELINE_OUTPUT'], 'w', encoding='ascii')       # pylint: disable=consider-using-with
MASK = (1 << 64) - 1


class Point(gdb.Breakpoint):
    """Never stops the program: it writes what it sees."""

    def __init__(self, name, cnt):
        super().__init__(f'-probe-stap tagrv:{name}', internal=True)
        self.silent = True
        self.name, self.cnt = name, cnt

    def stop(self):
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        thread = gdb.selected_thread().ptid
        values = [int(gdb.parse_and_eval(f'$_probe_arg{i}')) & MASK for i in range(self.cnt)]
        OUTPUT.write(f'{now} {thread[0]} {thread[1]} {self.name} {" ".join(f"{v:x}" for v in values)}\n')
        return False


POINTS = {}


def on_objfile(event):
    """The plug-in is loaded: gdb sets the breakpoints in each process that has it."""
    if os.path.realpath(event.new_objfile.filename) != os.path.realpath(PLUGIN) or POINTS:
        return
    for point in ORDERS.split():
        name, cnt = point.split(':')
        POINTS[name] = Point(name, int(cnt))


def living():
    return [inferior for inferior in gdb.inferiors() if inferior.pid]


def run():
    for setting in SETTINGS:
        gdb.execute(f'set {setting}')
    gdb.execute('handle all nostop noprint pass', to_string=True)
    gdb.execute('handle SIGTRAP SIGINT stop', to_string=True)
    gdb.events.new_objfile.connect(on_objfile)
    for name in ('TAGRV_TIMELINE_PLUGIN', 'TAGRV_TIMELINE_POINTS', 'TAGRV_TIMELINE_OUTPUT', 'PYTHONDONTWRITEBYTECODE'):
        gdb.execute(f'unset environment {name}')
    gdb.execute('run')
    # gdb comes back whenever one of the processes has ended.
    while living():
        living()[0].threads()[0].switch()
        gdb.execute('continue')


try:
    run()
except gdb.error as error:
    print(f'timeline: gdb: {error}')
OUTPUT.close()
code = gdb.parse_and_eval('$_exitcode')
gdb.execute(f'quit {int(code) if code.type.code == gdb.TYPE_CODE_INT else 1}')
