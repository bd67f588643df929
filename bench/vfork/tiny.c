/*
 * The smallest program worth starting: static, without a C library where we know
 * how, so that what a dispatcher costs is seen and not what the item costs.
 *
 * It writes its first argument, filled up with dots to 64 bytes, the last one a
 * newline: whose bytes they are can be told from the bytes. With -DSILENT it
 * writes nothing, and with -DPICKY it fails when its argument ends in two zeros.
 */
#ifdef PICKY
static int picked(const char *word)
{
	int n = 0;
	while (word && word[n])
		n++;
	return n > 1 && word[n - 1] == '0' && word[n - 2] == '0';
}
#else
static int picked(const char *word)
{
	(void)word;
	return 0;
}
#endif
#ifndef SILENT
enum { LINE = 64 };

/* volatile: or a compiler makes the loop a call of memset, which is not here */
static void fill(volatile char *line, const char *word)
{
	int i = 0;
	for (; word && word[i] && i < LINE - 1; i++)
		line[i] = word[i];
	for (; i < LINE - 1; i++)
		line[i] = '.';
	line[i] = '\n';
}
#endif

#if defined(__linux__) && defined(__x86_64__)

static long call(long number, long a, long b, long c)
{
	long answer;
	__asm__ volatile("syscall" : "=a"(answer) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return answer;
}
enum { WRITE = 1, EXIT = 231 };
/* the kernel leaves argc and argv on the stack, where no C function looks */
__asm__(".text\n.globl _start\n_start: mov %rsp, %rdi\nand $-16, %rsp\ncall begin\n");

#elif defined(__linux__) && defined(__aarch64__)

static long call(long number, long a, long b, long c)
{
	register long x8 __asm__("x8") = number, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	return x0;
}
enum { WRITE = 64, EXIT = 94 };
__asm__(".text\n.globl _start\n_start: mov x0, sp\nbl begin\n");

#else
#define LIBRARY
#include <unistd.h>
#endif

#ifdef LIBRARY

int main(int count, char **words)
{
#ifndef SILENT
	char line[LINE];
	fill(line, count > 1 ? words[1] : 0);
	return write(1, line, LINE) != LINE;
#else
	return picked(count > 1 ? words[1] : 0);
#endif
}

#else

void begin(long *stack)
{
	long bad = picked(stack[0] > 1 ? (const char *)stack[2] : 0);
#ifndef SILENT
	char line[LINE];
	fill(line, stack[0] > 1 ? (const char *)stack[2] : 0);
	bad = call(WRITE, 1, (long)line, LINE) != LINE;
#endif
	call(EXIT, bad, 0, 0);
	__builtin_unreachable();
}

#endif
