# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash disable=SC2154
#
# What compare-verbs, compare-shm and compare-depth share: options, the build to measure, rounds, medians and targets. Sourced; the caller
# sets 'tool' (its name), 'top' (the tree), 'rounds', 'build', 'whats' with an array WHAT_sizes for each, 'tools', 'work' (a
# folder), and defines 'measure TOOL WHAT SIZE', which leaves one figure in 'out', or nothing.

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

# Spinning processes on a machine that is busy with something else measure the scheduler.
warn_if_busy()
{
	local load
	read -r load _ </proc/loadavg
	if awk -v load="$load" -v cpus="$(nproc)" 'BEGIN { exit !(load > 0.7 * cpus) }'; then
		echo "note: this machine is busy (load average $load); what follows says little"
	fi
}

# The tools of 'tools' in turn, for each measurement; every second round in reverse order.
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

# For awk -F,: medians of the results, cells of a table, targets. Wants the variable rounds; sets 'missed'.
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

# What the programs complained about, and the results for --csv.
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
