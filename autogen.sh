#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#
# Makes ./configure; needs autoconf, automake, libtool and pkg-config.
set -eu
cd "$(dirname "$0")"
exec autoreconf -fi
