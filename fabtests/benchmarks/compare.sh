# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash disable=SC2154
#
# Shared by the compare-* programs: options, the build to measure, rounds, UCX, medians and targets.
# Sourced; the caller sets 'tool' (its name), 'top' (the tree), 'rounds', 'build', 'whats' with an array WHAT_sizes for each,
# 'tools', 'work' (a folder), and defines 'measure TOOL WHAT SIZE', which leaves one figure in 'out', or nothing.

die()
{
	printf '%s: %s\n' "${tool:?}" "$*" >&2
	exit 2
}

number()
{
	case $2 in '' | 0* | *[!0-9]*) die "$1 wants a positive number, not '$2'" ;; esac
	echo "$2"
}

add_sizes()
{
	local size list
	IFS=, read -r -a list <<<"$1"
	for size in "${list[@]}"; do
		size=$(number --sizes "$size")
		[[ " ${latency_sizes[*]} " == *" $size "* ]] || latency_sizes+=("$size")
		[[ " ${bandwidth_sizes[*]} " == *" $size "* ]] || bandwidth_sizes+=("$size")
	done
	mapfile -t latency_sizes < <(printf '%s\n' "${latency_sizes[@]}" | sort -n)
	mapfile -t bandwidth_sizes < <(printf '%s\n' "${bandwidth_sizes[@]}" | sort -n)
}

find_build()
{
	local dir
	for dir in ${build:+"$build"} "$PWD" "$top" "${top:?}"/build/{demo,hand,check-gcc}; do
		if [ -e "$dir/prov/tagrv/.libs/libtagrv-fi.so" ] && [ -x "$dir/fabtests/benchmarks/tagrv_pingpong" ]; then
			(cd "$dir" && pwd)
			return
		fi
	done
	die "no built plug-in found; build the tree or name the place with --build"
}

# usage: plugin_of TOOL; prints the folder of the plug-in, which for the tool 'before' is that of --before.
plugin_of()
{
	local dir=$build
	[ "$1" != before ] || dir=$before
	echo "$dir/prov/tagrv/.libs"
}

