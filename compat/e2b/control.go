package e2b

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"haft"
)

// The version of envd that clients take the sandbox for: it decides which features they use.
const envdVersion = "0.6.13"

// Bounds on what a request may say about a sandbox.
const (
	maxPairs      = 256      // of metadata, or variables
	maxPairsBytes = 64 << 10 // together
	maxPage       = 100
	defaultTime   = 300 // seconds
)

// newSandbox is the request to make a sandbox. What is missing here is not looked at: see docs/e2b.md.
type newSandbox struct {
	Template string            `json:"templateID"`
	Timeout  *int64            `json:"timeout"`
	Metadata map[string]string `json:"metadata"`
	Env      map[string]string `json:"envVars"`
	Paused   bool              `json:"autoPause"`
	Volumes  []any             `json:"volumeMounts"`
}

// sandboxAnswer is a sandbox for the client that works in it.
type sandboxAnswer struct {
	ID       string  `json:"sandboxID"`
	Template string  `json:"templateID"`
	Client   string  `json:"clientID"`
	Version  string  `json:"envdVersion"`
	Token    string  `json:"envdAccessToken"`
	Traffic  string  `json:"trafficAccessToken"`
	Domain   *string `json:"domain"`
}

// sandboxInfo describes a sandbox.
type sandboxInfo struct {
	ID       string            `json:"sandboxID"`
	Template string            `json:"templateID"`
	Client   string            `json:"clientID"`
	Started  time.Time         `json:"startedAt"`
	Ends     time.Time         `json:"endAt"`
	CPUs     int               `json:"cpuCount"`
	Memory   int64             `json:"memoryMB"`
	Disk     int64             `json:"diskSizeMB"`
	Version  string            `json:"envdVersion"`
	State    string            `json:"state"`
	Metadata map[string]string `json:"metadata"`
	Domain   *string           `json:"domain,omitempty"`
}

// controlHandlers are the control API.
type controlHandlers struct{ *API }

// A handler serves an operation of the control API.
type handler func(w http.ResponseWriter, r *http.Request, p haft.Principal) error

// routes registers them.
func (a controlHandlers) routes() {
	on := func(pattern string, act haft.Action, serve handler) {
		a.control.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			p, err := a.identify(w, r, act)
			if err == nil {
				err = serve(w, r, p)
			}
			if err != nil {
				faultOf(err).write(w, r.PathValue("id"))
			}
		})
	}
	read, write, keep := haft.CallsRead, haft.CallsWrite, snapshotHandlers{a.API}
	for _, version := range []string{"", "/v2"} {
		on("POST "+version+"/sandboxes", write, a.createSandbox)
		on("GET "+version+"/sandboxes", read, a.listSandboxes)
		on("POST "+version+"/sandboxes/{id}/connect", write, a.connect)
		on("GET "+version+"/sandboxes/{id}/metrics", write, a.metrics)
		on("POST "+version+"/sandboxes/{id}/pause", write, keep.pause)
	}
	on("GET /sandboxes/{id}", read, a.showSandbox)
	on("DELETE /sandboxes/{id}", write, a.endSandbox)
	on("POST /sandboxes/{id}/timeout", write, a.setTimeout)
	on("POST /sandboxes/{id}/refreshes", write, a.refresh)
	on("POST /sandboxes/{id}/resume", write, a.connect)
	on("POST /sandboxes/{id}/snapshots", write, keep.snapshot)
	on("GET /snapshots", read, keep.listSnapshots)
	on("POST /sandboxes/{id}/fork", write, a.cannot("fork sandboxes: make a snapshot, and sandboxes from it"))
	on("PUT /sandboxes/{id}/network", write, a.cannot("change the network: policy decides it"))
	templateHandlers{a.API}.routes(on)
	a.control.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, err := a.identify(w, r, haft.CallsRead)
		if err == nil {
			err = errNoRoute
		}
		faultOf(err).write(w, "")
	})
}

// cannot answers operations on a sandbox that are not here, with what it cannot do.
func (a controlHandlers) cannot(do string) handler {
	return func(_ http.ResponseWriter, r *http.Request, p haft.Principal) error {
		if _, err := a.own(r.Context(), p, r.PathValue("id")); err != nil {
			return err
		}
		return &fault{code: "unimplemented", status: http.StatusNotImplemented, message: "this server cannot " + do}
	}
}

