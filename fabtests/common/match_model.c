/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Naive matcher: see match_model.h. Simple on purpose; do not make it faster.
 */
#include "common/match_model.h"

#include <rdma/fi_errno.h>
#include <stdlib.h>
#include <string.h>

bool match_model_init(struct match_model *model, size_t recv_limit,
		      size_t msg_limit)
{
	memset(model, 0, sizeof(*model));
	model->recv_limit = recv_limit;
	model->msg_limit = msg_limit;
	model->recvs = calloc(recv_limit, sizeof(*model->recvs));
	model->msgs = calloc(msg_limit, sizeof(*model->msgs));
	return model->recvs && model->msgs;
}

void match_model_fini(struct match_model *model)
{
	free(model->recvs);
	free(model->msgs);
}

static bool fits(const struct tagrv_match_want *want,
		 const struct match_model_msg *msg)
{
	if (want->space != msg->space)
		return false;
	if (want->peer != TAGRV_MATCH_ANY && want->peer != msg->peer)
		return false;
	if (want->space == TAGRV_SPACE_MSG)
		return true;
	return (want->tag | want->ignore) == (msg->tag | want->ignore);
}

static void remove_recv(struct match_model *model, size_t i)
{
	model->recv_cnt--;
	memmove(&model->recvs[i], &model->recvs[i + 1],
		(model->recv_cnt - i) * sizeof(*model->recvs));
}

static void remove_msg(struct match_model *model, size_t i)
{
	model->msg_cnt--;
	memmove(&model->msgs[i], &model->msgs[i + 1],
		(model->msg_cnt - i) * sizeof(*model->msgs));
}

int match_model_post(struct match_model *model,
		     const struct tagrv_match_want *want, uint64_t number,
		     struct match_model_msg *msg)
{
	model->posts++;
	for (size_t i = 0; i < model->msg_cnt; i++) {
		if (fits(want, &model->msgs[i])) {
			*msg = model->msgs[i];
			remove_msg(model, i);
			return 1;
		}
	}
	if (model->recv_cnt == model->recv_limit)
		return -FI_EAGAIN;
	model->recvs[model->recv_cnt].want = *want;
	model->recvs[model->recv_cnt].number = number;
	model->recvs[model->recv_cnt].seq = model->posts;
	model->recv_cnt++;
	return 0;
}

int match_model_arrive(struct match_model *model,
		       const struct match_model_msg *msg,
		       uint64_t *recv_number)
{
	model->arrivals++;
	for (size_t i = 0; i < model->recv_cnt; i++) {
		if (fits(&model->recvs[i].want, msg)) {
			*recv_number = model->recvs[i].number;
			if (!model->recvs[i].want.keep)
				remove_recv(model, i);
			return 1;
		}
	}
	if (model->msg_cnt == model->msg_limit)
		return -FI_EAGAIN;
	model->msgs[model->msg_cnt] = *msg;
	model->msgs[model->msg_cnt++].seq = model->arrivals;
	return 0;
}

bool match_model_cancel(struct match_model *model, uint64_t recv_number)
{
	for (size_t i = 0; i < model->recv_cnt; i++) {
		if (model->recvs[i].number == recv_number) {
			remove_recv(model, i);
			return true;
		}
	}
	return false;
}

uint64_t match_model_find(const struct match_model *model,
			  uint64_t (*name_of)(uint64_t number), uint64_t name)
{
	for (size_t i = 0; i < model->recv_cnt; i++)
		if (name_of(model->recvs[i].number) == name)
			return model->recvs[i].number;
	return 0;
}

bool match_model_peek(const struct match_model *model,
		      const struct tagrv_match_want *want,
		      struct match_model_msg *msg)
{
	for (size_t i = 0; i < model->msg_cnt; i++) {
		if (fits(want, &model->msgs[i])) {
			*msg = model->msgs[i];
			return true;
		}
	}
	return false;
}

bool match_model_take(struct match_model *model, uint64_t msg_number)
{
	for (size_t i = 0; i < model->msg_cnt; i++) {
		if (model->msgs[i].number == msg_number) {
			remove_msg(model, i);
			return true;
		}
	}
	return false;
}
