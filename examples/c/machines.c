/*
 * The C interface, used as a simulator uses it: a machine from its layout to its end, then ten
 * machines of different kernels at once from ten threads, each equal to what it is alone.
 *
 *   machines [LAYOUT]      LAYOUT: a boot log to boot as well
 *
 * Exits with 0 where everything is as it should be.
 */
#include <deferred_init.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

/* The heap, section by section: what tools that watch every access can follow. */
#define HEAP 2

static void must(enum di_status status, const char *what)
{
	if (status == DI_OK)
		return;
	fprintf(stderr, "machines: %s: %s: %s\n", what, di_status_name(status), di_last_error());
	exit(1);
}

#define MUST(call) must((call), #call)

static void must_be(int true_value, const char *what)
{
	if (true_value)
		return;
	fprintf(stderr, "machines: not so: %s\n", what);
	exit(1);
}

#define MUST_BE(value) must_be((value), #value)

static int on_progress(void *user, uint64_t done, uint64_t total)
{
	uint64_t *seen = user;

	MUST_BE(done <= total && done >= *seen);
	*seen = done;
	return 0;
}

static int on_progress_stop(void *user, uint64_t done, uint64_t total)
{
	(void)user;
	(void)done;
	(void)total;
	return 1;
}

/* Two nodes of 512 MiB with a hole between them. */
static di_layout *two_nodes(void)
{
	di_layout *layout;

	MUST(di_layout_new(&layout));
	MUST(di_layout_add_memory(layout, 0, 0, 512 * MIB));
	MUST(di_layout_add_memory(layout, 1, 1024 * MIB, 512 * MIB));
	MUST(di_layout_reserve(layout, 16 * MIB, 32 * MIB));
	MUST(di_layout_command_line(layout, "movable_node"));
	return layout;
}

static void print(const di_machine *machine, enum di_dump_kind kind)
{
	size_t needed;
	char *text;

	MUST(di_dump(machine, kind, NULL, 0, &needed));
	text = malloc(needed);
	MUST_BE(text != NULL);
	MUST(di_dump(machine, kind, text, needed, NULL));
	fputs(text, stdout);
	free(text);
}

static void look(const di_machine *machine, const di_profile *profile)
{
	uint32_t nodes, zones, i;
	uint64_t word, wrong = 1, pages = 0, pfn = 0;
	di_flags flags = { .size = sizeof(flags) };
	const uint64_t *page;
	char text[256];
	size_t words;

	MUST(di_node_count(machine, &nodes));
	MUST_BE(nodes == 2);
	for (i = 0; i < nodes; i++) {
		di_node node = { .size = sizeof(node) };

		MUST(di_node_get(machine, i, &node));
		printf("node %" PRIu32 ": %" PRIu64 " pages\n", node.node, node.present_pages);
		pages += node.present_pages;
	}
	MUST_BE(pages == 1024 * MIB / 4096);
	MUST(di_zone_count(machine, &zones));
	for (i = 0; i < zones; i++) {
		di_zone zone = { .size = sizeof(zone) };

		MUST(di_zone_get(machine, i, &zone));
		if (zone.present_pages)
			printf("node %" PRIu32 " zone %s: %" PRIu64 " of %" PRIu64 " free\n", zone.node,
			       zone.name, zone.free_pages, zone.managed_pages);
	}
	MUST_BE(di_zone_get(machine, zones, &(di_zone){ .size = sizeof(di_zone) }) == DI_NOT_FOUND);

	/* the first page of node 1 */
	pfn = 1024 * MIB / 4096;
	MUST_BE(di_pfn_valid(machine, pfn) && !di_pfn_valid(machine, pfn - 1));
	MUST_BE(di_next_valid_pfn(machine, pfn - 1) == pfn);
	page = di_pfn_to_page(machine, pfn);
	MUST_BE(page != NULL && di_page_to_pfn(machine, page) == pfn);
	MUST_BE(di_pfn_to_page(machine, pfn - 1) == NULL);
	MUST(di_page_words(machine, pfn, &word, 1, &words));
	MUST_BE(words == 8 && word == __atomic_load_n(page, __ATOMIC_RELAXED));
	MUST(di_flags_decode(profile, word, &flags));
	MUST_BE(flags.node == 1);
	MUST(di_flags_text(profile, word, text, sizeof(text), NULL));
	printf("pfn %#" PRIx64 ": %s\n", pfn, text);
	MUST(di_page_text(machine, pfn, text, sizeof(text), NULL));
	MUST_BE(di_page_text(machine, pfn, text, 1, NULL) == DI_SPACE);
	MUST(di_check(machine, &wrong));
	MUST_BE(wrong == 0);
}

