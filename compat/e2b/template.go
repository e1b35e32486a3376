package e2b

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"haft"
)

// A template is a named list of packages in the organisation's sandbox configuration. Its name is its id. Who may write
// the configuration makes templates, and all of the organisation make sandboxes from them.

// templateHandlers make, list and remove templates.
type templateHandlers struct{ *API }

// maxBuilds bounds the builds of an organisation that can be asked about. Older ones are forgotten, unless they run.
const maxBuilds = 32

// A build is a template that is being made. What it is asked for is in the fields; mu of the API guards the others.
type build struct {
	id, template string
	owner        haft.Principal
	status       string // waiting, building, ready or error
	step, reason string // of an error
	logs         []buildLog
}

// A buildLog is a line of what a build says.
type buildLog struct {
	At      time.Time `json:"timestamp"`
	Level   string    `json:"level"`
	Message string    `json:"message"`
}

// routes registers the operations on templates.
func (a templateHandlers) routes(on func(pattern string, act haft.Action, serve handler)) {
	read, write := haft.SandboxesRead, haft.SandboxesWrite
	on("POST /v3/templates", write, a.request)
	on("GET /templates/{id}/files/{hash}", write, a.noFiles)
	on("POST /v2/templates/{id}/builds/{build}", write, a.start)
	on("GET /templates/{id}/builds/{build}/status", write, a.status)
	on("GET /templates", read, a.list)
	on("GET /v2/templates", read, a.list)
	on("GET /templates/aliases/{id}", read, a.alias)
	on("GET /templates/{id}", read, a.alias)
	on("DELETE /templates/{id}", haft.CallsWrite, a.remove) // also of snapshots, which are everybody's own
	for _, old := range []string{"POST /templates", "POST /v2/templates", "POST /templates/{id}",
		"POST /templates/tags", "DELETE /templates/tags"} {
		on(old, write, func(http.ResponseWriter, *http.Request, haft.Principal) error {
			return &fault{code: "unimplemented", status: http.StatusNotImplemented, message: "this server builds " +
				"templates as E2B's clients of 2.x do, from packages, and they have no tags"}
		})
	}
}

// request answers the first request of a build, with the id of template and build.
func (a templateHandlers) request(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	var in struct {
		Name  string   `json:"name"`
		Alias string   `json:"alias"`
		Tags  []string `json:"tags"`
	}
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	name := cmp.Or(in.Name, in.Alias)
	if bare, tag, tagged := strings.Cut(name, ":"); tagged && tag == "default" {
		name = bare
	}
	switch {
	case !haft.IsTemplateName(name):
		return invalid("the name of a template has 1 to 64 lower-case letters, digits, dots, underscores and " +
			"hyphens, begins with a letter or a digit, and has no tag")
	case slices.Contains(templates, name):
		return invalid("this template is the server's own: choose another name")
	case slices.ContainsFunc(in.Tags, func(t string) bool { return t != "default" }):
		return invalid("templates have no tags here")
	}
	if _, err := a.config(r.Context(), p); err != nil {
		return err
	}
	b := &build{id: buildID(), template: name, owner: p, status: "waiting"}
	if err := a.addBuild(b); err != nil {
		return err
	}
	writeJSON(w, http.StatusAccepted, map[string]any{"templateID": name, "buildID": b.id, "public": false,
		"names": []string{name}, "aliases": []string{name}, "tags": []string{}})
	return nil
}

// addBuild remembers a build, and forgets the oldest one of the organisation that does not run if there are many.
func (a templateHandlers) addBuild(b *build) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, oldest := 0, -1
	for i, x := range a.builds {
		if x.owner.Org != b.owner.Org {
			continue
		}
		if all++; oldest < 0 && x.status != "building" {
			oldest = i
		}
	}
	if all >= maxBuilds {
		if oldest < 0 {
			return &haft.Error{Code: haft.CodeRateLimited, Message: "too many templates are being built"}
		}
		a.builds = slices.Delete(a.builds, oldest, oldest+1)
	}
	a.builds = append(a.builds, b)
	return nil
}

// buildID returns an id in the form of a UUID, which clients want.
func buildID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// noFiles answers who wants to send files for a template.
func (a templateHandlers) noFiles(http.ResponseWriter, *http.Request, haft.Principal) error {
	return invalid("COPY: " + noFiles)
}

// build returns the build of a request, if p has begun it.
func (a templateHandlers) build(r *http.Request, p haft.Principal) (*build, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.builds {
		if b.id == r.PathValue("build") && b.template == r.PathValue("id") && p.Owns(b.owner) {
			return b, nil
		}
	}
	return nil, missing("there is no such build")
}

