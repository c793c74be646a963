/* Links the library and calls it: 0 where the struct page came out right. */
#include <stdint.h>

uint64_t no_std_check(void);

/* The prebuilt `alloc` was compiled to unwind and names this; nothing here ever unwinds. */
void rust_eh_personality(void)
{
}

int main(void)
{
	/* node 0, zone DMA32, nobody touched it last */
	return no_std_check() == 0x000fffffc0000000ull ? 0 : 1;
}
