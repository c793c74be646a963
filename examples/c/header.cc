// The header in C++: it compiles without a warning, and a machine boots.
#include <deferred_init.h>

int main()
{
	di_layout *layout = nullptr;
	di_machine *machine = nullptr;
	uint64_t wrong = 1;
	bool fine = di_layout_new(&layout) == DI_OK &&
		    di_layout_add_memory(layout, 0, 0, uint64_t{1} << 28) == DI_OK &&
		    di_boot(layout, nullptr, nullptr, &machine) == DI_OK &&
		    di_check(machine, &wrong) == DI_OK && wrong == 0;
	di_view view = {};
	view.size = sizeof view;
	fine = fine && di_view_get(machine, &view) == DI_OK &&
	       di_view_page_to_pfn(&view, di_view_pfn_to_page(&view, 7)) == 7;
	di_machine_free(machine);
	di_layout_free(layout);
	return fine ? 0 : 1;
}