// start reads what a template is made of, and begins to make it.
func (a templateHandlers) start(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	var in buildRequest
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	b, err := a.build(r, p)
	if err != nil {
		return err
	}
	t := haft.SandboxTemplate{Name: b.template, Created: time.Now().UTC()}
	if t.Needs, err = in.packages(); err != nil {
		return err
	}
	if from := in.FromTemplate; from != "" && !slices.Contains(templates, from) {
		c, err := a.config(r.Context(), p)
		if err != nil {
			return err
		}
		base, is := templateIn(c, from)
		if !is {
			return missing(unknown(c))
		}
		t.Needs.Pip = slices.Concat(base.Needs.Pip, t.Needs.Pip)
		t.Needs.NPM = slices.Concat(base.Needs.NPM, t.Needs.NPM)
	}
	a.mu.Lock()
	begins := b.status == "waiting"
	if begins { // else one that has ended would stay for ever, and take the place of others
		b.status = "building"
	}
	a.mu.Unlock()
	if !begins {
		return &haft.Error{Code: haft.CodeConflict, Message: "the build has begun"}
	}
	old, err := a.put(r.Context(), p, t.Name, &t, nil)
	if err != nil {
		a.end(b, "error", "base", haft.MessageOf(err))
		return err
	}
	a.work.Go(func() { a.make(p, b, t, old) })
	w.WriteHeader(http.StatusAccepted)
	return nil
}

// make installs the packages of a template, by a call that needs them. If that fails the template is what it was.
func (a templateHandlers) make(p haft.Principal, b *build, t haft.SandboxTemplate, old *haft.SandboxTemplate) {
	for _, one := range []struct {
		packages       []string
		language, code string
	}{{t.Needs.Pip, "python", "pass"}, {t.Needs.NPM, "javascript", "0"}} {
		if len(one.packages) == 0 {
			continue
		}
		a.log(b, "info", "installs "+strings.Join(one.packages, ", "))
		res, _, err := a.call(a.ctx, &sandbox{packages: t.Name}, p, "run_code", haft.NewCallID(),
			map[string]any{"language": one.language, "code": one.code},
			func(ev haft.Event) {
				var say struct{ Message string }
				if ev.Type == haft.EventProgress && json.Unmarshal(ev.Data, &say) == nil && say.Message != "" {
					a.log(b, "info", say.Message)
				}
			})
		if err == nil {
			err = refusedCall(res)
		}
		if err == nil {
			var out struct {
				Status haft.Status `json:"status"`
			}
			if json.Unmarshal(res.Value, &out) != nil || out.Status != haft.StatusSuccess {
				err = invalid("the interpreter does not start with these packages")
			}
		}
		if err != nil {
			message := haft.MessageOf(err)
			if undone := a.undo(p, t, old); undone != nil {
				message += "; and the template could not be removed: " + haft.MessageOf(undone)
			}
			a.end(b, "error", "", message)
			return
		}
	}
	a.end(b, "ready", "", "")
}

// undoTime bounds how long it takes to undo a build, also when the server ends.
const undoTime = 10 * time.Second

// undo makes a template what it was before a build, unless somebody has changed it since.
func (a templateHandlers) undo(p haft.Principal, t haft.SandboxTemplate, old *haft.SandboxTemplate) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), undoTime)
	defer cancel()
	_, err := a.put(ctx, p, t.Name, old, &t)
	return err
}

// maxLog bounds a line of what a build says: code of the packages can report more, and all lines stay in memory.
const maxLog = 1 << 10

// log adds a line to what a build says.
func (a templateHandlers) log(b *build, level, message string) {
	message = strings.ToValidUTF8(strings.Clone(message[:min(len(message), maxLog)]), "")
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(b.logs) < 1000 {
		b.logs = append(b.logs, buildLog{time.Now().UTC(), level, message})
	}
}

// end says how a build has ended.
func (a templateHandlers) end(b *build, status, step, reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b.status, b.step, b.reason = status, step, reason
}

// status answers how far a build is.
func (a templateHandlers) status(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	b, err := a.build(r, p)
	if err != nil {
		return err
	}
	from, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("logsOffset"), "0"))
	if err != nil || from < 0 {
		return invalid("logsOffset is a number from 0 on")
	}
	a.mu.Lock()
	entries := append([]buildLog{}, b.logs[min(from, len(b.logs)):]...)
	out := map[string]any{"templateID": b.template, "buildID": b.id, "status": b.status, "logs": []string{},
		"logEntries": entries[:min(len(entries), 100)]}
	if b.status == "error" {
		reason := map[string]any{"message": b.reason, "logEntries": []buildLog{}}
		if b.step != "" {
			reason["step"] = b.step
		}
		out["reason"] = reason
	}
	a.mu.Unlock()
	writeJSON(w, http.StatusOK, out)
	return nil
}

