package e2b

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"haft"
)

// A sandbox is a session of its owner, which is named by the id of the sandbox.
type sandbox struct {
	id, template  string
	packages      string // the template of the sandbox configuration that its packages come from
	session       string // the id of the session: its name would make another when it has ended
	owner         haft.Principal
	metadata, env map[string]string
	started       time.Time
	ctx           context.Context // ends with the sandbox
	cancel        context.CancelFunc
	timer         *time.Timer // drops the sandbox at its end

	held atomic.Int64 // bytes of output of its commands that clients have not been sent yet

	mu        sync.Mutex
	grants    []grant // one for each credential that made the sandbox, or connected to it
	ends      time.Time
	processes map[*process]bool
	contexts  map[string]*codeContext
	watchers  map[string]*watcher
}

// A grant is what a credential of the owner got for a sandbox: the rights to do everything, and to use
// ports, as far as the credential reaches.
type grant struct {
	token, traffic string
	holder         haft.Principal
}

// maxGrants bounds the credentials that are connected to a sandbox.
const maxGrants = 64

// grantTo returns the grant of a credential. One key never gets the tokens of another, which may be
// good for more.
func (s *sandbox) grantTo(p haft.Principal) (grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.grants {
		if g.holder.Credential == p.Credential {
			return g, nil
		}
	}
	if len(s.grants) >= maxGrants {
		return grant{}, &haft.Error{Code: haft.CodeRateLimited,
			Message: fmt.Sprintf("a sandbox is used with at most %d keys", maxGrants)}
	}
	g := grant{rand.Text(), rand.Text(), p}
	s.grants = append(s.grants, g)
	return g, nil
}

// granted returns the first grant that a request matches.
func (s *sandbox) granted(match func(grant) bool) (grant, bool) {
	s.mu.Lock()
	list := s.grants
	s.mu.Unlock()
	if i := slices.IndexFunc(list, match); i >= 0 {
		return list[i], true
	}
	return grant{}, false
}

// newSandbox returns a sandbox that has no session yet.
func (a *API) newSandbox(p haft.Principal, in *newSandbox) *sandbox {
	s := &sandbox{
		id: "i" + strings.ToLower(rand.Text())[:20], template: in.Template, owner: p,
		metadata: in.Metadata, env: in.Env, started: time.Now().UTC(), processes: map[*process]bool{},
		contexts: map[string]*codeContext{}, watchers: map[string]*watcher{},
	}
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(a.ctx)
	s.timer = time.AfterFunc(maxIdle.D(), func() {
		if !s.endsAt().After(time.Now()) { // it may have been set while the timer ran out
			a.drop(s)
		}
	})
	s.cancel = func() { s.timer.Stop(); cancel() }
	return s
}

// sandbox returns the sandbox of this id, or nil if its time is over.
func (a *API) sandbox(id string) *sandbox {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sandboxes[id]
	if s == nil || !s.endsAt().After(time.Now()) {
		return nil
	}
	return s
}

// endsAt returns when the sandbox ends.
func (s *sandbox) endsAt() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ends
}

// setEnd notes when the sandbox ends.
func (s *sandbox) setEnd(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = at
	s.timer.Reset(time.Until(at))
}

// owned reports whether the sandbox is p's own, as the session is.
func (s *sandbox) owned(p haft.Principal) bool {
	return p.Owner() != "" && p.Org == s.owner.Org && p.Owner() == s.owner.Owner() && p.Agent == s.owner.Agent
}

// own returns a sandbox of p that lives.
func (a *API) own(ctx context.Context, p haft.Principal, id string) (*sandbox, error) {
	s := a.sandbox(id)
	if s == nil || !s.owned(p) {
		return nil, missing("there is no such sandbox")
	}
	alive, err := a.alive(ctx, p, s)
	if err != nil {
		return nil, err
	}
	if !alive {
		return nil, missing("there is no such sandbox")
	}
	return s, nil
}

