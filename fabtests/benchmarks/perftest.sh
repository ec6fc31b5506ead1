# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash disable=SC2154,SC2034
#
# Shared by the compare-* programs that measure RDMA devices: choice of the devices, and perftest's programs.
# Sourced behind compare.sh; the caller sets 'self' (its file), 'dev_a' and 'dev_b' (empty: to be chosen), 'build' and 'work'.

# usage: choose_devices VARIABLE CSV ARGUMENT...
# Sets dev_a and dev_b, and what tools need to be told of them. Without a device the caller runs once more in the virtual
# machine, with VARIABLE set, its arguments, and the folder of CSV (or nothing) to write to.
choose_devices()
{
	local variable=$1 csv=$2 devices vm
	shift 2
	mapfile -t devices < <(active_devices)
	if [ ${#devices[@]} = 0 ]; then
		[ -z "${!variable:-}" ] || die 'the virtual machine has no RDMA device'
		warn_if_busy
		echo 'no active RDMA device here: booting a virtual machine with software ones'
		vm=("$top/util/rxe-vm" --env "$variable=1")
		[ -z "$csv" ] || vm+=(--rw "$(dirname "$(readlink -f "$csv")")")
		exec "${vm[@]}" -- "$self" "$@" --build "$build"
	fi
	if [[ -z $dev_a && " ${devices[*]} " == *' rxa0 '*' rxb0 '* ]]; then
		dev_a=rxa0 dev_b=${dev_b:-rxb0}
	fi
	dev_a=${dev_a:-${devices[0]}}
	dev_b=${dev_b:-$dev_a}
	index_a=$(gid_index "$dev_a") index_b=$(gid_index "$dev_b")
	address_a=$(address "$dev_a") address_b=$(address "$dev_b")
	case $dev_a in rx*) lat_count=1000 bw_count=30 ;; *) lat_count=20000 bw_count=2000 ;; esac
}

# The GID that perftest should use (RoCE: the IPv4 one), and the address that belongs to it.
gid_index()
{
	local gid
	for gid in "/sys/class/infiniband/$1/ports/1/gids"/*; do
		if grep -qsi '^0000:0000:0000:0000:0000:ffff:' "$gid" &&
			grep -qs 'RoCE v2' "/sys/class/infiniband/$1/ports/1/gid_attrs/types/${gid##*/}"; then
			echo "${gid##*/}"
			return
		fi
	done
}

address()
{
	local index gid
	index=$(gid_index "$1")
	[ -n "$index" ] || return 0
	gid=$(tail -c 10 "/sys/class/infiniband/$1/ports/1/gids/$index")
	printf '%d.%d.%d.%d\n' "0x${gid:0:2}" "0x${gid:2:2}" "0x${gid:5:2}" "0x${gid:7:2}"
}

# perftest's server needs a moment to listen, and a port that was just used may be refused: new port, several tries. The
# result is in 'out', without a subshell: the port number and the server's process are needed here afterwards.
# usage: perftest PROGRAM SIZE COUNT COLUMN [OPTION...]
perftest()
{
	local program=$1 size=$2 count=$3 column=$4 tries=10
	local options=(-s "$size" -n "$count" -F "${@:5}")
	# It knows one size.
	[ "$program" != ib_atomic_lat ] || options=(-n "$count" -F "${@:5}")
	out=
	port=$((port + 1))
	"$program" -d "$dev_b" ${index_b:+-x "$index_b"} -p $port "${options[@]}" >"$work/server" 2>&1 &
	server=$!
	while [ -z "$out" ] && [ $((tries -= 1)) -ge 0 ]; do
		out=$(timeout 60 "$program" -d "$dev_a" ${index_a:+-x "$index_a"} -p $port "${options[@]}" 127.0.0.1 2>&1 |
			awk -v size="$size" -v column="$column" '$1 == size { print $column }')
		[ -n "$out" ] || kill -0 "$server" 2>/dev/null || break
		[ -n "$out" ] || sleep 0.2
	done
	[ -n "$out" ] || kill "$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
	server=
}

# perftest counts in 2^20 bytes.
mega()
{
	[ -z "$out" ] || out=$(awk -v n="$out" 'BEGIN { printf "%.2f\n", n * 1.048576 }')
}