// config returns the sandbox configuration that has the templates.
func (a templateHandlers) config(ctx context.Context, p haft.Principal) (*haft.SandboxConfig, error) {
	if a.cfg.Configs == nil {
		return nil, missing("this server has no templates but its own")
	}
	c, err := a.cfg.Configs.SandboxConfig(ctx, p, string(a.cfg.Sandbox))
	if haft.CodeOf(err) == haft.CodeNotFound && a.cfg.Sandbox != haft.SandboxLocal { // that of local holds then
		c, err = a.cfg.Configs.SandboxConfig(ctx, p, string(haft.SandboxLocal))
	}
	if haft.CodeOf(err) == haft.CodeNotFound {
		return &haft.SandboxConfig{Type: haft.SandboxLocal, If: haft.IfNone}, nil
	}
	if err != nil {
		return nil, err
	}
	c.If = c.Revision()
	return c, nil
}

// put makes t the template of this name, or removes that if t is nil, and returns what it was. With instead, nothing is
// done unless the template is that one.
func (a templateHandlers) put(ctx context.Context, p haft.Principal, name string,
	t, instead *haft.SandboxTemplate) (old *haft.SandboxTemplate, err error) {
	for range 5 {
		c, err := a.config(ctx, p)
		if err != nil {
			return nil, err
		}
		was, is := templateIn(c, name)
		if old = nil; is {
			old = &was
		}
		if !is && t == nil || instead != nil && !(is && was.Created.Equal(instead.Created)) {
			return old, nil
		}
		c.Templates = slices.DeleteFunc(slices.Clone(c.Templates),
			func(x haft.SandboxTemplate) bool { return x.Name == name })
		if t != nil {
			c.Templates = append(c.Templates, *t)
		}
		if _, err = a.cfg.Configs.PutSandboxConfig(ctx, p, *c); haft.CodeOf(err) != haft.CodeConflict {
			return old, err
		}
	}
	return nil, &haft.Error{Code: haft.CodeUnavailable, Message: "the sandbox configuration is being changed by others"}
}

// templateIn returns the template of this name.
func templateIn(c *haft.SandboxConfig, name string) (haft.SandboxTemplate, bool) {
	for _, t := range c.Templates {
		if t.Name == name {
			return t, true
		}
	}
	return haft.SandboxTemplate{}, false
}

// unknown says which templates there are.
func unknown(c *haft.SandboxConfig) string {
	names := slices.Clone(templates)
	for _, t := range c.Templates {
		names = append(names, t.Name)
	}
	return "there is no such template; there are " + strings.Join(names, ", ")
}

// list lists the templates of the organisation, and those of the server.
func (a templateHandlers) list(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	c, err := a.config(r.Context(), p)
	if err != nil {
		return err
	}
	out := []map[string]any{}
	for _, t := range c.Templates {
		out = append(out, a.describe(t))
	}
	for _, name := range templates {
		out = append(out, a.describe(haft.SandboxTemplate{Name: name}))
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// describe describes a template in E2B's words.
func (a templateHandlers) describe(t haft.SandboxTemplate) map[string]any {
	limits := a.cfg.Limits.Or(haft.DefaultLimits())
	return map[string]any{"templateID": t.Name, "buildID": "00000000-0000-4000-8000-000000000000", "cpuCount": cpus(),
		"memoryMB": limits.Memory >> 20, "diskSizeMB": limits.Disk >> 20, "public": false,
		"aliases": []string{t.Name}, "names": []string{t.Name}, "createdAt": t.Created, "updatedAt": t.Created,
		"createdBy": nil, "lastSpawnedAt": nil, "spawnCount": 0, "buildCount": 1, "envdVersion": envdVersion,
		"buildStatus": "ready", "requirements": t.Needs}
}

// alias answers whether there is a template of this name.
func (a templateHandlers) alias(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	c, err := a.config(r.Context(), p)
	if err != nil {
		return err
	}
	name := r.PathValue("id")
	t, is := templateIn(c, name)
	if !is && !slices.Contains(templates, name) {
		return missing(unknown(c))
	}
	t.Name = name
	writeJSON(w, http.StatusOK, a.describe(t))
	return nil
}

// remove removes a snapshot of p, or a template of the organisation if p may write those.
func (a templateHandlers) remove(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	name := r.PathValue("id")
	if !haft.IsTemplateName(name) {
		return missing("there is no such template or snapshot")
	}
	k, err := snapshotHandlers{a.API}.find(r.Context(), p, snapshotPrefix+name)
	switch {
	case err == nil:
		err = a.cfg.Workspaces.RemoveWorkspace(r.Context(), p, k.workspace)
	case haft.CodeOf(err) == haft.CodeNotFound:
		var c *haft.SandboxConfig
		if c, err = a.config(r.Context(), p); err == nil {
			if _, is := templateIn(c, name); is {
				_, err = a.put(r.Context(), p, name, nil, nil)
			} else {
				err = missing("there is no such template or snapshot")
			}
		} else if haft.CodeOf(err) == haft.CodeDenied { // who may not see templates ends snapshots only
			err = missing("there is no such snapshot")
		}
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
