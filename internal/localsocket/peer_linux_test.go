package localsocket

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"haft"
	"haft/internal/skiptest"
)

// intruderVar names the directory that a copy of this test program connects to.
const intruderVar = "HAFT_TEST_SOCKET_DIR"

func TestMain(m *testing.M) {
	dir := os.Getenv(intruderVar)
	if dir == "" {
		os.Exit(m.Run())
	}
	fmt.Println(strings.ReplaceAll(intrusion(dir, os.Getenv("HAFT_TEST_MODE")), "\n", " "))
	os.Exit(0)
}

// intrusion connects to the socket of a directory, and says what happened.
func intrusion(dir, mode string) string {
	switch mode {
	case "filter":
		if err := addFilter(); err != nil {
			return err.Error()
		}
	case "client":
		if _, _, err := Dial(context.Background(), dir, Hello{Principal: olga()}); err != nil {
			return haft.MessageOf(err)
		}
		return "served"
	case "server":
		l, err := Listen(dir, Welcome{}, nil)
		if err != nil {
			return err.Error()
		}
		fmt.Println("listening")
		if _, err = l.Accept(); err != nil {
			return err.Error()
		}
		return "accepted"
	}
	// As an attacker does it, who does not care whose the socket is.
	conn, err := connect(context.Background(), dir)
	if err != nil {
		return "not reached: " + err.Error()
	}
	_ = send(conn, Hello{Protocol: protocol, Principal: olga()})
	var w Welcome
	if err := receive(conn, &w); err != nil {
		return "not answered: " + err.Error()
	}
	if w.Refused != nil {
		return "refused: " + w.Refused.Message
	}
	return "served"
}

// addFilter adds a filter that allows everything, as a sandbox adds one that does not.
func addFilter() error {
	program := []unix.SockFilter{{Code: unix.BPF_RET, K: 0x7fff0000}} // SECCOMP_RET_ALLOW
	fprog := unix.SockFprog{Len: 1, Filter: &program[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	const setModeFilter, tsync = 1, 1
	if _, _, errno := syscall.Syscall(unix.SYS_SECCOMP, setModeFilter, tsync,
		uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return errno
	}
	return nil
}

// openDir makes a directory that every user may look into, with this program in it.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "haft-socket-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "intruder"), text, 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// intruder is this program, run in another way.
func intruder(t *testing.T, dir, mode string, attr *syscall.SysProcAttr) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "intruder"))
	cmd.Dir, cmd.SysProcAttr = "/", attr
	cmd.Env = []string{intruderVar + "=" + dir, "HAFT_TEST_MODE=" + mode}
	return cmd
}

// intrude returns what an intruder says.
func intrude(t *testing.T, dir, mode string, attr *syscall.SysProcAttr) string {
	t.Helper()
	out, err := intruder(t, dir, mode, attr).CombinedOutput()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		skiptest.Lacking(t, "namespaces", err.Error())
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// The kernel says who a client is: another user, and a process that is confined, is refused even if every file lets it
// through.
func TestListener_refuses(t *testing.T) {
	dir := openDir(t)
	l := listen(t, dir)
	if err := os.Chmod(l.Path(), 0o666); err != nil {
		t.Fatal(err)
	}
	mapped := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
	groups := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	for _, tt := range []struct {
		name, want, mode string
		attr             *syscall.SysProcAttr
		root             bool
	}{
		{name: "the same user", want: "served", attr: &syscall.SysProcAttr{}},
		{name: "another user", want: "another user", root: true,
			attr: &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}},
		{name: "the same user in a user namespace", want: "other namespaces",
			attr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: mapped, GidMappings: groups}},
		{name: "the same user in a pid namespace", want: "other namespaces",
			attr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID, UidMappings: mapped,
				GidMappings: groups}},
		{name: "root in a pid namespace", want: "other namespaces", root: true,
			attr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}},
		{name: "the same user behind a filter", want: "more filters", attr: &syscall.SysProcAttr{},
			mode: "filter"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.root && os.Geteuid() != 0 {
				skiptest.Lacking(t, "root", "only root can be another user")
			}
			got := intrude(t, dir, tt.mode, tt.attr)
			if !strings.Contains(got, tt.want) {
				t.Errorf("got %s", got)
			}
		})
	}
}

// Root needs no key of an ordinary user's server, and that user's client sends nothing to the socket of another user.
func TestDial_users(t *testing.T) {
	if os.Geteuid() != 0 {
		skiptest.Lacking(t, "root", "only root can be another user")
	}
	nobody := func() *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	dir := openDir(t)
	l := listen(t, dir)
	if err := os.Chmod(l.Path(), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := intrude(t, dir, "client", nobody()); !strings.Contains(got, "is of another user: make sure") {
		t.Errorf("a client of another user's server: %s", got)
	}
	if err := errors.Join(l.Close(), os.Chown(dir, 65534, 65534), os.Remove(filepath.Join(dir, lockName))); err != nil {
		t.Fatal(err)
	}
	cmd := intruder(t, dir, "server", nobody())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "listening" {
		t.Fatalf("the server says %q", lines.Text())
	}
	if conn, w, err := Dial(t.Context(), dir, Hello{Principal: olga()}); err != nil || w.PID != cmd.Process.Pid {
		t.Errorf("Dial of root = %v, %+v, %v", conn, w, err)
	}
	if !lines.Scan() || lines.Text() != "accepted" {
		t.Errorf("the server says %q", lines.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
