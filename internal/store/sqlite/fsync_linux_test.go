package sqlite_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"haft"
	"haft/internal/store/sqlite"
)

// failSyncs has every fsync of the files fail that this process has open under a name, as
// on a disk that gives errors. Whoever opens such a file later is told that all is well:
// the kernel reports a page that it could not write once. It cannot be undone.
func failSyncs(t *testing.T, suffix string) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	const nr, argument = 0, 16 // offsets of struct seccomp_data
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	end := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	program := []unix.SockFilter{
		load(nr), equal(unix.SYS_FSYNC, 2, 0), equal(unix.SYS_FDATASYNC, 1, 0), end(unix.SECCOMP_RET_ALLOW),
		load(argument),
	}
	found := 0
	for _, link := range fds {
		if to, err := os.Readlink(link); err == nil && strings.HasSuffix(to, suffix) {
			var fd uint32
			for _, digit := range filepath.Base(link) {
				fd = fd*10 + uint32(digit-'0')
			}
			program = append(program, equal(fd, 0, 1), end(unix.SECCOMP_RET_ERRNO|uint32(unix.EIO)))
			found++
		}
	}
	if found == 0 {
		t.Fatalf("no file is open whose name ends with %s", suffix)
	}
	program = append(program, end(unix.SECCOMP_RET_ALLOW))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog))); errno != 0 {
		t.Fatalf("seccomp: %v", errno)
	}
}

// TestStore_an_fsync_fails_in_a_checkpoint: what the log holds stays there, and that is
// logged once. Everything that was acknowledged is found beside the database that the disk
// had before.
func TestStore_an_fsync_fails_in_a_checkpoint(t *testing.T) {
	const env = "HAFT_TEST_FSYNC"
	lost := os.Getenv(env)
	if lost == "" { // the other process cannot be used afterwards
		lost = t.TempDir()
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), env+"="+lost)
		out, err := cmd.CombinedOutput()
		_, after, _ := strings.Cut(string(out), "acknowledged: ")
		kept := int64(0)
		if n, scan := fmt.Sscan(after, &kept); err != nil || n != 1 {
			t.Fatalf("%v, %v\n%s", err, scan, out)
		}
		entries(t, lost, nil, kept)
		return
	}
	dir := t.TempDir()
	var said bytes.Buffer
	s, err := sqlite.Open(t.Context(), sqlite.Config{Dir: dir, Busy: true,
		Logger: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	keepSure(t, s, 0, 1)
	kept := int64(2)
	settle := func() {
		if head, err := s.Audit.AuditHead(t.Context(), "acme"); err != nil || head.Seq != kept {
			t.Fatalf("the audit ends at %d, %v, want %d", head.Seq, err, kept)
		}
	}
	settle()
	snapshot(t, dir, lost, database...)
	failSyncs(t, "haft.db-wal")
	add := func(size int) error {
		b := calls(int(kept), 1, haft.StatusSuccess)
		b.Sure, b.Records[0].Result.Stdout = true, strings.Repeat("x", size)
		err := s.Commit(t.Context(), b)
		if err == nil {
			kept++
		}
		return err
	}
	wal := filepath.Join(dir, "haft.db-wal")
	for { // until SQLite's log is long enough for a checkpoint: that of ours is not half full
		if err := add(1); err != nil {
			t.Fatal(err)
		}
		settle()
		if info, err := os.Stat(wal); err != nil || info.Size() > 4200*4120 {
			break
		}
	}
	for range 200 { // 20 MB through a log of 8
		if err = add(100_000); err != nil {
			break
		}
	}
	if err == nil {
		t.Error("everything is acknowledged, and nothing gets to the disk")
	}
	snapshot(t, dir, lost, "redo.log")
	_ = s.Close() // nothing gets to the disk
	if n := strings.Count(said.String(), "bring the database to the disk"); n != 1 {
		t.Errorf("the failure is logged %d times:\n%s", n, said.String())
	}
	fmt.Fprintln(os.Stdout, "acknowledged:", kept)
}
