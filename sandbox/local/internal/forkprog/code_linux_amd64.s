#include "textflag.h"

// code walks through a table of operations. It is called as a C function of the
// operation to begin with (DI) and of two words for a failure (SI), in another
// process: see program.go for what the words of an operation are.
//
//	BX the operation, BP the failure, R12 the flags, CX and R11 are the kernel's
TEXT ·code(SB), NOSPLIT|NOFRAME, $0
	PUSHQ BX
	PUSHQ BP
	PUSHQ R12
	MOVQ  DI, BX
	MOVQ  SI, BP

next:
	MOVQ 0(BX), AX
	CMPQ AX, $-1
	JEQ  return
	CMPQ AX, $-2
	JEQ  jump
	CMPQ AX, $-3
	JEQ  digits
	CMPQ AX, $-4
	JEQ  store
	MOVQ 56(BX), R12

	// The arguments. One whose flag is set is the address of a descriptor.
	MOVQ    8(BX), DI
	BTQ     $0, R12
	JCC     second
	MOVLQSX (DI), DI

second:
	MOVQ    16(BX), SI
	BTQ     $1, R12
	JCC     third
	MOVLQSX (SI), SI

third:
	MOVQ    24(BX), DX
	BTQ     $2, R12
	JCC     others
	MOVLQSX (DX), DX

others:
	MOVQ 32(BX), R10
	MOVQ 40(BX), R8
	MOVQ 48(BX), R9
	SYSCALL
	TESTQ AX, AX
	JLT   error

	MOVQ  72(BX), CX // where the result goes
	TESTQ CX, CX
	JEQ   saved
	MOVL  AX, (CX)

saved:
	MOVQ  88(BX), CX // where it goes on if the result is 0, or no error
	TESTQ CX, CX
	JEQ   check
	BTQ   $8, R12
	JCS   taken
	TESTQ AX, AX
	JNE   check

taken:
	MOVQ CX, BX
	JMP  next

check:
	MOVQ  80(BX), CX // the result that is wanted
	TESTQ CX, CX
	JEQ   step
	CMPQ  CX, $-1
	JNE   compare
	MOVQ  DX, CX

compare:
	CMPQ AX, CX
	JNE  failed

step:
	ADDQ $96, BX
	JMP  next

error:
	MOVQ AX, CX
	NEGQ CX
	CMPQ CX, 64(BX) // the error that is none
	JEQ  step

failed:
	MOVQ BX, 0(BP)
	MOVQ AX, 8(BP)
	MOVQ $-1, AX
	JMP  out

return:
	MOVQ 8(BX), AX

out:
	POPQ R12
	POPQ BP
	POPQ BX
	RET

jump:
	MOVQ 8(BX), BX
	JMP  next

store:
	MOVQ 8(BX), CX
	MOVQ 16(BX), AX
	MOVQ AX, (CX)
	JMP  step

digits:
	MOVQ 8(BX), CX
	MOVL (CX), AX    // the number, which is positive
	MOVQ 16(BX), DI  // the end of the digits
	MOVQ 24(BX), CX  // how many there are
	MOVQ 32(BX), R8  // what is before them
	MOVQ $10, R9

digit:
	TESTQ CX, CX
	JEQ   step
	DECQ  CX
	DECQ  DI
	TESTQ AX, AX
	JEQ   fill
	XORL  DX, DX
	DIVQ  R9
	ADDL  $48, DX
	MOVB  DX, (DI)
	JMP   digit

fill:
	MOVB R8, (DI)
	JMP  digit

	// The end, see Code.
	LONG $0x74666168
	LONG $0x646e6520

TEXT ·address(SB), NOSPLIT|NOFRAME, $0-8
	LEAQ ·code(SB), AX
	MOVQ AX, ret+0(FP)
	RET
