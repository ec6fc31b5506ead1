# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The file that the provider reads: see FI_TAGRV_PROFILE in fi_tagrv(7), and src/select/profile.h."""
import os
import tempfile
from pathlib import Path

from tools import Failed

MAGIC = 'tagrv-profile 1'
HEADS = ('device', 'pair')
REMARK = '# measured by tagrv_tune; see PROTOCOLS in fi_tagrv(7)'


def default_path():
    """The path that the provider reads."""
    named = os.environ.get('FI_TAGRV_PROFILE', '')
    if named and named != 'none':
        return Path(named)
    folder = os.environ.get('XDG_CONFIG_HOME', '')
    return (Path(folder) if folder.startswith('/') else Path.home() / '.config') / 'tagrv/profile'


def kept_parts(path, replaced):
    """Lines of the sections of an existing profile that are not replaced, named by the words of their heads."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        lines = None
    if not lines or lines[0] != MAGIC:
        raise Failed(f'{path} exists and is not a profile: not overwritten')
    kept, keep = [], False
    for line in lines[1:]:
        words = line.split('#')[0].split()
        if words[:1] and words[0] in HEADS:
            keep = tuple(words) not in replaced
        if keep:
            kept.append(line)
    return kept


def require_folder(path):
    """Raises OSError if the file could not be replaced by a new one."""
    folder = path.resolve().parent
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=folder, prefix=path.name):
        pass


def section(key, values, doubt):
    """Lines of a section. doubt: names of values that are not to be trusted."""
    lines = [' '.join(key)]
    return lines + [f'{name} {value:.4g}' + (' # not to be trusted' if name in doubt else '')
                    for name, value in values.items()]


def text_of(sections, kept):
    """The whole file: sections are lists of lines."""
    return '\n'.join([MAGIC, REMARK] + kept + [line for lines in sections for line in lines]) + '\n'


def write(path, text, check=lambda _: None):
    """Replaces the file in one step, since a provider may be reading it; not if check() of the new one raises."""
    path = path.resolve()       # a symbolic link stays one
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(path.name + f'.new{os.getpid()}')
    try:
        new.write_text(text)
        check(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
