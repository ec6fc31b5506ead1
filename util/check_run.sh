# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Runs and reports the steps of util/check. To be sourced by it.
#
# The steps vm-* keep one processor busy and need nothing but finished builds, as do openmpi and distcheck; aarch64 needs not
# even these. So they run in a lane of their own, a second process, beside the other steps, and are the last ones of the list,
# but for those of --long, which come behind aarch64. Each step leaves its result
# in a file of build/logs; the main process reports the results in the order of the steps:
#
#      main process   layers ... gcc, clang, ... tsan | reports aarch64, openmpi, vm-functional ... distcheck as they end
#      lane           aarch64 ...    openmpi, vm-functional, vm-bad-input ... distcheck
#
# A step of the lane waits until the step that builds its programs has built them (builder_of); that step's own tests run
# beside it. distcheck, which works in the same folder, waits for the last step that does: calls.

: "${logs:?}" "${in_turn:?}" "${steps=}"

# shellcheck disable=SC2034 # 'total' is set and the sums are printed by util/check
passed=0 failed=0 skipped=0 number=0 total=0
lane=''                      # process id of the lane of vm-*
duration()
{
	printf '%d.%d s' $(($1 / 1000)) $(($1 % 1000 / 100))
}

# Prints the lines of a log that most likely say why a step failed, and its end.
show_failure()
{
	{
		grep -aE -e '^FAIL |^    rank [0-9]+, |^        [0-9.]+ s of processor time|\[FAIL\]|\[CRASH\]' \
			-e ' error: |undefined reference|: (error|runtime error): |ERROR: AddressSan' "$1" | head -20
		echo ...
		tail -15 "$1"
	} | sed 's/^/    | /'
}

# Prints the milliseconds of processor time, user and system, that processes of this shell have used and that it has waited
# for. To be called with the output in a file: $(...) would be a process of its own.
processor_times() { times; }
sum_of_times()
{
	awk '{ for (i = 1; i <= 2; i++) { split($i, t, /[ms]/); sum += t[1] * 60000 + t[2] * 1000 } } END { printf "%d", sum }' "$1"
}

# usage: report STATUS LOG MILLISECONDS COUNTS [PROCESSOR-MILLISECONDS]; adds the numbers of one step to the totals and prints the rest of its line.
report()
{
	local status=$1 log=$2 time=$3 cpu=${5:-0} p=0 f=0 s=0 a b c text
	while read -r a b c; do
		p=$((p + a)) f=$((f + b)) s=$((s + c))
	done <"$4"
	if [ "$status" = 77 ] && [ $f = 0 ]; then
		p=0 s=1
		text="skipped: $(tail -1 "$log")"
	elif [ "$status" != 0 ]; then
		[ $f -gt 0 ] || f=1
		text="FAILED: $p passed, $f failed"
	else
		[ $((p + f + s)) -gt 0 ] || p=1
		[ $f = 0 ] && text="$p passed" || text="FAILED: $p passed, $f failed"
		[ $s = 0 ] || text="$text, $s skipped"
	fi
	printf '%s (%s, %s of processor time)\n' "$text" "$(duration "$time")" "$(duration "$cpu")"
	[ "$s" = 0 ] || grep -vE 'needs (more than one process|endpoints that reach each other)$' "$log" |
		sed -nE 's/^skip(ped:)? /        skipped: /p' | sort -u
	[ $f = 0 ] || show_failure "$log"
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# usage: execute STEP; leaves 'STATUS MILLISECONDS PROCESSOR-MILLISECONDS' in STEP.result and the numbers in STEP.counts. The
# processor time of a machine that steps share is the last one's.
execute()
{
	local name=$1 start status=0 used=$logs/$1.times
	count_file=$logs/$name.counts
	: >"$count_file"
	start=$(date +%s%3N)
	processor_times >"$used.before"
	# In a process of its own, since 'set -e' has no effect in a function that is tested.
	set +e
	(set -e; "step_${name//-/_}") >"$logs/$name.log" 2>&1 </dev/null
	status=$?
	set -e
	processor_times >"$used"
	echo "$status $(($(date +%s%3N) - start)) $(($(sum_of_times "$used") - $(sum_of_times "$used.before")))" \
		>"$logs/$name.result.new"
	rm -f "$used" "$used.before"
	mv "$logs/$name.result.new" "$logs/$name.result"
}

in_lane() { [[ $in_turn = 0 && ($1 == vm-* || $1 == aarch64 || $1 == openmpi || $1 == distcheck) ]]; }

# usage: await_result STEP PROCESS; waits until the process has left the result of the step, or has ended.
await_result()
{
	while [ ! -e "$logs/$1.result" ] && kill -0 "$2" 2>/dev/null; do
		sleep 0.2
	done
}

# usage: await_build STEP PROCESS; waits until the step has built its programs or has ended, or the process has ended.
await_build()
{
	while [ ! -e "$logs/$1.built" ] && [ ! -e "$logs/$1.result" ] && kill -0 "$2" 2>/dev/null; do
		sleep 0.2
	done
}

# Prints the step that builds what a step of the lane uses; nothing for one that builds by itself.
builder_of()
{
	case $1 in
	aarch64) ;;
	vm-asan*) echo asan ;;
	vm-tsan) echo tsan ;;
	*) echo gcc ;;
	esac
}

run_lane()
{
	local step name builder
	trap end_boot EXIT
	trap 'exit 143' TERM
	for step in "${steps[@]}"; do
		name=${step%%|*}
		in_lane "$name" && selected "$step" || continue
		builder=$(builder_of "$name")
		[ -z "$builder" ] || ! is_selected "$builder" || await_build "$builder" $$
		[ "$name" != distcheck ] || ! is_selected calls || await_result calls $$
		execute "$name"
	done
}

# usage: is_selected NAME
is_selected()
{
	local step
	for step in "${steps[@]}"; do
		[ "${step%%|*}" != "$1" ] || ! selected "$step" || return 0
	done
	return 1
}

start_lane()
{
	# A process group of its own, so that end_lane reaches everything it has started.
	set -m
	run_lane &
	lane=$!
	set +m
}

# Ends what still runs when util/check is interrupted.
end_lane()
{
	[ -n "$lane" ] || { end_boot; return 0; }
	kill -- -"$lane" 2>/dev/null || true
	wait "$lane" 2>/dev/null || true
}

run_step()
{
	local name=$1 text=$2 result='125 0 0' status time cpu
	number=$((number + 1))
	printf '[%2d/%d] %s: %s ... ' $number $total "$name" "$text"
	if in_lane "$name"; then
		await_result "$name" "$lane"
	else
		execute "$name"
	fi
	[ ! -e "$logs/$name.result" ] || result=$(<"$logs/$name.result")
	touch "$logs/$name.log" "$logs/$name.counts"
	read -r status time cpu <<<"$result"
	report "$status" "$logs/$name.log" "$time" "$logs/$name.counts" "$cpu"
}

