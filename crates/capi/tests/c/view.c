/*
 * The fast path says what the calls say: flags words of any bits, taken apart inline and by
 * `di_flags_decode`, and every frame of a machine turned into its struct page and back, for kernels
 * that keep different things in a flags word.
 */
#include <deferred_init.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 100000

static void must(enum di_status status, const char *what)
{
	if (status == DI_OK)
		return;
	fprintf(stderr, "view: %s: %s: %s\n", what, di_status_name(status), di_last_error());
	exit(1);
}

#define MUST(call) must((call), #call)

static const struct {
	const char *arch, *release;
} kernels[] = {
	{ "amd64", "6.1" },	  { "amd64", "7.3" },	   { "amd64-small", "6.18" },
	{ "arm64-4k", "6.12" },	  { "arm64-16k", "7.3" },  { "arm64-64k", "6.12" },
	{ "riscv64", "6.12" },	  { "ppc64-4k", "6.1" },   { "ppc64-64k", "7.3" },
	{ "s390x", "6.18" },
};

#define KERNELS (sizeof(kernels) / sizeof(kernels[0]))

/* A word of any bits: xorshift, the same in every run. */
static uint64_t any_word(void)
{
	static uint64_t state = 0x9e3779b97f4a7c15;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void words(const char *kernel, const di_profile *profile, const di_view *view)
{
	int i;

	for (i = 0; i < WORDS; i++) {
		/* the ends as well */
		uint64_t word = i == 0 ? 0 : i == 1 ? UINT64_MAX : any_word();
		di_flags called = { .size = sizeof(called) };
		di_flags here = di_view_flags(view, word);

		MUST(di_flags_decode(profile, word, &called));
		if (memcmp(&called, &here, sizeof(here)) == 0 &&
		    di_view_node(view, word) == called.node &&
		    di_view_zone(view, word) == called.zone &&
		    di_view_section(view, word) == called.section)
			continue;
		fprintf(stderr, "view: %s: %#" PRIx64 " is taken apart in two ways\n", kernel, word);
		exit(1);
	}
}

/* Gives the frames that the view has. */
static uint64_t frames(const char *kernel, const di_machine *machine, const di_view *view)
{
	uint64_t pfn, found = 0;

	for (pfn = view->first_pfn; pfn < view->end_pfn; pfn++) {
		const uint64_t *page = di_pfn_to_page(machine, pfn);

		if (!page)
			continue;
		found++;
		if (di_view_pfn_to_page(view, pfn) == page && di_view_page_to_pfn(view, page) == pfn &&
		    di_page_to_pfn(machine, page) == pfn)
			continue;
		fprintf(stderr, "view: %s: frame %#" PRIx64 " has two struct pages\n", kernel, pfn);
		exit(1);
	}
	return found;
}

static void look(const char *kernel, const di_profile *profile, uint32_t backing)
{
	/* whole sections of every kernel */
	const uint64_t bytes = (uint64_t)1 << 30;
	di_boot_options options = { .size = sizeof(options), .backing = backing };
	di_view view = { .size = sizeof(view) };
	di_layout *layout;
	di_machine *machine;
	uint64_t page, found;

	MUST(di_profile_sizes(profile, &page, NULL, NULL));
	MUST(di_layout_new(&layout));
	MUST(di_layout_add_memory(layout, 0, bytes, bytes));
	MUST(di_boot(layout, profile, &options, &machine));
	MUST(di_view_get(machine, &view));
	words(kernel, profile, &view);
	found = frames(kernel, machine, &view);
	/* the heap has no range of addresses: a view finds nothing there, and says so */
	if (found != (backing == 2 ? 0 : bytes / page) ||
	    di_view_pfn_to_page(&view, view.end_pfn) != NULL ||
	    di_view_page_to_pfn(&view, (const uint64_t *)&view) != DI_NO_PFN) {
		fprintf(stderr, "view: %s: the view has %" PRIu64 " frames\n", kernel, found);
		exit(1);
	}
	di_machine_free(machine);
	di_layout_free(layout);
}

int main(void)
{
	size_t i;

	for (i = 0; i < KERNELS; i++) {
		char name[64];
		di_profile *profile;

		snprintf(name, sizeof(name), "%s %s", kernels[i].arch, kernels[i].release);
		MUST(di_profile_preset(kernels[i].arch, kernels[i].release, &profile));
		look(name, profile, 1);
		look(name, profile, 2);
		di_profile_free(profile);
	}
	printf("%zu kernels: inline is what the calls say\n", KERNELS);
	return 0;
}
