#include "textflag.h"

// code walks through a table of operations. It is called as a C function of the
// operation to begin with (R0) and of two words for a failure (R1), in another
// process: see program.go for what the words of an operation are.
//
//	R9 the operation, R10 the failure, R11 the flags, R12 to R15 for a moment.
//	The kernel keeps all registers but R0.
TEXT ·code(SB), NOSPLIT|NOFRAME, $0
	MOVD R0, R9
	MOVD R1, R10

next:
	MOVD 0(R9), R8
	CMN  $1, R8
	BEQ  return
	CMN  $2, R8
	BEQ  jump
	CMN  $3, R8
	BEQ  digits
	CMN  $4, R8
	BEQ  store
	MOVD 56(R9), R11

	// The arguments. One whose flag is set is the address of a descriptor.
	MOVD 8(R9), R0
	TBZ  $0, R11, second
	MOVW (R0), R0

second:
	MOVD 16(R9), R1
	TBZ  $1, R11, third
	MOVW (R1), R1

third:
	MOVD 24(R9), R2
	TBZ  $2, R11, others
	MOVW (R2), R2

others:
	MOVD 32(R9), R3
	MOVD 40(R9), R4
	MOVD 48(R9), R5
	SVC  $0
	CMP  $0, R0
	BLT  error

	MOVD 72(R9), R12 // where the result goes
	CBZ  R12, saved
	MOVW R0, (R12)

saved:
	MOVD 88(R9), R12 // where it goes on if the result is 0, or no error
	CBZ  R12, check
	TBNZ $8, R11, taken
	CBNZ R0, check

taken:
	MOVD R12, R9
	B    next

check:
	MOVD 80(R9), R12 // the result that is wanted
	CBZ  R12, step
	CMN  $1, R12
	BNE  compare
	MOVD R2, R12

compare:
	CMP R12, R0
	BNE failed

step:
	ADD $96, R9
	B   next

error:
	NEG  R0, R12
	MOVD 64(R9), R13 // the error that is none
	CMP  R12, R13
	BEQ  step

failed:
	MOVD R9, 0(R10)
	MOVD R0, 8(R10)
	MOVD $-1, R0
	RET

return:
	MOVD 8(R9), R0
	RET

jump:
	MOVD 8(R9), R9
	B    next

store:
	MOVD 8(R9), R12
	MOVD 16(R9), R13
	MOVD R13, (R12)
	B    step

digits:
	MOVD  8(R9), R12
	MOVWU (R12), R0   // the number
	MOVD  16(R9), R1  // the end of the digits
	MOVD  24(R9), R2  // how many there are
	MOVD  32(R9), R3  // what is before them
	MOVD  $10, R4

digit:
	CBZ  R2, step
	SUB  $1, R2
	SUB  $1, R1
	CBZ  R0, fill
	UDIV R4, R0, R5
	MSUB R4, R0, R5, R6 // R6 = R0 - R5*10
	MOVD R5, R0
	ADD  $48, R6
	MOVB R6, (R1)
	B    digit

fill:
	MOVB R3, (R1)
	B    digit

	// The end, see Code.
	WORD $0x74666168
	WORD $0x646e6520

TEXT ·address(SB), NOSPLIT|NOFRAME, $0-8
	MOVD $·code(SB), R0
	MOVD R0, ret+0(FP)
	RET
