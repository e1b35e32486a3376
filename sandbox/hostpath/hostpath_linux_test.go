package hostpath_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"haft"
	"haft/sandbox/hostpath"
)

// tree makes directories and returns the one above them, by its real path.
func tree(t *testing.T, dirs ...string) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if err := os.MkdirAll(filepath.Join(top, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// decide opens a path and asks a guard.
func decide(t *testing.T, g hostpath.Guard, name string) error {
	t.Helper()
	p, err := hostpath.Open(name)
	if err != nil {
		return err
	}
	defer p.File.Close()
	return g.Check(p)
}

func TestOpen_follows_no_link(t *testing.T) {
	top := tree(t, "real/sub", "data")
	if err := errors.Join(os.Symlink(top+"/data", top+"/real/z"), os.Symlink(top+"/real", top+"/alias"),
		os.Symlink("z", top+"/real/zz"), os.WriteFile(top+"/real/file", nil, 0o644),
		os.Link(top+"/real/file", top+"/real/twin"),
		unix.Mkfifo(top+"/real/fifo", 0o644)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]haft.Code{
		top + "/real/sub": "", top + "/real/file": "", top + "/real/z": haft.CodeDenied,
		top + "/real/zz": haft.CodeDenied, top + "/alias/sub": haft.CodeDenied,
		top + "/alias": haft.CodeDenied, top + "/real/z/": haft.CodeInvalid, top + "/real/../data": haft.CodeInvalid,
		top + "//data": haft.CodeInvalid,
		"relative":     haft.CodeInvalid, "/": haft.CodeInvalid, top + "/nothing": haft.CodeNotFound,
		top + "/real/file/x":              haft.CodeNotFound,
		"/proc/self/root" + top + "/data": haft.CodeDenied, "/proc/self/cwd": haft.CodeDenied,
		"/dev/fd": haft.CodeDenied, "/proc/self/fd/0": haft.CodeDenied,
		"/proc/thread-self": haft.CodeDenied, top + "/real/fifo": haft.CodeDenied,
		top + "/real/" + strings.Repeat("x", 1100): haft.CodeInvalid,
	} {
		p, err := hostpath.Open(name)
		if got := haft.CodeOf(err); err != nil && got != want || (err == nil) != (want == "") {
			t.Errorf("Open(%s): %v, want %q", strings.TrimPrefix(name, top), err, want)
		}
		if err == nil {
			if p.Real != name {
				t.Errorf("Open(%s).Real = %s", name, p.Real)
			}
			if p.Shared != (name == top+"/real/file") || p.Dir == p.Shared {
				t.Errorf("Open(%s) = %+v", name, p)
			}
			_ = p.File.Close() // only looked at
		}
	}
}

func TestGuard_keeps_directories_under_any_name(t *testing.T) {
	top := tree(t, "state/haft/keys", "state/other", "cache", "home", "etc")
	if err := errors.Join(os.WriteFile(top+"/etc/master.key", nil, 0o600),
		os.WriteFile(top+"/state/haft/haft.db", nil, 0o600),
		os.Symlink(top+"/state/haft", top+"/link"), os.WriteFile(top+"/etc/motd", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	g := hostpath.Guard{Dirs: []string{top + "/link", "", top + "/home/not/yet"},
		Files: []string{top + "/etc/master.key"}}
	for name, kept := range map[string]bool{
		"/state/haft": true, "/state/haft/keys": true, "/state/haft/haft.db": true, "/state": true, "": true,
		"/state/other": false, "/cache": false,
		"/home": true, "/etc": true, "/etc/master.key": true, "/etc/motd": false,
	} {
		if err := decide(t, g, top+name); (haft.CodeOf(err) == haft.CodeDenied) != kept ||
			err != nil && strings.Contains(err.Error(), top) {
			t.Errorf("%q: %v, want that it is kept: %v", name, err, kept)
		}
	}
	for name, kept := range map[string]bool{"/proc": true, "/sys": true, "/proc/1": true, "/usr": false} {
		if err := decide(t, g, name); (haft.CodeOf(err) == haft.CodeDenied) != kept {
			t.Errorf("%q: %v, want that it is kept: %v", name, err, kept)
		}
	}
}

func TestGuard_keeps_directories_behind_mounts(t *testing.T) {
	top := tree(t, "state/haft/keys", "a", "b", "c", "d/below", "merged", "upper", "work", "lower", "free")
	mount := func(source, at, kind string, flags uintptr, options string) {
		t.Helper()
		if err := unix.Mount(source, at, kind, flags, options); err != nil {
			if os.Getuid() == 0 && kind != "overlay" {
				t.Fatalf("mount: %v", err)
			}
			t.Skipf("mounting is not allowed here: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				t.Errorf("unmount: %v", err)
			}
		})
	}
	mount(top+"/state/haft", top+"/a", "", unix.MS_BIND, "")            // the directory itself
	mount(top+"/state/haft/keys", top+"/b", "", unix.MS_BIND, "")       // a part of it
	mount(top+"/state", top+"/c", "", unix.MS_BIND, "")                 // one that contains it
	mount(top+"/state/haft/keys", top+"/d/below", "", unix.MS_BIND, "") // below another
	g := hostpath.Guard{Dirs: []string{top + "/state/haft"}}
	for name, kept := range map[string]bool{"/a": true, "/a/keys": true, "/b": true, "/c": true, "/c/haft": true,
		"/d": true, "/d/below": true, "/free": false} {
		if err := decide(t, g, top+name); (haft.CodeOf(err) == haft.CodeDenied) != kept {
			t.Errorf("%q: %v, want that it is kept: %v", name, err, kept)
		}
	}
	mount("overlay", top+"/merged", "overlay", 0, "lowerdir="+top+"/state:"+top+"/lower,upperdir="+top+
		"/upper,workdir="+top+"/work")
	for name, kept := range map[string]bool{"/merged": true, "/merged/haft": true, "/merged/haft/keys": true,
		"/free": false} {
		if err := decide(t, g, top+name); (haft.CodeOf(err) == haft.CodeDenied) != kept {
			t.Errorf("overlay %q: %v, want that it is kept: %v", name, err, kept)
		}
	}
	// And the other way round: data on an overlay, whose layers somebody names.
	g = hostpath.Guard{Dirs: []string{top + "/merged/haft"}}
	if err := decide(t, g, top+"/state"); haft.CodeOf(err) != haft.CodeDenied {
		t.Errorf("a layer of the overlay with the data: %v", err)
	}
}

// newOverlay mounts an overlay by the mount API of Linux 6.8, with one directory in each
// option.
func newOverlay(t *testing.T, at string, options [][2]string) {
	t.Helper()
	fs, err := unix.Fsopen("overlay", unix.FSOPEN_CLOEXEC)
	if err != nil {
		t.Skipf("mounting is not allowed here: %v", err)
	}
	defer unix.Close(fs) // only needed until it is mounted
	for _, o := range options {
		if err := unix.FsconfigSetString(fs, o[0], o[1]); err != nil {
			t.Skipf("this kernel does not know %s: %v", o[0], err)
		}
	}
	if err := unix.FsconfigCreate(fs); err != nil {
		t.Skipf("an overlay cannot be mounted here: %v", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("fsmount: %v", err)
	}
	defer unix.Close(fd)
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatalf("move_mount: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
}

func TestGuard_keeps_directories_behind_layers_of_any_name(t *testing.T) {
	for _, name := range []string{"state", "st,a:t e=\\x", "link"} {
		t.Run(name, func(t *testing.T) {
			top := tree(t, name+"/haft/keys", "merged", "upper", "work", "lower", "free")
			layer := top + "/" + name
			if name == "link" { // as Docker names layers
				layer = top + "/short"
				if err := os.Symlink(top+"/"+name, layer); err != nil {
					t.Fatal(err)
				}
			}
			newOverlay(t, top+"/merged", [][2]string{
				{"lowerdir+", top + "/lower"}, {"lowerdir+", layer}, {"upperdir", top + "/upper"},
				{"workdir", top + "/work"}})
			g := hostpath.Guard{Dirs: []string{top + "/" + name + "/haft"}}
			for at, kept := range map[string]bool{"/merged": true, "/merged/haft": true, "/merged/haft/keys": true,
				"/free": false} {
				if err := decide(t, g, top+at); (haft.CodeOf(err) == haft.CodeDenied) != kept {
					t.Errorf("%q: %v, want that it is kept: %v", at, err, kept)
				}
			}
		})
	}
}

// The options are as Linux 5.10, 6.5 and 6.12 write them.
func TestLayerDirs(t *testing.T) {
	for options, want := range map[string]string{
		"rw,lowerdir=/a:/b,upperdir=/c,workdir=/d":                       "/a /b /c /d",
		"ro,lowerdir=/a:/b::/data,redirect_dir=on":                       "/a /b /data",
		`rw,lowerdir+=/a,lowerdir+=/b\054x,datadir+=/data,upperdir=/c:c`: "/a /b,x /c:c /data",
		`rw,lowerdir=/a\134:b:/c\040d,workdir=/w\075,xino=off,userxattr`: `/a:b /a\:b /c d /w=`,
		"rw,lowerdir=relative":                                           "",
	} {
		if got := strings.Join(hostpath.LayerDirs(options), " "); got != want {
			t.Errorf("LayerDirs(%s) = %s, want %s", options, got, want)
		}
	}
}

func TestFollow_says_where_links_are(t *testing.T) {
	top := tree(t, "bin", "opt/tool", "tenant")
	if err := errors.Join(os.WriteFile(top+"/opt/tool/run", []byte("#!x"), 0o755),
		os.Symlink("../opt/tool/run", top+"/bin/run"),
		os.Symlink(top+"/tenant/x", top+"/bin/x"), os.Symlink("../opt/tool/run", top+"/tenant/x"),
		os.Symlink("loop", top+"/bin/loop"),
		os.Symlink("tool", top+"/opt/alias")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]string{
		"/opt/tool/run": nil, "/bin/run": {"/bin"}, "/bin/x": {"/bin", "/tenant"}, "/opt/alias/run": {"/opt"},
	} {
		p, links, err := hostpath.Follow(top + name)
		if err != nil {
			t.Errorf("Follow(%s): %v", name, err)
			continue
		}
		for i := range links {
			links[i] = strings.TrimPrefix(links[i], top)
		}
		if p.Real != top+"/opt/tool/run" || strings.Join(links, " ") != strings.Join(want, " ") {
			t.Errorf("Follow(%s) = %s by %q, want links in %q", name, p.Real, links, want)
		}
		_ = p.File.Close() // only looked at
	}
	if _, _, err := hostpath.Follow(top + "/bin/loop"); err == nil {
		t.Error("a link to itself was followed")
	}
}
