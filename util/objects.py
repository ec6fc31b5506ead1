# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Reads from the object files of a build which function of which source file refers to which symbol.

A reference is a relocation in code or data: a call, or an address that is taken, as in a table of functions. The ELF
files are read directly: nm shows symbols without the function that uses them, and for objects with LTO it depends on
a plug-in of the compiler. Objects that hold nothing but LTO's intermediate code are refused.
"""
import struct
from bisect import bisect_right
from collections import defaultdict, namedtuple
from pathlib import Path

from layers import SRC

# Function or table 'function' of source file 'source' refers to 'symbol', which 'target' defines. Files are relative
# to prov/tagrv/src.
Call = namedtuple('Call', 'source function symbol target')
Symbol = namedtuple('Symbol', 'name type bind section value')

SHT_SYMTAB, SHT_RELA = 2, 4
SHF_ALLOC = 2
STT_OBJECT, STT_FUNC, STT_SECTION = 1, 2, 3
STB_LOCAL = 0
SHN_UNDEF, SHN_LORESERVE = 0, 0xff00
# x86-64's references relative to the next instruction: the addend is 4 bytes short of the symbol.
X86_64, PC_RELATIVE = 62, {2, 4}


class ObjectError(Exception):
    """An object file is missing, old or of a kind that cannot be read."""


class Object:
    """One ELF object file: the symbols it defines, and (function, symbol) of its references.

    'globals' are the names that other files can use, 'names' all functions and variables. 'references' tell of those
    to local symbols too, as far as the compiler left a relocation (it does with -ffunction-sections)."""

    def __init__(self, path):
        self.data = path.read_bytes()
        if self.data[:6] != b'\x7fELF\x02\x01':
            raise ObjectError(f'{path} is no 64-bit little-endian ELF file (clang -flto, perhaps)')
        self.machine = struct.unpack_from('<H', self.data, 18)[0]
        self.sections = self._sections()
        self.symbols = self._symbols()
        if any(s.name == '__gnu_lto_slim' for s in self.symbols):
            raise ObjectError(f'{path} holds LTO code only: add -ffat-lto-objects or configure with --disable-lto')
        self.globals = {s.name for s in self.symbols
                        if s.bind != STB_LOCAL and SHN_UNDEF < s.section < SHN_LORESERVE}
        self.names = {s.name for s in self.symbols
                      if s.type in (STT_OBJECT, STT_FUNC) and SHN_UNDEF < s.section < SHN_LORESERVE}
        self.references = self._references()

    def _sections(self):
        """Type, flags, offset, size, link and info of each section."""
        start = struct.unpack_from('<Q', self.data, 40)[0]
        size, count = struct.unpack_from('<HH', self.data, 58)
        headers = [struct.unpack_from('<IIQQQQII', self.data, start + i * size) for i in range(count)]
        return [(h[1], h[2], h[4], h[5], h[6], h[7]) for h in headers]

    def _symbols(self):
        symbols = []
        for kind, _, offset, size, link, _ in self.sections:
            if kind != SHT_SYMTAB:
                continue
            names = self.sections[link][2]
            for at in range(offset, offset + size, 24):
                name, info, _, section, value, _ = struct.unpack_from('<IBBHQQ', self.data, at)
                end = self.data.index(b'\0', names + name)
                symbols.append(Symbol(self.data[names + name:end].decode(), info & 15, info >> 4, section, value))
        return symbols

    def _places(self):
        """Section -> sorted (address, name) of the functions and variables in it."""
        places = defaultdict(list)
        for s in self.symbols:
            if s.type in (STT_OBJECT, STT_FUNC) and SHN_UNDEF < s.section < SHN_LORESERVE:
                places[s.section].append((s.value, s.name))
        return {section: sorted(names) for section, names in places.items()}

    def _references(self):
        places = self._places()
        found = set()
        for kind, _, offset, size, _, info in self.sections:
            # Debug information is not loaded, so that its section lacks the flag.
            if kind != SHT_RELA or not self.sections[info][1] & SHF_ALLOC or info not in places:
                continue
            for at in range(offset, offset + size, 24):
                where, what, addend = struct.unpack_from('<QQq', self.data, at)
                name = self._target(places, what, addend)
                if name:
                    found.add((place_of(places[info], where), name))
        return found

    def _target(self, places, what, addend):
        symbol = self.symbols[what >> 32]
        if symbol.type != STT_SECTION:
            return symbol.name
        if symbol.section not in places:
            return None
        if self.machine == X86_64 and what & 0xffffffff in PC_RELATIVE:
            addend += 4
        return place_of(places[symbol.section], addend)


def place_of(names, address):
    """Name of the function or variable at an address; what the compiler split off counts as its function."""
    at = bisect_right(names, (address, '\x7f')) - 1
    return names[max(at, 0)][1].split('.')[0]


def object_of(build, source):
    """The object file of a source (relative to prov/tagrv/src), or None."""
    folder = build / SRC / source.parent
    for found in (folder / '.libs', folder):
        paths = sorted(found.glob(f'*-{source.stem}.o'))
        if paths:
            return paths[0]
    return None


def is_built(build, source):
    """Whether this build's configuration compiles a source at all."""
    config = build / 'config.h'
    if source.parent.name != 'verbs' or not config.exists():
        return True
    return '#define HAVE_VERBS 1' in config.read_text()


def read_objects(tree, build):
    """Source file (relative to prov/tagrv/src) -> Object; raises ObjectError if make has work left."""
    objects = {}
    for path in sorted((tree / SRC).rglob('*.c')):
        source = path.relative_to(tree / SRC)
        if not is_built(build, source):
            continue
        found = object_of(build, source)
        if not found:
            raise ObjectError(f'{build} has no object file of {SRC / source}: build it first')
        if found.stat().st_mtime < path.stat().st_mtime:
            raise ObjectError(f'{found} is older than {SRC / source}: build it first')
        objects[str(source)] = Object(found)
    return objects


def read_calls(objects):
    """Call for each reference from one of our files to a symbol that one of our files defines."""
    owner = {name: source for source, obj in objects.items() for name in obj.globals}
    for source, obj in sorted(objects.items()):
        for function, symbol in sorted(obj.references):
            target = source if symbol in obj.names else owner.get(symbol)
            if target:
                yield Call(source, function, symbol, target)


def circles(edges):
    """Groups of more than one node that reach each other: lists, sorted. 'edges' is node -> set of nodes."""
    reach = {node: reachable(edges, node) for node in edges}
    groups = {frozenset(n for n in reach[node] if node in reach.get(n, ())) for node in edges if node in reach[node]}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def reachable(edges, start):
    """Nodes that one or more steps from 'start' lead to."""
    found, left = set(), list(edges.get(start, ()))
    while left:
        node = left.pop()
        if node not in found:
            found.add(node)
            left += edges.get(node, ())
    return found
