# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The layers of prov/tagrv/src: which folder may include and call which.

  api -> api/info -> api/nosys -> engine -> proto -> proto/rma -> proto/rndv -> proto/packet -> object -> wireup, select, reg
      -> wire -> match, match/offload, xport, auth, atomic, board -> core

A folder calls only folders further to the right; folders of one level do not call each other. A back end, a folder
xport/NAME, uses xport and core; a folder in it uses the back end, too, which has no more of it than the address of its
table, in one file. Nobody else uses a back end, except that
xport/xport.c, the table of transports, has the address of each tagrv_NAME_ops, and calls the one function by which devices
are joined.
"""
import re
from pathlib import Path

SRC = Path('prov/tagrv/src')
BACK_END = 'xport/*'

LEVELS = [
    {'api'},
    {'api/info'},
    {'api/nosys'},
    {'engine'},
    {'proto'},
    {'proto/rma'},
    {'proto/rndv'},
    {'proto/packet'},
    {'object'},
    {'wireup', 'select', 'reg'},
    {'wire'},
    {'xport/verbs/tm'},
    {BACK_END},
    {'match', 'match/offload', 'xport', 'auth', 'atomic', 'board'},
    {'core'},
]

# Folder -> folders whose headers it may include, besides its own. Each is further down in LEVELS; where the list is
# shorter than that, the folder has no business with the rest. The application never sees a packet: api has no wire.
MAY_INCLUDE = {
    'api': {'api/info', 'api/nosys', 'engine', 'object', 'select', 'reg', 'match', 'xport', 'auth',
            'atomic', 'core'},
    'api/info': {'api/nosys', 'xport', 'auth', 'core'},
    'api/nosys': {'core'},
    'engine': {'proto', 'proto/rma', 'proto/rndv', 'proto/packet', 'object', 'wireup', 'select', 'reg', 'wire', 'match',
               'xport', 'board', 'core'},
    'proto': {'proto/rma', 'proto/rndv', 'proto/packet', 'object', 'wireup', 'select', 'reg', 'wire', 'match', 'xport',
              'core'},
    'proto/rma': {'proto/rndv', 'proto/packet', 'object', 'select', 'reg', 'wire', 'atomic', 'xport', 'core'},
    'proto/rndv': {'proto/packet', 'object', 'select', 'reg', 'wire', 'xport', 'core'},
    'proto/packet': {'object', 'wire', 'xport', 'core'},
    'object': {'wireup', 'select', 'reg', 'wire', 'match', 'match/offload', 'xport', 'board', 'core'},
    'wireup': {'wire', 'xport', 'auth', 'core'},
    'select': {'wire', 'xport', 'core'},
    'reg': {'xport', 'core'},
    'wire': {'xport', 'core'},
    'xport/verbs/tm': {'xport/verbs', 'xport', 'core'},
    BACK_END: {'xport', 'core'},
    'match': {'core'},
    'match/offload': {'core'},
    'auth': {'core'},
    'atomic': {'core'},
    'board': {'core'},
    'xport': {'core'},
    'core': set(),
}

# The file with the table of transports, and the header that declares what the table points to.
REGISTRY = 'xport/xport.c'
REGISTRY_HEADER = 'xport/backends.h'
JOIN = 'tagrv_multi_join'

# A folder of a back end uses the back end, which therefore must not call it: one file has the address of the folder's
# table of functions, tagrv_BACKEND_FOLDER_ops, that the back end declares.
PARTS = {'xport/verbs/verbs_list.c': 'xport/verbs/tm'}


def folder_of(source):
    """Folder of a file that is named relative to prov/tagrv/src."""
    return str(Path(source).parent)


def kind_of(folder):
    """The name of a folder in LEVELS and MAY_INCLUDE."""
    return BACK_END if re.match(r'^xport/\w+$', folder) else folder


def is_layer(folder):
    return kind_of(folder) in MAY_INCLUDE


def level_of(folder):
    """How far down a folder stands; 0 is api."""
    return next(i for i, level in enumerate(LEVELS) if kind_of(folder) in level)


def may_include(folder, used):
    return folder == used or used in MAY_INCLUDE[kind_of(folder)]


def may_call(folder, used):
    """Whether functions of 'folder' may use symbols of 'used'. Wider than may_include(): an inline function of a
    header brings its own calls into every folder that includes the header."""
    if folder == used or kind_of(used) == BACK_END:
        return may_include(folder, used)
    if kind_of(folder) == BACK_END:
        return may_include(folder, used)
    return level_of(folder) < level_of(used)


def is_registered(call):
    """Whether a call of objects.read_calls() is the table of transports pointing to a back end, or joining devices; or a
    back end pointing to the table of a folder in it."""
    if PARTS.get(call.source) == folder_of(call.target):
        return call.symbol == f'tagrv_{"_".join(Path(call.target).parts[1:-1])}_ops'
    return call.source == REGISTRY and (is_ops_of(call.symbol, folder_of(call.target)) or call.symbol == JOIN)


def is_ops_of(symbol, folder):
    return kind_of(folder) == BACK_END and symbol == f'tagrv_{Path(folder).name}_ops'
