/*
 * vfork N P PROGRAM: runs PROGRAM with the arguments 1 .. N, P at once, and does
 * nothing else: no output is read, no file is written, no item is remembered. It is
 * the limit that a dispatcher of processes on this machine can come near, and not pass.
 */
#define _DEFAULT_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void start(char *program, long item)
{
	char number[24];
	snprintf(number, sizeof number, "%ld", item);
	char *words[] = {program, number, NULL};
	pid_t child = vfork();
	if (child == 0) {
		execve(program, words, environ);
		_exit(127);
	}
	if (child < 0) {
		perror("start a process");
		exit(1);
	}
}

/* reap waits for one process, whichever ends, and says whether it succeeded. */
static int reap(void)
{
	int status;
	if (wait(&status) < 0) {
		perror("wait for a process");
		exit(1);
	}
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int count, char **words)
{
	if (count != 4) {
		fputs("usage: vfork N P PROGRAM\n", stderr);
		return 2;
	}
	long items = atol(words[1]), most = atol(words[2]), live = 0, bad = 0;
	for (long item = 1; item <= items; item++) {
		if (live == most) {
			bad += !reap();
			live--;
		}
		start(words[3], item);
		live++;
	}
	for (; live > 0; live--)
		bad += !reap();
	if (bad > 0)
		fprintf(stderr, "%ld of %ld processes did not succeed\n", bad, items);
	return bad > 0;
}
