/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A joined device: its description, its events, and memory registered with all rails.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "xport/multi/multi_priv.h"

struct rail {
	struct tagrv_device base;
	int	fds[2];		/* fds[0] has the events, -1: none */
	int	error;		/* of the next registrations */
	unsigned gives;		/* more access than was asked for */
	size_t	regs, events;
	bool	removed, closed;
};

static struct rail rails[MULTI_RAILS + 1];

static struct rail *rail_of(struct tagrv_device *dev)
{
	return tagrv_container_of(dev, struct rail, base);
}

static void rail_close(struct tagrv_device *dev)
{
	rail_of(dev)->closed = true;
}

static int rail_event_fd(struct tagrv_device *dev)
{
	return rail_of(dev)->fds[0];
}

/* A device blocks here when it has no event; the test fails instead. */
static void rail_event(struct tagrv_device *dev)
{
	struct rail *rail = rail_of(dev);
	char byte;

	rail->events++;
	if (!rail->removed)
		cr_assert_eq(recv(rail->fds[0], &byte, 1, MSG_DONTWAIT), 1,
			     "%s has no event", dev->name);
}

static int rail_reg(struct tagrv_device *dev, void *addr, size_t len, unsigned access,
		    struct tagrv_mem **mem)
{
	struct rail *rail = rail_of(dev);

	if (rail->error)
		return rail->error;
	*mem = malloc(sizeof(**mem));
	**mem = (struct tagrv_mem) { .dev = dev, .addr = addr, .len = len,
				     .access = access | rail->gives };
	rail->regs++;
	return 0;
}

static void rail_dereg(struct tagrv_mem *mem)
{
	rail_of(mem->dev)->regs--;
	free(mem);
}

static size_t rail_key(const struct tagrv_mem *mem, void *key)
{
	size_t nr = (size_t) (rail_of(mem->dev) - rails);

	memset(key, (int) (0xa0 + nr), nr == 2 ? 3 : 4);
	return nr == 2 ? 3 : 4;
}

static const struct tagrv_xport_ops rail_ops = {
	.dev_close = rail_close, .dev_event_fd = rail_event_fd,
	.dev_event = rail_event, .mem_reg = rail_reg, .mem_dereg = rail_dereg,
	.mem_key = rail_key,
};

static struct tagrv_device *make_rail(unsigned i, bool events)
{
	struct rail *rail = &rails[i];

	*rail = (struct rail) {
		.base = { .ops = &rail_ops, .max_msg = 1000 + i },
		.fds = { -1, -1 },
	};
	snprintf(rail->base.name, sizeof(rail->base.name), "dev%u", i);
	if (events)
		cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, rail->fds), 0);
	return &rail->base;
}

static struct tagrv_device *join(unsigned cnt, bool events)
{
	struct tagrv_device *devs[MULTI_RAILS], *dev;

	for (unsigned i = 0; i < cnt; i++)
		devs[i] = make_rail(i, events);
	cr_assert_eq(tagrv_xport_join(devs, cnt, &dev), 0);
	return dev;
}

Test(multi_dev, describes_all_rails, .timeout = 5)
{
	struct tagrv_device *devs[2] = { make_rail(0, false), make_rail(1, false) };
	struct tagrv_device *dev;

	devs[1]->software = true;
	devs[1]->max_msg = 7;
	devs[1]->model = 5;
	cr_assert_eq(tagrv_xport_join(devs, 2, &dev), 0);
	cr_assert_str_eq(dev->name, "dev0+dev1");
	cr_assert_eq(dev->max_msg, 7);
	cr_assert(dev->software);
	cr_assert(!dev->model && !devs[1]->model, "peers are told none");
	cr_assert_eq(dev->ops, &tagrv_multi_ops);
	cr_assert_eq(tagrv_multi_dev_event_fd(dev), -1, "no rail has events");
	tagrv_multi_dev_event(dev);
	tagrv_multi_dev_close(dev);
	cr_assert(rails[0].closed && rails[1].closed);
}

