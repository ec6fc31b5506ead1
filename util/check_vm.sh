# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Commands of util/check's steps in the virtual machine. To be sourced by util/check.
#
# A step calls in_vm once. Most steps boot a machine of their own. A boot takes about 25 s, often more than the command, so
# the short steps named in 'vm_together' share one: the first of them starts rxe-vm in the background with the commands of
# all that are selected, and each step then copies its own part of the output until its command has ended. When the machine
# ends early, the step that waits for its command fails, and the next step boots another machine for the remaining ones.

: "${top:?}" "${logs:?}"
# shellcheck disable=SC2154 # for 'name', the step that util/check runs
: "${name=}"

vm_together=' vm-bad-input vm-memlock vm-soak vm-onesided vm-flood vm-three vm-tmsim vm-hw-tags '
vm_together+='vm-faults vm-remap vm-fi-pingpong vm-pingpong vm-openmpi '
vm_boot=$logs/vm-boot        # .log: output of the shared machine; .pid: of its rxe-vm; .plan: its steps
planning=0                   # 1: in_vm only prints its command

# usage: rxe_vm DIRECTORY IDLE COMMAND...; runs COMMAND in the virtual machine with the plug-in built in DIRECTORY until it
# writes nothing for IDLE seconds. FI_TAGRV_TRANSPORTS=verbs, because all processes are on one host there and would use
# shared memory.
rxe_vm()
{
	local dir=$1 idle=$2
	shift 2
	cd "$dir" || return
	FI_PROVIDER_PATH=$dir/prov/tagrv/.libs exec "$top/util/rxe-vm" -v --in-order --idle "$idle" \
		--env 'ASAN_*' --env 'LSAN_*' --env 'UBSAN_*' --env LD_LIBRARY_PATH --env FI_TAGRV_TRANSPORTS=verbs --env FI_TAGRV_PROFILE=none \
		-- "$@"
}

shares_boot() { [[ $vm_together == *" $1 "* ]]; }

# usage: planned_command STEP; prints the command that the step gives to in_vm. Fails for a step that would be skipped.
planned_command()
(
	planning=1
	"step_${1//-/_}"
)

# Prints a line 'run STEP COMMAND...' for the step $name and each selected one of vm_together after it.
plan_boot()
{
	local step other later=0 command
	for step in "${steps[@]:?}"; do
		other=${step%%|*}
		[ "$other" != "$name" ] || later=1
		if [ $later = 1 ] && shares_boot "$other" && selected "$step" && command=$(planned_command "$other"); then
			echo "run $other $command"
		fi
	done
}

# Boots the machine for the step $name and the steps after it, with output in $vm_boot.log.
start_boot()
{
	local dir=$1 plan
	end_boot
	plan=$(plan_boot)
	echo "$plan" >"$vm_boot.plan"
	: >"$vm_boot.log"
	# No step is silent for as long as this limit; each step has a limit of its own.
	# shellcheck disable=SC2016 # for the shell in the virtual machine
	(rxe_vm "$dir" 3600 bash -c 'run()
		{
			local step=$1 status=0
			shift
			printf "\n== %s begins\n" "$step"
			"$@" || status=$?
			printf "\n== %s ends with %d\n" "$step" $status
		}
		'"$plan") >"$vm_boot.log" 2>&1 </dev/null &
	echo $! >"$vm_boot.pid"
}

# Ends the shared machine, if there is one.
end_boot()
{
	local pid
	pid=$(cat "$vm_boot.pid" 2>/dev/null) || return 0
	rm -f "$vm_boot.pid" "$vm_boot.plan"
	kill "$pid" 2>/dev/null || true
	# rxe-vm gives its command some seconds, then it ends the machine.
	tail --pid="$pid" -f /dev/null
}

# usage: follow_boot IDLE; copies the output of the step $name in the shared machine. Returns the exit status of the step's
# command, 124 if the command wrote nothing for IDLE seconds, 125 if the machine ended before the command.
follow_boot()
{
	local idle=$1 line status=125 limit=() got=0 tail
	exec 3< <(exec tail -n +1 -s 0.2 --pid="$(cat "$vm_boot.pid")" -f "$vm_boot.log")
	tail=$!
	while IFS= read -r "${limit[@]}" -u 3 line || { got=$?; false; }; do
		case $line in
		"== $name begins") limit=(-t "$idle") ;;
		"== $name ends with "*) status=${line##* }; break ;;
		rxe-vm:*) echo "$line" ;;
		*) [ ${#limit[@]} = 0 ] || echo "$line" ;;
		esac
	done
	exec 3<&-
	kill $tail 2>/dev/null || true
	if [ $got -gt 128 ]; then
		echo "stopped: no output for $idle seconds"
		status=124
	fi
	[ $got = 0 ] || end_boot
	return "$status"
}

in_shared_vm()
{
	local dir=$1 idle=$2
	grep -qs "^run $name " "$vm_boot.plan" || start_boot "$dir"
	follow_boot "$idle"
}

# usage: in_vm DIRECTORY IDLE COMMAND...; see rxe_vm. Programs of functional/ and stress/ write at least once a minute, and
# give up cases by themselves.
in_vm()
{
	local dir=$1 idle=$2 status out
	if [ "$planning" = 1 ]; then
		shift 2
		printf '%q ' "$@"
		return
	fi
	[ -e "$dir/prov/tagrv/.libs/libtagrv-fi.so" ] || { echo "$dir is not built, or only half"; return 1; }
	out=$(mktemp "$logs/vm.XXXXXX")
	if shares_boot "$name"; then
		in_shared_vm "$dir" "$idle" 2>&1 | tee "$out"
	else
		(rxe_vm "$@") 2>&1 </dev/null | tee "$out"
	fi
	status=${PIPESTATUS[0]}
	counts_of_program "$out"
	# If the virtual machine cannot be started, the step is skipped. If it stops later, tagrv may be the cause: failed.
	if [ "$status" = 125 ] && ! grep -q '^rxe-vm: ready after' "$out"; then
		status=77
		grep '^rxe-vm:' "$out" | grep -v "the console's last lines:$" | tail -1
	fi
	rm -f "$out"
	return "$status"
}
