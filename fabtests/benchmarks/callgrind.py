# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Runs a program under valgrind's callgrind and reads what was counted: for instructions and verbs-instructions."""
import os
import re
import subprocess
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

# Endings that the compiler adds to the names of functions that it changes or divides.
COMPILERS = re.compile(r'\.(lto_priv|constprop|isra|part|cold)(\.\d+)*')

# Instructions of a function itself (callee: None), or of some calls that it makes, those of the callee's callees included.
# A name is the chain "function'its caller'..." as long as --separate-callers asks; "'2" is the level of a recursion.
Record = namedtuple('Record', 'function callee calls cost')


def read(path):
    """The records of a file. A name stands in it once, and later only the number that was given with it."""
    names = {}

    def name_of(text):
        number, _, name = text.partition(' ')
        if name:
            names[number] = COMPILERS.sub('', name)
        return names[number]

    function = callee = None
    calls = 0
    for line in path.read_text(errors='replace').splitlines():
        if line.startswith('fn='):
            function = name_of(line[3:])
        elif line.startswith('cfn='):
            callee = name_of(line[4:])
        elif line.startswith('calls='):
            calls = int(line[6:].split()[0])
        elif function and re.match(r'[+\-*\d]', line):
            yield Record(function, callee, calls, int(line.split()[1]))
            callee, calls = None, 0


def run(build, program, arguments, options, settings):
    """Yields the records of the program's first process. RuntimeError: its last words."""
    env = dict(os.environ, FI_PROVIDER_PATH=str(build / 'prov/tagrv/.libs'), **settings)
    with tempfile.TemporaryDirectory() as work:
        done = subprocess.run(['valgrind', '--tool=callgrind', f'--callgrind-out-file={work}/%p', *options,
                               str(build / 'fabtests/benchmarks' / program), *arguments],
                              env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600)
        if done.returncode:
            words = [line for line in done.stderr.splitlines() if not line.startswith('==')]
            raise RuntimeError('\n'.join(words[-5:]) or f'{program} ends with status {done.returncode}')
        yield from read(min(Path(work).iterdir(), key=lambda p: int(p.name)))


def main(doc, program, show, options=(), **settings):
    """
    What both scripts do with their arguments [--functions] BUILD [SIZE [MORE]], the last ones being the program's.
    show(records, functions) prints the table; options: of callgrind; settings: of the environment. Returns the exit status.
    """
    name = Path(sys.argv[0]).name
    arguments = [a for a in sys.argv[1:] if a != '--functions']
    if len(arguments) not in (1, 2, 3) or arguments[0].startswith('-'):
        print(doc.strip())
        return 0 if arguments in (['-h'], ['--help']) else 2
    build = Path(arguments[0]).resolve()
    try:
        show(run(build, program, arguments[1:] or ['8'], options, settings), '--functions' in sys.argv)
    except FileNotFoundError as err:
        print(f'{name}: {err.filename} is missing (apt-get install valgrind; make fabtests/benchmarks/{program})',
              file=sys.stderr)
        return 1
    except RuntimeError as err:
        print(f'{name}: {err}', file=sys.stderr)
        return 1
    return 0