// checkPairs bounds metadata and variables.
func checkPairs(of string, pairs map[string]string) error {
	size := 0
	for k, v := range pairs {
		size += len(k) + len(v)
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return invalid(of + " has an empty key, or holds = in a key, or NUL")
		}
	}
	if len(pairs) > maxPairs || size > maxPairsBytes {
		return invalid(fmt.Sprintf("%s has more than %d entries or %d bytes", of, maxPairs, maxPairsBytes))
	}
	return nil
}

// lifetime returns for how long a sandbox is asked.
func lifetime(seconds *int64) (haft.Millis, error) {
	n := int64(defaultTime)
	if seconds != nil {
		n = *seconds
	}
	if n < 0 || n > 86400 {
		return 0, invalid("a timeout is from 0 to 86400 seconds")
	}
	return haft.Millis(time.Duration(max(n, 1)) * time.Second), nil
}

// maxIdle makes a session live as long as it may, though nobody uses it.
const maxIdle = haft.Millis(24 * time.Hour)

func (a controlHandlers) createSandbox(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	var in newSandbox
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	ttl, err := lifetime(in.Timeout)
	if err == nil {
		err = checkPairs("metadata", in.Metadata)
	}
	if err == nil {
		err = checkPairs("envVars", in.Env)
	}
	switch {
	case err != nil:
		return err
	case in.Template == "" || len(in.Template) > 128:
		return invalid("templateID is missing, or longer than 128 bytes")
	case in.Paused || len(in.Volumes) > 0:
		return invalid("sandboxes are not paused at their timeout, and have no volumes")
	}
	if _, err := a.live(r.Context(), p); err != nil { // it drops those that have ended
		return err
	}
	s := a.newSandbox(p, &in)
	workspace, err := a.base(r.Context(), p, s)
	if err == nil {
		err = a.openWith(r.Context(), s, ttl, workspace)
	}
	if err != nil {
		s.cancel()
		return err
	}
	g, err := s.grantTo(p)
	if err == nil {
		err = a.add(s)
	}
	if err != nil {
		s.cancel()
		_ = a.cfg.Sessions.EndSession(context.WithoutCancel(r.Context()), p, s.session) // nobody knows of it
		return err
	}
	writeJSON(w, http.StatusCreated, a.answer(s, g))
	return nil
}

// templates are the names of E2B's own templates. All are the same sandbox.
var templates = []string{"base", "code-interpreter-v1", "code-interpreter-beta"}

// base says where the files and packages of a sandbox come from, by its template: a snapshot of p, or a template of the
// organisation.
func (a controlHandlers) base(ctx context.Context, p haft.Principal, s *sandbox) (workspace string, err error) {
	switch {
	case slices.Contains(templates, s.template):
		return "", nil
	case !haft.IsTemplateName(s.template):
		return "", missing("there is no such template; there are " + strings.Join(templates, ", "))
	}
	k, err := snapshotHandlers{a.API}.find(ctx, p, snapshotPrefix+s.template)
	if haft.CodeOf(err) == haft.CodeNotFound {
		s.packages = s.template
		return "", nil
	}
	if err != nil {
		return "", err
	}
	s.packages = k.Packages
	return k.workspace, nil
}

// open makes the session of a sandbox, by a call.
func (a controlHandlers) open(ctx context.Context, s *sandbox, ttl haft.Millis) error {
	args := map[string]any{"session": s.id, "argv": []string{}, "tty": true}
	res, _, err := a.call(ctx, s, s.owner, "run_command", haft.NewCallID(), args, func(haft.Event) {})
	if err == nil {
		err = refusedCall(res)
	}
	if s.packages != "" && res != nil && res.Status == haft.StatusValidation { // nothing else can be wrong in it
		return missing(haft.MessageOf(err) + "; the server's own are " + strings.Join(templates, ", "))
	}
	if err != nil {
		return err
	}
	info, err := a.cfg.Sessions.ExtendSession(ctx, s.owner, s.id, ttl, maxIdle)
	if err != nil {
		_ = a.cfg.Sessions.EndSession(context.WithoutCancel(ctx), s.owner, s.id) // nobody knows of it
		return err
	}
	s.session = info.ID
	s.setEnd(info.Expires)
	return nil
}

