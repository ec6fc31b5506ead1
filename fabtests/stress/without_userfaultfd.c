/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Runs a command where userfaultfd is forbidden, as in many containers.
 *
 *	without_userfaultfd COMMAND [ARGUMENT]...
 *
 * A seccomp filter answers the system call, and the device's request for a new one, with
 * EPERM, for the command and all its children.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NEW_BY_DEVICE	_IO(0xAA, 0x00)	/* USERFAULTFD_IOC_NEW, since Linux 6.1 */
#define REFUSE		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)
#define ALLOW		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define LOAD(field)	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))

/* Where the lower half of a 64-bit argument is. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define REQUEST		LOAD(args[1])
#else
#define REQUEST		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1]) + 4)
#endif

int main(int argc, char **argv)
{
	struct sock_filter filter[] = {
		LOAD(nr),
		UNLESS(SYS_userfaultfd, 1),
		REFUSE,
		UNLESS(SYS_ioctl, 3),
		REQUEST,
		UNLESS(NEW_BY_DEVICE, 1),
		REFUSE,
		ALLOW,
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	if (argc < 2) {
		fprintf(stderr, "usage: without_userfaultfd COMMAND [ARGUMENT]...\n");
		return 2;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("without_userfaultfd: no seccomp filter");
		return 77;
	}
	/* It must hold, or the test would show nothing. */
	if (syscall(SYS_userfaultfd, 1) != -1 || errno != EPERM) {
		fprintf(stderr, "without_userfaultfd: userfaultfd is not refused\n");
		return 2;
	}
	execvp(argv[1], argv + 1);
	perror(argv[1]);
	return 2;
}