Test(multi_dev, a_long_name_is_cut, .timeout = 5)
{
	struct tagrv_device *devs[MULTI_RAILS], *dev;

	for (unsigned i = 0; i < MULTI_RAILS; i++) {
		devs[i] = make_rail(i, false);
		memset(devs[i]->name, 'a' + (int) i, 30);
		devs[i]->name[30] = '\0';
	}
	cr_assert_eq(tagrv_xport_join(devs, MULTI_RAILS, &dev), 0);
	cr_assert_eq(strlen(dev->name), TAGRV_DEVNAME_MAX - 1);
	cr_assert_eq(dev->name[30], '+');
	tagrv_multi_dev_close(dev);
}

Test(multi_dev, what_cannot_be_joined_is_refused, .timeout = 5)
{
	static const struct tagrv_xport_ops other;
	struct tagrv_device *devs[MULTI_RAILS + 1], *dev = NULL;

	for (unsigned i = 0; i <= MULTI_RAILS; i++)
		devs[i] = make_rail(i, false);
	cr_assert_eq(tagrv_xport_join(devs, 0, &dev), -FI_EINVAL);
	cr_assert_eq(tagrv_xport_join(devs, 1, &dev), -FI_EINVAL);
	cr_assert_eq(tagrv_xport_join(devs, MULTI_RAILS + 1, &dev), -FI_EINVAL);
	devs[1]->ops = &other;
	cr_assert_eq(tagrv_xport_join(devs, 2, &dev), -FI_EINVAL);
	devs[0]->ops = devs[1]->ops = &tagrv_multi_ops;
	cr_assert_eq(tagrv_xport_join(devs, 2, &dev), -FI_EINVAL);
	cr_assert_null(dev);
	cr_assert(!rails[0].closed, "the caller still owns it");
}

static bool is_readable(int fd)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	return poll(&poll_fd, 1, 0) == 1;
}

Test(multi_dev, only_devices_with_an_event_are_asked, .timeout = 5)
{
	struct tagrv_device *dev = join(3, true);
	int fd = tagrv_multi_dev_event_fd(dev);

	cr_assert_geq(fd, 0);
	cr_assert(!is_readable(fd));
	tagrv_multi_dev_event(dev);
	cr_assert_eq(write(rails[1].fds[1], "x", 1), 1);
	cr_assert(is_readable(fd));
	tagrv_multi_dev_event(dev);
	cr_assert(rails[0].events == 0 && rails[1].events == 1 &&
		  rails[2].events == 0);
	cr_assert(!is_readable(fd));
	tagrv_multi_dev_close(dev);
}

/* As the descriptor of a removed adapter: an error for ever, and nothing to read. */
Test(multi_dev, a_removed_device_is_told_once, .timeout = 5)
{
	struct tagrv_device *devs[2] = { make_rail(0, true), make_rail(1, false) };
	struct tagrv_device *dev;
	int pipe_fds[2], fd;

	/* A pipe that nobody reads any more: EPOLLERR without EPOLLIN. */
	cr_assert_eq(pipe(pipe_fds), 0);
	rails[1].fds[0] = pipe_fds[1];
	rails[1].removed = true;
	cr_assert_eq(tagrv_xport_join(devs, 2, &dev), 0);
	fd = tagrv_multi_dev_event_fd(dev);
	close(pipe_fds[0]);
	cr_assert(is_readable(fd));
	tagrv_multi_dev_event(dev);
	cr_assert_eq(rails[1].events, 1);
	cr_assert(!is_readable(fd), "it would be told for ever");
	cr_assert_eq(write(rails[0].fds[1], "x", 1), 1);
	tagrv_multi_dev_event(dev);
	cr_assert_eq(rails[0].events, 1, "the other one is still watched");
	tagrv_multi_dev_close(dev);
}

static char buf[4096];