static void use(const di_machine *machine)
{
	uint64_t pfns[64], before, after, brought;
	int i;

	MUST(di_deferred_pages(machine, &before));
	for (i = 0; i < 64; i++)
		MUST(di_alloc_pages(machine, i & 1, i % 11, DI_ANY_ZONE, i % 3, &pfns[i]));
	for (i = 0; i < 64; i += 2)
		MUST(di_free_pages(machine, pfns[i], i % 11));
	MUST_BE(di_free_pages(machine, pfns[0], 0) == DI_ARGUMENT);
	MUST_BE(di_alloc_pages(machine, 0, 99, DI_ANY_ZONE, 0, &pfns[0]) == DI_ARGUMENT);
	MUST_BE(di_alloc_pages(machine, 9, 0, DI_ANY_ZONE, 0, &pfns[0]) == DI_NOT_FOUND);
	for (i = 1; i < 64; i += 2)
		MUST(di_free_pages(machine, pfns[i], i % 11));
	/* growth initialises what was deferred; finishing does the rest */
	MUST(di_grow(machine, 1, 0, &brought));
	MUST(di_finish(machine, NULL));
	MUST(di_deferred_pages(machine, &after));
	MUST_BE(after == 0);
	printf("%" PRIu64 " pages were deferred, of which growing brought %" PRIu64 "\n", before,
	       brought);
}

static void plug(const di_machine *machine)
{
	const uint64_t start = 4096 * MIB, bytes = 256 * MIB;
	di_device device = {
		.size = sizeof(device),
		.node = 1,
		.start = 8192 * MIB,
		.bytes = 128 * MIB,
		.memory_type = 4,
		.vmemmap_shift = 9,
		.pagemap = 0xffff888100000000,
	};
	uint64_t pfn = device.start / 4096, id;
	const uint64_t *page;

	MUST(di_memory_add(machine, 1, start, bytes));
	MUST_BE(di_memory_add(machine, 1, start, bytes) == DI_CONFLICT);
	MUST(di_memory_online(machine, start, bytes, 2));
	MUST_BE(di_pfn_to_page(machine, start / 4096) != NULL);
	MUST_BE(di_memory_remove(machine, start, bytes) == DI_BUSY);
	MUST(di_memory_offline(machine, start, bytes));
	MUST(di_memory_remove(machine, start, bytes));
	MUST_BE(di_pfn_to_page(machine, start / 4096) == NULL);

	MUST(di_device_add(machine, &device, &id));
	MUST_BE(di_device_add(machine, &device, NULL) == DI_CONFLICT);
	page = di_pfn_to_page(machine, pfn);
	MUST_BE(page != NULL && page[1] == device.pagemap && di_page_to_pfn(machine, page) == pfn);
	MUST(di_device_remove(machine, id));
	MUST_BE(di_device_remove(machine, id) == DI_NOT_FOUND);
	MUST_BE(!di_pfn_valid(machine, pfn));
}

/* What a view says is what the functions say. */
static void view(const di_layout *layout)
{
	di_boot_options options = { .size = sizeof(options), .backing = 1 };
	di_view view = { .size = sizeof(view) };
	di_machine *machine;
	uint64_t pfn;

	MUST(di_boot(layout, NULL, &options, &machine));
	MUST(di_view_get(machine, &view));
	for (pfn = view.first_pfn; pfn < view.end_pfn; pfn += 4099) {
		const uint64_t *page = di_pfn_to_page(machine, pfn);

		if (!page)
			continue;
		MUST_BE(di_view_pfn_to_page(&view, pfn) == page);
		MUST_BE(di_view_page_to_pfn(&view, page) == pfn);
		if (di_pfn_valid(machine, pfn))
			MUST_BE(di_view_node(&view, page[0]) == (pfn >= 1024 * MIB / 4096));
	}
	MUST_BE(di_view_pfn_to_page(&view, view.end_pfn) == NULL);
	di_machine_free(machine);
}

