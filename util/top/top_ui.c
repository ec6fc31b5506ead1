/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The live view: see top_ui.h.
 *
 *   line 0         what is seen, how it is sorted
 *   heading, rows  one is selected
 *   details        of the selected endpoint, or help, if there is room
 *   last line      keys
 */
#include "util/top/top_ui.h"

#include <curses.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/clock.h"
#include "util/top/top_text.h"

#define ROWS_LEAST	3	/* lines of rows that details leave */

struct ui {
	struct top_ui_options options;
	struct top_look before, now;
	struct top_rows rows;
	bool	reverse, details, help, paused, end;
	size_t	selected, first;
	pid_t	selected_pid;		/* what is selected stays so when the order changes */
	uint32_t selected_number;
	uint64_t next_ns;
};

static volatile sig_atomic_t terminated;

static void on_signal(int signal)
{
	terminated = signal;
}

/* ---- what is selected ---- */

static uint32_t number_of(const struct top_row *row)
{
	return row->endpoint ? row->endpoint->record.number : 0;
}

static void note_selected(struct ui *ui)
{
	if (ui->selected >= ui->rows.cnt)
		return;
	ui->selected_pid = ui->rows.rows[ui->selected].process->pid;
	ui->selected_number = number_of(&ui->rows.rows[ui->selected]);
}

static void find_selected(struct ui *ui)
{
	for (size_t i = 0; i < ui->rows.cnt; i++)
		if (ui->rows.rows[i].process->pid == ui->selected_pid &&
		    number_of(&ui->rows.rows[i]) == ui->selected_number) {
			ui->selected = i;
			return;
		}
	if (ui->selected >= ui->rows.cnt)
		ui->selected = ui->rows.cnt ? ui->rows.cnt - 1 : 0;
	note_selected(ui);
}

static void sort(struct ui *ui)
{
	top_rows_sort(&ui->rows, ui->options.key, ui->reverse);
	find_selected(ui);
}

static int look(struct ui *ui)
{
	struct top_look now;
	int ret = top_look_take(&ui->options.source, &now);

	if (ret)
		return ret;
	top_rows_free(&ui->rows);
	top_look_free(&ui->before);
	ui->before = ui->now;
	ui->now = now;
	ret = top_rows_make(&ui->now, &ui->before, &ui->rows);
	sort(ui);
	return ret;
}

/* ---- drawing ---- */

/* Draws lines of text from line 'at' on, at most 'most'. Returns how many. */
static int draw_text(const struct top_text *text, int at, int most)
{
	const char *line = text->text, *end;
	int cnt = 0;

	while (line && *line && cnt < most) {
		end = strchr(line, '\n');
		mvaddnstr(at + cnt, 0, line,
			  (int) TAGRV_MIN(end ? end - line : (ptrdiff_t) strlen(line),
					  (ptrdiff_t) COLS));
		cnt++;
		line = end ? end + 1 : NULL;
	}
	return cnt;
}

static void print_help(struct top_text *text)
{
	static const char help[] =
		"up, down  select an endpoint        enter  its details      h  this text\n"
		"p c o i   sort by process, command, messages out, in        r  the other way\n"
		"b d u m   by bytes, posted receives, unexpected messages, their memory\n"
		"w         by sends under way        space  stop and go on   q  quit\n"
		"\n"
		"OUT/s, IN/s   messages and one-sided operations per second\n"
		"B/s           bytes of rendezvous messages and one-sided operations\n"
		"UNEXP, MEM    messages kept, memory     SENDS queued and under way\n"
		"CREDIT        bytes that peers still take before a receive matches\n"
		"UP WAIT PART  connections: in use, being made, being closed\n"
		"RETR          packets sent again by the device's ports, of all processes\n"
		"AGE           seconds since the process has shown this; now: it has answered\n";

	text->text = strdup(help);
	text->len = strlen(help);
}

static void draw_head(const struct ui *ui)
{
	char line[160];

	snprintf(line, sizeof(line), "tagrv_top: %zu processes, %zu lines, by %s%s, every %.3g s%s",
		 ui->now.cnt, ui->rows.cnt, top_key_name(ui->options.key),
		 ui->reverse ? " reversed" : "", ui->options.interval,
		 ui->paused ? ", STOPPED" : "");
	mvaddnstr(0, 0, line, COLS);
}

static void draw_rows(struct ui *ui, const struct top_table *table, int at, int room)
{
	if (ui->selected < ui->first)
		ui->first = ui->selected;
	if (room > 0 && ui->selected >= ui->first + (size_t) room)
		ui->first = ui->selected - (size_t) room + 1;
	for (int i = 0; i < room && ui->first + (size_t) i < ui->rows.cnt; i++) {
		size_t row = ui->first + (size_t) i;
		struct top_text text = { 0 };

		top_text_row(&text, table, &ui->rows.rows[row]);
		if (row == ui->selected)
			attron(A_REVERSE);
		draw_text(&text, at + i, 1);
		if (row == ui->selected)
			attroff(A_REVERSE);
		top_text_free(&text);
	}
}

