/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * model.c: models of devices as numbers and as text.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "core/compiler.h"
#include "xport/model.h"

Test(model, has_a_text_that_is_read_again)
{
	static const struct {
		uint32_t vendor, product;
		uint64_t speed;
		const char *text;
	} known[] = {
		{ 0x15b3, 0x1017, UINT64_C(100000000000), "15b3:1017@100000" },
		{ 0xffffff, 0, 2500000000u, "ffffff:0@2500" },
		{ 0, 1, 0, "0:1@0" },
		{ 0xff000001, 0xff0002, UINT64_MAX, "1:2@16777215" },
	};
	char text[TAGRV_MODEL_STRLEN];
	uint64_t again;

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(known); i++) {
		uint64_t model = tagrv_model_of(known[i].vendor, known[i].product,
						known[i].speed);

		cr_expect_str_eq(tagrv_model_text(model, text, sizeof(text)), known[i].text);
		cr_expect(tagrv_model_parse(text, &again) && again == model, "%s", text);
	}
	cr_expect_eq(tagrv_model_of(0, 0, 1000000000), 0);
	cr_expect(!tagrv_model_key(0) && tagrv_model_key(UINT64_C(1) << 40));
	cr_expect_neq(tagrv_model_key(1), tagrv_model_key(2));
	cr_expect_str_eq(tagrv_model_text(0, text, sizeof(text)), "?");
}

Test(model, longest_text_fits)
{
	char text[TAGRV_MODEL_STRLEN];
	uint64_t again;

	cr_expect_str_eq(tagrv_model_text(UINT64_MAX, text, sizeof(text)),
			 "ffffff:ffff@16777215");
	cr_expect(tagrv_model_parse(text, &again) && again == UINT64_MAX);
}

Test(model, other_texts_are_refused)
{
	static const char *const wrong[] = {
		"", "?", "15b3", "15b3:1017", "15b3:1017@", "15b3:@1", ":1017@1", "@", ":@",
		"15b3:1017@1 ", " 15b3:1017@1", "15b3:1017@1G", "15b3:1017@a", "0x15b3:1017@1",
		"15B3:1017@1", "1000000:1@1", "1:10000@1", "1:1@16777216", "0:0@1", "-1:1@1",
		"1:1@-1", "1:1@1@1", "99999999999999999999999:1@1",
		"1:1@18446744073709551617",
	};
	uint64_t model;

	for (size_t i = 0; i < TAGRV_ARRAY_SIZE(wrong); i++)
		cr_expect_not(tagrv_model_parse(wrong[i], &model), "'%s'", wrong[i]);
}
