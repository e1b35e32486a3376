package local

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that is alive and cannot be read has not ended, also if /proc says that there is none (hidepid).
func TestLook_knows_the_hidden_from_the_ended(t *testing.T) {
	child := exec.Command("true")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	self, gone := os.Getpid(), child.Process.Pid
	late := 0
	for _, tt := range []struct {
		name          string
		id            int
		read          func() error
		ended, failed bool
	}{
		{"readable", self, func() error { return nil }, false, false},
		{"ended", gone, func() error { return unix.ENOENT }, true, false},
		{"ended while it was read", gone, func() error { return unix.ESRCH }, true, false},
		{"hidden", self, func() error { return unix.ENOENT }, false, true},
		{"no descriptor is left", gone, func() error { return unix.EMFILE }, false, true},
		{"forbidden", self, func() error { return unix.EACCES }, false, true},
		{"listed before it is found", self, func() error {
			if late++; late == 1 {
				return unix.ENOENT
			}
			return nil
		}, false, false},
	} {
		ended, err := look(tt.id, tt.read)
		if ended != tt.ended || (err != nil) != tt.failed {
			t.Errorf("%s: ended %v, %v", tt.name, ended, err)
		}
	}
	if r, err := readProcesses(gone, false); err != nil || len(r.processes) != 0 {
		t.Errorf("readings of a process that has ended: %+v, %v", r, err)
	}
	if r, err := readProcesses(self, false); err != nil || len(r.processes) == 0 {
		t.Errorf("readings of this process: %+v, %v", r, err)
	}
}