/* What stands below the rows. */
static void collect_below(struct ui *ui, struct top_text *text)
{
	if (ui->help)
		print_help(text);
	else if (!ui->rows.cnt)
		top_text_nothing(text, ui->options.source.pid);
	else if (ui->details)
		top_text_details(text, &ui->rows.rows[ui->selected]);
}

static int count_lines(const struct top_text *text)
{
	int cnt = 0;

	for (size_t i = 0; i < text->len; i++)
		cnt += text->text[i] == '\n';
	return cnt;
}

static void draw(struct ui *ui)
{
	const struct top_table table = { .key = ui->options.key, .width = COLS };
	struct top_text heading = { 0 }, below = { 0 };
	int room = LINES - 3, lines;

	erase();
	draw_head(ui);
	top_text_heading(&heading, &table);
	attron(A_BOLD);
	draw_text(&heading, 1, 1);
	attroff(A_BOLD);
	collect_below(ui, &below);
	lines = ui->rows.cnt ? room - ROWS_LEAST - 1 : room;
	lines = TAGRV_MIN(count_lines(&below), TAGRV_MAX(lines, 0));
	if (lines)
		draw_text(&below, LINES - 1 - lines, lines);
	draw_rows(ui, &table, 2, room - lines);
	if (LINES > 1)
		mvaddnstr(LINES - 1, 0, "q quit  h help  enter details  r reverse  "
			  "p c o i b d u m w sort", COLS);
	refresh();
	top_text_free(&heading);
	top_text_free(&below);
}

/* ---- keys ---- */

static void handle_letter(struct ui *ui, int letter)
{
	for (int key = 0; key < TOP_KEYS; key++)
		if (top_key_letter((enum top_key) key) == letter) {
			ui->options.key = (enum top_key) key;
			ui->reverse = false;
			sort(ui);
		}
}

static void move_selected(struct ui *ui, int key)
{
	if (key == KEY_UP && ui->selected)
		ui->selected--;
	if (key == KEY_DOWN && ui->selected + 1 < ui->rows.cnt)
		ui->selected++;
	note_selected(ui);
}

static void handle(struct ui *ui, int key)
{
	switch (key) {
	case 'q':
		ui->end = true;
		break;
	case 'h':
	case '?':
		ui->help = !ui->help;
		break;
	case '\n':
	case '\r':
	case KEY_ENTER:
		ui->details = !ui->details;
		break;
	case 'r':
		ui->reverse = !ui->reverse;
		sort(ui);
		break;
	case 'L' & 31:
		clearok(curscr, true);
		break;
	case ' ':
		ui->paused = !ui->paused;
		break;
	case KEY_UP:
	case KEY_DOWN:
		move_selected(ui, key);
		break;
	default:
		handle_letter(ui, key);
	}
}

/* Waits for a key until it is time for the next look. */
static int wait_for_key(const struct ui *ui)
{
	uint64_t now = tagrv_clock_ns();
	uint64_t ns = ui->next_ns > now ? ui->next_ns - now : 0;

	timeout((int) (ns / 1000000 + 1));
	return getch();
}

/* Without a terminal each wait would end at once, without a key. */
static bool is_terminal_gone(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	int bytes;

	return poll(&input, 1, 0) > 0 && (ioctl(STDIN_FILENO, FIONREAD, &bytes) || !bytes);
}

static int run(struct ui *ui)
{
	int ret = 0, key;

	while (!ret && !ui->end && !terminated) {
		if (tagrv_clock_ns() >= ui->next_ns) {
			ui->next_ns = tagrv_clock_ns() +
				      (uint64_t) (ui->options.interval * 1e9);
			ret = ui->paused ? 0 : look(ui);
		}
		if (!ret)
			draw(ui);
		key = wait_for_key(ui);
		if (key != ERR)
			handle(ui, key);
		else if (is_terminal_gone())
			ui->end = true;
	}
	return ret;
}

int top_ui_run(const struct top_ui_options *options)
{
	struct ui ui = { .options = *options, .details = true };
	struct sigaction action = { .sa_handler = on_signal };
	SCREEN *screen;
	int ret;

	setlocale(LC_CTYPE, "");
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return -ENOTTY;
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
	cbreak();
	noecho();
	keypad(stdscr, true);
	curs_set(0);
	ret = run(&ui);
	endwin();
	delscreen(screen);
	top_rows_free(&ui.rows);
	top_look_free(&ui.before);
	top_look_free(&ui.now);
	return ret;
}
