package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox"
)

// A directory that another user owns, can write to or has put a link in the place of is not used.
func TestProvider_takes_no_directory_of_others(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"good": 0o755, "group": 0o775, "others": 0o757, "foreign": 0o755} {
		if err := errors.Join(os.Mkdir(at(name), 0o700), os.Chmod(at(name), mode)); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(os.Symlink("good", at("link")), os.WriteFile(at("file"), nil, 0o600))
	if os.Geteuid() == 0 {
		err = errors.Join(err, os.Chown(at("foreign"), 12345, 0))
	} else {
		err = errors.Join(err, os.Chmod(at("foreign"), 0o777))
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := isOwn(at("good")); err != nil {
		t.Errorf("a directory of ours: %v", err)
	}
	for _, name := range []string{"group", "others", "foreign", "link", "file"} {
		if err := isOwn(at(name)); !errors.Is(err, unix.EPERM) {
			t.Errorf("%s: %v, want it refused", name, err)
		}
		if err := ownDir(at(name)); err == nil {
			t.Errorf("ownDir(%s) takes it", name)
		}
	}
	if err := isOwn(at("nothing")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// Where another user has taken the name, a second is made once and found again.
func TestProvider_finds_its_directory_again(t *testing.T) {
	tmp := t.TempDir()
	first, err := userDir(tmp)
	if err != nil || first != filepath.Join(tmp, fmt.Sprintf("haft-%d", os.Geteuid())) {
		t.Fatal(first, err)
	}
	if err := os.Chmod(first, 0o777); err != nil {
		t.Fatal(err)
	}
	second, err := userDir(tmp)
	if err != nil || second == first || isOwn(second) != nil {
		t.Fatalf("%s after %s: %v", second, first, err)
	}
	if again, err := userDir(tmp); err != nil || again != second {
		t.Errorf("%s, %v, want %s again", again, err, second)
	}
	if _, err := userDir(filepath.Join(tmp, "x\x00")); err == nil {
		t.Error("a directory that cannot be made was made")
	}
}

// A lock file is not followed to another place, and held by one at a time.
func TestProvider_locks_its_number(t *testing.T) {
	dir := t.TempDir()
	held, err := lockFile(dir, 1, os.O_CREATE)
	if err != nil || held == nil {
		t.Fatal(held, err)
	}
	defer held.Close()
	if other, err := lockFile(dir, 1, os.O_CREATE); err != nil || other != nil {
		t.Errorf("a lock that is held: %v, %v", other, err)
	}
	if none, err := lockFile(dir, 2, 0); err != nil || none != nil {
		t.Errorf("a lock that is not there: %v, %v", none, err)
	}
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "3.lock")); err != nil {
		t.Fatal(err)
	}
	if f, err := lockFile(dir, 3, os.O_CREATE); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a link instead of a lock: %v, %v", f, err)
	}
}

func TestProvider_runs_as_no_foreign_owner(t *testing.T) {
	for _, tt := range []struct {
		privileged bool
		uid        int
		ok         bool
	}{
		{true, 0, true}, {false, 0, true}, {true, sandbox.FirstOwner, true}, {false, sandbox.FirstOwner, false},
		{true, sandbox.FirstOwner - 1, false}, {true, sandbox.FirstOwner + sandbox.Owners - 1, true},
		{true, sandbox.FirstOwner + sandbox.Owners, false}, {true, 1000, false}, {true, -1, false},
	} {
		mc := machine{privileged: tt.privileged}
		if err := mc.checkOwner(tt.uid); (err == nil) != tt.ok || !tt.ok && haft.CodeOf(err) != haft.CodeDenied {
			t.Errorf("privileged %t, user id %d: %v", tt.privileged, tt.uid, err)
		}
	}
}

// A pool gives each number once, and none when all are in use.
func TestProvider_gives_each_id_once(t *testing.T) {
	p := newIDs(&machine{privileged: true}, 100, 10, 3, 7)
	seen := map[int]bool{}
	for range 3 {
		id, err := p.take()
		if err != nil || seen[id] || id < 100 || id > 120 {
			t.Fatal(id, err)
		}
		seen[id] = true
	}
	if id, err := p.take(); haft.CodeOf(err) != haft.CodeUnavailable {
		t.Errorf("one too many: %d, %v", id, err)
	}
	p.free(110)
	if id, err := p.take(); err != nil || id != 110 {
		t.Errorf("%d, %v, want the number that was freed", id, err)
	}
	shared := newIDs(&machine{}, 100, 10, 3, 7)
	if id, err := shared.take(); err != nil || id != 7 {
		t.Errorf("%d, %v, want the id of an ordinary user", id, err)
	}
}

// What a run can make an observer remember is bounded, in number and in bytes, and cut lists say so.
func TestRun_is_observed_within_bounds(t *testing.T) {
	for name, text := range map[string]string{"many": "x", "long": strings.Repeat("x", 4<<10)} {
		o := &observer{seen: map[haft.Access]bool{}}
		for range 2 { // what is known is not cut
			o.record(haft.Access{Kind: haft.AccessProgram, Name: "/bin/sh"})
		}
		if len(o.found.Accesses) != 1 || o.found.Cut {
			t.Errorf("%s: %+v after one program", name, o.found)
		}
		for i := range maxAccesses + 10 {
			o.record(haft.Access{Kind: haft.AccessProgram, Name: fmt.Sprint(text, i)})
		}
		if n := len(o.found.Accesses); n > maxAccesses || o.bytes > maxAccessBytes || !o.found.Cut ||
			len(o.seen) != n {
			t.Errorf("%s: %d accesses of %d bytes, cut: %t", name, n, o.bytes, o.found.Cut)
		}
	}
}
