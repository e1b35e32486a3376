package tooltest

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"haft"
	"haft/internal/observe"
)

// watching collects what the calls of cases touch.
type watching struct {
	watchMu sync.Mutex
	calls   map[haft.CallID]*watchedCall
	found   map[*File]*fileTouched
}

// A watchedCall is a call that runs.
type watchedCall struct {
	files   bool // files and programs are observed, and not only hosts known
	touched []haft.Touched
}

// fileTouched is what all calls of a file have touched and used until now.
type fileTouched struct {
	all  haft.Touched
	most haft.Usage
}

// Learned is what the tools of a file need.
type Learned struct {
	File string `json:"file"`
	// YAML is for the test file.
	YAML string `json:"yaml"`
}

// observe is [engine.Config.Observe].
func (w *watching) observe(c haft.Call) (func(haft.Touched), bool) {
	w.watchMu.Lock()
	defer w.watchMu.Unlock()
	call := w.calls[c.ID]
	if call == nil {
		return nil, false
	}
	return func(t haft.Touched) {
		w.watchMu.Lock()
		defer w.watchMu.Unlock()
		call.touched = append(call.touched, t)
	}, call.files
}

// watch begins to watch a call. The function that it returns ends that, and returns what was touched, or nil if the
// tool did not run.
func (w *watching) watch(id haft.CallID, files bool) (seen func() *haft.Touched) {
	w.watchMu.Lock()
	defer w.watchMu.Unlock()
	if w.calls == nil {
		w.calls, w.found = map[haft.CallID]*watchedCall{}, map[*File]*fileTouched{}
	}
	call := &watchedCall{files: files}
	w.calls[id] = call
	return func() *haft.Touched {
		w.watchMu.Lock()
		defer w.watchMu.Unlock()
		delete(w.calls, id)
		if len(call.touched) == 0 {
			return nil
		}
		return &call.touched[len(call.touched)-1]
	}
}

// compareTouched keeps what a call touched for the whole file, and returns what is not declared.
func (r *run) compareTouched(tool string, t *haft.Touched, res *haft.Result) []Fault {
	if t == nil {
		return nil
	}
	r.watchMu.Lock()
	found := r.found[r.file]
	if found == nil {
		found = &fileTouched{}
		r.found[r.file] = found
	}
	found.all = observe.Merge(found.all, *t)
	if res != nil {
		found.most.Wall = max(found.most.Wall, res.Usage.Wall)
		found.most.MaxRSS = max(found.most.MaxRSS, res.Usage.MaxRSS)
	}
	r.watchMu.Unlock()
	if r.file.Touches == nil || r.cfg.Learn || res == nil || res.Tries == 0 {
		return nil
	}
	var faults []Fault
	for _, text := range declaredBy(*r.file.Touches, r.tools).Undeclared(tool, *t) {
		faults = append(faults, Fault{"touches", text})
	}
	return faults
}

// noHost is a host that no name leads to. Without a host, a tool has no network, and nobody sees what it would reach.
const noHost = "no-host.haft-test.invalid"

// watchHosts gives an observed tool that may reach no host a way out that leads nowhere: what it tries is seen then.
func (p *place) watchHosts(d *haft.Draft) {
	if len(d.Settings.Network) == 0 && (p.file.Touches != nil || p.cfg.Learn) {
		d.Settings.Network = []string{noHost}
	}
}

// declaredBy returns what a test file and the settings of its tools declare.
func declaredBy(d observe.Declared, tools []haft.Tool) observe.Declared {
	for _, t := range tools {
		d = d.With(t.Version.Settings)
	}
	d.Hosts = slices.DeleteFunc(d.Hosts, func(host string) bool { return host == noHost })
	return d
}

// toolsOf returns the tools of a file, which are the same for all of its cases.
func (w *world) toolsOf(f *File) []haft.Tool {
	for _, p := range w.places {
		if p.file == f {
			return p.tools
		}
	}
	return nil
}

// advisories adds what is known about the packages of the tools of a file.
func (w *world) advisories(f *File, add func(name string, closed bool, format string, args ...any)) {
	n := 0
	for _, t := range w.toolsOf(f) {
		for _, found := range t.Version.Review.Findings {
			if found.Scanner == "osv" {
				n++
				add("advisories", true, "%s: %s: %s", t.Name, found.Rule, found.Message)
			}
		}
	}
	if n == 0 {
		add("advisories", false, "no advisory is about a package of the tools")
	}
}

// touchGates compares what all calls of a file touched with what is declared, and learns from it.
func (r *runner) touchGates(w *world, f *File, add func(name string, closed bool, format string, args ...any)) {
	w.watchMu.Lock()
	defer w.watchMu.Unlock()
	found := w.found[f]
	if found == nil {
		found = &fileTouched{}
	}
	if r.cfg.Advisories != "" {
		w.advisories(f, add)
	}
	if may := f.Gates.UndeclaredHosts; may != nil && !*may {
		refused := denied(found.all)
		add("undeclared_hosts", len(refused) > 0, "%d hosts were refused%s", len(refused), refusedText(refused))
	}
	if r.cfg.Learn {
		d := observe.Learn(found.all)
		text := d.Proposal(found.most)
		for _, host := range denied(found.all) {
			text += fmt.Sprintf("# refused: %q\n", host)
		}
		r.report.Learned = append(r.report.Learned, Learned{f.Path, text})
		return
	}
	// Cases that are left out may need what the others do not.
	if f.Touches == nil || r.cfg.Run != nil || len(r.cfg.Tags) > 0 || r.focus {
		return
	}
	unused := declaredBy(*f.Touches, w.toolsOf(f)).Unused(found.all)
	for _, text := range unused {
		add("touches", true, "%s", text)
	}
	if len(unused) == 0 {
		add("touches", false, "all that is declared was touched")
	}
}

// denied returns the hosts that were refused.
func denied(all haft.Touched) []string {
	var hosts []string
	for _, a := range all.Accesses {
		if a.Kind == haft.AccessHost && a.Denied {
			hosts = append(hosts, a.Name)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// refusedText names some hosts.
func refusedText(hosts []string) string {
	if len(hosts) == 0 {
		return ""
	}
	return ": " + strings.Join(hosts[:min(len(hosts), 10)], ", ")
}
