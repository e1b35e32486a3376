package soak

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// marker is an argument of the commands that sandboxes are left with, which no other process has.
const marker = "48210.7"

// atOnce is how many sandboxes live at the same time.
const atOnce = 100

// Sandboxes of E2B's API that nobody ends are gone at their timeout, 100 at once and 200 in all, and nothing is left of
// 100 more when the server is killed.
func TestE2B_sandboxes_leave_nothing(t *testing.T) {
	set := readSettings(t)
	w := &world{t: t, ctx: t.Context(), set: set, dir: t.TempDir()}
	data, temp := filepath.Join(w.dir, "data"), filepath.Join(w.dir, "tmp")
	w.must(os.Mkdir(data, 0o700))
	w.must(os.Mkdir(temp, 0o755))
	w.must(os.Chmod(w.dir, 0o755)) // sandboxes have a user of their own
	w.env = []string{"HOME=" + w.dir, "PATH=" + os.Getenv("PATH"), "TMPDIR=" + temp, "HAFT_LOCK_WAIT=10s"}
	key := strings.TrimSpace(w.command(data, "key", "create", "--org", "local", "--for-user", "soak", "--role",
		"admin"))
	w.addNode(data, 0)
	n := w.nodes[0]
	box := &sandboxClient{w: w, url: n.base(), key: key}
	one := box.create(300)
	box.run(one)
	box.end(one)
	w.settle("the first sandbox to end", func() bool { return len(marked()) == 0 })
	pid := n.cmd.Process.Pid
	before := stock(pid, temp)
	for round := range 2 {
		list := box.many(atOnce)
		if got := len(marked()); got != atOnce {
			t.Errorf("round %d: %d commands run in %d sandboxes", round, got, atOnce)
		}
		for _, id := range list {
			box.leave(id, 1)
		}
		w.settle("all sandboxes to end at their timeout", func() bool { return len(marked()) == 0 && box.count() == 0 })
	}
	// Idle cells are kept for the next calls, as many as were needed, up to a bound.
	w.settle("processes, cgroups, mounts and files to be as they were", func() bool {
		return stock(pid, temp).within(before, 16)
	})
	t.Logf("before %v, after 200 sandboxes %v", before, stock(pid, temp))
	list := box.many(atOnce)
	doomed, groups := tree(pid), groupsOf(pid)
	if len(list) != atOnce || len(doomed) < atOnce {
		t.Fatalf("%d sandboxes with %d processes", len(list), len(doomed))
	}
	_ = n.signal(syscall.SIGKILL) // it ends the process
	w.settle("all processes to be gone with the server", func() bool { return len(marked()) == 0 && !anyOf(doomed) })
	w.must(n.start(w.ctx))
	w.settle("the next server to remove what is left of the one that was killed", func() bool {
		for _, g := range groups {
			if _, err := os.Stat(g); err == nil {
				return false
			}
		}
		return stock(n.cmd.Process.Pid, temp).within(before, 16)
	})
	t.Logf("%d processes and %d cgroups are gone; now %v", len(doomed), len(groups), stock(n.cmd.Process.Pid, temp))
	w.must(n.signal(stop))
}

// settle waits until ok is true.
func (w *world) settle(what string, ok func() bool) {
	w.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(3 * time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			w.t.Fatalf("waited too long for %s: %v, %v", what, marked(), w.env)
		}
	}
}

// sandboxClient uses E2B's API as its clients do.
type sandboxClient struct {
	w        *world
	url, key string
}

// box is a sandbox, and the right to work in it.
type box struct {
	ID    string `json:"sandboxID"`
	Token string `json:"envdAccessToken"`
}

// ask sends a request with the key, and returns the status and the answer.
func (c *sandboxClient) ask(method, path, body string) (int, []byte) {
	req, err := http.NewRequestWithContext(c.w.ctx, method, c.url+"/e2b"+path, strings.NewReader(body))
	if err != nil {
		c.w.t.Error(err)
		return 0, nil
	}
	req.Header.Set("X-Api-Key", c.key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.w.t.Error(err)
		return 0, nil
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		c.w.t.Error(err)
	}
	return res.StatusCode, raw
}

// create makes a sandbox.
func (c *sandboxClient) create(seconds int) (b box) {
	status, raw := c.ask("POST", "/v2/sandboxes", fmt.Sprintf(`{"templateID": "base", "timeout": %d}`, seconds))
	if err := json.Unmarshal(raw, &b); err != nil || status != http.StatusCreated {
		c.w.t.Errorf("create: %d %s", status, raw)
	}
	return b
}

// end ends a sandbox.
func (c *sandboxClient) end(b box) {
	if status, raw := c.ask("DELETE", "/sandboxes/"+b.ID, ""); status != http.StatusNoContent {
		c.w.t.Errorf("end: %d %s", status, raw)
	}
}

// leave lets a sandbox live for so many seconds.
func (c *sandboxClient) leave(b box, seconds int) {
	status, raw := c.ask("POST", "/sandboxes/"+b.ID+"/timeout", fmt.Sprintf(`{"timeout": %d}`, seconds))
	if status != http.StatusNoContent {
		c.w.t.Errorf("set the timeout: %d %s", status, raw)
	}
}