# usage: keep_only [OPTION]; with 'only', which OPTION (--only) has set: leaves those tools, and the limits.
keep_only()
{
	local name kept=()
	[ -n "${only:-}" ] || return 0
	for name in "${tools[@]}"; do
		if [ "$name" = limit ] || [[ $only == *,"$name",* ]]; then
			kept+=("$name")
		fi
	done
	[ ${#kept[@]} -gt 0 ] && [ "${kept[*]}" != limit ] || die "${1:---only}: none of these is there; measured can be: ${tools[*]}"
	tools=("${kept[@]}")
}

# With --before: checks the folder, and leaves only the two builds in 'tools'.
tools_of_before()
{
	[ -n "${before:-}" ] || return 0
	[ -e "$before/prov/tagrv/.libs/libtagrv-fi.so" ] || die "--before: $before has no plug-in; is it a build?"
	before=$(readlink -f "$before")
	tools=(tagrv before)
}

# On a busy machine, spinning processes would measure the scheduler.
warn_if_busy()
{
	local load
	read -r load _ </proc/loadavg
	if awk -v load="$load" -v cpus="$(nproc)" 'BEGIN { exit !(load > 0.7 * cpus) }'; then
		echo "note: this machine is busy (load average $load); what follows says little"
	fi
}

# Runs the tools of 'tools' in turn, for each measurement; every second round in reverse order.
run_rounds()
{
	local round i name what size reversed=()
	for ((i = ${#tools[@]} - 1; i >= 0; i--)); do
		reversed+=("${tools[i]}")
	done
	: >"${work:?}/results"
	for ((round = 1; round <= ${rounds:?}; round++)); do
		printf 'round %d\n' "$round"
		for ((i = 0; i < ${#tools[@]}; i++)); do
			name=${tools[i]}
			((round % 2)) || name=${reversed[i]}
			for what in "${whats[@]}"; do
				local -n sizes=${what}_sizes
				for size in "${sizes[@]}"; do
					out=
					measure "$name" "$what" "$size"
					[ -z "$out" ] || echo "$round,$name,$what,$size,$out" >>"$work/results"
				done
			done
		done
	done
}

# Runs a command with the libfabric of --libfabric, whose providers are measured.
other()
{
	if [ -z "$libfabric" ]; then
		"$@"
		return
	fi
	LD_LIBRARY_PATH=$libfabric/lib FI_PROVIDER_PATH=$libfabric/lib/libfabric PATH=$libfabric/bin:$PATH "$@"
}

# usage: scaled NUMBER FACTOR
scaled()
{
	[ -z "$1" ] || awk -v n="$1" -v f="$2" 'BEGIN { printf "%.4f\n", n * f }'
}

# usage: ucx COLUMN OPTION...; the result is in 'out', without a subshell, so that the server can be ended here. 'ucx_server' and 'ucx_client' are
# their commands, 'pause' the seconds that a server needs to listen, 'limit' those of a measurement; one that hangs is not repeated.
port=$((20000 + $$ % 10000))
ucx_server=(ucx_perftest) ucx_client=(ucx_perftest) pause=0.2 limit=60
ucx()
{
	local column=$1 tries=10 begin=$SECONDS
	shift
	out=
	while [ -z "$out" ] && [ $((tries -= 1)) -ge 0 ] && [ $((SECONDS - begin)) -lt "$limit" ]; do
		port=$((port + 1))
		"${ucx_server[@]}" -p $port >"$work/server" 2>&1 &
		server=$!
		sleep "$pause"
		out=$(timeout "$limit" "${ucx_client[@]}" -p $port -f "$@" 127.0.0.1 2>"$work/error-ucx" |
			awk -v column="$column" '/^ *[0-9]/ { print $column }')
		[ -n "$out" ] || kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
		server=
	done
}

# For awk -F,: medians of the results, cells of a table, targets. Wants the variables rounds and tools; sets 'missed'.
# shellcheck disable=SC2016,SC2034 # it is awk's, and the caller's
compare_awk='
	{ key = $2 "," $3 "," $4; value[key, ++cnt[key]] = $5 }

	function median(key,    n, i, j, t) {
		n = cnt[key]
		if (!n)
			return 0
		for (i = 2; i <= n; i++)
			for (j = i; j > 1 && value[key, j - 1] + 0 > value[key, j] + 0; j--) {
				t = value[key, j]; value[key, j] = value[key, j - 1]; value[key, j - 1] = t
			}
		return n % 2 ? value[key, (n + 1) / 2] : (value[key, n / 2] + value[key, n / 2 + 1]) / 2
	}

	function cell(tool, what, size,    m, key) {
		key = tool "," what "," size
		m = median(key)
		if (!m)
			return sprintf("%16s", "-")
		return sprintf("%16s", sprintf("%.2f%s", m, cnt[key] < rounds ? "(" cnt[key] ")" : ""))
	}

	function has(name, what, list, n,    i) {
		for (i = 1; i <= n; i++)
			if (cnt[name "," what "," list[i]])
				return 1
		return 0
	}

	# A column for each tool that measured it; nothing if none has.
	function table(title, what, sizes,    n, t, list, all, names, i, j) {
		n = split(sizes, list, " ")
		t = 0
		for (i = split(tools, all, " "); i > 0; i--)
			if (has(all[i], what, list, n))
				names[++t] = all[i]
		if (!t)
			return
		printf "\n%-24s", title
		for (j = t; j > 0; j--)
			printf "%16s", names[j]
		for (i = 1; i <= n; i++) {
			printf "\n%10d B            ", list[i]
			for (j = t; j > 0; j--)
				printf "%s", cell(names[j], what, list[i])
		}
		print ""
	}

	# The best of the tools whose name does not match 'ours'.
	function best(what, size, ours,    n, names, i, m, found) {
		n = split(tools, names, " ")
		for (i = 1; i <= n; i++) {
			m = median(names[i] "," what "," size)
			if (names[i] !~ ours && m > found)
				found = m
		}
		return found
	}

	# For --before: each measurement, ours by theirs.
	function judge_before(whats, latency_sizes, bandwidth_sizes,    n, i, list) {
		printf "\ntagrv, compared with the build before%36s\n", "ratio"
		n = index(whats, " latency ") ? split(latency_sizes, list, " ") : 0
		for (i = 1; i <= n; i++)
			judge(list[i] " B half round trip at most 1.05 times that before", median("tagrv,latency," list[i]),
				median("before,latency," list[i]), 1.05, 1)
		if (index(whats, " rate "))
			judge("8 B message rate at least 0.95 times that before", median("tagrv,rate,8"), median("before,rate,8"), 0.95, 0)
		n = index(whats, " bandwidth ") ? split(bandwidth_sizes, list, " ") : 0
		for (i = 1; i <= n; i++)
			judge(list[i] " B bandwidth at least 0.95 times that before", median("tagrv,bandwidth," list[i]),
				median("before,bandwidth," list[i]), 0.95, 0)
	}

	function judge(text, ours, theirs, factor, smaller,    ratio, met) {
		if (!ours || !theirs) {
			printf "  %-60s      -  not measured\n", text
			missed = 1
			return
		}
		ratio = ours / theirs
		met = smaller ? ratio <= factor : ratio >= factor
		missed = missed || !met
		printf "  %-60s %6.2f  %s\n", text, ratio, met ? "met" : "missed"
	}
'

# Prints the errors of the programs, and writes the results for --csv.
show_errors()
{
	local error
	for error in "$work"/error-*; do
		[ ! -s "$error" ] || printf '%s: %s\n' "${error#"$work"/error-}" "$(sort -u "$error" | head -3)"
	done
}

write_csv()
{
	[ -z "${csv:-}" ] || { echo 'round,tool,what,size,value'; cat "$work/results"; } >"$csv"
}
