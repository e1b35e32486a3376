package local

import (
	"syscall"
	"testing"

	"haft"
	"haft/sandbox"
)

func TestAccount_judge(t *testing.T) {
	exited := func(code int) syscall.WaitStatus { return syscall.WaitStatus(code << 8) }
	tests := []struct {
		name  string
		a     account
		cause sandbox.Cause
		limit haft.FailureKind
		code  int
	}{
		{"exit", account{known: true, status: exited(2)}, sandbox.CauseExit, "", 2},
		{"signal", account{known: true, status: 11}, sandbox.CauseSignal, "", 0},
		{"init killed", account{}, sandbox.CauseSignal, "", 0},
		{"our timeout beats the signal it sent", account{stop: sandbox.CauseTimeout, limit: haft.FailTimeout,
			known: true, status: 15}, sandbox.CauseTimeout, haft.FailTimeout, 0},
		{"killed for memory", account{known: true, status: 9, oom: 1}, sandbox.CauseLimit,
			haft.FailMemory, 0},
		{"a child was killed for memory, and that was handled",
			account{known: true, status: exited(0), oom: 1}, sandbox.CauseExit, "", 0},
		{"fork bomb that ends well", account{known: true, status: exited(0), refused: 100},
			sandbox.CauseLimit, haft.FailPIDs, 0},
		{"a refused fork that was handled", account{known: true, status: exited(0), refused: 1},
			sandbox.CauseExit, "", 0},
		{"a refused fork and failure", account{known: true, status: exited(1), refused: 1},
			sandbox.CauseLimit, haft.FailPIDs, 0},
		{"forbidden call", account{known: true, status: 31}, sandbox.CauseBlocked, "", 0},
		{"forbidden call, told by a shell", account{known: true, status: exited(159)}, sandbox.CauseBlocked, "", 0},
		{"file size", account{known: true, status: 25}, sandbox.CauseLimit, haft.FailFileSize, 0},
		{"processor time of one process", account{known: true, status: 24}, sandbox.CauseLimit, haft.FailCPU, 0},
		{"full disk and failure", account{known: true, status: exited(1), diskFull: true}, sandbox.CauseLimit,
			haft.FailDisk, 0},
		{"full disk and success", account{known: true, status: exited(0), diskFull: true}, sandbox.CauseExit, "", 0},
		{"no inodes and failure", account{known: true, status: exited(1), inodesFull: true}, sandbox.CauseLimit,
			haft.FailInodes, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var e sandbox.Exit
			tt.a.judge(&e)
			if e.Cause != tt.cause || e.Limit != tt.limit || e.Code != tt.code {
				t.Errorf("judge = %s %s %d, want %s %s %d", e.Cause, e.Limit, e.Code, tt.cause, tt.limit, tt.code)
			}
		})
	}
}
