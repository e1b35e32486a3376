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

// routes registers them.
func (a controlHandlers) routes() {
	for pattern, route := range map[string]struct {
		action haft.Action
		serve  func(w http.ResponseWriter, r *http.Request, p haft.Principal) error
	}{
		"POST /sandboxes":                 {haft.CallsWrite, a.createSandbox},
		"POST /v2/sandboxes":              {haft.CallsWrite, a.createSandbox},
		"GET /sandboxes":                  {haft.CallsRead, a.listSandboxes},
		"GET /v2/sandboxes":               {haft.CallsRead, a.listSandboxes},
		"GET /sandboxes/{id}":             {haft.CallsRead, a.showSandbox},
		"DELETE /sandboxes/{id}":          {haft.CallsWrite, a.endSandbox},
		"POST /sandboxes/{id}/timeout":    {haft.CallsWrite, a.setTimeout},
		"POST /sandboxes/{id}/refreshes":  {haft.CallsWrite, a.refresh},
		"POST /sandboxes/{id}/connect":    {haft.CallsWrite, a.connect},
		"POST /v2/sandboxes/{id}/connect": {haft.CallsWrite, a.connect},
		"GET /sandboxes/{id}/metrics":     {haft.CallsWrite, a.metrics},
		"GET /v2/sandboxes/{id}/metrics":  {haft.CallsWrite, a.metrics},
		"POST /sandboxes/{id}/pause":      {haft.CallsWrite, a.cannot("pause: a session has no state on disk")},
		"POST /v2/sandboxes/{id}/pause":   {haft.CallsWrite, a.cannot("pause: a session has no state on disk")},
		"POST /sandboxes/{id}/fork":       {haft.CallsWrite, a.cannot("fork sandboxes")},
		"POST /sandboxes/{id}/snapshots":  {haft.CallsWrite, a.cannot("make snapshots: use workspaces")},
		"PUT /sandboxes/{id}/network":     {haft.CallsWrite, a.cannot("change the network: policy decides it")},
		"POST /templates":                 {haft.CallsWrite, cannotBuild},
		"POST /v2/templates":              {haft.CallsWrite, cannotBuild},
		"POST /v3/templates":              {haft.CallsWrite, cannotBuild},
	} {
		a.control.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			p, err := a.identify(w, r, route.action)
			if err == nil {
				err = route.serve(w, r, p)
			}
			if err != nil {
				faultOf(err).write(w, r.PathValue("id"))
			}
		})
	}
	a.control.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_, err := a.identify(w, r, haft.CallsRead)
		if err == nil {
			err = errNoRoute
		}
		faultOf(err).write(w, "")
	})
}

// cannot answers operations on a sandbox that are not here, with what it cannot do.
func (a controlHandlers) cannot(do string) func(http.ResponseWriter, *http.Request, haft.Principal) error {
	return func(_ http.ResponseWriter, r *http.Request, p haft.Principal) error {
		if _, err := a.own(r.Context(), p, r.PathValue("id")); err != nil {
			return err
		}
		return &fault{code: "unimplemented", status: http.StatusNotImplemented, message: "this server cannot " + do}
	}
}

// cannotBuild answers operations on templates.
func cannotBuild(http.ResponseWriter, *http.Request, haft.Principal) error {
	return &fault{code: "unimplemented", status: http.StatusNotImplemented,
		message: "this server builds no templates: the packages of sandboxes are those of the organisation's sandbox " +
			"configuration"}
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
	case !slices.Contains(templates, in.Template):
		return missing("there is no such template; there are " + strings.Join(templates, " and "))
	case in.Paused || len(in.Volumes) > 0:
		return invalid("sandboxes cannot be paused, and have no volumes")
	}
	if _, err := a.live(r.Context(), p); err != nil { // it drops those that have ended
		return err
	}
	s := a.newSandbox(p, &in)
	if err := a.open(r.Context(), s, ttl); err != nil {
		s.cancel()
		return err
	}
	g, err := s.grantTo(p)
	if err != nil {
		return err
	}
	a.add(s)
	writeJSON(w, http.StatusCreated, a.answer(s, g))
	return nil
}

