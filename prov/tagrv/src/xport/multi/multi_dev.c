/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Joins devices to one. Memory is registered with each of them, so that every rail can
 * move any part of it.
 *
 * A device that was removed cannot register memory any more. The others go on, so it
 * is left out: its place in the memory is empty, and its key is zero.
 */
#include "xport/multi/multi_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static_assert(MULTI_RAILS * MULTI_KEY_LEN <= TAGRV_KEY_MAX, "keys must fit");

static bool can_join(struct tagrv_device *const *devs, size_t cnt)
{
	if (cnt < 2 || cnt > MULTI_RAILS)
		return false;
	for (size_t i = 0; i < cnt; i++)
		if (devs[i]->ops != devs[0]->ops ||
		    devs[i]->ops == &tagrv_multi_ops)
			return false;
	return true;
}

/* "a+b+c", cut where the room ends. */
static void join_names(struct multi_dev *dev)
{
	size_t len = 0;

	for (unsigned i = 0; i < dev->cnt && len < sizeof(dev->base.name); i++)
		len += (size_t) snprintf(dev->base.name + len,
					 sizeof(dev->base.name) - len, "%s%s",
					 i ? "+" : "", dev->rails[i]->name);
}

static int watch_rail(struct multi_dev *dev, unsigned i)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u32 = i };
	int fd = dev->rails[i]->ops->dev_event_fd(dev->rails[i]);

	if (fd < 0)
		return 0;
	if (dev->event_fd < 0)
		dev->event_fd = epoll_create1(EPOLL_CLOEXEC);
	if (dev->event_fd < 0 ||
	    epoll_ctl(dev->event_fd, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	return 0;
}

static int watch_rails(struct multi_dev *dev)
{
	int ret = 0;

	for (unsigned i = 0; i < dev->cnt && !ret; i++)
		ret = watch_rail(dev, i);
	if (ret && dev->event_fd >= 0)
		close(dev->event_fd);
	return ret;
}

int tagrv_multi_join(struct tagrv_device *const *devs, size_t cnt,
		     struct tagrv_device **out)
{
	struct multi_dev *dev;
	int ret;

	if (!can_join(devs, cnt))
		return -FI_EINVAL;
	dev = calloc(1, sizeof(*dev));
	if (!dev)
		return -FI_ENOMEM;
	dev->base.ops = &tagrv_multi_ops;
	dev->base.max_msg = devs[0]->max_msg;
	dev->event_fd = -1;
	dev->cnt = (unsigned) cnt;
	for (size_t i = 0; i < cnt; i++) {
		dev->rails[i] = devs[i];
		/* No peer is told: the paths of all rails fit into one blob without it. */
		devs[i]->model = 0;
		dev->base.software |= devs[i]->software;
		dev->base.max_msg = TAGRV_MIN(dev->base.max_msg,
					      devs[i]->max_msg);
	}
	join_names(dev);
	ret = watch_rails(dev);
	if (ret) {
		free(dev);
		return ret;
	}
	*out = &dev->base;
	return 0;
}

void tagrv_multi_dev_close(struct tagrv_device *base)
{
	struct multi_dev *dev = multi_dev_of(base);

	/* First, because the descriptors in it are the devices'. */
	if (dev->event_fd >= 0)
		close(dev->event_fd);
	for (unsigned i = 0; i < dev->cnt; i++)
		dev->rails[i]->ops->dev_close(dev->rails[i]);
	free(dev);
}

int tagrv_multi_dev_event_fd(struct tagrv_device *dev)
{
	return multi_dev_of(dev)->event_fd;
}

/*
 * The descriptor of a removed device reports an error for ever, and the wireup thread
 * would come back at once: after its device was told, it is watched no longer.
 */
static void handle_rail(struct multi_dev *dev, const struct epoll_event *event)
{
	struct tagrv_device *rail = dev->rails[event->data.u32];

	rail->ops->dev_event(rail);
	if (!(event->events & EPOLLIN))
		epoll_ctl(dev->event_fd, EPOLL_CTL_DEL,
			  rail->ops->dev_event_fd(rail), NULL);
}

void tagrv_multi_dev_event(struct tagrv_device *base)
{
	struct multi_dev *dev = multi_dev_of(base);
	struct epoll_event events[MULTI_RAILS];
	int cnt = dev->event_fd < 0 ? 0 : epoll_wait(dev->event_fd, events,
						     MULTI_RAILS, 0);

	for (int i = 0; i < cnt; i++)
		handle_rail(dev, &events[i]);
}

/* The device was removed, or the kernel has cut it off. */
static bool is_lost(int ret)
{
	return ret == -FI_ENODEV || ret == -FI_EIO;
}

/* Returns the error that ends the registration, or with no memory at all, the last one. */
static int reg_rails(struct multi_dev *dev, struct multi_mem *mem)
{
	unsigned access = mem->base.access, cnt = 0;
	int lost = 0;

	for (unsigned i = 0; i < dev->cnt; i++) {
		struct tagrv_device *rail = dev->rails[i];
		int ret = rail->ops->mem_reg(rail, mem->base.addr, mem->base.len,
					     access, &mem->mem[i]);

		if (ret && !is_lost(ret))
			return ret;
		if (ret) {
			lost = ret;
			continue;
		}
		/* A right that came for nothing is one only if all gave it. */
		mem->base.access = cnt++ ? mem->base.access & mem->mem[i]->access :
					   mem->mem[i]->access;
	}
	return cnt ? 0 : lost;
}

int tagrv_multi_mem_reg(struct tagrv_device *base, void *addr, size_t len,
			unsigned access, struct tagrv_mem **out)
{
	struct multi_mem *mem = calloc(1, sizeof(*mem));
	int ret;

	if (!mem)
		return -FI_ENOMEM;
	mem->base = (struct tagrv_mem) {
		.dev = base, .addr = addr, .len = len, .access = access,
	};
	ret = reg_rails(multi_dev_of(base), mem);
	if (ret) {
		tagrv_multi_mem_dereg(&mem->base);
		return ret;
	}
	*out = &mem->base;
	return 0;
}

void tagrv_multi_mem_dereg(struct tagrv_mem *base)
{
	struct multi_mem *mem = tagrv_container_of(base, struct multi_mem, base);

	for (unsigned i = 0; i < MULTI_RAILS; i++)
		if (mem->mem[i])
			mem->mem[i]->dev->ops->mem_dereg(mem->mem[i]);
	free(mem);
}

size_t tagrv_multi_mem_key(const struct tagrv_mem *base, void *key)
{
	const struct multi_mem *mem = multi_mem_of(base);
	unsigned cnt = multi_dev_of(base->dev)->cnt;
	uint8_t *to = key;

	memset(to, 0, cnt * MULTI_KEY_LEN);
	for (unsigned i = 0; i < cnt; i++) {
		uint8_t part[TAGRV_KEY_MAX] = { 0 };
		size_t len = mem->mem[i] ?
			     mem->mem[i]->dev->ops->mem_key(mem->mem[i], part) :
			     0;

		assert(len <= MULTI_KEY_LEN);
		memcpy(to + i * MULTI_KEY_LEN, part,
		       TAGRV_MIN(len, (size_t) MULTI_KEY_LEN));
	}
	return cnt * MULTI_KEY_LEN;
}
