/*
 * Three ways to clear memory, to be called out of line: the choice that a
 * kernel makes at boot by what the processor says of itself. In a file of
 * their own so that no call is inlined and no length becomes a constant.
 */
#include <stddef.h>

void *clear_by_words(void *start, int byte, size_t length)
{
	unsigned long pattern = (unsigned char)byte * 0x0101010101010101ul;
	unsigned long *word = start;

	for (; length >= 64; length -= 64, word += 8) {
		word[0] = pattern;
		word[1] = pattern;
		word[2] = pattern;
		word[3] = pattern;
		word[4] = pattern;
		word[5] = pattern;
		word[6] = pattern;
		word[7] = pattern;
	}
	for (; length >= 8; length -= 8)
		*word++ = pattern;
	for (unsigned char *last = (unsigned char *)word; length; length--)
		*last++ = (unsigned char)byte;
	return start;
}

#ifdef __x86_64__
void *clear_by_stosq(void *start, int byte, size_t length)
{
	unsigned long pattern = (unsigned char)byte * 0x0101010101010101ul;
	void *at = start;
	size_t left = length / 8;

	__asm__ volatile("rep stosq" : "+D"(at), "+c"(left) : "a"(pattern) : "memory");
	for (unsigned char *last = at; length % 8; length--)
		*last++ = (unsigned char)byte;
	return start;
}

void *clear_by_stosb(void *start, int byte, size_t length)
{
	void *at = start;

	__asm__ volatile("rep stosb" : "+D"(at), "+c"(length) : "a"(byte) : "memory");
	return start;
}
#endif