static void one_machine(void)
{
	di_boot_options options = {
		.size = sizeof(options),
		.policy = "deferred",
		.scheduler = "deque",
		.writer = "template",
		.threads = 2,
		.backing = HEAP,
		.progress = on_progress,
	};
	di_layout *layout = two_nodes();
	di_profile *profile;
	di_machine *machine;
	uint64_t seen = 0, section;

	options.user = &seen;
	MUST(di_profile_preset("amd64", "7.3", &profile));
	MUST(di_profile_sizes(profile, NULL, NULL, &section));
	MUST_BE(section == 32768);
	MUST(di_boot(layout, profile, &options, &machine));
	MUST_BE(seen > 0);
	look(machine, profile);
	use(machine);
	plug(machine);
	print(machine, DI_DUMP_BOOT);
	print(machine, DI_DUMP_BUDDYINFO);
	print(machine, DI_DUMP_PAGETYPEINFO);
	print(machine, DI_DUMP_ZONEINFO);
	di_machine_free(machine);

	view(layout);

	/* what is wrong is refused, and says so */
	options.progress = on_progress_stop;
	MUST_BE(di_boot(layout, profile, &options, &machine) == DI_CANCELLED);
	options.progress = NULL;
	options.writer = "fast";
	MUST_BE(di_boot(layout, profile, &options, &machine) == DI_NOT_FOUND);
	MUST_BE(strstr(di_last_error(), "fast") != NULL);
	MUST_BE(di_boot(NULL, profile, NULL, &machine) == DI_NULL);
	MUST_BE(di_profile_preset("vax", "7.3", &profile) == DI_NOT_FOUND);
	MUST_BE(di_layout_add_memory(layout, 0, UINT64_MAX, 2) == DI_ARGUMENT);
	di_layout_free(layout);
	MUST(di_layout_new(&layout));
	MUST_BE(di_boot(layout, NULL, NULL, &machine) == DI_LAYOUT);
	di_layout_free(layout);
	di_profile_free(profile);
}

struct kind {
	const char *arch, *release;
	uint64_t mib;
	const char *scheduler;
};

static const struct kind kinds[10] = {
	{ "amd64", "6.1", 256, "static" },     { "amd64", "6.12", 384, "deque" },
	{ "amd64", "6.18", 512, "padata" },    { "amd64", "7.3", 640, "static" },
	{ "amd64-small", "7.3", 256, "deque" }, { "arm64-4k", "6.12", 512, "static" },
	{ "arm64-16k", "6.12", 512, "padata" }, { "arm64-4k", "7.3", 256, "padata" },
	{ "riscv64", "6.12", 384, "deque" },   { "ppc64-64k", "6.12", 512, "static" },
};

struct life {
	const struct kind *kind;
	uint64_t digest;
};

/* A whole life of a machine; how it ends is a number. */
static void *live(void *argument)
{
	struct life *life = argument;
	di_boot_options options = {
		.size = sizeof(options),
		.scheduler = life->kind->scheduler,
		.threads = 2,
		.backing = HEAP,
	};
	di_layout *layout;
	di_profile *profile;
	di_machine *machine;
	uint64_t pfns[32];
	int i;

	MUST(di_layout_new(&layout));
	MUST(di_layout_add_memory(layout, 0, 2048 * MIB, life->kind->mib / 2 * MIB));
	MUST(di_layout_add_memory(layout, 1, 4096 * MIB, life->kind->mib / 2 * MIB));
	MUST(di_profile_preset(life->kind->arch, life->kind->release, &profile));
	MUST(di_boot(layout, profile, &options, &machine));
	for (i = 0; i < 32; i++)
		MUST(di_alloc_pages(machine, i & 1, i % 7, DI_ANY_ZONE, i % 3, &pfns[i]));
	for (i = 0; i < 32; i += 3)
		MUST(di_free_pages(machine, pfns[i], i % 7));
	MUST(di_check(machine, NULL));
	MUST(di_digest(machine, &life->digest));
	di_machine_free(machine);
	di_profile_free(profile);
	di_layout_free(layout);
	return NULL;
}

static void ten_machines(void)
{
	struct life alone[10], together[10];
	pthread_t threads[10];
	int i, k;

	for (i = 0; i < 10; i++) {
		alone[i].kind = together[i].kind = &kinds[i];
		live(&alone[i]);
		for (k = 0; k < i; k++)
			MUST_BE(alone[i].digest != alone[k].digest);
	}
	for (i = 0; i < 10; i++)
		MUST_BE(pthread_create(&threads[i], NULL, live, &together[i]) == 0);
	for (i = 0; i < 10; i++) {
		MUST_BE(pthread_join(threads[i], NULL) == 0);
		MUST_BE(alone[i].digest == together[i].digest);
	}
	printf("ten machines at once are what each is alone\n");
}

static void from_file(const char *path)
{
	di_boot_options options = { .size = sizeof(options), .policy = "deferred" };
	di_layout *layout;
	di_machine *machine;
	di_profile *profile;
	enum di_status status;

	MUST(di_layout_open(path, &layout));
	MUST(di_profile_of_layout(layout, &profile));
	status = di_boot(layout, profile, &options, &machine);
	if (status == DI_HOST_MEMORY) {
		printf("%s: %s\n", path, di_last_error());
	} else {
		must(status, path);
		MUST(di_check(machine, NULL));
		print(machine, DI_DUMP_BOOT);
		di_machine_free(machine);
	}
	di_profile_free(profile);
	di_layout_free(layout);
}

int main(int argc, char **argv)
{
	one_machine();
	ten_machines();
	if (argc > 1)
		from_file(argv[1]);
	return 0;
}
