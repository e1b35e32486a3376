package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"time"

	"haft"
	"haft/client"
	"haft/internal/audit"
	"haft/internal/auth"
	"haft/internal/secret"
	"haft/internal/secret/vault"
	"haft/policy"
)

// remote is the system of a server.
type remote struct{ *client.Client }

var _ system = (*remote)(nil)

// remote reports whether commands work on a server. A directory or a database on
// the command line wins over the environment.
func (p *persona) remote() bool {
	return p.server != "" && (p.given("server") || !p.given("data") && !p.given("database"))
}

// dial opens the system of a server. It is asked who the key is, so that a key that
// is not good, and one of somebody else than was meant, does nothing.
func (p *persona) dial(ctx context.Context, std streams) (*session, error) {
	if p.given("server") && (p.given("data") || p.given("database")) {
		return nil, usage(errors.New("--server is a system of its own: leave --data and --database out"))
	}
	if p.given("allow-reduced") {
		return nil, usage(errors.New("--allow-reduced is decided where tools run: " +
			"start the server with it, haft serve --allow-reduced"))
	}
	key, err := p.key(std)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{URL: p.server, Key: key, Name: "haft/" + version})
	if err != nil {
		return nil, usage(fmt.Errorf("--server: %w", err))
	}
	self, err := c.Self(ctx)
	if err != nil {
		switch haft.CodeOf(err) {
		case haft.CodeUnauthenticated:
			err = advise(err, "give the key with --key-file FILE or in $HAFT_KEY; haft serve writes the first one "+
				"to admin.key in its data directory")
		case haft.CodeUnavailable, haft.CodeNotFound:
			err = advise(err, "look whether a Haft server is at "+p.server+"; start one with: haft serve")
		}
		return nil, errors.Join(err, c.Close())
	}
	who, err := p.whom(self.Principal)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &session{system: &remote{c}, p: who, own: self.Principal, std: std, as: p}, nil
}

// key reads the key for the server. It never stands on the command line, which
// others on the machine can read.
func (p *persona) key(std streams) (string, error) {
	text := os.Getenv("HAFT_KEY")
	if p.keyFile != "" && (p.given("key-file") || text == "") {
		raw, err := readBounded(p.keyFile, 64<<10)
		if err != nil {
			return "", usage(fmt.Errorf("read the key: %w", err))
		}
		if info, err := os.Stat(p.keyFile); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			fmt.Fprintf(std.err, "note: %s can be read by others on this machine\n", p.keyFile)
		}
		text = string(raw)
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", usage(errors.New("a server wants a key: give it with --key-file FILE or in $HAFT_KEY; haft serve " +
			"writes the first one to admin.key in its data directory"))
	}
	return text, nil
}

// whom returns on whose behalf the command works on a server: whom the key is for.
// Flags and environment may say the same, and an agent that the key may act as. Who
// is only asked about may be anybody.
func (p *persona) whom(own haft.Principal) (haft.Principal, error) {
	who, said := own, p.principal()
	if err := said.Check(); err != nil {
		return who, err
	}
	if p.agent != "" {
		who.Agent = p.agent
	}
	named := map[string]bool{
		"--org":  (p.given("org") || os.Getenv("HAFT_ORG") != "") && said.Org != own.Org,
		"--user": p.user != "" && said.User != own.User,
		"--role": (len(p.roles) > 0 || os.Getenv("HAFT_ROLES") != "") && !sameSet(said.Roles, own.Roles),
	}
	if p.asIf {
		if named["--user"] {
			who.User = said.User
		}
		if named["--role"] {
			who.Roles = said.Roles
		}
		named["--user"], named["--role"] = false, false
	}
	for _, flag := range []string{"--org", "--user", "--role"} {
		if named[flag] {
			return who, usage(fmt.Errorf("the key is of user %s of %s with the roles [%s], and %s says otherwise: "+
				"on a server the key says who asks",
				own.User, own.Org, strings.Join(own.Roles, " "), flag))
		}
	}
	return who, nil
}

// sameSet reports whether two lists have the same texts.
func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(slices.Compact(a), slices.Compact(b))
}

// End implements follower. What was acknowledged is the server's.
func (r *remote) End(context.Context) error { return r.Close() }

// Owe implements follower.
func (r *remote) Owe(string, haft.CallID) {}

// Call implements haft.Caller. The server cancels a call that nobody waits for.
func (r *remote) Call(ctx context.Context, c haft.Call) (*haft.Result, error) {
	res, err := r.Client.Call(ctx, c)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, &exit{exitCancelled, errors.New("the server was told to cancel the call")}
	case errors.Is(err, client.ErrMaybeDone):
		return nil, &exit{exitUnknown, err}
	}
	return res, err
}

