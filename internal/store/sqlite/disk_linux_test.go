package sqlite_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"haft"
	"haft/internal/skiptest"
	"haft/internal/store/sqlite"
)

// apart runs the test again, in a process with mounts of its own: others who test at
// the same time look at those of the machine. It reports false in that process.
func apart(t *testing.T) bool {
	t.Helper()
	const apartEnv = "HAFT_TEST_APART"
	if os.Getenv(apartEnv) != "" {
		return false
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), apartEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		lacking(t, err)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	return true
}

// lacking skips, unless that is forbidden.
func lacking(t *testing.T, err error) {
	t.Helper()
	skiptest.Lacking(t, "mount", fmt.Sprintf("a file system of its own cannot be mounted (root can): %v", err))
}

// mount mounts a small file system, which takes root.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		lacking(t, err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestStore_a_full_disk_is_said_and_survived(t *testing.T) {
	if apart(t) {
		return
	}
	dir := mount(t, "size=2m")
	s := open(t, sqlite.Config{Dir: dir})
	full, kept := error(nil), 0
	for i := range 10_000 {
		b := batch(fmt.Sprint("c", i))
		b.Records[0].Call.Turn = strings.Repeat("x", 2000)
		if full = s.Commit(t.Context(), b); full != nil {
			break
		}
		kept++
	}
	if full == nil {
		t.Fatal("the disk does not get full")
	}
	says(t, full, dir, haft.CodeUnavailable, "disk", "full")
	if _, err := s.Calls.Record(t.Context(), "acme", "c0"); err != nil {
		t.Errorf("a full disk cannot be read: %v", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(t.Context(), batch("after")); err != nil {
		t.Errorf("with room again: %v", err)
	}
	head, err := s.Audit.AuditHead(t.Context(), "acme")
	if err != nil || head.Seq != int64(kept)+1 {
		t.Errorf("the chain ends at %d, %v, want %d", head.Seq, err, kept+1)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	again := open(t, sqlite.Config{Dir: dir})
	if _, err := again.Calls.Record(t.Context(), "acme", haft.CallID(fmt.Sprint("c", kept-1))); err != nil {
		t.Errorf("the last call that was kept is lost: %v", err)
	}
}

// TestStore_a_full_disk_behind_the_log: what was acknowledged is kept in the log
// until there is room in the database.
func TestStore_a_full_disk_behind_the_log(t *testing.T) {
	if apart(t) {
		return
	}
	dir := mount(t, "size=18m")
	s := open(t, sqlite.Config{Dir: dir, Busy: true})
	full, kept := error(nil), 0
	for i := range 20_000 {
		b := batch(fmt.Sprint("c", i))
		b.Sure, b.Records[0].Call.Turn = true, strings.Repeat("x", 2000)
		if full = s.Commit(t.Context(), b); full != nil {
			break
		}
		kept++
	}
	if full == nil {
		t.Fatal("the disk does not get full")
	}
	says(t, full, dir, haft.CodeUnavailable, "disk", "full")
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	after := batch("after")
	after.Sure = true
	if err := s.Commit(t.Context(), after); err != nil {
		t.Errorf("with room again: %v", err)
	}
	for range 2 {
		head, err := s.Audit.AuditHead(t.Context(), "acme")
		if err != nil || head.Seq != int64(kept)+1 {
			t.Errorf("the chain ends at %d, %v, want %d", head.Seq, err, kept+1)
		}
		if _, err := s.Calls.Record(t.Context(), "acme", haft.CallID(fmt.Sprint("c", kept-1))); err != nil {
			t.Errorf("the last call that was kept is lost: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, sqlite.Config{Dir: dir})
	}
}

// TestStore_a_small_disk: a log does not take what the database needs, not even for a
// moment.
func TestStore_a_small_disk(t *testing.T) {
	if apart(t) {
		return
	}
	for size, want := range map[string]int64{"12m": 0, "24m": 8 << 20} {
		dir := mount(t, "size="+size)
		s := open(t, sqlite.Config{Dir: dir, Busy: true})
		b := batch("c0")
		b.Sure = true
		if err := s.Commit(t.Context(), b); err != nil {
			t.Errorf("%s: %v", size, err)
		}
		have := int64(0)
		if info, err := os.Stat(filepath.Join(dir, "redo.log")); err == nil {
			have = info.Size()
		} else if !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if have != want {
			t.Errorf("on a disk of %s the log has %d bytes, want %d", size, have, want)
		}
	}
}

func TestOpen_a_read_only_file_system(t *testing.T) {
	if apart(t) {
		return
	}
	dir := mount(t, "size=8m")
	keep(t, dir, 1)
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, haft.CodeUnavailable, "read-only")
}

func TestOpen_a_read_only_database(t *testing.T) {
	if apart(t) {
		return
	}
	dir := mount(t, "size=8m")
	keep(t, dir, 1)
	file := filepath.Join(dir, "haft.db")
	if err := syscall.Mount(file, file, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", file, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	refused(t, dir, haft.CodeUnavailable, "read-only")
}

func TestOpen_without_the_right_to_write(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everything: the read-only file systems are tried instead")
	}
	dir := t.TempDir()
	keep(t, dir, 1)
	for name, mode := range map[string]os.FileMode{"haft.db": 0o400, ".": 0o500} {
		path := filepath.Join(dir, name)
		old, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if name == "." {
			if err := os.Remove(filepath.Join(dir, "lock")); err == nil {
				t.Fatal("the directory can be written")
			}
		}
		refused(t, dir, haft.CodeUnavailable, "written")
		if err := os.Chmod(path, old.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}
