/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The board of this process: see board_layout.h. It is made by the first tagrv_board_join(),
 * and gone with the last tagrv_board_leave(). Until a viewer asks, only its first page has
 * memory.
 *
 * Functions may be called by several threads at once, but one slot has one writer at a
 * time.
 */
#ifndef TAGRV_BOARD_BOARD_H
#define TAGRV_BOARD_BOARD_H

#include <stdbool.h>

#include "board/board_layout.h"
#include "core/compiler.h"

struct tagrv_board;

/* NULL: there can be none (why: errno). Each success wants a tagrv_board_leave(). */
struct tagrv_board *tagrv_board_join(void);
void tagrv_board_leave(struct tagrv_board *board);

#define TAGRV_BOARD_NO_SLOT	(-1)

/*
 * An endpoint is open from here on. Returns its slot, or TAGRV_BOARD_NO_SLOT: all are in
 * use, and it is only counted. board: NULL: there is none.
 */
int tagrv_board_add(struct tagrv_board *board, uint32_t *number) TAGRV_WARN_UNUSED;
void tagrv_board_remove(struct tagrv_board *board, int slot);

/* What viewers have written last: when it has changed, one of them wants to see. */
uint64_t tagrv_board_asked(const struct tagrv_board *board);
void tagrv_board_write(struct tagrv_board *board, int slot,
		       const struct tagrv_board_record *record);
/* Copies text, cut off if it is too long. */
void tagrv_board_text(char *to, size_t size, const char *text);

/* For tests: the memory's descriptor. */
int tagrv_board_fd(const struct tagrv_board *board);

#endif