// call makes a call in a sandbox.
func (a *API) call(ctx context.Context, s *sandbox, p haft.Principal, tool string, id haft.CallID,
	args map[string]any, show func(haft.Event)) (*haft.Result, bool, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, false, fmt.Errorf("encode the arguments of a call: %w", err)
	}
	res, shown, err := a.cfg.Call(ctx, haft.Call{ID: id, Tool: tool, Args: raw, Principal: p,
		Template: s.packages, Limits: a.cfg.Limits}, show)
	if err == nil && res.Status == haft.StatusPending {
		// The client is answered that it is refused: nobody may agree to it later.
		if err := a.cfg.Cancel(context.WithoutCancel(ctx), p, id); err != nil {
			return nil, false, fmt.Errorf("cancel a call that waits for a person: %w", err)
		}
	}
	return res, shown, err
}

// refusedCall says why a call was not made.
func refusedCall(res *haft.Result) error {
	code, message := haft.CodeInvalid, string(res.Status)
	switch res.Status {
	case haft.StatusSuccess:
		return nil
	case haft.StatusDenied, haft.StatusRejected:
		code = haft.CodeDenied
	case haft.StatusRate:
		code = haft.CodeRateLimited
	case haft.StatusTimeout:
		return errDeadline
	case haft.StatusPending:
		return &haft.Error{Code: haft.CodeDenied, Message: "a person would have to agree to the call, " +
			"which was cancelled: clients of this API cannot wait"}
	case haft.StatusCancelled:
		code = haft.CodeUnavailable
	}
	if res.Error != nil {
		message = res.Error.Message
	}
	return &haft.Error{Code: code, Message: message}
}

// domain returns the domain of sandboxes for an answer.
func (a *API) domain() *string {
	if a.cfg.Domain == "" {
		return nil
	}
	return &a.cfg.Domain
}

func (a controlHandlers) answer(s *sandbox, g grant) sandboxAnswer {
	return sandboxAnswer{ID: s.id, Template: s.template, Client: "haft", Version: envdVersion, Token: g.token,
		Traffic: g.traffic, Domain: a.domain()}
}

func (a controlHandlers) info(s *sandbox) sandboxInfo {
	limits := a.cfg.Limits.Or(haft.DefaultLimits())
	meta := s.metadata
	if meta == nil {
		meta = map[string]string{}
	}
	return sandboxInfo{ID: s.id, Template: s.template, Client: "haft", Started: s.started, Ends: s.endsAt(),
		CPUs: cpus(), Memory: limits.Memory >> 20, Disk: limits.Disk >> 20, Version: envdVersion,
		State: "running", Metadata: meta,
		Domain: a.domain()}
}

func (a controlHandlers) showSandbox(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	s, err := a.own(r.Context(), p, r.PathValue("id"))
	if haft.CodeOf(err) == haft.CodeNotFound {
		k, err := snapshotHandlers{a.API}.paused(r.Context(), p, r.PathValue("id"))
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, a.pausedInfo(k))
		return nil
	}
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, a.info(s))
	return nil
}

// pausedInfo describes a sandbox that is paused.
func (a controlHandlers) pausedInfo(k *kept) sandboxInfo {
	info := a.info(&sandbox{id: strings.TrimPrefix(k.workspace, pausedPrefix), template: k.Template,
		metadata: k.Metadata, started: k.Started, ends: k.changed})
	info.State = "paused"
	return info
}

// listSandboxes lists the sandboxes of p, the newest first.
func (a controlHandlers) listSandboxes(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	live, err := a.live(r.Context(), p)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	want, err := url.ParseQuery(q.Get("metadata"))
	if err != nil {
		return invalid("metadata is no list of key=value")
	}
	states := strings.Split(strings.Join(q["state"], ","), ",")
	in := func(state string) bool { return q.Get("state") == "" || slices.Contains(states, state) }
	all := []sandboxInfo{}
	for s := range live {
		if in("running") {
			all = append(all, a.info(s))
		}
	}
	if in("paused") {
		list, err := snapshotHandlers{a.API}.all(r.Context(), p, pausedPrefix, isID)
		if err != nil {
			return err
		}
		for _, k := range list {
			all = append(all, a.pausedInfo(k))
		}
	}
	all = slices.DeleteFunc(all, func(s sandboxInfo) bool {
		for k := range want {
			if v, has := s.Metadata[k]; !has || v != want.Get(k) {
				return true
			}
		}
		return false
	})
	slices.SortFunc(all, func(a, b sandboxInfo) int {
		return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(a.ID, b.ID))
	})
	if all, err = paged(w, r, all, func(s sandboxInfo) string { return s.ID }); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, all)
	return nil
}