// templates are the names of E2B's own templates. All are the same sandbox.
var templates = []string{"base", "code-interpreter-v1", "code-interpreter-beta"}

// open makes the session of a sandbox, by a call.
func (a controlHandlers) open(ctx context.Context, s *sandbox, ttl haft.Millis) error {
	args := map[string]any{"session": s.id, "argv": []string{"true"}, "tty": true}
	res, _, err := a.call(ctx, s.owner, "run_command", haft.NewCallID(), args, func(haft.Event) {})
	if err == nil {
		err = refusedCall(res)
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
func (a *API) call(ctx context.Context, p haft.Principal, tool string, id haft.CallID, args map[string]any,
	show func(haft.Event)) (*haft.Result, bool, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, false, fmt.Errorf("encode the arguments of a call: %w", err)
	}
	res, shown, err := a.cfg.Call(ctx, haft.Call{ID: id, Tool: tool, Args: raw, Principal: p, Limits: a.cfg.Limits},
		show)
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
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, a.info(s))
	return nil
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
	states := strings.Join(q["state"], ",")
	limit := maxPage
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 {
			return invalid("limit is a number from 1 on")
		}
	}
	all := []*sandbox{}
	for s := range live {
		if states == "" || slices.Contains(strings.Split(states, ","), "running") {
			all = append(all, s)
		}
	}
	all = slices.DeleteFunc(all, func(s *sandbox) bool {
		for k := range want {
			if v, has := s.metadata[k]; !has || v != want.Get(k) {
				return true
			}
		}
		return false
	})
	slices.SortFunc(all, func(a, b *sandbox) int {
		return cmp.Or(b.started.Compare(a.started), cmp.Compare(a.id, b.id))
	})
	if token := q.Get("nextToken"); token != "" {
		at := slices.IndexFunc(all, func(s *sandbox) bool { return s.id == token })
		all = all[at+1:]
	}
	if limit = min(limit, maxPage); len(all) > limit {
		all = all[:limit]
		w.Header().Set("X-Next-Token", all[limit-1].id)
	}
	out := make([]sandboxInfo, 0, len(all))
	for _, s := range all {
		out = append(out, a.info(s))
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

func (a controlHandlers) endSandbox(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	s, err := a.own(r.Context(), p, r.PathValue("id"))
	if err != nil {
		return err
	}
	a.drop(s) // first: nothing is begun in it while it ends
	err = a.cfg.Sessions.EndSession(r.Context(), p, s.session)
	if err != nil && haft.CodeOf(err) != haft.CodeNotFound {
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
	return a.withTime(w, r, p, func(s *sandbox, ttl haft.Millis) error {
		if err := a.extend(r.Context(), p, s, ttl); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	})
}

// withTime reads a request that has a time for a sandbox of p.
func (a controlHandlers) withTime(w http.ResponseWriter, r *http.Request, p haft.Principal,
	do func(*sandbox, haft.Millis) error) error {
	var in struct {
		Timeout  *int64 `json:"timeout"`
		Duration *int64 `json:"duration"`
	}
	if err := readJSON(w, r, &in); err != nil {
		return err
	}
	s, err := a.own(r.Context(), p, r.PathValue("id"))
	if err != nil {
		return err
	}
	ttl, err := lifetime(cmp.Or(in.Timeout, in.Duration))
	if err != nil {
		return err
	}
	return do(s, ttl)
}

// refresh is setTimeout of older clients: it never shortens the time.
func (a controlHandlers) refresh(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	return a.withTime(w, r, p, func(s *sandbox, ttl haft.Millis) error {
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

func (a controlHandlers) connect(w http.ResponseWriter, r *http.Request, p haft.Principal) error {
	return a.withTime(w, r, p, func(s *sandbox, ttl haft.Millis) error {
		if err := a.prolong(r.Context(), p, s, ttl); err != nil {
			return err
		}
		g, err := s.grantTo(p)
		if err != nil {
			return err
		}
		writeJSON(w, http.StatusOK, a.answer(s, g))
		return nil
	})
}
