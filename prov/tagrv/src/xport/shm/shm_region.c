/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Creates and maps memory that processes share: sealed memfds.
 *
 * A memfd has no name in any file system: it is freed with the last process that
 * maps it or holds its descriptor. The seals protect the process that maps a peer's
 * memfd: if the peer could shrink the file, accesses would raise SIGBUS.
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "xport/shm/shm_priv.h"

static int map(int fd, size_t size, void **addr)
{
	void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (at == MAP_FAILED)
		return -errno;
	*addr = at;
	return 0;
}

int tagrv_shm_region_create(const char *name, size_t size, int *fd, void **addr)
{
	int new_fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int ret;

	if (new_fd < 0)
		return -errno;
	if (ftruncate(new_fd, (off_t) size) ||
	    fcntl(new_fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		ret = -errno;
	else
		ret = map(new_fd, size, addr);
	if (ret) {
		close(new_fd);
		return ret;
	}
	*fd = new_fd;
	return 0;
}

int tagrv_shm_region_map(int fd, size_t size, void **addr)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat st;

	/* Only a memfd can have this seal: other files fail here. */
	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) ||
	    st.st_size < 0 || (size_t) st.st_size != size)
		return -FI_EINVAL;
	return map(fd, size, addr);
}

void tagrv_shm_region_unmap(void *addr, size_t size)
{
	if (addr)
		munmap(addr, size);
}
