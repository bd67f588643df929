#include "textflag.h"

// func run(clone *Clone, steps *Step, failed *int) (pid int)
//
// The kernel keeps all registers but AX, CX and R11. The child uses no stack.
TEXT ·run(SB), NOSPLIT|NOFRAME, $0-32
	MOVQ	clone+0(FP), DI
	MOVQ	$88, SI		// the size of a Clone
	MOVQ	steps+8(FP), R12
	MOVQ	failed+16(FP), R13
	MOVQ	$435, AX	// clone3
	SYSCALL
	TESTQ	AX, AX
	JZ	child
	MOVQ	AX, pid+24(FP)
	RET

child:
	MOVQ	0(R12), AX
	MOVQ	8(R12), DI
	MOVQ	16(R12), SI
	MOVQ	24(R12), DX
	MOVQ	32(R12), R10
	MOVQ	40(R12), R8
	MOVQ	48(R12), R9
	SYSCALL
	MOVQ	56(R12), BX	// what is wanted
	ADDQ	$64, R12
	CMPQ	BX, $0
	JLT	child
	JGT	exact
	CMPQ	AX, $-4095
	JCS	child		// unsigned below: no error
	NEGQ	AX
	JMP	fail

exact:
	CMPQ	AX, BX
	JEQ	child
	MOVQ	$1, AX

fail:
	MOVQ	AX, 0(R13)
	MOVQ	$127, DI
	MOVQ	$231, AX	// exit_group
	SYSCALL
	INT	$3

// func call(number, a, b, c, d uintptr) (result int)
TEXT ·call(SB), NOSPLIT|NOFRAME, $0-48
	MOVQ	number+0(FP), AX
	MOVQ	a+8(FP), DI
	MOVQ	b+16(FP), SI
	MOVQ	c+24(FP), DX
	MOVQ	d+32(FP), R10
	SYSCALL
	MOVQ	AX, result+40(FP)
	RET