// Stream implements follower.
func (r *remote) Stream(ctx context.Context, c haft.Call, show func(haft.Event)) (*haft.Result, bool, error) {
	rec, err := r.Submit(ctx, c)
	if err != nil || rec.Result != nil {
		return rec0(rec), false, err
	}
	shown := false
	for e, err := range r.Client.WatchCall(ctx, c.Principal, rec.Call.ID, 0) {
		if err != nil {
			break // the result says all
		}
		show(e)
		if shown = ends(e); shown {
			break
		}
	}
	if ctx.Err() != nil {
		// It was submitted, and would run on.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		if err := r.Cancel(ctx, c.Principal, rec.Call.ID); err != nil {
			return nil, shown, err
		}
	}
	res, err := r.Wait(ctx, c.Principal, rec.Call.ID)
	return res, shown, err
}

// rec0 is the result of a record, if there is one.
func rec0(r *haft.Record) *haft.Result {
	if r == nil {
		return nil
	}
	return r.Result
}

// WatchCall implements follower.
func (r *remote) WatchCall(ctx context.Context, p haft.Principal, id haft.CallID) iter.Seq2[haft.Event, error] {
	return r.Client.WatchCall(ctx, p, id, 0)
}

// Explain implements ruler.
func (r *remote) Explain(ctx context.Context, c haft.Call) (d policy.Decision, err error) {
	raw, err := r.Client.Explain(ctx, c)
	if err != nil {
		return d, err
	}
	return d, understood(json.Unmarshal(raw, &d))
}

// understood says that an answer of the server is not what this command knows.
func understood(err error) error {
	if err == nil {
		return nil
	}
	return &haft.Error{Code: haft.CodeUnavailable, Message: "the answer is not one of a Haft server of this version",
		Err: err}
}

// ExportAudit implements witness. What arrives is verified on its way.
func (r *remote) ExportAudit(ctx context.Context, p haft.Principal, w io.Writer) (audit.Report, error) {
	return r.fetchAudit(ctx, p, w, nil)
}

// fetchAudit writes an export to w, and verifies it.
func (r *remote) fetchAudit(ctx context.Context, p haft.Principal, w io.Writer,
	marks []audit.Mark) (audit.Report, error) {
	keys, err := r.auditKeys(ctx, p)
	if err != nil {
		return audit.Report{}, err
	}
	in, out := io.Pipe()
	type outcome struct {
		rep audit.Report
		err error
	}
	read := make(chan outcome, 1)
	go func() {
		rep, err := audit.Read(in, p.Org, keys, marks, nil)
		_, _ = io.Copy(io.Discard, in) // who writes must not wait for a reader that has left
		read <- outcome{rep, err}
	}()
	err = r.Client.ExportAudit(ctx, p, haft.AuditFilter{}, io.MultiWriter(w, out))
	// A pipe that is closed by who writes never fails.
	_ = out.CloseWithError(err)
	got := <-read
	if err == nil {
		err = got.err
	}
	return got.rep, err
}

// VerifyAudit implements witness.
func (r *remote) VerifyAudit(ctx context.Context, p haft.Principal, marks []audit.Mark) (audit.Report, error) {
	return r.fetchAudit(ctx, p, io.Discard, marks)
}

// auditKeys returns the keys that prove the audit.
func (r *remote) auditKeys(ctx context.Context, p haft.Principal) (audit.Keys, error) {
	text, err := r.AuditKeys(ctx, p)
	if err != nil {
		return nil, err
	}
	return audit.ParseKeys(text)
}

// FindAudit implements witness.
func (r *remote) FindAudit(ctx context.Context, p haft.Principal, f haft.AuditFilter) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		for raw, err := range r.AuditEntries(ctx, p, f) {
			var e audit.Entry
			if err == nil {
				err = understood(json.Unmarshal(raw, &e))
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// BindSecret implements confidant.
func (r *remote) BindSecret(ctx context.Context, p haft.Principal, agent, name string, v secret.Value,
	b *secret.Binding) error {
	return r.Client.BindSecret(ctx, p, agent, name, v.Reveal(), b)
}

// Secrets implements confidant.
func (r *remote) Secrets(ctx context.Context, p haft.Principal, agent string) ([]secret.Info, error) {
	list, err := r.Client.Secrets(ctx, p, agent)
	out := make([]secret.Info, len(list))
	for i, s := range list {
		out[i] = secret.Info(s)
	}
	return out, err
}

// RotateSecrets implements confidant.
func (r *remote) RotateSecrets(context.Context, haft.Principal, vault.RotateConfig) (vault.Rotation, error) {
	return vault.Rotation{},
		usage(errors.New("the keys of secrets are where the server keeps its data: rotate them there, with --data"))
}

// Keys implements issuer.
func (r *remote) Keys(ctx context.Context, p haft.Principal) iter.Seq2[auth.Key, error] {
	return r.Client.Keys(ctx, p)
}