// count returns how many sandboxes there are, up to a page.
func (c *sandboxClient) count() int {
	var list []box
	status, raw := c.ask("GET", "/v2/sandboxes", "")
	if err := json.Unmarshal(raw, &list); err != nil || status != http.StatusOK {
		c.w.t.Errorf("list: %d %s", status, raw)
	}
	return len(list)
}

// many makes n sandboxes, which live at the same time, and has each write a file and start a process that stays.
func (c *sandboxClient) many(n int) []box {
	all := make([]box, n)
	var work sync.WaitGroup
	slots := make(chan struct{}, 16) // of a machine with few processors
	for i := range all {
		work.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			all[i] = c.create(600)
			c.run(all[i])
		})
	}
	work.Wait()
	if got := c.count(); got != n {
		c.w.t.Errorf("%d sandboxes live at once, want %d", got, n)
	}
	return all
}

// run runs a command in a sandbox, and leaves its process running.
func (c *sandboxClient) run(b box) {
	args := `set -m; head -c 100000 /dev/zero > big; (sleep ` + marker + ` & disown); echo started`
	raw, err := json.Marshal(map[string]any{"stdin": false,
		"process": map[string]any{"cmd": "/bin/bash", "args": []string{"-c", args}}})
	if err != nil {
		c.w.t.Error(err)
		return
	}
	message := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(raw))), raw...)
	req, err := http.NewRequestWithContext(c.w.ctx, "POST", c.url+"/e2b/sandbox/process.Process/Start",
		bytes.NewReader(message))
	if err != nil {
		c.w.t.Error(err)
		return
	}
	for k, v := range map[string]string{"E2b-Sandbox-Id": b.ID, "E2b-Sandbox-Port": "49983", "X-Access-Token": b.Token,
		"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"} {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		c.w.t.Error(err)
		return
	}
	defer res.Body.Close()
	if raw, err = io.ReadAll(res.Body); err != nil || !bytes.Contains(raw, []byte("c3RhcnRlZA")) { // "started"
		c.w.t.Errorf("run: %d %q %v", res.StatusCode, raw, err)
	}
}

// marked lists the processes of commands that sandboxes were left with.
func marked() []string {
	var all []string
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if raw, _ := os.ReadFile(name); string(raw) == "sleep\x00"+marker+"\x00" {
			all = append(all, filepath.Base(filepath.Dir(name)))
		}
	}
	return all
}

// A stockOf counts what a server has.
type stockOf struct{ processes, groups, mounts, files int }

// within reports whether there is no more than there was, but for some.
func (s stockOf) within(old stockOf, more int) bool {
	return s.processes <= old.processes+more && s.groups <= old.groups+more && s.mounts <= old.mounts &&
		s.files <= old.files+more
}

// stock counts what a server has: processes below it, cgroups, mounts of the machine, and temporary files.
func stock(pid int, temp string) stockOf {
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	files, _ := filepath.Glob(filepath.Join(temp, "*"))
	return stockOf{len(tree(pid)), len(groupsOf(pid)), bytes.Count(mounts, []byte("\n")), len(files)}
}

// tree lists the processes below pid with their start times, so that a number that is used again is not taken for the
// old one.
func tree(pid int) []string {
	var all []string
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range lists {
		raw, _ := os.ReadFile(name)
		for _, child := range strings.Fields(string(raw)) {
			var n int
			if _, err := fmt.Sscan(child, &n); err == nil {
				all = append(append(all, born(child)), tree(n)...)
			}
		}
	}
	return all
}

// born is a process id with its start time, or with nothing if it has ended.
func born(pid string) string {
	raw, _ := os.ReadFile("/proc/" + pid + "/stat")
	_, after, _ := strings.Cut(string(raw), ") ")
	if f := strings.Fields(after); len(f) > 19 && f[0] != "Z" {
		return pid + " " + f[19]
	}
	return pid + " "
}

// anyOf reports whether one of the processes lives.
func anyOf(list []string) bool {
	for _, one := range list {
		if pid, at, _ := strings.Cut(one, " "); at != "" && born(pid) == one {
			return true
		}
	}
	return false
}

// groupName is the name of the directories of a server in /proc/PID/cgroup.
var groupName = regexp.MustCompile(`/(haft-[a-z0-9]+)/`)

// groupsOf lists the cgroups of a server, or nothing where there are none.
func groupsOf(pid int) []string {
	for _, one := range tree(pid) {
		child, _, _ := strings.Cut(one, " ")
		raw, _ := os.ReadFile("/proc/" + child + "/cgroup")
		m := groupName.FindSubmatch(raw)
		if m == nil {
			continue
		}
		var all []string
		for _, depth := range []string{"", "*/", "*/*/", "*/*/*/", "*/*/*/*/"} {
			for _, below := range []string{"", "/*", "/*/*"} {
				found, _ := filepath.Glob("/sys/fs/cgroup/" + depth + string(m[1]) + below)
				for _, name := range found {
					if info, err := os.Stat(name); err == nil && info.IsDir() {
						all = append(all, name)
					}
				}
			}
		}
		return all
	}
	return nil
}
