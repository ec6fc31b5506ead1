# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""tagrv_perf and tagrv_info: where they are, how they are run, and what they print."""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

EAGER_MOST = 65536              # the largest value of FI_TAGRV_EAGER_MAX
# What would change which protocol is measured, or hide warnings. A profile would change what is compared with it.
CLEARED = ('FI_TAGRV_PROTO', 'FI_TAGRV_RNDV', 'FI_TAGRV_RNDV_THRESH', 'FI_TAGRV_RNDV_THRESH_FALLBACK', 'FI_PROVIDER',
           'FI_LOG_PROV', 'FI_LOG_SUBSYS')
FOLDERS = {'tagrv_perf': 'util/perf', 'tagrv_info': 'util'}     # below the folder of a build
TIMEOUT = 300                   # seconds


class Failed(Exception):
    """Something that ends the program, or the measurement of a device, with the line to print."""


def find(name, build):
    """The path of a program: of a build, beside this program, or in PATH."""
    if build:
        found = build / FOLDERS[name] / name
    else:
        found = Path(sys.argv[0]).parent / name
    path = str(found.resolve()) if found.exists() else None if build else shutil.which(name)
    if not path:
        raise Failed(f'{name} is not found (--build names the folder where tagrv was built)')
    return path


class Tools:
    """Both programs, with their paths and environment."""

    def __init__(self, build):
        self.env = dict(os.environ, FI_TAGRV_PROFILE='none', LC_ALL='C')
        for name in CLEARED:
            self.env.pop(name, None)
        if build:
            self.env['FI_PROVIDER_PATH'] = str((build / 'prov/tagrv/.libs').resolve())
        self.paths = {name: find(name, build) for name in FOLDERS}

    def complete(self, name, *options, **env):
        """The program that has ended."""
        try:
            done = subprocess.run([self.paths[name], *options], env=dict(self.env, **env), timeout=TIMEOUT,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        except subprocess.TimeoutExpired as err:
            raise Failed(f'{name} {" ".join(options)} does not end') from err
        if done.returncode:
            raise Failed(f'{name} {" ".join(options)}: {done.stderr.strip() or done.returncode}')
        return done

    def read(self, name, *options, **env):
        """What a program that prints JSON has printed."""
        out = self.complete(name, *options, **env).stdout
        try:
            return json.loads(out)
        except json.JSONDecodeError as err:
            raise Failed(f'{name} {" ".join(options)} printed no JSON: {out[:80]!r}') from err

    def tables(self, **env):
        """The tables of protocols: of all devices, then of each pair that a profile has."""
        return [table for table in self.read('tagrv_info', '--protocols', '--json', **env)['protocols']
                if 'ranges' in table]

    def refusal(self, path):
        """Why the provider does not use a profile; None: it does."""
        done = self.complete('tagrv_info', '--protocols', FI_TAGRV_PROFILE=str(path), FI_LOG_LEVEL='warn')
        found = re.search(r'the profile .* is not used: (.*)', done.stderr)
        return found and found.group(1)

    def models(self, **env):
        """Device -> the model that its peers know it by; None: they know none."""
        return {device['name']: device.get('model') for device in self.read('tagrv_info', '--json', **env)['devices']}

    def able(self, protocol, **env):
        """Devices over which this protocol is possible."""
        return {table['device'] for table in self.tables(FI_TAGRV_PROTO=f'{protocol}:0-', **env)
                if any(r['protocol'] == protocol and r['reason'] == 'by FI_TAGRV_PROTO' for r in table['ranges'])}

    def perf(self, device, test, sizes, seconds, **env):
        """Rows of tagrv_perf. Both processes are on this host."""
        if device.transport in ('shm', 'verbs'):
            env['FI_TAGRV_TRANSPORTS'] = device.transport
        pin = ['--pin'] if len(os.sched_getaffinity(0)) > 1 else []
        sized = ['-s', ','.join(map(str, sizes))] if sizes else []
        return self.read('tagrv_perf', '-q', '--json', '-p', 'tagrv', *pin, '-d', f'{device.name},{device.peer}',
                         '-t', test, *sized, '-r', '3', '-T', str(seconds), **env)['results']