// paged returns the page of a list that a request asks for, and tells the client where the next one begins.
func paged[T any](w http.ResponseWriter, r *http.Request, all []T, id func(T) string) ([]T, error) {
	q, limit := r.URL.Query(), maxPage
	if text := q.Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 {
			return nil, invalid("limit is a number from 1 on")
		}
	}
	if token := q.Get("nextToken"); token != "" {
		all = all[slices.IndexFunc(all, func(x T) bool { return id(x) == token })+1:]
	}
	if limit = min(limit, maxPage); len(all) > limit {
		all = slices.Clone(all[:limit]) // the others are not kept in memory while it is sent
		w.Header().Set("X-Next-Token", id(all[limit-1]))
	}
	return all, nil
}

func (a controlHandlers) endSandbox(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	s, err := a.own(r.Context(), p, r.PathValue("id"))
	if haft.CodeOf(err) == haft.CodeNotFound {
		if err = (snapshotHandlers{a.API}).endPaused(r.Context(), p, r.PathValue("id")); err == nil {
			w.WriteHeader(http.StatusNoContent)
		}
	}
	if err != nil || s == nil {
		return err
	}
	a.drop(s) // first: nothing is begun in it while it ends
	err = a.cfg.Sessions.EndSession(r.Context(), p, s.session)
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	// Whoever keeps its files fails by now, unless it has just been paused.
	ctx, keep := context.WithoutCancel(r.Context()), snapshotHandlers{a.API}
	leave, err := keep.enter(ctx, keyOf(p, s.id), true)
	if err != nil {
		return err
	}
	defer leave()
	if err := keep.removePaused(ctx, p, s.id); err != nil && haft.CodeOf(err) != haft.CodeNotFound {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// extend sets how long a sandbox lives from now on.
func (a controlHandlers) extend(ctx context.Context, p haft.Principal, s *sandbox, ttl haft.Millis) error {
	info, err := a.cfg.Sessions.ExtendSession(ctx, p, s.session, ttl, 0)
	if err != nil {
		return err
	}
	s.setEnd(info.Expires)
	return nil
}

func (a controlHandlers) setTimeout(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	return a.withTime(w, r, p, false, func(s *sandbox, ttl haft.Millis) error {
		if err := a.extend(r.Context(), p, s, ttl); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
}

// withTime reads a request that has a time for a sandbox of p, and resumes the sandbox if it is paused and may be.
func (a controlHandlers) withTime(w http.ResponseWriter, r *http.Request, p haft.Principal, resume bool,
	do func(*sandbox, haft.Millis) error) error {
	var in struct {
		Timeout  *int64 `json:"timeout"`
		Duration *int64 `json:"duration"`
	}
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	s, err := a.own(r.Context(), p, r.PathValue("id"))
	gone := haft.CodeOf(err) == haft.CodeNotFound
	if err != nil && !(gone && resume) {
		return err
	}
	ttl, err := lifetime(cmp.Or(in.Timeout, in.Duration))
	if err != nil {
		return err
	}
	if gone {
		if s, err = (snapshotHandlers{a.API}).resume(r.Context(), p, r.PathValue("id"), ttl); err != nil {
			return err
		}
	}
	return do(s, ttl)
}

// refresh is setTimeout of older clients: it never shortens the time.
func (a controlHandlers) refresh(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	return a.withTime(w, r, p, false, func(s *sandbox, ttl haft.Millis) error {
		if err := a.prolong(r.Context(), p, s, ttl); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
}

// prolong lets a sandbox live longer, and never shorter.
func (a controlHandlers) prolong(ctx context.Context, p haft.Principal, s *sandbox, ttl haft.Millis) error {
	if !time.Now().Add(ttl.D()).After(s.endsAt()) {
		return nil
	}
	return a.extend(ctx, p, s, ttl)
}

// connect gives a client a sandbox that runs, or that is paused. One that was paused is as if it were made now.
func (a controlHandlers) connect(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	running := a.sandbox(r.PathValue("id")) != nil
	return a.withTime(w, r, p, true, func(s *sandbox, ttl haft.Millis) error {
		if err := a.prolong(r.Context(), p, s, ttl); err != nil {
			return err
		}
		g, err := s.grantTo(p)
		if err != nil {
			return err
		}
		status := http.StatusOK
		if !running {
			status = http.StatusCreated
		}
		writeJSON(w, status, a.answer(s, g))
		return nil
	})
}