// alive reports whether the session of a sandbox lives. A sandbox whose session has ended is dropped.
func (a *API) alive(ctx context.Context, p haft.Principal, s *sandbox) (bool, error) {
	live, err := a.live(ctx, p)
	return live[s], err
}

// live returns the sandboxes of p whose sessions live, and drops the others of p.
func (a *API) live(ctx context.Context, p haft.Principal) (map[*sandbox]bool, error) {
	a.mu.Lock()
	known := maps.Clone(a.sandboxes) // one that is made meanwhile may not be among the sessions
	a.mu.Unlock()
	list, err := a.cfg.Sessions.Sessions(ctx, p)
	if err != nil {
		return nil, err
	}
	sessions := map[string]haft.Session{}
	for _, one := range list {
		sessions[one.ID] = one
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	live := map[*sandbox]bool{}
	for id, s := range known {
		one, lives := sessions[s.session]
		switch {
		case !s.owned(p):
		case lives && one.Expires.After(time.Now()):
			s.setEnd(one.Expires)
			live[s] = true
		default:
			if a.sandboxes[id] == s {
				delete(a.sandboxes, id)
			}
			s.cancel()
		}
	}
	return live, nil
}

// drop forgets a sandbox.
func (a *API) drop(s *sandbox) {
	s.cancel()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.sandboxes[s.id] == s {
		delete(a.sandboxes, s.id)
	}
}

// add keeps a sandbox whose session is there. It takes the id of no sandbox that lives.
func (a *API) add(s *sandbox) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.sandboxes[s.id]; old != nil {
		if old.endsAt().After(time.Now()) {
			return &haft.Error{Code: haft.CodeUnavailable, Message: "the id of the sandbox is taken"}
		}
		old.cancel()
	}
	a.sandboxes[s.id] = s
	return nil
}

// signer returns the sandbox whose token has signed the address of a file, or nil.
func (a *API) signer(r *http.Request) *sandbox {
	sig, ok := readSignature(r)
	if !ok {
		return nil
	}
	a.mu.Lock()
	list := maps.Clone(a.sandboxes)
	a.mu.Unlock()
	for _, s := range list {
		if _, signed := s.signed(sig, time.Now()); signed && s.endsAt().After(time.Now()) {
			return s
		}
	}
	return nil
}

// A signature is that of the address of a file, and what is signed beside the token.
type signature struct{ path, operation, user, expiry, text string }

// maxField bounds the name of a user, and an expiry, in the address of a file.
const maxField = 64

// readSignature reads the signature of the address of a file, and reports whether it can be one: many
// tokens are held against it.
func readSignature(r *http.Request) (signature, bool) {
	q := r.URL.Query()
	sig := signature{path: q.Get("path"), operation: "read", user: q.Get("username"),
		expiry: q.Get("signature_expiration"), text: q.Get("signature")}
	if r.Method == http.MethodPost {
		sig.operation = "write"
	}
	digest, marked := strings.CutPrefix(sig.text, "v1_")
	return sig, marked && len(digest) == base64.RawStdEncoding.EncodedLen(sha256.Size) && len(sig.path) <= maxPath &&
		len(sig.user) <= maxField && len(sig.expiry) <= maxField
}

// signed returns the grant that has signed the address of a file.
func (s *sandbox) signed(sig signature, now time.Time) (grant, bool) {
	if at, err := strconv.ParseInt(sig.expiry, 10, 64); sig.expiry != "" && (err != nil || now.Unix() >= at) {
		return grant{}, false
	}
	return s.granted(sig.isBy)
}

// isBy reports whether a grant has made the signature.
func (sig signature) isBy(g grant) bool {
	text := sig.path + ":" + sig.operation + ":" + sig.user + ":" + g.token
	if sig.expiry != "" {
		text += ":" + sig.expiry
	}
	sum := sha256.Sum256([]byte(text))
	return same(sig.text, "v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
}