Test(multi_mem, is_registered_with_every_rail, .timeout = 5)
{
	static const uint8_t expected[12] = {
		0xa0, 0xa0, 0xa0, 0xa0, 0xa1, 0xa1, 0xa1, 0xa1,
		0xa2, 0xa2, 0xa2, 0,
	};
	struct tagrv_device *dev = join(3, false);
	uint8_t key[TAGRV_KEY_MAX];
	struct tagrv_mem *mem;

	cr_assert_eq(tagrv_multi_mem_reg(dev, buf, 100, TAGRV_MEM_READ, &mem), 0);
	cr_assert(mem->dev == dev && mem->addr == buf && mem->len == 100 &&
		  !mem->owner);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(rails[i].regs, 1);
		cr_assert_eq(multi_mem_of(mem)->mem[i]->addr, buf);
		cr_assert_eq(multi_mem_of(mem)->mem[i]->len, 100);
	}
	cr_assert_eq(tagrv_multi_mem_key(mem, key), sizeof(expected));
	cr_assert_arr_eq(key, expected, sizeof(expected));
	tagrv_multi_mem_dereg(mem);
	for (unsigned i = 0; i < 3; i++)
		cr_assert_eq(rails[i].regs, 0);
	tagrv_multi_dev_close(dev);
}

Test(multi_mem, a_right_that_came_for_nothing_must_be_of_all_rails, .timeout = 5)
{
	struct tagrv_device *dev = join(2, false);
	struct tagrv_mem *mem;

	for (unsigned i = 0; i < 2; i++) {
		rails[i].gives = TAGRV_MEM_STORE;
		rails[!i].gives = 0;
		cr_assert_eq(tagrv_multi_mem_reg(dev, buf, 9, TAGRV_MEM_READ,
						 &mem), 0);
		cr_assert_eq(mem->access, (unsigned) TAGRV_MEM_READ);
		tagrv_multi_mem_dereg(mem);
	}
	rails[0].gives = TAGRV_MEM_STORE;
	cr_assert_eq(tagrv_multi_mem_reg(dev, buf, 9, TAGRV_MEM_READ, &mem), 0);
	cr_assert_eq(mem->access, (unsigned) (TAGRV_MEM_READ | TAGRV_MEM_STORE));
	tagrv_multi_mem_dereg(mem);
	tagrv_multi_dev_close(dev);
}

Test(multi_mem, an_error_undoes_all, .timeout = 5)
{
	struct tagrv_device *dev = join(4, false);
	static const int errors[] = { -FI_ENOMEM, -FI_EFAULT, -FI_EINVAL, -FI_EACCES };
	struct tagrv_mem *mem = NULL;

	for (unsigned at = 0; at < 4; at++)
		for (unsigned i = 0; i < TAGRV_ARRAY_SIZE(errors); i++) {
			rails[at].error = errors[i];
			cr_assert_eq(tagrv_multi_mem_reg(dev, buf, 9, 0, &mem),
				     errors[i]);
			cr_assert_null(mem);
			rails[at].error = 0;
			for (unsigned k = 0; k < 4; k++)
				cr_assert_eq(rails[k].regs, 0);
		}
	tagrv_multi_dev_close(dev);
}

Test(multi_mem, a_lost_device_is_left_out, .timeout = 5)
{
	static const int errors[] = { -FI_ENODEV, -FI_EIO };
	static const uint8_t expected[8] = { 0, 0, 0, 0, 0xa1, 0xa1, 0xa1, 0xa1 };
	struct tagrv_device *dev = join(2, false);
	uint8_t key[TAGRV_KEY_MAX];
	struct tagrv_mem *mem;

	for (unsigned i = 0; i < TAGRV_ARRAY_SIZE(errors); i++) {
		rails[0].error = errors[i];
		cr_assert_eq(tagrv_multi_mem_reg(dev, buf, 9, 0, &mem), 0);
		cr_assert_null(multi_mem_of(mem)->mem[0]);
		cr_assert_not_null(multi_mem_of(mem)->mem[1]);
		cr_assert_eq(tagrv_multi_mem_key(mem, key), 8);
		cr_assert_arr_eq(key, expected, 8);
		tagrv_multi_mem_dereg(mem);
		cr_assert_eq(rails[1].regs, 0);
	}
	rails[1].error = -FI_EIO;
	cr_assert_eq(tagrv_multi_mem_reg(dev, buf, 9, 0, &mem), -FI_EIO,
		     "no rail is left");
	tagrv_multi_dev_close(dev);
}
